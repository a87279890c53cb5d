"""Locks, audit records and entries: tables with one row per record, and a statement or two for each primitive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import asdict

from ...model.store.copy_records import EntryId
from ...model.store.entries import Entry, EntryKind, EntryWrite
from ...model.store.messages import Audit, LockRow, StoragePart, StorageSize
from ...model.time.instants import seconds_to_micros
from .connection.pool import Row
from .database import Database
from .executions.literals import storable, texts
from .executions.rows import as_json

# --- locks ----------------------------------------------------------------------------------------------------------


async def lock_take(db: Database, name: str, owner: str, ttl: float) -> LockRow | None:
    rows = await db.rows("lock_take", name, owner, seconds_to_micros(ttl))
    return _lock(rows[0]) if rows else None


async def lock_renew(db: Database, name: str, token: int, ttl: float) -> bool:
    return bool(await db.rows("lock_renew", name, token, seconds_to_micros(ttl)))


async def lock_release(
    db: Database, name: str, token: int | None, keep_for: float = 0.0, audit: Audit | None = None
) -> bool:
    """A released lock stays as an expired row, which nobody sees and the next holder takes over."""
    record = None if audit is None else as_json([audit])
    return bool(await db.rows("lock_release", name, token, seconds_to_micros(keep_for), record))


async def locks(db: Database, first: str = "", limit: int = 1_000) -> list[LockRow]:
    return [_lock(row) for row in await db.rows("locks", first, limit, repeat=True)]


def _lock(row: Row) -> LockRow:
    return LockRow(**dict(zip(LockRow.__struct_fields__, row, strict=True)))


# --- audit records --------------------------------------------------------------------------------------------------


async def audits(db: Database, target: str | None = None, limit: int = 100, before: str | None = None) -> list[Audit]:
    rows = await db.rows("audits", target, limit, before, repeat=True)
    return [Audit(**dict(zip(Audit.__struct_fields__, row, strict=True))) for row in rows]


async def prune_audits(db: Database, before: str, limit: int) -> int:
    return int(await db.value("audits_prune", before, max(limit, 0)))


# --- entries: small durable records, identified by kind, scope and key ----------------------------------------------


async def write_entries(db: Database, writes: Sequence[EntryWrite]) -> list[bool]:
    """Never repeated after a lost answer: what it had stored would look like another process's write."""
    if not writes:
        return []
    wire = [_wire(n, write) for n, write in enumerate(writes)]
    won = set(msgspec.json.decode(await db.value("write_entries", as_json(wire)), type=list[int]))
    return [n in won for n in range(len(writes))]


def _wire(n: int, write: EntryWrite) -> dict[str, Any]:
    entry = _row(write.entry)
    return {"entry": entry, "seen": write.seen_version, "remove": write.remove, "audit": write.audit, "n": n}


def _row(entry: Entry) -> dict[str, Any]:
    return asdict(entry) | {name: storable(getattr(entry, name)) for name in ("scope", "key", "body")}


async def list_entries(
    db: Database, kind: EntryKind, scope: str, *, after: str = "", before: str | None = None, limit: int = 1_000
) -> list[Entry]:
    page = (kind, storable(scope), storable(after), limit)
    if before is None:
        return [_entry(row) for row in await db.rows("entries_following", *page, repeat=True)]
    return [_entry(row) for row in await db.rows("entries_between", *page, storable(before), repeat=True)]


async def entries(db: Database, kind: EntryKind, scope: str, keys: Sequence[str]) -> list[Entry]:
    wanted = texts([storable(key) for key in keys]) or "{}"
    return [_entry(row) for row in await db.rows("entries", kind, storable(scope), wanted, repeat=True)]


async def entries_after(db: Database, place: EntryId, limit: int) -> list[Entry]:
    return [_entry(row) for row in await db.rows("entries_after", *map(storable, place), limit, repeat=True)]


async def restore(db: Database, entries: Sequence[Entry]) -> Any:
    """Insert those that are not there yet; returns how many that were."""
    return await db.value("entries_restore", as_json([_row(entry) for entry in entries]), repeat=True)


def _entry(row: Row) -> Entry:
    kind, scope, key, version, body = row
    return Entry(kind=kind, scope=scope, key=key, version=version, body=body)


# --- figures of the server ------------------------------------------------------------------------------------------


async def storage_size(db: Database) -> StorageSize:
    version = await db.value("server_version", repeat=True)
    parts = [StoragePart(*row) for row in await db.rows("storage_parts", repeat=True)]
    size = sum(part.bytes for part in parts)
    return StorageSize(kind="postgresql", server=f"PostgreSQL {version}", bytes=size, parts=tuple(parts))
