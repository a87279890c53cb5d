"""Our own connections to a server: as many as are needed at once, up to a limit, opened when needed and kept.

Every statement stands alone, in a transaction of its own (autocommit), and nothing is expected of a session: no
setting, no lock, and no prepared statement unless the line is known to be direct. That is what makes a pooler in
transaction mode as good as any.
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

from ....model.errors import InvalidValue
from ...common.event_loops import PerLoop
from .wire import Connection as Connection
from .wire import Line, hang_up
from .wire import Row as Row

Options: TypeAlias = dict[str, Any]

FIRST_WORD = 5.0  # seconds the server has for the first answer on a new connection
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
    """A connection of psycopg, with cursors that read $1 and make tuples, whatever its own do."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def fetch(self, text: str, values: Sequence[Any] = ()) -> list[Row]:
        async with psycopg.AsyncRawCursor(self._connection, row_factory=tuple_row) as cursor:
            await cursor.execute(text, values or None)
            return await cursor.fetchall() if cursor.description else []

    async def script(self, text: str) -> None:
        await self._connection.execute(text.encode(), prepare=False)


class Startup:
    """The options a connection is made with. Poolers refuse session settings at start-up: then it goes without."""

    def __init__(self, options: Options, statement_timeout: float) -> None:
        self._plain = options
        settings = f"-c statement_timeout={round(statement_timeout * 1000)}"
        self._settings: str | None = f"{options.get('options', '')} {settings}".strip()

    def options(self) -> Options:
        return self._plain if self._settings is None else self._plain | {"options": self._settings}

    def gives_way(self, error: psycopg.OperationalError) -> bool:
        """Whether it is worth trying again without the settings."""
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
    """At most `size` at a time on each event loop. `make` opens one; `patience` is the net under the server's own
    statement timeout."""

    def __init__(self, make: Callable[[], Awaitable[Connection]], size: int, patience: float) -> None:
        self._make = make
        self._patience = patience
        self._parts = PerLoop(lambda: _Lines(size), _Lines.close)
        self._closed = False

    async def fetch(self, text: str, values: Sequence[Any]) -> list[Row]:
        lines = self._parts.here()
        line = lines.at_hand() or await lines.take() or await self._connect(lines)
        try:
            rows = await line.fetch(text, values)
        except psycopg.Error:
            self._after_error(lines, line)
            raise
        except BaseException:
            lines.drop(line)
            raise
        if self._closed:
            lines.drop(line)
        else:
            lines.give_back(line)
        return rows

    async def _connect(self, lines: _Lines) -> Line:
        """Whatever goes wrong, its place is free again: also when the server hangs up as soon as it was reached."""
        try:
            connection = await self._make()
            return Line(connection, self._patience, prepares=connection.prepare_threshold is not None)
        except BaseException:
            lines.drop(None)
            raise

    def _after_error(self, lines: _Lines, line: Line) -> None:
        """Most errors leave the connection as good as before; when it is lost, so are those it was opened with."""
        if line.usable and not self._closed:
            lines.give_back(line)
            return
        lost = line.lost
        lines.drop(line)
        if lost:
            lines.close()

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
        for lines in self._parts.all():
            lines.close()


class _Lines:
    """The lines of one event loop: idle ones, the newest on top, and who waits for one."""

    def __init__(self, size: int) -> None:
        self._size = self._free = size
        self._idle: list[Line] = []
        self._waiting: deque[asyncio.Future[Line | None]] = deque()
        self._pid = os.getpid()

    def at_hand(self) -> Line | None:
        """An idle one without waiting, which is nearly always there; if not, `take`."""
        if not self._idle or not self._free or self._idle[-1].cut or self._pid != os.getpid():
            return None
        self._free -= 1
        return self._idle.pop()

    async def take(self) -> Line | None:
        """None: there is room for a new one, and whoever asked is to make it."""
        if self._pid != os.getpid():  # the parent of this process uses the inherited ones
            self._idle, self._waiting, self._free, self._pid = [], deque(), self._size, os.getpid()
        if self._free == 0:
            return await self._turn()
        self._free -= 1
        while self._idle:
            line = self._idle.pop()
            if not line.cut:
                return line
            line.close()  # the server has hung up meanwhile
        return None

    async def _turn(self) -> Line | None:
        turn: asyncio.Future[Line | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it came at the same moment: the next one may have it
                line = turn.result()
                self.drop(None) if line is None else self.give_back(line)
            raise

    def give_back(self, line: Line) -> None:
        if not self._handed_on(line):
            self._idle.append(line)
            self._free += 1

    def drop(self, line: Line | None) -> None:
        """Its place is free for another one."""
        if line is not None:
            line.close()
        if not self._handed_on(None):
            self._free += 1

    def close(self) -> None:
        """The idle ones, without waiting for anything: their loop may be gone."""
        idle, self._idle = self._idle, []
        for line in idle:
            line.close()

    def _handed_on(self, line: Line | None) -> bool:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(line)
                return True
        return False


async def connect(options: Options) -> Connection:
    """Statements are prepared only on a direct line: a pooler would run them on a server that does not know them. It
    gives itself away by a process number that is not the server's."""
    connection = await psycopg.AsyncConnection.connect(**options, autocommit=True, prepare_threshold=None)
    try:
        with hung_up_after(FIRST_WORD, connection):
            [[pid]] = await PsycopgSession(connection).fetch("SELECT pg_backend_pid()")
    except BaseException:
        await connection.close()
        raise
    if pid == connection.info.backend_pid:
        connection.prepare_threshold = 0
    return connection


def connect_blocking(options: Options) -> psycopg.Connection[Row]:
    return psycopg.Connection.connect(**options, autocommit=True, prepare_threshold=None)


@contextmanager
def hung_up_after(seconds: float, connection: Connection) -> Iterator[None]:
    """Whoever waits for the server longer than that finds the connection broken. Nothing else ends such a wait on a
    line that has fallen silent: cancelling it would ask the server to stop, over the same silent line."""
    overdue = asyncio.get_running_loop().call_later(seconds, hang_up, connection)
    try:
        yield
    finally:
        overdue.cancel()


@contextmanager
def hung_up_after_blocking(seconds: float, connection: psycopg.Connection[Any]) -> Iterator[None]:
    overdue = threading.Timer(seconds, hang_up, (connection,))
    overdue.daemon = True
    overdue.start()
    try:
        yield
    finally:
        overdue.cancel()


async def made_ours(made: Connection | Awaitable[Connection]) -> Connection:
    """A connection from the application's own factory, in the state our statements need."""
    connection = await made if isawaitable(made) else made
    if not isinstance(connection, psycopg.AsyncConnection):
        raise InvalidValue("database", type(connection).__name__, "a factory of psycopg.AsyncConnection")
    await connection.set_autocommit(True)
    connection.prepare_threshold = None
    return connection
