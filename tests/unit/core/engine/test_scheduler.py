"""The scheduler's passes over many due jobs, on the memory store, stepped by hand."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from mainspring import every
from mainspring.core.engine.scheduler import FIRST_BATCH, LOST_PAUSE, Scheduler
from mainspring.core.rules import job_commands
from mainspring.model.errors import StoreError
from mainspring.model.job import Job, JobSpec, encode_spec
from mainspring.model.store.messages import DuePage, ExecutionQuery, JobWrite, JobWritten
from mainspring.model.time.instants import SECOND
from mainspring.model.triggers import encode_trigger
from mainspring.stores.memory import MemoryStore
from mainspring.testing.clock import FakeClock

PERIOD = 3_600.0


class Watched(MemoryStore):
    """Counts calls, and lets a test step in between what a scheduler reads and what it writes."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.calls: Counter[str] = Counter()
        self.largest = 0
        self.before_write: Callable[[list[JobWrite]], Any] | None = None

    async def due_jobs(self, limit: int) -> DuePage:
        self.calls["due_jobs"] += 1
        return await super().due_jobs(limit)

    async def write_jobs(self, writes: Any) -> list[JobWritten]:
        self.calls["write_jobs"] += 1
        self.largest = max(self.largest, len(writes))
        if self.before_write is not None:
            await self.before_write(writes)
        return await super().write_jobs(writes)


class World:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.store = Watched(self.clock)
        self.events: list[Any] = []
        self.scheduler = Scheduler(self.store, self.clock, random.Random(1), self.events.append, 10.0)

    async def declare(self, count: int) -> None:
        """Jobs that are due at one instant, which is reached then."""
        now = self.clock.now()
        spec = encode_spec(JobSpec(handler="h", trigger=encode_trigger(every(seconds=PERIOD)), overlap="skip"))
        jobs = [Job(name=f"job-{n:05}", id=f"id-{n:05}", declared=spec, anchor=now) for n in range(count)]
        writes = [job_commands.declare(None, job, now) for job in jobs]
        await self.store.write_jobs([write for write in writes if write is not None])
        self.store.calls.clear()
        self.store.largest = 0
        self.clock.advance(PERIOD)

    async def ticks(self) -> Counter[str]:
        """How many executions each job has."""
        found: Counter[str] = Counter()
        before: str | None = None
        while page := await self.store.find(ExecutionQuery(limit=500, before=before)):
            found.update(execution.job for execution in page)
            before = page[-1].id
        return found

    async def run(self) -> float:
        """Pass after pass until one wants to sleep; for how long."""
        while (delay := await self.scheduler.step()) <= 0:
            pass
        return delay


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.req("NUM-1", "TIM-6")
async def test_thousands_due_at_one_instant_are_made_in_few_writes_of_bounded_size(world: World) -> None:
    await world.declare(2_500)
    assert await world.run() == 10.0
    made = await world.ticks()
    assert (len(made), set(made.values())) == (2_500, {1})
    assert world.store.calls == {"due_jobs": 4, "write_jobs": 12}
    assert world.store.largest == 4 * FIRST_BATCH  # 100, 200, 400 and the rest of a page


@pytest.mark.req("NUM-1")
async def test_what_is_not_due_costs_one_question(world: World) -> None:
    await world.declare(1_000)
    await world.run()
    world.store.calls.clear()
    assert await world.scheduler.step() == 10.0
    assert world.store.calls == {"due_jobs": 1}


@pytest.mark.req("TIM-6")
async def test_a_job_paused_after_it_was_read_makes_no_tick_and_the_others_do(world: World) -> None:
    await world.declare(250)
    world.store.before_write = once(world, lambda: pause(world, "job-00120"))
    await world.run()
    made = await world.ticks()
    assert set(made.values()) == {1}
    assert sorted(made) == sorted({f"job-{n:05}" for n in range(250)} - {"job-00120"})
    [paused] = await world.store.jobs(["job-00120"])
    assert (paused.paused is not None, paused.next_run) == (True, world.clock.now())  # the tick is not lost: it waits


@pytest.mark.req("TIM-6")
@pytest.mark.parametrize("count", [3, 300])
async def test_what_was_lost_to_another_is_looked_at_again_soon(world: World, count: int) -> None:
    """A rival may have taken a tick and died: no wake-up would tell. Nor is a whole page of its ticks run after."""
    await world.declare(count)
    plain = MemoryStore.write_jobs

    async def nobody_wins(writes: Any) -> list[JobWritten]:
        return [JobWritten(won=False) for _ in writes]

    world.store.write_jobs = nobody_wins  # type: ignore[method-assign]
    assert await world.run() == LOST_PAUSE
    assert await world.ticks() == {}
    world.store.write_jobs = lambda writes: plain(world.store, writes)  # type: ignore[method-assign]
    assert await world.run() == 10.0
    assert set((await world.ticks()).values()) == {1}


@pytest.mark.req("TIM-6")
async def test_a_batch_that_fails_keeps_no_other_from_being_written(world: World) -> None:
    await world.declare(450)

    async def fail() -> None:
        raise StoreError("cut")

    world.store.before_write = once(world, fail)
    with pytest.raises(StoreError, match="cut"):
        await world.run()
    assert await world.scheduler.step() == 0.0  # a full page: there may be more
    world.store.before_write = once(world, fail)
    with pytest.raises(StoreError, match="cut"):
        await world.scheduler.step()
    assert len(await world.ticks()) == 450 - FIRST_BATCH
    await world.run()
    made = await world.ticks()
    assert (len(made), set(made.values())) == (450, {1})


@pytest.mark.req("TIM-5")
async def test_it_sleeps_to_the_next_due_instant(world: World) -> None:
    await world.declare(2)
    await world.run()
    world.clock.advance(PERIOD - 4)
    assert await world.scheduler.step() == pytest.approx(4)


def once(world: World, step: Callable[[], Any]) -> Callable[[list[JobWrite]], Any]:
    """Done before the first write only."""

    async def before_write(writes: list[JobWrite]) -> None:
        world.store.before_write = None
        await step()

    return before_write


async def pause(world: World, name: str) -> None:
    [job] = await world.store.jobs([name])
    assert job.next_run is not None
    assert world.clock.now() - job.next_run < SECOND
    await world.store.write_jobs([job_commands.pause(job, world.clock.now(), by="ada", note=None, resume=None)])
