"""Hand-overs from a job with tenants to another, with a crash between any two calls to the store, and under seeded
interleavings: each tenant that completed there runs here, once, after its parent had ended."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from mainspring import Mainspring
from mainspring.core.engine.follow_ups import do_follow_ups
from mainspring.core.rules import transitions
from mainspring.core.tenants import rosters
from mainspring.core.tenants.endings import check_open_parents
from mainspring.core.tenants.fan_out import Tenants
from mainspring.model.execution import LIVE, ExecutionRow, Outcome, State
from mainspring.model.store.messages import ClaimRequest, ExecutionQuery
from mainspring.stores.memory import MemoryStore
from tests.simulation.test_backfills import Clock, Died, Shaky, passing, unheard
from tests.simulator.virtual import run

SEEDS = int(os.environ.get("FLOW_SEEDS", "15"))
EVERYBODY = [f"t{number}" for number in range(5)]
JOBS = ("load", "mail", "tidy", "total")


class World:
    """load -> mail (those that completed) -> total; load -> tidy (all, however they ended)"""

    jobs: tuple[str, ...] = JOBS
    listed = frozenset({"load"})

    def __init__(self, seed: int) -> None:
        self.chance, self.clock = Random(seed), Clock()
        self.store = MemoryStore(self.clock)
        self.app = Mainspring(self.store, clock=self.clock)
        common: dict[str, Any] = {"max_attempts": 1, "overlap": "allow"}
        self.app.job("load", tenants=EVERYBODY, **common)(nothing)
        self.app.job("mail", after="load", tenants=["nobody"], **common)(nothing)
        self.app.job("tidy", after="load", tenants=["nobody"], on_failed_parent="run", **common)(nothing)
        self.app.job("total", after="mail", on_failed_parent="run", **common)(nothing)
        self.bad = set(self.chance.sample(EVERYBODY, self.chance.randint(0, len(EVERYBODY))))

    async def work_once(self) -> bool:
        request = ClaimRequest(owner="w", handlers=frozenset(self.jobs), queues=None, limit=3, lease=1e6)
        claimed = (await self.store.exchange([], request)).claimed
        for execution in self.chance.sample(claimed, len(claimed)):
            await asyncio.sleep(self.chance.random())
            await self._try(execution)
        return bool(claimed)

    async def _try(self, execution: ExecutionRow) -> None:
        now, end = self.clock.now(), "completed"
        if execution.fans_out:
            end = "fanned_out"
            await self._spread(execution, now)
        elif self.fails(execution):
            end = "failed"
        outcome = Outcome(end=end, started=now, ended=self.clock.now(), worker="w")  # type: ignore[arg-type]
        await self.store.exchange([transitions.after_attempt(execution, outcome)], None)

    def fails(self, execution: ExecutionRow) -> bool:
        return execution.job == "load" and execution.tenant in self.bad

    async def _spread(self, parent: ExecutionRow, now: int) -> None:
        known = await rosters.stored(self.store, parent.id)
        if known is None:
            assert parent.job in self.listed, "what comes after finds its list"
            known = await rosters.create(self.store, parent, EVERYBODY, "w", now)
        async for names in rosters.names_of(self.store, parent.id, known):
            tenants = Tenants(parent, None)
            await self.store.add([tenants.child(place, name, now) for place, name in enumerate(names)])

    async def follow_once(self, store: Any) -> None:
        await do_follow_ups(store, self.clock.now(), unheard)
        await check_open_parents(store, self.clock.now(), unheard)

    async def quiet(self) -> bool:
        return not (await self.store.find(ExecutionQuery(states=LIVE)) or await self.store.todo(1))

    async def check(self, runs: int) -> None:
        rows = await self.store.find(ExecutionQuery(limit=1_000))
        good = [name for name in EVERYBODY if name not in self.bad]
        wholes = Counter(row.job for row in rows if row.tenant is None)
        assert wholes == dict.fromkeys(JOBS, runs)
        parts = Counter((row.job, row.tenant) for row in rows if row.tenant is not None)
        wanted = {("load", name) for name in EVERYBODY} | {("tidy", name) for name in EVERYBODY}
        assert parts == dict.fromkeys(wanted | {("mail", name) for name in good}, runs)
        known = {row.id: row for row in rows}
        for row in rows:
            if row.tenant is None and row.trigger == "dependency":
                [before] = [known[id] for id in row.metadata["after"].values()]
                assert (before.finished or row.created + 1) <= row.created
        mails = [row.state for row in rows if row.job == "mail" and row.tenant is None]
        assert set(mails) == {State.COMPLETED if good else State.SKIPPED}


async def nothing(ctx: Any) -> None: ...


@pytest.mark.req("FLW-1", "TEN-3")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_tenant_that_completed_is_handed_over_once(seed: int) -> None:
    async def main() -> None:
        world = World(seed)
        for _ in range(2):
            await world.app.trigger("load")

        async def follow() -> None:
            while True:
                with suppress(Died):
                    while True:
                        await world.follow_once(Shaky(world.store, world.chance, lambda: None, 0.02))
                        await asyncio.sleep(world.chance.random())
                await asyncio.sleep(world.chance.random())

        async def work() -> None:
            while True:
                await world.work_once()
                await asyncio.sleep(world.chance.random())

        tasks = [asyncio.create_task(each()) for each in (follow, follow, work, work)]
        try:
            async with asyncio.timeout(100_000):
                await passing(world.quiet)
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            assert [each for each in ended if not isinstance(each, asyncio.CancelledError)] == []
        await world.check(runs=2)
        await world.app.close()

    run(main())


@pytest.mark.req("FLW-1", "TEN-3")
def test_a_crash_between_any_two_calls() -> None:
    async def main(dies_at: int) -> bool:
        world = World(3)
        world.bad = {"t1"}
        await world.app.trigger("load")
        shaky = Shaky(world.store, Random(1), lambda: None)
        shaky.dies_at = dies_at
        died = False
        while not await world.quiet():
            await world.work_once()
            try:
                await world.follow_once(world.store if died else shaky)
            except Died:
                died = True
        await world.check(runs=1)
        await world.app.close()
        return died

    number = 0
    while run(main(number := number + 1)):
        assert number < 1_000
    assert number > 50, "there is something to die at"
