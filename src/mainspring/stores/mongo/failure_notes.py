"""Notes about failed attempts: they are written with the change of the execution and moved to the entries soon after.

The change and its note are one write. Every reader of notes moves all of them first, and so does `fold` every few
seconds. A document is never deleted before its notes are moved.

A note is read once and then removed, so moving it a second time would count the failure twice. That is why the document
of a removed note stays for a while and refuses a second one: a process that read the execution before its notes were
moved may still try to move them, but not for longer than `_PATIENCE`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta

from ...model.store.copy_records import entry_key
from ...model.store.entries import EntryKind
from .connection.database import Database
from .documents import Document

KIND: EntryKind = "failure"
REMOVED = -1
"""The version of a note that was removed: no reader sees it."""
REMOVAL: Document = {"$set": {"version": REMOVED}, "$currentDate": {"removed": True}, "$unset": {"body": 1}}

_MOVED_AT_ONCE = 500
_FORGOTTEN_AT_ONCE = 5_000
_PATIENCE = 10.0  # seconds
_REMEMBERED = timedelta(seconds=60)
_CARRYING = {"notes.key": {"$exists": True}}


async def page(db: Database, after: str, before: str | None, limit: int) -> list[Document]:
    """A page of notes, read along an index of those that are not removed: after a storm of failures, many removed ones
    remain."""
    between = {"$gt": after} if before is None else {"$gt": after, "$lt": before}
    wanted = {"kind": KIND, "version": {"$gt": 0}, "key": between}
    return await db.entries.find(wanted, sort={"key": 1}, limit=limit) if limit > 0 else []


async def move_all(db: Database) -> None:
    while True:
        begun = time.monotonic()
        found = await db.executions.find(_CARRYING, {"notes": 1}, limit=_MOVED_AT_ONCE, hint="notes")
        if not found:
            return
        if time.monotonic() - begun < _PATIENCE:
            await move(db, found)


async def move(db: Database, found: Sequence[Document]) -> None:
    """Notes that were added in the meantime stay."""
    notes = {note["key"]: note["body"] for doc in found for note in doc["notes"]}
    await db.entries.insert_missing([_document(key, body) for key, body in notes.items()])
    ids = {"_id": {"$in": [doc["_id"] for doc in found]}}
    await db.executions.update_many(ids, {"$pull": {"notes": {"key": {"$in": list(notes)}}}})
    await db.executions.update_many({**ids, "notes": {"$size": 0}}, {"$unset": {"notes": 1}})


def _document(key: str, body: str) -> Document:
    return {"_id": entry_key(KIND, "", key), "kind": KIND, "scope": "", "key": key, "body": body, "version": 1}


async def forget_removed(db: Database) -> None:
    """After `move_all`: nobody is about to move these any more."""
    over = {"removed": {"$lt": (await db.hello())["localTime"] - _REMEMBERED}}
    found = await db.entries.find(over, {"_id": 1}, sort={"removed": 1}, limit=_FORGOTTEN_AT_ONCE)
    if found:
        await db.entries.delete_many({"_id": {"$in": [doc["_id"] for doc in found]}, "version": REMOVED})
