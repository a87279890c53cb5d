"""Filters that no index serves, and searches that look at a limited number of rows; counts by queue and handler."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from msgspec.structs import replace

from ....model.execution import ExecutionRow, State
from ....model.limits import Limit, encode_limits
from ....model.store.messages import ExecutionQuery, LaneCounts, RunSummary, TenantCounts
from ....model.time.instants import SECOND
from ....model.values.ids import tenant_id, tick_id
from ..base import StoreSuite, World, ids

MANY = 10_000


async def mixture(world: World) -> list[ExecutionRow]:
    """Executions of two handlers and queues that have ended in different ways, run or wait, in the order of their
    ids."""
    batch = [
        world.execution(tenant="t1", labels=("k=1",)),  # completed after 1 s on w1
        world.execution(handler="rest", labels=("k=1", "l=1")),  # failed after 2 s on w2
        world.execution(queue="mail", tenant="t1"),  # to be retried after 2 s on w1
        world.execution(queue="mail", job="b", job_id="b-1", labels=("k=1",)),  # runs on w2, after an attempt on w1
        world.execution(handler="rest", queue="mail", due=world.after(500)),
        world.execution(state=State.SKIPPED, finished=world.now, reason="overlap", trigger="api", labels=("l=1",)),
    ]
    both = frozenset({"work", "rest"})
    await world.add(*batch)
    rows = {row.id: row for row in await world.claim(queues=frozenset({"mail"}))}
    later = world.change(rows[batch[3].id], State.PENDING, attempt=world.attempt(worker="w1"))
    [again] = await world.claim(owner="w1", handlers=frozenset({"work"}), queues=frozenset({"default"}))
    [other] = await world.claim(owner="w2", handlers=frozenset({"rest"}))
    world.clock.advance(1)
    assert await world.settle(again, attempt=world.attempt(worker="w1", end="completed"))
    answer = await world.exchange(later, owner="w2", handlers=both)
    assert ids(answer.claimed) == [batch[3].id]
    world.clock.advance(1)
    failed = {"error": "Connection REFUSED by Ämter: 100% of [shop]", "reason": "error"}
    assert await world.settle(other, State.FAILED, attempt=world.attempt(worker="w2"), **failed)
    retry = {"error": "Timeout of shop", "delay": 60.0, "failures": 1}
    assert await world.settle(
        rows[batch[2].id], State.PENDING, attempt=world.attempt(worker="w1", error="Timeout"), **retry
    )
    return batch


FILTERS: tuple[tuple[list[int], dict[str, Any]], ...] = (
    ([1, 4], {"handler": "rest"}),
    ([2, 3, 4], {"queue": "mail"}),
    ([4], {"queue": "mail", "handler": "rest"}),
    ([5], {"reason": "overlap"}),
    ([1], {"reason": "error", "error_text": "refused"}),
    ([1], {"error_text": "100% of [shop"}),
    ([1], {"error_text": "by ämter"}),
    ([1, 2], {"error_text": "shop"}),
    ([], {"error_text": "100_ of"}),
    ([0, 2], {"workers": frozenset({"w1"})}),
    ([1, 3], {"workers": frozenset({"w2", "w9"})}),
    ([0, 1, 2, 3], {"workers": frozenset({"w1", "w2"})}),
    ([], {"workers": frozenset()}),
    ([0, 1, 3], {"longer_than": 0}),
    ([1, 3], {"longer_than": SECOND}),
    ([], {"longer_than": 2 * SECOND}),
    ([0, 1, 3], {"labels": ("k=1",)}),
    ([1], {"labels": ("k=1",), "handler": "rest"}),
    ([1], {"labels": ("k=1", "l=1")}),
    ([1, 5], {"labels": ("l=1",), "states": frozenset({State.FAILED, State.SKIPPED})}),
    ([3], {"labels": ("k=1",), "queue": "mail", "workers": frozenset({"w2"}), "job": "b"}),
    ([0], {"tenant": "t1", "queue": "default"}),
    ([5], {"trigger": "api", "reason": "overlap", "states": frozenset({State.SKIPPED})}),
    ([2, 4], {"states": frozenset({State.PENDING}), "queue": "mail"}),
    ([0], {"states": frozenset({State.COMPLETED}), "handler": "work", "created_from": 1}),
    ([], {"states": frozenset({State.RUNNING}), "queue": "default"}),
    ([0, 1, 2, 3, 4, 5], {}),
)


class Searches(StoreSuite):
    @pytest.mark.req("SRC-3")
    async def test_each_filter_in_lists_searches_and_counts(self, world: World) -> None:
        batch = await mixture(world)
        for wanted, filters in FILTERS:
            query = ExecutionQuery(**filters)
            newest, oldest = [batch[n].id for n in reversed(wanted)], [batch[n].id for n in wanted]
            assert ids(await world.store.find(query)) == newest, filters
            assert await world.store.count(query, 100) == len(wanted), filters
            assert await world.store.count(query, 100, MANY) == len(wanted), filters
            found = await world.store.search(query, MANY)
            assert (ids(found.rows), found.searched_to) == (newest, None), filters
            found = await world.store.search(replace(query, oldest_first=True), MANY)
            assert (ids(found.rows), found.searched_to) == (oldest, None), filters
            found = await world.store.search(replace(query, limit=1, offset=1), MANY)
            assert (ids(found.rows), found.searched_to) == (newest[1:2], None), filters
        found = await world.store.search(ExecutionQuery(queue="mail", before=batch[4].id, after=batch[2].id), MANY)
        assert ids(found.rows) == [batch[3].id]
        [row] = (await world.store.search(ExecutionQuery(labels=("l=1",), handler="rest"), MANY)).rows
        assert row == await world.get(batch[1].id)

    @pytest.mark.req("SRC-3")
    async def test_a_search_stops_at_its_budget_and_goes_on_from_there(self, world: World) -> None:
        rare = {7: "slow", 40: "slow", 55: "slow"}
        batch = [world.execution(queue=rare.get(n, "default"), labels=("k=1",)) for n in range(60)]
        ended = [
            world.execution(
                queue="slow" if n % 20 == 3 else "default", state=State.FAILED, started=world.now, finished=world.now
            )
            for n in range(60)
        ]
        await world.add(*batch, *ended)
        for filters in ({}, {"labels": ("k=1",)}, {"states": frozenset({State.FAILED})}, {"job": "job"}):
            for oldest_first in (False, True):
                query = ExecutionQuery(queue="slow", oldest_first=oldest_first, **filters)
                assert await self.walked(world, query, budget=10) == ids(await world.store.find(query)), filters
        first = await world.store.search(ExecutionQuery(queue="nowhere"), 10)
        assert first.rows == []
        assert first.searched_to is not None
        assert await world.store.count(ExecutionQuery(queue="nowhere"), 5, 10) == 0
        assert await world.store.count(ExecutionQuery(queue="default"), 1_000, 10) < 60
        full = await world.store.search(ExecutionQuery(queue="default", limit=3), MANY)
        assert (len(full.rows), full.searched_to) == (3, None)

    async def walked(self, world: World, query: ExecutionQuery, budget: int) -> list[str]:
        """What searches with this small budget find, one after another. No call checks many more candidates."""
        seen: list[str] = []
        for _ in range(30):
            found = await world.store.search(query, budget)
            seen += ids(found.rows)
            if found.searched_to is None:
                return seen
            cursor = {"after" if query.oldest_first else "before": found.searched_to}
            query = replace(query, **cursor)
        raise AssertionError(f"a search does not come to an end: {query}")


class LaneCounting(StoreSuite):
    @pytest.mark.req("QUE-1")
    async def test_live_rows_by_queue_and_handler(self, world: World) -> None:
        slot = encode_limits([Limit("k", concurrency=1)])
        assert await world.store.lane_counts() == []
        await world.add(
            *(world.execution(limits=slot, priority=9) for _ in range(4)),
            world.execution(state=State.FAILED, finished=world.now),
            world.execution(queue="slow", handler="rest", state=State.WAITING),
        )
        assert len(await world.claim()) == 1
        await world.add(
            world.execution(due=world.after(-7)),
            world.execution(),
            world.execution(due=world.after(60)),
            world.execution(due=world.after(30), alone=True),
            world.execution(queue="mail", share="x"),
            world.execution(queue="mail", alone=True, due=world.after(-1)),
            world.execution(queue="mail", handler="rest", due=world.after(5)),
        )
        plain = LaneCounts(
            queue="default",
            handler="work",
            ready=2,
            planned=2,
            parked=3,
            running=1,
            oldest=world.after(-7),
            next_due=world.after(30),
        )
        rest = LaneCounts(queue="mail", handler="rest", planned=1, next_due=world.after(5))
        mail = LaneCounts(queue="mail", handler="work", ready=2, oldest=world.after(-1))
        assert await world.store.lane_counts() == [plain, rest, mail]
        assert await world.claim(limit=0) == ()
        assert await world.store.lane_counts() == [plain, rest, mail]
        world.clock.advance(5)
        [_, rest, _] = await world.store.lane_counts()
        assert (rest.ready, rest.planned, rest.oldest, rest.next_due) == (1, 0, world.now, None)


class TenantCounting(StoreSuite):
    @pytest.mark.req("QUE-1")
    async def test_the_tenants_with_the_most_live_rows(self, world: World) -> None:
        slot = encode_limits([Limit("k", concurrency=1)])
        assert await world.store.tenant_counts(9) == []
        await world.add(
            *(world.execution(limits=slot, tenant="a/b.ü") for _ in range(3)),
            world.execution(tenant="parent", state=State.WAITING),
            world.execution(tenant="gone", state=State.FAILED, finished=world.now),
        )
        assert len(await world.claim()) == 1
        await world.add(
            world.execution(tenant="zero", due=world.after(60)),
            world.execution(tenant="one"),
            world.execution(tenant="many", share="x"),
            world.execution(tenant="many", due=world.after(60)),
            world.execution(),
        )
        first, many, one, zero = await world.store.tenant_counts(9)
        assert first == TenantCounts(tenant="a/b.ü", pending=2, running=1)
        assert many == TenantCounts(tenant="many", pending=2)
        assert (one.tenant, zero.tenant) == ("one", "zero")
        assert await world.store.tenant_counts(2) == [first, many]


class NewestRuns(StoreSuite):
    @pytest.mark.req("DSH-1")
    async def test_live_and_finished_runs_of_several_jobs(self, world: World) -> None:
        batch = [
            world.execution(trigger="schedule"),  # completed
            world.execution(due=world.after(60)),
            world.execution(job="b", job_id="b-1", state=State.SKIPPED, finished=world.now, reason="overlap"),
            world.execution(state=State.WAITING, started=world.now),
            world.execution(job="c", job_id="c-1"),
        ]
        await world.add(*batch)
        [first] = await world.claim(limit=1)
        world.clock.advance(2)
        await world.settle(first, attempt=world.attempt())
        done, planned, skipped, waiting, _ = [RunSummary(e.id, e.state, e.trigger, e.created, e.due) for e in batch]
        done = replace(done, state=State.COMPLETED, started=first.started, finished=world.now)
        skipped = replace(skipped, finished=batch[2].finished, reason="overlap")
        waiting = replace(waiting, started=batch[3].started)
        found = await world.store.newest_runs(["job-1", "b-1", "nobody"], 9)
        assert found == {"job-1": [waiting, planned, done], "b-1": [skipped]}
        assert await world.store.newest_runs(["job-1"], 2) == {"job-1": [waiting, planned]}
        assert await world.store.newest_runs(["job-1"], 0) == await world.store.newest_runs([], 9) == {}

    @pytest.mark.req("DSH-1")
    async def test_runs_created_earlier_are_left_out(self, world: World) -> None:
        old = [world.execution(id=tick_id("job-1", world.after(n)), created=world.after(n)) for n in (-600, -60, -1)]
        made_up = world.execution(id=tick_id("job-1", world.after(-300)), created=world.after(-200))
        await world.add(*old, made_up)
        found = await world.store.newest_runs(["job-1"], 9, world.after(-250))
        assert [run.id for run in found["job-1"]] == [old[2].id, old[1].id]
        assert await world.store.newest_runs(["job-1"], 9, world.now) == {}

    @pytest.mark.req("DSH-1")
    async def test_children_of_few_tenants_are_passed_over(self, world: World) -> None:
        await self.fan_outs(world, tenants=3)

    @pytest.mark.req("DSH-1")
    async def test_children_of_many_tenants_are_passed_over(self, world: World) -> None:
        """Page after page ends among the children of a parent."""
        await self.fan_outs(world, tenants=40)

    async def fan_outs(self, world: World, tenants: int) -> None:
        parents = [world.execution(id=tick_id("job-1", world.after(-60 * n)), state=State.WAITING) for n in range(12)]
        states = itertools.cycle(
            ({}, {"state": State.COMPLETED, "finished": 1}, {"state": State.FAILED, "finished": 1})
        )
        children = [
            world.execution(id=tenant_id(parent.id, f"t{n}", n), parent_id=parent.id, tenant=f"t{n}", **next(states))
            for parent in parents
            for n in range(tenants)
        ]
        backfilled = world.execution(id=tick_id("job-1", world.after(-30)), parent_id="backfill", trigger="backfill")
        alone = world.execution(id=tick_id("job-1", world.after(-90)), tenant="t1")
        await world.add(*parents, *children, backfilled, alone)
        runs = sorted((row.id for row in (*parents, backfilled, alone)), reverse=True)
        for limit in (10, 14):
            found = await world.store.newest_runs(["job-1"], limit)
            assert [run.id for run in found["job-1"]] == runs[:limit]


class PausedQueues(StoreSuite):
    @pytest.mark.req("QUE-1")
    async def test_rows_of_queues_left_out_are_not_claimed(self, world: World) -> None:
        slot = encode_limits([Limit("k", concurrency=5)])
        kinds: tuple[dict[str, Any], ...] = ({}, {"share": "x"}, {"limits": slot}, {"limits": slot, "share": "x"})
        paused = [world.execution(queue="mail", priority=9, **kind) for kind in kinds]
        lone = world.execution(queue="mail", alone=True)
        open_ = [world.execution(**kind) for kind in kinds]
        await world.add(*paused, lone, *open_)
        without = frozenset({"mail", "none"})
        answer = await world.exchange(without_queues=without)
        assert sorted(ids(answer.claimed)) == ids(open_)
        assert (answer.more, answer.alone_waiting) == (False, False)
        answer = await world.exchange(without_queues=without, queues=frozenset({"mail", "default"}))
        assert (answer.claimed, answer.more, answer.next_due) == ((), False, None)
        assert await world.claim(without_queues=without, alone=True) == ()
        answer = await world.exchange(without_queues=frozenset({"default"}))
        assert sorted(ids(answer.claimed)) == ids(paused)
        assert answer.alone_waiting
        assert ids(await world.claim(alone=True, without_queues=frozenset({"default"}))) == [lone.id]
