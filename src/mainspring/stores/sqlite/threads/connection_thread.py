"""A thread that owns one connection, and what it takes to let it go: before a fork, and for good."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from ....core.ports import Clock
from ....model.errors import StoreError
from .calls import Call, Mailbox, Post
from .connect import Hurry, explained

CALLS_AT_ONCE = 256
CLOSING_PATIENCE = 1.0  # seconds a store that was asked to close goes on waiting for the write lock
_FIRST_RETRY, _LONGEST_RETRY = 0.02, 2.0  # seconds between tries to open the connection again after a fork

Connect = Callable[[Hurry], sqlite3.Connection]


class Hold:
    """Who forks asks for all connections to be closed; who has one, or is about to, says so.

    Both flags are under one lock: a connection is never opened while a fork is under way, and a fork that follows
    another at once never takes the answer to the first for its own.
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


class Forking(Exception):
    """Waiting for a lock was broken off, because the connection has to be closed for a fork."""


class ConnectionThread:
    """Serves what arrives in its mailbox. `after`: what has to be done before it may connect."""

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
        """Begin to let go of the connection: nothing of it may be carried across a fork."""
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
        while self.mailbox.wait(self._idle_wait()):
            if self._hold.asked:
                return True
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
        """There is no connection and there will be none: nobody may wait for an answer."""
        self.mailbox.close()
        while len(self.mailbox):
            self._refuse(self.mailbox.take(CALLS_AT_ONCE), error)

    def _refuse(self, calls: Sequence[Call[Any]], error: Exception) -> None:
        post = Post()
        for call in calls:
            call.error = error
            post.answer(call)
        post.send()

    def _hurry(self) -> Exception | None:
        """Why not to wait for a lock any longer."""
        return Forking() if self._hold.asked else self._closing()

    def _closing(self) -> Exception | None:
        if self.mailbox.closed_for < CLOSING_PATIENCE:
            return None
        return StoreError(f"{self._path}: the store was closed while another process held the write lock")

    def _idle_wait(self) -> float | None:
        return None

    def _serve(self, connection: sqlite3.Connection) -> None:
        raise NotImplementedError
