"""Backfills under seeded interleavings: several drivers at once, each of which may die before or after any call to the
store; workers that end what they run in any order; operators who pause, resume and cancel.

`FLOW_SEEDS=1000` (make flow-full) runs more of them.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from mainspring import Mainspring
from mainspring.core.backfills import records
from mainspring.core.backfills.driver import PLANNING_PATIENCE, BackfillDriver, drive
from mainspring.core.engine.follow_ups import do_follow_ups, enter_windows
from mainspring.core.rules import transitions
from mainspring.core.views.job import job_of
from mainspring.model.errors import CommandRefused
from mainspring.model.execution import LIVE, ExecutionRow, Outcome, State
from mainspring.model.store.messages import ClaimRequest, ExecutionQuery, PruneRule
from mainspring.model.time.instants import Micros, seconds_to_micros
from mainspring.model.values.ids import random_id
from mainspring.stores.memory import MemoryStore
from mainspring.testing.recording import immediately
from tests.simulator.virtual import run

SEEDS = int(os.environ.get("FLOW_SEEDS", "20"))
BEGIN, END = "2026-03-01", "2026-03-25"
WINDOWS = 24
START = 1_775_000_000_000_000
HOUR = 3_600.0


class Died(BaseException):
    """The process is gone, between two instructions."""


class Clock:
    """Virtual time."""

    def now(self) -> Micros:
        return START + seconds_to_micros(asyncio.get_running_loop().time())

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()


class Shaky:
    """The store as one process sees it: each call takes a while, and the process may die before or after it."""

    def __init__(self, store: MemoryStore, chance: Random, after_each: Callable[[], None], risk: float = 0.0) -> None:
        self._store, self._chance, self._after_each, self.risk = store, chance, after_each, risk
        self.dies_at: int | None = None
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        primitive = getattr(self._store, name)
        if not inspect.iscoroutinefunction(primitive):
            return primitive

        async def call(*args: Any, **options: Any) -> Any:
            await self._under_way()
            reply = await primitive(*args, **options)
            self._after_each()
            await self._under_way()
            return reply

        return call

    async def _under_way(self) -> None:
        self.calls += 1
        if self._chance.random() < 0.7:
            await asyncio.sleep(self._chance.random() * self._chance.choice([0.01, 0.1, 3.0]))
        if self._chance.random() < self.risk or self.calls == self.dies_at:
            raise Died


class World:
    """One store, one job with daily windows, and whoever works on it."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.clock = Clock()
        self.store = MemoryStore(self.clock)
        self.app = self.new_app(self.store)
        self.concurrency = self.chance.choice([1, 1, 2, 5, 30])
        self.ran: Counter[tuple[str, tuple[Any, Any]]] = Counter()
        self.alive: Counter[str] = Counter()
        self.bad = self.chance.choice([0.0, 0.3, 1.0])
        self.deaths = 0

    def new_app(self, store: Any) -> Mainspring:
        app = Mainspring(store, clock=self.clock)
        app.job("report", cron="0 3 * * *", window="yesterday", max_attempts=1)(report)
        return app

    def shaky(self, risk: float = 0.02) -> Shaky:
        return Shaky(self.store, self.chance, self.check, risk)

    def check(self) -> None:
        """Never more alive than allowed, and no window twice."""
        live = immediately(self.store.find(ExecutionQuery(trigger="backfill", states=LIVE, limit=1_000)))
        for backfill, count in Counter(row.parent_id for row in live).items():
            assert count <= self.concurrency, f"{count} alive in {backfill}, allowed are {self.concurrency}"
        windows = Counter((row.window_begin, row.window_end) for row in live)
        assert set(windows.values()) <= {1}, "a window is alive twice"

    async def forever(self, what: Callable[[Any], Any]) -> None:
        """A process that is started again when it has died."""
        while True:
            with suppress(Died):
                await what(self.shaky())
            self.deaths += 1
            await asyncio.sleep(self.chance.random() * 5)

    async def drive(self, store: Any) -> None:
        driver = BackfillDriver(store, unheard)
        while True:
            delay = await driver.step()
            await asyncio.sleep(min(delay, 2.0) * self.chance.random())

    async def work(self, store: Any) -> None:
        """Takes up to three at a time, ends them, and does what follows through a store that it may die at."""
        while True:
            claim = ClaimRequest(
                owner="w", handlers=frozenset({"report"}), queues=None, limit=self.chance.randint(1, 3), lease=1e6
            )
            claimed = (await self.store.exchange([], claim)).claimed
            for execution in self.chance.sample(claimed, len(claimed)):
                self.check()
                await asyncio.sleep(self.chance.random() * self.chance.choice([0.1, 10]))
                await self.end(execution)
            await do_follow_ups(store, self.clock.now(), unheard)
            await asyncio.sleep(self.chance.random())

    async def end(self, execution: ExecutionRow) -> None:
        self.ran[execution.parent_id or "", (execution.window_begin, execution.window_end)] += 1
        failed = self.chance.random() < self.bad
        now = self.clock.now()
        asked = await self.store.cancels("w")
        stop = "cancelled" if execution.id in asked else "failed" if failed else "completed"
        outcome = Outcome(end=stop, started=now, ended=now, worker="w")
        change = transitions.after_attempt(await row_of(self.store, execution.id), outcome)
        await self.store.exchange([change], None)

    async def among(self, test: Callable[[], Any], drivers: int = 3, workers: int = 2) -> Any:
        """The test, while processes work, die and are started again."""
        await self.app.open()
        tasks = [asyncio.create_task(self.forever(self.drive)) for _ in range(drivers)]
        tasks += [asyncio.create_task(self.forever(self.work)) for _ in range(workers)]
        try:
            async with asyncio.timeout(400 * HOUR):
                return await test()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            failures = [task.exception() for task in tasks if not task.cancelled() and task.exception()]
            assert failures == []

    async def begin(self, **options: Any) -> Any:
        return await self.app.backfill("report", BEGIN, END, concurrency=self.concurrency, **options)

    async def until_over(self, id: str) -> Any:
        async def over() -> Any:
            backfill = await self.app.backfills.get(id)
            return backfill if backfill.over else None

        return await passing(over)

    async def until_quiet(self) -> None:
        """Nothing is alive, nothing is left to do, nothing is open."""

        async def quiet() -> bool:
            alive = await self.store.find(ExecutionQuery(states=LIVE))
            return not (alive or await self.store.todo(1) or await self.store.list_entries("backfill", "open"))

        await passing(quiet)


