"""`/_sys/job`: the plain overview and the plain trigger, for machines of the operations team."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Query
from starlette.responses import Response

from ...core.commands.idempotency import Answer
from ...core.filters.jobs import JobFilter
from ...core.render.entities import StartedJson, SysJobJson, sys_job_json
from ..access import GuardedRoute, sys_access
from ..errors import respond
from ..models.commands import Empty
from ..models.lists import SysJobList
from ..request import Posting, TraceParent, Viewing, in_turns, json, started
from ..responses import answers
from .jobs import JobId

router = APIRouter(prefix="/_sys/job", tags=["sys"], dependencies=[Depends(sys_access)], route_class=GuardedRoute)


@router.get("", operation_id="sys_list_jobs", responses=answers({200: (list[SysJobJson], "Every job.")}))
async def list_jobs(call: Viewing, wanted: Annotated[SysJobList, Query()]) -> Response:
    """Every job with its schedule, next run, last run and totals, by id. With `limit`, at most that many; for the
    next ones, give the last of these ids as `cursor`."""
    if wanted.limit is not None:
        found = await call.engine.job_lists.page(JobFilter(system=True), limit=wanted.limit, after=wanted.cursor)
        return respond(json(await in_turns(found.jobs, sys_job_json)))
    pages = call.engine.queries.walk(wanted.cursor or "")
    # Encode page by page: encoding a hundred thousand jobs at once would block the event loop.
    texts = [msgspec.json.encode(await in_turns(page, sys_job_json)).decode()[1:-1] async for page in pages]
    return respond(Answer(200, f"[{','.join(texts)}]"))


@router.post(
    "/{id}",
    operation_id="sys_run_job",
    status_code=202,
    responses=answers({202: (StartedJson, "It waits or runs.")}, 404, 409, 422),
)
async def run_job(call: Posting, id: JobId, body: Empty | None = None, traceparent: TraceParent = None) -> Response:
    """Run a job now."""

    async def work(execution_id: str | None) -> Answer:
        view = await call.steerable(id)
        made = await call.engine.manual_runs.trigger(
            id, by=call.by, trigger="api", traceparent=traceparent, id=execution_id
        )
        return await started(call, view, made, 0)

    return await call.once(work)
