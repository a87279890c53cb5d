"""Where the data of a store is: at an address (server, database, prefix of our collections), or behind a client of the
application, which is never closed here.

>>> parse_address("mongodb://localhost/app?prefix=jobs").collections
'jobs'
"""

from __future__ import annotations

import asyncio
import re
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

import msgspec
from pymongo import AsyncMongoClient
from pymongo.errors import ConfigurationError, InvalidURI
from pymongo.uri_parser import parse_uri

from ....model.errors import InvalidValue
from ....model.values.database_url import without_password
from ....model.values.url_secrets import without_secrets_of
from .database import Database, Time

DEFAULT_DATABASE = "mainspring"
DEFAULT_PREFIX = "mainspring"
LONGEST_CLOSE = 1.0
"""Seconds that closing a client may take."""
_PREFIX = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,50}")

OPTIONS: dict[str, Any] = {
    "appname": "mainspring",
    "retryWrites": True,
    "retryReads": True,
    "heartbeatFrequencyMS": 2_000,  # a new primary is known within this time
    "connectTimeoutMS": 5_000,
    "serverSelectionTimeoutMS": 10_000,  # calls wait for an election, which takes up to this long, instead of failing
    "socketTimeoutMS": 30_000,  # silent connections are given up
    "maxPoolSize": 20,
}
"""Options of the driver that the address may override."""


class Address(msgspec.Struct, frozen=True):
    """`url` is for the driver; `options` are our defaults for what the url leaves open; `name` is safe to show."""

    url: str
    database: str
    collections: str
    options: dict[str, Any]
    name: str


def parse_address(url: str, prefix: str | None = None) -> Address:
    """Take our own option out of the query; the driver gets the rest unchanged."""
    plain, _, text = url.partition("?")
    query = parse_qsl(text, keep_blank_values=True)
    ours = {name: value for name, value in query if name == "prefix"}
    rest = urlencode([(name, value) for name, value in query if name != "prefix"], quote_via=quote, safe=":,")
    driver_url = f"{plain}?{rest}" if rest else plain
    given = {name.lower() for name, _ in query}
    return Address(
        url=driver_url,
        database=_database(driver_url, plain),
        collections=checked_prefix(prefix or ours.get("prefix", DEFAULT_PREFIX)),
        options={name: value for name, value in OPTIONS.items() if name.lower() not in given},
        name=without_password(driver_url),
    )


def checked_prefix(prefix: str) -> str:
    if _PREFIX.fullmatch(prefix) is None:
        raise InvalidValue("prefix", prefix, "letters, digits and underscores, at most 51, no digit first")
    return prefix


def _database(url: str, plain: str) -> str:
    """The name after the hosts. The DNS records of a `mongodb+srv` address are left for the driver to look up."""
    if plain.startswith("mongodb+srv://"):
        return plain.partition("://")[2].partition("/")[2] or DEFAULT_DATABASE
    try:
        return parse_uri(url, warn=False)["database"] or DEFAULT_DATABASE
    except (InvalidURI, ConfigurationError, ValueError) as error:
        allowed = "an address such as mongodb://host:27017/name"
        raise InvalidValue(
            "database_url", without_password(url), allowed, without_secrets_of(url, str(error))
        ) from None


class MongoSource:
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
        """An operation that waits for a server and is cancelled twice can leave a lock of the driver taken for good: a
        Condition of asyncio in Python 3.11 loses it. The client of such a lock is abandoned."""
        if self._client is None:
            try:
                async with asyncio.timeout(LONGEST_CLOSE):
                    await db.close()
            except TimeoutError:
                self.abandon(db)

    def abandon(self, db: Database) -> None:
        """Mark the client of an event loop that has ended as closed: its connections ended with the loop."""
        if self._client is None:
            db.client._closed = True
