"""Metrics of jobs from the store: totals that hold across processes and crashes, and current counts.

A reading is shared by all who ask within a second. It covers a limited number of jobs: all of them or, where there are
more, those declared by code and then the most recently active ones.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping

import msgspec

from ...model.errors import MainspringError
from ...model.execution import ExecutionRow, State
from ...model.job import Job, JobStats, LiveCounts
from ...model.store.messages import ExecutionQuery
from ...model.time.instants import Micros, to_micros
from ..jobs.calendars import Calendars
from ..ports import Clock, Store
from ..views.job import JobView
from .single_flight import SingleFlight

CHOSEN_FOR = 60.0
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


class Readings:
    def __init__(self, store: Store, calendars: Calendars, clock: Clock, most: int) -> None:
        self._store, self._calendars, self._clock, self._most = store, calendars, clock, most
        self.cache = SingleFlight(self._read, clock)
        self._chosen: tuple[list[str], int, float] | None = None
        self._successes: dict[str, tuple[int, Micros | None]] = {}

    async def read(self) -> Reading:
        return await self.cache.get()

    async def _read(self) -> Reading:
        jobs, left_out = await self._jobs()
        ids = [job.id for job in jobs]
        stats, live = await self._store.stats(ids), await self._store.live_counts(ids)
        calendars = await self._calendars.of(jobs)
        now = await self._store.now()
        running = await self._oldest_running()
        waiting = await oldest_waiting(self._store, live, now)
        successes = await self._last_successes(stats)
        stale: dict[str, int] = {}
        for execution in await self._store.expired(PAGE):
            stale[execution.job_id] = stale.get(execution.job_id, 0) + 1
        found = []
        for job in jobs:
            numbers = stats.get(job.id, JobStats(job_id=job.id))
            view = JobView(job, numbers, live.get(job.id, LiveCounts()), _calendars=calendars, _seen=now)
            try:
                expected = view.next_run_at
                reading = JobReading(
                    job=job,
                    stats=numbers,
                    live=view.live,
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
        return Reading(jobs=tuple(found), left_out=left_out, at=now)

    # --- which jobs ---------------------------------------------------------------------------------------
    async def _jobs(self) -> tuple[list[Job], int]:
        if await self._store.count_jobs(self._most + 1) <= self._most:
            return await self._store.jobs(), 0
        if self._chosen is None or self._clock.monotonic() >= self._chosen[2]:
            names, left_out = await self._choose()
            self._chosen = (names, left_out, self._clock.monotonic() + CHOSEN_FOR)
        return await self._store.jobs(self._chosen[0]), self._chosen[1]

    async def _choose(self) -> tuple[list[str], int]:
        best: list[tuple[bool, Micros, str]] = []
        seen, after = 0, ""
        while jobs := await self._store.jobs_after(after, PAGE):
            stats = await self._store.stats([job.id for job in jobs])
            best += [_rank(job, stats.get(job.id)) for job in jobs]
            best = heapq.nlargest(self._most, best)
            seen, after = seen + len(jobs), jobs[-1].name
        return sorted(name for _, _, name in best), seen - len(best)

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


def _rank(job: Job, stats: JobStats | None) -> tuple[bool, Micros, str]:
    """Jobs declared by code first, then the most recently active ones."""
    return job.origin == "code", (stats.last_finished if stats else None) or job.created, job.name


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
