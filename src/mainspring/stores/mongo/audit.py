"""Audit records: pushed into the document that the audited step writes, then moved to a collection of their own.

The step and its record are one write, so that neither can be without the other. Moving is idempotent: whoever reads the
audit trail, or folds, moves what a crash has left behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pymongo.errors import BulkWriteError, PyMongoError

from ...model.store.messages import Audit
from .connection.database import Collection, Database, is_unreachable, repeated
from .executions.documents import audit_document, audit_of

_DUPLICATE = 11000
_AT_ONCE = 500


def pushed(audits: Iterable[Audit]) -> list[dict[str, Any]]:
    return [audit_document(audit) for audit in audits]


async def move_out(db: Database, collection: Collection, ids: Sequence[Any]) -> None:
    """Of these documents, those that carry audit records. What was audited is done: trouble here is left for later."""
    try:
        found = await collection.find({"_id": {"$in": ids}, "audits": {"$exists": True}}, {"audits": 1}).to_list()
        if found:
            await _move(db, collection, found)
    except PyMongoError as error:
        if not is_unreachable(error):
            raise


async def move_all(db: Database) -> None:
    for collection in (db.executions, db.locks, db.shelf):
        while found := await collection.find({"audits": {"$exists": True}}, {"audits": 1}).limit(_AT_ONCE).to_list():
            await _move(db, collection, found)


async def _move(db: Database, collection: Collection, found: Sequence[dict[str, Any]]) -> None:
    """Records that were pushed in the meantime stay."""
    records = [record for doc in found for record in doc["audits"]]
    await keep(db, records)
    ids, moved = [doc["_id"] for doc in found], [record["_id"] for record in records]
    await collection.update_many({"_id": {"$in": ids}}, {"$pull": {"audits": {"_id": {"$in": moved}}}})
    await collection.update_many({"_id": {"$in": ids}, "audits": {"$size": 0}}, {"$unset": {"audits": 1}})


async def keep(db: Database, records: Sequence[dict[str, Any]]) -> int:
    """Insert those that are not there yet; how many there were."""
    if not records:
        return 0
    try:
        return len((await repeated(lambda: db.audits.insert_many(records, ordered=False))).inserted_ids)
    except BulkWriteError as error:
        if any(failed["code"] != _DUPLICATE for failed in error.details["writeErrors"]):
            raise
        return int(error.details["nInserted"])


async def audits(db: Database, target: str | None, limit: int, before: str | None) -> list[Audit]:
    await move_all(db)
    wanted: dict[str, Any] = {} if target is None else {"target": target}
    wanted |= {} if before is None else {"_id": {"$lt": before}}
    return [audit_of(doc) async for doc in db.audits.find(wanted).sort("_id", -1).limit(limit)] if limit > 0 else []


async def prune(db: Database, before: str, limit: int) -> int:
    """Found and deleted in two steps: records never change."""
    if limit <= 0:
        return 0
    found = await db.audits.find({"_id": {"$lt": before}}, {"_id": 1}).sort("_id", 1).limit(limit).to_list()
    ids = [doc["_id"] for doc in found]
    return (await repeated(lambda: db.audits.delete_many({"_id": {"$in": ids}}))).deleted_count if ids else 0
