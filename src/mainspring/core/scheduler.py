"""The scheduler: make what is due happen, then sleep to the next due instant.

Any number of schedulers may run; there is no leader. A tick is one compare-and-set of the job row that inserts its
executions only if it won, so a second scheduler, a slow one or one that crashed half-way changes nothing.
"""

from __future__ import annotations

import asyncio
import traceback

from ..model.changes import Added, JobWrite, JobWritten
from ..model.events import Skipped, Ticked, Trouble
from ..model.execution import Execution
from ..model.ids import Chance
from ..model.instants import SECOND, Micros, seconds_to_micros
from ..model.job import Job
from . import ticks
from .loop import Emit, Loop
from .ports import Clock, Store, Topic
from .supersede import cancel_superseded

BATCH = 100
BROKEN_JOB_PAUSE = 60.0


class Scheduler:
    def __init__(self, store: Store, clock: Clock, chance: Chance, emit: Emit, poll_interval: float) -> None:
        self._store, self._clock, self._chance, self._emit = store, clock, chance, emit
        self._poll_interval = poll_interval
        self._loop = Loop("scheduler", self.step, emit)
        self.last_check: Micros | None = None

    def start(self) -> None:
        self._loop.start()

    def wake(self, topic: Topic = Topic.JOBS) -> None:
        if topic in (Topic.JOBS, Topic.ANY):
            self._loop.wake()

    async def stop(self, timeout: float) -> None:
        """End after the tick under way; what comes due later is left for the next node."""
        try:
            async with asyncio.timeout(timeout):
                await self._loop.stop()
        except TimeoutError:
            await self._loop.abort()

    async def step(self) -> float:
        """One pass; returns the seconds until the next one is needed."""
        page = await self._store.due_jobs(BATCH)
        self.last_check = page.now
        writes = [self._materialised(job, page.now) for job in page.jobs]
        if writes:
            for write, written in zip(writes, await self._store.write_jobs(writes), strict=True):
                await self._announce(write, written, page.now)
        if len(page.jobs) >= BATCH:
            return 0.0
        return self._until(page.next_due, page.now)

    def _materialised(self, job: Job, now: Micros) -> JobWrite:
        try:
            return ticks.materialise(job, now, self._chance)
        except Exception as error:
            self._emit(
                Trouble(f"schedule of job {job.name}", f"{type(error).__name__}: {error}", traceback.format_exc())
            )
            later = job.with_changes(next_run=now + seconds_to_micros(BROKEN_JOB_PAUSE))
            return JobWrite(job=later, seen_version=job.version)

    async def _announce(self, write: JobWrite, written: JobWritten, now: Micros) -> None:
        if not written.won:
            return
        for execution, added in zip(write.executions, written.added, strict=True):
            self._tell(execution, added, now)
            if added.outcome == "added" and write.job.spec.overlap == "cancel_running":
                await cancel_superseded(self._store, execution, now)

    def _tell(self, execution: Execution, added: Added, now: Micros) -> None:
        if execution.state.final or added.outcome == "skipped":
            self._emit(Skipped(execution, execution.reason or "overlap", added.holder))
        elif added.outcome == "added":
            self._emit(Ticked(execution, (now - execution.due) / 1000))

    def _until(self, next_due: Micros | None, now: Micros) -> float:
        if next_due is None:
            return self._poll_interval
        return min(max((next_due - now) / SECOND, 0.0), self._poll_interval)
