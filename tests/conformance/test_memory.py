"""The memory store passes the conformance suite."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mainspring.core.ports import Clock, Store
from mainspring.stores.memory import MemoryStore
from mainspring.testing.conformance import StoreConformance


class TestMemory(StoreConformance):
    @asynccontextmanager
    async def open_store(self, clock: Clock) -> AsyncIterator[Store]:
        yield MemoryStore(clock)

    @asynccontextmanager
    async def second_store(self, store: Store, clock: Clock) -> AsyncIterator[Store]:
        yield store  # nodes in one process share the object
