"""Staged rows, which trade their keys when they are first claimed: taken one by one, and deferred while a running key
is held by another row."""

from __future__ import annotations

from typing import Any

from bson import ObjectId
from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from ....model.execution import ExecutionRow
from ....model.store.messages import Blocked, ClaimRequest
from ...common.rows import BLOCKED_DEFER
from ..connection.clock import later
from ..connection.database import Database
from ..limits.waking import waited_keys, wake_waiters
from .claim_update import taken
from .documents import execution_of
from .insert import overlap_holder, unique_holder

_KEY_TRIES = 5


async def take_staged(db: Database, request: ClaimRequest, id: str) -> ExecutionRow | Blocked | None:
    """None for a row that somebody else has taken."""
    for _ in range(_KEY_TRIES):
        stamp = ObjectId()
        try:
            row = await db.claims.find_one_and_update(
                {"_id": id, "ready": {"$exists": True}},
                [*taken(db, request, stamp), *traded()],
                return_document=ReturnDocument.AFTER,
            )
            return None if row is None else execution_of(row)
        except DuplicateKeyError:
            row = await db.executions.find_one({"_id": id, "ready": {"$exists": True}})
        if row is None:
            return None
        blocked = await defer(db, row)
        if blocked is not None:
            return blocked
    return None


def traded() -> list[dict[str, Any]]:
    """The running keys in the place of those it waited under."""
    keys = {name: {"$ifNull": [f"$running_{name}", "$$REMOVE"]} for name in ("unique_key", "overlap_key")}
    return [{"$set": keys}, {"$unset": ["staged"]}]


async def defer(db: Database, row: dict[str, Any]) -> Blocked | None:
    """None when the key has been freed meanwhile, or the row is ready no longer."""
    holder = await key_holder(db, row)
    if holder is None:
        return None
    keys = waited_keys(*_wanted(row))
    fields = {"due": later(db.time, BLOCKED_DEFER), "future": True, "waits_for": {"$literal": keys}}
    deferred = await db.claims.find_one_and_update(
        {"_id": row["_id"], "ready": {"$exists": True}},
        [{"$set": fields}, {"$unset": ["ready", "tag"]}],
        return_document=ReturnDocument.AFTER,
    )
    if deferred is None:
        return None
    if await key_holder(db, row) is None:  # it ended before it could see that somebody waits
        await wake_waiters(db, keys)
    return Blocked(execution_of(deferred), holder)


async def key_holder(db: Database, row: dict[str, Any]) -> str | None:
    """Who holds one of the running keys of this row."""
    unique, overlap = _wanted(row)
    holders = (await unique_holder(db, unique), await overlap_holder(db, overlap))
    return next((holder for holder in holders if holder not in (None, row["_id"])), None)


def _wanted(row: dict[str, Any]) -> tuple[str | None, str | None]:
    return row.get("running_unique_key"), row.get("running_overlap_key")
