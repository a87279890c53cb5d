"""Backfills as entries: one record each, and the list of its windows in chunks that never change.

A record is in scope "open" until the backfill has finished. Then its last state is written there, a copy is put into
scope "closed", the chunks are removed, and the open record is removed last: any process that finds an open record of a
finished backfill completes these steps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from ...model.backfill import BackfillRow
from ...model.store.entries import Entry, EntryWrite
from ...model.store.messages import Audit
from ...model.time.instants import Micros, seconds_to_micros
from ..ports import Store
from ..rules.window_ledger import Stretch

OPEN, CLOSED = "open", "closed"
CHUNK = 500
CHUNKS_AT_ONCE = 20
PAGE = 1_000
KEPT = 100
KEPT_FOR = 90 * 86_400.0


def encode_record(backfill: BackfillRow) -> str:
    return msgspec.json.encode(backfill).decode()


def decode_record(entry: Entry) -> BackfillRow:
    return msgspec.json.decode(entry.body, type=BackfillRow)


async def open_record(store: Store, id: str) -> tuple[BackfillRow, int] | None:
    """The record of a backfill that is still in scope "open", and its version."""
    found = await store.entries("backfill", OPEN, [id])
    return (decode_record(found[0]), found[0].version) if found else None


async def record(store: Store, id: str) -> BackfillRow | None:
    """Reads the open scope first: an open record is removed only after the closed one exists."""
    found = await open_record(store, id)
    if found is not None:
        return found[0]
    closed = await store.entries("backfill", CLOSED, [id])
    return decode_record(closed[0]) if closed else None


async def write_record(store: Store, backfill: BackfillRow, seen_version: int, audit: Audit | None = None) -> bool:
    entry = Entry(kind="backfill", scope=OPEN, key=backfill.id, body=encode_record(backfill))
    return (await store.write_entries([EntryWrite(entry=entry, seen_version=seen_version, audit=audit)]))[0]


async def close_record(store: Store, backfill: BackfillRow, audit: Audit | None = None) -> None:
    """Idempotent: any number of processes may do this, concurrently or one after another."""
    closed = Entry(kind="backfill", scope=CLOSED, key=backfill.id, body=encode_record(backfill))
    await store.write_entries([EntryWrite(entry=closed, seen_version=0, audit=audit)])
    await remove_open(store, backfill)


async def remove_open(store: Store, backfill: BackfillRow) -> None:
    keys = [chunk_key(number) for number in range((backfill.total + CHUNK - 1) // CHUNK)]
    for start in range(0, len(keys), PAGE):
        chunks = [Entry(kind="backfill_plan", scope=backfill.id, key=key) for key in keys[start : start + PAGE]]
        await store.write_entries([EntryWrite(entry=chunk, remove=True) for chunk in chunks])
    await store.write_entries([EntryWrite(entry=Entry(kind="backfill", scope=OPEN, key=backfill.id), remove=True)])


# ---------------------------------------------------------------- the windows


def chunk_key(number: int) -> str:
    return f"{number:06d}"


async def write_plan(store: Store, id: str, windows: Sequence[Stretch]) -> None:
    """Writes a few chunks at a time: each is small, but there may be hundreds."""
    starts = range(0, len(windows), CHUNK)
    for some in (starts[first : first + CHUNKS_AT_ONCE] for first in range(0, len(starts), CHUNKS_AT_ONCE)):
        chunks = [
            Entry(
                kind="backfill_plan",
                scope=id,
                key=chunk_key(start // CHUNK),
                body=msgspec.json.encode(windows[start : start + CHUNK]).decode(),
            )
            for start in some
        ]
        await store.write_entries([EntryWrite(entry=chunk) for chunk in chunks])
        await asyncio.sleep(0)  # the memory store never yields by itself


async def planned(store: Store, id: str, positions: Sequence[int]) -> dict[int, Stretch]:
    """The windows at these positions of a backfill's plan."""
    numbers = sorted({position // CHUNK for position in positions})
    chunks = await store.entries("backfill_plan", id, [chunk_key(number) for number in numbers])
    windows = {int(chunk.key): msgspec.json.decode(chunk.body, type=list[Stretch]) for chunk in chunks}
    return {
        position: windows[position // CHUNK][position % CHUNK] for position in positions if position // CHUNK in windows
    }


# ---------------------------------------------------------------- many


async def all_records(store: Store, scope: str) -> list[BackfillRow]:
    """Oldest first: ids are time-ordered."""
    found: list[BackfillRow] = []
    after = ""
    while page := await store.list_entries("backfill", scope, after=after, limit=PAGE):
        found += [decode_record(entry) for entry in page]
        after = page[-1].key
    return found


async def prune_closed(store: Store, now: Micros) -> int:
    """Remove closed backfills that are old and not among the newest."""
    old = await store.list_entries("backfill", CLOSED, limit=PAGE)
    limit = now - seconds_to_micros(KEPT_FOR)
    spare = [entry for entry in old[:-KEPT] if (decode_record(entry).finished or 0) < limit]
    if spare:
        await store.write_entries([EntryWrite(entry=entry, remove=True) for entry in spare])
    return len(spare)
