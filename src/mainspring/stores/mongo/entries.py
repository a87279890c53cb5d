"""Entries: one document each. Its `_id` is kind, scope and key in one text, which sorts as they do.

A removed entry is a document of version 0 until its audit record, which it carries as every audited document does, is
moved out; then it is deleted. No reader sees it, and a later write of the entry takes it over: a missing document and
version 0 mean the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from pymongo import UpdateOne

from ...model.errors import StoreUnavailable
from ...model.store.copy_records import entry_key
from ...model.store.entries import Entry, EntryKind, EntryWrite
from . import failure_notes
from .connection.bulk import rounds
from .connection.database import Database, StorePart
from .connection.errors import Refused
from .documents import audit_document, entry_of

_WRITES_AT_ONCE = 10
_VISIBLE = {"version": {"$gt": 0}}
_REMOVED = {"version": 0, "audits": {"$exists": False}}


class Entries(StorePart):
    async def write_entries(self, writes: Sequence[EntryWrite]) -> list[bool]:
        """Never retried after a lost answer: our own write would look like another process's."""
        db, won = self.db, [False] * len(writes)
        for batch in rounds(writes, key=lambda write: _id(write.entry)):
            await _write_unseen(db, [item for item in batch if not item[1].seen_version], won)
            gate = asyncio.Semaphore(_WRITES_AT_ONCE)
            await asyncio.gather(*(_write_seen(db, *item, won, gate) for item in batch if item[1].seen_version))
        done = [write for write, mine in zip(writes, won, strict=True) if mine]
        if removed := [_id(write.entry) for write in done if write.remove and write.audit is None]:
            await _delete_removed(db, removed)
        return won

    async def list_entries(
        self, kind: EntryKind, scope: str, *, after: str = "", before: str | None = None, limit: int = 1_000
    ) -> list[Entry]:
        if kind == failure_notes.KIND:
            await failure_notes.move_all(self.db)
            found = await failure_notes.page(self.db, after, before, limit)
            return [entry_of(doc) for doc in found]
        end = entry_key(kind, scope, "")[:-1] + "\1" if before is None else entry_key(kind, scope, before)
        return await _page(self.db, {"$gt": entry_key(kind, scope, after), "$lt": end}, limit)

    async def entries(self, kind: EntryKind, scope: str, keys: Sequence[str]) -> list[Entry]:
        if kind == failure_notes.KIND:
            await failure_notes.move_all(self.db)
        ids = [entry_key(kind, scope, key) for key in set(keys)]
        return await _page(self.db, {"$in": ids}, len(ids))


async def entries_after(db: Database, key: str, limit: int) -> list[Entry]:
    return await _page(db, {"$gt": key}, limit)


async def _page(db: Database, ids: dict[str, Any], limit: int) -> list[Entry]:
    if limit < 1:
        return []
    return [entry_of(doc) for doc in await db.entries.find({"_id": ids, **_VISIBLE}, sort={"_id": 1}, limit=limit)]


def _id(entry: Entry) -> str:
    return entry_key(entry.kind, entry.scope, entry.key)


# --- writing --------------------------------------------------------------------------------------------------------


async def _write_unseen(db: Database, batch: Sequence[tuple[int, EntryWrite]], won: list[bool]) -> None:
    """Writes that expect no entry, or any: the answer to one bulk names those that were refused, and no others."""
    sent = [(n, write) for n, write in batch if not (write.remove and write.seen_version == 0)]
    for n, _ in sent:
        won[n] = True
    changes = [UpdateOne(_expected(write), _change(write), upsert=_creates(write)) for _, write in sent]
    for place in await _refused(db, changes):
        n, write = sent[place]
        if write.seen_version == 0:
            won[n] = False
        else:  # two writes created the document at the same instant; now it exists
            await db.entries.update_one(_expected(write), _change(write), upsert=_creates(write))


async def _write_seen(db: Database, n: int, write: EntryWrite, won: list[bool], gate: asyncio.Semaphore) -> None:
    async with gate:
        won[n] = bool((await db.entries.update_one(_expected(write), _change(write))).matched_count)


async def _refused(db: Database, changes: Sequence[UpdateOne]) -> list[int]:
    """The positions of the changes whose entry exists already."""
    if not changes:
        return []
    try:
        await db.entries.bulk_write(changes)
    except Refused as refusal:
        return list(refusal.fields)
    return []


def _expected(write: EntryWrite) -> dict[str, Any]:
    id = {"_id": _id(write.entry)}
    return id if write.seen_version is None else {**id, "version": write.seen_version}


def _creates(write: EntryWrite) -> bool:
    """Whether a missing document is created; a removal creates one to carry its audit record."""
    return not write.remove or write.audit is not None


def _change(write: EntryWrite) -> dict[str, Any]:
    entry = write.entry
    names: dict[str, Any] = {"kind": entry.kind, "scope": entry.scope, "key": entry.key}
    if write.remove and entry.kind == failure_notes.KIND:
        change: dict[str, Any] = failure_notes.REMOVAL
    elif write.remove:
        change = {"$set": {**names, "version": 0}, "$unset": {"body": 1}}
    else:
        change = {"$set": {**names, "body": entry.body}, "$inc": {"version": 1}}
    return change if write.audit is None else {**change, "$push": {"audits": audit_document(write.audit)}}


async def _delete_removed(db: Database, ids: Sequence[str]) -> None:
    """The entries are removed already: an unreachable server leaves this for later."""
    with suppress(StoreUnavailable):
        await db.entries.delete_many({"_id": {"$in": list(ids)}, **_REMOVED})


async def delete_all_removed(db: Database) -> None:
    """Delete what dead processes have left, once the audit records are moved out."""
    if await db.entries.find_one(_REMOVED) is not None:
        await db.entries.delete_many(_REMOVED)


async def restore(db: Database, entries: Sequence[Entry]) -> int:
    """Insert these entries with their versions, unless they exist; returns how many are new."""
    changes = []
    for entry in entries:
        fields = {name: getattr(entry, name) for name in Entry.__struct_fields__}
        changes.append(UpdateOne({"_id": _id(entry), "version": 0}, {"$set": fields}, upsert=True))
    return len(entries) - len(await _refused(db, changes))
