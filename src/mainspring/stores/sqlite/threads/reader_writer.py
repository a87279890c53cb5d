"""The two kinds of threads of a store: one writes, the others read.

The writer takes the write lock, then runs all calls that have arrived meanwhile in one transaction and answers after
the commit: many callers share one wait for the disk. If a call fails, the transaction is rolled back and each call runs
again in a transaction of its own, so that one caller's error does not affect the others. It also wakes other processes
after a commit, and its own listeners when another process has committed.
"""

from __future__ import annotations

import sqlite3
import time
from itertools import groupby
from typing import Any

from ....core.ports import Clock, Topic
from ...common.listeners import Listeners
from ..executions.insert import InsertCall, add_all
from ..transaction import Transaction
from .calls import Post, ThreadCall
from .connect import Hurry, begin, explained
from .connection_thread import CALLS_AT_ONCE, Connect, ConnectionThread, Forking
from .wakeups import Pace, Wakeups

_YIELD = 0.001  # seconds a writer steps back after a commit when others want the lock
_CONTENDED_FOR = 1.0  # seconds after which contention is forgotten


class Reader(ConnectionThread):
    """Runs the calls that have arrived in one snapshot. Reads never wait for writes."""

    def _serve(self, connection: sqlite3.Connection) -> None:
        calls = self.mailbox.take(CALLS_AT_ONCE)
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
        connect: Connect,
        clock: Clock,
        *,
        patience: float,
        watch_interval: float,
        listeners: Listeners,
    ) -> None:
        super().__init__(name, path, connect, clock)
        self._patience, self._watch_interval = patience, watch_interval
        self._listeners = listeners
        self._wakeups = Wakeups(path, self.mailbox.nudge)
        self._data_version: int | None = None
        self._news, self._announcement = Pace(), Pace()
        self._contended_until = 0.0

    def _open(self) -> sqlite3.Connection:
        self._data_version = None  # each connection counts on its own
        return super()._open()

    def _work(self) -> None:
        try:
            super()._work()
        finally:
            if self._announcement.asked:
                self._wakeups.send()
            self._wakeups.close()

    def _idle_wait(self) -> float | None:
        waits = [self._announcement.wait] if self._announcement.asked else []
        if self._listeners:
            waits.append(self._news.wait if self._news.asked else self._watch_interval)
        return min(waits, default=None)

    def _serve(self, connection: sqlite3.Connection) -> None:
        if len(self.mailbox):
            self._commit_batch(connection)
        if self._announcement.due():
            self._wakeups.send()
        if self._listeners:
            self._wakeups.listen()
        self._check_for_commits(connection)
        if self._listeners and self._news.due():
            self._spread_news()

    def _check_for_commits(self, connection: sqlite3.Connection) -> None:
        """`data_version` moves when another connection has committed, never for commits of this one."""
        try:
            [version] = connection.execute("PRAGMA data_version").fetchone()
        except sqlite3.Error:
            return  # the next call fails with the same error
        if version != self._data_version:
            if self._data_version is not None:
                self._contended_until = time.monotonic() + _CONTENDED_FOR
            self._data_version = version
            self._news.ask()

    def _spread_news(self) -> None:
        post = Post()
        post.wake(self._listeners, {Topic.ANY})
        post.send()

    def _commit_batch(self, connection: sqlite3.Connection) -> None:
        try:
            self._begin(connection, self._hurry)
        except Forking:
            return  # the calls are served after the fork
        except Exception as error:
            self._refuse(self.mailbox.take(CALLS_AT_ONCE), error)
            return
        calls = self.mailbox.take(CALLS_AT_ONCE)
        topics = self._together(connection, calls)
        if topics is None:
            topics = self._one_by_one(connection, calls)
        self._deliver(calls, topics)
        if time.monotonic() < self._contended_until:
            time.sleep(_YIELD)

    def _begin(self, connection: sqlite3.Connection, hurry: Hurry) -> None:
        if begin(connection, self._path, self._patience, hurry):
            self._contended_until = time.monotonic() + _CONTENDED_FOR

    def _together(self, connection: sqlite3.Connection, calls: list[ThreadCall[Any]]) -> set[Topic] | None:
        """Run all calls in the open transaction. None: one of them failed, and the transaction was rolled back."""
        tx = Transaction(connection, self._clock)
        try:
            for _, group in groupby(calls, key=lambda call: isinstance(call.work, InsertCall)):
                _serve_group(tx, list(group))
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
        tx.after_commit.clear()  # the steps refer to the transaction: a cycle would keep the rows of a claim for long
        return tx.topics

    def _one_by_one(self, connection: sqlite3.Connection, calls: list[ThreadCall[Any]]) -> set[Topic]:
        topics: set[Topic] = set()
        for call in calls:
            try:
                self._begin(connection, self._closing)
            except Exception as error:
                call.error = error
                continue
            topics |= self._together(connection, [call]) or set()
        return topics

    def _deliver(self, calls: list[ThreadCall[Any]], topics: set[Topic]) -> None:
        post = Post()
        for call in calls:
            post.answer(call)
        if topics:
            post.wake(self._listeners, topics)
            self._announcement.ask()
        post.send()


def _serve_group(tx: Transaction, calls: list[ThreadCall[Any]]) -> None:
    """Consecutive calls: either all enqueues, which share their statements, or none."""
    enqueues = [call.work for call in calls if isinstance(call.work, InsertCall)]
    if enqueues:
        tx.tick()
        for call, added in zip(calls, add_all(tx, enqueues), strict=True):
            call.result, call.error = added, None
        return
    for call in calls:
        tx.tick()
        call.result, call.error = call.work(tx), None


def attempt(call: ThreadCall[Any], tx: Transaction, path: str) -> None:
    try:
        tx.tick()
        call.result = call.work(tx)
    except Exception as error:
        call.error = explained(error, path)


def _roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")
