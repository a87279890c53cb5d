"""The shelf: one document for each entry. Its `_id` is kind, scope and key in one text, which sorts as they do.

An entry that was removed is a document of version 0 until its audit record, which it carries as every audited document
does, is moved out; then it goes. Nobody sees it, and who writes the entry anew takes it over: no document and version 0
are the same to all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from pymongo import UpdateOne
from pymongo.errors import BulkWriteError, PyMongoError

from ...model.store.copy_records import entry_key
from ...model.store.entries import Entry, EntryKind, EntryWrite
from . import audit
from .connection.database import Database, is_unreachable
from .executions.documents import audit_document

_DUPLICATE = 11000
_AT_ONCE = 10
_THERE = {"version": {"$gt": 0}}
_REMOVED = {"version": 0, "audits": {"$exists": False}}

Numbered = tuple[int, EntryWrite]


# --- writing --------------------------------------------------------------------------------------------------------


async def write_entries(db: Database, writes: Sequence[EntryWrite]) -> list[bool]:
    """Never repeated when an answer got lost: what was stored then would look like somebody else's."""
    won = [False] * len(writes)
    for batch in _rounds(writes):
        await _write_together(db, [item for item in batch if not item[1].seen_version], won)
        gate = asyncio.Semaphore(_AT_ONCE)
        await asyncio.gather(*(_write_alone(db, item, won, gate) for item in batch if item[1].seen_version))
    done = [write for write, mine in zip(writes, won, strict=True) if mine]
    audited = [_id(write.entry) for write in done if write.audit is not None]
    if audited:
        await audit.move_out(db, db.shelf, audited)
    if any(write.remove for write in done):
        await _forget_removed(db, [_id(write.entry) for write in done if write.remove])
    return won


def _rounds(writes: Sequence[EntryWrite]) -> list[list[Numbered]]:
    """Numbered writes, in each round no entry twice. Hardly ever more than one round."""
    rounds: list[dict[str, Numbered]] = []
    turn: dict[str, int] = {}
    for n, write in enumerate(writes):
        id = _id(write.entry)
        turn[id] = turn.get(id, -1) + 1
        if turn[id] == len(rounds):
            rounds.append({})
        rounds[turn[id]][id] = (n, write)
    return [list(batch.values()) for batch in rounds]


async def _write_together(db: Database, batch: Sequence[Numbered], won: list[bool]) -> None:
    """Writes that saw nothing, or did not look: the answer to a bulk names those that were refused, and no others."""
    asked = [(n, write) for n, write in batch if not (write.remove and write.seen_version == 0)]
    for n, _ in asked:
        won[n] = True
    changes = [UpdateOne(_seen(write), _change(write), upsert=_makes(write)) for _, write in asked]
    for place in await _refused(db, changes):
        n, write = asked[place]
        if write.seen_version == 0:
            won[n] = False
        else:  # two made the document at the same instant; now it is there
            await db.shelf.update_one(_seen(write), _change(write), upsert=_makes(write))


async def _refused(db: Database, changes: Sequence[UpdateOne]) -> list[int]:
    """The places of those whose entry exists already."""
    if not changes:
        return []
    try:
        await db.shelf.bulk_write(changes, ordered=False)
        return []
    except BulkWriteError as error:
        failed = error.details["writeErrors"]
        if error.details.get("writeConcernErrors") or any(one["code"] != _DUPLICATE for one in failed):
            raise
        return [one["index"] for one in failed]


async def _write_alone(db: Database, item: Numbered, won: list[bool], gate: asyncio.Semaphore) -> None:
    n, write = item
    async with gate:
        won[n] = bool((await db.shelf.update_one(_seen(write), _change(write))).matched_count)


def _seen(write: EntryWrite) -> dict[str, Any]:
    id = {"_id": _id(write.entry)}
    return id if write.seen_version is None else {**id, "version": write.seen_version}


def _makes(write: EntryWrite) -> bool:
    """Whether a document is made where there is none; also for nothing but the audit record of a removal."""
    return not write.remove or write.audit is not None


def _change(write: EntryWrite) -> dict[str, Any]:
    entry = write.entry
    names: dict[str, Any] = {"kind": entry.kind, "scope": entry.scope, "key": entry.key}
    if write.remove:
        change: dict[str, Any] = {"$set": {**names, "version": 0}, "$unset": {"body": 1}}
    else:
        change = {"$set": {**names, "body": entry.body}, "$inc": {"version": 1}}
    return change if write.audit is None else {**change, "$push": {"audits": audit_document(write.audit)}}


async def _forget_removed(db: Database, ids: Sequence[str]) -> None:
    """They are removed already: trouble here is left for later."""
    try:
        await db.shelf.delete_many({"_id": {"$in": list(ids)}, **_REMOVED})
    except PyMongoError as error:
        if not is_unreachable(error):
            raise


async def forget_all_removed(db: Database) -> None:
    """What processes that died have left, once their audit records are moved out."""
    if await db.shelf.find_one(_REMOVED) is not None:
        await db.shelf.delete_many(_REMOVED)


async def restore(db: Database, entries: Sequence[Entry]) -> int:
    """As they were, unless there is one; how many are new."""
    changes = []
    for entry in entries:
        fields = {name: getattr(entry, name) for name in Entry.__struct_fields__}
        changes.append(UpdateOne({"_id": _id(entry), "version": 0}, {"$set": fields}, upsert=True))
    return len(entries) - len(await _refused(db, changes))


# --- reading --------------------------------------------------------------------------------------------------------


async def between(db: Database, kind: EntryKind, scope: str, after: str, before: str | None, limit: int) -> list[Entry]:
    end = entry_key(kind, scope, "")[:-1] + "\1" if before is None else entry_key(kind, scope, before)
    return await _page(db, {"$gt": entry_key(kind, scope, after), "$lt": end}, limit)


async def entries(db: Database, kind: EntryKind, scope: str, keys: Sequence[str]) -> list[Entry]:
    ids = [entry_key(kind, scope, key) for key in set(keys)]
    return await _page(db, {"$in": ids}, len(ids))


async def entries_after(db: Database, key: str, limit: int) -> list[Entry]:
    return await _page(db, {"$gt": key}, limit)


async def _page(db: Database, ids: dict[str, Any], limit: int) -> list[Entry]:
    if limit < 1:
        return []
    return [_entry(doc) async for doc in db.shelf.find({"_id": ids, **_THERE}).sort("_id", 1).limit(limit)]


def _id(entry: Entry) -> str:
    return entry_key(entry.kind, entry.scope, entry.key)


def _entry(doc: Mapping[str, Any]) -> Entry:
    names = {name: doc[name] for name in ("kind", "scope", "key", "body")}
    return Entry(version=int(doc["version"]), **names)
