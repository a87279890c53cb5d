"""Job rows by name, and in the order in which a scheduler has to look at them."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable

from ...model.execution import ExecutionRow
from ...model.job import Job
from ...model.store.messages import JobWrite
from ...model.time.instants import Micros


class JobTable:
    def __init__(self) -> None:
        self._rows: dict[str, Job] = {}
        self._due: list[tuple[Micros, str]] = []

    def get(self, name: str) -> Job | None:
        return self._rows.get(name)

    def stopped(self, executions: Iterable[ExecutionRow]) -> frozenset[str]:
        """The ids of the jobs of these that are cancelled."""
        found = [(each.job_id, self._rows.get(each.job)) for each in executions]
        return frozenset(id for id, job in found if job is not None and job.id == id and job.cancelled is not None)

    def by_name(self) -> list[Job]:
        return [self._rows[name] for name in sorted(self._rows)]

    def write(self, write: JobWrite) -> bool:
        """Insert or update, if the stored row is the one the writer saw."""
        stored = self._rows.get(write.job.name)
        seen = None if stored is None else (stored.id, stored.version)
        expected = None if write.seen_version is None else (write.job.id, write.seen_version)
        if seen != expected:
            return False
        self.remove(write.job.name)
        self._put(write.job.with_changes(version=(write.seen_version or 0) + 1))
        return True

    def restore(self, job: Job) -> bool:
        """As it was elsewhere, its version too; False when there is one of that name."""
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

    def due(self, now: Micros, limit: int) -> tuple[list[Job], Micros | None]:
        """Jobs whose time has come, earliest first, and the time of the first one not among them."""
        shown = min(bisect_right(self._due, now, key=lambda entry: entry[0]), limit)
        next_due = self._due[shown][0] if shown < len(self._due) else None
        return [self._rows[name] for _, name in self._due[:shown]], next_due
