"""Audit records: pushed into the document that the audited step writes, and moved to a collection of their own later.

The step and its record are one write, so that neither exists without the other. Reading the audit trail moves all
records first, `fold` does so every few seconds, and a document is never deleted before its records are moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...model.store.messages import Audit
from . import failure_notes
from .connection.collection import Collection
from .connection.database import Database, StorePart
from .connection.errors import repeated
from .documents import audit_of, logs_after

_MOVED_AT_ONCE = 500


class Audits(StorePart):
    async def audits(self, target: str | None = None, limit: int = 100, before: str | None = None) -> list[Audit]:
        await move_all(self.db)
        wanted: dict[str, Any] = {} if target is None else {"target": target}
        wanted |= {} if before is None else {"_id": {"$lt": before}}
        if limit < 1:
            return []
        return [audit_of(doc) for doc in await self.db.audits.find(wanted, sort={"_id": -1}, limit=limit)]

    async def prune_audits(self, before: str, limit: int) -> int:
        """In two steps: records never change, so the ids that were found may be deleted later."""
        if limit < 1:
            return 0
        await move_all(self.db)
        records = self.db.audits
        found = await records.find({"_id": {"$lt": before}}, {"_id": 1}, sort={"_id": 1}, limit=limit)
        ids = [doc["_id"] for doc in found]
        return (await repeated(lambda: records.delete_many({"_id": {"$in": ids}}))).deleted_count if ids else 0


async def move_all(db: Database) -> None:
    for collection in (db.executions, db.locks, db.entries):
        carrying = {"audits": {"$exists": True}}
        while found := await collection.find(carrying, {"audits": 1}, limit=_MOVED_AT_ONCE):
            await move(db, collection, found)


async def move(db: Database, collection: Collection, found: Sequence[dict[str, Any]]) -> None:
    """Records that were pushed in the meantime stay."""
    records = [record for doc in found for record in doc["audits"]]
    await db.audits.insert_missing(records)
    ids, moved = [doc["_id"] for doc in found], [record["_id"] for record in records]
    if collection is db.executions:
        await _delete_hidden(db, ids, moved)
    await collection.update_many({"_id": {"$in": ids}}, {"$pull": {"audits": {"_id": {"$in": moved}}}})
    await collection.update_many({"_id": {"$in": ids}, "audits": {"$size": 0}}, {"$unset": {"audits": 1}})


async def _delete_hidden(db: Database, ids: Sequence[str], moved: Sequence[str]) -> None:
    """Delete those of these rows that were deleted together with such a record: they are hidden, and carry it until it
    is moved, so that no crash leaves them behind. Rows that the statistics do not include yet are left to `fold`."""
    hidden = {"_id": {"$in": list(ids)}, "hidden": True, "live": False, "delta": {"$ne": True}}
    found = await db.executions.find(hidden, {"notes": 1})
    if not found:
        return
    for doc in found:
        await db.logs.delete_many({"_id": logs_after(doc["_id"], 0)})
    if noted := [doc for doc in found if "notes" in doc]:
        await failure_notes.move(db, noted)
    gone = {**hidden, "_id": {"$in": [doc["_id"] for doc in found]}}
    others = {"audits": {"$not": {"$elemMatch": {"_id": {"$nin": list(moved)}}}}}
    await repeated(lambda: db.executions.delete_many({**gone, **others}))
