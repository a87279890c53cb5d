"""`/metrics` for Prometheus, `/api/v1/scheduler/metrics`, `/problems`, `/activity` and `/missed-runs`."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import PlainTextResponse
from starlette.responses import Response

from ...core.monitoring.missed_runs import missed_filter
from ...core.render.activity import ActivityJson, activity_json
from ...core.render.entities import TotalsJson, missed_json, totals_json
from ...core.render.problems import ProblemsJson, problems_json
from ..access import GuardedRoute
from ..errors import respond
from ..models.lists import check_paging, check_range
from ..models.operations import ActivitySpan, MissedRunList, MissedRunPageJson
from ..request import Viewing, json
from ..responses import answers
from ..tool_marks import DEFAULT_TOOL

router = APIRouter(route_class=GuardedRoute)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@router.get(
    "/metrics",
    operation_id="get_metrics",
    tags=["metrics"],
    response_class=PlainTextResponse,
    responses={200: {"description": "Metrics in the text format of Prometheus."}},
)
async def get_metrics(call: Viewing) -> Response:
    """Totals come from the store and are the same in every process: take the maximum over processes, never the sum.
    Durations, lateness, retries, skips and refused writes are those of this process."""
    return Response(await call.application.metrics_page(), headers={"Content-Type": CONTENT_TYPE})


@router.get(
    "/api/v1/scheduler/metrics",
    operation_id="get_scheduler_metrics",
    openapi_extra=DEFAULT_TOOL,
    tags=["scheduler"],
    responses=answers({200: (TotalsJson, "Jobs by state, executions by outcome.")}),
)
async def get_scheduler_metrics(call: Viewing) -> Response:
    """Totals over all jobs, at most a few seconds old; `last_metrics_update` is the time of the values."""
    return respond(json(totals_json(await call.engine.overview.metrics(call.engine.node))))


@router.get(
    "/api/v1/problems",
    operation_id="list_problems",
    openapi_extra=DEFAULT_TOOL,
    tags=["problems"],
    responses=answers({200: (ProblemsJson, "What needs attention, the most urgent first.")}),
)
async def list_problems(call: Viewing) -> Response:
    """What needs attention: new errors, late jobs, growing backlogs, stuck runs, silent workers and similar; at most 50
    problems, a few seconds old. Problems with wake-ups, clock, disk and failing loops are those of the process that
    responds."""
    return respond(json(problems_json(await call.engine.problems.all(), names=call.operates)))


@router.get(
    "/api/v1/activity",
    operation_id="get_activity",
    openapi_extra=DEFAULT_TOOL,
    tags=["scheduler"],
    responses=answers({200: (ActivityJson, "Endings and lateness over time.")}),
)
async def get_activity(call: Viewing, wanted: Annotated[ActivitySpan, Query()]) -> Response:
    """How many executions ended in each state, and how late scheduled runs began. The values are up to fifteen seconds
    old; a process that crashes loses those of its last ten seconds. Mainspring's own jobs are not counted."""
    return respond(json(activity_json(await call.engine.activity.series(wanted.span))))


@router.get(
    "/api/v1/missed-runs",
    operation_id="list_missed_runs",
    openapi_extra=DEFAULT_TOOL,
    tags=["missed runs"],
    responses=answers({200: (MissedRunPageJson, "Runs of missed ticks, newest first.")}),
)
async def list_missed_runs(call: Viewing, wanted: Annotated[MissedRunList, Query()]) -> Response:
    """Missed runs that `mainspring watch` reported within the last 30 days, newest first by their first missed tick;
    filters combine. A page reads at most 10,000 entries: rare matches may need several pages, some of them empty.
    Continue with `next_cursor` until it is null."""
    check_paging(wanted.offset, wanted.cursor)
    filters = missed_filter(wanted.job, wanted.reason, *check_range(wanted.since, wanted.until))
    found = await call.engine.watch.ledger.page(filters, limit=wanted.limit, offset=wanted.offset, after=wanted.cursor)
    paging = {"limit": wanted.limit, "offset": wanted.offset, "next_cursor": found.after}
    return respond(json({"items": [missed_json(each) for each in found.items], **paging}))
