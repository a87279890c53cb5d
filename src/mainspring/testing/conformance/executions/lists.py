"""The execution list: filters, cursors and counts over live and finished rows."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from ....model.execution import ExecutionRow, State
from ....model.store.messages import ExecutionQuery
from ..base import StoreSuite, World, ids


async def mixture(world: World) -> list[ExecutionRow]:
    """Executions of two jobs in every kind of state, in the order of their ids."""
    batch = [
        world.execution(tenant="t1", trace_id="x", created=100),
        world.execution(job="b", job_id="b-1", trigger="api", created=200),
        world.execution(parent_id="p", tenant="t2", created=300),
        world.execution(job="b", job_id="b-2", trace_id="x", created=400, due=world.after(60)),
        world.execution(state=State.SKIPPED, finished=500, created=500, parent_id="p"),
    ]
    await world.add(*batch)
    rows = {row.id: row for row in await world.claim()}
    await world.settle(rows[batch[0].id])
    await world.settle(rows[batch[1].id], State.FAILED)
    return batch


class ExecutionLists(StoreSuite):
    async def check(self, world: World, batch: list[ExecutionRow], wanted: list[int], **filters: Any) -> None:
        query = ExecutionQuery(**filters)
        assert ids(await world.store.find(query)) == [batch[n].id for n in reversed(wanted)]
        assert ids(await world.store.find(replace(query, oldest_first=True))) == [batch[n].id for n in wanted]
        assert await world.store.count(query, 1_000) == len(wanted)

    @pytest.mark.req("HIS-1")
    async def test_live_and_finished_newest_id_first(self, world: World) -> None:
        batch = await mixture(world)
        await self.check(world, batch, [0, 1, 2, 3, 4])
        states = [row.state for row in await world.store.find(ExecutionQuery())]
        assert states == [State.SKIPPED, State.PENDING, State.RUNNING, State.FAILED, State.COMPLETED]

    @pytest.mark.req("HIS-1")
    async def test_each_filter(self, world: World) -> None:
        batch = await mixture(world)
        await self.check(world, batch, [1, 3], job="b")
        await self.check(world, batch, [1], job_id="b-1")
        await self.check(world, batch, [1], trigger="api")
        await self.check(world, batch, [0], tenant="t1")
        await self.check(world, batch, [0, 3], trace_id="x")
        await self.check(world, batch, [2, 4], parent_id="p")
        await self.check(world, batch, [], job="nobody")

    @pytest.mark.req("HIS-1")
    async def test_triggers_usual_and_rare_live_and_finished(self, world: World) -> None:
        triggers = ("enqueue", "schedule", "manual", "enqueue", "schedule", "enqueue")
        batch = [world.execution(trigger=trigger, job_id=f"job-{n % 2}") for n, trigger in enumerate(triggers)]
        await world.add(*batch)
        rows = await world.claim(limit=3)
        await world.settle(rows[1], State.FAILED)
        await world.settle(rows[2])
        await self.check(world, batch, [0, 3, 5], trigger="enqueue")
        await self.check(world, batch, [1, 4], trigger="schedule")
        await self.check(world, batch, [4], trigger="schedule", job_id="job-0")
        await self.check(world, batch, [1], trigger="schedule", states=frozenset({State.FAILED}))
        await self.check(world, batch, [3, 5], trigger="enqueue", states=frozenset({State.PENDING}))
        await self.check(world, batch, [2], trigger="manual", states=frozenset({State.COMPLETED}))
        await self.check(world, batch, [1], trigger="schedule", before=batch[4].id)
        await self.check(world, batch, [], trigger="backfill")

    @pytest.mark.req("HIS-1")
    async def test_states(self, world: World) -> None:
        batch = await mixture(world)
        await self.check(world, batch, [2], states=frozenset({State.RUNNING}))
        await self.check(world, batch, [0, 3], states=frozenset({State.PENDING, State.COMPLETED}))
        await self.check(world, batch, [1, 4], states=frozenset({State.FAILED, State.SKIPPED}))
        await self.check(world, batch, [0, 1, 2, 3, 4], states=frozenset(State))
        await self.check(world, batch, [], states=frozenset())

    @pytest.mark.req("HIS-1")
    async def test_created_from_included_to_excluded(self, world: World) -> None:
        batch = await mixture(world)
        await self.check(world, batch, [1, 2], created_from=200, created_to=400)
        await self.check(world, batch, [2, 3, 4], created_from=201)
        await self.check(world, batch, [0], created_to=101)

    async def test_filters_combine(self, world: World) -> None:
        batch = await mixture(world)
        await self.check(world, batch, [3], job="b", trace_id="x", states=frozenset({State.PENDING}), created_from=1)
        await self.check(world, batch, [], job="b", tenant="t1")

    async def test_a_cursor_walks_everything_once(self, world: World) -> None:
        batch = await mixture(world)
        seen: list[str] = []
        while page := await world.store.find(ExecutionQuery(limit=2, before=seen[-1] if seen else None)):
            assert len(page) <= 2
            seen += ids(page)
        assert seen == ids(batch)[::-1]

    @pytest.mark.req("API-5")
    async def test_a_cursor_walks_everything_once_from_the_oldest(self, world: World) -> None:
        batch = await mixture(world)
        seen: list[str] = []
        query = ExecutionQuery(limit=2, oldest_first=True, created_from=1)
        while page := await world.store.find(replace(query, after=seen[-1] if seen else None)):
            assert len(page) <= 2
            seen += ids(page)
        assert seen == ids(batch)
        await self.check(world, batch, [2, 3], after=batch[1].id, before=batch[4].id)
        await self.check(world, batch, [1, 2], after=batch[0].id, created_to=400)
        await self.check(world, batch, [3], after=batch[1].id, job="b")
        await self.check(world, batch, [0, 1, 2, 3, 4], after="0")
        await self.check(world, batch, [], after="no id")
        assert ids(await world.store.find(replace(query, offset=3))) == ids(batch)[3:]

    async def test_limit_and_offset(self, world: World) -> None:
        batch = await mixture(world)
        newest = ids(batch)[::-1]
        assert ids(await world.store.find(ExecutionQuery(limit=2, offset=1))) == newest[1:3]
        assert ids(await world.store.find(ExecutionQuery(limit=10, offset=4))) == newest[4:]
        assert await world.store.find(ExecutionQuery(offset=5)) == []
        assert ids(await world.store.find(ExecutionQuery(limit=2, offset=1, before=newest[1]))) == newest[3:]

    async def test_an_unknown_cursor_is_a_place_between_ids(self, world: World) -> None:
        batch = await mixture(world)
        assert ids(await world.store.find(ExecutionQuery(before=batch[2].id[:-1] + "g"))) == ids(batch)[::-1]
        assert await world.store.find(ExecutionQuery(before="0")) == []

    async def test_count_goes_no_further_than_its_cap(self, world: World) -> None:
        await mixture(world)
        assert await world.store.count(ExecutionQuery(), 3) == 3
        assert await world.store.count(ExecutionQuery(job="b"), 1) == 1
        assert await world.store.count(ExecutionQuery(limit=1, offset=2), 100) == 5

    async def test_an_unknown_execution_is_none(self, world: World) -> None:
        assert await world.store.execution("nobody") is None


class Children(StoreSuite):
    async def test_children_are_counted_by_state_live_or_finished(self, world: World) -> None:
        batch = [world.execution(parent_id="p", tenant=f"t{n}") for n in range(5)]
        await world.add(*batch, world.execution(parent_id="q"), world.execution())
        rows = await world.claim(limit=4)
        await world.settle(rows[0])
        await world.settle(rows[1])
        await world.settle(rows[2], State.FAILED)
        expected = {State.COMPLETED: 2, State.FAILED: 1, State.RUNNING: 1, State.PENDING: 1}
        assert await world.store.children("p") == expected
        assert await world.store.children("q") == {State.PENDING: 1}
        assert await world.store.children("nobody") == {}

    @pytest.mark.req("TEN-4")
    async def test_when_the_last_child_has_ended(self, world: World) -> None:
        await world.add(*[world.execution(parent_id="p", tenant=f"t{n}") for n in range(4)], world.execution())
        rows = await world.claim(limit=5)
        assert await world.store.last_child_ended("p") is None
        for row, at in zip(rows, (30, 50, 40, None, 60), strict=True):
            assert at is None or await world.settle(row, at=world.after(at))
        assert await world.store.last_child_ended("p") == world.after(50)
        assert await world.store.last_child_ended("nobody") is None
