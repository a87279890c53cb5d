"""Cancelling many executions at once, whatever state each of them is in."""

from __future__ import annotations

import msgspec

from ..model.events import AttemptEnded
from ..model.execution import LIVE, ExecutionRow, State
from ..model.job import Job
from ..model.store.messages import CancelRequest, Change, Exchanged, ExecutionQuery
from .loops import Emit
from .ports import Store
from .rules import job_commands, transitions

BATCH = 100
JOB_CANCELLED = "the job was cancelled"


async def cancel_all(store: Store, executions: list[ExecutionRow], reason: str, emit: Emit) -> int:
    """Cancel each of these; returns how many were cancelled or asked to stop. Executions that end here are emitted
    here, running ones by their worker."""
    if not executions:
        return 0
    now = await store.now()
    decisions = [
        (execution, transitions.cancel(execution, now, execution.cancel_reason or reason)) for execution in executions
    ]
    changes = [(execution, each) for execution, each in decisions if isinstance(each, Change)]
    requests = [each for _, each in decisions if isinstance(each, CancelRequest)]
    ended = (await store.exchange([change for _, change in changes], None)).applied if changes else ()
    for (execution, change), applied in zip(changes, ended, strict=True):
        if applied:
            emit(ended_while_waiting(execution, change))
    asked = await store.request_cancel(requests) if requests else []
    return sum(ended) + sum(asked)


def ended_while_waiting(execution: ExecutionRow, change: Change) -> AttemptEnded[ExecutionRow]:
    """The event of an execution that this change has ended while no worker ran it."""
    tried = execution.state is State.WAITING
    return AttemptEnded(
        execution=execution,
        state=change.to,
        attempt=execution.attempt,
        duration_ms=(change.at - (execution.started or execution.created)) / 1000 if tried else 0.0,
        error=change.error if change.to is State.FAILED else None,
        reason=change.reason,
        tried=tried,
    )


def of_stopped_jobs(reply: Exchanged) -> list[ExecutionRow]:
    """The claimed executions, with those of cancelled jobs marked as asked to stop, so that they never begin. A process
    that had read the job just before it was cancelled added them after the others had been cancelled."""
    asked = {"cancel_requested": reply.now, "cancel_reason": JOB_CANCELLED}
    stopped = {each.id for each in reply.claimed if each.job_id in reply.stopped and each.cancel_requested is None}
    return [msgspec.structs.replace(each, **asked) if each.id in stopped else each for each in reply.claimed]


async def sweep_job(store: Store, job: Job, emit: Emit, reason: str = JOB_CANCELLED) -> None:
    """Cancel the live executions of a cancelled job, then clear its mark. If one moved on meanwhile, the mark stays for
    the next pass."""
    before: str | None = None
    missed = 0
    while alive := await store.find(ExecutionQuery(job_id=job.id, states=LIVE, limit=BATCH, before=before)):
        unasked = [each for each in alive if each.cancel_requested is None]
        missed += len(unasked) - await cancel_all(store, unasked, reason, emit)
        before = alive[-1].id
    if not missed:
        await store.write_jobs([job_commands.swept(job)])


BUSY = frozenset({State.RUNNING, State.WAITING})


async def cancel_superseded(store: Store, new: ExecutionRow, emit: Emit) -> None:
    """Ask every busy execution of the job to stop. After a crash before this, a blocked claim asks again."""
    query = ExecutionQuery(job_id=new.job_id, states=BUSY, limit=100)
    older = [execution for execution in await store.find(query) if execution.id != new.id and is_superseded(execution)]
    await cancel_all(store, older, f"superseded by {new.id}", emit)


def is_superseded(execution: ExecutionRow) -> bool:
    """Whether this execution has to make way: it runs, or waits for its tenants, which are stopped with it. The
    execution of one tenant of a parent does not: the overlap rule is about parents."""
    apart = execution.tenant is not None and execution.parent_id is not None
    return execution.state in BUSY and not apart
