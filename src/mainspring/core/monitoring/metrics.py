"""What the store says of jobs for metrics: totals that are true across processes and crashes, and what lives now.

Worked out at most every second, and so that it takes a tenth of the time at most; who asks in between gets the same.
At most so many jobs are read: all of them, or, where there are more, those of the code and then the most recently
active ones.
"""

from __future__ import annotations

import heapq

import msgspec

from ...model.errors import MainspringError
from ...model.execution import State
from ...model.job import Job, JobStats, LiveCounts
from ...model.store.messages import ExecutionQuery
from ...model.time.instants import Micros, to_micros
from ..jobs.calendars import Calendars
from ..ports import Clock, Store
from ..queries.job_view import JobView
from .oldest_waiting import Backlog
from .shared_result import WorkedOut

CHOSEN_FOR = 60.0
PAGE = 1_000
RUNNING_PAGES = 5
LOOKED_UP = 100
"""Jobs whose last success is looked for in one go."""
_RUNNING, _COMPLETED = frozenset({State.RUNNING}), frozenset({State.COMPLETED})


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
    """False where so much waits that nobody looked since when: then nothing is known, not even that nothing does."""
    stale: int = 0
    """Running executions whose lease has run out."""


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    jobs: tuple[JobReading, ...]
    left_out: int
    at: Micros


class Readings:
    def __init__(self, store: Store, calendars: Calendars, clock: Clock, most: int) -> None:
        self._store, self._calendars, self._clock, self._most = store, calendars, clock, most
        self.worked_out = WorkedOut(self._read, clock)
        self._chosen: tuple[list[str], int, float] | None = None
        self._backlog = Backlog(store)
        self._successes: dict[str, tuple[int, Micros | None]] = {}

    async def read(self) -> Reading:
        return await self.worked_out.get()

    async def _read(self) -> Reading:
        jobs, left_out = await self._jobs()
        ids = [job.id for job in jobs]
        stats, live = await self._store.stats(ids), await self._store.live_counts(ids)
        calendars = await self._calendars.of(jobs)
        now = await self._store.now()
        running = await self._oldest_running()
        waiting = await self._backlog.oldest(live, now)
        successes = await self._last_successes(stats)
        stale: dict[str, int] = {}
        for execution in await self._store.expired(PAGE):
            stale[execution.job_id] = stale.get(execution.job_id, 0) + 1
        found = []
        for job in jobs:
            view = JobView(
                job,
                stats.get(job.id, JobStats(job_id=job.id)),
                live.get(job.id, LiveCounts()),
                calendars=calendars,
                seen=now,
            )
            try:
                expected = view.next_run_at
                reading = JobReading(
                    job=job,
                    stats=view.stats,
                    live=view.live,
                    next_expected=None if expected is None else to_micros(expected),
                    last_success=successes.get(job.id),
                    oldest_running=running.get(job.id),
                    oldest_waiting=waiting.get(job.id),
                    waiting_read=job.id in waiting or not view.live.pending,
                    stale=stale.get(job.id, 0),
                )
            except (MainspringError, msgspec.MsgspecError):
                left_out += 1  # written by a newer release: its own nodes tell of it
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

    # --- what lives ---------------------------------------------------------------------------------------
    async def _oldest_running(self) -> dict[str, Micros]:
        """When the oldest try under way began, by job. Of more than thousands at once the newest are looked at."""
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

    # --- what has ended -----------------------------------------------------------------------------------
    async def _last_successes(self, stats: dict[str, JobStats]) -> dict[str, Micros]:
        """Statistics know the newest ending. Where that was no success the newest one is looked up, once for as long
        as no other has come."""
        looked_up = 0
        for id, each in stats.items():
            if each.last_state is State.COMPLETED:
                self._successes[id] = (each.completed, each.last_finished)
            elif each.completed and self._successes.get(id, (0, None))[0] != each.completed and looked_up < LOOKED_UP:
                looked_up += 1
                newest = await self._store.find(ExecutionQuery(job_id=id, states=_COMPLETED, limit=1))
                self._successes[id] = (each.completed, newest[0].finished if newest else self._before(id))
        self._successes = {id: known for id, known in self._successes.items() if id in stats}
        return {id: at for id, (_, at) in self._successes.items() if at is not None}

    def _before(self, job_id: str) -> Micros | None:
        """What was known, of a job that keeps no successes."""
        return self._successes.get(job_id, (0, None))[1]


def _rank(job: Job, stats: JobStats | None) -> tuple[bool, Micros, str]:
    """Jobs of the code first, then by when they last did something."""
    return job.origin == "code", (stats.last_finished if stats else None) or job.created, job.name
