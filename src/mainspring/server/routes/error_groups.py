"""`/api/v1/errors`: error groups."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from ...core.bulk.commands import BulkRequest
from ...core.commands.idempotency import Answer
from ...core.errors.commands import failed_with
from ...core.render.entities import BulkActionJson, bulk_action_json
from ...core.render.errors import ErrorGroupDetailJson, error_group_detail_json, error_group_json
from ...core.views.records import bulk_view
from ..access import GuardedRoute
from ..errors import respond
from ..models.commands import Empty
from ..models.errors import ErrorList, ErrorMute, ErrorPageJson, ErrorRetry
from ..request import Posting, Viewing, json
from ..responses import answers
from ..tool_marks import DEFAULT_TOOL, REVERSIBLE

router = APIRouter(prefix="/api/v1/errors", tags=["errors"], route_class=GuardedRoute)

GroupId = Annotated[
    str, Path(pattern=r"^([0-9a-f]{12}|other)$", description="The group's id.", examples=["5f0c8a3b9d21"])
]
_ONE = {200: (ErrorGroupDetailJson, "The group with a sample traceback.")}


@router.get(
    "",
    operation_id="list_errors",
    openapi_extra=DEFAULT_TOOL,
    responses=answers({200: (ErrorPageJson, "Error groups, without samples.")}),
)
async def list_errors(call: Viewing, wanted: Annotated[ErrorList, Query()]) -> Response:
    """Error groups. The failed attempts of a group have the same type of exception, the same place in the code, and the
    same message apart from numbers, ids and quoted text."""
    page = await call.engine.errors.find(
        job=wanted.job,
        tenant=wanted.tenant,
        since=wanted.since,
        muted=wanted.muted,
        sort=wanted.sort,
        limit=wanted.limit,
        offset=wanted.offset,
    )
    items = [error_group_json(view) for view in page.items]
    return respond(json({"items": items, "total": page.total, "limit": wanted.limit, "offset": wanted.offset}))


@router.get("/{id}", operation_id="get_error", openapi_extra=DEFAULT_TOOL, responses=answers(_ONE, 404))
async def get_error(call: Viewing, id: GroupId) -> Response:
    """An error group: its jobs, tenants and releases, when it was first and last seen, and a sample traceback."""
    return respond(json(error_group_detail_json(await call.engine.errors.get(id))))


@router.post(
    "/{id}/retry",
    operation_id="retry_error",
    openapi_extra=DEFAULT_TOOL,
    status_code=202,
    responses=answers({202: (BulkActionJson, "The bulk action that has begun.")}, 404, 409, 422),
)
async def retry_error(call: Posting, id: GroupId, body: ErrorRetry | None = None) -> Response:
    """Retry all executions that failed for good with this error, newest first. Follow the bulk action at the `Location`
    of the response."""
    given = (body or ErrorRetry()).model_dump(mode="json", exclude_none=True)

    async def work(under: str | None) -> Answer:
        await call.engine.errors.get(id)
        request = BulkRequest("retry", filter=failed_with(id))
        begun = await call.engine.bulk_actions.start(request, **given, by=call.by, role=call.principal.role, id=under)
        return json(bulk_action_json(bulk_view(begun)), 202, {"Location": f"/api/v1/bulk/{begun.id}"})

    return await call.once(work)


@router.post(
    "/{id}/mute",
    operation_id="mute_error",
    openapi_extra=DEFAULT_TOOL | REVERSIBLE,
    responses=answers(_ONE, 404, 409, 422),
)
async def mute_error(call: Posting, id: GroupId, body: ErrorMute | None = None) -> Response:
    """Mute an error group: it fires no alerts until it occurs in a job or a release that had not shown it."""
    given = body or ErrorMute()

    async def work(_: str | None) -> Answer:
        view = await call.engine.errors.mute(id, note=given.note or "", until=given.until, by=call.by)
        return json(error_group_detail_json(view))

    return await call.once(work)


@router.post(
    "/{id}/unmute",
    operation_id="unmute_error",
    openapi_extra=DEFAULT_TOOL | REVERSIBLE,
    responses=answers(_ONE, 404, 409, 422),
)
async def unmute_error(call: Posting, id: GroupId, body: Empty | None = None) -> Response:
    """Unmute an error group: it fires alerts again."""

    async def work(_: str | None) -> Answer:
        return json(error_group_detail_json(await call.engine.errors.unmute(id, by=call.by)))

    return await call.once(work)
