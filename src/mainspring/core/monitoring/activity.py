"""Activity over time, read from the buckets that `core/engine/activity.py` adds to and says what is counted."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any, get_args

import msgspec

from ...model.time.instants import SECOND, to_datetime
from ...model.values.reading import choice
from ..engine.activity import KIND
from ..ports import Clock, Store
from ..rules.activity import BUCKETS, LATENESS, Span, Tally, late_at_most, total
from .single_flight import SingleFlight


class ActivityTotals(msgspec.Struct, frozen=True, kw_only=True):
    """How many executions ended in each state. `failed` are those that failed for good. `lateness` counts
    scheduled runs that began, by how late they began."""

    completed: int = 0
    """Executions that completed."""
    failed: int = 0
    """Executions that failed for good."""
    partial: int = 0
    """Executions that completed for some of their tenants."""
    cancelled: int = 0
    """Executions that were cancelled."""
    skipped: int = 0
    """Executions that were skipped."""
    lateness: tuple[int, ...] = (0,) * (len(LATENESS) + 1)
    """How many scheduled runs began how late: each number counts those up to the same bound of
    `ActivitySeries.bounds`, and the last number counts those that began later."""

    @property
    def ended(self) -> int:
        """All that ended."""
        return self.completed + self.failed + self.partial + self.cancelled + self.skipped

    @property
    def ticks(self) -> int:
        """How many scheduled runs began."""
        return sum(self.lateness)

    def late_at_most(self, share: float = 0.99) -> float | None:
        """Within how many seconds of its time this share of the scheduled runs began: one of `ActivitySeries.bounds`,
        infinite if it is more than the last of them, None if no scheduled run began."""
        return late_at_most(list(self.lateness), share)


class ActivityPoint(ActivityTotals, frozen=True, kw_only=True):
    """One step of a series."""

    at: datetime
    """When it begins."""


class ActivitySeries(msgspec.Struct, frozen=True, kw_only=True):
    """What happened in a span of time that ends now."""

    span: Span
    """`1h`, `24h` or `7d`."""
    begin: datetime
    """When the first point begins."""
    step: int
    """The seconds between two points."""
    points: tuple[ActivityPoint, ...]
    """One point for every step, also where nothing happened. The last one is not over yet."""
    totals: ActivityTotals
    """The sum of all points."""

    @property
    def bounds(self) -> tuple[float, ...]:
        """The upper bounds of `lateness`, in seconds."""
        return LATENESS


class Activity:
    """Each span is read at most once a second, however many callers there are."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._caches = {span: SingleFlight(partial(self._read, span), clock) for span in BUCKETS}

    async def series(self, span: Span = "24h") -> ActivitySeries:
        """The last hour by minute, the last 24 hours by quarter of an hour, or the last 7 days by hour. Numbers come up
        to fifteen seconds late."""
        choice("span", span, get_args(Span))
        return await self._caches[span].get()

    async def _read(self, span: Span) -> ActivitySeries:
        buckets = BUCKETS[span]
        last = buckets.begin_of(await self._store.now())
        begins = [last - n * buckets.step for n in reversed(range(buckets.count))]
        before_first = buckets.key_of(begins[0] - buckets.step)
        entries = await self._store.list_entries(KIND, buckets.scope, after=before_first, limit=buckets.count + 1)
        found = {entry.key: entry.read(Tally) or Tally() for entry in entries}
        tallies = [found.get(buckets.key_of(at)) or Tally() for at in begins]
        points = [
            ActivityPoint(at=to_datetime(at), **_fields(tally)) for at, tally in zip(begins, tallies, strict=True)
        ]
        return ActivitySeries(
            span=span,
            begin=to_datetime(begins[0]),
            step=buckets.step // SECOND,
            points=tuple(points),
            totals=ActivityTotals(**_fields(total(tallies))),
        )


def _fields(tally: Tally) -> dict[str, Any]:
    return {**msgspec.structs.asdict(tally), "lateness": tuple(tally.lateness)}