async def passing(condition: Callable[[], Any]) -> Any:
    """The first true value of a condition. The seconds that pass are virtual."""
    while True:
        if value := await condition():
            return value
        await asyncio.sleep(1.0)


async def report(ctx: Any) -> None: ...


def unheard(event: object) -> None: ...


async def row_of(store: MemoryStore, id: str) -> ExecutionRow:
    row = await store.execution(id)
    assert row is not None
    return row


@pytest.mark.req("WIN-5", "WIN-7")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_each_window_runs_once_and_never_more_than_allowed_at_a_time(seed: int) -> None:
    async def main() -> None:
        world = World(seed)

        async def test() -> None:
            pace = world.chance.choice([None, None, 5, "1m"])
            order = world.chance.choice(["oldest", "newest"])
            made = await world.begin(pace=pace, order=order)
            over = await world.until_over(made.id)
            assert world.ran.total() == len(world.ran) == WINDOWS, "each window ran, and once"
            assert over.completed + over.failed == over.ended == over.total == WINDOWS
            good = "completed" if not over.failed else "partial" if over.completed else "failed"
            assert over.state == good
            await world.until_quiet()
            windows = await world.app.windows("report", BEGIN, END)
            assert (windows.counts["done"], windows.counts["failed"]) == (over.completed, over.failed)
            assert {each.runs for each in windows} == {1}
            assert await world.store.list_entries("backfill_plan", made.id) == []

        await world.among(test)
        await world.app.close()

    run(main())


@pytest.mark.req("WIN-5")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_cancelled_backfill_starts_nothing_more(seed: int) -> None:
    async def main() -> None:
        world = World(seed)

        async def test() -> None:
            made = await world.begin(pace=world.chance.choice([None, 5]))
            await asyncio.sleep(world.chance.random() * 30)
            with suppress(CommandRefused):  # it may be over already
                await world.app.backfills.cancel(made.id, reason="enough")
            over = await world.until_over(made.id)
            rows = await world.store.find(ExecutionQuery(parent_id=made.id, limit=1_000))
            assert all(row.state.final for row in rows), "nothing of it is alive once it is over"
            await asyncio.sleep(HOUR / 12)
            later = await world.store.find(ExecutionQuery(parent_id=made.id, limit=1_000))
            assert [row.id for row in later] == [row.id for row in rows], "nothing is started afterwards"
            assert max(world.ran.values(), default=0) <= 1
            assert over.state in ("cancelled", "completed", "partial", "failed")
            ended = Counter(row.state for row in rows)
            assert over.completed == ended[State.COMPLETED]
            await world.until_quiet()

        await world.among(test)
        await world.app.close()

    run(main())


