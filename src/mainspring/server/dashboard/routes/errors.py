"""`/dashboard/errors`: error groups, and one of them with its traceback."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from ....core.errors.commands import ErrorGroupView, ErrorOrder
from ....core.errors.records import OTHER
from ....core.filters import errors
from ....core.views.execution import Execution
from ....core.views.records import BulkAction, bulk_view
from .. import format
from ..drawing.charts import Series, sparkline, stacked_bars
from ..error_retries import DRY_RUN, PROBE, retry_offer, retry_url
from ..filters import read_filter
from ..format import error_title
from ..visit import Operating, PageRoute, Viewing, Visit

router = APIRouter(prefix="/dashboard/errors", route_class=PageRoute, include_in_schema=False)

PAGE = 40
NEWEST = 10
ACTIONS = 100
"""How many of the newest bulk actions are searched for a retry of the error."""
NEW_FOR = timedelta(hours=24)


@router.get("")
async def errors_page(
    visit: Viewing, sort: ErrorOrder = "last_seen", offset: Annotated[int, Query(ge=0, le=10_000)] = 0
) -> Response:
    wanted = read_filter(errors.FIELDS, visit.request.query_params)
    found = await visit.engine.errors.find(**wanted, sort=sort, limit=PAGE, offset=offset)
    left = await asyncio.gather(*map(visit.engine.errors.open_failures, found.items if visit.operates else ()))
    return visit.page(
        "errors/list.html",
        groups=found.items,
        total=found.total,
        wanted=wanted,
        sort=sort,
        next_offset=offset + PAGE if offset + PAGE < found.total else None,
        sparks={group.id: _spark(group) for group in found.items},
        new_since=visit.now - NEW_FOR,
        retries={
            group.id: retry_offer(visit, group.id, failures.count)
            for group, failures in zip(found.items, left, strict=False)
            if failures.count
        },
        other=OTHER,
    )


@router.get("/{id}")
async def error_page(visit: Viewing, id: str) -> Response:
    group = await visit.engine.errors.get(id)
    newest, last_retry = await asyncio.gather(_newest(visit, group), _last_retry(visit, group))
    return visit.page(
        "errors/one.html",
        group=group,
        chart=_chart(visit, group),
        executions=newest,
        last_retry=last_retry,
        retry_url=retry_url(visit, group.id),
        probe_url=retry_url(visit, group.id, PROBE),
        probe=PROBE,
        dry_run_title=DRY_RUN,
        other=OTHER,
    )


@router.post("/{id}/mute")
async def mute_error(sent: Operating, id: str) -> Response:
    visit, form = sent.visit, sent.form
    until = form.instant("until", visit.zone)
    group = await visit.engine.errors.mute(id, note=form.get("note") or "", until=until, by=visit.by)
    words = f"Muted: {error_title(group)}. It fires no alerts until it occurs in another job or release."
    return visit.done(words, undo=visit.url("errors", id, "unmute"))


@router.post("/{id}/unmute")
async def unmute_error(sent: Operating, id: str) -> Response:
    visit = sent.visit
    before = (await visit.engine.errors.get(id)).mute
    group = await visit.engine.errors.unmute(id, by=visit.by)
    fields = {} if before is None else {"note": before.note, "until": before.until.isoformat() if before.until else ""}
    words = f"{error_title(group)} fires alerts again."
    return visit.done(words, undo=visit.url("errors", id, "mute"), fields=fields)


# --- what the pages show ----------------------------------------------------------------------------------------


async def _newest(visit: Visit, group: ErrorGroupView) -> list[Execution]:
    """The newest executions with this error. Those that `other` counts cannot be found by it."""
    if group.id == OTHER:
        return []
    rows = await visit.engine.queries.executions(error_group=group.id, limit=NEWEST, system=True)
    return [Execution(row) for row in rows]


async def _last_retry(visit: Visit, group: ErrorGroupView) -> BulkAction | None:
    """The newest bulk action that retried this error: executions stay failed after their retry has completed."""
    found = (bulk_view(row) for row in await visit.engine.bulk_actions.list(ACTIONS))
    return next((each for each in found if each.filter.get("error_group") == group.id), None)


def _spark(group: ErrorGroupView) -> Any:
    label = f"{sum(group.trend):,} failed attempts in the last 24 hours, {group.trend[-1]:,} in this one"
    return sparkline(group.trend, label, kind="bad")


def _chart(visit: Visit, group: ErrorGroupView) -> Any:
    hours = [_hour(visit, ago) for ago in reversed(range(len(group.trend)))]
    return stacked_bars(
        [format.moment(each, visit.zone, visit.now) for each in hours],
        [Series("failed attempts", "bad", group.trend)],
        "Failed attempts in each of the last 24 hours",
        unit=lambda count: format.plural(int(count), "failed attempt"),
        first="first in the hour of",
    )


def _hour(visit: Visit, ago: int) -> datetime:
    begun = visit.now.replace(minute=0, second=0, microsecond=0)
    return begun - timedelta(hours=ago)
