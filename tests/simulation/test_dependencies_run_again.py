"""Parents with tenants that are run again, as a whole, for those that failed or for one alone, while processes die:
what comes after two of them runs for the tenants of the new run, with what the other came to for the same tenants."""

from __future__ import annotations

import asyncio
import os
from collections import defaultdict
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from mainspring import Mainspring
from mainspring.model.errors import CommandRefused
from mainspring.model.execution import ExecutionRow, State
from mainspring.model.store.messages import ExecutionQuery
from mainspring.stores.memory import MemoryStore
from tests.simulation.test_backfills import Clock, Died, Shaky, passing
from tests.simulation.test_dependencies_of_tenants import EVERYBODY, World, nothing
from tests.simulator.virtual import run

SEEDS = int(os.environ.get("FLOW_SEEDS", "15"))
DAY = ("2026-03-01", "2026-03-02")
PARENTS = ("left", "right")
Ending = tuple[int, str, State, int]
"""When it was made, its id, how it ended for one tenant, and when."""


class Twice(World):
    """left, right -> end, all with the same tenants. Each tenant's part fails now and then."""

    jobs = (*PARENTS, "end")
    listed = frozenset(PARENTS)

    def __init__(self, seed: int) -> None:
        self.chance, self.clock = Random(seed), Clock()
        self.store = MemoryStore(self.clock)
        self.app = Mainspring(self.store, clock=self.clock)
        common: dict[str, Any] = {"max_attempts": 1, "overlap": "allow"}
        for name in PARENTS:
            self.app.job(name, tenants=EVERYBODY, window="yesterday", **common)(nothing)
        self.app.job("end", after=PARENTS, tenants=["nobody"], **common)(nothing)
        self.bad_part = self.chance.choice([0.2, 0.5])

    def fails(self, execution: ExecutionRow) -> bool:
        return execution.job in PARENTS and self.chance.random() < self.bad_part

    async def rows(self) -> list[ExecutionRow]:
        return await self.store.find(ExecutionQuery(limit=1_000))

    async def run_again(self) -> None:
        """What operators do, in any order."""
        if self.chance.random() < 0.2:
            chosen_few = self.chance.sample(EVERYBODY, 2)
            await self.app.trigger(self.chance.choice(PARENTS), tenants=chosen_few, window=DAY)
            return
        ended = [row for row in await self.rows() if row.job in PARENTS and row.state in (State.FAILED, State.PARTIAL)]
        if ended:
            chosen = self.chance.choice(ended)
            with suppress(CommandRefused):
                if chosen.fans_out and self.chance.random() < 0.7:
                    await self.app.tenants.retry_failed(chosen.id)
                else:
                    await self.app.retry(chosen.id)

    async def check_all(self) -> None:
        rows = await self.rows()
        parts = [row for row in rows if row.tenant is not None]
        for tenant in EVERYBODY:
            ends = [
                row for row in parts if row.job == "end" and row.tenant == tenant and row.state is not State.SKIPPED
            ]
            endings = endings_for(tenant, rows)
            left, right = (max(endings[name]) for name in PARENTS)
            both = max(left[3], right[3])
            if left[2] is right[2] is State.COMPLETED:
                assert [row for row in ends if row.created >= both], f"{tenant} has completed in both, and waits"
            assert len(ends) < sum(map(len, endings.values())), f"{tenant} ran more often than its parents did"
            for row in ends:
                for name in PARENTS:
                    before = [each for each in endings[name] if each[3] <= row.created]
                    assert any(state is State.COMPLETED for _, _, state, _ in before), f"{tenant} ran after {before}"


def endings_for(tenant: str, rows: list[ExecutionRow]) -> dict[str, list[Ending]]:
    """What each parent came to for this tenant: in whole runs, which count when they have ended, and alone."""
    wholes = {row.id: row for row in rows if row.fans_out}
    found: dict[str, list[Ending]] = defaultdict(list)
    for row in rows:
        if row.tenant == tenant and row.job in PARENTS:
            whole = wholes.get(row.parent_id or "", row)
            found[row.job].append((whole.created, whole.id, row.state, whole.finished or 0))
    return found


async def among(world: Twice, risk: float, test: Any) -> None:
    async def follow() -> None:
        while True:
            with suppress(Died):
                while True:
                    await world.follow_once(Shaky(world.store, world.chance, lambda: None, risk))
                    await asyncio.sleep(world.chance.random())
            await asyncio.sleep(world.chance.random())

    async def work() -> None:
        while True:
            await world.work_once()
            await asyncio.sleep(world.chance.random())

    tasks = [asyncio.create_task(each()) for each in (follow, follow, work, work)]
    try:
        async with asyncio.timeout(100_000):
            await test()
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert [each for each in ended if not isinstance(each, asyncio.CancelledError)] == []
        await world.app.close()


