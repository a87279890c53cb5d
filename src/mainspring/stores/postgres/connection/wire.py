"""One connection to a server, driven through libpq itself.

A cursor of psycopg costs a tenth of a millisecond of Python for each statement: it registers with the event loop for
every wait, looks up how to adapt each value, and sets a timer. Here the socket is registered once, values are of the
few kinds our statements have, and one timer serves all statements. That halves what an enqueue costs this process.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import psycopg
from psycopg import errors
from psycopg.adapt import Transformer
from psycopg.pq import ConnStatus, ExecStatus, TransactionStatus

Row: TypeAlias = tuple[Any, ...]
Connection: TypeAlias = psycopg.AsyncConnection[Any]

PREPARED_AT_MOST = 100  # per connection; searches have many forms, and further ones run unprepared
CHECK_INTERVAL = 0.25
"""Seconds after which a wire that waits checks its socket itself. uvloop stops watching a socket that was reset, and
reports it only once, while earlier input may still be unread: a statement that waits for more would never end."""
LARGE = 256 * 1024
"""libpq never shrinks its buffers: a connection that has carried a larger text than this is not kept for long."""
ROWS = 20
"""Rows that are loaded at once, which may be a few megabytes."""
STEP = 0.005
"""Seconds of loading after which other tasks get a turn."""
_FAILED = (ExecStatus.FATAL_ERROR, ExecStatus.BAD_RESPONSE, ExecStatus.EMPTY_QUERY)


class Wire:
    """Runs one statement at a time on the event loop it was made on. `prepares`: the connection is direct, so that
    statements may be prepared."""

    def __init__(self, connection: Connection, patience: float, *, prepares: bool) -> None:
        self.connection = connection
        self._pg = connection.pgconn
        self._patience, self._prepares = patience, prepares
        self._encoding = connection.info.encoding
        self._loop = asyncio.get_running_loop()
        self._socket = self._pg.socket
        self.cut = False  # the server has closed the connection
        self.swollen = False  # it has carried a large text, and keeps the memory for it
        self._watch_stopped = False
        self._prepared: dict[str, bytes] = {}
        self._waiting: asyncio.Future[None] | None = None
        self._results: list[Any] = []
        self._overdue_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._notified: Callable[[str], None] | None = None
        self._broken: asyncio.Future[None] | None = None
        self._transformer = Transformer(connection)
        self._loop.add_reader(self._socket, self._readable)

    @property
    def usable(self) -> bool:
        """Open, and between two statements."""
        return self._pg.status == ConnStatus.OK and self._pg.transaction_status == TransactionStatus.IDLE

    @property
    def lost(self) -> bool:
        return self.connection.broken

    async def fetch(self, text: str, values: Sequence[Any]) -> list[Row]:
        """Run one statement with $1, $2, ... and commit it."""
        given = self._encoded(values)
        name = self._prepared.get(text)
        if name is None and self._prepares and len(self._prepared) < PREPARED_AT_MOST:
            name = await self._prepare(text)
        if name is None:
            self._pg.send_query_params(text.encode(self._encoding), given)
        else:
            self._pg.send_query_prepared(name, given)
        try:
            await self._answer()
        finally:
            self._waiting = None
        result = self._result()
        if not result.ntuples:
            return []
        self._transformer.set_pgresult(result)
        rows, began = list[Row](), self._loop.time()
        for first in range(0, result.ntuples, ROWS):
            rows += self._transformer.load_rows(first, min(first + ROWS, result.ntuples), tuple)
            if self._loop.time() - began > STEP:
                await asyncio.sleep(0)
                began = self._loop.time()
        if any(isinstance(value, str) and len(value) > LARGE for value in rows[0]):
            self.swollen, self._results = True, []
            self._transformer.set_pgresult(None)
        return rows

    async def _prepare(self, text: str) -> bytes:
        name = b"mainspring_%d" % len(self._prepared)
        self._pg.send_prepare(name, text.encode(self._encoding))
        try:
            await self._answer()
        finally:
            self._waiting = None
        self._result()
        self._prepared[text] = name
        return name

    def on_notification(self, callback: Callable[[str], None]) -> None:
        """Call this with the payload of each notification as soon as it arrives."""
        self._notified = callback

    async def wait_unless_cut(self, seconds: float) -> None:
        """Wait so many seconds; raises as soon as the connection is lost."""
        self._broken = broken = self._loop.create_future()
        if not self.cut:
            await asyncio.wait([broken], timeout=seconds)
        if self.cut:
            raise errors.OperationalError("the connection is lost")

    def close(self) -> None:
        """From any thread, and without waiting: the event loop of the wire may be busy, or closed."""
        try:
            here = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            here = False
        if here:
            self._finish()
            return
        try:
            self._loop.call_soon_threadsafe(self._finish)
        except RuntimeError:  # closed, and its readers with it
            self._pg.finish()

    def _finish(self) -> None:
        self._stop_watching()
        if self._timer is not None:
            self._timer.cancel()
        self.connection._closed = True  # as its own `close` does, which cannot be awaited here
        self._pg.finish()

    def _encoded(self, values: Sequence[Any]) -> list[bytes | None]:
        """Texts, numbers and booleans: PostgreSQL reads them as Python writes them. libpq would take a NUL for the
        end of the text."""
        encoding = self._encoding
        given = [
            None if value is None else (value if isinstance(value, str) else str(value)).encode(encoding)
            for value in values
        ]
        for data in given:
            if data is not None and b"\x00" in data:
                raise errors.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes")
            if data is not None and len(data) > LARGE:
                self.swollen = True
        return given

    def _answer(self) -> asyncio.Future[None]:
        """Done when the server has answered what was just sent in full. The caller resets `_waiting` when it stops
        waiting."""
        self._results = []
        self._waiting = waiting = self._loop.create_future()
        self._overdue_at = self._loop.time() + self._patience
        if self._timer is None:
            self._timer = self._loop.call_later(CHECK_INTERVAL, self._check)
        if self._pg.flush():
            self._loop.add_writer(self._socket, self._writable)
        return waiting

    def _result(self) -> Any:
        if not self._results:
            raise errors.OperationalError("the server gave no answer")
        result = self._results[-1]
        if not result.ntuples and result.status in _FAILED:
            raise errors.error_from_result(result, encoding=self._encoding)
        return result

    def _readable(self) -> None:
        pg, waiting = self._pg, self._waiting
        try:
            pg.consume_input()
            if self._notified is not None:
                self._deliver(self._notified)
            if waiting is None:
                return
            while not pg.is_busy():
                result = pg.get_result()
                if result is None:
                    if self._notified is not None:
                        self._deliver(self._notified)
                    self._done(None)
                    return
                self._results.append(result)
        except psycopg.Error as error:
            self._break()  # results that came may not be committed: the server confirms that last
            self._done(None if self._results and self._results[-1].status in _FAILED else error)

    def _deliver(self, callback: Callable[[str], None]) -> None:
        while (notice := self._pg.notifies()) is not None:
            callback(notice.extra.decode(self._encoding))

    def _break(self) -> None:
        self.cut = True
        self._stop_watching()
        if self._broken is not None and not self._broken.done():
            self._broken.set_result(None)

    def _writable(self) -> None:
        try:
            if self._pg.flush():
                return
        except psycopg.Error as error:
            self._break()
            self._done(error)
        else:
            self._loop.remove_writer(self._socket)

    def _done(self, error: Exception | None) -> None:
        waiting = self._waiting
        if waiting is None or waiting.done():
            return
        if error is None:
            waiting.set_result(None)
        else:
            waiting.set_exception(error)

    def _stop_watching(self) -> None:
        """At once when the connection breaks, and only once: libpq closes a broken socket by itself, and a moment later
        its number may belong to the socket of another wire, which must stay watched."""
        if not self._watch_stopped:
            self._watch_stopped = True
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)

    def _check(self) -> None:
        """One timer for all statements: is the current one overdue, or is there input that was not reported?"""
        self._timer = None
        if self._waiting is None:
            return
        if self._loop.time() >= self._overdue_at:
            hang_up(self.connection)
        if not self._watch_stopped and _has_input(self._socket):
            self._readable()
        self._timer = self._loop.call_later(CHECK_INTERVAL, self._check)


def _has_input(fileno: int) -> bool:
    if not hasattr(select, "poll"):
        return bool(select.select([fileno], [], [], 0)[0])
    poll = select.poll()
    poll.register(fileno, select.POLLIN)
    return bool(poll.poll(0))


def hang_up(connection: Connection | psycopg.Connection[Any]) -> None:
    """Shut the socket down, as if the server had closed it: a statement that waits on it fails."""
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.pgconn.socket)) as end:
        end.shutdown(socket.SHUT_RDWR)
