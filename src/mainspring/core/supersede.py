"""Overlap policy `cancel_running`: a new execution asks the one that runs to make way."""

from __future__ import annotations

from ..model.changes import CancelRequest, ExecutionQuery
from ..model.execution import Execution, State
from ..model.instants import Micros
from .ports import Store


async def cancel_superseded(store: Store, new: Execution, now: Micros) -> None:
    """Ask every running execution of the job to stop. If we crash before, a blocked claim asks again."""
    query = ExecutionQuery(job_id=new.job_id, states=frozenset({State.RUNNING}), limit=100)
    older = [execution for execution in await store.find(query) if execution.id != new.id]
    if older:
        await store.request_cancel([_request(execution, new, now) for execution in older])


def _request(execution: Execution, new: Execution, now: Micros) -> CancelRequest:
    return CancelRequest(id=execution.id, token=execution.token, at=now, reason=f"superseded by {new.id}")
