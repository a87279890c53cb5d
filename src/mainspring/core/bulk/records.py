"""Bulk actions as entries: one record each, and its pages of items.

A record is in scope "open" until the bulk is over. Then its last state is written there, a copy is put into scope
"closed", and the open record is removed: any process that finds an open record of a bulk that is over completes these
steps. The pages stay as long as the closed record does.
"""

from __future__ import annotations

import msgspec

from ...model.bulk import BulkPage, BulkRow
from ...model.store.entries import Entry, EntryWrite
from ...model.store.messages import Audit
from ...model.time.instants import SECOND, Micros, seconds_to_micros
from ...model.values.ids import first_id
from ..ports import Store
from . import rules

OPEN, CLOSED = "open", "closed"
LISTED = 1_000
KEPT = 100
KEPT_FOR = 30 * 86_400.0
FIRST_SPAN = 3_600 * SECOND
"""How far back the list of closed bulks reads first."""


def _body(value: BulkRow | BulkPage) -> str:
    return msgspec.json.encode(value).decode()


async def open_record(store: Store, id: str) -> tuple[BulkRow, int] | None:
    """The record of a bulk that is not closed yet, and its version. None also if a newer release wrote it."""
    found = await store.entries("bulk", OPEN, [id])
    record = found[0].read(BulkRow) if found else None
    return None if record is None else (record, found[0].version)


async def record(store: Store, id: str) -> BulkRow | None:
    """Reads the open scope first: an open record is removed only after the closed one exists."""
    if (found := await open_record(store, id)) is not None:
        return found[0]
    closed = await store.entries("bulk", CLOSED, [id])
    return closed[0].read(BulkRow) if closed else None


async def write_record(store: Store, bulk: BulkRow, seen_version: int, audit: Audit | None = None) -> bool:
    entry = Entry(kind="bulk", scope=OPEN, key=bulk.id, body=_body(bulk))
    return (await store.write_entries([EntryWrite(entry=entry, seen_version=seen_version, audit=audit)]))[0]


async def close_record(store: Store, bulk: BulkRow) -> None:
    """Idempotent: any number of processes may do this, concurrently or one after another."""
    closed = Entry(kind="bulk", scope=CLOSED, key=bulk.id, body=_body(bulk))
    await store.write_entries([EntryWrite(entry=closed, seen_version=0)])
    await store.write_entries([EntryWrite(entry=Entry(kind="bulk", scope=OPEN, key=bulk.id), remove=True)])


async def opened(store: Store) -> list[BulkRow]:
    """The bulks that are not closed yet, oldest first."""
    return await _between(store, OPEN, "", None)


async def newest_closed(store: Store, limit: int) -> list[BulkRow]:
    """The newest closed bulks, oldest first. Ids are ordered by time, so this reads ranges of time, each earlier and
    longer than the one before, until there are enough."""
    now, span = await store.now(), FIRST_SPAN
    begin, found = first_id(now - span), await _between(store, CLOSED, first_id(now - span), None)
    while len(found) < limit and begin:
        span *= 4
        end, begin = begin, first_id(now - span) if span < seconds_to_micros(KEPT_FOR) else ""
        found = [*await _between(store, CLOSED, begin, end), *found]
    return found[-limit:]


async def _between(store: Store, scope: str, after: str, before: str | None) -> list[BulkRow]:
    found: list[BulkRow] = []
    while page := await store.list_entries("bulk", scope, after=after, before=before, limit=LISTED):
        found += [bulk for entry in page if (bulk := entry.read(BulkRow)) is not None]
        after = page[-1].key
    return found


async def done_before(store: Store, bulk: BulkRow, target: str) -> bool:
    """Whether this bulk has changed the target before: then the audit record, stored in the same step, is among its
    newest."""
    newest = await store.audits(target, limit=20)
    return any(audit.request_id == rules.request_id(bulk) for audit in newest)


# ---------------------------------------------------------------- pages


def page_key(number: int) -> str:
    return f"{number:08d}"


async def page(store: Store, id: str, number: int) -> tuple[BulkPage, int] | None:
    found = await store.entries("bulk_items", id, [page_key(number)])
    return (msgspec.json.decode(found[0].body, type=BulkPage), found[0].version) if found else None


async def write_page(store: Store, id: str, number: int, items: BulkPage, seen_version: int) -> bool:
    entry = Entry(kind="bulk_items", scope=id, key=page_key(number), body=_body(items))
    return (await store.write_entries([EntryWrite(entry=entry, seen_version=seen_version)]))[0]


async def pages(store: Store, id: str, after: int, limit: int) -> list[tuple[int, BulkPage]]:
    """Up to `limit` pages from the number `after` on."""
    first = page_key(after - 1) if after > 0 else ""
    found = await store.list_entries("bulk_items", id, after=first, limit=limit)
    return [(int(entry.key), msgspec.json.decode(entry.body, type=BulkPage)) for entry in found]


async def prune_closed(store: Store, now: Micros) -> int:
    """Remove bulks that ended long ago and are not among the newest. Their pages go first: after a crash, the next
    pruning finds a record without pages, but would not find pages without a record."""
    old = await store.list_entries("bulk", CLOSED, limit=LISTED)
    limit = now - seconds_to_micros(KEPT_FOR)
    removed = 0
    for entry in old[:-KEPT]:
        bulk = entry.read(BulkRow)
        if bulk is None or (bulk.finished or 0) >= limit:
            continue
        while chunk := await store.list_entries("bulk_items", bulk.id, limit=100):
            await store.write_entries([EntryWrite(entry=each, remove=True) for each in chunk])
        await store.write_entries([EntryWrite(entry=entry, remove=True)])
        removed += 1
    return removed
