"""`/api/v1/backfills`: the windows of a range, run one after another."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from ...core.commands.idempotency import Answer
from ...core.queries.queries import EXECUTION_ID
from ...core.render.entities import BackfillJson, backfill_json
from ...core.views.records import backfill_view
from ...model.backfill import BackfillRow
from ...model.errors import BackfillNotFound, JobNotFound
from ..access import GuardedRoute
from ..errors import respond
from ..models.backfills import BackfillCreate, BackfillList, BackfillsJson
from ..models.commands import Cancel, Empty
from ..models.lists import listed
from ..request import Call, ListResponse, Posting, Viewing, items_in_turns, json
from ..responses import answers
from ..tool_marks import DEFAULT_TOOL, REVERSIBLE

router = APIRouter(prefix="/api/v1/backfills", tags=["backfills"], route_class=GuardedRoute)

MOST_OVER = 1_000
MOST_LISTED = 1_000
"""Windows in the answer to a dry run, which may find a hundred thousand."""

BackfillId = Annotated[str, Path(max_length=100, examples=["0199c1f2-7d5e-7abc-8def-0123456789ab"])]

_ONE = answers({200: (BackfillJson, "The backfill as it is now.")}, 404, 409, 422)


async def _found(call: Call, id: str) -> BackfillRow:
    if not EXECUTION_ID.fullmatch(id):
        raise BackfillNotFound(id)
    return await call.engine.backfills.get(id)


async def _may_steer(call: Call, backfill: BackfillRow) -> None:
    """A backfill is as well guarded as its job; one whose job is gone, as any other."""
    with suppress(JobNotFound):
        await call.steerable(backfill.job)


async def _steer(call: Call, id: str, command: Callable[[], Awaitable[BackfillRow]]) -> Response:
    async def work(_: str | None) -> Answer:
        await _may_steer(call, await _found(call, id))
        return json(backfill_json(backfill_view(await command())))

    return await call.once(work)


@router.post(
    "",
    operation_id="start_backfill",
    openapi_extra=DEFAULT_TOOL,
    status_code=201,
    responses=answers(
        {
            200: (BackfillJson, f"A dry run: the first {MOST_LISTED:,} windows that it would run."),
            201: (BackfillJson, "It has begun."),
        },
        404,
        409,
        422,
    ),
)
async def start_backfill(call: Posting, body: BackfillCreate) -> Response:
    """Start a backfill: run the windows of a range that are missing or failed; with `force`, also those that are
    done."""
    options = body.model_dump(exclude={"job", "begin", "end"})

    async def work(_: str | None) -> Answer:
        await call.steerable(body.job)
        made = await call.engine.backfills.start(
            body.job, body.begin, body.end, **options, listed=MOST_LISTED, by=call.by
        )
        rendered = backfill_json(backfill_view(made))
        if body.dry_run:
            return json(rendered)
        return json(rendered, 201, {"Location": f"{call.request.url.path}/{made.id}"})

    return await call.once(work)


@router.get(
    "",
    operation_id="list_backfills",
    openapi_extra=DEFAULT_TOOL,
    responses=answers({200: (BackfillsJson, "Backfills.")}),
)
async def list_backfills(call: Viewing, wanted: Annotated[BackfillList, Query()]) -> Response:
    """Running backfills, and the newest 1,000 that have ended; newest first."""
    found = await call.engine.backfills.list(wanted.job, MOST_OVER)
    return ListResponse(listed(await items_in_turns(found, lambda row: backfill_json(backfill_view(row))), wanted))


@router.get("/{id}", operation_id="get_backfill", responses=answers({200: (BackfillJson, "Its progress.")}, 404))
async def get_backfill(call: Viewing, id: BackfillId) -> Response:
    return respond(json(backfill_json(backfill_view(await _found(call, id)))))


@router.post("/{id}/pause", operation_id="pause_backfill", openapi_extra=REVERSIBLE, responses=_ONE)
async def pause_backfill(call: Posting, id: BackfillId, body: Empty | None = None) -> Response:
    """Pause a backfill: no more windows are started, and running windows end as usual."""
    return await _steer(call, id, lambda: call.engine.backfills.pause(id, by=call.by))


@router.post("/{id}/resume", operation_id="resume_backfill", openapi_extra=REVERSIBLE, responses=_ONE)
async def resume_backfill(call: Posting, id: BackfillId, body: Empty | None = None) -> Response:
    return await _steer(call, id, lambda: call.engine.backfills.resume(id, by=call.by))


@router.post("/{id}/cancel", operation_id="cancel_backfill", responses=_ONE)
async def cancel_backfill(call: Posting, id: BackfillId, body: Cancel | None = None) -> Response:
    """Cancel a backfill: no more windows are started, and waiting and running ones are cancelled."""
    reason = None if body is None else body.reason
    return await _steer(call, id, lambda: call.engine.backfills.cancel(id, by=call.by, reason=reason))
