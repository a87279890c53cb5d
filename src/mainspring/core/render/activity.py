"""The JSON form of activity over time."""

from __future__ import annotations

import math
from typing import Annotated, Any

from msgspec import Meta

from ..monitoring.activity import ActivitySeries, ActivityTotals
from ..rules.activity import Span
from .entities import Instant, JsonForm, rendered

_COUNTS = "Ticks that began, by how late: at most `lateness_bounds` at the same place, or more in the last place."
_LATE = "Seconds within which {} % of the ticks began: a bound, or null if no tick began or it is more than the last."


class ActivityCountsJson(JsonForm):
    completed: int
    failed: Annotated[int, Meta(description="Failed for good.")]
    partial: int
    cancelled: int
    skipped: int
    lateness: Annotated[list[int], Meta(description=_COUNTS)]


class ActivityPointJson(ActivityCountsJson):
    at: Annotated[Instant, Meta(description="Its beginning.")]


class ActivityTotalsJson(ActivityCountsJson):
    ended: Annotated[int, Meta(description="All that ended.")]
    ticks: Annotated[int, Meta(description="Scheduled runs that began.")]
    late_50: Annotated[float | None, Meta(description=_LATE.format(50))]
    late_99: Annotated[float | None, Meta(description=_LATE.format(99))]


class ActivityJson(JsonForm):
    span: Span
    begin: Instant
    step: Annotated[int, Meta(description="Seconds from one point to the next.")]
    lateness_bounds: Annotated[list[float], Meta(description="Seconds.")]
    points: Annotated[list[ActivityPointJson], Meta(description="Oldest first, also where nothing happened.")]
    totals: ActivityTotalsJson


def activity_json(series: ActivitySeries) -> dict[str, Any]:
    totals = series.totals
    return rendered(
        ActivityJson,
        series,
        lateness_bounds=list(series.bounds),
        points=[rendered(ActivityPointJson, point) for point in series.points],
        totals=rendered(ActivityTotalsJson, totals, late_50=_late(totals, 0.5), late_99=_late(totals, 0.99)),
    )


def _late(counts: ActivityTotals, share: float) -> float | None:
    found = counts.late_at_most(share)
    return None if found is None or math.isinf(found) else found
