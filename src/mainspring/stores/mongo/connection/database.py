"""The collections of one store on one event loop, and the server's clock.

A majority of the members acknowledges each write, from their journals: a confirmed write is never rolled back. Only
claims are confirmed by the primary alone: a claim that an election rolls back is a waiting row again, and the owner in
the fence keeps two claims apart.

The server's clock is the reference for every due time and every lease. Update pipelines contain it as an expression
that the server evaluates, so no lease depends on the clock of a client. MongoDB counts milliseconds and Mainspring
microseconds: the server's now is the beginning of its millisecond.
"""

from __future__ import annotations

import time as machine
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from typing import Any, Protocol

import pymongo
from bson import ObjectId
from pymongo import AsyncMongoClient, ReadPreference, WriteConcern
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import PyMongoError
from pymongo.read_concern import ReadConcern

from ....core.ports import Topic
from ....model.errors import StoreError
from ....model.execution import ExecutionRow
from ....model.store.messages import StoragePart, StorageSize
from ....model.time.instants import Micros, seconds_to_micros
from .collection import Collection
from .errors import answered, repeated, translating

COLLECTIONS = (
    *("executions", "jobs", "incarnations", "logs", "audits", "workers", "locks", "limits", "entries", "wakeups"),
    *("purges", "meta"),
)
DURABLE = WriteConcern(w="majority", j=True, wtimeout=30_000)
PRIMARY_ONLY = WriteConcern(w=1)
CLOSING = 0.2
"""Seconds that the last words of a connection may take: a server that is away must not hold up the end of a process."""
_CLAIMS_REMEMBERED = 10_000

_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)


class Time(Protocol):
    """`now` is an aggregation expression; `read` takes the time from the answer to a `hello` command."""

    def now(self) -> Any: ...
    def read(self, hello: dict[str, Any]) -> Micros: ...


