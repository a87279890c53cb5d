"""Notes of failures on MongoDB travel with the execution first: each arrives once, however often it is moved."""

from __future__ import annotations

import pytest

from mainspring.model.execution import State
from mainspring.model.store.entries import EntryWrite
from mainspring.stores.mongo import failure_notes
from tests.integration.stores.mongo.test_crashes import Ground, at_every_write, dies, emptied
from tests.integration.stores.mongo_support import ending, execution, opened, request


@pytest.mark.req("REL-1")
async def test_a_note_arrives_once_wherever_the_process_that_moves_it_dies() -> None:
    ground, died = Ground(), 0
    for write, after in at_every_write():
        url = emptied(ground)
        async with opened(url) as store:
            await store.add([execution()])
            [row] = (await store.exchange([], request())).claimed
            end = ending(row, State.FAILED, failure='{"n":1}', labels=("!g",), keep=False)
            assert (await store.exchange([end], None)).applied == (True,)
        if not await dies(url, lambda store: store.fold(100), write, after):
            break
        died += 1
        async with opened(url) as store:
            [note] = await store.list_entries("failure", "")
            assert (note.body, note.version) == ('{"n":1}', 1)
            await store.write_entries([EntryWrite(entry=note, seen_version=1, remove=True)])
            await store.fold(100)
            assert await store.list_entries("failure", "") == []
    else:
        pytest.fail("the step never came to its end")
    assert died >= 4


async def test_a_slow_process_cannot_bring_a_note_back() -> None:
    url = emptied(Ground())
    async with opened(url) as store:
        await store.add([execution()])
        [row] = (await store.exchange([], request())).claimed
        await store.exchange([ending(row, State.PENDING, failure="{}")], None)
        read_before = await store.db.executions.find({"notes.key": {"$exists": True}}, {"notes": 1})
        [note] = await store.list_entries("failure", "")
        assert await store.write_entries([EntryWrite(entry=note, seen_version=1, remove=True)]) == [True]
        await failure_notes.move(store.db, read_before)
        await store.fold(100)
        assert await store.list_entries("failure", "") == []
        assert await store.entries("failure", "", [note.key]) == []
        assert await store.db.entries.count_documents({}) == 1, "what refuses it is kept for a while"
