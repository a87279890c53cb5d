"""Statistics as every store keeps them: totals by job, and deltas that are merged into them now and then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable

from ...model.execution import ExecutionRow, State
from ...model.job import JobStats, LiveCounts
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

    def note(self, delta: JobStats | None) -> None:
        if delta is not None:
            self._deltas.append(delta)

    def fold(self, limit: int) -> int:
        folded = self._deltas[:limit]
        del self._deltas[:limit]
        self._totals = _merged(self._totals, folded)
        return len(folded)

    def exact(self, job_ids: Container[str] | None) -> dict[str, JobStats]:
        everything = _merged(self._totals, self._deltas)
        return {id: stats for id, stats in everything.items() if job_ids is None or id in job_ids}

    def incarnations(self) -> list[Incarnation]:
        """Whoever has statistics has given numbers."""
        exact = self.exact(None)
        return [
            Incarnation(job_id=id, job=self._names[id], last_number=last, stats=exact.get(id))
            for id, last in self._numbers.items()
            if last
        ]

    def restore(self, incarnation: Incarnation) -> bool:
        """As it was elsewhere; False when it is known already."""
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


def live_counts(rows: Iterable[ExecutionRow], job_ids: Container[str] | None) -> dict[str, LiveCounts]:
    counts: dict[str, Counter[State]] = {}
    for row in rows:
        if job_ids is None or row.job_id in job_ids:
            counts.setdefault(row.job_id, Counter())[row.state] += 1
    return {id: _live(states) for id, states in counts.items()}


def _live(states: Counter[State]) -> LiveCounts:
    return LiveCounts(pending=states[State.PENDING], running=states[State.RUNNING], waiting=states[State.WAITING])
