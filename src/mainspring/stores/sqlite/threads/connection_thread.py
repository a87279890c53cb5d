"""A thread that owns one connection, and closes it before a fork and for good."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import Any

from ....core.ports import Clock
from ....model.errors import StoreError
from .calls import Mailbox, Post, ThreadCall
from .connect import Hurry, explained

CALLS_AT_ONCE = 256
CLOSING_PATIENCE = 1.0  # seconds a store that was asked to close goes on waiting for the write lock
_FORK_PATIENCE = 10.0  # seconds a fork waits for running transactions before it goes ahead regardless
_FIRST_RETRY, _LONGEST_RETRY = 0.02, 2.0  # seconds between tries to open the connection again after a fork

Connect = Callable[[Hurry], sqlite3.Connection]


class Hold:
    """Lets a fork wait until a thread has closed its connection, and the thread until the fork is over.

    Both flags are under one lock: a connection is never opened while a fork is under way, and of two forks in a row
    the second never takes the answer to the first for its own.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._taken = False
        self.asked = False

    def ask(self) -> None:
        with self._changed:
            self.asked = True

    def await_dropped(self, seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: not self._taken, seconds)

    def give_back(self) -> None:
        with self._changed:
            self.asked = False
            self._changed.notify_all()

    def take(self) -> None:
        """Before a connection is opened: wait until no fork is under way."""
        with self._changed:
            self._changed.wait_for(lambda: not self.asked)
            self._taken = True

    def drop(self) -> None:
        """There is no connection any more."""
        with self._changed:
            self._taken = False
            self._changed.notify_all()


class PageCache:
    """Gives the memory of a connection's page cache back when hardly anybody needs it. Large payloads fill it."""

    LOOK, QUIET, USED = 2.0, 20, 100
    """Seconds between two looks; the most calls in that time that count as quiet; how many calls may fill a cache."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._calls = self._recent = 0
        self._looked = time.monotonic()

    @property
    def wait(self) -> float | None:
        """Seconds until the next look, if there is anything to give back."""
        return self.LOOK if self._calls >= self.USED else None

    def count(self, calls: int) -> None:
        self._calls, self._recent = self._calls + calls, self._recent + calls
        if self._calls < self.USED or time.monotonic() - self._looked < self.LOOK:
            return
        if self._recent <= self.QUIET:
            self._connection.execute("PRAGMA shrink_memory")
            self._calls = 0
        self._recent, self._looked = 0, time.monotonic()


class Forking(Exception):
    """Waiting for a lock was cut short, because the connection has to be closed for a fork."""


class ConnectionThread:
    """Serves the calls that arrive in its mailbox. It connects once `after` is done."""

    def __init__(self, name: str, path: str, connect: Connect, clock: Clock, after: Future[None] | None = None) -> None:
        self.ready: Future[None] = Future()
        self.ended: Future[None] = Future()
        self.mailbox = Mailbox()
        self._path, self._connect, self._clock, self._after = path, connect, clock, after
        self._hold = Hold()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        self._thread.join()

    def pause(self) -> None:
        """Start closing the connection: none may be open across a fork."""
        self._hold.ask()
        self.mailbox.nudge()

    def await_paused(self, seconds: float) -> bool:
        return self._hold.await_dropped(seconds)

    def resume(self) -> None:
        self._hold.give_back()

    def _run(self) -> None:
        try:
            if self._after is not None:
                self._after.result()
            self._work()
        except Exception as error:
            if not self.ready.done():
                self.ready.set_exception(error)
            self._turn_away(error)
        finally:
            self.ended.set_result(None)

    def _work(self) -> None:
        connection: sqlite3.Connection | None = self._open()
        self.ready.set_result(None)
        while connection is not None:
            try:
                forking = self._serve_all(connection)
            finally:
                connection.close()
                self._hold.drop()
            connection = self._reopen() if forking else None

    def _serve_all(self, connection: sqlite3.Connection) -> bool:
        """Until a fork is near (True) or the store is closed."""
        cache = PageCache(connection)
        while self.mailbox.wait(_earliest(self._idle_wait(), cache.wait)):
            if self._hold.asked:
                return True
            cache.count(len(self.mailbox))
            self._serve(connection)
        return False

    def _open(self) -> sqlite3.Connection:
        while True:
            self._hold.take()
            try:
                return self._connect(self._hurry)
            except Forking:
                self._hold.drop()
            except BaseException:
                self._hold.drop()
                raise

    def _reopen(self) -> sqlite3.Connection | None:
        """A connection after a fork, however often it has to be tried. None: the store was closed meanwhile."""
        pause = _FIRST_RETRY
        while True:
            try:
                return self._open()
            except Exception as error:
                if not self._refuse_for(pause, explained(error, self._path)):
                    return None
            pause = min(pause * 2, _LONGEST_RETRY)

    def _refuse_for(self, seconds: float, error: Exception) -> bool:
        """Refuse all calls for a while. False: the store was closed."""
        end = time.monotonic() + seconds
        while True:
            self._refuse(self.mailbox.take(CALLS_AT_ONCE), error)
            if not self.mailbox.wait(max(0.0, end - time.monotonic())):
                return False
            if time.monotonic() >= end:
                return True

    def _turn_away(self, error: Exception) -> None:
        """There will be no connection: refuse all calls."""
        self.mailbox.close()
        while len(self.mailbox):
            self._refuse(self.mailbox.take(CALLS_AT_ONCE), error)

    def _refuse(self, calls: Sequence[ThreadCall[Any]], error: Exception) -> None:
        post = Post()
        for call in calls:
            call.error = error
            post.answer(call)
        post.send()

    def _hurry(self) -> Exception | None:
        """The reason to stop waiting for a lock, if there is one."""
        return Forking() if self._hold.asked else self._closing()

    def _closing(self) -> Exception | None:
        if self.mailbox.closed_for < CLOSING_PATIENCE:
            return None
        return StoreError(f"{self._path}: the store was closed while another process held the write lock")

    def _idle_wait(self) -> float | None:
        return None

    def _serve(self, connection: sqlite3.Connection) -> None:
        raise NotImplementedError


def _earliest(*waits: float | None) -> float | None:
    return min((wait for wait in waits if wait is not None), default=None)


# --- forks ----------------------------------------------------------------------------------------------------------
#
# Before a fork every open store closes its connections; the parent opens them again, the child has none. SQLite keeps
# file locks per process and remembers them in memory. A child that inherits that memory believes in locks it does not
# hold, and could wait for ever, or damage the file, when it opens the same database itself.

_threads: weakref.WeakSet[ConnectionThread] = weakref.WeakSet()
_fork_lock = threading.RLock()  # held from before a fork until after it; a store that opens waits for it


def close_before_forks(threads: Iterable[ConnectionThread]) -> None:
    """Make these threads close their connections before a fork, for as long as they exist."""
    with _fork_lock:
        _threads.update(threads)


def _before_fork() -> None:
    _fork_lock.acquire()
    for thread in list(_threads):
        thread.pause()
    end = time.monotonic() + _FORK_PATIENCE
    for thread in list(_threads):
        thread.await_paused(end - time.monotonic())


def _after_in_parent() -> None:
    for thread in list(_threads):
        thread.resume()
    _fork_lock.release()


def _after_in_child() -> None:
    global _fork_lock
    _fork_lock = threading.RLock()
    _threads.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
