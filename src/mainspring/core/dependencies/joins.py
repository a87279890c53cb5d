"""Fan-in: the endings of a job's parents, collected in entries until none is missing.

Endings belong together when they share a window; without windows, a tick; without ticks, the flow they come from.
A whole run is recorded under that key. A run for a single tenant has a record of its own behind it, so that a thousand
tenants do not contend for one record. Every record is written by compare-and-set.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec

from ...model.execution import ExecutionRow, State
from ...model.job import Job
from ...model.store.entries import Entry, EntryKind, EntryWrite
from ...model.time.instants import SECOND, Micros, to_datetime
from ...model.time.zones import known_zone, local_instant
from ..loops import Emit, one_by_one
from ..ports import Store

KIND: EntryKind = "join"
KEPT_FOR = 14 * 86_400 * SECOND
"""How long a record waits for the missing parents, counted from the latest ending."""
_WINDOW = re.compile(r"window:(-?\d+)-(-?\d+)")
_TICK = re.compile(r"tick:(-?\d+)")
PRUNED_AT_ONCE = 500
PAGE = 1_000
EARLIER_KEPT = 50
"""Runs of one parent for some of its tenants in one window. Each still counts for the tenants it ran for."""


class ParentEnding(msgspec.Struct, frozen=True, omit_defaults=True):
    """The ending of one parent. `tenants`: it ran once per tenant; `some`: for tenants that a caller chose; `place`:
    its place in the order in which endings were recorded."""

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
    """Endings that belong together: the newest of each parent, and earlier ones that ran for tenants of their own.

    The last two fields concern runs of a single tenant. `handed`: the endings each run was handed over with, which is
    decided once. `covered_by`: the execution for many tenants that covers this tenant, if its roster names it.
    """

    job_id: str
    moved: Micros
    parents: dict[str, ParentEnding] = {}
    earlier: dict[str, tuple[ParentEnding, ...]] = {}
    handed: dict[str, dict[str, ParentEnding]] = {}
    covered_by: dict[str, str] = {}

    def runs(self, parent: str) -> list[ParentEnding]:
        """The runs of one parent that count, newest first."""
        newest = self.parents.get(parent)
        return [] if newest is None else [newest, *self.earlier.get(parent, ())]

    def find(self, id: str) -> ParentEnding | None:
        return next((each for parent in self.parents for each in self.runs(parent) if each.id == id), None)

    def as_of(self, ending: ParentEnding) -> Join:
        """The join as it was when this ending was recorded: a repeated hand-over decides as the first one did."""
        runs = {name: [each for each in self.runs(name) if each.place <= ending.place] for name in self.parents}
        return _with_runs(self, runs)


def ending_of(execution: ExecutionRow) -> ParentEnding:
    finished = execution.finished or execution.created
    return ParentEnding(
        id=execution.id,
        state=execution.state,
        created=execution.created,
        finished=finished,
        tenants=execution.fans_out,
        some=execution.for_some,
    )


def flow_of(execution: ExecutionRow) -> str:
    """The id of the execution that started the flow."""
    return execution.flow or execution.id


def group_of(execution: ExecutionRow) -> str:
    """The key that endings of different parents share if they belong together."""
    if execution.window_begin is not None and execution.window_end is not None:
        return f"window:{execution.window_begin:017d}-{execution.window_end:017d}"
    if execution.tick is not None:
        return f"tick:{execution.tick:017d}"
    return f"flow:{flow_of(execution)}"


def group_words(key: str, tz: str = "UTC") -> str:
    """The key of a record in words, by the clock of this zone.

    >>> group_words("tick:01772359200000000#acme")
    "the tick 2026-03-01T10:00:00Z of tenant 'acme'"
    >>> group_words("window:01772323200000000-01772409600000000", "Europe/Berlin")
    'the window 2026-03-01T01:00:00+01:00 to 2026-03-02T01:00:00+01:00'
    """
    words, _, tenant = key.partition("#")
    if found := _WINDOW.fullmatch(words):
        words = f"the window {_instant(found[1], tz)} to {_instant(found[2], tz)}"
    elif found := _TICK.fullmatch(words):
        words = f"the tick {_instant(found[1], tz)}"
    elif words.startswith("flow:"):
        words = f"the flow of execution {words[5:]}"
    return f"{words} of tenant {tenant!r}" if tenant else words


def _instant(micros: str, tz: str) -> str:
    return local_instant(to_datetime(int(micros)), known_zone(tz)).isoformat().replace("+00:00", "Z")


def single_key(group: str, tenant: str) -> str:
    return f"{group}#{tenant}"


def joined(known: Join | None, job: Job, execution: ExecutionRow, now: Micros) -> Join:
    """The record with this ending added. Of each parent the newest execution counts; for tenants that it did not run
    for, the newest one that did."""
    if known is None or known.job_id != job.id:
        known = Join(job_id=job.id, moved=now)
    runs, this = known.runs(execution.job), ending_of(execution)
    if known.find(this.id) is not None or (runs and this.age < runs[0].age and not this.tenants):
        return known
    last = max((each.place for name in known.parents for each in known.runs(name)), default=0)
    all_runs = {name: known.runs(name) for name in known.parents}
    all_runs[execution.job] = [*runs, msgspec.structs.replace(this, place=last + 1)]
    return msgspec.structs.replace(_with_runs(known, all_runs), moved=now)


def _with_runs(known: Join, runs: Mapping[str, list[ParentEnding]]) -> Join:
    parents: dict[str, ParentEnding] = {}
    earlier: dict[str, tuple[ParentEnding, ...]] = {}
    for name, unordered in runs.items():
        if unordered:
            parents[name], *others = sorted(unordered, key=lambda each: each.age, reverse=True)
            if kept := tuple(each for each in others if each.tenants)[:EARLIER_KEPT]:
                earlier[name] = kept
    newest = {each.id for each in parents.values()}
    handed = {id: covers for id, covers in known.handed.items() if id in newest}
    covered_by = {id: row for id, row in known.covered_by.items() if id in newest}
    return msgspec.structs.replace(known, parents=parents, earlier=earlier, handed=handed, covered_by=covered_by)


# ---------------------------------------------------------------- records


async def read(store: Store, job: Job, key: str) -> tuple[Join | None, int]:
    """A record, and the version to compare when writing it."""
    entry = next(iter(await store.entries(KIND, job.name, [key])), None)
    return (None, 0) if entry is None else (_decoded(entry), entry.version)


async def enter(store: Store, job: Job, key: str, execution: ExecutionRow, now: Micros) -> Join:
    while True:
        before, version = await read(store, job, key)
        after = joined(before, job, execution, now)
        if after == before or await _write(store, job, key, after, version):
            return after


async def hand(
    store: Store, job: Job, key: str, seen: tuple[Join, int], ids: Iterable[str], covers: dict[str, ParentEnding]
) -> bool:
    """Record the endings that these runs of a tenant are handed over with; false if the record has changed since."""
    join, version = seen
    handed = {**join.handed, **{id: covers for id in ids if id not in join.handed}}
    return await _write(store, job, key, msgspec.structs.replace(join, handed=handed), version)


async def cover(store: Store, job: Job, key: str, seen: tuple[Join, int], ids: Iterable[str], row: str) -> bool:
    """Record that this execution covers the tenant; false if the record has changed since."""
    join, version = seen
    covered_by = {**join.covered_by, **dict.fromkeys(ids, row)}
    return await _write(store, job, key, msgspec.structs.replace(join, covered_by=covered_by), version)


async def singles(store: Store, job: Job, group: str) -> dict[str, Join]:
    """The records of single tenants in this group, by tenant. Usually there are none."""
    found: dict[str, Join] = {}
    after, before = single_key(group, ""), f"{group}$"  # "$" follows "#" in ASCII
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


async def prune_joins(store: Store, job: Job, up_to: str, now: Micros, emit: Emit) -> str:
    """Remove records that have waited too long, one batch at a time; returns the key to continue from. Records that
    this release cannot read stay and block nothing."""
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
    """Remove the records of a job that no longer has several parents. Recent ones stay: the job may come back."""
    after = ""
    while page := await store.list_entries(KIND, name, after=after, limit=PAGE):
        known = [(entry, entry.read(Join)) for entry in page]
        old = [entry for entry, join in known if join is not None and join.moved < before]
        if old:
            await store.write_entries([EntryWrite(entry=each, seen_version=each.version, remove=True) for each in old])
        after = page[-1].key
