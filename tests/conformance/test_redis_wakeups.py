"""A store that announces through Redis is still that store; its second handle hears of changes through Redis alone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

from mainspring.core.ports import Clock, Store, Topic, Unsubscribe
from mainspring.redis.announcing_store import AnnouncingStore
from mainspring.redis.wakeups import RedisWakeups
from mainspring.stores.memory import MemoryStore
from mainspring.testing.conformance.executions.cancelling import Cancelling
from mainspring.testing.conformance.executions.insert import Inserts
from mainspring.testing.conformance.executions.settling import Settling
from mainspring.testing.conformance.jobs import JobDeletion, JobWrites
from mainspring.testing.conformance.wakeups import WakeUps
from tests.valkey_server import valkey


class Deaf:
    """Another handle onto a store, which hears nothing by itself."""

    def __init__(self, store: Any) -> None:
        self.store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def listen(self, callback: Callable[[Topic], None]) -> Unsubscribe:
        return lambda: None


class TestAnnouncing(JobWrites, JobDeletion, Inserts, Settling, Cancelling, WakeUps):
    @asynccontextmanager
    async def open_store(self, clock: Clock) -> AsyncIterator[Store]:
        self.memory, self.prefix = MemoryStore(clock), valkey().new_prefix()
        async with announcing(self.memory, self.prefix) as store:
            yield store

    @asynccontextmanager
    async def second_store(self, store: Store, clock: Clock) -> AsyncIterator[Store]:
        async with announcing(Deaf(self.memory), self.prefix) as other:
            yield other


@asynccontextmanager
async def announcing(store: Any, prefix: str) -> AsyncIterator[Store]:
    wakeups = RedisWakeups(valkey().url(prefix=prefix))
    try:
        yield cast(Store, AnnouncingStore(store, wakeups))
    finally:
        await wakeups.close()
