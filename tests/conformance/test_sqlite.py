"""The SQLite store passes the conformance suite; the second handle is a second store on the same file."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from mainspring.core.ports import Clock, Store
from mainspring.stores.sqlite import SqliteStore
from mainspring.testing.conformance import StoreConformance


class TestSqlite(StoreConformance):
    @asynccontextmanager
    async def open_store(self, clock: Clock) -> AsyncIterator[Store]:
        with TemporaryDirectory() as directory:
            async with opened(Path(directory) / "test.db", clock) as store:
                yield store

    @asynccontextmanager
    async def second_store(self, store: Store, clock: Clock) -> AsyncIterator[Store]:
        assert isinstance(store, SqliteStore)
        async with opened(Path(store.path), clock) as other:
            yield other


@asynccontextmanager
async def opened(path: Path, clock: Clock) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path, clock, synchronous="NORMAL", watch_interval=0.01)  # no test here cuts the power
    await store.open()
    try:
        yield store
    finally:
        await store.close()
