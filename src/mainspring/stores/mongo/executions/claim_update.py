"""Claiming chosen rows: what a claim does to a row, the claim of plain rows, and that of staged ones.

Plain rows are one update for all of them. Staged rows, which trade their keys when they are first claimed, are claimed
one by one: the unique index refuses a row whose running key is held, and that row is deferred.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bson import ObjectId
from pymongo import ReturnDocument

from ....model.execution import ExecutionRow, next_token
from ....model.store.messages import Blocked, ClaimRequest
from ...common.rows import BLOCKED_DEFER
from ..connection.database import Database, later
from ..connection.errors import Refused, Unsure
from ..documents import Document, execution_of
from ..limits.waking import waited_keys, wake_deferred
from .insert import overlap_holder, unique_holder

_KEY_TRIES = 5
READY = {"ready": {"$exists": True}}


def claim_stages(db: Database, request: ClaimRequest, stamp: ObjectId) -> list[dict[str, Any]]:
    """The update of a claimed row. The stamp identifies the claim if its answer gets lost."""
    now = _since_creation(db.time.now())
    fields = {
        "state": "running",
        "token": _next_token(request.stamp),
        "owner": {"$literal": request.owner},
        "lease": later(db.time, request.lease),
        "claimed": now,
        "started": {"$ifNull": ["$started", now]},
        "claim": stamp,
    }
    return [{"$set": fields}, {"$unset": ["ready", "tag"]}]


def _next_token(stamp: int) -> dict[str, Any]:
    """`model.execution.next_token`, on the server."""
    return {"$add": [{"$subtract": ["$token", {"$mod": ["$token", next_token(0, 0)]}]}, next_token(0, stamp)]}


def _since_creation(now: Any) -> Any:
    """The server's now, but not before the creation of the row within the same millisecond: MongoDB knows no finer."""
    same = {"$eq": [{"$floor": {"$divide": ["$created", 1000]}}, {"$floor": {"$divide": [now, 1000]}}]}
    return {"$cond": [same, {"$max": [now, "$created"]}, now]}


async def claim_plain(db: Database, request: ClaimRequest, ids: Sequence[str]) -> list[ExecutionRow]:
    """Rows that another process has claimed meanwhile are left out."""
    stamp = ObjectId()
    try:
        result = await db.claims.update_many({"_id": {"$in": ids}, **READY}, claim_stages(db, request, stamp))
        if result.modified_count == 0:
            return []
    except Unsure:
        pass  # the stamps tell
    return await claimed_by(db, ids, stamp)


async def claimed_by(db: Database, ids: Sequence[str], stamp: ObjectId) -> list[ExecutionRow]:
    return [execution_of(doc) for doc in await db.executions.find({"_id": {"$in": list(ids)}, "claim": stamp})]


# --- staged rows ----------------------------------------------------------------------------------------------------


async def claim_staged(db: Database, request: ClaimRequest, id: str) -> ExecutionRow | Blocked | None:
    """None for a row that another process has claimed."""
    for _ in range(_KEY_TRIES):
        stages = [*claim_stages(db, request, ObjectId()), *trade_keys()]
        try:
            row = await db.claims.find_one_and_update(
                {"_id": id, **READY}, stages, return_document=ReturnDocument.AFTER
            )
            return None if row is None else execution_of(row)
        except Refused:
            row = await db.executions.find_one({"_id": id, **READY})
        if row is None:
            return None
        blocked = await defer(db, row)
        if blocked is not None:
            return blocked
    return None


def trade_keys() -> list[dict[str, Any]]:
    """The running keys replace those that the row waited under."""
    keys = {name: {"$ifNull": [f"$running_{name}", "$$REMOVE"]} for name in ("unique_key", "overlap_key")}
    return [{"$set": keys}, {"$unset": ["staged"]}]


async def defer(db: Database, row: Document) -> Blocked | None:
    """Defer a row whose running key is held. None when the key has been freed, or the row is no longer ready."""
    holder = await key_holder(db, row)
    if holder is None:
        return None
    keys = waited_keys(*_running_keys(row))
    fields = {"due": later(db.time, BLOCKED_DEFER), "future": True, "waits_for": {"$literal": keys}}
    deferred = await db.claims.find_one_and_update(
        {"_id": row["_id"], **READY},
        [{"$set": fields}, {"$unset": ["ready", "tag"]}],
        return_document=ReturnDocument.AFTER,
    )
    if deferred is None:
        return None
    if await key_holder(db, row) is None:  # it ended before it could see that a row waits
        await wake_deferred(db, keys)
    return Blocked(execution_of(deferred), holder)


async def key_holder(db: Database, row: Document) -> str | None:
    """The id of another row that holds one of the running keys of this row."""
    unique, overlap = _running_keys(row)
    holders = (await unique_holder(db, unique), await overlap_holder(db, overlap))
    return next((holder for holder in holders if holder not in (None, row["_id"])), None)


def _running_keys(row: Document) -> tuple[str | None, str | None]:
    return row.get("running_unique_key"), row.get("running_overlap_key")
