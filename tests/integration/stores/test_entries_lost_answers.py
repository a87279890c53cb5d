"""An entry is written and the answer gets lost: that is told, and not repeated. A repetition would look refused.

Reads are repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import AutoReconnect

from mainspring.model.errors import StoreError
from mainspring.model.store.entries import Entry, EntryWrite
from mainspring.stores.mongo import MongoStore
from mainspring.stores.postgres import PostgresStore
from mainspring.stores.postgres.connection.pool import Row
from tests.mongo_server import mongo
from tests.servers import postgres

ENTRY = Entry(kind="window", scope="nightly", key="1", version=1)
SECOND = Entry(kind="window", scope="nightly", key="1", version=2)


class Cut:
    """A source of connections that lose the answer to the next statement."""

    def __init__(self, source: Any) -> None:
        self._source, self.cut = source, False

    async def fetch(self, text: str, values: Sequence[Any]) -> list[Row]:
        rows: list[Row] = await self._source.fetch(text, values)
        if self.cut:
            self.cut = False
            raise OSError("the line was cut")
        return rows

    async def close(self) -> None:
        await self._source.close()


@pytest.mark.req("REL-1")
async def test_on_postgresql() -> None:
    store = PostgresStore(postgres().new_database())
    await store.open()
    try:
        line = Cut(store.database._source)
        store.database._source = line  # type: ignore[assignment]
        line.cut = True
        with pytest.raises(StoreError, match="cannot be reached"):
            await store.write_entries([EntryWrite(entry=ENTRY, seen_version=0)])
        for read in (store.list_entries("window", "nightly"), store.entries("window", "nightly", ["1"])):
            line.cut = True
            assert await read == [ENTRY]
        line.cut = True
        with pytest.raises(StoreError, match="cannot be reached"):
            await store.write_entries([EntryWrite(entry=ENTRY)])
        assert await store.list_entries("window", "nightly") == [SECOND]
    finally:
        await store.close()


@pytest.mark.req("REL-1")
@pytest.mark.parametrize("write", ["bulk_write", "update_one"])
async def test_on_mongodb(write: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = MongoStore(mongo("standalone").new_database())
    await store.open()
    try:
        await store.write_entries([EntryWrite(entry=ENTRY)])
        original = getattr(AsyncCollection, write)

        async def cut(self: Any, *args: Any, **kwargs: Any) -> Any:
            await original(self, *args, **kwargs)
            raise AutoReconnect("the line was cut")

        with monkeypatch.context() as patch:
            patch.setattr(AsyncCollection, write, cut)
            with pytest.raises(StoreError, match="the line was cut"):
                await store.write_entries([EntryWrite(entry=ENTRY, seen_version=1 if write == "update_one" else None)])
        assert await store.list_entries("window", "nightly") == [SECOND]
    finally:
        await store.close()
