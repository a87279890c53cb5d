"""Fan-out under seeded interleavings: several processes list tenants, add them, run them and do what follows, and each
may die before or after any call to the store, or sleep until its lease is gone; operators cancel parents.

`FLOW_SEEDS=1000` (make flow-full) runs more of them.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import msgspec
import pytest

from mainspring import Mainspring, Retry
from mainspring.core.declaring.context import JobContext
from mainspring.core.engine.follow_ups import do_follow_ups
from mainspring.core.rules import transitions
from mainspring.core.tenants import endings, fan_out, rosters
from mainspring.core.tenants.endings import check_open_parents
from mainspring.core.tenants.fan_out import FanOuts
from mainspring.model.errors import CommandRefused
from mainspring.model.events import AttemptEnded
from mainspring.model.execution import LIVE, ExecutionRow, Outcome, State
from mainspring.model.store.messages import ClaimRequest, ExecutionQuery
from mainspring.stores.memory import MemoryStore
from tests.simulation.test_backfills import Clock, Died, Shaky, passing, unheard
from tests.simulator.virtual import run

SEEDS = int(os.environ.get("FLOW_SEEDS", "20"))
HOUR = 3_600.0
TRIES = 3
CRASH_POINTS = 400


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that few tenants take many steps."""
    monkeypatch.setattr(fan_out, "BATCH", 2)
    monkeypatch.setattr(rosters, "CHUNK", 3)
    monkeypatch.setattr(rosters, "PAGE", 2)
    monkeypatch.setattr(endings, "PAGE", 2)


