"""The SQLite store passes the conformance suite; the second handle is a second store on the same file."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from mainspring.core.ports import Clock, Store
from mainspring.stores.sqlite import SqliteStore, jobs
from mainspring.stores.sqlite.executions import settle
from mainspring.testing.conformance import StoreConformance
from tests.conformance.short_ways import Way, counted


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

    def short_ways(self) -> AbstractContextManager[Mapping[str, int]]:
        endings = {
            "usual endings": lambda moved, _, endings: bool(moved),
            "usual endings refused": lambda moved, _, endings: len(moved) < len(endings),
        }
        ticks = {
            "usual ticks": lambda won, *_: won,
            "usual ticks refused": lambda won, *_: not won,
        }
        return counted(Way(settle, "move", endings), Way(jobs, "_plan", ticks))


@asynccontextmanager
async def opened(path: Path, clock: Clock) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path, clock, synchronous="NORMAL", watch_interval=0.01)  # no test here cuts the power
    await store.open()
    try:
        yield store
    finally:
        await store.close()
