"""`/api/v1/executions`: list, read, cancel, retry; tenants, log lines, progress and the live stream."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Path, Query
from starlette.responses import Response, StreamingResponse

from ...core.commands.idempotency import Answer
from ...core.queries.queries import EXECUTION_ID
from ...core.render.entities import ExecutionJson, StartedJson, execution_json, log_json, tenant_json
from ...core.rules.edited_params import NO_EDIT, read_edit
from ...core.views.execution import Execution, row_of
from ...core.views.records import log_entries
from ...model.errors import ExecutionNotFound, InvalidValue
from ..access import GuardedRoute, Role, guard_of
from ..errors import respond
from ..models.commands import Cancel, RetryEdit
from ..models.executions import (
    ExecutionList,
    ExecutionPageJson,
    LogList,
    LogsJson,
    ProgressJson,
    TenantList,
    TenantPageJson,
    execution_page,
)
from ..models.lists import page
from ..request import Call, ListResponse, Posting, Viewing, Wait, ended, json, seconds, started
from ..responses import answers
from ..stream import Admission, Streams
from ..tool_marks import DEFAULT_TOOL

router = APIRouter(prefix="/api/v1/executions", tags=["executions"], route_class=GuardedRoute)

ExecutionId = Annotated[
    str, Path(description="The execution's id.", max_length=100, examples=["0199c1f2-7d5e-7abc-8def-0123456789ab"])
]

_EVENT = {
    "type": "object",
    "required": ["event", "data"],
    "properties": {
        "event": {"enum": ["execution", "log", "end"]},
        "data": {"type": "string", "contentMediaType": "application/json"},
        "id": {"type": "string", "pattern": "^[0-9]+$"},
    },
}
_EVENTS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Events `execution`, `log` (with an id: send it back as Last-Event-ID) and `end`.",
        "content": {"text/event-stream": {"itemSchema": _EVENT}},
    }
}


async def _found(call: Call, id: str) -> Execution:
    """Texts that cannot be an id are not looked up."""
    if not EXECUTION_ID.fullmatch(id):
        raise ExecutionNotFound(id)
    return Execution(await call.engine.queries.get(id))


@router.get(
    "",
    operation_id="list_executions",
    openapi_extra=DEFAULT_TOOL,
    responses=answers({200: (ExecutionPageJson, "One page of executions.")}),
)
async def list_executions(call: Viewing, wanted: Annotated[ExecutionList, Query()]) -> Response:
    """Executions of all jobs, newest first or oldest first; filters combine. Continue with `next_cursor` or
    `offset`."""
    return ListResponse(await execution_page(call.engine.queries, wanted, None))


@router.get(
    "/{id}",
    operation_id="get_execution",
    openapi_extra=DEFAULT_TOOL,
    responses=answers({200: (ExecutionJson, "The execution.")}, 404),
)
async def get_execution(call: Viewing, id: ExecutionId, wait: Wait = None) -> Response:
    """One execution with its attempts and tracebacks. With `wait`, responds when it has ended or the time is over."""
    patience = seconds(wait)
    with call.waiting(patience):
        execution = await ended(call, await _found(call, id), patience)
    if await call.engine.queries.number([row_of(execution)]):
        with suppress(ExecutionNotFound):  # its job keeps no successes
            execution = await _found(call, id)
    return respond(json(execution_json(execution)))


@router.post(
    "/{id}/cancel",
    operation_id="cancel_execution",
    openapi_extra=DEFAULT_TOOL,
    responses=answers({200: (ExecutionJson, "Cancelled, or asked to stop (`cancel_requested_at`).")}, 404, 409, 422),
)
async def cancel_execution(call: Posting, id: ExecutionId, body: Cancel | None = None) -> Response:
    """Cancel an execution. If it is waiting, it ends immediately; if it is running, it is asked to stop, wherever it
    runs."""
    reason = None if body is None else body.reason

    async def work(_: str | None) -> Answer:
        await _found(call, id)
        done = await call.steering.cancel_execution(id, by=call.by, reason=reason)
        return json(execution_json(Execution(done)))

    return await call.once(work)


@router.post(
    "/{id}/retry",
    operation_id="retry_execution",
    openapi_extra=DEFAULT_TOOL,
    status_code=202,
    responses=answers(
        {200: (StartedJson, "It has completed within `wait`."), 202: (StartedJson, "It waits or runs.")},
        404,
        409,
        422,
        500,
    ),
)
async def retry_execution(
    call: Posting,
    id: ExecutionId,
    body: RetryEdit | None = None,
    wait: Wait = None,
    only: Annotated[
        Literal["failed"] | None,
        Query(description="For a parent: a new execution, for the tenants that did not complete."),
    ] = None,
) -> Response:
    """Run a failed execution again, as a new one with the same parameters, window and tenant; `params` and `remove`
    change single parameters. With `wait`, the status is 500 if the run ends without completing."""
    patience = seconds(wait)
    edit = NO_EDIT if body is None else read_edit(body.params, body.remove)
    if edit and only is not None:
        raise InvalidValue("params", sorted({*edit.params, *edit.remove}), "nothing together with only=failed")

    async def work(execution_id: str | None) -> Answer:
        view = await call.steerable((await _found(call, id)).job)
        if only is None:
            made = await call.steering.retry_execution(id, by=call.by, as_id=execution_id, edit=edit)
        else:
            made = await call.engine.tenants.retry_failed(id, by=call.by, as_id=execution_id)
        return await started(call, view, made, patience)

    with call.waiting(patience):
        return await call.once(work)


@router.get(
    "/{id}/tenants",
    operation_id="get_execution_tenants",
    openapi_extra=DEFAULT_TOOL,
    responses=answers({200: (TenantPageJson, "Its tenants.")}, 404),
)
async def get_execution_tenants(call: Viewing, id: ExecutionId, wanted: Annotated[TenantList, Query()]) -> Response:
    """The outcome of each tenant of a parent: failed ones first, completed ones last."""
    await _found(call, id)
    status = None if wanted.status is None else [state.value for state in wanted.status]
    found = await call.engine.tenants.page(id, status, wanted.limit, wanted.offset)
    shapes = [tenant_json(run) for run in found.items]
    counts = {state.value: count for state, count in found.counts.items()}
    return respond(json({**page(shapes, found.total, wanted.limit, wanted.offset, None), "counts": counts}))


@router.get(
    "/{id}/logs",
    operation_id="get_execution_logs",
    openapi_extra=DEFAULT_TOOL,
    responses=answers({200: (LogsJson, "Its log lines.")}, 404),
)
async def get_execution_logs(call: Viewing, id: ExecutionId, wanted: Annotated[LogList, Query()]) -> Response:
    """The newest 1,000 log lines of an execution, oldest first. Continue with `after` set to `next_after`."""
    await _found(call, id)
    lines = log_entries(await call.engine.queries.logs(id, wanted.after, wanted.level))[: wanted.limit]
    last = lines[-1][0] if lines else wanted.after
    items = [log_json(number, line) for number, line in lines]
    return respond(json({"execution_id": id, "items": items, "next_after": last}))


@router.get(
    "/{id}/progress",
    operation_id="get_execution_progress",
    responses=answers({200: (ProgressJson, "Its progress.")}, 404),
)
async def get_execution_progress(call: Viewing, id: ExecutionId) -> Response:
    execution = await _found(call, id)
    rendered = {
        "execution_id": id,
        "status": execution.state.value,
        "progress": execution.progress,
        "counters": execution.counters,
    }
    return respond(json(rendered))


@router.get(
    "/{id}/stream", operation_id="stream_execution", responses={**_EVENTS, **answers({}, 404)}, response_class=Response
)
async def stream_execution(
    call: Viewing,
    id: ExecutionId,
    last_event_id: Annotated[
        str | None, Header(alias="Last-Event-ID", max_length=32, description="Only log lines after this one.")
    ] = None,
) -> Response:
    """Stream the events of an execution as server-sent events until it ends. The stream closes within seconds if the
    token of the request is revoked or expires."""
    execution = await _found(call, id)
    streams: Streams = call.request.app.state.streams
    who = call.stream_holder()
    after = int(last_event_id) if last_event_id and last_event_id.isascii() and last_event_id.isdigit() else 0
    admission = Admission(lambda: guard_of(call.request).still_admits(call.request, Role.VIEWER))
    events: AsyncIterator[bytes] = streams.follow(call.engine.queries, execution, min(after, 2**53), admission, who)
    return StreamingResponse(events, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})
