"""Entries: small records identified by kind, scope and key."""

from __future__ import annotations

from collections.abc import Sequence

from ...model.store.copy_records import Place
from ...model.store.entries import Entry, EntryKind, EntryWrite
from .executions.rows import Row
from .transaction import Transaction


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
    """Key by key: SQLite's JSON functions, which could take them all at once, cut a text short at a NUL."""
    found = (tx.rows("entry", kind, scope, key) for key in sorted(set(keys)))
    return [_entry(row) for rows in found for row in rows]


def entries_after(tx: Transaction, place: Place, limit: int) -> list[Entry]:
    return [_entry(row) for row in tx.rows("entries_after", *place, limit)]


def restore(tx: Transaction, entry: Entry) -> int:
    """As it was, unless there is one; how many are new."""
    return tx.run("entries_insert", entry.kind, entry.scope, entry.key, entry.version, entry.body)


def _entry(row: Row) -> Entry:
    kind, scope, key, version, body = row
    return Entry(kind=kind, scope=scope, key=key, version=version, body=body)
