"""Job rows by name, and in the order in which the scheduler has to look at them."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Sequence

from ...core.ports import Clock
from ...model.execution import ExecutionRow
from ...model.job import Job
from ...model.store.messages import DuePage, JobWrite
from ...model.time.instants import Micros
from .statistics import Statistics


class JobTable:
    """`last_number` is filled in when a row is read: it belongs to the statistics."""

    def __init__(self, clock: Clock, statistics: Statistics) -> None:
        self._clock, self._statistics = clock, statistics
        self._rows: dict[str, Job] = {}
        self._due: list[tuple[Micros, str]] = []

    def get(self, name: str) -> Job | None:
        return self._rows.get(name)

    def stopped(self, executions: Iterable[ExecutionRow]) -> frozenset[str]:
        """The ids of the cancelled jobs of these executions."""
        found = [(each.job_id, self._rows.get(each.job)) for each in executions]
        return frozenset(id for id, job in found if job is not None and job.id == id and job.cancelled is not None)

    def jobs(self, names: Sequence[str] | None = None) -> list[Job]:
        wanted = self._rows if names is None else {name for name in names if name in self._rows}
        return [self._numbered(self._rows[name]) for name in sorted(wanted)]

    def jobs_after(self, name: str, limit: int) -> list[Job]:
        return self.jobs(sorted(each for each in self._rows if each > name)[:limit])

    def job_queues(self) -> list[str]:
        return sorted({job.spec.queue for job in self._rows.values() if job.readable})

    def count_jobs(self, cap: int) -> int:
        return min(cap, len(self._rows))

    def swept(self, limit: int) -> list[Job]:
        return [job for job in self.jobs() if job.sweep][:limit]

    def _numbered(self, job: Job) -> Job:
        return job.with_changes(last_number=self._statistics.last_number(job.id))

    def write(self, write: JobWrite) -> bool:
        """Insert or update, if the stored row has the version that the writer saw."""
        stored = self._rows.get(write.job.name)
        seen = None if stored is None else (stored.id, stored.version)
        expected = None if write.seen_version is None else (write.job.id, write.seen_version)
        if seen != expected:
            return False
        self.remove(write.job.name)
        self._put(write.job.with_changes(version=(write.seen_version or 0) + 1))
        return True

    def restore(self, job: Job) -> bool:
        """Add the row as it is, with its version; False when there is a job of that name."""
        if job.name in self._rows:
            return False
        self._put(job)
        return True

    def _put(self, job: Job) -> None:
        self._rows[job.name] = job
        if job.due is not None:
            insort(self._due, (job.due, job.name))

    def remove(self, name: str) -> None:
        job = self._rows.pop(name, None)
        if job is not None and job.due is not None:
            self._due.remove((job.due, name))

    def due_jobs(self, limit: int) -> DuePage:
        now = self._clock.now()
        shown = min(bisect_right(self._due, now, key=lambda entry: entry[0]), limit)
        next_due = self._due[shown][0] if shown < len(self._due) else None
        jobs = tuple(self._numbered(self._rows[name]) for _, name in self._due[:shown])
        return DuePage(jobs=jobs, next_due=next_due, now=now)
