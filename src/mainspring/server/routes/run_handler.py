"""`POST /jobs/{handler}`: run a handler with its own typed body, and wait for it.

A caller who waits gets the first failure and can retry as they see fit: such a run has a single attempt. A caller who
does not wait (`?wait=0`, or `Prefer: respond-async`) gets the job's retries.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Header, Path
from starlette.responses import Response

from ...core.commands.idempotency import Answer
from ...model.errors import HandlerNotFound, JobNotFound
from ...model.execution import ExecutionRow, State
from ..errors import Problem
from ..models.commands import StartedJson
from ..request import Call, Posting, TraceParent, Wait, ended, json, seconds
from ..responses import answers

router = APIRouter(tags=["handlers"])

PATIENCE = 30.0
PATH = "/jobs/{handler}"

Params = Annotated[dict[str, Any] | None, Body(description="The handler's own parameters.")]


@router.post(
    PATH,
    operation_id="run_handler",
    status_code=204,
    responses=answers({204: (None, "It has completed."), 202: (StartedJson, "It waits or runs.")}, 404, 409, 422, 500),
)
async def run_handler(
    call: Posting,
    handler: Annotated[str, Path(max_length=100, examples=["crawl"])],
    body: Params = None,
    wait: Wait = None,
    prefer: Annotated[str | None, Header(max_length=200, description="`respond-async`: do not wait.")] = None,
    traceparent: TraceParent = None,
) -> Response:
    """Run a handler with these parameters: 204 when it has completed, 500 when it has failed, 202 with the id of the
    execution when it has not ended within `wait` (30s by itself; 0: do not wait)."""
    patience = 0.0 if "respond-async" in (prefer or "").lower() else seconds(wait, PATIENCE)

    async def work(execution_id: str | None) -> Answer:
        try:
            await call.steerable(handler)
        except JobNotFound:
            raise HandlerNotFound(handler, call.application.registry.names) from None
        made = await call.engine.manual_runs.trigger(
            handler,
            body,
            by=call.by,
            trigger="api",
            traceparent=traceparent,
            id=execution_id,
            single_try=patience > 0,
        )
        return await _answer(call, made, patience)

    return await call.once(work)


async def _answer(call: Call, made: ExecutionRow, patience: float) -> Answer:
    execution = await ended(call, made, patience)
    headers = {"X-Execution-Id": execution.id}
    if not execution.state.final:
        rendered = {"execution_id": execution.id, "job": execution.job, "status": execution.state.value}
        return json(rendered, 202, headers)
    if execution.state is State.COMPLETED:
        return Answer(204, headers=headers)
    details = {"execution_id": execution.id, "status": execution.state.value, "reason": execution.reason}
    message = execution.error or execution.reason or f"the execution is {execution.state}"
    return Problem(500, "job_failed", message.splitlines()[0][:1_000], details, headers).answer
