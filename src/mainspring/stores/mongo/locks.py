"""Named locks.

A holder first takes the lock, then draws its token from one counter for all locks; the token counts only if the lock is
still held by then. So a later holder always has the greater token, even if the document of an earlier lock was deleted
in between.
"""

from __future__ import annotations

from typing import Any

from bson import ObjectId
from pymongo import ReturnDocument

from ...model.store.messages import Audit, LockRow
from .connection.bulk import appended
from .connection.database import Database, StorePart, later
from .connection.errors import Refused
from .documents import audit_document, lock_of


class Locks(StorePart):
    async def lock_take(self, name: str, owner: str, ttl: float) -> LockRow | None:
        db, stamp = self.db, ObjectId()
        now = db.time.now()
        fields = {"owner": {"$literal": owner}, "holder": stamp, "acquired": now, "expires": later(db.time, ttl)}
        take: list[dict[str, Any]] = [{"$set": fields}, {"$unset": ["token"]}]
        expired = {"_id": name, "$expr": {"$lte": ["$expires", now]}}
        if not (await db.locks.update_one(expired, take)).matched_count:
            try:
                await db.locks.update_one({"_id": name, "holder": {"$exists": False}}, take, upsert=True)
            except Refused:  # the lock exists and has not expired
                return None
        counter = await db.meta.find_one_and_update(
            {"_id": "lock_token"}, {"$inc": {"last": 1}}, upsert=True, return_document=ReturnDocument.AFTER
        )
        assert counter is not None  # the upsert creates it
        held = {"_id": name, "holder": stamp, "$expr": {"$gt": ["$expires", now]}}
        row = await db.locks.find_one_and_update(
            held, {"$set": {"token": counter["last"]}}, return_document=ReturnDocument.AFTER
        )
        return None if row is None else lock_of(row)

    async def lock_renew(self, name: str, token: int, ttl: float) -> bool:
        return await _expire(self.db, name, token, ttl, None)

    async def lock_release(
        self, name: str, token: int | None, keep_for: float = 0.0, audit: Audit | None = None
    ) -> bool:
        """A released lock stays as an expired document, which nobody sees and the next holder takes over."""
        return await _expire(self.db, name, token, keep_for, audit)

    async def locks(self, first: str = "", limit: int = 1_000) -> list[LockRow]:
        held = {"_id": {"$gte": first}, "expires": {"$gt": await self.db.now()}, "token": {"$exists": True}}
        return [lock_of(doc) for doc in await self.db.locks.find(held, sort={"_id": 1}, limit=limit)]


async def _expire(db: Database, name: str, token: int | None, seconds: float, audit: Audit | None) -> bool:
    held: dict[str, Any] = {"_id": name, "$expr": {"$gt": ["$expires", db.time.now()]}}
    held["token"] = {"$exists": True} if token is None else token
    fields: dict[str, Any] = {"expires": later(db.time, seconds)}
    if audit is not None:
        fields["audits"] = appended("audits", audit_document(audit))
    return bool((await db.locks.update_one(held, [{"$set": fields}])).matched_count)