@pytest.mark.req("WIN-5", "WIN-7")
@pytest.mark.parametrize("seed", range(SEEDS // 2))
def test_two_backfills_of_the_same_range_while_operators_pause_them(seed: int) -> None:
    """No window is alive twice (checked after every call); all of them end."""

    async def main() -> None:
        world = World(seed)

        async def operators(ids: list[str]) -> None:
            for _ in range(10):
                await asyncio.sleep(world.chance.random() * 10)
                id = world.chance.choice(ids)
                with suppress(CommandRefused):
                    await world.app.backfills.pause(id)
                await asyncio.sleep(world.chance.random() * 10)
                with suppress(CommandRefused):
                    await world.app.backfills.resume(id)
            for id in ids:
                with suppress(CommandRefused):
                    await world.app.backfills.resume(id)

        async def test() -> None:
            ids = [(await world.begin()).id, (await world.begin(order="newest")).id]
            await operators(ids)
            for id in ids:
                over = await world.until_over(id)
                assert over.ended == over.total
                assert over.completed + over.failed == sum(n for (parent, _), n in world.ran.items() if parent == id)
            assert max(world.ran.values()) == 1, "each backfill runs a window once at most"
            await world.until_quiet()
            assert (await world.app.windows("report", BEGIN, END)).counts["missing"] == 0

        await world.among(test)
        await world.app.close()

    run(main())


@pytest.mark.req("WIN-5")
@pytest.mark.parametrize("dies_at", range(1, 50, 2))
def test_who_dies_while_starting_one_leaves_a_backfill_or_nothing(dies_at: int) -> None:
    async def main() -> bool:
        world = World(0)
        await world.app.open()
        shaky = world.shaky(risk=0.0)
        starter = world.new_app(shaky)
        await starter.open()
        shaky.dies_at = shaky.calls + dies_at
        died = False
        try:
            await starter.backfill("report", BEGIN, END)
        except Died:
            died = True

        async def test() -> None:
            known = await world.app.backfills.recent()
            if known and known[0].state != "planning":
                await world.until_over(known[0].id)
                assert world.ran.total() == len(world.ran) == WINDOWS
                assert [each.action for each in await world.app.audits("job:report")] == ["backfill"]
            else:
                await asyncio.sleep(PLANNING_PATIENCE + 60)
                assert [each.state for each in await world.app.backfills.recent()] in ([], ["cancelled"])
                assert world.ran.total() == 0
                assert [await world.store.list_entries("backfill_plan", each.id) for each in known] in ([], [[]])
            await world.until_quiet()

        await world.among(test, drivers=1)
        await world.app.close()
        return died

    assert run(main()) or dies_at > 20, "it should have died"


async def test_rows_that_retention_took_are_counted_from_the_ledger() -> None:
    clock = Clock()
    store = MemoryStore(clock)
    app = Mainspring(store, clock=clock)
    app.job("report", cron="0 3 * * *", window="yesterday", max_attempts=1)(report)
    made = await app.backfill("report", BEGIN, END)
    execution = (
        await store.exchange(
            [], ClaimRequest(owner="w", handlers=frozenset({"report"}), queues=None, limit=1, lease=1e6)
        )
    ).claimed[0]
    outcome = Outcome(end="completed", started=clock.now(), ended=clock.now(), worker="w")
    await store.exchange([transitions.after_attempt(execution, outcome)], None)
    await enter_windows(store, await store.todo(10), unheard)
    await store.todo_done([execution.id])
    job = job_of(await app.job_view("report"))
    rule = PruneRule(job_id=job.id, states=frozenset({State.COMPLETED}), older_than=None)
    assert await store.prune(rule, 10) == 1
    await drive(store, made.id, unheard)
    after = await records.record(store, made.id)
    assert after is not None
    assert (after.completed, after.position, after.in_flight) == (1, 2, (1,))
    await app.close()


def test_ids_are_in_the_order_of_time() -> None:
    """The list of backfills relies on it."""
    chance = Random(1)
    ids = [random_id(START + number * 1_000, chance) for number in range(100)]
    assert ids == sorted(ids)
