"""Cancelling many executions at once, whatever each of them is doing."""

from __future__ import annotations

from ..model.changes import CancelRequest, Change, ExecutionQuery
from ..model.execution import LIVE, Execution
from ..model.job import Job
from . import commands, decide
from .ports import Store

BATCH = 100


async def cancel_all(store: Store, executions: list[Execution], reason: str) -> int:
    """Cancel each of these, whatever it is doing; returns how many were cancelled or asked to stop."""
    if not executions:
        return 0
    now = await store.now()
    decisions = [decide.cancel(execution, now, execution.cancel_reason or reason) for execution in executions]
    changes = [each for each in decisions if isinstance(each, Change)]
    requests = [each for each in decisions if isinstance(each, CancelRequest)]
    ended = (await store.exchange(changes, None)).applied if changes else ()
    asked = await store.request_cancel(requests) if requests else []
    return sum(ended) + sum(asked)


async def sweep_job(store: Store, job: Job, reason: str = "the job was cancelled") -> None:
    """Cancel what a cancelled job still has alive, then clear its mark, unless one moved on meanwhile: then again."""
    before: str | None = None
    missed = 0
    while alive := await store.find(ExecutionQuery(job_id=job.id, states=LIVE, limit=BATCH, before=before)):
        unasked = [each for each in alive if each.cancel_requested is None]
        missed += len(unasked) - await cancel_all(store, unasked, reason)
        before = alive[-1].id
    if not missed:
        await store.write_jobs([commands.swept(job)])
