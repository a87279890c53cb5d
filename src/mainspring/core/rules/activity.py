"""Activity over time: how many executions ended how, and how late ticks began, in buckets of a minute, a quarter of an
hour and an hour. The same tally is added to a bucket of each size, so that each span is read from few buckets."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec

from ...model.execution import ExecutionRow, State
from ...model.time.instants import SECOND, Micros
from ...model.values.reading import SYSTEM_PREFIX

Span: TypeAlias = Literal["1h", "24h", "7d"]

LATENESS = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Seconds: the upper bounds of the buckets of lateness. The last bucket has none."""
_HOUR: Micros = 3600 * SECOND


class Tally(msgspec.Struct, omit_defaults=True):
    """The endings and the lateness of ticks within one bucket of time."""

    completed: int = 0
    failed: int = 0
    partial: int = 0
    cancelled: int = 0
    skipped: int = 0
    lateness: list[int] = msgspec.field(default_factory=lambda: [0] * (len(LATENESS) + 1))

    def ended(self, state: State, count: int) -> None:
        setattr(self, state.value, getattr(self, state.value) + count)

    def began(self, late: Micros) -> None:
        self.lateness[bisect_left(LATENESS, late / SECOND)] += 1

    @property
    def ticks(self) -> int:
        """How many ticks began."""
        return sum(self.lateness)


class Buckets(msgspec.Struct, frozen=True):
    """The buckets that a span is read from: `scope` is that of their entries, `step` their size, `count` how many the
    span has, `kept` how long they are kept."""

    scope: str
    step: Micros
    count: int
    kept: Micros

    def begin_of(self, at: Micros) -> Micros:
        return at // self.step * self.step

    def key_of(self, at: Micros) -> str:
        """The key of the bucket of this instant; keys sort by time.

        >>> BUCKETS["24h"].key_of(1_800_000_899_000_000)
        '001800000000'
        """
        return f"{self.begin_of(at) // SECOND:012d}"


BUCKETS: dict[Span, Buckets] = {
    "1h": Buckets("minute", 60 * SECOND, 60, 2 * _HOUR),
    "24h": Buckets("quarter", 900 * SECOND, 96, 26 * _HOUR),
    "7d": Buckets("hour", _HOUR, 168, 192 * _HOUR),
}


def total(tallies: Iterable[Tally]) -> Tally:
    """
    >>> total([Tally(completed=2), Tally(completed=1, failed=1)]) == Tally(completed=3, failed=1)
    True
    """
    found = Tally()
    for each in tallies:
        found.completed += each.completed
        found.failed += each.failed
        found.partial += each.partial
        found.cancelled += each.cancelled
        found.skipped += each.skipped
        found.lateness = [one + other for one, other in zip(found.lateness, each.lateness, strict=True)]
    return found


def late_at_most(lateness: list[int], share: float) -> float | None:
    """Within how many seconds of its time this share of the ticks began: a bound of LATENESS. Infinite if that is more
    than the last bound; None if no tick began.

    >>> late_at_most([98, 0, 1, 1, 0, 0, 0, 0, 0, 0], 0.99), late_at_most([0] * 10, 0.99)
    (1.0, None)
    """
    wanted, seen = share * sum(lateness), 0
    if not wanted:
        return None
    for bound, count in zip(LATENESS, lateness, strict=False):
        seen += count
        if seen >= wanted - 1e-9:
            return bound
    return float("inf")


def is_counted(execution: ExecutionRow) -> bool:
    """Mainspring's own jobs are left out, as in lists."""
    return not execution.job.startswith(SYSTEM_PREFIX)


def is_tick_beginning(execution: ExecutionRow) -> bool:
    """Whether a scheduled execution that starts now does so for the first time. The executions of its tenants begin
    later than it does and do not count."""
    if execution.trigger != "schedule" or execution.attempts_json != "[]":
        return False
    return (execution.parent_id is None or execution.tenant is None) and is_counted(execution)
