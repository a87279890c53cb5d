"""`/api/v1/bulk`: bulk actions as objects with progress and results, for any number of items.

`/api/v1/bulk/jobs` and `/api/v1/bulk/executions` handle a few named ones within the request.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from ...core.bulk.commands import BulkRequest
from ...core.commands.bulk import BulkItem
from ...core.commands.idempotency import Answer
from ...core.queries.queries import EXECUTION_ID
from ...core.render.entities import (
    BulkActionJson,
    BulkPreviewJson,
    bulk_action_json,
    bulk_item_json,
    bulk_json,
    bulk_preview_json,
)
from ...core.views.records import bulk_view
from ...model.errors import BulkNotFound
from ..access import GuardedRoute
from ..errors import problem_of, respond
from ..models.bulk import (
    BulkAbort,
    BulkActionsJson,
    BulkItemList,
    BulkItemsJson,
    BulkJson,
    BulkList,
    BulkStart,
    ExecutionBulk,
    JobBulk,
)
from ..models.lists import listed
from ..request import Call, ListResponse, Posting, Viewing, items_in_turns, json
from ..responses import answers
from ..tool_marks import DEFAULT_TOOL

router = APIRouter(prefix="/api/v1/bulk", tags=["bulk"], route_class=GuardedRoute)

MOST_OVER = 1_000

BulkId = Annotated[str, Path(max_length=100, examples=["0199c1f2-7d5e-7abc-8def-0123456789ab"])]


def _known(id: str) -> str:
    if not EXECUTION_ID.fullmatch(id):
        raise BulkNotFound(id)
    return id


@router.post(
    "",
    operation_id="start_bulk",
    openapi_extra=DEFAULT_TOOL,
    status_code=202,
    responses=answers(
        {200: (BulkPreviewJson, "A dry run: what it would do."), 202: (BulkActionJson, "It has begun.")}, 409, 422
    ),
)
async def start_bulk(call: Posting, body: BulkStart) -> Response:
    """Start a bulk action on the named items, or on everything that matches the filter now. Any node carries it out;
    follow it at the `Location` of the response."""
    given = body.model_dump(mode="json", exclude_unset=True)
    request = BulkRequest(**{name: given[name] for name in given if name in BulkRequest.__struct_fields__})
    how = {name: given[name] for name in ("pace", "probe", "note") if name in given}

    async def work(id: str | None) -> Answer:
        bulk, role = call.engine.bulk_actions, call.principal.role
        if body.dry_run:
            return json(bulk_preview_json(await bulk.preview(request, role=role)))
        begun = bulk_view(await bulk.start(request, **how, by=call.by, role=role, id=id))
        return json(bulk_action_json(begun), 202, {"Location": f"{call.request.url.path}/{begun.id}"})

    return await call.once(work)


@router.get("", operation_id="list_bulks", responses=answers({200: (BulkActionsJson, "Bulk actions.")}))
async def list_bulks(call: Viewing, wanted: Annotated[BulkList, Query()]) -> Response:
    """Bulk actions under way, and the newest 1,000 that are over; newest first."""
    found = await call.engine.bulk_actions.list(MOST_OVER)
    return ListResponse(listed(await items_in_turns(found, lambda row: bulk_action_json(bulk_view(row))), wanted))


@router.get(
    "/{id}",
    operation_id="get_bulk",
    openapi_extra=DEFAULT_TOOL,
    responses=answers({200: (BulkActionJson, "Its progress.")}, 404),
)
async def get_bulk(call: Viewing, id: BulkId) -> Response:
    """The progress of a bulk action: its state, the number of its items, and their outcomes."""
    return respond(json(bulk_action_json(bulk_view(await call.engine.bulk_actions.get(_known(id))))))


@router.get(
    "/{id}/items",
    operation_id="get_bulk_items",
    responses=answers({200: (BulkItemsJson, "A page of its items.")}, 404),
)
async def get_bulk_items(call: Viewing, id: BulkId, wanted: Annotated[BulkItemList, Query()]) -> Response:
    """The outcome of each item, in the order in which they were handled."""
    bulk = await call.engine.bulk_actions.get(_known(id))
    found, after = await call.engine.bulk_actions.items(id, wanted.status, wanted.limit, wanted.cursor)
    return respond(json({"items": [bulk_item_json(item, bulk.action) for item in found], "next_cursor": after}))


@router.post(
    "/{id}/abort",
    operation_id="abort_bulk",
    openapi_extra=DEFAULT_TOOL,
    responses=answers({200: (BulkActionJson, "No more items are handled.")}, 404, 409, 422),
)
async def abort_bulk(call: Posting, id: BulkId, body: BulkAbort | None = None) -> Response:
    """Stop a bulk action: no more items are handled, and items already handled stay as they are."""
    reason = None if body is None else body.reason

    async def work(_: str | None) -> Answer:
        done = await call.engine.bulk_actions.abort(_known(id), by=call.by, reason=reason)
        return json(bulk_action_json(bulk_view(done)))

    return await call.once(work)


_DONE = answers({200: (BulkJson, "The outcome of each.")}, 409, 422)


@router.post("/jobs", operation_id="bulk_jobs", responses=_DONE)
async def bulk_jobs(call: Posting, body: JobBulk) -> Response:
    """Pause, resume, cancel or retry the named jobs within this request. For a filter, a dry run or progress, start a
    bulk action: `POST /api/v1/bulk`."""

    async def work(under: str | None) -> Answer:
        done = await call.engine.bulk.jobs(body.command, body.ids, **_terms(call, body), under=under)
        return json(bulk_json(done, _item_json))

    return await call.once(work)


@router.post("/executions", operation_id="bulk_executions", responses=_DONE)
async def bulk_executions(call: Posting, body: ExecutionBulk) -> Response:
    """Cancel or retry the named executions within this request. For a filter, a dry run or progress, start a bulk
    action: `POST /api/v1/bulk`."""

    async def work(under: str | None) -> Answer:
        done = await call.engine.bulk.executions(body.command, body.ids, **_terms(call, body), under=under)
        return json(bulk_json(done, _item_json))

    return await call.once(work)


def _terms(call: Call, body: JobBulk | ExecutionBulk) -> dict[str, Any]:
    """What both kinds have in common."""
    return {"by": call.by, "note": body.note, "check": call.may_steer}


def _item_json(item: BulkItem) -> dict[str, Any]:
    if item.error is None:
        made = {"execution_id": item.execution_id, "status": item.status}
        return {"id": item.id, "done": True, **{name: value for name, value in made.items() if value is not None}}
    problem = problem_of(item.error)
    if problem.status >= 500:
        raise item.error
    fields = {"code": problem.code, "message": problem.message, "details": problem.details}
    return {"id": item.id, "done": False, "error": fields}