@pytest.mark.req("FLW-1", "TEN-4")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_was_run_again_is_handed_over_once_and_for_its_tenants_alone(seed: int) -> None:
    async def main() -> None:
        world = Twice(seed)

        async def test() -> None:
            for name in PARENTS:
                await world.app.trigger(name, window=DAY)
                await asyncio.sleep(world.chance.random() * world.chance.choice([1, 30]))
            for _ in range(world.chance.randint(2, 6)):
                await world.run_again()
                await asyncio.sleep(world.chance.random() * world.chance.choice([1, 30]))
            await passing(world.quiet)
            await world.check_all()

        await among(world, 0.02, test)

    run(main())


class Chosen(Twice):
    """Just these parts fail: the first time that they run."""

    def __init__(self, *failing: tuple[str, str]) -> None:
        super().__init__(0)
        self.failing = set(failing)

    def fails(self, execution: ExecutionRow) -> bool:
        part = (execution.job, execution.tenant or "")
        failed = part in self.failing
        self.failing.discard(part)
        return failed

    async def settle(self) -> None:
        while not await self.quiet():
            await self.work_once()
            await self.follow_once(self.store)

    async def ran(self) -> list[str | None]:
        """Whom `end` ran for, in whole runs and alone."""
        return sorted(row.tenant or "" for row in await self.rows() if row.job == "end" and row.tenant is not None)


@pytest.mark.req("FLW-1", "TEN-4")
def test_retry_failed_of_one_of_two_parents_runs_just_those_tenants() -> None:
    async def main() -> None:
        world = Chosen(("left", "t1"), ("left", "t2"), ("right", "t2"), ("right", "t3"))
        left, right = [await world.app.trigger(name, window=DAY) for name in PARENTS]
        await world.settle()
        assert await world.ran() == ["t0", "t4"]
        await world.app.tenants.retry_failed(left)
        await world.settle()
        assert await world.ran() == ["t0", "t1", "t4"], "t2 still lacks the other parent"
        await world.app.tenants.retry_failed(right)
        await world.settle()
        assert await world.ran() == EVERYBODY
        [newest, *_] = [row for row in await world.rows() if row.job == "end" and row.tenant is None]
        assert (newest.state, newest.counters) == (State.COMPLETED, {"total": 2, "success": 2, "failed": 0})
        await world.app.close()

    run(main())


@pytest.mark.req("FLW-1", "TEN-4")
@pytest.mark.parametrize("early", [True, False])
def test_one_tenant_retried_alone_is_joined_with_what_the_other_parent_came_to(early: bool) -> None:
    """Before the other parent has run, or after."""

    async def main() -> None:
        world = Chosen(("left", "t1"))
        await world.app.trigger("left", window=DAY)
        if not early:
            await world.app.trigger("right", window=DAY)
        await world.settle()
        [failed] = [row for row in await world.rows() if row.state is State.FAILED]
        await world.app.retry(failed.id)
        await world.settle()
        if early:
            await world.app.trigger("right", window=DAY)
            await world.settle()
        assert await world.ran() == EVERYBODY
        alone = [row for row in await world.rows() if row.job == "end" and row.tenant and row.parent_id is None]
        assert [row.tenant for row in alone] == ([] if early else ["t1"])
        await world.app.close()

    run(main())


@pytest.mark.req("FLW-1", "TEN-2")
def test_a_run_for_some_that_somebody_chose_says_nothing_about_the_others() -> None:
    async def main() -> None:
        world = Chosen()
        await world.app.trigger("left", tenants=["t1", "t2"], window=DAY)
        await world.settle()
        await world.app.trigger("right", window=DAY)
        await world.settle()
        assert await world.ran() == ["t1", "t2"], "the others wait for the other parent"
        [some] = [row for row in await world.rows() if row.job == "end" and row.tenant is None]
        assert some.for_some
        await world.app.trigger("left", window=DAY)
        await world.settle()
        assert await world.ran() == sorted(["t1", "t2", *EVERYBODY])
        await world.app.close()

    run(main())


@pytest.mark.req("FLW-1", "TEN-3")
def test_where_no_tenant_completed_everywhere_it_is_recorded_as_skipped() -> None:
    async def main() -> None:
        world = Chosen(*[("left", name) for name in EVERYBODY[:3]], *[("right", name) for name in EVERYBODY[3:]])
        for name in PARENTS:
            await world.app.trigger(name, window=DAY)
        await world.settle()
        [end] = [row for row in await world.rows() if row.job == "end"]
        assert (end.state, end.reason) == (State.SKIPPED, "dependency_failed")
        await world.app.close()

    run(main())
