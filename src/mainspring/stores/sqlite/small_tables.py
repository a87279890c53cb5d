"""Tables of few rows and simple steps: named locks, audit records, workers and entries."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ...model.store.copy_records import EntryId
from ...model.store.entries import Entry, EntryKind, EntryWrite
from ...model.store.messages import Audit, LockRow, WorkerInfo
from ...model.time.instants import seconds_to_micros
from .executions.rows import Row
from .transaction import Transaction

_worker = msgspec.json.Decoder(WorkerInfo).decode

# --- locks -----------------------------------------------------------------------------------------------------------


def lock_take(tx: Transaction, name: str, owner: str, ttl: float) -> LockRow | None:
    if tx.value("lock_held", name, tx.now):
        return None
    token = tx.value("lock_token")
    expires = tx.now + seconds_to_micros(ttl)
    tx.run("lock_take", name, owner, token, tx.now, expires)
    return LockRow(name=name, owner=owner, token=token, acquired=tx.now, expires=expires)


def lock_renew(tx: Transaction, name: str, token: int, ttl: float) -> bool:
    return tx.run("lock_renew", name, token, tx.now + seconds_to_micros(ttl), tx.now) == 1


def lock_release(
    tx: Transaction, name: str, token: int | None, keep_for: float = 0.0, audit: Audit | None = None
) -> bool:
    if keep_for > 0:
        released = tx.run("lock_keep", name, token, tx.now + seconds_to_micros(keep_for), tx.now) == 1
    else:
        released = tx.run("lock_drop", name, token, tx.now) == 1
    if released:
        tx.audit(audit)
    return released


def locks(tx: Transaction, first: str = "", limit: int = 1_000) -> list[LockRow]:
    fields = LockRow.__struct_fields__
    return [LockRow(**dict(zip(fields, row, strict=True))) for row in tx.rows("locks", tx.now, first, limit)]


# --- audit records ---------------------------------------------------------------------------------------------------


def audits(tx: Transaction, target: str | None = None, limit: int = 100, before: str | None = None) -> list[Audit]:
    found = tx.rows("audit_all", limit, before) if target is None else tx.rows("audit_target", target, limit, before)
    return [Audit(**dict(zip(Audit.__struct_fields__, row, strict=True))) for row in found]


def prune_audits(tx: Transaction, before: str, limit: int) -> int:
    return tx.run("audit_prune", before, max(limit, 0))


# --- workers ---------------------------------------------------------------------------------------------------------


def workers(tx: Transaction) -> list[WorkerInfo]:
    return [_worker(info) for (info,) in tx.rows("workers")]


def remove_worker(tx: Transaction, id: str) -> None:
    tx.run("worker_remove", id)


def prune_workers(tx: Transaction, silent_for: float) -> int:
    """Delete silent workers, expired locks and full token buckets. Returns the number of workers."""
    tx.run("locks_prune", tx.now)
    tx.run("buckets_prune", tx.now)
    return tx.run("workers_prune", tx.now - seconds_to_micros(silent_for))


# --- entries ---------------------------------------------------------------------------------------------------------


def write_entries(tx: Transaction, writes: Sequence[EntryWrite]) -> list[bool]:
    return [_written(tx, write) for write in writes]


def _written(tx: Transaction, write: EntryWrite) -> bool:
    won = _removed(tx, write) if write.remove else _put(tx, write)
    if won:
        tx.audit(write.audit)
    return won


def _removed(tx: Transaction, write: EntryWrite) -> bool:
    entry, seen = write.entry, write.seen_version
    removed = tx.run("entries_remove", entry.kind, entry.scope, entry.key, seen)
    return removed == 1 or seen is None


def _put(tx: Transaction, write: EntryWrite) -> bool:
    entry, seen = write.entry, write.seen_version
    if seen == 0:
        return tx.run("entries_insert", entry.kind, entry.scope, entry.key, 1, entry.body) == 1
    if seen is None:
        return tx.run("entries_put", entry.kind, entry.scope, entry.key, entry.body) == 1
    return tx.run("entries_update", entry.kind, entry.scope, entry.key, entry.body, seen) == 1


def list_entries(
    tx: Transaction, kind: EntryKind, scope: str, *, after: str = "", before: str | None = None, limit: int = 1_000
) -> list[Entry]:
    return [_entry(row) for row in tx.rows("entries_between", kind, scope, after, before, limit)]


def entries(tx: Transaction, kind: EntryKind, scope: str, keys: Sequence[str]) -> list[Entry]:
    """Key by key: SQLite's JSON functions, which could take all keys at once, cut a text off at a NUL."""
    found = (tx.rows("entry", kind, scope, key) for key in sorted(set(keys)))
    return [_entry(row) for rows in found for row in rows]


def entries_after(tx: Transaction, place: EntryId, limit: int) -> list[Entry]:
    return [_entry(row) for row in tx.rows("entries_after", *place, limit)]


def restore_entry(tx: Transaction, entry: Entry) -> int:
    """Insert the entry as it is; 0 when there is one under that key."""
    return tx.run("entries_insert", entry.kind, entry.scope, entry.key, entry.version, entry.body)


def _entry(row: Row) -> Entry:
    kind, scope, key, version, body = row
    return Entry(kind=kind, scope=scope, key=key, version=version, body=body)


# --- the file --------------------------------------------------------------------------------------------------------


def file_size(tx: Transaction) -> int:
    return int(tx.value("file_size"))


def disk_space(path: str) -> tuple[int | None, int | None]:
    """The free and the total bytes of the disk with this file; None where the disk cannot be asked."""
    try:
        usage = shutil.disk_usage(Path(path).parent)
    except OSError:
        return None, None
    return usage.free, usage.total
