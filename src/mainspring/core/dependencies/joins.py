"""Endings that wait for each other: what the parents of one job have come to, in records on the shelf.

Endings belong together when they share their window; without windows, their tick; without ticks, the flow they come
from. Whole runs are entered under that, the run of a single tenant in a record of its own behind it, so that a thousand
tenants do not write to one record. Every record is written by compare-and-set.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec

from ...model.execution import ExecutionRow, State
from ...model.job import Job
from ...model.store.entries import Entry, EntryKind, EntryWrite
from ...model.time.instants import SECOND, Micros, to_datetime
from ..loops import Emit, one_by_one
from ..ports import Store

KIND: EntryKind = "join"
KEPT_FOR = 14 * 86_400 * SECOND
"""How long the endings of several parents wait for each other, counted from the last one."""
_WINDOW = re.compile(r"window:(-?\d+)-(-?\d+)")
_TICK = re.compile(r"tick:(-?\d+)")
PRUNED_AT_ONCE = 500
PAGE = 1_000
EARLIER_KEPT = 50
"""Runs of one parent for some of its tenants, in one window, of which each still counts for those that it had."""


class Ended(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is kept of the ending of one parent. `tenants`: it had a part for each of its tenants; `some`: those were
    chosen by somebody. `place`: how many had been entered when it was."""

    id: str
    state: State
    created: Micros
    finished: Micros
    tenants: bool = False
    some: bool = False
    place: int = 0

    @property
    def age(self) -> tuple[Micros, str]:
        return self.created, self.id


class Join(msgspec.Struct, frozen=True, omit_defaults=True):
    """Endings that belong together: the newest of each parent, and earlier ones that had tenants of their own.

    The rest is for runs of a single tenant. `handed`: with which endings each was handed over; that is decided once.
    `seen_to`: the execution for many tenants that is meant to see to this one; it does if its list names the tenant.
    """

    job_id: str
    moved: Micros
    parents: dict[str, Ended] = {}
    earlier: dict[str, tuple[Ended, ...]] = {}
    handed: dict[str, dict[str, Ended]] = {}
    seen_to: dict[str, str] = {}

    def runs(self, parent: str) -> list[Ended]:
        """Those of one parent that count, newest first."""
        newest = self.parents.get(parent)
        return [] if newest is None else [newest, *self.earlier.get(parent, ())]

    def find(self, id: str) -> Ended | None:
        return next((each for parent in self.parents for each in self.runs(parent) if each.id == id), None)

    def as_of(self, ended: Ended) -> Join:
        """What had been entered when this one was. Whoever repeats a hand-over later decides as it was decided then."""
        runs = {name: [each for each in self.runs(name) if each.place <= ended.place] for name in self.parents}
        return _with_runs(self, runs)


def ended(execution: ExecutionRow) -> Ended:
    finished = execution.finished or execution.created
    return Ended(
        id=execution.id,
        state=execution.state,
        created=execution.created,
        finished=finished,
        tenants=execution.fans_out,
        some=execution.for_some,
    )


def flow_of(execution: ExecutionRow) -> str:
    """The id of the execution from which it all follows."""
    return execution.flow or execution.id


def group_of(execution: ExecutionRow) -> str:
    """What endings of different parents must share to belong together, as the key of their record."""
    if execution.window_begin is not None and execution.window_end is not None:
        return f"window:{execution.window_begin:017d}-{execution.window_end:017d}"
    if execution.tick is not None:
        return f"tick:{execution.tick:017d}"
    return f"flow:{flow_of(execution)}"


def group_words(key: str) -> str:
    """The key of a record as people read it.

    >>> group_words("tick:01772359200000000#acme")
    "the tick 2026-03-01T10:00:00Z of tenant 'acme'"
    """
    words, _, tenant = key.partition("#")
    if found := _WINDOW.fullmatch(words):
        words = f"the window {_instant(found[1])} to {_instant(found[2])}"
    elif found := _TICK.fullmatch(words):
        words = f"the tick {_instant(found[1])}"
    elif words.startswith("flow:"):
        words = f"what follows from execution {words[5:]}"
    return f"{words} of tenant {tenant!r}" if tenant else words


def _instant(micros: str) -> str:
    return to_datetime(int(micros)).isoformat().replace("+00:00", "Z")


def single_key(group: str, tenant: str) -> str:
    return f"{group}#{tenant}"


def joined(known: Join | None, job: Job, execution: ExecutionRow, now: Micros) -> Join:
    """The record with this ending. Only the newest execution of each parent counts, and for tenants that it was not run
    for, the newest that was."""
    if known is None or known.job_id != job.id:
        known = Join(job_id=job.id, moved=now)
    runs, this = known.runs(execution.job), ended(execution)
    if known.find(this.id) is not None or (runs and this.age < runs[0].age and not this.tenants):
        return known
    last = max((each.place for name in known.parents for each in known.runs(name)), default=0)
    all_runs = {name: known.runs(name) for name in known.parents}
    all_runs[execution.job] = [*runs, msgspec.structs.replace(this, place=last + 1)]
    return msgspec.structs.replace(_with_runs(known, all_runs), moved=now)


