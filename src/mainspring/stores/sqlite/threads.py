"""The two threads of a store, each with a connection of its own: one writes, one reads.

The writer takes the write lock first and then everything that has arrived meanwhile, runs it in one transaction and
answers after the commit: many callers share one wait for the disk. When a step fails, the transaction is rolled back
and each step is run again in one of its own, so that nobody pays for a neighbour's mistake.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from ...core.ports import Clock, Topic
from .calls import Call, Mailbox, Post
from .connect import begin, explained
from .transaction import Transaction

CALLS_PER_COMMIT = 256
_YIELD = 0.001  # seconds a writer steps back after a commit when others want the lock
_CONTENDED_FOR = 1.0  # seconds after which contention is forgotten

Tell = Callable[[Post, set[Topic]], None]


class ConnectionThread:
    """A thread that owns one connection and serves what arrives in its mailbox."""

    def __init__(self, name: str, path: str, connect: Callable[[], sqlite3.Connection], clock: Clock) -> None:
        self.ready: Future[None] = Future()
        self.ended: Future[None] = Future()
        self.mailbox = Mailbox()
        self._path, self._connect, self._clock = path, connect, clock
        self._pause = threading.Event()
        self._paused = threading.Event()
        self._resume = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        self._thread.join()

    def pause(self) -> None:
        """Begin to let go of the connection: nothing of it may be carried across a fork."""
        self._resume.clear()
        self._pause.set()
        self.mailbox.nudge()

    def await_paused(self, seconds: float) -> bool:
        return self._paused.wait(seconds)

    def resume(self) -> None:
        self._pause.clear()
        self._resume.set()

    def _run(self) -> None:
        try:
            self._work()
        except Exception as error:
            if not self.ready.done():
                self.ready.set_exception(error)
            self._turn_away(error)
        finally:
            self._paused.set()
            self.ended.set_result(None)

    def _work(self) -> None:
        connection = self._connect()
        try:
            self.ready.set_result(None)
            while self.mailbox.wait(self._idle_wait()):
                if self._pause.is_set():
                    connection = self._sit_out(connection)
                self._serve(connection)
        finally:
            connection.close()

    def _turn_away(self, error: Exception) -> None:
        """There is no connection any more: nobody may wait for an answer."""
        self.mailbox.close()
        post = Post()
        while len(self.mailbox):
            for call in self.mailbox.take(CALLS_PER_COMMIT):
                call.error = error
                post.answer(call)
        post.send()

    def _sit_out(self, connection: sqlite3.Connection) -> sqlite3.Connection:
        connection.close()
        self._paused.set()
        self._resume.wait()
        self._paused.clear()
        return self._connect()

    def _idle_wait(self) -> float | None:
        return None

    def _serve(self, connection: sqlite3.Connection) -> None:
        raise NotImplementedError


class Reader(ConnectionThread):
    """Runs what has arrived in one snapshot: reads never wait for writes."""

    def _serve(self, connection: sqlite3.Connection) -> None:
        calls = self.mailbox.take(CALLS_PER_COMMIT)
        if not calls:
            return
        post = Post()
        connection.execute("BEGIN")
        tx = Transaction(connection, self._clock)
        for call in calls:
            attempt(call, tx, self._path)
            post.answer(call)
        _roll_back(connection)
        post.send()


class Writer(ConnectionThread):
    def __init__(
        self,
        name: str,
        path: str,
        connect: Callable[[], sqlite3.Connection],
        clock: Clock,
        *,
        patience: float,
        watch_interval: float,
        tell: Tell,
        watched: Callable[[], bool],
    ) -> None:
        super().__init__(name, path, connect, clock)
        self._patience, self._watch_interval = patience, watch_interval
        self._tell, self._watched = tell, watched
        self._data_version: int | None = None
        self._news = False
        self._tell_again = 0.0
        self._contended_until = 0.0

    def _sit_out(self, connection: sqlite3.Connection) -> sqlite3.Connection:
        self._data_version = None  # each connection counts on its own
        return super()._sit_out(connection)

    def _idle_wait(self) -> float | None:
        return self._watch_interval if self._watched() else None

    def _serve(self, connection: sqlite3.Connection) -> None:
        if len(self.mailbox):
            self._commit_batch(connection)
        self._look(connection)
        if self._news and self._watched() and time.monotonic() >= self._tell_again:
            self._spread_news()

    def _look(self, connection: sqlite3.Connection) -> None:
        """`data_version` moves when another connection has committed, never for commits of this one."""
        try:
            [version] = connection.execute("PRAGMA data_version").fetchone()
        except sqlite3.Error:
            return  # the next call will tell what is wrong
        if version != self._data_version:
            if self._data_version is not None:
                self._contended_until = time.monotonic() + _CONTENDED_FOR
            self._data_version = version
            self._news = True

    def _spread_news(self) -> None:
        self._news = False
        self._tell_again = time.monotonic() + self._watch_interval
        post = Post()
        self._tell(post, {Topic.ANY})
        post.send()

    def _commit_batch(self, connection: sqlite3.Connection) -> None:
        try:
            self._begin(connection)
        except Exception as error:
            self._refuse(self.mailbox.take(CALLS_PER_COMMIT), error)
            return
        calls = self.mailbox.take(CALLS_PER_COMMIT)
        topics = self._together(connection, calls)
        if topics is None:
            topics = self._one_by_one(connection, calls)
        self._deliver(calls, topics)
        if time.monotonic() < self._contended_until:
            time.sleep(_YIELD)

    def _begin(self, connection: sqlite3.Connection) -> None:
        if begin(connection, self._path, self._patience):
            self._contended_until = time.monotonic() + _CONTENDED_FOR

    def _together(self, connection: sqlite3.Connection, calls: list[Call[Any]]) -> set[Topic] | None:
        """All calls in the transaction that has begun. None: one of them failed and nothing was done."""
        tx = Transaction(connection, self._clock)
        try:
            for call in calls:
                tx.tick()
                call.result, call.error = call.work(tx), None
            tx.flush()
            connection.execute("COMMIT")
        except Exception as error:
            _roll_back(connection)
            if len(calls) == 1:
                calls[0].error = explained(error, self._path)
                return set()
            return None
        for step in tx.after_commit:
            step()
        return tx.topics

    def _one_by_one(self, connection: sqlite3.Connection, calls: list[Call[Any]]) -> set[Topic]:
        topics: set[Topic] = set()
        for call in calls:
            try:
                self._begin(connection)
            except Exception as error:
                call.error = error
                continue
            topics |= self._together(connection, [call]) or set()
        return topics

    def _refuse(self, calls: list[Call[Any]], error: Exception) -> None:
        for call in calls:
            call.error = error
        self._deliver(calls, set())

    def _deliver(self, calls: list[Call[Any]], topics: set[Topic]) -> None:
        post = Post()
        for call in calls:
            post.answer(call)
        if topics:
            self._tell(post, topics)
        post.send()


def attempt(call: Call[Any], tx: Transaction, path: str) -> None:
    try:
        tx.tick()
        call.result = call.work(tx)
    except Exception as error:
        call.error = explained(error, path)


def _roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")
