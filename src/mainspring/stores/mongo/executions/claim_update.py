"""Claiming chosen rows: what a claim does to a row, the claim of plain rows, and that of staged ones.

Plain rows are one update for all of them. Staged rows trade their keys when they are first claimed: each has an update
of its own in one command, and the unique index refuses those whose running key is held. They are deferred together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bson import ObjectId
from msgspec.structs import replace
from pymongo import ReturnDocument, UpdateOne

from ....model.execution import ExecutionRow, next_token
from ....model.store.messages import Blocked, ClaimRequest
from ....model.time.instants import Micros, seconds_to_micros
from ...common.rows import BLOCKED_DEFER
from ..connection.bulk import value_by_id
from ..connection.collection import Collection
from ..connection.database import Database, later
from ..connection.errors import Refused, Unsure
from ..documents import Document, execution_of
from ..limits.wait_lines import READY, claimable
from ..limits.waking import waited_keys, wake_deferred
from .candidates import Claimed

_KEY_TRIES = 5
Stages = Sequence[Mapping[str, Any]]


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


TRADE_KEYS: Stages = (
    {"$set": {name: {"$ifNull": [f"$running_{name}", "$$REMOVE"]} for name in ("unique_key", "overlap_key")}},
    {"$unset": ["staged"]},
)
"""The running keys replace those that the row waited under."""


async def claim_plain(db: Database, request: ClaimRequest, ids: Sequence[str]) -> list[ExecutionRow]:
    """Rows that another process has claimed meanwhile are left out."""
    stamp = ObjectId()
    try:
        result = await db.claims.update_many(_plain(ids), claim_stages(db, request, stamp))
        if result.modified_count == 0:
            return []
    except Unsure:
        pass  # the stamps tell
    return await claimed_by(db, ids, stamp)


def _plain(ids: Sequence[str]) -> dict[str, Any]:
    """Those of these rows that are still ready, and have not got limits meanwhile."""
    return {"_id": {"$in": ids}, **READY, "limited": {"$exists": False}}


async def claimed_by(db: Database, ids: Sequence[str], stamp: ObjectId) -> list[ExecutionRow]:
    return [execution_of(doc) for doc in await db.executions.find({"_id": {"$in": list(ids)}, "claim": stamp})]


# --- rows that take something when they are claimed -----------------------------------------------------------------


async def claim_each(
    db: Database, request: ClaimRequest, taking: Mapping[str, Stages], collection: Collection
) -> tuple[list[ExecutionRow], dict[str, str]]:
    """Claim these rows, each with stages of its own, in the order given. Returns the claimed ones, and those that a
    unique index refused: id to the first field of the index."""
    stamp, ids = ObjectId(), list(taking)
    due = {"$cond": [{"$eq": ["$future", True]}, db.time.now(), "$due"]}  # for a row that was deferred
    waiting: Stages = [{"$set": {"due": due}}, {"$unset": ["future", "waits_for", "parked", "wait_line"]}]
    stages = [*claim_stages(db, request, stamp), *waiting]
    refused: dict[str, str] = {}
    try:
        if len(ids) == 1:
            update = [*stages, *taking[ids[0]]]
            doc = await collection.find_one_and_update(claimable(ids), update, return_document=ReturnDocument.AFTER)
            return ([] if doc is None else [execution_of(doc)]), {}
        await collection.bulk_write([UpdateOne(claimable([id]), [*stages, *own]) for id, own in taking.items()])
    except Refused as refusal:
        refused = {ids[n]: field for n, field in refusal.fields.items()}
    except Unsure:
        pass  # the stamps tell
    if len(refused) == len(ids):
        return [], refused
    rows = {row.id: row for row in await claimed_by(db, ids, stamp)}
    return [rows[id] for id in ids if id in rows], refused


async def claim_staged(db: Database, request: ClaimRequest, ids: Sequence[str], answer: Claimed) -> None:
    """Adds the outcome to the answer: rows that another process has claimed meanwhile are not in it."""
    left = list(ids)
    for _ in range(_KEY_TRIES):
        if left:
            claimed, refused = await claim_each(db, request, dict.fromkeys(left, TRADE_KEYS), db.claims)
            answer.rows += claimed
            deferred, left = await defer(db, list(refused), answer.now) if refused else ([], [])
            answer.blocked += deferred


async def defer(db: Database, ids: Sequence[str], now: Micros) -> tuple[list[Blocked], list[str]]:
    """Defer rows whose running keys are held. Returns these, and the others that are still ready."""
    docs = {doc["_id"]: doc for doc in await db.executions.find(claimable(ids))}
    holders = await key_holders(db, docs.values())
    keys = {id: waited_keys(*running_keys(docs[id])) for id in ids if id in holders}
    if not keys:
        return [], [id for id in ids if id in docs]
    due = now + seconds_to_micros(BLOCKED_DEFER)
    fields = {"due": due, "future": True, "waits_for": value_by_id(keys)}
    change: Stages = [{"$set": fields}, {"$unset": ["ready", "tag", "parked", "wait_line"]}]
    done = (await db.claims.update_many(claimable(list(keys)), change)).modified_count
    if done < len(keys):  # another process has claimed or changed some of them
        there = {"_id": {"$in": list(keys)}, "future": True, "due": due}
        keys = {doc["_id"]: keys[doc["_id"]] for doc in await db.executions.find(there, {"_id": 1})}
    held = await key_holders(db, [docs[id] for id in keys])
    # Holders may have ended before they could see that a row waits.
    await wake_deferred(db, [key for id, names in keys.items() if id not in held for key in names])
    rows = {id: replace(execution_of(docs[id]), due=due, parked=None) for id in keys}
    return [Blocked(rows[id], holders[id]) for id in keys], [id for id in ids if id in docs and id not in holders]


async def key_holders(db: Database, rows: Iterable[Document]) -> dict[str, str]:
    """The ids of those of these rows whose running keys other rows hold, each with the holder."""
    wanted = {doc["_id"]: running_keys(doc) for doc in rows}
    unique = [key for key, _ in wanted.values() if key is not None]
    overlap = [key for _, key in wanted.values() if key is not None]
    if not unique and not overlap:
        return {}
    either = [{"live": True, "unique_key": {"$in": unique}}, {"live": True, "overlap_key": {"$in": overlap}}]
    found = await db.executions.find({"$or": either}, {"unique_key": 1, "overlap_key": 1})
    by_unique = {doc.get("unique_key"): doc["_id"] for doc in found}
    by_overlap = {doc.get("overlap_key"): doc["_id"] for doc in found}
    holders: dict[str, str] = {}
    for id, (key, overlap_key) in wanted.items():
        both = (by_unique.get(key) if key else None, by_overlap.get(overlap_key) if overlap_key else None)
        holder = next((one for one in both if one not in (None, id)), None)
        if holder is not None:
            holders[id] = holder
    return holders


def running_keys(row: Document) -> tuple[str | None, str | None]:
    return row.get("running_unique_key"), row.get("running_overlap_key")
