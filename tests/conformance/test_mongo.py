"""The MongoDB store passes the conformance suite on a replica set and on a standalone server.

A store follows the server's clock, which nothing can set: here the FakeClock of each test replaces it. The second
handle is a second store.
"""

from __future__ import annotations

import atexit
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from functools import cache
from typing import Any

import pymongo

from mainspring.core.ports import Clock, Store
from mainspring.model.store.messages import Change
from mainspring.stores.mongo import MongoStore
from mainspring.stores.mongo.connection.database import COLLECTIONS
from mainspring.stores.mongo.executions import settle
from mainspring.stores.mongo.jobs import write
from mainspring.testing.conformance import StoreConformance
from tests.conformance.short_ways import Way, counted
from tests.mongo_server import mongo


class ClockTime:
    """The clock of a test in place of the server's."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def now(self) -> Any:
        return {"$literal": self._clock.now()}

    def read(self, hello: dict[str, Any]) -> int:
        return self._clock.now()


class Ground:
    """One database, emptied for each test; its indexes stay."""

    def __init__(self, kind: str) -> None:
        self.url = mongo(kind).new_database()
        self._client: pymongo.MongoClient[dict[str, Any]] = pymongo.MongoClient(self.url)
        atexit.register(self._client.close)

    def clear(self) -> None:
        database = self._client.get_default_database()
        for name in COLLECTIONS:
            wanted = {"_id": {"$ne": "schema"}} if name == "meta" else {}
            database[f"mainspring.{name}"].delete_many(wanted)


@cache
def ground(kind: str) -> Ground:
    return Ground(kind)


class MongoSuite(StoreConformance):
    kind = "replica_set"
    scripts = 6

    @asynccontextmanager
    async def open_store(self, clock: Clock) -> AsyncIterator[Store]:
        ground(self.kind).clear()
        async with opened(self.kind, clock) as store:
            yield store

    @asynccontextmanager
    async def second_store(self, store: Store, clock: Clock) -> AsyncIterator[Store]:
        async with opened(self.kind, clock) as other:
            yield other

    def short_ways(self) -> AbstractContextManager[Mapping[str, int]]:
        def is_usual(changes: Sequence[Change]) -> bool:
            return len(changes) > 1 and all(change.to.final and change.attempt for change in changes)

        endings = {
            "endings together": lambda done, _, changes: is_usual(changes) and len(done) == len(changes),
            "some of them refused": lambda done, _, changes: is_usual(changes) and len(done) < len(changes),
            "of several claims": lambda done, _, changes: is_usual(changes) and len({c.token for c in changes}) > 1,
        }
        ticks = {
            "ticks together": lambda _, __, batch: len(batch) > 1 and all(one.won for one in batch),
            "some of them lost": lambda _, __, batch: len(batch) > 1 and not all(one.won for one in batch),
        }
        return counted(Way(settle, "_settle_round", endings), Way(write, "_decide", ticks))


class TestMongoReplicaSet(MongoSuite):
    pass


class TestMongoStandalone(MongoSuite):
    kind = "standalone"
    scripts = 4


@asynccontextmanager
async def opened(kind: str, clock: Clock) -> AsyncIterator[MongoStore]:
    store = MongoStore(ground(kind).url, time=ClockTime(clock))
    await store.open()
    try:
        yield store
    finally:
        await store.close()
