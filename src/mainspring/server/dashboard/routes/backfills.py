"""`/dashboard/backfills`: the windows of a range, run one after another. They are started on the page of their job."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, time, timedelta, tzinfo
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query
from starlette.responses import Response

from ....core.backfills.rules import child_id, field_for
from ....core.queries.execution_lists import ExecutionPage
from ....core.queries.queries import EXECUTION_ID
from ....core.views.execution import Execution
from ....core.views.records import Backfill, backfill_view
from ....model.backfill import BackfillRow
from ....model.errors import BackfillNotFound, JobNotFound
from ....model.execution import ExecutionRow, State
from ....model.time.zones import zone_name
from ....model.windows import Window, window_between
from ..visit import Operating, PageRoute, Viewing, Visit

router = APIRouter(prefix="/dashboard/backfills", route_class=PageRoute, include_in_schema=False)

OVER = 50
"""How many backfills that are over are listed."""
CELLS = 400
"""The most windows that are shown one by one."""
FAILED = 20
_STATES = {
    "completed": "done",
    "skipped": "done",
    "failed": "failed",
    "cancelled": "cancelled",
    "held": "cancelled",
    State.RUNNING: "running",
    State.WAITING: "running",
    State.PENDING: "waiting",
}
_WORDS = {
    "completed": "completed",
    "skipped": "done by another execution",
    "held": "not run, because another execution of it was running",
    State.PENDING: "waits for a worker",
}


class Cell(msgspec.Struct, frozen=True):
    """One window of a backfill: `done`, `failed`, `running`, `waiting` or `cancelled`."""

    state: str
    title: str
    execution_id: str | None = None
    window: str = ""


@router.get("")
async def backfills_page(visit: Viewing, job: Annotated[str | None, Query(max_length=200)] = None) -> Response:
    rows = await visit.engine.backfills.list(job or None, OVER)
    found = [backfill_view(row) for row in rows]
    return visit.page(
        "backfills/list.html",
        open=[each for each in found if not each.over],
        over=[each for each in found if each.over],
        job=job or "",
        ranges={each.id: range_words(each.window, visit.zone) for each in found},
    )


@router.get("/{id}")
async def backfill_page(visit: Viewing, id: str) -> Response:
    row = await _found(visit, id)
    cells, failed, acts = await asyncio.gather(_cells(visit, row), _failed(visit, row), _may_act(visit, row))
    backfill = backfill_view(row)
    return visit.page(
        "backfills/one.html",
        backfill=backfill,
        range=range_words(backfill.window, visit.zone),
        tz=row.tz,
        cells=cells,
        most_cells=CELLS,
        failed=[(Execution(each), _window_words(each, row.tz)) for each in failed.rows],
        more_failed=failed.next is not None,
        acts=acts,
        again_url=_again_url(visit, row, backfill),
    )


@router.post("/{id}/pause")
async def pause_backfill(sent: Operating, id: str) -> Response:
    visit = sent.visit
    await _may_steer(visit, await _found(visit, id))
    done = await visit.engine.backfills.pause(id, by=visit.by)
    words = f"The backfill of {done.job} is paused. Running windows end as usual."
    return visit.done(words, undo=visit.url("backfills", id, "resume"))


@router.post("/{id}/resume")
async def resume_backfill(sent: Operating, id: str) -> Response:
    visit = sent.visit
    await _may_steer(visit, await _found(visit, id))
    done = await visit.engine.backfills.resume(id, by=visit.by)
    return visit.done(f"The backfill of {done.job} goes on.", undo=visit.url("backfills", id, "pause"))


@router.post("/{id}/cancel")
async def cancel_backfill(sent: Operating, id: str) -> Response:
    visit = sent.visit
    await _may_steer(visit, await _found(visit, id))
    done = await visit.engine.backfills.cancel(id, by=visit.by, reason=sent.form.get("reason"))
    words = f"The backfill of {done.job} is cancelled: {done.ended:,} of {done.total:,} windows had ended."
    return visit.done(words, visit.url("backfills", id))


async def _found(visit: Visit, id: str) -> BackfillRow:
    if not EXECUTION_ID.fullmatch(id):
        raise BackfillNotFound(id)
    return await visit.engine.backfills.get(id)


async def _may_steer(visit: Visit, row: BackfillRow) -> None:
    """A backfill is as well guarded as its job; one whose job is gone, as any other."""
    with suppress(JobNotFound):
        await visit.steerable(row.job)


async def _may_act(visit: Visit, row: BackfillRow) -> bool:
    """Whether actions are offered."""
    if not visit.operates:
        return False
    try:
        return visit.may_act(await visit.engine.queries.job(row.job))
    except JobNotFound:
        return True


# --- what the page shows ----------------------------------------------------------------------------------------


async def _cells(visit: Visit, row: BackfillRow) -> list[Cell]:
    """The windows in the order in which they run; none if there are too many."""
    if not 0 < row.total <= CELLS:
        return []
    children = await visit.engine.queries.executions(parent_id=row.id, limit=CELLS, system=True)
    by_id = {child.id: child for child in children}
    ids = [child_id(row.id, position) for position in range(row.position)]
    never = Cell("cancelled", "never started") if row.over else Cell("waiting", "waits for its turn")
    return [_cell(id, by_id.get(id), row.tz) for id in ids] + [never] * (row.total - row.position)


def _cell(id: str, child: ExecutionRow | None, tz: str) -> Cell:
    if child is None:
        return Cell("cancelled", "its execution is no longer kept")
    field: Any = field_for(child) or child.state
    window = _window_words(child, tz)
    return Cell(_STATES[field], f"{window}: {_WORDS.get(field, _STATES[field])}", id, window)


async def _failed(visit: Visit, row: BackfillRow) -> ExecutionPage:
    if not row.failed:
        return ExecutionPage([])
    lists = visit.engine.queries.execution_lists
    wanted = await lists.filter({"parent_id": row.id, "status": ["failed", "partial"]}, system=True)
    return await lists.page(wanted, limit=FAILED)


def _again_url(visit: Visit, row: BackfillRow, backfill: Backfill) -> str | None:
    """The form of a backfill for the windows of the same range that have failed, with a preview."""
    if not backfill.over or not backfill.failed:
        return None
    window = backfill.window
    return visit.url(
        "jobs",
        row.job,
        "backfill",
        begin=window.begin.isoformat(),
        end=window.end.isoformat(),
        only="failed",
        order=row.order,
        concurrency=row.concurrency,
        pace=None if row.pace is None else f"{row.pace:g}s",
    )


def _window_words(child: ExecutionRow, tz: str) -> str:
    if child.window_begin is None or child.window_end is None:
        return ""
    return range_words(window_between(child.window_begin, child.window_end, tz))


def range_words(window: Window, seen_in: tzinfo | None = None) -> str:
    """By the clock of the window's zone, which is named for a viewer in another one; whole days without the time.

    >>> from datetime import datetime
    >>> from zoneinfo import ZoneInfo
    >>> range_words(Window(datetime(2026, 8, 1, tzinfo=UTC), datetime(2026, 8, 2, tzinfo=UTC)))
    '2026-08-01'
    >>> range_words(Window(datetime(2026, 8, 1, tzinfo=UTC), datetime(2026, 9, 1, tzinfo=UTC)))
    '2026-08-01 to 2026-09-01'
    >>> range_words(Window(datetime(2026, 8, 1, tzinfo=UTC), datetime(2026, 8, 2, tzinfo=UTC)), ZoneInfo("Asia/Tokyo"))
    '2026-08-01 UTC'
    """
    zone = window.begin.tzinfo or UTC
    if seen_in is not None and zone_name(zone) != zone_name(seen_in):
        return f"{range_words(window)} {zone_name(zone)}"
    begin, end = window.begin.replace(tzinfo=None), window.end.replace(tzinfo=None)
    if begin.time() == end.time() == time():
        return f"{begin:%Y-%m-%d}" if end - begin == timedelta(days=1) else f"{begin:%Y-%m-%d} to {end:%Y-%m-%d}"
    same_day = begin.date() == end.date()
    return f"{begin:%Y-%m-%d %H:%M} to {end:%H:%M}" if same_day else f"{begin:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M}"
