"""`/dashboard/changes`: what changed before it broke, and every audit record."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Query
from starlette.responses import Response

from ....core.queries.audit_lists import AuditFilter
from ....core.queries.queries import EXECUTION_ID
from ....core.render.masking import masked
from ....core.views.records import audit_record
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

Text = Annotated[str | None, Query(max_length=200)]


class ChangeRow(msgspec.Struct, frozen=True):
    """One line of the list, with the address of what it concerns and the fields that differ."""

    record: Any
    link: str | None
    name: str
    fields: list[Difference]


@router.get("")
async def changes_page(visit: Viewing, since: Literal["2h", "24h", "7d", "30d"] = "24h", job: Text = None) -> Response:
    """Deploys, processes that started and stopped, edits, pauses and commands, newest first."""
    found = await visit.engine.changes.newest(since, job=job, limit=MOST)
    rows = [_row(visit, each, each.target or "") for each in found]
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
    records = [audit_record(each) for each in page.records]
    rows = [_row(visit, each, each.target) for each in records]
    return visit.page("changes/audit.html", rows=rows, next_cursor=page.cursor, cursor=cursor, wanted=wanted)


def _row(visit: Visit, record: Any, target: str) -> ChangeRow:
    kind, _, name = target.partition(":")
    link = visit.url(_AREAS[kind], name) if kind in _AREAS and name else None
    before, after = (
        masked(value) if isinstance(value, dict) and not visit.administers else value
        for value in (record.before, record.after)
    )
    shown = f"{kind} {name[-8:]}" if EXECUTION_ID.fullmatch(name) else name
    return ChangeRow(record, link, shown, differences(before, after))
