"""A thousand days of schedules on virtual time: five schedulers that crash and race, machines that are down, jobs that
are paused and edited, a store whose clock is set. And, apart from all of it, what should have become of every tick.

The ticks of an expression are those of `tests.time.oracle`; `Expected` turns them into executions by the words of
docs/time.md. Whatever happens here happens half a minute away from any tick: when a tick is found late, by how much is
beyond doubt.
"""

from __future__ import annotations

import asyncio
import random
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

import msgspec

from mainspring.core.engine.scheduler import Scheduler
from mainspring.core.rules import job_commands
from mainspring.model.errors import StoreError
from mainspring.model.execution import ExecutionRow
from mainspring.model.job import Job, JobSpec, encode_spec
from mainspring.model.policies import CatchUp
from mainspring.model.store.messages import DuePage, ExecutionQuery, JobWrite, JobWritten
from mainspring.model.time.instants import SECOND, Micros, to_micros
from mainspring.model.triggers import cron, encode_trigger
from mainspring.stores.memory import MemoryStore
from tests.time import oracle

BEGIN = 1_767_225_600  # 2026-01-01T00:00:00Z
MINUTE, HOUR, DAY = 60, 3_600, 86_400
DAYS = 1_000
SCHEDULERS = 5
POLL = 3_600.0

TIMINGS = [
    ("0 */6 * * *", "UTC"),
    ("30 2 * * *", "America/New_York"),
    ("30 1 * * *", "Europe/Berlin"),
    ("0 2 * * *", "Australia/Lord_Howe"),
    ("15 */8 * * 1-5", "America/Santiago"),
    ("45 23 1,15,L * *", "Asia/Kolkata"),
    ("0 3 * * 0", "Africa/Casablanca"),
]
MOST, OLDEST = 3, 2 * DAY
RULES: dict[str, Any] = {
    "skip": "skip",
    "latest": "latest",
    "all": CatchUp("all", max_runs=MOST, max_age=float(OLDEST)),
}


@lru_cache(maxsize=64)
def ticks_of(expression: str, zone: str) -> list[int]:
    return oracle.Clock(zone, 2025, 2029).ticks(expression)


def between(expression: str, zone: str, after: int, until: int) -> list[int]:
    """The ticks in (after, until]."""
    ticks = ticks_of(expression, zone)
    return ticks[bisect_right(ticks, after) : bisect_right(ticks, until)]


# --- what should happen ---------------------------------------------------------------------------------------------


class Expected:
    """One job as the documentation has it. `dealt` is the instant up to which its ticks are dealt with."""

    def __init__(self, name: str, timing: tuple[str, str], grace: int, missed: str, paused: str, now: int) -> None:
        self.name, self.timing, self.grace, self.missed, self.missed_while_paused = name, timing, grace, missed, paused
        self.dealt, self.last = now, 0
        self.is_paused = False
        self.outcomes: set[tuple[Any, ...]] = set()

    def kept_up(self, now: int) -> None:
        """Schedulers have been there all the time until now: every tick has run."""
        if not self.is_paused:
            self._note(between(*self.timing, self.dealt, now), [], [])
            self.dealt = max(self.dealt, now)

    def found(self, now: int) -> None:
        """Schedulers look at the job for the first time in a while."""
        if not self.is_paused:
            self._note(*self.judged(between(*self.timing, self.dealt, now), now))
            self.dealt = max(self.dealt, now)

    def judged(self, due: Sequence[int], now: int) -> tuple[list[int], list[int], list[int]]:
        """Ticks that run, are caught up, and are missed."""
        in_time = [tick for tick in due if now - tick <= self.grace]
        late = [tick for tick in due if now - tick > self.grace]
        if in_time and self.missed == "latest":
            return in_time, [], late
        return in_time, *_caught_up(late, self.missed, now)

    def resumed(self, now: int) -> None:
        self.is_paused = False
        self._note([], *_caught_up(between(*self.timing, self.dealt, now), self.missed_while_paused, now))
        self.dealt = max(now, self.last)

    def edited(self, timing: tuple[str, str], now: int) -> None:
        self.timing = timing
        self.dealt = max(now, self.last)

    def _note(self, runs: list[int], catch_up: list[int], gap: list[int]) -> None:
        self.outcomes |= {(self.name, "schedule", tick) for tick in runs}
        self.outcomes |= {(self.name, "catch_up", tick) for tick in catch_up}
        if gap:
            self.outcomes.add((self.name, "missed", gap[0], gap[-1], len(gap)))
        self.last = max([self.last, *runs, *catch_up, *gap])


