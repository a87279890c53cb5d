"""Pools and engines that the application owns: statements borrow a connection, and nothing is ever closed (OPS-7).

Heartbeats and LISTEN need connections of their own, made from the address of the pool where it gives one.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import tuple_row

from ....model.errors import InvalidValue
from .address import with_defaults
from .pool import Options, PsycopgSession, Row, Session

T = TypeVar("T")

_ALLOWED = "an address, a pool of psycopg or asyncpg, or an engine of SQLAlchemy"
_PLACEHOLDER = re.compile(r"\$(\d+)")
_OURS = ("autocommit", "row_factory", "cursor_factory", "prepare_threshold", "context")


class ForeignPool:
    """A pool or engine of the application. It stays open when the store closes.

    A pool belongs to the event loop it was opened on: statements of other loops run there.
    """

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._home: asyncio.AbstractEventLoop | None = None

    def session(self) -> AbstractAsyncContextManager[Session]:
        raise NotImplementedError

    async def fetch(self, text: str, values: Sequence[Any]) -> list[Row]:
        here = asyncio.get_running_loop()
        if self._home is None or self._home.is_closed():
            self._home = here
        if self._home is here:
            return await self._fetch(text, values)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._fetch(text, values), self._home))

    async def _fetch(self, text: str, values: Sequence[Any]) -> list[Row]:
        async with self.session() as session:
            return await session.fetch(text, values)

    async def close(self) -> None:
        """Not ours to close."""

    def options(self) -> Options | None:
        """The options of its connections, if it gives them."""
        return None


class AsyncpgSession:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def fetch(self, text: str, values: Sequence[Any] = ()) -> list[Row]:
        return [tuple(row) for row in await self._connection.fetch(text, *values)]

    async def script(self, text: str) -> None:
        await self._connection.execute(text)


class ThreadSession:
    """A blocking connection, used from threads, one statement at a time."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def fetch(self, text: str, values: Sequence[Any] = ()) -> list[Row]:
        return await asyncio.to_thread(self._fetch, text, values)

    async def script(self, text: str) -> None:
        await asyncio.to_thread(self._script, text)

    def _fetch(self, text: str, values: Sequence[Any]) -> list[Row]:
        if isinstance(self._connection, psycopg.Connection):
            with psycopg.RawCursor(self._connection, row_factory=tuple_row) as cursor:
                cursor.execute(text, values or None)
                return cursor.fetchall() if cursor.description else []
        with self._connection.cursor() as cursor:
            cursor.execute(*percent(text, values))
            return list(cursor.fetchall()) if cursor.description else []

    def _script(self, text: str) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(text.encode() if isinstance(self._connection, psycopg.Connection) else text)


def percent(text: str, values: Sequence[Any]) -> tuple[str, list[Any]]:
    """The statement for drivers that take %s instead of $1.

    >>> percent("SELECT $2, $1, 5 % 2", ["a", "b"])
    ('SELECT %s, %s, 5 %% 2', ['b', 'a'])
    """
    order = [int(found) - 1 for found in _PLACEHOLDER.findall(text)]
    return _PLACEHOLDER.sub("%s", text.replace("%", "%%")), [values[n] for n in order]


# --- pools ----------------------------------------------------------------------------------------------------------


class PsycopgPool(ForeignPool):
    @asynccontextmanager
    async def session(self) -> AsyncIterator[Session]:
        async with self._pool.connection() as connection, connection.transaction():
            yield PsycopgSession(connection)

    def options(self) -> Options | None:
        return _psycopg_options(self._pool)


class BlockingPsycopgPool(ForeignPool):
    @asynccontextmanager
    async def session(self) -> AsyncIterator[Session]:
        connection = await asyncio.to_thread(self._pool.getconn)
        try:
            async with _in_thread(connection.commit, connection.rollback):
                yield ThreadSession(connection)
        finally:
            await asyncio.to_thread(self._pool.putconn, connection)

    def options(self) -> Options | None:
        return _psycopg_options(self._pool)


class AsyncpgPool(ForeignPool):
    async def _fetch(self, text: str, values: Sequence[Any]) -> list[Row]:
        return [tuple(row) for row in await self._pool.fetch(text, *values)]

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Session]:
        async with self._pool.acquire() as connection, connection.transaction():
            yield AsyncpgSession(connection)


# --- engines --------------------------------------------------------------------------------------------------------


class AsyncEngine(ForeignPool):
    """On psycopg or asyncpg: the driver's own connection is used for the length of the transaction."""

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Session]:
        async with self._pool.connect() as connection:
            driver = (await connection.get_raw_connection()).driver_connection
            async with driver.transaction():
                yield PsycopgSession(driver) if isinstance(driver, psycopg.AsyncConnection) else AsyncpgSession(driver)

    def options(self) -> Options | None:
        return _engine_options(self._pool)


class BlockingEngine(ForeignPool):
    @asynccontextmanager
    async def session(self) -> AsyncIterator[Session]:
        borrowed = await asyncio.to_thread(self._pool.raw_connection)
        try:
            async with _in_thread(borrowed.commit, borrowed.rollback):
                yield ThreadSession(borrowed.driver_connection)
        finally:
            await asyncio.to_thread(borrowed.close)  # back to its pool

    def options(self) -> Options | None:
        return _engine_options(self._pool)


@asynccontextmanager
async def _in_thread(commit: Callable[[], Any], rollback: Callable[[], Any]) -> AsyncIterator[None]:
    try:
        yield
    except BaseException:
        await asyncio.to_thread(rollback)
        raise
    await asyncio.to_thread(commit)


def _psycopg_options(pool: Any) -> Options | None:
    if callable(pool.conninfo) or callable(pool.kwargs):
        return None
    kept = {name: value for name, value in (pool.kwargs or {}).items() if name not in _OURS}
    return with_defaults(conninfo_to_dict(pool.conninfo) | kept)


def _engine_options(engine: Any) -> Options | None:
    plain = engine.url.set(drivername="postgresql", query={})
    return with_defaults(conninfo_to_dict(plain.render_as_string(hide_password=False)))


_KINDS: dict[str, type[ForeignPool]] = {
    "psycopg_pool.AsyncConnectionPool": PsycopgPool,
    "psycopg_pool.pool_async.AsyncConnectionPool": PsycopgPool,
    "psycopg_pool.ConnectionPool": BlockingPsycopgPool,
    "psycopg_pool.pool.ConnectionPool": BlockingPsycopgPool,
    "asyncpg.pool.Pool": AsyncpgPool,
    "sqlalchemy.ext.asyncio.engine.AsyncEngine": AsyncEngine,
    "sqlalchemy.engine.base.Engine": BlockingEngine,
}


def foreign_pool(thing: Any) -> ForeignPool:
    """Recognised by the names of its classes, so that nothing is imported that the application does not use."""
    for kind in type(thing).__mro__:
        found = _KINDS.get(f"{kind.__module__}.{kind.__qualname__}")
        if found is not None:
            return found(thing)
    raise InvalidValue("database", type(thing).__name__, _ALLOWED)
