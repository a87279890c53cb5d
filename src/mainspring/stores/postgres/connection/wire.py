"""One connection of ours, spoken to through libpq itself.

A cursor of the driver costs a tenth of a millisecond of Python for each statement: it registers with the event loop
for every wait, looks up how to adapt each value, and sets a timer. Here the line is registered once, values are the few
kinds our statements have, and one timer looks after all of them. That is half of what an enqueue costs this process.
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

PREPARED_AT_MOST = 100  # per line; searches have many forms, and the rest is run without
LOOK_AGAIN = 0.25
"""Seconds after which a line that waits looks by itself. uvloop stops watching a socket that was reset, and says so
only once, when what came before the reset may still be read: who then waits for more would wait for ever."""
_FAILED = (ExecStatus.FATAL_ERROR, ExecStatus.BAD_RESPONSE, ExecStatus.EMPTY_QUERY)


class Line:
    """Runs one statement at a time on the event loop it was made on. `prepares`: it leads straight to a server."""

    def __init__(self, connection: Connection, patience: float, *, prepares: bool) -> None:
        self.connection = connection
        self._pg = connection.pgconn
        self._patience, self._prepares = patience, prepares
        self._encoding = connection.info.encoding
        self._loop = asyncio.get_running_loop()
        self._socket = self._pg.socket
        self.cut = False  # the other end has gone
        self._is_deaf = False
        self._prepared: dict[str, bytes] = {}
        self._waiting: asyncio.Future[None] | None = None
        self._results: list[Any] = []
        self._overdue_at = 0.0
        self._watch: asyncio.TimerHandle | None = None
        self._heard: Callable[[str], None] | None = None
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
        return self._transformer.load_rows(0, result.ntuples, tuple)

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

    def hear(self, heard: Callable[[str], None]) -> None:
        """Be told of notifications as soon as they arrive."""
        self._heard = heard

    async def until_cut(self, seconds: float) -> None:
        """Waits so long; raises when the line breaks meanwhile."""
        self._broken = broken = self._loop.create_future()
        if not self.cut:
            await asyncio.wait([broken], timeout=seconds)
        if self.cut:
            raise errors.OperationalError("the connection is lost")

    def close(self) -> None:
        """From any thread, and without waiting: the loop of the line may be busy, or gone."""
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
        self._deaf()
        if self._watch is not None:
            self._watch.cancel()
        self.connection._closed = True  # as its own `close` would say, which cannot be awaited here
        self._pg.finish()

    def _encoded(self, values: Sequence[Any]) -> list[bytes | None]:
        """Texts, numbers and truths: PostgreSQL reads all of them as Python writes them. libpq would take the first NUL
        for the end of a text."""
        encoding = self._encoding
        given = [
            None if value is None else (value if isinstance(value, str) else str(value)).encode(encoding)
            for value in values
        ]
        for data in given:
            if data is not None and b"\x00" in data:
                raise errors.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes")
        return given

    def _answer(self) -> asyncio.Future[None]:
        """Done when the server has said all it has to say to what was just sent; whoever waits for it says when it no
        longer does."""
        self._results = []
        self._waiting = waiting = self._loop.create_future()
        self._overdue_at = self._loop.time() + self._patience
        if self._watch is None:
            self._watch = self._loop.call_later(LOOK_AGAIN, self._look)
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
            if self._heard is not None:
                self._pass_on(self._heard)
            if waiting is None:
                return
            while not pg.is_busy():
                result = pg.get_result()
                if result is None:
                    if self._heard is not None:
                        self._pass_on(self._heard)
                    self._told(None)
                    return
                self._results.append(result)
        except psycopg.Error as error:
            self._break()  # what was answered may not have been committed: the server says so last
            self._told(None if self._results and self._results[-1].status in _FAILED else error)

    def _pass_on(self, heard: Callable[[str], None]) -> None:
        while (notice := self._pg.notifies()) is not None:
            heard(notice.extra.decode(self._encoding))

    def _break(self) -> None:
        self.cut = True
        self._deaf()
        if self._broken is not None and not self._broken.done():
            self._broken.set_result(None)

    def _writable(self) -> None:
        try:
            if self._pg.flush():
                return
        except psycopg.Error as error:
            self._break()
            self._told(error)
        else:
            self._loop.remove_writer(self._socket)

    def _told(self, error: Exception | None) -> None:
        waiting = self._waiting
        if waiting is None or waiting.done():
            return
        if error is None:
            waiting.set_result(None)
        else:
            waiting.set_exception(error)

    def _deaf(self) -> None:
        """At once when the line breaks, and never again: libpq closes a broken socket by itself, and a moment later its
        number may be that of another line, which must go on hearing."""
        if not self._is_deaf:
            self._is_deaf = True
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)

    def _look(self) -> None:
        """One timer for all statements: is the one that runs now overdue, or is there news nobody told of?"""
        self._watch = None
        if self._waiting is None:
            return
        if self._loop.time() >= self._overdue_at:
            hang_up(self.connection)
        if not self._is_deaf and _has_news(self._socket):
            self._readable()
        self._watch = self._loop.call_later(LOOK_AGAIN, self._look)


def _has_news(fileno: int) -> bool:
    if not hasattr(select, "poll"):
        return bool(select.select([fileno], [], [], 0)[0])
    poll = select.poll()
    poll.register(fileno, select.POLLIN)
    return bool(poll.poll(0))


def hang_up(connection: Connection | psycopg.Connection[Any]) -> None:
    """As if the other end had: its owner, who may be in the middle of something, is told by the driver."""
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.pgconn.socket)) as line:
        line.shutdown(socket.SHUT_RDWR)
