"""Copy everything from one store into another, then compare both record by record.

Records are copied in the order of their keys, page by page, and inserted only where they are missing: a copy that was
interrupted continues when it is run again. Jobs come last, so that nothing ticks before everything is there.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from ..model.defaults import LEASE
from ..model.errors import MainspringError
from ..model.job import Job
from ..model.store.copy_records import ExecutionRecord, Incarnation, Record, RecordKind, key_of
from ..model.store.entries import Entry
from ..model.time.instants import SECOND
from .ports import Store

KINDS: tuple[RecordKind, ...] = ("incarnations", "executions", "audits", "entries", "jobs")
COMPARED: tuple[RecordKind, ...] = ("executions", "incarnations", "audits", "entries", "jobs")
"""Executions first: they show which numbers the target has given."""

PAGE = 500
SHOWN = 5
_NUL, _REPLACED = b"\\u0000", "\ufffd".encode()  # what PostgreSQL cannot store, and what it stores for it

Progress: TypeAlias = Callable[[str, RecordKind, int, str], None]
"""Called now and then with the step ("checking", "copying" or "verifying"), kind, number of records and last key."""

Pair: TypeAlias = tuple[Record | None, Record | None]


class CopyRefused(MainspringError):
    """Nothing was copied; the message says why, and what to do about it."""


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of records on both sides. Equal sides have equal checksums; `differences` names the first few."""

    kind: RecordKind
    source: int
    target: int
    source_checksum: str
    target_checksum: str
    differences: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        return self.source_checksum == self.target_checksum


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a copy. `running` executions keep owner and lease, and are rescued once the lease has expired."""

    copied: dict[RecordKind, int]
    running: int
    compared: tuple[Compared, ...]

    @property
    def equal(self) -> bool:
        return all(kind.equal for kind in self.compared)


async def copy(source: Store, target: Store, progress: Progress, *, force: bool = False) -> Moved:
    """Copy everything, then compare everything; `force` copies even while processes use the source."""
    await refuse_workers(target, "target")
    if not force:
        await refuse_workers(source, "source")
    await settle(source)
    await refuse_other_data(source, target, progress)
    copied = {kind: await copy_kind(source, target, kind, progress) for kind in KINDS}
    running = sum(counts.running for counts in (await source.live_counts()).values())
    return Moved(copied=copied, running=running, compared=await compare(source, target, progress))


async def settle(store: Store) -> None:
    """Finish the work the store left for later, so that every finished execution has its number."""
    while await store.fold(1_000):
        pass


async def records(store: Store, kind: RecordKind) -> AsyncIterator[Record]:
    after = ""
    while page := await store.copy_out(kind, after, PAGE):
        for record in page:
            yield record
        after = key_of(page[-1])


async def dump(store: Store) -> AsyncIterator[bytes]:
    """The contents of a store, one line of JSON per record: equal stores give equal lines."""
    for kind in KINDS:
        async for record in records(store, kind):
            yield canonical(record)


def canonical(record: Record) -> bytes:
    """The record as JSON, without what may differ between stores: durations are sums of whole microseconds, which a
    store may keep as such or as fractional milliseconds; a parked row is checked again in the target."""
    if isinstance(record, ExecutionRecord) and record.execution.parked is not None:
        record = replace(record, execution=replace(record.execution, parked=None))
    if isinstance(record, Incarnation) and record.stats is not None:
        duration = round(record.stats.duration_ms * 1000) / 1000
        record = replace(record, stats=replace(record.stats, duration_ms=duration))
    return msgspec.json.encode(record, order="deterministic").replace(_NUL, _REPLACED)


# --- refusing -------------------------------------------------------------------------------------------------------


async def refuse_workers(store: Store, which: str) -> None:
    now = await store.now()
    found = await store.workers()
    alive = [worker for worker in found if worker.seen >= now - int((worker.lease or LEASE) * SECOND)]
    if alive:
        names = ", ".join(f"{worker.host}:{worker.pid}" for worker in alive[:SHOWN])
        raise CopyRefused(f"processes are at work in the {which} database ({names}); stop them first")


async def refuse_other_data(source: Store, target: Store, progress: Progress) -> None:
    """Unless the target's data is a part of the source's: then an interrupted copy continues."""
    matching = Matching()
    for kind in COMPARED:
        if not await target.copy_out(kind, "", 1):
            continue
        seen = 0
        async for ours, theirs in matching.pairs(source, target, kind):
            if theirs is not None and (ours is None or canonical(ours) != canonical(theirs)):
                raise CopyRefused(
                    f"the target holds other data ({difference(kind, ours, theirs)}); copy into an empty one"
                )
            seen += 1
            _report_now_and_then(progress, "checking", kind, seen, ours or theirs)


# --- copying --------------------------------------------------------------------------------------------------------


async def copy_kind(source: Store, target: Store, kind: RecordKind, progress: Progress) -> int:
    """Returns the number of new records."""
    copied, read, after, more_there = 0, 0, "", True
    while page := await source.copy_out(kind, after, PAGE):
        there = await target.copy_out(kind, after, PAGE) if more_there else []
        more_there = bool(there)
        known = {key_of(record) for record in there}
        missing = [record for record in page if key_of(record) not in known]
        copied += await target.copy_in(kind, missing) if missing else 0
        read, after = read + len(page), key_of(page[-1])
        progress("copying", kind, read, after)
    return copied


# --- comparing ------------------------------------------------------------------------------------------------------


async def compare(source: Store, target: Store, progress: Progress) -> tuple[Compared, ...]:
    """Every record of both sides."""
    matching = Matching()
    found = {kind: await _compare_kind(matching, source, target, kind, progress) for kind in COMPARED}
    return tuple(found[kind] for kind in KINDS)


async def _compare_kind(
    matching: Matching, source: Store, target: Store, kind: RecordKind, progress: Progress
) -> Compared:
    counts, sums, differences = [0, 0], (hashlib.sha256(), hashlib.sha256()), list[str]()
    async for pair in matching.pairs(source, target, kind):
        lines = [None if record is None else canonical(record) for record in pair]
        for side, line in enumerate(lines):
            if line is not None:
                counts[side] += 1
                sums[side].update(line + b"\n")
        if lines[0] != lines[1] and len(differences) < SHOWN:
            differences.append(difference(kind, *pair))
        _report_now_and_then(progress, "verifying", kind, max(counts), pair[0] or pair[1])
    return Compared(
        kind=kind,
        source=counts[0],
        target=counts[1],
        source_checksum=sums[0].hexdigest(),
        target_checksum=sums[1].hexdigest(),
        differences=tuple(differences),
    )


class Matching:
    """Records of both sides by key. A live execution without a number may have got one in the target: that number is
    left out of the comparison, and subtracted from the last number of its job."""

    def __init__(self) -> None:
        self._given: Counter[str] = Counter()

    async def pairs(self, source: Store, target: Store, kind: RecordKind) -> AsyncIterator[Pair]:
        async for ours, theirs in _joined(records(source, kind), records(target, kind)):
            seen = None if theirs is None else self._as_in_source(ours, theirs)
            if ours is not None or seen is not None:
                yield ours, seen

    def _as_in_source(self, ours: Record | None, theirs: Record) -> Record | None:
        match theirs:
            case ExecutionRecord(execution=row) if (
                isinstance(ours, ExecutionRecord) and ours.execution.number is None and row.number is not None
            ):
                self._given[row.job_id] += 1
                return replace(theirs, execution=replace(row, number=None))
            case Incarnation(job_id=id):
                plain = replace(theirs, last_number=theirs.last_number - self._given[id])
                return plain if plain.last_number or plain.stats else None
            case Job(id=id):
                return theirs.with_changes(last_number=theirs.last_number - self._given[id])
            case _:
                return theirs


async def _joined(ours: AsyncIterator[Record], theirs: AsyncIterator[Record]) -> AsyncIterator[Pair]:
    """Pairs of records in the order of their keys; None for a record that one side lacks."""
    one, other = await anext(ours, None), await anext(theirs, None)
    while one is not None or other is not None:
        keys = [key_of(record) for record in (one, other) if record is not None]
        first = min(keys)
        here = one if one is not None and key_of(one) == first else None
        there = other if other is not None and key_of(other) == first else None
        yield here, there
        one = one if here is None else await anext(ours, None)
        other = other if there is None else await anext(theirs, None)


def difference(kind: RecordKind, ours: Record | None, theirs: Record | None) -> str:
    """How the two differ, in a few words."""
    record = ours or theirs
    assert record is not None
    name = _name(kind, record)
    if ours is None or theirs is None:
        return f"{name} is only in the {'target' if ours is None else 'source'}"
    return f"{name} differs in {', '.join(_fields_that_differ(ours, theirs))}"


def _name(kind: RecordKind, record: Record) -> str:
    if isinstance(record, Entry):
        return f"entry {record.kind}/{record.scope}/{record.key}"
    return f"{kind.removesuffix('s')} {key_of(record)}"


def _fields_that_differ(ours: Record, theirs: Record) -> list[str]:
    if isinstance(ours, ExecutionRecord) and isinstance(theirs, ExecutionRecord) and ours.execution != theirs.execution:
        return _differing(ours.execution, theirs.execution)
    return _differing(ours, theirs)


def _differing(ours: msgspec.Struct, theirs: msgspec.Struct) -> list[str]:
    return [name for name in ours.__struct_fields__ if getattr(ours, name) != getattr(theirs, name)]


def _report_now_and_then(progress: Progress, step: str, kind: RecordKind, count: int, record: Record | None) -> None:
    if count % PAGE == 0 and record is not None:
        progress(step, kind, count, key_of(record))
