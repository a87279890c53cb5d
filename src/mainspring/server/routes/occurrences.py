"""`/api/v1/jobs/{id}/occurrences/skip|move|restore`: single runs of a schedule; `/windows`: the state of each."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from ...core.render.entities import JobJson, window_status_json
from ..access import GuardedRoute
from ..errors import respond
from ..models.backfills import WindowList, WindowsJson
from ..models.commands import OccurrenceAt, OccurrenceMove
from ..request import Commanding, Viewing, json
from ..responses import answers
from ..tool_marks import DEFAULT_TOOL, REVERSIBLE
from .jobs import JobId

router = APIRouter(prefix="/api/v1/jobs/{id}", tags=["occurrences"], route_class=GuardedRoute)

_JOB = answers({200: (JobJson, "The job as it is now.")}, 404, 409, 412, 422)


@router.post("/occurrences/skip", operation_id="skip_occurrence", openapi_extra=REVERSIBLE, responses=_JOB)
async def skip_occurrence(call: Commanding, id: JobId, body: OccurrenceAt) -> Response:
    """Skip the run that is due at this time; a record says who skipped it."""
    return await call.steer(lambda: call.steering.skip_occurrence(id, body.at, by=call.by, seen=call.seen))


@router.post("/occurrences/move", operation_id="move_occurrence", openapi_extra=REVERSIBLE, responses=_JOB)
async def move_occurrence(call: Commanding, id: JobId, body: OccurrenceMove) -> Response:
    """Move the run that is due at this time to another time; all other runs stay where they are."""
    return await call.steer(lambda: call.steering.move_occurrence(id, body.at, body.to, by=call.by, seen=call.seen))


@router.post("/occurrences/restore", operation_id="restore_occurrence", openapi_extra=REVERSIBLE, responses=_JOB)
async def restore_occurrence(call: Commanding, id: JobId, body: OccurrenceAt) -> Response:
    """Undo a skip or a move."""
    return await call.steer(lambda: call.steering.restore_occurrence(id, body.at, by=call.by, seen=call.seen))


@router.get(
    "/windows",
    operation_id="list_windows",
    openapi_extra=DEFAULT_TOOL,
    responses=answers({200: (WindowsJson, "Windows of the range, oldest first.")}, 404),
)
async def list_windows(call: Viewing, id: JobId, wanted: Annotated[WindowList, Query()]) -> Response:
    """The state of every data window of a job: done, failed, missing or running. Without a range, lists all windows so
    far, at most 100,000."""
    found = await call.engine.windows.page(
        id, wanted.begin, wanted.end, state=wanted.state, limit=wanted.limit, offset=wanted.offset
    )
    rendered = {
        "job": id,
        "counts": found.counts,
        "items": [window_status_json(each) for each in found.items],
        "total": found.total,
        "limit": wanted.limit,
        "offset": wanted.offset,
    }
    return respond(json(rendered))
