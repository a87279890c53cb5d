"""Overlap policy `cancel_running`: a new execution asks the one that runs to make way."""

from __future__ import annotations

from ..model.changes import ExecutionQuery
from ..model.execution import Execution, State
from .cancelling import cancel_all
from .loop import Emit
from .ports import Store

BUSY = frozenset({State.RUNNING, State.WAITING})


async def cancel_superseded(store: Store, new: Execution, emit: Emit) -> None:
    """Ask every execution of the job that is at work to stop. If we crash before, a blocked claim asks again."""
    query = ExecutionQuery(job_id=new.job_id, states=BUSY, limit=100)
    older = [execution for execution in await store.find(query) if execution.id != new.id and is_superseded(execution)]
    await cancel_all(store, older, f"superseded by {new.id}", emit)


def is_superseded(execution: Execution) -> bool:
    """Whether this one has to make way: it runs, or waits for its tenants, who are stopped with it. The execution of a
    single tenant does not: the overlap rule is about parents."""
    apart = execution.tenant is not None and execution.parent_id is not None
    return execution.state in BUSY and not apart
