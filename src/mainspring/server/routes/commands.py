"""`POST /api/v1/jobs/{id}/pause|resume|cancel|retry|trigger|reactivate|revert`: steering a job."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from ...core.commands.idempotency import Answer
from ...core.render.entities import JobJson, StartedJson
from ..access import GuardedRoute
from ..models.commands import Cancel, Empty, Pause, TriggerRequest
from ..request import Commanding, TraceParent, Wait, seconds, started
from ..responses import answers
from ..tool_marks import DEFAULT_TOOL, REVERSIBLE
from .jobs import JobId

router = APIRouter(prefix="/api/v1/jobs/{id}", tags=["commands"], route_class=GuardedRoute)

_JOB = answers({200: (JobJson, "The job as it is now.")}, 404, 409, 412, 422)
_RUN = answers(
    {
        200: (StartedJson, "It has completed within `wait`."),
        202: (StartedJson, "It waits or runs."),
    },
    404,
    409,
    412,
    422,
    500,
)


@router.post("/pause", operation_id="pause_job", openapi_extra=DEFAULT_TOOL | REVERSIBLE, responses=_JOB)
async def pause_job(call: Commanding, id: JobId, body: Pause | None = None) -> Response:
    """Pause a job: it gets no new ticks, and running executions finish."""
    given = body or Pause()
    return await call.steer(
        lambda: call.steering.pause(id, by=call.by, note=given.note, resume_at=given.resume_at, seen=call.seen),
    )


@router.post("/resume", operation_id="resume_job", openapi_extra=DEFAULT_TOOL | REVERSIBLE, responses=_JOB)
async def resume_job(call: Commanding, id: JobId, body: Empty | None = None) -> Response:
    """End the pause of a job and plan its next run."""
    return await call.steer(lambda: call.steering.resume(id, by=call.by, seen=call.seen))


@router.post("/cancel", operation_id="cancel_job", openapi_extra=DEFAULT_TOOL, responses=_JOB)
async def cancel_job(call: Commanding, id: JobId, body: Cancel | None = None) -> Response:
    """Cancel a job: it has no more runs, and its waiting and running executions are cancelled too."""
    reason = None if body is None else body.reason
    return await call.steer(lambda: call.steering.cancel_job(id, by=call.by, reason=reason, seen=call.seen))


@router.post("/reactivate", operation_id="reactivate_job", openapi_extra=REVERSIBLE, responses=_JOB)
async def reactivate_job(call: Commanding, id: JobId, body: Empty | None = None) -> Response:
    """Bring a cancelled job back to its schedule."""
    return await call.steer(lambda: call.steering.reactivate(id, by=call.by, seen=call.seen))


@router.post("/revert", operation_id="revert_job", responses=_JOB)
async def revert_job(call: Commanding, id: JobId, body: Empty | None = None) -> Response:
    """Take back every change that operators made: the job is again as it was declared."""
    return await call.steer(lambda: call.steering.revert_job(id, by=call.by, seen=call.seen))


@router.post("/trigger", operation_id="trigger_job", openapi_extra=DEFAULT_TOOL, status_code=202, responses=_RUN)
async def trigger_job(
    call: Commanding, id: JobId, body: TriggerRequest | None = None, wait: Wait = None, traceparent: TraceParent = None
) -> Response:
    """Run a job now, with other parameters or another window if you send them. Its next scheduled run stays as it is.
    With `wait`, the status is 500 if the run ends without completing."""
    given, patience = body or TriggerRequest(), seconds(wait)
    window = None if given.window is None else (given.window.begin, given.window.end)

    async def work(execution_id: str | None) -> Answer:
        view = await call.steerable(id)
        call.check(view)
        made = await call.engine.manual_runs.trigger(
            id,
            given.params,
            window=window,
            by=call.by,
            trigger="api",
            traceparent=traceparent,
            id=execution_id,
            tenant=given.tenant,
            tenants=given.tenants,
        )
        return await started(call, view, made, patience)

    with call.waiting(patience):
        return await call.once(work)


@router.post("/retry", operation_id="retry_job", openapi_extra=DEFAULT_TOOL, status_code=202, responses=_RUN)
async def retry_job(call: Commanding, id: JobId, body: Empty | None = None, wait: Wait = None) -> Response:
    """Run the last execution of a job again as a new one, if it failed. With `wait`, the status is 500 if the run ends
    without completing."""
    patience = seconds(wait)

    async def work(execution_id: str | None) -> Answer:
        view = await call.steerable(id)
        call.check(view)
        made = await call.steering.retry_job(id, by=call.by, as_id=execution_id)
        return await started(call, view, made, patience)

    with call.waiting(patience):
        return await call.once(work)