class World:
    """One store, one job with tenants, and whoever works on it. Every listing gives another list."""

    def __init__(self, seed: int, tenants: int, *, stops: bool, lease: float) -> None:
        self.chance = Random(seed)
        self.clock = Clock()
        self.store = MemoryStore(self.clock)
        self.lease = lease
        self.count = tenants
        self.listings: list[list[str]] = []
        self.bad = self.chance.choice([0.0, 0.3, 1.0])
        self.late = self.chance.choice([0.0, 0.4])
        self.completed: Counter[str] = Counter()
        self.ended: list[AttemptEnded] = []
        self.lives = 0
        self.app = Mainspring(self.store, clock=self.clock)
        options: dict[str, Any] = {"retry": Retry(0.5, max=2), "tenant_retry": Retry(0.5), "max_attempts": 20}
        self.app.job(
            "nightly", tenants=self.listed, tenant_max_attempts=TRIES, continue_on_failure=not stops, **options
        )(nothing)

    def listed(self) -> list[str]:
        call = len(self.listings)
        self.listings.append([f"t{number}" for number in range(call, call + self.count)])
        return self.listings[-1]

    def shaky(self, risk: float) -> Shaky:
        return Shaky(self.store, self.chance, lambda: None, risk)

    async def forever(self, risk: float) -> None:
        """A process that is started again when it has died."""
        while True:
            with suppress(Died):
                await self.live(self.shaky(risk))
            await asyncio.sleep(self.chance.random() * 5)

    async def live(self, store: Any, until: Callable[[], Any] | None = None) -> None:
        """One process: worker and janitor, one step after the other, in any order."""
        self.lives += 1
        owner = f"w{self.lives}"
        steps = [self.rescue, self.follow, self.look]
        alone = False
        while until is None or not await until():
            claim = ClaimRequest(
                owner=owner,
                handlers=frozenset({"nightly"}),
                queues=None,
                limit=1 if alone else self.chance.randint(1, 3),
                lease=self.lease,
                alone=alone,
            )
            reply = await store.exchange([], claim)
            alone = reply.alone_waiting and not alone
            for execution in self.chance.sample(reply.claimed, len(reply.claimed)):
                await self.execute(store, execution, owner)
            for step in self.chance.sample(steps, len(steps)):
                await step(store)
            await asyncio.sleep(self.chance.random())

    async def execute(self, store: Any, execution: ExecutionRow, owner: str) -> None:
        started = self.clock.now()
        outcome = await (self.spread if execution.fans_out else self.handle)(store, execution, owner)
        change = transitions.after_attempt(execution, outcome(started, self.clock.now()))
        applied = (await store.exchange([change], None)).applied[0]
        if applied and change.to is State.COMPLETED and execution.tenant is not None:
            self.completed[execution.tenant] += 1

    async def spread(self, store: Any, parent: ExecutionRow, owner: str) -> Callable[[int, int], Outcome]:
        context = JobContext(parent, clock=self.clock)
        total = await FanOuts(store, self.app._runtime.registry, self.clock).spread(context, called, called)
        assert total == self.count
        asked = parent.id in await store.cancels(owner)
        end = "cancelled" if asked else "fanned_out"
        return lambda began, at: Outcome(end=end, started=began, ended=at, worker=owner)

    async def handle(self, store: Any, execution: ExecutionRow, owner: str) -> Callable[[int, int], Outcome]:
        await asyncio.sleep(self.chance.random() * self.chance.choice([0.1, 3]))
        luck = Random(f"{execution.tenant}").random()
        fails = luck < self.bad or (luck < self.bad + self.late and execution.failures < TRIES - 1)
        asked = execution.id in await store.cancels(owner)
        end = "cancelled" if asked else "failed" if fails else "completed"
        return lambda began, at: Outcome(end=end, started=began, ended=at, worker=owner)

    async def rescue(self, store: Any) -> None:
        expired = await store.expired(10)
        now = self.clock.now()
        if expired:
            await store.exchange(
                [transitions.after_attempt(each, transitions.lost(each, now)) for each in expired], None
            )

    async def follow(self, store: Any) -> None:
        await do_follow_ups(store, self.clock.now(), self.hear)

    async def look(self, store: Any) -> None:
        await check_open_parents(store, self.clock.now(), self.hear)

    def hear(self, event: object) -> None:
        assert isinstance(event, AttemptEnded), event
        self.ended.append(event)

    async def quiet(self) -> bool:
        """Nothing is alive, nothing is left to do, nothing is open."""
        alive = await self.store.find(ExecutionQuery(states=LIVE, limit=1))
        return not (alive or await self.store.todo(1) or await self.store.list_entries("tenants", "open"))

    # --- the verdict --------------------------------------------------------------------------------------
    async def judge(self, parent_id: str) -> ExecutionRow:
        parent = await self.store.execution(parent_id)
        assert parent is not None
        assert parent.state.final
        children = await self.store.find(ExecutionQuery(parent_id=parent_id, limit=1_000))
        assert all(each.state.final for each in children)
        if children:
            listed = [each.tenant for each in sorted(children, key=lambda each: each.id)]
            assert listed in self.listings, "one list, and every tenant of it once, in the order of the list"
        for child in children:
            self.judge_tenant(child)
        if parent.reason in (None, transitions.BY_CHILDREN):
            self.judge_counts(parent, children)
        else:
            assert parent.state in (State.CANCELLED, State.FAILED)
        return parent

    def judge_tenant(self, child: ExecutionRow) -> None:
        ends = Counter(attempt.end for attempt in child.attempts)
        assert child.failures == ends["failed"] + ends["worker_lost"] <= TRIES
        assert self.completed[child.tenant or ""] <= ends["completed"] == (child.state is State.COMPLETED)
        if child.state is State.FAILED:
            assert child.failures == TRIES or child.reason == "crash_loop"

    def judge_counts(self, parent: ExecutionRow, children: list[ExecutionRow]) -> None:
        good = sum(child.state is State.COMPLETED for child in children)
        stopped = sum(child.state is State.CANCELLED for child in children)
        counts = {"total": self.count, "success": good, "failed": self.count - good}
        assert parent.result == parent.counters == counts | ({"cancelled": stopped} if stopped else {})
        state = State.COMPLETED if good == self.count else State.PARTIAL if good else State.FAILED
        assert parent.state is state


async def nothing(ctx: Any) -> None: ...


async def called(function: Callable[[], Any]) -> Any:
    return function()


