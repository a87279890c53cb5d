"""Metrics of jobs from the store: totals that hold across processes and crashes, and current counts.

A reading is shared by all who ask within a second. It covers a limited number of jobs: all of them or, where there are
more, those that matter most: failing ones, late ones, those with most to do, the busiest. The choice reads every job,
in small steps, at most once a minute.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec

from ...model.errors import MainspringError
from ...model.execution import ExecutionRow, State
from ...model.job import Job, JobStats, LiveCounts
from ...model.store.messages import ExecutionQuery, JobQuery
from ...model.time.instants import SECOND, Micros, to_micros
from ...model.values.ids import NO_CHANCE
from ..errors.commands import ErrorGroups
from ..jobs.calendars import Calendars
from ..ports import Clock, Store
from ..views.job import JobView
from .single_flight import SingleFlight

CHOSEN_FOR = 60.0
LATE = 60 * SECOND
Rank: TypeAlias = tuple[bool, bool, int, int, Micros]
STEP = 200
"""Jobs read at once, so that other work of the event loop gets its turn in between."""
PAGE = 1_000
RUNNING_PAGES = 5
LOOKED_UP = 100
"""The most jobs whose last success one reading looks up."""
ALL_WAITING = 1_000
"""The most waiting executions, over all jobs, that one reading covers."""
WAITING_JOBS, WAITING_EACH = 100, 100
"""If more wait: how many jobs are read, those with most waiting, and how many executions of each, the oldest."""
_RUNNING, _COMPLETED, _PENDING = (frozenset({state}) for state in (State.RUNNING, State.COMPLETED, State.PENDING))


class JobReading(msgspec.Struct, frozen=True, kw_only=True):
    """Instants are None where there is none: no success yet, nothing planned, nothing running, nothing waiting."""

    job: Job
    stats: JobStats
    live: LiveCounts
    due: int = 0
    """Executions that wait and are due, of `live.pending`. Of a job that shares its handler and has some that are due
    and some that are planned, this may be too high: never more than are due of the handler."""
    next_expected: Micros | None = None
    last_success: Micros | None = None
    oldest_running: Micros | None = None
    oldest_waiting: Micros | None = None
    waiting_read: bool = True
    """False if too many executions wait to search for the oldest: `oldest_waiting` is unknown then."""
    stale: int = 0
    """Running executions whose lease has run out."""


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    jobs: tuple[JobReading, ...]
    left_out: int
    at: Micros
    unmuted_failures: Mapping[str, Micros] = {}
    """Of jobs with muted errors: see `ErrorGroups.unmuted_failures`."""


class Readings:
    def __init__(self, store: Store, calendars: Calendars, clock: Clock, most: int) -> None:
        self._store, self._calendars, self._clock, self._most = store, calendars, clock, most
        self.cache = SingleFlight(self._read, clock)
        self._chosen: tuple[list[str], int, float] | None = None
        self._successes: dict[str, tuple[int, Micros | None]] = {}
        self._errors = ErrorGroups(store, NO_CHANCE)
        self._unmuted: dict[str, Micros] = {}

    async def read(self) -> Reading:
        return await self.cache.get()

    async def _read(self) -> Reading:
        jobs, left_out = await self._jobs()
        stats: dict[str, JobStats] = {}
        live: dict[str, LiveCounts] = {}
        for some in batched([job.id for job in jobs], STEP):
            stats |= await self._store.stats(some)
            live |= await self._store.live_counts(some)
        due: dict[str, int] = {}
        for lane in await self._store.lane_counts():
            due[lane.handler] = due.get(lane.handler, 0) + lane.ready + lane.parked
        calendars = await self._calendars.of(jobs)
        now = await self._store.now()
        running = await self._oldest_running()
        waiting = await oldest_waiting(self._store, live, now)
        successes = await self._last_successes(stats)
        stale: dict[str, int] = {}
        for execution in await self._store.expired(PAGE):
            stale[execution.job_id] = stale.get(execution.job_id, 0) + 1
        found = []
        for place, job in enumerate(jobs):
            if place % STEP == STEP - 1:
                await asyncio.sleep(0)
            numbers = stats.get(job.id, JobStats(job_id=job.id))
            view = JobView(job, numbers, live.get(job.id, LiveCounts()), _calendars=calendars, _seen=now)
            nothing_due = waiting.get(job.id, now) is None
            try:
                expected = view.next_run_at
                reading = JobReading(
                    job=job,
                    stats=numbers,
                    live=view.live,
                    due=0 if nothing_due else min(view.live.pending, due.get(job.spec.handler, 0)),
                    next_expected=None if expected is None else to_micros(expected),
                    last_success=successes.get(job.id),
                    oldest_running=running.get(job.id),
                    oldest_waiting=waiting.get(job.id),
                    waiting_read=job.id in waiting or not view.live.pending,
                    stale=stale.get(job.id, 0),
                )
            except (MainspringError, msgspec.MsgspecError):
                left_out += 1  # written by a newer release, whose own processes report it
            else:
                found.append(reading)
        unmuted = await self._errors.unmuted_failures()
        self._unmuted = {job: max(at, self._unmuted.get(job, 0)) for job, at in unmuted.items()}
        return Reading(jobs=tuple(found), left_out=left_out, at=now, unmuted_failures=self._unmuted)

    # --- which jobs ---------------------------------------------------------------------------------------
    async def _jobs(self) -> tuple[list[Job], int]:
        if await self._store.count_jobs(self._most + 1) <= self._most:
            jobs, after = list[Job](), ""
            while page := await self._store.jobs_after(after, STEP):
                jobs, after = jobs + page, page[-1].name
            return jobs, 0
        if self._chosen is None or self._clock.monotonic() >= self._chosen[2]:
            names, left_out = await self._choose()
            self._chosen = (names, left_out, self._clock.monotonic() + CHOSEN_FOR)
        names, left_out, _ = self._chosen
        return [job for some in batched(names, STEP) for job in await self._store.jobs(some)], left_out

    async def _choose(self) -> tuple[list[str], int]:
        best: list[tuple[Rank, str]] = []
        now, seen, after = await self._store.now(), 0, ""
        while jobs := await self._store.jobs_after(after, STEP):
            ids = [job.id for job in jobs]
            stats, live = await self._store.stats(ids), await self._store.live_counts(ids)
            best += [(rank(job, stats.get(job.id), live.get(job.id), now), job.name) for job in jobs]
            best = heapq.nlargest(self._most, best)
            seen, after = seen + len(jobs), jobs[-1].name
        return sorted(name for _, name in best), seen - len(best)

    async def names_left_out(self, limit: int) -> list[str]:
        """Some of the jobs that the last reading left out."""
        shown = frozenset(each.job.name for each in (await self.read()).jobs)
        return (await self._store.find_jobs(JobQuery(without=shown, limit=limit), 1)).names

    # --- live and ended executions ------------------------------------------------------------------------
    async def _oldest_running(self) -> dict[str, Micros]:
        """When the oldest running attempt began, by job. If several thousand run, only the newest are read."""
        oldest: dict[str, Micros] = {}
        before = None
        for _ in range(RUNNING_PAGES):
            query = ExecutionQuery(states=_RUNNING, before=before, limit=PAGE)
            page = await self._store.find(query)
            for execution in page:
                began = execution.claimed or execution.started or execution.created
                oldest[execution.job_id] = min(began, oldest.get(execution.job_id, began))
            if len(page) < PAGE:
                break
            before = page[-1].id
        return oldest

    async def _last_successes(self, stats: dict[str, JobStats]) -> dict[str, Micros]:
        """The statistics know the newest ending. If that was no success, the newest success is looked up, once until
        there is another."""
        looked_up = 0
        for id, each in stats.items():
            if each.last_state is State.COMPLETED:
                self._successes[id] = (each.completed, each.last_finished)
            elif each.completed and self._successes.get(id, (0, None))[0] != each.completed and looked_up < LOOKED_UP:
                looked_up += 1
                newest = await self._store.find(ExecutionQuery(job_id=id, states=_COMPLETED, limit=1))
                known = self._successes.get(id, (0, None))[1]  # the job may keep no successes
                self._successes[id] = (each.completed, newest[0].finished if newest else known)
        self._successes = {id: known for id, known in self._successes.items() if id in stats}
        return {id: at for id, (_, at) in self._successes.items() if at is not None}


def rank(job: Job, stats: JobStats | None, live: LiveCounts | None, now: Micros) -> Rank:
    """How much a job matters beside others: whether its last run failed, whether its next one is late, how much of it
    waits or runs, how much has run."""
    stats, live = stats or JobStats(job_id=job.id), live or LiveCounts()
    failing = stats.last_state in (State.FAILED, State.PARTIAL)
    due = job.due if job.readable and job.paused is None else None
    late = due is not None and due < now - LATE
    return failing, late, live.total, stats.total, stats.last_finished or job.created


def batched(items: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    return (items[place : place + size] for place in range(0, len(items), size))


async def oldest_waiting(store: Store, live: Mapping[str, LiveCounts], now: Micros) -> dict[str, Micros | None]:
    """Since when the oldest execution of each job has been due; None where none is. A job that is missing here was not
    looked at, because too much waits, or only executions that are due later were seen."""
    idle: dict[str, Micros | None] = {id: None for id, counts in live.items() if not counts.pending}
    if len(idle) == len(live):
        return idle
    everything = ExecutionQuery(states=_PENDING, limit=ALL_WAITING + 1)
    if sum(counts.pending for counts in live.values()) <= ALL_WAITING:
        rows = await store.find(everything)
        if len(rows) <= ALL_WAITING:
            return {**dict.fromkeys(live), **_oldest_due(rows, now)}
    found = idle
    for pending, id in heapq.nlargest(WAITING_JOBS, ((counts.pending, id) for id, counts in live.items())):
        if pending:
            query = ExecutionQuery(job_id=id, states=_PENDING, oldest_first=True, limit=WAITING_EACH)
            oldest = _oldest_due(await store.find(query), now)
            found |= oldest if oldest or pending > WAITING_EACH else {id: None}
    return found


def _oldest_due(executions: Iterable[ExecutionRow], now: Micros) -> dict[str, Micros]:
    oldest: dict[str, Micros] = {}
    for each in executions:
        if each.due <= now:
            oldest[each.job_id] = min(each.due, oldest.get(each.job_id, each.due))
    return oldest
