"""Statistics and execution numbers by job: totals, and deltas that `fold` merges into them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ...model.execution import ExecutionRow
from ...model.job import JobStats
from ...model.store.copy_records import Incarnation
from ..common.rows import merge_stats


class Statistics:
    def __init__(self) -> None:
        self._totals: dict[str, JobStats] = {}
        self._deltas: list[JobStats] = []
        self._numbers: Counter[str] = Counter()
        self._names: dict[str, str] = {}

    def next_number(self, execution: ExecutionRow) -> int:
        self._names[execution.job_id] = execution.job
        self._numbers[execution.job_id] += 1
        return self._numbers[execution.job_id]

    def last_number(self, job_id: str) -> int:
        return self._numbers[job_id]

    def add(self, delta: JobStats | None) -> None:
        if delta is not None:
            self._deltas.append(delta)

    def fold(self, limit: int) -> int:
        folded = self._deltas[:limit]
        del self._deltas[:limit]
        self._totals = _merged(self._totals, folded)
        return len(folded)

    def stats(self, job_ids: Sequence[str] | None = None) -> dict[str, JobStats]:
        """Exact statistics: totals and the deltas that are not folded yet."""
        exact = _merged(self._totals, self._deltas)
        return exact if job_ids is None else {id: exact[id] for id in job_ids if id in exact}

    def incarnations(self) -> list[Incarnation]:
        """All of them: a job that has statistics has numbers too."""
        exact = self.stats()
        return [
            Incarnation(job_id=id, job=self._names[id], last_number=last, stats=exact.get(id))
            for id, last in self._numbers.items()
            if last
        ]

    def restore(self, incarnation: Incarnation) -> bool:
        """Add the record as it is; False when the incarnation is known already."""
        id = incarnation.job_id
        if self._numbers[id]:
            return False
        self._numbers[id], self._names[id] = incarnation.last_number, incarnation.job
        if incarnation.stats is not None:
            self._totals[id] = incarnation.stats
        return True

    def purge(self, job_id: str) -> None:
        self._totals.pop(job_id, None)
        self._deltas = [delta for delta in self._deltas if delta.job_id != job_id]


def _merged(totals: dict[str, JobStats], deltas: Iterable[JobStats]) -> dict[str, JobStats]:
    merged = dict(totals)
    for delta in deltas:
        known = merged.get(delta.job_id)
        merged[delta.job_id] = delta if known is None else merge_stats(known, delta)
    return merged
