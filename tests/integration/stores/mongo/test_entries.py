"""A process that writes entries on MongoDB dies between any two of its writes: no audit record is lost or made up."""

from __future__ import annotations

import pytest

from mainspring.model.store.entries import Entry, EntryWrite
from mainspring.stores.mongo import MongoStore
from tests.integration.stores.mongo.test_crashes import Ground, at_every_write, audit, dies, emptied, recovered
from tests.integration.stores.mongo_support import opened

ENTRY = Entry(kind="window", scope="nightly", key="1")
OTHER = Entry(kind="window", scope="nightly", key="2")
STEP = [
    EntryWrite(entry=ENTRY, seen_version=1, audit=audit(1)),
    EntryWrite(entry=OTHER, seen_version=1, remove=True, audit=audit(2)),
    EntryWrite(entry=ENTRY, remove=True, audit=audit(3)),
]


@pytest.mark.req("REL-1")
async def test_what_was_removed_is_gone_and_audited_wherever_the_process_dies() -> None:
    ground, died = Ground(), 0
    for write, after in at_every_write():
        url = emptied(ground)
        async with opened(url) as store:
            await store.write_entries([EntryWrite(entry=ENTRY), EntryWrite(entry=OTHER)])
        if not await dies(url, lambda store: store.write_entries(STEP), write, after):
            break
        died += 1
        async with opened(url) as store:
            versions = {entry.key: entry.version for entry in await store.list_entries("window", "nightly")}
            await recovered(store)
            audited = {record.id for record in await store.audits()}
            assert ("a1" in audited) == (versions.get("1") != 1), (write, after)
            assert ("a2" in audited) == ("2" not in versions), (write, after)
            assert ("a3" in audited) == ("1" not in versions), (write, after)
            assert await documents(store) == len(versions), "what is removed leaves nothing behind"
            again = [EntryWrite(entry=entry, seen_version=0) for entry in (ENTRY, OTHER)]
            assert await store.write_entries(again) == ["1" not in versions, "2" not in versions]
    else:
        pytest.fail("the step never came to its end")
    assert died >= 6


async def test_a_mark_of_a_removal_is_taken_over_with_its_audit_record() -> None:
    url = emptied(Ground())
    async with opened(url) as store:
        await store.write_entries([EntryWrite(entry=ENTRY)])
        assert await dies(url, lambda other: other.write_entries(STEP[-1:]), 1, True)
        assert (await store.list_entries("window", "nightly"), await documents(store)) == ([], 1)
        assert await store.write_entries([EntryWrite(entry=ENTRY, seen_version=0)]) == [True]
        assert [entry.version for entry in await store.list_entries("window", "nightly")] == [1]
        assert [record.id for record in await store.audits()] == ["a3"]
        assert await dies(url, lambda other: other.write_entries(STEP[-1:]), 1, True)
        assert await store.copy_in("entries", [Entry(kind="window", scope="nightly", key="1", version=7)]) == 1
        assert [entry.version for entry in await store.entries("window", "nightly", ["1"])] == [7]


async def documents(store: MongoStore) -> int:
    return await store.db.entries.count_documents({})
