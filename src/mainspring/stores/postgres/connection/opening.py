"""What a store holds while it is open: connections, heartbeats, wake-ups. They are made from an address, or from a pool
of the application, which is never closed here."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from ...common.event_loops import PerLoop
from ...common.listeners import Listeners
from .. import migrate
from ..database import Database, explained
from ..executions.batching import InsertBatcher
from ..heartbeat import Heartbeats, OwnHeartbeats, PooledHeartbeats
from ..maintenance import Maintenance
from ..statements import DEFAULT_SCHEMA, checked_schema, read_statements
from ..wakeups import Announcer, NotificationListener
from .address import Address, connection_options, parse_address, with_defaults
from .foreign_pools import foreign_pool
from .pool import Connections, Options, Source, Startup, prepared_for_us

_FACTORY_SIZE, _FACTORY_PATIENCE = 10, 65.0


class Endpoint:
    """How to reach the database: an address, a pool, an engine, or a function that makes connections."""

    def __init__(self, database: Any, schema: str | None, listen_url: str | None) -> None:
        self._database = database
        self._address: Address | None = None
        if isinstance(database, str):
            self._address = parse_address(database, schema, listen_url)
        elif not _is_factory(database):
            foreign_pool(database)  # refuses anything else at once
        self._listen = None if listen_url is None else connection_options(listen_url)
        self.schema = self._address.schema if self._address else checked_schema(schema or DEFAULT_SCHEMA)
        self.name = self._address.name if self._address else "PostgreSQL"

    async def source(self) -> tuple[Source, Options | None, Options | None]:
        """Where statements run, and the options of connections for heartbeats and for LISTEN, if they are known."""
        if self._address is not None:
            address = self._address
            startup = Startup(address.main, address.statement_timeout)
            own = Connections(startup.connect, address.pool_size, address.statement_timeout + 5)
            return own, address.main, address.listen
        if _is_factory(self._database):
            return await self._from_factory(self._database)
        pool = foreign_pool(self._database)
        options = pool.options() or self._listen
        return pool, options, self._listen or options

    async def _from_factory(self, factory: Callable[[], Any]) -> tuple[Source, Options | None, Options | None]:
        """Connections that the factory makes for the store are closed by the store."""
        first = await prepared_for_us(factory())
        options = with_defaults(conninfo_to_dict(first.info.dsn) | {"password": first.info.password or None})
        await first.close()
        own = Connections(lambda: prepared_for_us(factory()), _FACTORY_SIZE, _FACTORY_PATIENCE)
        return own, options, self._listen or options


class Opened:
    """The parts of an open store."""

    def __init__(
        self, db: Database, heartbeats: Heartbeats, listener: NotificationListener, announcer: Callable[[], Announcer]
    ) -> None:
        self.db, self.heartbeats, self.listener = db, heartbeats, listener
        self.announcers = PerLoop(announcer)
        self.batchers = PerLoop(lambda: InsertBatcher(db, self.announcers.here()))
        self.maintenance = Maintenance(db)

    async def close(self) -> None:
        await self.listener.close()
        for announcer in self.announcers.all():
            await announcer.close()
        await self.db.close()
        await asyncio.to_thread(self.heartbeats.close)  # last: an ending process starts no more threads


async def open_endpoint(endpoint: Endpoint, listeners: Listeners, *, auto_migrate: bool = True) -> Opened:
    """Connect, and bring the schema up to this release, or check it."""
    read_statements(endpoint.schema)
    try:
        source, own, listen = await endpoint.source()
    except psycopg.Error as error:
        raise explained(error, endpoint.name) from error
    await (migrate.migrate if auto_migrate else migrate.check)(source, endpoint.schema, endpoint.name)
    db = Database(source, endpoint.schema, endpoint.name)
    heartbeats: Heartbeats = PooledHeartbeats(db) if own is None else OwnHeartbeats(own, endpoint.schema, endpoint.name)
    origin = secrets.token_hex(6)
    listener = NotificationListener(listen, endpoint.schema, origin, listeners.wake)
    return Opened(db, heartbeats, listener, lambda: Announcer(db, endpoint.schema, origin))


def _is_factory(thing: Any) -> bool:
    """A function, or anything called without arguments; pools and engines are not callable."""
    return callable(thing)
