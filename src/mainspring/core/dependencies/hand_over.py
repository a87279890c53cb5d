"""Handing an ending over to the jobs that depend on it: one of the follow-ups.

The id of a dependent execution is derived from the parents' executions, so a hand-over that is repeated after a crash
creates nothing twice. The `todo` mark on the ending is cleared only after everything was handed over: nothing is lost.

A job with several parents has a record for each window, tick or flow (`joins.py`) that collects their endings. Each
ending is handed over together with those recorded before it, once no parent is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...model.errors import StoreError
from ...model.events import Skipped
from ...model.execution import ExecutionRow
from ...model.job import Job
from ...model.time.instants import Micros
from ..cancelling import cancel_all
from ..emitting import emit_enqueued
from ..loops import Emit
from ..ports import Store
from ..tenants import rosters
from . import joins, rules
from .inherited_tenants import covers_of, tenants_after, writer_of
from .joins import Join
from .links import Dependents

ROUNDS = 20
"""How many skips in a row are handed over at once. Each carries its own mark, so a sweep continues from there."""


async def hand_over(
    store: Store, dependents: Dependents, executions: Sequence[ExecutionRow], now: Micros, emit: Emit
) -> dict[str, Exception]:
    """Create the executions that follow from these endings, and from skips that result at once. Returns the endings
    that could not be handed over, by id, with the error: they keep their mark."""
    failed: dict[str, Exception] = {}
    following = _Following(dependents, emit)
    ended = list(executions)
    for _ in range(ROUNDS):
        rows: dict[str, ExecutionRow] = {}
        for execution in ended:
            try:
                rows |= {row.id: row for row in await _made_after(store, execution, following, now)}
            except StoreError:
                raise
            except Exception as error:
                failed[execution.id] = error
        if not rows:
            break
        ended = await _added(store, list(rows.values()), emit)
    return failed


class _Following:
    """The dependents of each job, read once."""

    def __init__(self, dependents: Dependents, emit: Emit) -> None:
        self._dependents, self._emit = dependents, emit
        self._jobs: dict[str, list[Job]] = {}

    async def after(self, name: str) -> list[Job]:
        if name not in self._jobs:
            self._jobs[name] = await self._dependents.handed_to(name, self._emit)
        return self._jobs[name]


async def _made_after(store: Store, execution: ExecutionRow, following: _Following, now: Micros) -> list[ExecutionRow]:
    if not rules.is_handed_over(execution):
        return []
    rows = []
    for job in await following.after(execution.job):
        if job.cancelled is None and rules.concerns(job, execution):
            rows += await _after_ending(store, job, execution, now)
    return rows


async def _after_ending(store: Store, job: Job, execution: ExecutionRow, now: Micros) -> list[ExecutionRow]:
    """The executions of this job that follow: one for the whole job, none while parents are missing; and one for each
    single tenant for which this was the last missing ending."""
    if len(job.spec.after) == 1:
        alone = joins.joined(None, job, execution, now)
        return _rows(await _after_whole(store, job, execution, alone, {}, now))
    group = joins.group_of(execution)
    if execution.tenant is not None:
        key = joins.single_key(group, execution.tenant)
        recorded = await joins.enter(store, job, key, execution, now)
        if recorded.find(execution.id) is None:
            return []  # a newer run counts
        return _rows(await _after_single(store, job, execution, execution.job, execution.tenant, now))
    join = await joins.enter(store, job, group, execution, now)
    own = join.find(execution.id)
    rows = []
    if own is not None:
        singles = {} if job.spec.fan_out is None else await joins.singles(store, job, group)
        rows = _rows(await _after_whole(store, job, execution, join.as_of(own), singles, now))
    for tenant, single in (await joins.singles(store, job, group)).items():  # some may have been added since
        for parent, run in single.parents.items():
            covers = single.handed.get(run.id)
            if covers is None or any(each.id == execution.id for each in covers.values()):
                rows += _rows(await _after_single(store, job, execution, parent, tenant, now))
    return rows


def _rows(row: ExecutionRow | None) -> list[ExecutionRow]:
    return [] if row is None else [row]


async def _after_whole(
    store: Store, job: Job, execution: ExecutionRow, seen: Join, singles: Mapping[str, Join], now: Micros
) -> ExecutionRow | None:
    """The execution of the whole job that follows from this ending and those recorded before it.

    The roster that is stored first decides which tenants it runs for, even if that roster is empty: two processes that
    hand over at once may not have seen the same runs of single tenants.
    """
    own = seen.find(execution.id)
    assert own is not None, "the ending was recorded"
    if isinstance(rules.after_parents(job, seen.parents), rules.AwaitParents):
        return None
    handed = None
    if execution.tenant is None:
        handed = await tenants_after(store, job, execution.job, own, seen, singles)
    if handed is None:
        return _dependent(job, execution, seen.parents, {}, now)
    if handed == "nobody":
        return None
    parents = {**seen.parents, execution.job: own}
    row = _dependent(job, execution, parents, dict.fromkeys(handed.parents, True), now, handed.some)
    if row.state.final or not (handed.names or handed.failed):
        return row  # no names: the parents ended before listing their tenants, so the job lists its own
    names = [
        tenant
        for tenant in handed.names
        if tenant not in singles or not await _was_handed(store, job, execution, tenant, row.id)
    ]
    if handed.names and not names and await rosters.stored(store, row.id) is None:
        return None
    if names or len(job.spec.after) > 1:
        decided = await rosters.create(store, row, names, writer_of(names), now)
        if decided.total:
            return row
    bad = handed.failed or handed.parents
    return _dependent(job, execution, parents, {name: name not in bad for name in handed.parents}, now, handed.some)


def _dependent(
    job: Job,
    execution: ExecutionRow,
    parents: Mapping[str, joins.ParentEnding],
    judged: Mapping[str, bool],
    now: Micros,
    some: bool = False,
) -> ExecutionRow:
    verdict = rules.after_parents(job, parents, judged)
    assert not isinstance(verdict, rules.AwaitParents), "no parent is missing"
    return rules.dependent(job, execution, parents, verdict, now, some=some)


# ---------------------------------------------------------------- single tenants


async def _after_single(
    store: Store, job: Job, last: ExecutionRow, parent: str, tenant: str, now: Micros
) -> ExecutionRow | None:
    """The execution that follows from one parent's run for one tenant, together with the other parents' endings for
    that tenant. Which endings those are is decided once, because whole runs cover the same tenant. The process that
    decided may have died before it added the row, so every process that holds one of those endings adds it again."""
    group = joins.group_of(last)
    key = joins.single_key(group, tenant)
    while True:
        single, version = await joins.read(store, job, key)
        if single is None or parent not in single.parents:
            return None
        run = single.parents[parent].id
        covers = single.handed.get(run)
        if covers is None:
            if run in single.covered_by and await _covers_tenant(store, single.covered_by[run], tenant):
                return None
            covers = await _endings_for(store, job, group, parent, tenant, single, now)
            if isinstance(rules.after_parents(job, covers), rules.AwaitParents):
                return None
            included = {each.id for each in covers.values()} & {each.id for each in single.parents.values()}
            if not await joins.hand(store, job, key, (single, version), included, covers):
                continue
        verdict = rules.after_parents(job, covers)
        return (
            None
            if isinstance(verdict, rules.AwaitParents)
            else rules.dependent(job, last, covers, verdict, now, tenant)
        )


async def _endings_for(
    store: Store, job: Job, group: str, parent: str, tenant: str, single: Join, now: Micros
) -> dict[str, joins.ParentEnding]:
    whole, _ = await joins.read(store, job, group)
    if whole is None or whole.job_id != job.id:
        whole = Join(job_id=job.id, moved=now)
    return await covers_of(store, job, parent, tenant, single, whole)


async def _was_handed(store: Store, job: Job, execution: ExecutionRow, tenant: str, row: str) -> bool:
    """Whether the run of a single tenant was handed over with this very ending. If not, this row, which runs for the
    tenant anyway, is recorded as covering it."""
    key = joins.single_key(joins.group_of(execution), tenant)
    while True:
        single, version = await joins.read(store, job, key)
        if single is None:
            return False
        others = [run.id for name, run in single.parents.items() if name != execution.job]
        decided = [single.handed[id] for id in others if id in single.handed]
        if any(execution.id == each.id for covers in decided for each in covers.values()):
            return True
        left = [id for id in others if id not in single.handed and single.covered_by.get(id) != row]
        if not left or await joins.cover(store, job, key, (single, version), left, row):
            return False


async def _covers_tenant(store: Store, row: str, tenant: str) -> bool:
    """Whether this execution runs for the tenant: the roster that was stored first decides. While there is none, the
    process that stores it looks at all single tenants afterwards."""
    known = await rosters.stored(store, row)
    if known is None:
        return True
    return any([tenant in names async for names in rosters.names_of(store, row, known)])


async def _added(store: Store, rows: list[ExecutionRow], emit: Emit) -> list[ExecutionRow]:
    """Insert these rows; returns the skipped ones, which are handed over next. If another process inserted a row first,
    that process, or a sweep that finds its mark, continues from there.

    The job may have been cancelled or removed, and its executions swept, between the read and this insert: then nothing
    else would cancel these rows.
    """
    added = await store.add(rows)
    emit_enqueued(emit, rows, added)
    for row, each in zip(rows, added, strict=True):
        if row.state.final and each.outcome == "added":
            emit(Skipped(row, row.reason or "", None))
    living = {job.id for job in await store.jobs(sorted({row.job for row in rows})) if job.cancelled is None}
    strays = [row.id for row in rows if row.job_id not in living and not row.state.final]
    found = [await store.execution(id) for id in strays]
    alive = [row for row in found if row is not None and not row.state.final]
    await cancel_all(store, alive, "the job was cancelled", emit)
    return [row for row, each in zip(rows, added, strict=True) if row.state.final and each.outcome == "added"]
