"""Copying every record from one store into another (`Store.copy_out`, `Store.copy_in`).

What a store has to do:

- pages come in the order of keys, by code points: job ids, execution ids, audit ids, entries by kind, scope and
  key, job names;
- records are read back as they were inserted: states, tokens, owners, leases, keys, numbers, attempts, log lines with
  their sequence numbers, versions of jobs and entries, statistics, the mark of a row that is deleted when its
  follow-ups are done;
- existing records stay as they are, so a copy can be repeated; nothing is counted, numbered or woken twice;
- afterwards the engine continues: pending rows are claimed under the next token, numbers continue, leases expire, keys
  are held, versions are compared, live executions are counted.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ...core.copy_store import KINDS, compare, copy, dump
from ...core.ports import Store
from ...model.errors import StoreError
from ...model.execution import State
from ...model.job import LiveCounts
from ...model.limits import Limit, encode_limits
from ...model.store.copy_records import ExecutionRecord, RecordKind, key_of
from ...model.store.entries import Entry, EntryWrite
from ...model.store.messages import CancelRequest, LogLine, ProgressReport
from ...stores.memory import MemoryStore
from .base import StoreSuite, World

ENTRIES = (
    *(
        Entry(kind="window", scope="nightly", key=key, body=f'{{"n":"{key}"}}')
        for key in ("1", "1", "12", "2", "é", "")
    ),
    *(
        Entry(kind="revision", scope=scope, key=scope)
        for scope in ("", "a", "a b", "a\x01", "a\x02", "ab", "\U0001f40d")
    ),
    *(
        Entry(kind="backfill_plan", key="1"),
        Entry(kind="backfill", scope="\x7f", key="1"),
        Entry(kind="backfill", key="2"),
    ),
)
"""Two writes of one key make version 2; a name that begins with another must stay behind it."""


class Copying(StoreSuite):
    async def test_all_that_a_store_holds_goes_into_another_and_comes_back(self, world: World) -> None:
        elsewhere = await world_elsewhere(self, world)
        moved = await copy(elsewhere.store, world.store, silent)
        assert moved.equal, moved.compared
        assert await dumped(world.store) == await dumped(elsewhere.store)
        assert all(moved.copied.values())

    async def test_all_that_it_holds_itself_goes_into_another(self, world: World) -> None:
        """The only difference: live executions without a number get one in the target."""
        await furnish(world)
        elsewhere = MemoryStore(world.clock)
        moved = await copy(world.store, elsewhere, silent)
        assert moved.equal, moved.compared
        assert {kind.kind: kind.source == kind.target > 0 for kind in moved.compared} == dict.fromkeys(KINDS, True)
        assert moved.running == 2
        numbers = [record.execution.number for record in await executions(elsewhere)]
        assert None not in numbers

    async def test_pages_in_the_order_of_keys(self, world: World) -> None:
        await furnish(world)
        for kind in KINDS:
            everything = [key_of(record) for record in await world.store.copy_out(kind, "", 1_000)]
            assert everything == sorted(everything)
            assert len(everything) > 2
            paged, after = [], ""
            while page := await world.store.copy_out(kind, after, 2):
                assert len(page) <= 2
                paged += [key_of(record) for record in page]
                after = paged[-1]
            assert paged == everything

    async def test_what_is_there_stays_as_it_is(self, world: World) -> None:
        elsewhere = await world_elsewhere(self, world)
        await copy(elsewhere.store, world.store, silent)
        before = await dumped(world.store)
        for kind in KINDS:
            records = await elsewhere.store.copy_out(kind, "", 1_000)
            assert await world.store.copy_in(kind, records) == 0
        [job] = await world.store.jobs(["nightly"])
        assert await world.store.copy_in("jobs", [job.with_changes(version=99)]) == 0
        [entry] = await world.store.entries("window", "nightly", ["1"])
        assert await world.store.copy_in("entries", [replace(entry, version=99)]) == 0
        assert await world.store.copy_in("executions", []) == 0
        assert await dumped(world.store) == before

    async def test_only_what_is_missing_is_added(self, world: World) -> None:
        elsewhere = await world_elsewhere(self, world)
        await world.store.copy_in("incarnations", await elsewhere.store.copy_out("incarnations", "", 1_000))
        records = await elsewhere.store.copy_out("executions", "", 1_000)
        assert await world.store.copy_in("executions", records[::2]) == len(records[::2])
        assert await world.store.copy_in("executions", records) == len(records[1::2])
        assert await world.store.copy_out("executions", "", 1_000) == records

    async def test_the_engine_goes_on_where_it_was(self, world: World) -> None:
        elsewhere = await world_elsewhere(self, world)
        was = {job.name: job for job in await elsewhere.store.jobs()}
        await copy(elsewhere.store, world.store, silent)
        assert await world.store.stats() == await elsewhere.store.stats()
        assert await world.store.live_counts() == await elsewhere.store.live_counts()
        assert [job.name for job in (await world.store.due_jobs(10)).jobs] == ["nightly"]

        job = was["nightly"]
        assert not await world.write(job, seen=job.version - 1)
        assert await world.write(job, seen=job.version, executions=(world.execution(job_id=job.id, job=job.name),))
        assert (await world.stored_job("nightly")).version == job.version + 1

        [entry] = await world.store.entries("window", "nightly", ["1"])
        again = [EntryWrite(entry=entry, seen_version=seen) for seen in (entry.version - 1, entry.version)]
        assert await world.store.write_entries(again) == [False, True]

        retried = next(record.execution for record in await executions(elsewhere.store) if record.execution.failures)
        claimed = {row.id: row for row in await world.claim()}
        assert claimed[retried.id].claims == retried.claims + 1
        assert claimed[retried.id].failures == 1

    async def test_numbers_continue_and_live_executions_are_counted(self, world: World) -> None:
        elsewhere = await world_elsewhere(self, world)
        await copy(elsewhere.store, world.store, silent)
        [job] = await world.store.jobs(["job"])
        before = (await world.store.live_counts(["job-1"]))["job-1"]
        row = world.execution(queue="new")
        await world.add(row)
        counts = (await world.store.live_counts(["job-1"]))["job-1"]
        assert counts == LiveCounts(pending=before.pending + 1, running=before.running, waiting=before.waiting)
        [claimed] = await world.claim(queues=frozenset({"new"}))
        assert await world.settle(claimed)
        while await world.store.fold(100):
            pass
        assert (await world.get(row.id)).number == job.last_number + 1
        assert (await world.store.live_counts(["job-1"]))["job-1"] == before

    async def test_leases_run_out_and_log_lines_go_on(self, world: World) -> None:
        elsewhere = await world_elsewhere(self, world)
        await copy(elsewhere.store, world.store, silent)
        running = [record for record in await executions(world.store) if record.execution.state is State.RUNNING]
        [(logged, last)] = [(record.execution, record.logs[-1][0]) for record in running if record.logs]
        report = ProgressReport(
            id=logged.id, token=logged.token, owner=logged.owner or "", logs=(LogLine(5, "INFO", "on"),)
        )
        assert await world.store.report([report]) == [True]
        assert (await world.store.logs(logged.id, last)) == [(last + 1, LogLine(5, "INFO", "on"))]
        assert await world.store.cancels(logged.owner or "") == {logged.id: "enough"}
        assert await world.store.expired(10) == []
        world.clock.advance(3_600)
        assert {row.id for row in await world.store.expired(10)} == {key_of(record) for record in running}

    async def test_keys_are_held_and_a_copy_never_breaks_one(self, world: World) -> None:
        elsewhere = await world_elsewhere(self, world)
        await copy(elsewhere.store, world.store, silent)
        assert await world.outcomes(world.execution(unique_key="only-one")) == ["unique_taken"]
        second = ExecutionRecord(execution=world.execution(unique_key="only-one", number=7))
        with pytest.raises(StoreError):
            await world.store.copy_in("executions", [second])
        assert await world.store.execution(second.execution.id) is None

    async def test_what_was_not_to_be_kept_goes_after_its_follow_ups(self, world: World) -> None:
        elsewhere = await world_elsewhere(self, world)
        await copy(elsewhere.store, world.store, silent)
        [unkept] = [record.execution for record in await executions(world.store) if not record.keep]
        assert unkept.id in [row.id for row in await world.store.todo(10)]
        await world.store.todo_done([unkept.id])
        assert await world.store.execution(unkept.id) is None

    async def test_a_difference_is_found(self, world: World) -> None:
        elsewhere = await world_elsewhere(self, world)
        await copy(elsewhere.store, world.store, silent)
        await world.store.remove_worker("w1")
        [todo, *_] = await world.store.todo(1)
        await world.store.todo_done([todo.id])
        found = {kind.kind: kind for kind in await compare(elsewhere.store, world.store, silent)}
        assert [kind for kind in KINDS if not found[kind].equal] == ["executions"]
        assert found["executions"].differences


async def world_elsewhere(suite: StoreSuite, world: World) -> World:
    """Another store with data; its ids differ from those of this world."""
    elsewhere = World(suite, MemoryStore(world.clock), world.clock)
    elsewhere.id = world.id  # type: ignore[method-assign]  # one series for both
    await furnish(elsewhere)
    return elsewhere


async def furnish(world: World) -> None:
    """Records of every kind a store can hold."""
    for name in ("job", "nightly", "über"):
        due = world.after(-1) if name == "nightly" else None
        await world.write(world.job(name, ticking=name == "nightly", next_run=due), audit=world.audit(name, "create"))
    nightly = await world.stored_job("nightly")
    tick = world.execution(id=world.id(), job="nightly", job_id=nightly.id, trigger="schedule", tick=world.now)
    await world.write(nightly, seen=1, executions=(tick,))
    [claimed] = await world.claim()
    await world.settle(claimed, attempt=world.attempt(), result_json='{"n":[1,"ü"]}', counters_json='{"rows":1.5}')
    await world.finished(State.FAILED, metadata_json='{"a":1}')
    gone = await world.running(job="gone", job_id="gone-1")
    assert await world.settle(gone, todo=True, keep=False)
    open_end = await world.running(parent_id=gone.id, tenant="acme")
    assert await world.settle(open_end, todo=True, error="o\nh", reason="r")
    retried = await world.running(unique_key="only-one", queue="other")
    assert await world.settle(retried, State.PENDING, failures=1, delay=0.0, attempt=world.attempt())
    await world.add(world.execution(overlap_key="o"), world.execution(overlap_key="o"), world.execution())
    await world.add(world.execution(due=world.after(500)), world.execution(priority=5, queue="other"))
    running = await world.claim(limit=2, queues=frozenset({"default"}), lease=600.0)
    lines = tuple(LogLine(n, "INFO", f"line {n}", f"shop.{n}") for n in range(3))
    assert len(running) == 2
    await world.store.report(
        [ProgressReport(id=running[1].id, token=running[1].token, owner="w1", progress_json='{"p":1}', logs=lines)]
    )
    cancel = CancelRequest(id=running[1].id, token=running[1].token, at=world.now, reason="enough")
    assert await world.store.request_cancel([cancel]) == [True]
    flowing = {"share": "acme", "weight": 3, "limits": encode_limits([Limit("k", concurrency=1)]), "flow": "f"}
    await world.add(world.execution(queue="other", due=world.after(500), **flowing))
    await world.store.write_entries([EntryWrite(entry=entry) for entry in ENTRIES])


async def executions(store: Store) -> list[ExecutionRecord]:
    found = await store.copy_out("executions", "", 1_000)
    return [record for record in found if isinstance(record, ExecutionRecord)]


async def dumped(store: Store) -> list[bytes]:
    return [line async for line in dump(store)]


def silent(step: str, kind: RecordKind, count: int, key: str) -> None:
    """Ignores progress."""
