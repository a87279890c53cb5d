"""`/dashboard/timeline`: what ran and what will run, by job, queue or tenant."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from ....core.forecast.clock_changes import describe
from ....core.forecast.timeline import By, Timeline, TimelineRow
from ....model.time.instants import to_datetime
from .. import format
from ..drawing.lanes import Lanes
from ..visit import PageRoute, Viewing

router = APIRouter(prefix="/dashboard/timeline", route_class=PageRoute, include_in_schema=False)

CROWDS = 8
"""How many collisions are named: the worst."""
NAMED = 8
"""How many jobs are named for each of them."""
OVERLAPS = {
    "waits": "wait for it",
    "skipped": "are skipped",
    "cancels": "cancel it",
    "beside": "run beside it",
}


@router.get("")
async def timeline_page(
    visit: Viewing,
    by: By = "job",
    hours: int = 24,
    search: Annotated[str, Query(max_length=200)] = "",
    queue: Annotated[str, Query(max_length=100)] = "",
    after: Annotated[str | None, Query(max_length=500)] = None,
) -> Response:
    found = await visit.engine.timelines.read(by, hours, search=search or None, queue=queue or None, after=after)
    picture = Lanes(visit, found, hours)
    return visit.page(
        "timeline.html",
        found=found,
        axis=picture.axis(),
        lanes=picture.lanes(),
        clock=picture.clock,
        at=to_datetime,
        crowds=sorted(found.crowds, key=lambda each: (-len(each.jobs), each.at))[:CROWDS],
        named=NAMED,
        overlaps=_overlaps(found),
        changes=[(describe(each.zone, each.change), each) for each in found.changes],
        by=by,
        hours=hours,
        search=search,
        queue=queue,
        after=after,
    )


def _overlaps(found: Timeline) -> list[tuple[str, str, str, float | None]]:
    """The rows whose runs would overlap: name, how many runs, what becomes of them, and how long one takes."""
    return [(row.name, *_overlap_words(row), row.usual) for row in found.rows if row.overlaps]


def _overlap_words(row: TimelineRow) -> tuple[str, str]:
    """The forecast of a job with very many runs breaks off, so that there are more of them.

    >>> _overlap_words(TimelineRow(name="sync", overlaps={"skipped": 500}, goes_on=True))
    ('more than 500 runs', 'all of them are skipped')
    """
    total = sum(row.overlaps.values())
    many = format.plural(total, "run")
    if len(row.overlaps) == 1 and total > 1:
        return f"more than {many}" if row.goes_on else many, f"all of them {OVERLAPS[next(iter(row.overlaps))]}"
    words = ", ".join(f"{count:,} {OVERLAPS[outcome]}" for outcome, count in row.overlaps.items())
    return (f"more than {many}", f"of the first {total:,}, {words}") if row.goes_on else (many, words)
