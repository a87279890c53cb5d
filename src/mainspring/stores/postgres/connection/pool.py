"""Our own pool of connections: opened when needed, up to a limit. Two are kept; the others are closed once they have
been idle for a while.

Every statement runs in a transaction of its own (autocommit) and relies on no state of the session: no setting, no
lock, and no prepared statement unless the connection is known to be direct. So a pooler in transaction mode works.
A connection that failed is closed, and the idle ones with it: after a restart of the server all of them are stale.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from inspect import isawaitable
from typing import Any, Protocol, TypeAlias

import psycopg
from psycopg.rows import tuple_row

from ....model.errors import InvalidValue, StoreUnavailable
from ...common.event_loops import PerLoop
from .wire import Connection as Connection
from .wire import Row as Row
from .wire import Wire, hang_up

Options: TypeAlias = dict[str, Any]

FIRST_ANSWER = 5.0  # seconds the server has for the first answer on a new connection
IDLE_FOR = 10.0  # seconds until a connection that nobody needs is closed
KEPT = 2  # idle connections that stay open: with those for heartbeats and LISTEN, an idle process has four
_UNWANTED_OPTIONS = "unsupported startup parameter"


class Session(Protocol):
    """One connection for the length of one transaction."""

    async def fetch(self, text: str, values: Sequence[Any] = ()) -> list[Row]: ...

    async def script(self, text: str) -> None:
        """Run a text of several statements, without values."""


class Source(Protocol):
    """Where statements are run: our own connections, or those of a pool that the application owns."""

    async def fetch(self, text: str, values: Sequence[Any]) -> list[Row]:
        """Run one statement with $1, $2, ... and commit it."""

    def session(self) -> AbstractAsyncContextManager[Session]:
        """A transaction: committed at the end, rolled back by an error."""

    async def close(self) -> None: ...


class PsycopgSession:
    """A connection of psycopg, with cursors that take $1 and return tuples, whatever its own cursors do."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def fetch(self, text: str, values: Sequence[Any] = ()) -> list[Row]:
        async with psycopg.AsyncRawCursor(self._connection, row_factory=tuple_row) as cursor:
            await cursor.execute(text, values or None)
            return await cursor.fetchall() if cursor.description else []

    async def script(self, text: str) -> None:
        await self._connection.execute(text.encode(), prepare=False)


class Startup:
    """The options a connection is made with. Where a pooler refuses session settings at start-up, they are left out."""

    def __init__(self, options: Options, statement_timeout: float) -> None:
        self._plain = options
        settings = f"-c statement_timeout={round(statement_timeout * 1000)}"
        self._settings: str | None = f"{options.get('options', '')} {settings}".strip()

    def options(self) -> Options:
        return self._plain if self._settings is None else self._plain | {"options": self._settings}

    def gives_way(self, error: psycopg.OperationalError) -> bool:
        """Whether the settings were refused; from then on they are left out."""
        if self._settings is None or _UNWANTED_OPTIONS not in str(error):
            return False
        self._settings = None
        return True

    async def connect(self) -> Connection:
        try:
            return await connect(self.options())
        except psycopg.OperationalError as error:
            if not self.gives_way(error):
                raise
        return await connect(self.options())

    def connect_blocking(self) -> psycopg.Connection[Row]:
        try:
            return connect_blocking(self.options())
        except psycopg.OperationalError as error:
            if not self.gives_way(error):
                raise
        return connect_blocking(self.options())


class Connections:
    """At most `size` connections on each event loop. `make` opens one; `patience` is how long a statement may take, in
    case the server's own statement timeout does not end it."""

    def __init__(self, make: Callable[[], Awaitable[Connection]], size: int, patience: float) -> None:
        self._make = make
        self._patience = patience
        self._parts = PerLoop(lambda: _Wires(size, patience, self._kept, lambda: self._closed), _Wires.close)
        self._closed = False

    async def fetch(self, text: str, values: Sequence[Any]) -> list[Row]:
        wires = self._parts.here()
        wire = wires.at_hand() or await wires.take() or await self._connect(wires)
        try:
            rows = await wire.fetch(text, values)
        except psycopg.Error:
            self._after_error(wires, wire)
            raise
        except BaseException:
            wires.drop(wire)
            raise
        wires.give_back(wire)
        return rows

    def _kept(self) -> int:
        """On each loop: the application has one, and one more if it uses the blocking facade."""
        return max(1, KEPT // len(self._parts.all()))

    async def _connect(self, wires: _Wires) -> Wire:
        """If it fails, its slot is free again."""
        try:
            connection = await self._make()
            return Wire(connection, self._patience, prepares=is_direct(connection))
        except BaseException:
            wires.drop(None)
            raise

    def _after_error(self, wires: _Wires, wire: Wire) -> None:
        """Most errors leave the connection usable. If it is lost, the idle ones are closed too."""
        if wire.usable:
            wires.give_back(wire)
            return
        lost = wire.lost
        wires.drop(wire)
        if lost:
            wires.close()

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Session]:
        connection = await self._make()
        try:
            async with connection.transaction():
                yield PsycopgSession(connection)
        finally:
            await connection.close()

    async def close(self) -> None:
        self._closed = True
        for wires in self._parts.all():
            wires.close()


