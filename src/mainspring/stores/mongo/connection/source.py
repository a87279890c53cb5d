"""Where the data of a store is: at an address, or behind a client of the application, which is never closed here."""

from __future__ import annotations

from typing import Any

from pymongo import AsyncMongoClient

from ....model.errors import InvalidValue
from .address import DEFAULT_DATABASE, DEFAULT_PREFIX, Address, checked_prefix, parse_address
from .database import Database, Time


class Source:
    def __init__(self, database: Any, prefix: str | None, name: str | None, time: Time) -> None:
        self.address: Address | None = None
        self._client: AsyncMongoClient[dict[str, Any]] | None = None
        self.time = time
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
        """The collections for the running event loop."""
        client = self._client
        if client is None:
            assert self.address is not None
            client = AsyncMongoClient(self.address.url, **self.address.options)
        return Database(client, self.database, self.prefix, self.time, self.name)

    async def close(self, db: Database) -> None:
        if self._client is None:
            await db.close()

    def abandon(self, db: Database) -> None:
        """Mark the client of an event loop that has ended as closed: its connections ended with the loop."""
        if self._client is None:
            db.client._closed = True
