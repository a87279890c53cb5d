"""The tenants of a job whose parents have tenants: it runs for theirs, each with the same window. Tenants that did not
complete in a parent are left out, unless the job runs anyway.

For each tenant, the newest execution of a parent that ran for it counts: re-running a parent for some of its tenants
says nothing new about the others, and they do not run again.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping
from typing import Literal, NamedTuple

import msgspec

from ...model.execution import FINAL, State
from ...model.job import Job
from ...model.store.messages import ExecutionQuery
from ..ports import Store
from ..tenants import rosters
from .joins import Join, ParentEnding

PAGE = 500
SOME_COMPLETED = (State.COMPLETED, State.PARTIAL)


class Handed(NamedTuple):
    """The tenants that are handed over, the parents they come from, and which of those parents did not complete for all
    tenants. `some`: a parent ran only for tenants that a caller chose."""

    names: list[str]
    parents: list[str]
    failed: list[str]
    some: bool


async def tenants_after(
    store: Store, job: Job, parent: str, own: ParentEnding, seen: Join, singles: Mapping[str, Join]
) -> Handed | Literal["nobody"] | None:
    """The tenants that the job runs for after this ending; None if its parents do not decide that; "nobody" while
    parents are missing for every tenant, or if newer runs cover them.

    The first run of a parent counts for all tenants of the parents. A later run, and a run for tenants that a caller
    chose, counts only for the tenants it ran for.
    """
    if job.spec.fan_out is None:
        return None
    runs = {name: [run for run in seen.runs(name) if run.tenants] for name in job.spec.after}
    sources = {name: runs[name] for name in job.spec.after if seen.parents[name].tenants}
    if not sources:
        return None
    rosters_read = _Rosters(store)
    again = own.some or any(run.id != own.id and not run.some for run in seen.runs(parent))
    if own.tenants and again:
        newer = {name for run in runs[parent] if run.age > own.age for name in await rosters_read.names(run)}
        wanted = [name for name in await rosters_read.names(own) if name not in newer]
        if newer and not wanted:
            return "nobody"
    else:
        wanted = [name for some in sources.values() for run in some for name in await rosters_read.names(run)]
    wanted = list(dict.fromkeys(wanted))
    anyway = job.spec.on_failed_parent == "run"
    bad = {name for name in sources if not (anyway or wanted) and seen.parents[name].state not in SOME_COMPLETED}
    names = []
    for tenant in wanted:
        single = singles[tenant].parents if tenant in singles else {}
        done = {name: await rosters_read.completed(tenant, some, single.get(name)) for name, some in sources.items()}
        if None not in done.values():
            left_out = set() if anyway else {name for name, each in done.items() if not each}
            bad |= left_out
            names += [] if left_out else [tenant]
    if wanted and not names and not bad:
        return "nobody"
    some = own.some or any(all(run.some for run in each) for each in sources.values())
    return Handed(names, list(sources), [name for name in sources if name in bad], some)


def writer_of(names: list[str]) -> str:
    """Two processes that hand over at once may not agree: each roster is kept apart, and the first one counts."""
    return f"handed-over-{hashlib.sha256(msgspec.json.encode(names)).hexdigest()[:16]}"


class _Rosters:
    """The tenants of parents, each roster read once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._names: dict[str, dict[str, None]] = {}
        self._incomplete: dict[str, set[str]] = {}

    async def names(self, run: ParentEnding) -> dict[str, None]:
        if run.id not in self._names:
            self._names[run.id] = dict.fromkeys(await _names(self._store, run))
        return self._names[run.id]

    async def completed(self, tenant: str, runs: list[ParentEnding], single: ParentEnding | None) -> bool | None:
        """Whether the newest execution of a parent that ran for this tenant completed for it; None if none ran. A
        parent that ran without this tenant does not hold it back, unless the parent failed as a whole."""
        for run in runs:
            if single is not None and single.age > run.age:
                break
            if tenant in await self.names(run):
                return tenant not in await self._unfinished(run)
        if single is not None:
            return single.state is State.COMPLETED
        whole = next((run for run in runs if not run.some), None)
        return None if whole is None else whole.state in SOME_COMPLETED

    async def _unfinished(self, run: ParentEnding) -> set[str]:
        if run.id not in self._incomplete:
            left = frozenset({State.SKIPPED}) if run.state is State.COMPLETED else FINAL - {State.COMPLETED}
            self._incomplete[run.id] = {name async for name in _children(self._store, run, left)}
        return self._incomplete[run.id]


async def covers_of(
    store: Store, job: Job, parent: str, tenant: str, single: Join, whole: Join
) -> dict[str, ParentEnding]:
    """The endings that belong with one tenant's run, each with its state for that tenant. Parents without an ending are
    missing; so is `parent` itself if a newer run of it covers the tenant."""
    covers: dict[str, ParentEnding] = {}
    for name in job.spec.after:
        found = await _newest_for(store, tenant, single.parents.get(name), whole.runs(name))
        if found is not None and (name != parent or found.id == single.parents[parent].id):
            covers[name] = found
    return covers


async def _newest_for(
    store: Store, tenant: str, single: ParentEnding | None, runs: list[ParentEnding]
) -> ParentEnding | None:
    for run in runs:
        if single is not None and single.age > run.age:
            return single
        if not run.tenants:
            return single or run
        parts = await store.find(ExecutionQuery(parent_id=run.id, tenant=tenant, limit=1))
        if parts:
            return msgspec.structs.replace(run, state=parts[0].state, tenants=False)
    whole = next((run for run in runs if not run.some), None)
    if single is not None or whole is None:
        return single
    state = State.COMPLETED if whole.state in SOME_COMPLETED else whole.state
    return msgspec.structs.replace(whole, state=state, tenants=False)


async def _names(store: Store, parent: ParentEnding) -> list[str]:
    """In roster order, which is that of the executions' ids. The roster is removed a day after the end; the executions
    stay longer."""
    known = await rosters.stored(store, parent.id)
    if known is None:
        return [name async for name in _children(store, parent, FINAL)]
    return [name async for some in rosters.names_of(store, parent.id, known) for name in some]


async def _children(store: Store, parent: ParentEnding, states: frozenset[State]) -> AsyncIterator[str]:
    query = ExecutionQuery(parent_id=parent.id, states=states, limit=PAGE, oldest_first=True)
    while page := await store.find(query):
        for child in page:
            if child.tenant is not None:
                yield child.tenant
        query = msgspec.structs.replace(query, after=page[-1].id)
