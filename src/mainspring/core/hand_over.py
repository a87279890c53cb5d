"""Handing an ending over to the jobs that come after it: part of the follow-ups.

What is made has an id that follows from the parents' executions, so that a hand-over which is repeated after a crash
makes nothing twice. The mark on the ending goes only after everything was handed over: nothing is lost.

A job with several parents has a record on the shelf for each window, tick or flow, in which their endings are entered
by compare-and-set. Whoever enters the last one, or finds it entered, hands over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from ..model.errors import StoreError
from ..model.events import Skipped
from ..model.execution import Execution
from ..model.instants import SECOND, Micros
from ..model.job import Job
from ..model.shelf import Entry, EntryWrite
from . import dependencies as rules
from .cancelling import cancel_all
from .dependents import KIND, Dependents
from .handed_tenants import hand_tenants
from .loop import Emit
from .ports import Store
from .telling import tell_enqueued

KEPT_FOR = 14 * 86_400 * SECOND
"""How long the endings of several parents wait for each other, counted from the last one."""
ROUNDS = 20
"""Skips that follow from skips at once. Each has a mark of its own, so that others go on from there."""
PRUNED_AT_ONCE = 500


async def hand_over(store: Store, executions: Sequence[Execution], now: Micros, emit: Emit) -> dict[str, Exception]:
    """Make what follows from these endings, and from skips that follow at once. Returns the ids of those that could
    not be handed over, and why: they keep their mark."""
    failed: dict[str, Exception] = {}
    dependents: dict[str, list[Job]] = {}
    ended = list(executions)
    for _ in range(ROUNDS):
        rows: dict[str, Execution] = {}
        for execution in ended:
            try:
                rows |= {row.id: row for row in await _made_after(store, execution, dependents, now)}
            except StoreError:
                raise
            except Exception as error:
                failed[execution.id] = error
        if not rows:
            break
        ended = await _added(store, list(rows.values()), emit)
    return failed


async def _made_after(
    store: Store, execution: Execution, dependents: dict[str, list[Job]], now: Micros
) -> list[Execution]:
    if not rules.is_handed_over(execution):
        return []
    if execution.job not in dependents:
        dependents[execution.job] = await Dependents(store).of(execution.job)
    rows = []
    for job in dependents[execution.job]:
        if job.cancelled is not None:
            continue
        parents = await _parents(store, job, execution, now)
        verdict = rules.after_parents(job, parents)
        if not isinstance(verdict, rules.Wait):
            row = rules.dependent(job, execution, parents, verdict, now)
            if not row.state.final:
                await hand_tenants(store, job, row, parents, now)
            rows.append(row)
    return rows


async def _added(store: Store, rows: list[Execution], emit: Emit) -> list[Execution]:
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


# ---------------------------------------------------------------- several parents


async def _parents(store: Store, job: Job, execution: Execution, now: Micros) -> Mapping[str, rules.Ended]:
    """The endings that belong together, this one among them."""
    if len(job.spec.after) == 1:
        return {execution.job: rules.ended(execution)}
    key = rules.group_of(execution)
    while True:
        stored = next(iter(await store.entries(KIND, job.name, [key])), None)
        before = None if stored is None else msgspec.json.decode(stored.body, type=rules.Join)
        after = rules.joined(before, job, execution, now)
        if after == before:
            return after.parents
        entry = Entry(kind=KIND, scope=job.name, key=key, body=msgspec.json.encode(after).decode())
        seen = 0 if stored is None else stored.version
        if (await store.shelve([EntryWrite(entry=entry, seen_version=seen)]))[0]:
            return after.parents


async def prune_joins(store: Store, job: Job, up_to: str, now: Micros) -> str:
    """Remove what has waited too long, some at a time; returns where to go on next time."""
    found = await store.shelf(KIND, job.name, after=up_to, limit=PRUNED_AT_ONCE)
    old = [
        EntryWrite(entry=entry, seen_version=entry.version, remove=True)
        for entry in found
        if msgspec.json.decode(entry.body, type=rules.Join).moved < now - KEPT_FOR
    ]
    if old:
        await store.shelve(old)
    return found[-1].key if len(found) == PRUNED_AT_ONCE else ""
