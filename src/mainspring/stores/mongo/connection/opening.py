"""What a store has while it is open: clients, heartbeats, wake-ups. Made from an address, or around a client that the
application handed in, which is never closed here."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

from pymongo import AsyncMongoClient
from pymongo.errors import PyMongoError

from ....model.errors import InvalidValue
from ...common.event_loops import PerLoop
from ...common.listeners import Listeners
from .. import schema
from ..heartbeat import Beats, BorrowedBeats, OwnBeats
from ..jobs.incarnations import Incarnations
from ..jobs.outbox import Leftovers
from ..wakeups import Announcer, Ear, has_transactions
from .address import DEFAULT_DATABASE, DEFAULT_PREFIX, Address, checked_prefix, parse_address
from .caller_transaction import Place
from .clock import Time
from .database import Database, explained


class Source:
    """Where the data is: an address, or a client."""

    def __init__(self, database: Any, prefix: str | None, name: str | None, time: Time) -> None:
        self.address: Address | None = None
        self._client: AsyncMongoClient[dict[str, Any]] | None = None
        self._time = time
        if isinstance(database, str):
            self.address = parse_address(database, prefix)
            self.database, self.prefix = name or self.address.database, self.address.collections
            self.name = self.address.name
        elif isinstance(database, AsyncMongoClient):
            self._client = database
            self.database, self.prefix = name or DEFAULT_DATABASE, checked_prefix(prefix or DEFAULT_PREFIX)
            self.name = "MongoDB"
        else:
            allowed = "an address such as mongodb://host/name, or an AsyncMongoClient"
            raise InvalidValue("database", type(database).__name__, allowed)

    def connect(self) -> Database:
        """The collections, for the event loop that asks."""
        client = self._client
        if client is None:
            assert self.address is not None
            client = AsyncMongoClient(self.address.url, **self.address.options)
        return Database(client, self.database, self.prefix, self._time, self.name)

    async def close(self, db: Database) -> None:
        if self._client is None:
            await db.close()

    def abandon(self, db: Database) -> None:
        """Its loop has ended, and its connections with it: there is nobody left to close them on."""
        if self._client is None:
            db.client._closed = True

    def beats(self, databases: PerLoop[Database], time: Time) -> Beats:
        if self.address is None:
            return BorrowedBeats(databases.here)
        return OwnBeats(self.address, time)


class Opened:
    def __init__(self, source: Source, time: Time, listeners: Listeners) -> None:
        self._source = source
        self.databases = PerLoop(source.connect, source.abandon)
        self.beats = source.beats(self.databases, time)
        origin = secrets.token_hex(8)
        self.announcers = PerLoop(lambda: Announcer(self.databases.here, origin))
        self.ear = Ear(self.databases.here, origin, listeners.wake)
        self.incarnations = Incarnations()
        self.leftovers = Leftovers()
        self.transactions = False

    @property
    def db(self) -> Database:
        return self.databases.here()

    @property
    def place(self) -> Place:
        return Place(self._source.database, self._source.prefix, self.transactions)

    async def close(self) -> None:
        await self.ear.close()
        await self.announcers.close(lambda announcer: announcer.close())
        await asyncio.to_thread(self.beats.close)
        await self.databases.close(self._source.close)


async def open_source(source: Source, time: Time, listeners: Listeners) -> Opened:
    """Connect, and bring the indexes up to this release."""
    opened = Opened(source, time, listeners)
    try:
        opened.transactions = await has_transactions(opened.db)
        await schema.prepare(opened.db)
    except PyMongoError as error:
        await opened.close()
        raise explained(error, source.name) from error
    except BaseException:
        await opened.close()
        raise
    return opened
