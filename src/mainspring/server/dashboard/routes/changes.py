"""`/dashboard/changes`: what changed before it broke, and every audit record."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Query
from starlette.responses import Response

from ....core.queries.audit_lists import AuditFilter
from ....core.queries.queries import EXECUTION_ID
from ....core.render.masking import masked_record
from ....core.views.records import audit_record
from ...request import in_turns
from .. import format
from ..differences import Difference, differences
from ..visit import PageRoute, Viewing, Visit

router = APIRouter(prefix="/dashboard/changes", route_class=PageRoute, include_in_schema=False)

SPANS = ("2h", "24h", "7d", "30d")
PAGE = 50
MOST = 200
_AREAS = {
    "job": "jobs",
    "execution": "executions",
    "queue": "queues",
    "bulk": "bulk",
    "backfill": "backfills",
    "webhook": "webhooks",
}
"""The kinds of targets that have pages, and the first part of their address."""

_MADE = {"trigger": "execution", "retry": "execution", "retry_failed": "execution", "backfill": "backfill"}
"""Commands whose record names what they made."""
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")

Text = Annotated[str | None, Query(max_length=200)]


class ChangeRow(msgspec.Struct, frozen=True):
    """One line of the list, with the address of what it concerns and the fields that differ.
    `bulk` is the bulk action that it was part of."""

    record: Any
    link: str | None
    name: str
    fields: list[Difference]
    bulk: str | None = None


@router.get("")
async def changes_page(visit: Viewing, since: Literal["2h", "24h", "7d", "30d"] = "24h", job: Text = None) -> Response:
    """Deploys, processes that started and stopped, edits, pauses and commands, newest first."""
    found = visit.engine.changes.each(since, job=job, limit=MOST)
    rows = [_row(visit, each, each.kind, each.target or "") async for each in found]
    return visit.page("changes/list.html", rows=rows, since=since, spans=SPANS, job=job)


@router.get("/audit")
async def audit_page(
    visit: Viewing,
    target: Text = None,
    actor: Text = None,
    action: Text = None,
    cursor: Annotated[str | None, Query(max_length=100)] = None,
) -> Response:
    """Who did what, record by record."""
    wanted = AuditFilter(target=target or None, actor=actor or None, action=action or None)
    page = await visit.engine.audit_lists.page(wanted, limit=PAGE, cursor=cursor)
    rows = await in_turns(page.records, lambda each: _row(visit, audit_record(each), each.action, each.target))
    return visit.page("changes/audit.html", rows=rows, next_cursor=page.cursor, cursor=cursor, wanted=wanted)


def _row(visit: Visit, record: Any, action: str, target: str) -> ChangeRow:
    kind, _, name = target.partition(":")
    link = visit.url(_AREAS[kind], name) if kind in _AREAS and name else None
    before, after = (
        value if visit.administers else masked_record(target, value) for value in (record.before, record.after)
    )
    shown = f"{kind} {name[-8:]}" if EXECUTION_ID.fullmatch(name) else name
    if isinstance(after, dict) and after.get("filter") and not after.get("ids"):
        after = {name: value for name, value in after.items() if name != "ids"}
    fields = [_readable(visit, action, each) for each in differences(before, after)]
    origin, _, bulk = (getattr(record, "request_id", None) or "").partition(":")
    record = msgspec.structs.replace(record, before=None, after=None)  # they can be large
    return ChangeRow(record, link, shown, fields, bulk if origin == "bulk" and EXECUTION_ID.fullmatch(bulk) else None)


def _readable(visit: Visit, action: str, field: Difference) -> Difference:
    """With a link to the execution or backfill that the command made, and with times by the viewer's clock."""
    kind, id = _MADE.get(action), field.after or ""
    if kind is not None and field.name in ("", "execution") and EXECUTION_ID.fullmatch(id):
        return Difference(kind, None, id, visit.url(_AREAS[kind], id))
    return Difference(field.name, _by_clock(visit, field.before), _by_clock(visit, field.after))


def _by_clock(visit: Visit, text: str | None) -> str | None:
    if text is None or not _INSTANT.fullmatch(text):
        return text
    try:
        return format.exact(datetime.fromisoformat(text), visit.zone)
    except (OverflowError, ValueError):  # it only looks like a time, or is at the end of all calendars
        return text
