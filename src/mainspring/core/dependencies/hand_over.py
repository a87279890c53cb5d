"""Handing an ending over to the jobs that come after it: part of the follow-ups.

What is made has an id that follows from the parents' executions, so that a hand-over which is repeated after a crash
makes nothing twice. The mark on the ending goes only after everything was handed over: nothing is lost.

A job with several parents has a record on the shelf for each window, tick or flow (`joins.py`), in which their
endings are entered one after another. Each is handed over with those that came before it, once none is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...model.errors import StoreError
from ...model.events import Skipped
from ...model.execution import ExecutionRow
from ...model.job import Job
from ...model.time.instants import Micros
from ..cancelling import cancel_all
from ..emitting import tell_enqueued
from ..loops import Emit
from ..ports import Store
from ..tenants import rosters
from . import joins, rules
from .inherited_tenants import covers_of, tenants_after, writer_of
from .joins import Join
from .links import Dependents

ROUNDS = 20
"""Skips that follow from skips at once. Each has a mark of its own, so that others go on from there."""


async def hand_over(
    store: Store, dependents: Dependents, executions: Sequence[ExecutionRow], now: Micros, emit: Emit
) -> dict[str, Exception]:
    """Make what follows from these endings, and from skips that follow at once. Returns the ids of those that could
    not be handed over, and why: they keep their mark."""
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
    """The jobs that come after each of those that are handed over, read once."""

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
    """What follows from it in this job: one execution, none while parents are missing; and those of single tenants for
    which it was the last ending that was missing."""
    if len(job.spec.after) == 1:
        alone = joins.joined(None, job, execution, now)
        return _rows(await _after_whole(store, job, execution, alone, {}, now))
    group = joins.group_of(execution)
    if execution.tenant is not None:
        key = joins.single_key(group, execution.tenant)
        entered = await joins.enter(store, job, key, execution, now)
        if entered.find(execution.id) is None:
            return []  # a newer one counts
        return _rows(await _after_single(store, job, execution, execution.job, execution.tenant, now))
    join = await joins.enter(store, job, group, execution, now)
    own = join.find(execution.id)
    rows = []
    if own is not None:
        singles = {} if job.spec.fan_out is None else await joins.singles(store, job, group)
        rows = _rows(await _after_whole(store, job, execution, join.as_of(own), singles, now))
    for tenant, single in (await joins.singles(store, job, group)).items():  # some may have come meanwhile
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
    """The run of the whole job that follows from this ending and those that had come before it.

    Whether it runs for anybody is decided by the list that is stored first, an empty one too: two who hand over at once
    may not have seen the same runs of single tenants.
    """
    own = seen.find(execution.id)
    assert own is not None, "it was entered"
    if isinstance(rules.after_parents(job, seen.parents), rules.Wait):
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
        return row  # without names, they ended before they knew who: the job finds out by itself
    names = [
        tenant
        for tenant in handed.names
        if tenant not in singles or not await _was_handed(store, job, execution, tenant, row.id)
    ]
    if handed.names and not names and await rosters.stored(store, row.id) is None:
        return None
    if names or len(job.spec.after) > 1:
        decided = await rosters.made(store, row, names, writer_of(names), now)
        if decided.total:
            return row
    bad = handed.failed or handed.parents
    return _dependent(job, execution, parents, {name: name not in bad for name in handed.parents}, now, handed.some)


def _dependent(
    job: Job,
    execution: ExecutionRow,
    parents: Mapping[str, joins.Ended],
    judged: Mapping[str, bool],
    now: Micros,
    some: bool = False,
) -> ExecutionRow:
    verdict = rules.after_parents(job, parents, judged)
    assert not isinstance(verdict, rules.Wait), "no parent is missing"
    return rules.dependent(job, execution, parents, verdict, now, some=some)


# ---------------------------------------------------------------- single tenants


async def _after_single(
    store: Store, job: Job, last: ExecutionRow, parent: str, tenant: str, now: Micros
) -> ExecutionRow | None:
    """What follows from the run of one parent for one tenant alone: with the endings of the other parents for that
    tenant. With which ones is decided once, since whole runs look after the same tenant. Whoever decided may have died
    before it was made: so whoever comes with one of those endings makes it, again if need be."""
    group = joins.group_of(last)
    key = joins.single_key(group, tenant)
    while True:
        single, version = await joins.read(store, job, key)
        if single is None or parent not in single.parents:
            return None
        run = single.parents[parent].id
        covers = single.handed.get(run)
        if covers is None:
            if run in single.seen_to and await _sees_to(store, single.seen_to[run], tenant):
                return None
            covers = await _covers(store, job, group, parent, tenant, single, now)
            if isinstance(rules.after_parents(job, covers), rules.Wait):
                return None
            included = {each.id for each in covers.values()} & {each.id for each in single.parents.values()}
            if not await joins.hand(store, job, key, (single, version), included, covers):
                continue
        verdict = rules.after_parents(job, covers)
        return None if isinstance(verdict, rules.Wait) else rules.dependent(job, last, covers, verdict, now, tenant)


async def _covers(
    store: Store, job: Job, group: str, parent: str, tenant: str, single: Join, now: Micros
) -> dict[str, joins.Ended]:
    whole, _ = await joins.read(store, job, group)
    if whole is None or whole.job_id != job.id:
        whole = Join(job_id=job.id, moved=now)
    return await covers_of(store, job, parent, tenant, single, whole)


async def _was_handed(store: Store, job: Job, execution: ExecutionRow, tenant: str, row: str) -> bool:
    """Whether the run of a single tenant was handed over with this very ending. If not, it is left to this row, which
    runs for the tenant anyway."""
    key = joins.single_key(joins.group_of(execution), tenant)
    while True:
        single, version = await joins.read(store, job, key)
        if single is None:
            return False
        others = [run.id for name, run in single.parents.items() if name != execution.job]
        decided = [single.handed[id] for id in others if id in single.handed]
        if any(execution.id == each.id for covers in decided for each in covers.values()):
            return True
        left = [id for id in others if id not in single.handed and single.seen_to.get(id) != row]
        if not left or await joins.leave_to(store, job, key, (single, version), left, row):
            return False


async def _sees_to(store: Store, row: str, tenant: str) -> bool:
    """Whether this execution runs for the tenant. Two who hand over at once may not have seen the same; the first list
    counts. While there is none, whoever makes it looks at all single tenants after that."""
    known = await rosters.stored(store, row)
    if known is None:
        return True
    return any([tenant in names async for names in rosters.names_of(store, row, known)])


async def _added(store: Store, rows: list[ExecutionRow], emit: Emit) -> list[ExecutionRow]:
    """Insert these; returns those that have ended already and are handed over in their turn. What somebody else has
    inserted may differ in its time: they go on from there, or whoever finds the mark.

    A job may have been cancelled or removed after it was read, and swept before this was added: then nobody else would
    cancel what was.
    """
    added = await store.add(rows)
    tell_enqueued(emit, rows, added)
    for row, each in zip(rows, added, strict=True):
        if row.state.final and each.outcome == "added":
            emit(Skipped(row, row.reason or "", None))
    living = {job.id for job in await store.jobs(sorted({row.job for row in rows})) if job.cancelled is None}
    strays = [row.id for row in rows if row.job_id not in living and not row.state.final]
    found = [await store.execution(id) for id in strays]
    alive = [row for row in found if row is not None and not row.state.final]
    await cancel_all(store, alive, "the job was cancelled", emit)
    return [row for row, each in zip(rows, added, strict=True) if row.state.final and each.outcome == "added"]