class ServerTime:
    def now(self) -> Any:
        return {"$multiply": [{"$toLong": "$$NOW"}, 1000]}

    def read(self, hello: dict[str, Any]) -> Micros:
        return int((hello["localTime"] - _EPOCH) // _MICROSECOND)


def later(time: Time, seconds: float) -> Any:
    """The expression for so many seconds after the server's now."""
    return {"$add": [time.now(), seconds_to_micros(seconds)]}


class Database:
    def __init__(
        self, client: AsyncMongoClient[dict[str, Any]], database: str, prefix: str, time: Time, name: str
    ) -> None:
        self.client, self.prefix, self.time, self.name = client, prefix, time, name
        self.plain: AsyncDatabase[dict[str, Any]] = client.get_database(
            database,
            write_concern=DURABLE,
            read_preference=ReadPreference.PRIMARY,
            read_concern=ReadConcern("local"),
        )
        self.executions = self.collection("executions")
        self.jobs = self.collection("jobs")
        self.incarnations = self.collection("incarnations")
        self.logs = self.collection("logs")
        self.audits = self.collection("audits")
        self.workers = self.collection("workers")
        self.locks = self.collection("locks")
        self.limits = self.collection("limits")
        self.entries = self.collection("entries")
        # Change streams set a read concern of their own.
        self.wakeups = self.collection("wakeups", write_concern=PRIMARY_ONLY, read_concern=ReadConcern())
        self.purges = self.collection("purges")
        self.meta = self.collection("meta")
        self.claims = self.collection("executions", write_concern=PRIMARY_ONLY)
        self.buckets = self.collection("limits", write_concern=PRIMARY_ONLY)
        self.knows_limits = False  # whether any execution here ever had a share or a limit, as far as is known
        self.unsettled: dict[tuple[Any, ...], set[ObjectId]] = {}  # changes whose outcome is open, with their stamps
        self._recheck_at: float | None = None
        self._has_snapshots: bool | None = None
        self._claimed: dict[str, tuple[int, dict[str, Any]]] = {}

    def collection(self, name: str, **options: Any) -> Collection:
        return Collection(self.plain.get_collection(collection_name(self.prefix, name), **options), self.name)

    async def hello(self) -> dict[str, Any]:
        return await repeated(lambda: answered(self.name, self.plain.command("hello")))

    async def now(self) -> Micros:
        return self.time.read(await self.hello())

    async def storage_size(self) -> StorageSize:
        """The collections with their indexes, as the server counts them."""
        version = (await self._command({"buildInfo": 1}))["version"]
        parts = []
        for name in COLLECTIONS:
            found = await self._command({"collStats": collection_name(self.prefix, name)})
            parts.append(StoragePart(name, int(found.get("totalSize", 0)), int(found.get("count", 0))))
        parts.sort(key=lambda part: -part.bytes)
        size = sum(part.bytes for part in parts)
        return StorageSize(kind="mongodb", server=f"MongoDB {version}", bytes=size, parts=tuple(parts))

    async def _command(self, command: dict[str, Any]) -> dict[str, Any]:
        return await repeated(lambda: answered(self.name, self.plain.command(command)))

    async def has_transactions(self) -> bool:
        """Replica sets and sharded clusters have transactions and change streams, a single server has neither."""
        hello = await self.hello()
        return "setName" in hello or hello.get("msg") == "isdbgrid"

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[AsyncClientSession | None]:
        """A session that reads what there is at one instant; None where the server has none."""
        if self._has_snapshots is None:
            self._has_snapshots = await self.has_transactions()
        if not self._has_snapshots:
            yield None
            return
        with translating(self.name):
            session = self.client.start_session()
        async with session:
            await session.start_transaction(ReadConcern("snapshot"), PRIMARY_ONLY, ReadPreference.PRIMARY)
            try:
                yield session
            except PyMongoError as error:  # those that ask for the transaction to be run again come untranslated
                raise StoreError(f"{self.name}: the server gave the snapshot up: {error}") from error
            finally:
                with suppress(PyMongoError):  # it wrote nothing
                    await session.abort_transaction()

    def expect_recheck(self, delay: Micros | None) -> None:
        """Remember that parked rows have to be rechecked after this delay."""
        self._recheck_at = None if delay is None else machine.monotonic() + delay / 1_000_000

    def is_recheck_expected(self) -> bool:
        """Whether a recheck is due as far as this process knows. A wrong answer is corrected by the next claim."""
        return self._recheck_at is not None and self._recheck_at <= machine.monotonic()

    def remember_claims(self, rows: Iterable[ExecutionRow]) -> None:
        """So that the endings of these rows need not read what they free. The oldest are forgotten first."""
        for row in rows:
            takes = {"unique_key": row.unique_key, "overlap_key": row.overlap_key, "limits": row.limits}
            self._claimed[row.id] = row.token, {name: value for name, value in takes.items() if value is not None}
        while len(self._claimed) > _CLAIMS_REMEMBERED:
            del self._claimed[next(iter(self._claimed))]

    def forget_claim(self, id: str, token: int) -> dict[str, Any] | None:
        """Keys and limits of a row that this process has claimed under this token; None for other rows."""
        known, takes = self._claimed.pop(id, (None, None))
        return takes if known == token else None

    async def learn_limits(self) -> None:
        """Make all claims look for rows with shares and for parked rows. Databases without any do not pay for them."""
        if not self.knows_limits:
            await repeated(lambda: self.meta.update_one({"_id": "schema"}, {"$set": {"limits": True}}))
            self.knows_limits = True

    async def close(self) -> None:
        with pymongo.timeout(CLOSING):
            await answered(self.name, self.client.close())


def collection_name(prefix: str, name: str) -> str:
    return f"{prefix}.{name}"


class StorePart(ABC):
    """The base of the parts that together are the store: each implements the primitives of one subject."""

    @property
    @abstractmethod
    def db(self) -> Database:
        """The collections, for the running event loop."""

    @abstractmethod
    def wake(self, topics: Iterable[Topic]) -> None:
        """Wake the listeners of this process at once, those of other processes very soon."""
