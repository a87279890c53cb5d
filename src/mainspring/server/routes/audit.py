"""`/api/v1/audit`: who changed what, and when; `/api/v1/changes`: the same with deploys, for a person."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from ...core.queries.audit_lists import AuditFilter
from ...core.queries.changes import DEFAULT_SINCE
from ...core.render.entities import audit_json, change_json
from ...core.views.records import audit_record
from ...model.time.instants import to_micros
from ..access import GuardedRoute
from ..models.lists import check_paging, check_range
from ..models.operations import AuditList, AuditsJson, ChangeList, ChangesJson
from ..request import ListResponse, Viewing, encoded_item, items_in_turns
from ..responses import answers
from ..tool_marks import DEFAULT_TOOL

router = APIRouter(prefix="/api/v1", tags=["audit"], route_class=GuardedRoute)


@router.get(
    "/audit",
    operation_id="list_audit",
    openapi_extra=DEFAULT_TOOL,
    responses=answers({200: (AuditsJson, "One page of records.")}),
)
async def list_audit(call: Viewing, wanted: Annotated[AuditList, Query()]) -> Response:
    """Audit records, newest first or oldest first; filters combine. A page reads at most 10,000 records: rare matches
    may need several pages, some of them empty. Continue with `next_cursor` until it is null. Only admins see the
    addresses that jobs ping in full."""
    check_paging(wanted.offset, wanted.cursor)
    begin, end = check_range(wanted.since, wanted.until)
    filters = AuditFilter(
        target=wanted.target,
        actor=wanted.actor,
        action=wanted.action,
        request_id=wanted.request_id,
        since=None if begin is None else to_micros(begin),
        until=None if end is None else to_micros(end),
    )
    found = await call.engine.audit_lists.page(
        filters, limit=wanted.limit, offset=wanted.offset, cursor=wanted.cursor, oldest_first=wanted.sort == "at"
    )
    items = await items_in_turns(found.records, lambda each: audit_json(audit_record(each), unmasked=call.administers))
    paging = {"limit": wanted.limit, "offset": wanted.offset, "next_cursor": found.cursor}
    return ListResponse({"items": items, **paging})


@router.get(
    "/changes",
    operation_id="list_changes",
    openapi_extra=DEFAULT_TOOL,
    responses=answers({200: (ChangesJson, "Newest first.")}),
)
async def list_changes(call: Viewing, wanted: Annotated[ChangeList, Query()]) -> Response:
    """What changed before it broke: deploys, processes that started and stopped, jobs that a deploy created or changed,
    edits, pauses and other commands, newest first. If a deploy changed many jobs, they are one entry."""
    begin, end = check_range(wanted.since, wanted.until)
    found = call.engine.changes.each(begin or DEFAULT_SINCE, until=end, job=wanted.job, limit=wanted.limit)
    items = [encoded_item(change_json(each, unmasked=call.administers)) async for each in found]
    return ListResponse({"items": items, "limit": wanted.limit})
