"""Inserting executions: idempotent, with unique and overlap keys; a skipped execution is recorded."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from ....model.execution import State
from ....model.store.messages import Added
from ..base import StoreSuite, World, ids


class Inserts(StoreSuite):
    @pytest.mark.req("REL-1", "ENQ-1")
    async def test_an_added_execution_is_live_and_exact(self, world: World) -> None:
        execution = world.execution(
            queue="mail",
            trigger="api",
            triggered_by="ann",
            trace_id="ab" * 16,
            traceparent="00-x-y-01",
            params='{"n":1}',
            policy='{"max_attempts":3}',
            tick=world.after(-1.5),
            window_begin=1,
            window_end=2,
            tenant="t1",
            parent_id="p",
            retry_of="r",
            priority=-7,
            due=world.after(3.000001),
            unique_key="u",
            overlap_key="o",
            running_unique_key="ru",
            running_overlap_key="ro",
            staged=True,
            failures=1,
            crashes=2,
            alone=True,
            metadata_json='{"a":[]}',
        )
        assert await world.add(execution) == [Added(execution.id, "added")]
        assert replace(await world.get(execution.id), number=None) == execution

    @pytest.mark.req("ENQ-1")
    async def test_many_at_once_keep_their_order(self, world: World) -> None:
        batch = [world.execution() for _ in range(500)]
        added = await world.add(*batch)
        assert [(item.id, item.outcome) for item in added] == [(execution.id, "added") for execution in batch]
        assert await world.all_ids() == ids(batch)[::-1]

    async def test_nothing_to_add(self, world: World) -> None:
        assert await world.add() == []

    @pytest.mark.req("REL-1")
    async def test_a_live_id_is_a_duplicate_and_nothing_changes(self, world: World) -> None:
        execution = world.execution(params='{"n":1}')
        await world.add(execution)
        assert await world.outcomes(replace(execution, params='{"n":2}')) == ["duplicate"]
        assert (await world.get(execution.id)).params == '{"n":1}'

    @pytest.mark.req("REL-1")
    async def test_an_id_twice_in_one_batch_is_a_duplicate(self, world: World) -> None:
        execution = world.execution()
        assert await world.outcomes(execution, execution) == ["added", "duplicate"]

    @pytest.mark.req("REL-1")
    async def test_a_finished_id_is_a_duplicate_and_stays_finished(self, world: World) -> None:
        for to in (State.COMPLETED, State.FAILED, State.CANCELLED):
            done = await world.finished(to)
            assert await world.outcomes(replace(done, state=State.PENDING, finished=None)) == ["duplicate"]
            assert await world.get(done.id) == done

    async def test_a_duplicate_is_reported_before_its_own_key(self, world: World) -> None:
        execution = world.execution(unique_key="u", overlap_key="o")
        await world.add(execution)
        assert await world.outcomes(execution) == ["duplicate"]

    async def test_an_execution_arriving_final_is_recorded_as_it_is(self, world: World) -> None:
        held = world.execution(unique_key="u", overlap_key="o")
        gap = world.execution(state=State.SKIPPED, reason="missed", finished=world.now, metadata_json='{"count":9}')
        done = world.execution(
            state=State.COMPLETED, started=world.after(-2), finished=world.now, unique_key="u", overlap_key="o"
        )
        assert await world.outcomes(held, gap, done) == ["added"] * 3
        assert replace(await world.get(gap.id), number=None) == gap
        assert replace(await world.get(done.id), number=None) == done
        stats = (await world.store.stats())["job-1"]
        assert (stats.skipped, stats.completed, stats.duration_ms) == (1, 1, 2000.0)
        assert ids(await world.claim()) == [held.id]
        assert await world.outcomes(gap, done) == ["duplicate"] * 2

    @pytest.mark.req("EXE-13")
    async def test_an_execution_arriving_as_running_is_owned_and_not_claimed(self, world: World) -> None:
        inline = world.execution(state=State.RUNNING, token=1, owner="w1", lease=world.after(30), started=world.now)
        await world.add(inline)
        assert await world.claim() == ()
        assert (await world.heartbeat((inline.id, 1))).lost == frozenset()
        assert await world.settle(inline)

    @pytest.mark.req("SEC-3")
    async def test_audit_is_stored_of_what_was_recorded(self, world: World) -> None:
        known, held = world.execution(), world.execution(unique_key="k")
        await world.add(known, held)
        batch = [
            world.execution(),
            known,
            world.execution(unique_key="k"),
            world.execution(overlap_key="o"),
            world.execution(overlap_key="o"),  # recorded as skipped
        ]
        audits = [world.audit(target=f"execution:{row.id}") for row in batch]
        await world.add(*batch, audit=audits)
        assert await world.store.audits() == [audits[4], audits[3], audits[0]]
        again = [world.audit() for _ in batch]
        await world.add(*batch, audit=again)
        assert await world.store.audits() == [audits[4], audits[3], audits[0]]


class UniqueKeys(StoreSuite):
    @pytest.mark.req("ENQ-3")
    async def test_a_key_held_by_a_live_row_is_taken(self, world: World) -> None:
        first, second = world.execution(unique_key="u"), world.execution(unique_key="u")
        await world.add(first)
        assert await world.add(second) == [Added(second.id, "unique_taken", first.id)]
        assert await world.all_ids() == [first.id]

    @pytest.mark.req("ENQ-3")
    async def test_within_one_batch_the_first_gets_the_key(self, world: World) -> None:
        batch = [world.execution(unique_key=key) for key in ("a", "b", "a", None, None)]
        assert await world.outcomes(*batch) == ["added", "added", "unique_taken", "added", "added"]

    @pytest.mark.req("ENQ-3")
    async def test_the_key_is_held_while_running_and_while_retrying(self, world: World) -> None:
        row = await world.running(unique_key="u")
        assert await world.outcomes(world.execution(unique_key="u")) == ["unique_taken"]
        await world.settle(row, State.PENDING, delay=60, failures=1)
        assert await world.outcomes(world.execution(unique_key="u")) == ["unique_taken"]

    @pytest.mark.req("ENQ-3")
    async def test_every_ending_frees_the_key(self, world: World) -> None:
        for to in (State.COMPLETED, State.PARTIAL, State.FAILED, State.CANCELLED):
            await world.finished(to, unique_key="u")
        assert await world.outcomes(world.execution(unique_key="u")) == ["added"]

    @pytest.mark.req("ENQ-3")
    async def test_of_concurrent_enqueues_one_gets_the_key(self, world: World) -> None:
        async with world.second() as other:
            batch = [world.execution(unique_key="u") for _ in range(10)]
            tries = [(world.store, other)[n % 2].add([execution]) for n, execution in enumerate(batch)]
            outcomes = [added.outcome for [added] in await asyncio.gather(*tries)]
        assert sorted(outcomes) == ["added"] + ["unique_taken"] * 9
        assert len(await world.all_ids()) == 1

    async def test_unique_and_overlap_keys_do_not_mix(self, world: World) -> None:
        batch = world.execution(unique_key="k"), world.execution(overlap_key="k"), world.execution(unique_key="K")
        assert await world.outcomes(*batch) == ["added"] * 3

    async def test_unique_is_judged_before_overlap(self, world: World) -> None:
        await world.add(world.execution(unique_key="u", overlap_key="o"))
        second = world.execution(unique_key="u", overlap_key="o")
        assert await world.outcomes(second) == ["unique_taken"]
        assert await world.store.execution(second.id) is None


class OverlapKeys(StoreSuite):
    @pytest.mark.req("WIN-1")
    async def test_a_held_key_skips_under_the_same_id(self, world: World) -> None:
        first, second = world.execution(overlap_key="o"), world.execution(overlap_key="o", params='{"n":2}')
        await world.add(first)
        assert await world.add(second) == [Added(second.id, "skipped", first.id)]
        row = await world.get(second.id)
        assert (row.state, row.reason, row.params) == (State.SKIPPED, "overlap", '{"n":2}')
        assert (row.created, row.finished, row.started) == (second.created, second.created, None)
        assert ids(await world.claim()) == [first.id]
        assert (await world.store.stats())["job-1"].skipped == 1

    @pytest.mark.req("WIN-1")
    async def test_a_skipped_one_is_a_duplicate_afterwards(self, world: World) -> None:
        first, second = world.execution(overlap_key="o"), world.execution(overlap_key="o")
        await world.add(first, second)
        [row] = await world.claim()
        await world.settle(row)
        assert await world.outcomes(second) == ["duplicate"]

    @pytest.mark.req("WIN-1", "EXE-13")
    async def test_one_that_arrives_running_and_is_skipped_never_ran(self, world: World) -> None:
        inline = {"state": State.RUNNING, "token": 1, "owner": "w1", "lease": world.after(30), "started": world.now}
        await world.add(world.execution(overlap_key="o"))
        second = world.execution(overlap_key="o", claimed=world.now, **inline)
        assert await world.outcomes(second) == ["skipped"]
        row = await world.get(second.id)
        assert (row.state, row.owner, row.lease, row.claimed, row.started) == (State.SKIPPED, None, None, None, None)

    async def test_a_skipped_one_holds_no_unique_key(self, world: World) -> None:
        await world.add(world.execution(overlap_key="o"))
        assert await world.outcomes(world.execution(unique_key="u", overlap_key="o")) == ["skipped"]
        assert await world.outcomes(world.execution(unique_key="u")) == ["added"]

    @pytest.mark.req("WIN-1")
    async def test_held_from_insert_to_the_end(self, world: World) -> None:
        row = await world.running(overlap_key="o")
        await world.settle(row, State.WAITING)
        assert await world.outcomes(world.execution(overlap_key="o")) == ["skipped"]
        await world.settle(await world.get(row.id), State.PARTIAL)
        assert await world.outcomes(world.execution(overlap_key="o")) == ["added"]

    @pytest.mark.req("WIN-1")
    async def test_slots_are_filled_in_order_and_reused(self, world: World) -> None:
        batch = [world.execution(overlap_key="o", overlap_slots=2) for _ in range(3)]
        assert await world.outcomes(*batch) == ["added", "added", "skipped"]
        assert [(await world.get(id)).overlap_key for id in ids(batch)[:2]] == ["o#0", "o#1"]
        rows = await world.claim()
        await world.settle(rows[0])
        fresh = world.execution(overlap_key="o", overlap_slots=2)
        assert await world.outcomes(fresh) == ["added"]
        assert (await world.get(fresh.id)).overlap_key == "o#0"

    @pytest.mark.req("WIN-1")
    async def test_a_running_key_equal_to_the_overlap_key_takes_the_slot_along(self, world: World) -> None:
        keys = {"overlap_key": "o", "running_overlap_key": "o", "overlap_slots": 2, "staged": True}
        await world.add(world.execution(**keys), world.execution(**keys))
        rows = await world.claim()
        assert [row.overlap_key for row in rows] == ["o#0", "o#1"]
        assert await world.outcomes(world.execution(**keys)) == ["skipped"]

    @pytest.mark.req("WIN-1", "NUM-2")
    async def test_of_concurrent_adds_as_many_as_there_are_slots(self, world: World) -> None:
        async with world.second() as other:
            batch = [world.execution(overlap_key="o", overlap_slots=3) for _ in range(10)]
            tries = [(world.store, other)[n % 2].add([execution]) for n, execution in enumerate(batch)]
            outcomes = [added.outcome for [added] in await asyncio.gather(*tries)]
        assert sorted(outcomes) == ["added"] * 3 + ["skipped"] * 7
        assert len(await world.all_ids()) == 10
