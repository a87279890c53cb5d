"""The counters of this process: an observer that keeps plain numbers, cheap enough for every execution.

They begin at 0 with the process. Totals that must be true across processes and crashes come from the store, see
`core.monitoring.metrics`; `observe.metrics.prometheus` renders both.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence
from typing import Any

from ...model.events import AttemptEnded, Fenced, Missed, Rescued, Skipped, Started
from ...model.execution import ExecutionRow, State
from ...model.time.instants import Micros

DURATIONS = (0.01, 0.1, 1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0)
LATENESS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 3600.0)
OTHERS = "(others)"
"""The jobs beyond the limit, counted together. No job can have this name."""
_PENDING, _COMPLETED = State.PENDING, State.COMPLETED  # quicker to reach than a member of the enumeration
_UNTIMED = frozenset({"snoozed", "handed_back", "fanned_out", "payload_mismatch"})
BY_HANDLER = "handler"
"""The reason in metrics of executions that their own handler skipped: its own words would make too many series."""
_HEARD = frozenset({Started, AttemptEnded, Skipped, Rescued, Fenced, Missed})


class Histogram:
    """The number of values in each bucket, not cumulative; the last bucket has no bound."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds, self.total = bounds, 0.0
        self.counts = [0] * (len(bounds) + 1)

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value) if value > self.bounds[0] else 0] += 1  # most are in the first
        self.total += value

    def observe_all(self, values: Sequence[float]) -> None:
        first, bounds, counts = self.bounds[0], self.bounds, self.counts
        if max(values) <= first:
            counts[0] += len(values)
        else:
            for value in values:
                counts[bisect_left(bounds, value)] += 1
        self.total += sum(values)


class JobCounts:
    """The numbers of one job in this process."""

    __slots__ = ("durations", "fenced", "lateness", "missed", "retries", "skips")

    def __init__(self) -> None:
        self.durations, self.lateness = Histogram(DURATIONS), Histogram(LATENESS)
        self.retries = self.fenced = self.missed = 0
        self.skips: dict[str, int] = {}


class ProcessCounts:
    """Pass it to `app.observe`; an application that serves metrics has one already."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.jobs: dict[str, JobCounts] = {}

    def know(self, names: Collection[str]) -> None:
        """Begin the counters of these jobs at 0. If there is no room for them, counters of other jobs are dropped,
        which may have been removed."""
        unknown = [name for name in names if name not in self.jobs]
        if unknown and self._room() < len(unknown):
            kept = {*names, OTHERS}
            self.jobs = {name: each for name, each in self.jobs.items() if name in kept}
        for name in unknown:
            self._new(name)

    def hears(self, kind: type) -> bool:
        return kind in _HEARD

    def __call__(self, event: Any, /) -> None:
        kind = type(event)
        if kind is Started:
            execution: ExecutionRow = event.execution
            late = event.at - execution.due
            counts = self.jobs.get(execution.job) or self._new(execution.job)
            counts.lateness.observe(late / 1_000_000 if late > 0 else 0.0)
        elif kind is AttemptEnded:
            state = event.state
            if state is not _COMPLETED and (not event.tried or event.reason in _UNTIMED):
                return
            name = event.execution.job
            counts = self.jobs.get(name) or self._new(name)
            counts.durations.observe(event.duration_ms / 1000)
            if state is _PENDING:
                counts.retries += 1
            elif state is State.SKIPPED:
                counts.skips[BY_HANDLER] = counts.skips.get(BY_HANDLER, 0) + 1
        elif kind in _HEARD:
            self._rare(event)

    def hear_all(self, events: Sequence[Any]) -> None:
        """`Started`, or `AttemptEnded` with the state completed."""
        started = type(events[0]) is Started
        found: dict[str, list[float]] = {}
        for event in events:
            execution: ExecutionRow = event.execution
            value = max(event.at - execution.due, 0) / 1_000_000 if started else event.duration_ms / 1000
            if (values := found.get(execution.job)) is None:
                values = found[execution.job] = []
            values.append(value)
        for name, values in found.items():
            counts = self.jobs.get(name) or self._new(name)
            (counts.lateness if started else counts.durations).observe_all(values)

    def _rare(
        self, event: Skipped[ExecutionRow] | Rescued[ExecutionRow] | Fenced[ExecutionRow] | Missed[Micros]
    ) -> None:
        if isinstance(event, Missed):
            (self.jobs.get(event.job) or self._new(event.job)).missed += 0 if event.waiting else event.count
            return
        name = event.execution.job
        counts = self.jobs.get(name) or self._new(name)
        if isinstance(event, Skipped):
            counts.skips[event.reason] = counts.skips.get(event.reason, 0) + 1
        elif isinstance(event, Fenced):
            counts.fenced += 1
        elif event.state is State.PENDING:
            counts.retries += 1

    def _new(self, name: str) -> JobCounts:
        if self._room() <= 0:
            name = OTHERS
        return self.jobs.setdefault(name, JobCounts())

    def _room(self) -> int:
        return self._most - len(self.jobs) + (OTHERS in self.jobs)