class _Wires:
    """The wires of one event loop: the idle ones, the newest last, and the callers that wait for one."""

    def __init__(self, size: int, patience: float, kept: Callable[[], int], closed: Callable[[], bool]) -> None:
        self._size = self._free = size
        self._patience, self._kept, self._closed = patience, kept, closed
        self._idle: list[Wire] = []
        self._unused = 0  # how many of the first idle ones nobody has needed since the last look
        self._look: asyncio.TimerHandle | None = None
        self._waiting: deque[asyncio.Future[Wire | None]] = deque()
        self._pid = os.getpid()

    def at_hand(self) -> Wire | None:
        """An idle wire, without waiting; None: call `take`."""
        if not self._idle or not self._free or self._idle[-1].cut or self._pid != os.getpid():
            return None
        self._free -= 1
        wire = self._idle.pop()
        self._unused = min(self._unused, len(self._idle))
        return wire

    async def take(self) -> Wire | None:
        """None: a slot is free, and the caller opens a new connection."""
        if self._pid != os.getpid():  # the parent of this process uses those that were inherited
            self._idle, self._waiting, self._free, self._pid = [], deque(), self._size, os.getpid()
            self._look = None
        if self._free == 0:
            return await self._turn()
        self._free -= 1
        while self._idle:
            wire = self._idle.pop()
            self._unused = min(self._unused, len(self._idle))
            if not wire.cut:
                return wire
            wire.close()  # the server has closed it meanwhile
        return None

    async def _turn(self) -> Wire | None:
        turn: asyncio.Future[Wire | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        overdue = turn.get_loop().call_later(self._patience, self._give_up, turn)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it arrived at the same moment: pass it on
                wire = turn.result()
                self.drop(None) if wire is None else self.give_back(wire)
            raise
        finally:
            overdue.cancel()

    def _give_up(self, turn: asyncio.Future[Wire | None]) -> None:
        if not turn.done():
            turn.set_exception(
                StoreUnavailable(
                    f"all {self._size} connections of this process were in use for {self._patience:.0f} s; find out "
                    "what takes so long, or raise pool_size in the address (and max_connections on the server with it)"
                )
            )

    def give_back(self, wire: Wire) -> None:
        if self._closed():
            self.drop(wire)
        elif not self._passed_on(wire):
            self._idle.append(wire)
            self._free += 1
            if self._look is None and (wire.swollen or (len(self._idle) > 1 and len(self._idle) > self._kept())):
                self._look_later()

    def _look_later(self) -> None:
        self._unused = len(self._idle)
        self._look = asyncio.get_running_loop().call_later(IDLE_FOR, self._shrink)

    def _shrink(self) -> None:
        """Close those that nobody has needed since the last look: the first ones, because the last is taken first. And
        those that keep much memory."""
        spare = max(0, min(self._unused, len(self._idle) - self._kept()))
        closed = [wire for at, wire in enumerate(self._idle) if at < spare or wire.swollen]
        self._idle = [wire for wire in self._idle if wire not in closed]
        for wire in closed:
            wire.close()
        self._look = None
        if len(self._idle) > self._kept():
            self._look_later()

    def drop(self, wire: Wire | None) -> None:
        """Close it; its slot is free for another connection."""
        if wire is not None:
            wire.close()
        if not self._passed_on(None):
            self._free += 1

    def close(self) -> None:
        """Close the idle ones, without waiting: their event loop may be gone."""
        idle, self._idle = self._idle, []
        for wire in idle:
            wire.close()

    def _passed_on(self, wire: Wire | None) -> bool:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(wire)
                return True
        return False


async def connect(options: Options) -> Connection:
    """Statements are prepared only on a direct connection: a pooler would run them on a session that does not know
    them. A pooler is recognised by a process number that is not the server's."""
    connection = await psycopg.AsyncConnection.connect(**options, autocommit=True, prepare_threshold=None)
    try:
        with hang_up_after(FIRST_ANSWER, connection):
            [[pid]] = await PsycopgSession(connection).fetch("SELECT pg_backend_pid()")
    except BaseException:
        await connection.close()
        raise
    if pid == connection.info.backend_pid:
        connection.prepare_threshold = 0
    return connection


def is_direct(connection: Connection) -> bool:
    """Whether `connect` found no pooler between this process and the server."""
    return connection.prepare_threshold is not None


def connect_blocking(options: Options) -> psycopg.Connection[Row]:
    return psycopg.Connection.connect(**options, autocommit=True, prepare_threshold=None)


@contextmanager
def hang_up_after(seconds: float, connection: Connection) -> Iterator[None]:
    """Break the connection if the block takes longer. Nothing else ends the wait for a server that has fallen silent:
    a cancellation would ask the server to stop, over the same silent network."""
    overdue = asyncio.get_running_loop().call_later(seconds, hang_up, connection)
    try:
        yield
    finally:
        overdue.cancel()


@contextmanager
def hang_up_after_blocking(seconds: float, connection: psycopg.Connection[Any]) -> Iterator[None]:
    overdue = threading.Timer(seconds, hang_up, (connection,))
    overdue.daemon = True
    overdue.start()
    try:
        yield
    finally:
        overdue.cancel()


async def prepared_for_us(made: Connection | Awaitable[Connection]) -> Connection:
    """A connection from the application's factory, set up for our statements."""
    connection = await made if isawaitable(made) else made
    if not isinstance(connection, psycopg.AsyncConnection):
        raise InvalidValue("database", type(connection).__name__, "a factory of psycopg.AsyncConnection")
    await connection.set_autocommit(True)
    connection.prepare_threshold = None
    return connection