def _with_runs(known: Join, runs: Mapping[str, list[Ended]]) -> Join:
    parents: dict[str, Ended] = {}
    earlier: dict[str, tuple[Ended, ...]] = {}
    for name, unordered in runs.items():
        if unordered:
            parents[name], *others = sorted(unordered, key=lambda each: each.age, reverse=True)
            if kept := tuple(each for each in others if each.tenants)[:EARLIER_KEPT]:
                earlier[name] = kept
    newest = {each.id for each in parents.values()}
    handed = {id: covers for id, covers in known.handed.items() if id in newest}
    seen_to = {id: row for id, row in known.seen_to.items() if id in newest}
    return msgspec.structs.replace(known, parents=parents, earlier=earlier, handed=handed, seen_to=seen_to)


# ---------------------------------------------------------------- records


async def read(store: Store, job: Job, key: str) -> tuple[Join | None, int]:
    """A record, and the version by which it can be written."""
    entry = next(iter(await store.entries(KIND, job.name, [key])), None)
    return (None, 0) if entry is None else (_decoded(entry), entry.version)


async def enter(store: Store, job: Job, key: str, execution: ExecutionRow, now: Micros) -> Join:
    while True:
        before, version = await read(store, job, key)
        after = joined(before, job, execution, now)
        if after == before or await _write(store, job, key, after, version):
            return after


async def hand(
    store: Store, job: Job, key: str, seen: tuple[Join, int], ids: Iterable[str], covers: dict[str, Ended]
) -> bool:
    """Say with which endings these runs of a tenant are handed over; false if the record has changed since seen."""
    join, version = seen
    handed = {**join.handed, **{id: covers for id in ids if id not in join.handed}}
    return await _write(store, job, key, msgspec.structs.replace(join, handed=handed), version)


async def leave_to(store: Store, job: Job, key: str, seen: tuple[Join, int], ids: Iterable[str], row: str) -> bool:
    """Say that this execution is meant to see to the tenant; false if the record has changed since seen."""
    join, version = seen
    seen_to = {**join.seen_to, **dict.fromkeys(ids, row)}
    return await _write(store, job, key, msgspec.structs.replace(join, seen_to=seen_to), version)


async def singles(store: Store, job: Job, group: str) -> dict[str, Join]:
    """The records of single tenants of this group, by tenant. Mostly there is none."""
    found: dict[str, Join] = {}
    after, before = single_key(group, ""), f"{group}$"  # "$" is what follows "#"
    while True:
        page = await store.list_entries(KIND, job.name, after=after, before=before, limit=PAGE)
        found |= {entry.key[len(group) + 1 :]: _decoded(entry) for entry in page}
        if len(page) < PAGE:
            return {tenant: join for tenant, join in found.items() if join.job_id == job.id}
        after = page[-1].key


async def _write(store: Store, job: Job, key: str, join: Join, version: int) -> bool:
    entry = Entry(kind=KIND, scope=job.name, key=key, body=msgspec.json.encode(join).decode())
    return (await store.write_entries([EntryWrite(entry=entry, seen_version=version)]))[0]


def _decoded(entry: Entry) -> Join:
    return msgspec.json.decode(entry.body, type=Join)


def readable(entry: Entry) -> Join | None:
    """For who only looks: a record of a newer release is passed over."""
    try:
        return _decoded(entry)
    except msgspec.MsgspecError:
        return None


async def prune_joins(store: Store, job: Job, up_to: str, now: Micros, emit: Emit) -> str:
    """Remove what has waited too long, some at a time; returns where to go on next time. What this release cannot read
    stays, and holds up nothing."""
    found = await store.list_entries(KIND, job.name, after=up_to, limit=PRUNED_AT_ONCE)
    known = one_by_one(f"joins of {job.name}", found, _decoded, emit)
    old = [
        EntryWrite(entry=entry, seen_version=entry.version, remove=True)
        for entry, join in known
        if join.moved < now - KEPT_FOR
    ]
    if old:
        await store.write_entries(old)
    return found[-1].key if len(found) == PRUNED_AT_ONCE else ""


async def forget_joins(store: Store, name: str, before: Micros) -> None:
    """The records of a job that comes after several others no more, but for young ones: the job may be back."""
    after = ""
    while page := await store.list_entries(KIND, name, after=after, limit=PAGE):
        known = [(entry, readable(entry)) for entry in page]
        old = [entry for entry, join in known if join is not None and join.moved < before]
        if old:
            await store.write_entries([EntryWrite(entry=each, seen_version=each.version, remove=True) for each in old])
        after = page[-1].key
