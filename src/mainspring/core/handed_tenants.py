"""Which tenants a job runs for that comes after one with tenants: those of its parents, so that each of them has the
same window after the same window. A tenant that did not complete there is left out, unless the job runs anyway."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

from ..model.changes import ExecutionQuery
from ..model.execution import FINAL, Execution, State
from ..model.instants import Micros
from ..model.job import Job
from . import tenant_lists
from .dependencies import Ended
from .ports import Store

PAGE = 500
WRITER = "handed-over"


async def hand_tenants(store: Store, job: Job, row: Execution, parents: Mapping[str, Ended], now: Micros) -> None:
    """Store the list that this execution will find when it runs, if its parents have one. Whoever repeats it finds the
    same names: the parents have ended."""
    sources = [parents[name] for name in job.spec.after if parents[name].tenants]
    if not row.fans_out or not sources:
        return
    names = [name for parent in sources for name in await _names(store, parent)]
    if not names:
        return  # they failed before they knew who: the job finds out by itself
    if job.spec.on_failed_parent == "skip":
        left_out = {name for parent in sources for name in await _incomplete(store, parent)}
        names = [name for name in names if name not in left_out]
    await tenant_lists.made(store, row, list(dict.fromkeys(names)), WRITER, now)


async def _names(store: Store, parent: Ended) -> list[str]:
    """In the order in which they were listed. The list goes a day after the end; the executions stay longer."""
    known = await tenant_lists.stored(store, parent.id)
    if known is None:
        return sorted([name async for name in _children(store, parent, FINAL)])
    return [name async for some in tenant_lists.names_of(store, parent.id, known) for name in some]


async def _incomplete(store: Store, parent: Ended) -> list[str]:
    if parent.state is State.COMPLETED:
        return []
    return [name async for name in _children(store, parent, FINAL - {State.COMPLETED})]


async def _children(store: Store, parent: Ended, states: frozenset[State]) -> AsyncIterator[str]:
    before: str | None = None
    while page := await store.find(ExecutionQuery(parent_id=parent.id, states=states, limit=PAGE, before=before)):
        for child in page:
            if child.tenant is not None:
                yield child.tenant
        before = page[-1].id
