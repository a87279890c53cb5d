"""`/dashboard/jobs`: all jobs, searched, filtered and sorted; many of them lead to a bulk action."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query
from markupsafe import Markup
from starlette.responses import Response

from .....core.filters.jobs import FIELDS, OVERDUE, job_filter
from .....core.queries.execution_lists import MAX_OFFSET, Total
from .....core.rules.usual_duration import UsualDuration
from .....core.views.execution import RunView, WaitingRuns, success_of, waiting_runs
from .....core.views.job import JobView
from .....model.time.instants import SECOND
from ...drawing import charts
from ...filters import PLACES, chips_of, read_filter
from ...job_runs import CELLS, outcome_words, usual_of
from ...visit import PageRoute, Viewing

router = APIRouter(prefix="/dashboard/jobs", route_class=PageRoute, include_in_schema=False)

PAGE = 50
BULK_ACTIONS = ("pause", "resume", "cancel", "retry", "delete")
SIMPLE = ("search", "status", "queue")
"""Filters that are always in sight; the others are behind "More filters"."""


class JobRow(msgspec.Struct, frozen=True):
    """One line of the list."""

    view: JobView
    grid: Markup
    durations: Markup
    usual: UsualDuration | None
    overdue: bool
    waits: WaitingRuns | None = None
    success: float | None = None


@router.get("")
async def jobs_page(
    visit: Viewing,
    sort: Annotated[str, Query(max_length=50)] = "name",
    cursor: Annotated[str | None, Query(max_length=100)] = None,
    offset: Annotated[int, Query(ge=0)] = 0,
    system: bool = False,
) -> Response:
    given = read_filter(FIELDS, visit.request.query_params)
    found = await visit.engine.job_lists.page(
        job_filter(given, system=system), sort=sort or "name", limit=PAGE, offset=offset, after=cursor
    )
    runs = await visit.engine.queries.newest_runs(found.jobs, CELLS)
    rows = [_row(visit, view, runs.get(view.name, [])) for view in found.jobs]
    further = None
    if found.after is not None:
        further = visit.with_query(cursor=found.after)
    elif sort != "name" and len(rows) == PAGE and _more(found.total, offset + PAGE):
        further = visit.with_query(offset=offset + PAGE)
    return visit.page(
        "jobs/list.html",
        rows=rows,
        total=found.total,
        sort=sort,
        fields=FIELDS,
        simple=SIMPLE,
        given=given,
        chips=chips_of(visit, given),
        bulk_actions=BULK_ACTIONS,
        next_url=further,
        first_url=visit.with_query(**dict.fromkeys(PLACES)) if cursor or offset else None,
    )


def _more(total: Total, shown: int) -> bool:
    return shown <= MAX_OFFSET and (isinstance(total, str) or shown < total)


def _row(visit: Viewing, view: JobView, runs: Sequence[RunView]) -> JobRow:
    oldest_first = runs[::-1]
    late = None if view.next_run_at is None else (visit.now - view.next_run_at).total_seconds() * SECOND
    return JobRow(
        view=view,
        grid=charts.outcome_grid([run.state.value for run in oldest_first], outcome_words(runs), cells=CELLS),
        durations=charts.sparkline(
            [run.duration_ms for run in oldest_first if run.duration_ms is not None],
            "Durations of the last runs",
            width=70,
        ),
        usual=usual_of(runs),
        overdue=late is not None and late > OVERDUE,
        waits=waiting_runs(runs, visit.now, CELLS),
        success=success_of(runs),
    )
