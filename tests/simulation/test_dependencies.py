"""Hand-overs between jobs under seeded interleavings: several processes do the follow-ups at once, and each may die
before or after any call to the store; executions end in any order and any state; operators run parents again.

`FLOW_SEEDS=1000` (make flow-full) runs more of them.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from mainspring import Mainspring
from mainspring.core.engine.follow_ups import do_follow_ups
from mainspring.core.rules import transitions
from mainspring.model.errors import CommandRefused
from mainspring.model.execution import LIVE, ExecutionRow, Outcome, State
from mainspring.model.store.messages import ClaimRequest, ExecutionQuery
from mainspring.stores.memory import MemoryStore
from tests.simulation.test_backfills import Clock, Died, Shaky, passing, unheard
from tests.simulator.virtual import run

SEEDS = int(os.environ.get("FLOW_SEEDS", "20"))
HOUR = 3_600.0

AFTER: dict[str, tuple[str, ...]] = {
    "copy": ("load",),
    "check": ("load",),
    "merge": ("copy", "check"),
    "report": ("merge",),
    "mail": ("report", "rates"),
    "tidy": ("mail",),
}
RUN_ANYWAY = {"merge", "tidy"}
"""load -> copy, check -> merge -> report -> mail <- rates, mail -> tidy"""


def application(store: Any, clock: Clock) -> Mainspring:
    app = Mainspring(store, clock=clock)
    for name in ("load", "rates"):
        app.job(name, window="yesterday", overlap="allow", max_attempts=1)(nothing)
    for name, parents in AFTER.items():
        anyway = "run" if name in RUN_ANYWAY else "skip"
        app.job(name, after=parents, on_failed_parent=anyway, max_attempts=1)(nothing)
    return app


async def nothing(ctx: Any) -> None: ...


class World:
    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.clock = Clock()
        self.store = MemoryStore(self.clock)
        self.app = application(self.store, self.clock)
        self.bad = self.chance.choice([0.0, 0.2, 0.5])

    def shaky(self, risk: float) -> Shaky:
        return Shaky(self.store, self.chance, lambda: None, risk)

    async def follow(self) -> None:
        """A process that does follow-ups, and is started again when it has died."""
        while True:
            with suppress(Died):
                while True:
                    await do_follow_ups(self.shaky(0.03), self.clock.now(), unheard)  # type: ignore[arg-type]
                    await asyncio.sleep(self.chance.random())
            await asyncio.sleep(self.chance.random() * 3)

    async def work(self) -> None:
        while True:
            claimed = await claim(self.store, self.chance.randint(1, 3))
            for execution in self.chance.sample(claimed, len(claimed)):
                await asyncio.sleep(self.chance.random() * self.chance.choice([0.1, 5]))
                await end(self.store, execution, self.clock, self.chance.random() >= self.bad)
            await asyncio.sleep(self.chance.random())

    async def among(self, test: Callable[[], Any]) -> None:
        tasks = [asyncio.create_task(self.follow()) for _ in range(3)]
        tasks += [asyncio.create_task(self.work()) for _ in range(2)]
        try:
            async with asyncio.timeout(100 * HOUR):
                await test()
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            assert [each for each in ended if not isinstance(each, asyncio.CancelledError)] == []

    async def quiet(self) -> bool:
        return not (await self.store.find(ExecutionQuery(states=LIVE)) or await self.store.todo(1))

    async def rows(self) -> list[ExecutionRow]:
        return await self.store.find(ExecutionQuery(limit=1_000))


async def claim(store: MemoryStore, limit: int) -> list[ExecutionRow]:
    handlers = frozenset({"load", "rates", *AFTER})
    request = ClaimRequest(owner="w", handlers=handlers, queues=None, limit=limit, lease=1e6)
    return list((await store.exchange([], request)).claimed)


async def end(store: MemoryStore, execution: ExecutionRow, clock: Clock, well: bool) -> None:
    outcome = Outcome(end="completed" if well else "failed", started=clock.now(), ended=clock.now(), worker="w")
    assert (await store.exchange([transitions.after_attempt(execution, outcome)], None)).applied == (True,)


def check(rows: list[ExecutionRow]) -> None:
    """Everything that had to follow has followed, once, after all its parents had ended, and as its rule says."""
    rows = [row for row in rows if row.reason != "overlap"]
    known = {row.id: row for row in rows}
    of_job: dict[str, list[ExecutionRow]] = defaultdict(list)
    for row in rows:
        of_job[row.job].append(row)
    for job, parents in AFTER.items():
        made = of_job[job]
        causes = Counter(tuple(sorted(row.metadata["after"].values())) for row in made if row.trigger == "dependency")
        assert set(causes.values()) <= {1}, f"{job} followed twice from the same endings"
        for row in (each for each in made if each.trigger == "dependency"):
            check_one(row, [known[id] for id in row.metadata["after"].values()])
        for group in groups(of_job, parents):
            newest = [max(rows, key=lambda row: (row.created, row.id)).id for rows in group]
            assert tuple(sorted(newest)) in causes, f"{job} did not follow from {newest}"
        if len(parents) == 1:
            assert sum(causes.values()) == len(of_job[parents[0]]), f"{job} follows each ending of {parents[0]}"


def groups(of_job: dict[str, list[ExecutionRow]], parents: tuple[str, ...]) -> list[list[list[ExecutionRow]]]:
    """For each window that all parents have run: the executions of each parent."""
    by_window = [{row.window_begin: [] for row in of_job[name]} for name in parents]
    for name, windows in zip(parents, by_window, strict=True):
        for row in of_job[name]:
            windows[row.window_begin].append(row)
    shared = set.intersection(*(set(windows) for windows in by_window))
    return [[windows[window] for windows in by_window] for window in shared]


def check_one(row: ExecutionRow, parents: list[ExecutionRow]) -> None:
    assert [parent.job for parent in parents] == list(AFTER[row.job])
    assert all(parent.finished is not None and parent.finished <= row.created for parent in parents), "too early"
    assert {parent.window_begin for parent in parents} == {row.window_begin}
    assert row.flow in {parent.flow or parent.id for parent in parents}
    bad = [parent.job for parent in parents if parent.state is not State.COMPLETED]
    if bad and row.job not in RUN_ANYWAY:
        assert (row.state, row.reason, row.metadata["failed_parent"]) == (State.SKIPPED, "dependency_failed", bad[0])
    else:
        assert row.state in (State.COMPLETED, State.FAILED)


@pytest.mark.req("FLW-1")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_nothing_that_follows_is_lost_or_doubled(seed: int) -> None:
    async def main() -> None:
        world = World(seed)
        await world.app.open()

        async def again() -> None:
            """Somebody runs again what has failed, or runs a root once more."""
            for _ in range(6):
                await asyncio.sleep(world.chance.random() * 20)
                failed = [row for row in await world.rows() if row.state is State.FAILED]
                if not failed:
                    continue
                with suppress(CommandRefused):  # another one may run: then this is recorded, and feeds nobody
                    await world.app.retry(world.chance.choice(failed).id)

        async def test() -> None:
            for day in range(1, 5):
                for root in ("load", "rates"):
                    await world.app.trigger(root, window=(f"2026-03-{day:02d}", f"2026-03-{day + 1:02d}"))
                    await asyncio.sleep(world.chance.random() * world.chance.choice([0.1, 30]))
            await again()
            await passing(world.quiet)
            check(await world.rows())

        await world.among(test)
        await world.app.close()

    run(main())


@pytest.mark.req("FLW-1")
@pytest.mark.parametrize("well", [True, False])
def test_a_crash_between_any_two_calls_of_a_hand_over(well: bool) -> None:
    """One process ends everything, and dies at the n-th call of its follow-ups; another does the rest."""

    async def main(dies_at: int) -> bool:
        world = World(0)
        await world.app.open()
        for root in ("load", "rates"):
            await world.app.trigger(root, window=("2026-03-01", "2026-03-02"))
        shaky = Shaky(world.store, Random(1), lambda: None)
        shaky.dies_at = dies_at
        died = False
        while not await world.quiet():
            for execution in await claim(world.store, 10):
                await end(world.store, execution, world.clock, well or execution.job == "rates")
            try:
                await do_follow_ups(world.store if died else shaky, world.clock.now(), unheard)  # type: ignore[arg-type]
            except Died:
                died = True
        rows = await world.rows()
        check(rows)
        assert Counter(row.job for row in rows) == dict.fromkeys(["load", "rates", *AFTER], 1)
        await world.app.close()
        return died

    number = 0
    while run(main(number := number + 1)):
        assert number < 1_000
    assert number > 20, "there is something to die at"


def test_an_operator_is_told_why_a_dependent_cannot_be_run_again() -> None:
    async def main() -> None:
        world = World(0)
        root = await world.app.trigger("load")
        while not await world.quiet():
            for execution in await claim(world.store, 10):
                await end(world.store, execution, world.clock, well=False)
            await do_follow_ups(world.store, world.clock.now(), unheard)
        skipped = await world.app.executions("copy")
        assert skipped[0].error == f"job 'load' did not complete: execution {root.id} is failed"
        with pytest.raises(CommandRefused, match="skipped"):
            await world.app.retry(skipped[0])
        await world.app.close()

    run(main())


class SlowShelf(Shaky):
    """Its writes to the records of joins take until they are let go."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store, Random(1), lambda: None)
        self.asked, self.go = asyncio.Event(), asyncio.Event()

    async def write_entries(self, writes: Any) -> Any:
        if writes[0].entry.kind == "join":
            self.asked.set()
            await self.go.wait()
        return await self._store.write_entries(writes)