@pytest.mark.req("TEN-1", "TEN-3", "TEN-4", "REL-1")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_parent_waits_for_ever_and_no_tenant_is_lost_or_doubled(seed: int) -> None:
    async def main() -> None:
        chance = Random(seed)
        world = World(seed, chance.randint(1, 9), stops=seed % 3 == 0, lease=chance.choice([8.0, 60.0, 1e6]))
        await world.app.open()
        risk = chance.choice([0.0, 0.01, 0.03]) if world.lease < 1e6 else 0.0
        processes = [asyncio.create_task(world.forever(risk)) for _ in range(3)]
        try:
            async with asyncio.timeout(100 * HOUR):
                parent = await world.app.trigger("nightly")
                if seed % 4 == 1:
                    await asyncio.sleep(chance.random() * chance.choice([1, 10, 60]))
                    with suppress(CommandRefused):
                        await world.app.cancel_execution(parent.id)
                await passing(world.quiet)
                await asyncio.sleep(120)  # whoever slept through the end wakes up, and may do no harm
                await passing(world.quiet)
        finally:
            for process in processes:
                process.cancel()
            await asyncio.gather(*processes, return_exceptions=True)
        assert [each.exception() for each in processes if not each.cancelled()] == []
        ended = await world.judge(parent.id)
        told = [event for event in world.ended if event.execution.id == parent.id]
        assert len(told) <= 1
        assert {event.state for event in told} <= {ended.state}
        await world.app.close()

    run(main())


async def broken_off(world: World, parent_id: str, dies_at: int, cancel: bool) -> bool:
    """One process does it all and dies at this call, another one goes on; says whether the first one died."""
    store = world.shaky(0.0)
    store.dies_at = dies_at
    died = False
    try:
        await world.live(store, world.quiet)
    except Died:
        died = True
    if cancel:
        with suppress(CommandRefused):
            await world.app.cancel_execution(parent_id)
    await world.live(world.shaky(0.0), world.quiet)
    await world.judge(parent_id)
    return died


@pytest.mark.req("TEN-2", "TEN-4", "REL-1")
@pytest.mark.parametrize("what", ["runs", "stops at a failure", "is cancelled"])
def test_a_crash_at_any_call_to_the_store(what: str) -> None:
    """Before and after each of them, from the listing to the end of the parent."""

    async def main(dies_at: int) -> bool:
        world = World(7, 5, stops=what == "stops at a failure", lease=8.0)
        world.bad, world.late = 0.4, 0.3
        await world.app.open()
        parent = await world.app.trigger("nightly")
        async with asyncio.timeout(100 * HOUR):
            died = await broken_off(world, parent.id, dies_at, cancel=what == "is cancelled")
        await world.app.close()
        return died

    points = 0
    while run(main(points + 1)):
        points += 1
        assert points < CRASH_POINTS
    assert points > 40, "every step of listing, adding, ending and settling was broken off"


@pytest.mark.req("TEN-2")
def test_a_parent_that_is_cancelled_may_crash_while_it_stops_its_tenants() -> None:
    async def main(dies_at: int) -> bool:
        world = World(3, 5, stops=False, lease=8.0)
        await world.app.open()
        parent = await world.app.trigger("nightly")
        [claimed] = (await world.store.exchange([], claim_of("w0"))).claimed
        calm = world.shaky(0.0)
        calm.dies_at = 11  # some of its tenants are there, some are not
        with suppress(Died):
            await world.execute(calm, claimed, "w0")
        await world.app.cancel_execution(parent.id)
        async with asyncio.timeout(100 * HOUR):
            died = await broken_off(world, parent.id, dies_at, cancel=False)
        ended = await world.judge(parent.id)
        assert ended.state is State.CANCELLED
        children = await world.store.children(parent.id)
        assert sum(children.values()) == world.count
        assert set(children) == {State.CANCELLED}
        await world.app.close()
        return died

    points = 0
    while run(main(points + 1)):
        points += 1
    assert points > 10


def claim_of(owner: str) -> ClaimRequest:
    return ClaimRequest(owner=owner, handlers=frozenset({"nightly"}), queues=None, limit=1, lease=8.0)


