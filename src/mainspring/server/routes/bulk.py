"""`/api/v1/bulk/jobs` and `/api/v1/bulk/executions`: one command for many, by ids or by filter.

Each is done or refused on its own, and the answer says which. At most 1,000 at a time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from ...core.control import EXECUTION_ID
from ...core.idempotency import Answer
from ...model.errors import ExecutionNotFound, MainspringError
from .. import outputs
from ..access import may_trigger
from ..call import Call, Posting, json
from ..docs import answers
from ..errors import problem_of
from ..models import MOST_IN_BULK, ExecutionBulk, ExecutionFilter, JobBulk
from ..paging import execution_filters
from .jobs import job_filter

router = APIRouter(prefix="/api/v1/bulk", tags=["bulk"])

One = Callable[[str], Awaitable[dict[str, Any]]]

_DONE = answers({200: (outputs.Bulk, "What became of each.")}, 409, 422)


@router.post("/jobs", operation_id="bulk_jobs", responses=_DONE)
async def bulk_jobs(call: Posting, body: JobBulk) -> Response:
    """Pause, resume, cancel or retry many jobs."""

    async def work(_: str | None) -> Answer:
        return json(await _all(body.command, await _jobs(call, body), lambda id: _steer(call, body, id)))

    return await call.once(work)


@router.post("/executions", operation_id="bulk_executions", responses=_DONE)
async def bulk_executions(call: Posting, body: ExecutionBulk) -> Response:
    """Cancel or retry many executions."""

    async def work(_: str | None) -> Answer:
        return json(await _all(body.command, await _executions(call, body), lambda id: _end(call, body, id)))

    return await call.once(work)


async def _jobs(call: Call, body: JobBulk) -> list[str]:
    if body.filter is None:
        return list(dict.fromkeys(body.ids or []))
    return await call.engine.job_lists.names(job_filter(body.filter), MOST_IN_BULK + 1)


async def _executions(call: Call, body: ExecutionBulk) -> list[str]:
    if body.filter is None:
        return list(dict.fromkeys(body.ids or []))
    given = body.filter.model_dump(exclude_none=True, exclude={"job"})
    filters = execution_filters(ExecutionFilter(**given))
    found: list[str] = []
    while len(found) <= MOST_IN_BULK:
        page = await call.engine.queries.executions(
            body.filter.job, **filters, limit=MOST_IN_BULK, before=found[-1] if found else None
        )
        found += [each.id for each in page]
        if len(page) < MOST_IN_BULK:
            break
    return found


async def _steer(call: Call, body: JobBulk, id: str) -> dict[str, Any]:
    control = call.engine.control
    if body.command == "retry":
        may_trigger(call.principal, (await call.engine.queries.job(id)).job)
        made = await control.retry_job(id, by=call.by)
        return {"execution_id": made.id}
    if body.command == "pause":
        view = await control.pause(id, by=call.by, note=body.note)
    elif body.command == "resume":
        view = await control.resume(id, by=call.by)
    else:
        view = await control.cancel_job(id, by=call.by, reason=body.note)
    return {"status": view.state.value}


async def _end(call: Call, body: ExecutionBulk, id: str) -> dict[str, Any]:
    if not EXECUTION_ID.fullmatch(id):
        raise ExecutionNotFound(id)
    if body.command == "cancel":
        done = await call.engine.control.cancel_execution(id, by=call.by, reason=body.note)
        return {"status": done.state.value}
    await call.may_run((await call.engine.queries.get(id)).job)
    made = await call.engine.control.retry_execution(id, by=call.by)
    return {"execution_id": made.id, "status": made.state.value}


async def _all(command: str, ids: list[str], one: One) -> dict[str, Any]:
    results = [await _tried(id, one) for id in ids[:MOST_IN_BULK]]
    done = sum(result["done"] for result in results)
    return {
        "command": command,
        "matched": len(results),
        "done": done,
        "refused": len(results) - done,
        "more": len(ids) > MOST_IN_BULK,
        "results": results,
    }


async def _tried(id: str, one: One) -> dict[str, Any]:
    try:
        return {"id": id, "done": True, **await one(id)}
    except MainspringError as error:
        problem = problem_of(error)
        if problem.status >= 500:
            raise
        fields = {"code": problem.code, "message": problem.message, "details": problem.details}
        return {"id": id, "done": False, "error": fields}