@pytest.mark.req("FLW-1")
def test_who_is_late_to_enter_an_ending_does_not_wipe_out_another() -> None:
    """One process has read the record of `merge`, and writes it after another has entered both parents."""

    async def main() -> None:
        world, slow = World(0), SlowShelf(MemoryStore(Clock()))
        root = await world.app.trigger("load", window=("2026-03-01", "2026-03-02"))
        slow._store = world.store
        [load] = await claim(world.store, 1)
        await end(world.store, load, world.clock, well=True)
        await do_follow_ups(world.store, world.clock.now(), unheard)
        both = {each.job: each for each in await claim(world.store, 10)}
        await end(world.store, both["copy"], world.clock, well=False)
        late = asyncio.create_task(do_follow_ups(slow, world.clock.now(), unheard))  # type: ignore[arg-type]
        await slow.asked.wait()
        await end(world.store, both["check"], world.clock, well=True)
        while await do_follow_ups(world.store, world.clock.now(), unheard):
            pass
        slow.go.set()
        await late
        again = await world.app.retry(both["copy"].id)
        while not await world.quiet():
            for execution in await claim(world.store, 10):
                await end(world.store, execution, world.clock, well=True)
            await do_follow_ups(world.store, world.clock.now(), unheard)
        causes = [row.metadata["after"] for row in await world.app.executions("merge")]
        assert {"copy": again.id, "check": both["check"].id} in causes
        assert len(causes) == 2, root.id
        await world.app.close()

    run(main())