def test_a_process_that_lists_after_the_parent_was_cancelled_adds_nothing() -> None:
    async def main() -> None:
        world = World(1, 5, stops=False, lease=8.0)
        await world.app.open()
        parent = await world.app.trigger("nightly")
        [claimed] = (await world.store.exchange([], claim_of("w0"))).claimed
        await world.app.cancel_execution(parent.id)
        await asyncio.sleep(10)
        await world.rescue(world.store)
        await do_follow_ups(world.store, world.clock.now(), unheard)
        context = JobContext(claimed, clock=world.clock)
        fan_outs = FanOuts(world.store, world.app._runtime.registry, world.clock)
        assert await fan_outs.spread(context, called, called) == 0, "its list is closed"
        assert await world.store.children(parent.id) == {}
        await do_follow_ups(world.store, world.clock.now(), unheard)
        await check_open_parents(world.store, world.clock.now(), unheard)
        assert await world.quiet()
        await world.app.close()

    run(main())


@pytest.mark.req("TEN-1")
def test_of_two_processes_that_list_at_once_one_has_made_the_list() -> None:
    async def main() -> None:
        world = World(1, 4, stops=False, lease=8.0)
        await world.app.open()
        parent = await world.app.trigger("nightly")
        [first] = (await world.store.exchange([], claim_of("w0"))).claimed
        slow, go_on = asyncio.Event(), asyncio.Event()

        async def slowly(function: Callable[[], Any]) -> Any:
            names = function()
            slow.set()
            await go_on.wait()
            return names

        fan_outs = FanOuts(world.store, world.app._runtime.registry, world.clock)
        late = asyncio.create_task(fan_outs.spread(JobContext(first, clock=world.clock), slowly, slowly))
        await slow.wait()
        await asyncio.sleep(10)
        await world.rescue(world.store)
        await asyncio.sleep(10)
        [second] = (await world.store.exchange([], claim_of("w1"))).claimed
        await world.execute(world.store, second, "w1")
        go_on.set()
        await late
        found = await world.store.find(ExecutionQuery(parent_id=parent.id, limit=100))
        assert {each.tenant for each in found} == set(world.listings[1]) != set(world.listings[0])
        await world.app.close()

    run(main())


@pytest.mark.req("TEN-2", "TEN-4")
@pytest.mark.parametrize("stops", [False, True])
def test_tenants_that_end_before_their_parent_waits_are_seen_when_it_does(stops: bool) -> None:
    """Their follow-ups found a parent that ran; nobody else will come by. And a failure cancels those that were added
    after it."""

    async def main() -> None:
        world = World(1, 4, stops=stops, lease=1e6)
        world.bad, world.late = 1.0, 0.0
        await world.app.open()
        parent = await world.app.trigger("nightly")
        [claimed] = (await world.store.exchange([], claim_of("w0"))).claimed
        began = world.clock.now()
        outcome = await world.spread(world.store, claimed, "w0")
        ended = 0
        while claims := (await world.store.exchange([], claim_of("w1"))).claimed:
            failed = msgspec.structs.replace(claims[0], failures=TRIES - 1)
            await world.execute(world.store, failed, "w1")
            ended += 1
            if stops:
                break
        if not stops:
            await do_follow_ups(world.store, world.clock.now(), unheard)
        else:  # the mark of the failure is gone, and its siblings came afterwards
            await world.store.todo_done([each.id for each in await world.store.todo(10)])
        change = transitions.after_attempt(claimed, outcome(began, world.clock.now()))
        await world.store.exchange([change], None)
        assert await world.store.todo(10) == []
        for _ in range(2):
            await check_open_parents(world.store, world.clock.now(), unheard)
            await do_follow_ups(world.store, world.clock.now(), unheard)
        over = await world.app.get(parent.id)
        assert (over.state, over.counters["failed"]) == (State.FAILED, 4)
        assert over.counters.get("cancelled", 0) == 4 - ended
        await world.app.close()

    run(main())
