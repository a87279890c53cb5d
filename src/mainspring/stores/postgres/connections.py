"""Our own connections to a server: as many as are needed at once, up to a limit, opened when needed and kept.

Every statement stands alone, in a transaction of its own (autocommit), and nothing is left behind in a session: no
prepared statement, no setting, no lock. That is what makes a pooler in transaction mode as good as a direct line.
A connection that failed is closed, and the idle ones with it: after a restart of the server all of them are stale.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol, TypeAlias

import psycopg
from psycopg.pq import TransactionStatus

Row: TypeAlias = tuple[Any, ...]
Options: TypeAlias = dict[str, Any]

_UNWANTED_OPTIONS = "unsupported startup parameter"


class Source(Protocol):
    """Where statements are run: our own connections, or those of a pool that the application owns."""

    async def fetch(self, text: str, values: Sequence[Any]) -> list[Row]:
        """Run one statement with $1, $2, ... and commit it."""

    async def close(self) -> None: ...


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


class Connections:
    def __init__(self, options: Options, size: int, statement_timeout: float) -> None:
        self._startup = Startup(options, statement_timeout)
        self._patience = statement_timeout + 5  # the net under the server's own timeout
        self._free = asyncio.Semaphore(size)
        self._idle: list[psycopg.AsyncConnection[Row]] = []
        self._pid = os.getpid()
        self._closed = False

    async def fetch(self, text: str, values: Sequence[Any]) -> list[Row]:
        async with self._free:
            connection = await self._take()
            try:
                async with asyncio.timeout(self._patience):
                    cursor = await connection.execute(text, values)
                    rows = await cursor.fetchall()
            except psycopg.Error:
                await self._put_back(connection)
                raise
            except BaseException:
                await connection.close()
                raise
            await self._put_back(connection)
            return rows

    async def close(self) -> None:
        self._closed = True
        await self._close_idle()

    async def _take(self) -> psycopg.AsyncConnection[Row]:
        if self._pid != os.getpid():  # the parent of this process uses the inherited ones
            self._idle, self._pid = [], os.getpid()
        return self._idle.pop() if self._idle else await self._connect()

    async def _connect(self) -> psycopg.AsyncConnection[Row]:
        try:
            return await connect(self._startup.options())
        except psycopg.OperationalError as error:
            if not self._startup.gives_way(error):
                raise
        return await connect(self._startup.options())

    async def _put_back(self, connection: psycopg.AsyncConnection[Row]) -> None:
        if self._closed or connection.info.transaction_status is not TransactionStatus.IDLE:
            lost = connection.broken
            await connection.close()
            if lost:
                await self._close_idle()
        else:
            self._idle.append(connection)

    async def _close_idle(self) -> None:
        idle, self._idle = self._idle, []
        for connection in idle:
            with suppress(psycopg.Error):
                await connection.close()


async def connect(options: Options) -> psycopg.AsyncConnection[Row]:
    return await psycopg.AsyncConnection.connect(
        **options, autocommit=True, prepare_threshold=None, cursor_factory=psycopg.AsyncRawCursor
    )


def connect_blocking(options: Options) -> psycopg.Connection[Row]:
    return psycopg.Connection.connect(
        **options, autocommit=True, prepare_threshold=None, cursor_factory=psycopg.RawCursor
    )
