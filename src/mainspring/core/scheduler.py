"""The scheduler: make what is due happen, then sleep to the next due instant.

Any number of schedulers may run; there is no leader. A tick is one compare-and-set of the job row that inserts its
executions only if it won, so a second scheduler, a slow one or one that crashed half-way changes nothing.
"""

from __future__ import annotations

import asyncio

from ..model.changes import Added, DuePage, JobWrite, JobWritten
from ..model.events import Skipped, Ticked
from ..model.execution import Execution
from ..model.ids import Chance
from ..model.instants import SECOND, Micros
from . import ticks
from .loop import Emit, Loop, one_by_one
from .ports import Clock, Store, Topic
from .supersede import cancel_superseded

BATCH = 100
UNREADABLE_PAUSE = 60.0


class Scheduler:
    def __init__(self, store: Store, clock: Clock, chance: Chance, emit: Emit, poll_interval: float) -> None:
        self._store, self._clock, self._chance, self._emit = store, clock, chance, emit
        self._poll_interval = poll_interval
        self._loop = Loop("scheduler", self.step, emit)
        self.last_check: Micros | None = None
        self._unreadable: dict[tuple[str, int], float] = {}

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
        page = await self._store.due_jobs(BATCH + len(self._unreadable))
        self.last_check = page.now
        writes = self._writes(page)
        if writes:
            for write, written in zip(writes, await self._store.write_jobs(writes), strict=True):
                await self._announce(write, written, page.now)
        if len(writes) >= BATCH:
            return 0.0
        return self._until(page.next_due, page.now)

    def _writes(self, page: DuePage) -> list[JobWrite]:
        """What is due. A job that this release cannot read is left to nodes that can, and looked at again later."""
        again = self._clock.monotonic()
        self._unreadable = {job: until for job, until in self._unreadable.items() if until > again}
        wanted = [job for job in page.jobs if (job.id, job.version) not in self._unreadable]
        made = one_by_one("schedule", wanted, lambda job: ticks.materialise(job, page.now, self._chance), self._emit)
        readable = {job.id for job, _ in made}
        for job in wanted:
            if job.id not in readable:
                self._unreadable[job.id, job.version] = again + UNREADABLE_PAUSE
        return [write for _, write in made]

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
