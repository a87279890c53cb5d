"""Named locks.

A lock is taken first and given its token then: whoever holds it draws the next number of one counter for all locks, and
it counts only if the lock is still held. So a later holder always has the greater token, also when the document of an
older one has been forgotten in between.
"""

from __future__ import annotations

from typing import Any

from bson import ObjectId
from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from ...model.store.messages import Audit, LockRow
from . import audit as auditing
from .connection.clock import later
from .connection.database import Database
from .executions.documents import audit_document


async def lock_take(db: Database, name: str, owner: str, ttl: float) -> LockRow | None:
    mine, now = ObjectId(), db.time.now()
    fields = {"owner": {"$literal": owner}, "holder": mine, "acquired": now, "expires": later(db.time, ttl)}
    take: list[dict[str, Any]] = [{"$set": fields}, {"$unset": ["token"]}]
    over = {"_id": name, "$expr": {"$lte": ["$expires", now]}}
    if not (await db.locks.update_one(over, take)).matched_count:
        try:
            await db.locks.update_one({"_id": name, "holder": {"$exists": False}}, take, upsert=True)
        except DuplicateKeyError:  # it is there, and its time is not over
            return None
    counter = await db.meta.find_one_and_update(
        {"_id": "lock_token"}, {"$inc": {"last": 1}}, upsert=True, return_document=ReturnDocument.AFTER
    )
    assert counter is not None  # it was made, if need be
    held = {"_id": name, "holder": mine, "$expr": {"$gt": ["$expires", now]}}
    row = await db.locks.find_one_and_update(
        held, {"$set": {"token": counter["last"]}}, return_document=ReturnDocument.AFTER
    )
    return None if row is None else _lock(row)


async def lock_renew(db: Database, name: str, token: int, ttl: float) -> bool:
    return await _expire(db, name, token, ttl, None)


async def lock_release(db: Database, name: str, token: int | None, keep_for: float, audit: Audit | None) -> bool:
    """A lock let go stays as a document that is over: nobody sees it, and the next holder takes it over."""
    released = await _expire(db, name, token, keep_for, audit)
    if released and audit is not None:
        await auditing.move_out(db, db.locks, [name])
    return released


async def _expire(db: Database, name: str, token: int | None, seconds: float, audit: Audit | None) -> bool:
    held: dict[str, Any] = {"_id": name, "$expr": {"$gt": ["$expires", db.time.now()]}}
    held["token"] = {"$exists": True} if token is None else token
    fields: dict[str, Any] = {"expires": later(db.time, seconds)}
    if audit is not None:
        record = [{"$literal": audit_document(audit)}]
        fields["audits"] = {"$concatArrays": [{"$ifNull": ["$audits", []]}, record]}
    return bool((await db.locks.update_one(held, [{"$set": fields}])).matched_count)


async def locks(db: Database) -> list[LockRow]:
    held = {"expires": {"$gt": await db.now()}, "token": {"$exists": True}}
    return [_lock(doc) async for doc in db.locks.find(held).sort("_id", 1)]


def _lock(doc: dict[str, Any]) -> LockRow:
    return LockRow(
        name=doc["_id"],
        owner=doc["owner"],
        token=int(doc["token"]),
        acquired=int(doc["acquired"]),
        expires=int(doc["expires"]),
    )
