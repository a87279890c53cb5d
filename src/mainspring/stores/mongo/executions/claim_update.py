"""What a claim does to a row, and the claim of rows that need nothing but that: one update for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bson import ObjectId
from pymongo.errors import PyMongoError

from ....model.execution import ExecutionRow
from ....model.store.messages import ClaimRequest
from ..connection.clock import later
from ..connection.database import Database, is_lost
from .documents import execution_of


def taken(db: Database, request: ClaimRequest, stamp: ObjectId) -> list[dict[str, Any]]:
    """The stamp tells which claim did it, should its answer get lost."""
    now = _since_creation(db.time.now())
    fields = {
        "state": "running",
        "token": {"$add": ["$token", 1]},
        "owner": {"$literal": request.owner},
        "lease": later(db.time, request.lease),
        "claimed": now,
        "started": {"$ifNull": ["$started", now]},
        "claim": stamp,
    }
    return [{"$set": fields}, {"$unset": ["ready", "tag"]}]


def _since_creation(now: Any) -> Any:
    """The server's now, but not before the creation of the row within the same millisecond: MongoDB knows no finer."""
    same = {"$eq": [{"$floor": {"$divide": ["$created", 1000]}}, {"$floor": {"$divide": [now, 1000]}}]}
    return {"$cond": [same, {"$max": [now, "$created"]}, now]}


async def take_plain(db: Database, request: ClaimRequest, ids: Sequence[str]) -> list[ExecutionRow]:
    stamp = ObjectId()
    claimable = {"_id": {"$in": ids}, "ready": {"$exists": True}}
    try:
        result = await db.claims.update_many(claimable, taken(db, request, stamp))
        if result.modified_count == 0:
            return []
    except PyMongoError as error:
        if not is_lost(error):
            raise
    found = db.executions.find({"_id": {"$in": ids}, "claim": stamp})
    return [execution_of(doc) for doc in await found.to_list()]
