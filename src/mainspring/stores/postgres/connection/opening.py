"""What a store has while it is open: connections, heartbeats, wake-ups. Made from an address, or from what the
application handed in, which is never closed here."""

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
from ..statements import DEFAULT_SCHEMA, checked_schema
from ..wakeups import Announcer, Ear
from .address import Address, connection_options, parse_address, with_defaults
from .foreign_pools import handed
from .pool import Connections, Options, Source, Startup, made_ours

_FACTORY_SIZE, _FACTORY_PATIENCE = 10, 65.0


class Place:
    """Where the data is: an address, a pool, an engine, or a function that makes connections."""

    def __init__(self, database: Any, schema: str | None, listen_url: str | None) -> None:
        self._database = database
        self._address: Address | None = None
        if isinstance(database, str):
            self._address = parse_address(database, schema, listen_url)
        elif not _is_factory(database):
            handed(database)  # refuses what is neither, at once
        self._listen = None if listen_url is None else connection_options(listen_url)
        self.schema = self._address.schema if self._address else checked_schema(schema or DEFAULT_SCHEMA)
        self.name = self._address.name if self._address else "PostgreSQL"

    async def source(self) -> tuple[Source, Options | None, Options | None]:
        """Where statements go, and how heartbeats and LISTEN connect, if that is known."""
        if self._address is not None:
            address = self._address
            startup = Startup(address.main, address.statement_timeout)
            own = Connections(startup.connect, address.pool_size, address.statement_timeout + 5)
            return own, address.main, address.listen
        if _is_factory(self._database):
            return await self._from_factory(self._database)
        pool = handed(self._database)
        options = pool.options() or self._listen
        return pool, options, self._listen or options

    async def _from_factory(self, factory: Callable[[], Any]) -> tuple[Source, Options | None, Options | None]:
        """What the factory makes for us is ours to close."""
        first = await made_ours(factory())
        options = with_defaults(conninfo_to_dict(first.info.dsn) | {"password": first.info.password or None})
        await first.close()
        own = Connections(lambda: made_ours(factory()), _FACTORY_SIZE, _FACTORY_PATIENCE)
        return own, options, self._listen or options


class Opened:
    """The parts of an open store."""

    def __init__(self, db: Database, heartbeats: Heartbeats, ear: Ear, announcer: Callable[[], Announcer]) -> None:
        self.db, self.heartbeats, self.listener = db, heartbeats, ear
        self.announcers = PerLoop(announcer)
        self.batchers = PerLoop(lambda: InsertBatcher(db, self.announcers.here()))
        self.maintenance = Maintenance(db)

    async def close(self) -> None:
        await self.listener.close()
        for announcer in self.announcers.all():
            await announcer.close()
        await asyncio.to_thread(self.heartbeats.close)
        await self.db.close()


async def open_place(place: Place, listeners: Listeners) -> Opened:
    """Connect, and bring the schema up to this release."""
    try:
        source, own, listen = await place.source()
    except psycopg.Error as error:
        raise explained(error, place.name) from error
    await migrate.migrate(source, place.schema, place.name)
    db = Database(source, place.schema, place.name)
    heartbeats: Heartbeats = PooledHeartbeats(db) if own is None else OwnHeartbeats(own, place.schema, place.name)
    origin = secrets.token_hex(6)
    ear = Ear(listen, place.schema, origin, listeners.wake)
    return Opened(db, heartbeats, ear, lambda: Announcer(db, place.schema, origin))


def _is_factory(thing: Any) -> bool:
    """A function, or anything called without arguments; pools and engines are not callable."""
    return callable(thing)
