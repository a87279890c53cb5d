"""The scheduler: make what is due happen, then sleep to the next due instant.

Any number of schedulers may run; there is no leader. A tick is one compare-and-set of the job row that inserts its
executions only if it won, so a second scheduler, a slow one or one that crashed half-way changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from ...model.calendars.calendar import Calendar
from ...model.events import OutsideHours, Skipped, Ticked, Trouble
from ...model.execution import ExecutionRow
from ...model.job import Job
from ...model.store.messages import Added, DuePage, JobWrite, JobWritten
from ...model.time.instants import SECOND, Micros
from ...model.values.ids import Chance
from ..cancelling import cancel_superseded
from ..jobs.calendars import Calendars
from ..loops import Emit, Loop, one_by_one, stop_all
from ..ports import Clock, Store, Topic
from ..rules import opening_hours, ticks
from ..webhooks.subscriptions import Subscriptions

FIRST_PAGE, PAGE = 100, 1_000
"""Jobs read at once: few at first, which nearly always is all, and many once there are many."""
FIRST_BATCH = 100
"""Jobs written at once: few to begin with, so that the first of many start soon, and then twice as many each time, so
that the last do not wait for many commits."""
MOST_CHARACTERS = 512 * 1024
"""Of the specifications of jobs that are written at once, together."""
AT_ONCE = 2
FEW = 50
"""Jobs and executions computed before other tasks get a turn."""
LARGE = 16 * 1024
"""Characters of a specification that may take milliseconds to decode."""
LOST_PAUSE = 0.25
"""Seconds after which ticks that other schedulers were making are checked again: those may have failed."""
RETRY_PAUSE = 60.0


_Made: TypeAlias = tuple[JobWrite, OutsideHours | None]


class _Writing:
    """The batches of one pass: how many may be under way, and what became of them."""

    def __init__(self) -> None:
        self.room = asyncio.Semaphore(AT_ONCE)
        self.lost = 0
        self.errors: list[Exception] = []


class Scheduler:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        chance: Chance,
        emit: Emit,
        poll_interval: float,
        observe: Callable[[Micros, float], None] = lambda now, asked: None,
        subscriptions: Subscriptions | None = None,
    ) -> None:
        """`observe` gets the store's time, and the monotonic time at which the store was asked."""
        self._subscriptions = subscriptions
        self._store, self._clock, self._chance, self._emit, self._observe = store, clock, chance, emit, observe
        self._poll_interval = poll_interval
        self.loop = Loop("scheduler", self.step, emit)
        self.last_check: Micros | None = None
        self._page = FIRST_PAGE
        self._left_for_later: dict[tuple[str, int], float] = {}
        self._calendars = Calendars(store, clock, chance, {})

    def start(self) -> None:
        self.loop.start()

    def wake(self, topic: Topic = Topic.JOBS) -> None:
        if topic in (Topic.JOBS, Topic.ANY):
            self.loop.wake()

    async def stop(self, timeout: float) -> None:
        """End after the tick under way; what comes due later is left for the next node."""
        await stop_all([self.loop], timeout)

    async def step(self) -> float:
        """One pass; returns the seconds until the next one is needed. They are counted from the store's time now, never
        from an earlier plan: the plan follows a clock that was set, or a machine that slept."""
        asked = self._clock.monotonic()
        page = await self._store.due_jobs(self._page + len(self._left_for_later))
        self._observe(page.now, asked)
        self.last_check = page.now
        wanted = self._wanted(page)
        lost = await self._make(wanted, page.now) if wanted else 0
        full = len(wanted) >= self._page
        self._page = PAGE if full else FIRST_PAGE
        if full and lost < len(wanted):
            return 0.0
        delay = self._until(page.next_due, page.now)
        return min(delay, LOST_PAUSE) if lost else delay

    def _wanted(self, page: DuePage) -> list[Job]:
        """Without the jobs that failed a moment ago, which other nodes may be able to read: they are tried again
        later."""
        again = self._clock.monotonic()
        self._left_for_later = {job: until for job, until in self._left_for_later.items() if until > again}
        return [job for job in page.jobs if (job.id, job.version) not in self._left_for_later]

    async def _make(self, jobs: list[Job], now: Micros) -> int:
        """Make the due ticks of these jobs, batch by batch: while the store writes one batch, the next is computed.
        Returns how many were lost to other schedulers, which may still fail to make them."""
        writing = _Writing()
        calendars = await self._calendars.of(jobs)
        async with asyncio.TaskGroup() as group:
            for batch in _batches(self._with_calendars(jobs, calendars)):
                made = await self._made(batch, now, calendars)
                await writing.room.acquire()
                group.create_task(self._write(made, now, writing), name="mainspring-ticks")
        if writing.errors:
            raise writing.errors[0]
        return writing.lost

    async def _made(self, jobs: list[Job], now: Micros, calendars: Mapping[str, Calendar]) -> list[_Made]:
        """The write of each job, and the event to emit if its hours are closed. Other tasks get a turn in between, at
        once after jobs that took long."""

        def one(job: Job) -> _Made:
            write = ticks.materialise(job, now, self._chance, calendars)
            if job.paused is not None and self._subscriptions is not None:
                write = self._subscriptions.marked(job, write)
            return write, opening_hours.closed_event(job, calendars, now)

        made, effort = list[tuple[Job, _Made]](), 0
        for job in jobs:
            done = one_by_one("schedule", [job], one, self._emit)
            made += done
            effort += 1 + sum(_effort(job, write) for _, (write, _) in done)
            if effort > FEW:
                await asyncio.sleep(0)
                effort = 0
        readable = {job.id for job, _ in made}
        self._leave_for_later([job for job in jobs if job.id not in readable])
        return [each for _, each in made]

    def _with_calendars(self, jobs: list[Job], calendars: Mapping[str, Calendar]) -> list[Job]:
        """Without the jobs that name a calendar which does not exist: nobody knows whether they may run. An event names
        them, and they are tried again later; what they missed until then follows their own rule."""
        held = [job for job in jobs if any(name not in calendars for name in opening_hours.named_by(job))]
        for missing in sorted({name for job in held for name in opening_hours.named_by(job)} - calendars.keys()):
            names = [job.name for job in held if missing in opening_hours.named_by(job)]
            more = f" and {len(names) - 5:,} more" if len(names) > 5 else ""
            words = f"calendar {missing!r} does not exist; jobs that name it do not run: {', '.join(names[:5])}{more}"
            self._emit(Trouble("schedule", words))
        self._leave_for_later(held)
        return [job for job in jobs if job not in held] if held else jobs

    def _leave_for_later(self, jobs: list[Job]) -> None:
        until = self._clock.monotonic() + RETRY_PAUSE
        self._left_for_later |= {(job.id, job.version): until for job in jobs}

    async def _write(self, made: list[_Made], now: Micros, writing: _Writing) -> None:
        """Errors are raised when all batches have ended: one batch must not cut short the others."""
        try:
            results = await self._store.write_jobs([write for write, _ in made])
            for (write, news), written in zip(made, results, strict=True):
                writing.lost += not written.won
                if written.won and news is not None:
                    self._emit(news)
                await self._announce(write, written, now)
        except Exception as error:
            writing.errors.append(error)
        finally:
            writing.room.release()

    async def _announce(self, write: JobWrite, written: JobWritten, now: Micros) -> None:
        if not written.won:
            return
        for planned, added in zip(write.executions, written.added, strict=True):
            execution = added.execution or planned
            self._emit_tick(execution, added, now)
            if added.outcome == "added" and _supersedes(execution, now):
                await cancel_superseded(self._store, execution, self._emit)

    def _emit_tick(self, execution: ExecutionRow, added: Added, now: Micros) -> None:
        if execution.state.final or added.outcome == "skipped":
            self._emit(Skipped(execution, execution.reason or "overlap", added.holder))
        elif added.outcome == "added":
            self._emit(Ticked(execution, max(now - execution.due, 0) / 1000))

    def _until(self, next_due: Micros | None, now: Micros) -> float:
        if next_due is None:
            return self._poll_interval
        return min(max((next_due - now) / SECOND, 0.0), self._poll_interval)


def _supersedes(execution: ExecutionRow, now: Micros) -> bool:
    """Whether what runs has to make way for it: not for the record of a missed tick, and not before it is due."""
    return not execution.state.final and execution.due <= now and execution.rules.overlap == "cancel_running"


def _effort(job: Job, write: JobWrite) -> int:
    """How many executions can be computed in about the same time."""
    is_heavy = job.spec.hours is not None or len(job.declared) + len(job.overrides) > LARGE
    return FEW if is_heavy else len(write.executions)


def _batches(jobs: list[Job]) -> Iterator[list[Job]]:
    size, batch, characters = FIRST_BATCH, list[Job](), 0
    for job in jobs:
        characters += len(job.declared) + len(job.overrides)
        if batch and (len(batch) == size or characters > MOST_CHARACTERS):
            yield batch
            size, batch, characters = size * 2, [], len(job.declared) + len(job.overrides)
        batch.append(job)
    if batch:
        yield batch
