"""`/api/v1/bulk/jobs` and `/api/v1/bulk/executions`: one command for many, by ids or by filter.

Each is done or refused on its own, and the answer says which. At most 1,000 at a time; `next` is
where another request continues.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from ...core.commands.bulk import BulkItem, execution_filters, job_filter
from ...core.commands.idempotency import Answer
from ...core.render.entities import bulk_json
from ..errors import problem_of
from ..models.bulk import BulkJson, ExecutionBulk, ExecutionBulkFilter, JobBulk, JobBulkFilter
from ..models.lists import check_range
from ..request import Call, Posting, json
from ..responses import answers

router = APIRouter(prefix="/api/v1/bulk", tags=["bulk"])

_DONE = answers({200: (BulkJson, "The outcome of each.")}, 409, 422)


@router.post("/jobs", operation_id="bulk_jobs", responses=_DONE)
async def bulk_jobs(call: Posting, body: JobBulk) -> Response:
    """Pause, resume, cancel or retry many jobs."""
    wanted = None if body.filter is None else job_filter(_said(body.filter))

    async def work(execution_id: str | None) -> Answer:
        done = await call.engine.bulk.jobs(
            body.command,
            body.ids,
            wanted,
            **_terms(call, body, execution_id),
        )
        return json(bulk_json(done, _item_json))

    return await call.once(work)


@router.post("/executions", operation_id="bulk_executions", responses=_DONE)
async def bulk_executions(call: Posting, body: ExecutionBulk) -> Response:
    """Cancel or retry many executions."""
    filters = None if body.filter is None else execution_filters(_said(body.filter))
    if filters is not None:
        check_range(filters.get("since"), filters.get("until"))

    async def work(execution_id: str | None) -> Answer:
        done = await call.engine.bulk.executions(
            body.command,
            body.ids,
            filters,
            **_terms(call, body, execution_id),
        )
        return json(bulk_json(done, _item_json))

    return await call.once(work)


def _terms(call: Call, body: JobBulk | ExecutionBulk, execution_id: str | None) -> dict[str, Any]:
    """What both kinds have in common."""
    return {
        "by": call.by,
        "note": body.note,
        "check": call.may_steer,
        "under": execution_id,
        "after": body.after,
    }


def _said(filter: JobBulkFilter | ExecutionBulkFilter) -> dict[str, Any]:
    return filter.model_dump(mode="json", exclude_unset=True)


def _item_json(item: BulkItem) -> dict[str, Any]:
    if item.error is None:
        made = {"execution_id": item.execution_id, "status": item.status}
        return {"id": item.id, "done": True, **{name: value for name, value in made.items() if value is not None}}
    problem = problem_of(item.error)
    if problem.status >= 500:
        raise item.error
    fields = {"code": problem.code, "message": problem.message, "details": problem.details}
    return {"id": item.id, "done": False, "error": fields}