def _caught_up(late: list[int], rule: str, now: int) -> tuple[list[int], list[int]]:
    """Missed ticks that run after all, and those that do not."""
    if rule == "skip":
        return [], late
    if rule == "latest":
        return late[-1:], late[:-1]
    young = [tick for tick in late if now - tick <= OLDEST][-MOST:]
    return young, late[: len(late) - len(young)]


# --- what happens ---------------------------------------------------------------------------------------------------


class StoreClock:
    """Follows virtual time, until somebody sets it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.set_by = 0

    def now(self) -> Micros:
        return (BEGIN + self.set_by) * SECOND + round(self._loop.time() * SECOND)

    def monotonic(self) -> float:
        return self._loop.time()


class Shaky:
    """What one scheduler has of the store: slow, now and then unreachable, and at times without an answer."""

    def __init__(self, store: MemoryStore, chance: random.Random, counters: Counter[str]) -> None:
        self._store, self._chance, self._counters = store, chance, counters

    async def due_jobs(self, limit: int) -> DuePage:
        await self._hesitate("reads failed")
        return await self._store.due_jobs(limit)

    async def write_jobs(self, writes: Sequence[JobWrite]) -> list[JobWritten]:
        await self._hesitate("writes failed")
        written = await self._store.write_jobs(writes)
        self._counters["races lost"] += sum(not each.won for each in written)
        await self._hesitate("answers lost")
        return written

    async def _hesitate(self, failing: str) -> None:
        await asyncio.sleep(self._chance.random() * 0.2)
        if self._chance.random() < 0.02:
            self._counters[failing] += 1
            raise StoreError(failing)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class World:
    def __init__(self, seed: int, store: type[MemoryStore] = MemoryStore, days: int = DAYS) -> None:
        self.chance = random.Random(seed)
        self.clock = StoreClock()
        self.store = store(self.clock)
        self._days = days
        self.counters: Counter[str] = Counter()
        self.alive: list[Scheduler] = []
        self.jobs: dict[str, Expected] = {}

    async def live(self) -> None:
        await self._declare()
        self._start(SCHEDULERS)
        while self._now() < BEGIN + self._days * DAY:
            await self._until_half_past(self.chance.randrange(2, 5 * 24 * 60))
            self._all_kept_up()
            await self.chance.choice(
                [self._down, self._down, self._crash, self._pause, self._pause, self._edit, self._forwards, self._back]
            )()
        await self._until_half_past(1)
        self._all_kept_up()
        for scheduler in self.alive:
            await scheduler.stop(10)

    def expected(self) -> set[tuple[Any, ...]]:
        return set().union(*(job.outcomes for job in self.jobs.values()))

    async def made(self) -> list[tuple[Any, ...]]:
        """What is stored, each once for every record there is."""
        found: list[ExecutionRow] = []
        while page := await self.store.find(ExecutionQuery(limit=1_000, before=found[-1].id if found else None)):
            found += page
        return [_outcome(each) for each in found]

    # --- time -----------------------------------------------------------------------------------------------------

    def _now(self) -> int:
        return self.clock.now() // SECOND

    async def _until_half_past(self, minutes: int) -> None:
        """So many minutes later, and on to the next half of a minute; schedulers have slept enough by then."""
        then = self._now() + minutes * MINUTE
        await asyncio.sleep(then - then % MINUTE + MINUTE + 30 - self.clock.now() / SECOND)

    def _all_kept_up(self) -> None:
        for job in self.jobs.values():
            job.kept_up(self._now())

    def _all_found(self) -> None:
        for job in self.jobs.values():
            job.found(self._now())

    # --- schedulers -----------------------------------------------------------------------------------------------

    def _start(self, how_many: int) -> None:
        for _ in range(how_many):
            shaky: Any = Shaky(self.store, self.chance, self.counters)
            scheduler = Scheduler(shaky, self.clock, self.chance, lambda _: None, POLL)
            scheduler.start()
            self.alive.append(scheduler)

    async def _kill(self, how_many: int) -> None:
        for _ in range(how_many):
            scheduler = self.alive.pop(self.chance.randrange(len(self.alive)))
            await scheduler.loop.abort()
            self.counters["crashes"] += 1

    async def _down(self) -> None:
        """Nobody is there for minutes, hours or days."""
        await self._kill(SCHEDULERS)
        await self._until_half_past(self.chance.choice([1, 90, 600, 3_000, 14_400]) + self.chance.randrange(90))
        self._start(SCHEDULERS)
        self.counters["downtimes"] += 1
        self._all_found()

    async def _crash(self) -> None:
        """Some of them, in the middle of whatever they do; others take their place later."""
        ticks = [min(between(*job.timing, self._now(), self._now() + 40 * DAY)) for job in self.jobs.values()]
        await asyncio.sleep(min(ticks) - self.clock.now() / SECOND + self.chance.random() * 0.5)
        count = self.chance.randrange(1, SCHEDULERS)
        await self._kill(count)
        await self._until_half_past(self.chance.randrange(60))
        self._start(count)

    # --- operators ------------------------------------------------------------------------------------------------

    async def _pause(self) -> None:
        job = self.chance.choice([*self.jobs.values()])
        await self._write(
            job.name, lambda row, now: job_commands.pause(row, now, by="operator", note=None, resume=None)
        )
        job.is_paused = True
        self.counters["pauses"] += 1
        await self._until_half_past(self.chance.choice([5, 300, 5_000]) + self.chance.randrange(30))
        self._all_kept_up()
        await self._write(job.name, lambda row, now: job_commands.resume(row, now, self.chance))
        job.resumed(self._now())

    async def _edit(self) -> None:
        job, timing = self.chance.choice([*self.jobs.values()]), self.chance.choice(TIMINGS)
        if timing == job.timing:
            return
        fields = {"trigger": encode_trigger(cron(timing[0])), "tz": timing[1]}
        await self._write(
            job.name,
            lambda row, now: job_commands.close_old_schedule(
                row, job_commands.override(row, fields, now), now, self.chance
            ),
        )
        job.edited(timing, self._now())
        self.counters["edits"] += 1

    async def _write(self, name: str, make: Any) -> None:
        while True:
            [row] = await self.store.jobs([name])
            if (await self.store.write_jobs([make(row, await self.store.now())]))[0].won:
                return

    async def _declare(self) -> None:
        now = self._now()
        for number, timing in enumerate(TIMINGS):
            name, grace = f"job-{number}", self.chance.choice([2 * HOUR, 5 * HOUR])
            missed, paused = self.chance.choice([*RULES]), self.chance.choice([*RULES])
            spec = JobSpec(
                handler="work",
                trigger=encode_trigger(cron(timing[0])),
                tz=timing[1],
                grace=float(grace),
                missed=RULES[missed],
                missed_while_paused=RULES[paused],
            )
            job = Job(name=name, id=f"id-{number}", declared=encode_spec(spec), anchor=now * SECOND)
            write = job_commands.declare(None, job, now * SECOND)
            assert write is not None
            await self.store.write_jobs([write])
            self.jobs[name] = Expected(name, timing, grace, missed, paused, now)

    # --- the store's clock ----------------------------------------------------------------------------------------

    async def _forwards(self) -> None:
        """As after a suspend. Schedulers notice when they look next: what becomes of a tick must not depend on when."""
        leap = self.chance.choice([1, 45, 900, 4_000]) * MINUTE + self.chance.randrange(60) * MINUTE
        soon, late = self._now() + leap, self._now() + leap + round(POLL) + MINUTE
        for job in self.jobs.values():
            due = between(*job.timing, job.dealt, soon)
            more = between(*job.timing, job.dealt, late)
            ways = [job.judged(due, soon), job.judged(due, late), job.judged(more, late)]
            judged = [[[tick for tick in kind if tick <= soon] for kind in way] for way in ways]
            if any(each != judged[0] for each in judged):
                return
        self.clock.set_by += leap
        self.counters["leaps forwards"] += 1
        self._all_found()
        await self._until_half_past(round(POLL) // MINUTE + 1)

    async def _back(self) -> None:
        self.clock.set_by -= self.chance.choice([1, 60, 400, 1_500]) * MINUTE
        self.counters["leaps back"] += 1


def _outcome(execution: ExecutionRow) -> tuple[Any, ...]:
    assert execution.tick is not None
    if execution.reason != "missed":
        return execution.job, execution.trigger, execution.tick // SECOND
    words = msgspec.json.decode(execution.metadata_json or "{}")
    first, last = (to_micros(datetime.fromisoformat(words[end])) // SECOND for end in ("from", "to"))
    return execution.job, "missed", first, last, words["count"]
