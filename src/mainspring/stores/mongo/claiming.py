"""Claiming in two steps: look which rows come next, then take them with one update that leaves the stamp of this claim.

Rows that somebody else took in between are passed over, and others are looked for. Staged rows, which trade their keys
when they are first claimed, are taken one by one: when a running key is held, the unique index refuses that row alone.
Taking rows one by one with findOneAndUpdate was six to nine times slower (benchmarks/mongo_claim.py).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import islice
from typing import Any

import msgspec
from bson import ObjectId
from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError, PyMongoError

from ...model.changes import Blocked, ClaimRequest
from ...model.execution import Execution
from ...model.instants import Micros
from ..shared import BLOCKED_DEFER, picked
from .adding import overlap_holder, unique_holder
from .clock import later
from .database import Database, is_lost, repeated
from .documents import execution_of
from .looking import Outlook, look
from .settling import READY

PROMOTED_AT_ONCE = 1_000
_PROMOTIONS = 10
_ROUNDS = 12
_KEY_TRIES = 5


class Claimed(msgspec.Struct):
    rows: list[Execution] = []
    blocked: list[Blocked] = []
    more: bool = False
    alone_waiting: bool = False
    next_due: Micros | None = None
    now: Micros = 0
    woken: bool = False


async def claim(db: Database, request: ClaimRequest, ended: Sequence[str]) -> Claimed:
    """`ended` are executions that ended just now: whoever waits for their keys is due at once."""
    limit = min(request.limit, 1) if request.alone else request.limit
    answer = Claimed()
    for tried in range(_ROUNDS):
        room = limit - len(answer.rows) - len(answer.blocked)
        spread = 4 if tried else 1  # who was late once looks further ahead, where nobody else is
        outlook = await _look(db, request, room * spread + 1, ended if tried == 0 else ())
        answer.woken = answer.woken or outlook.waiters
        candidates = outlook.wanted(request)
        chosen = _chosen(candidates, request.turn, room, skip=tried > 0)
        rows, blocked = await _take(db, request, chosen, outlook)
        answer.rows += rows
        answer.blocked += blocked
        count, taken = sum(map(len, candidates.values())), len(rows) + len(blocked)
        _learn(answer, request, outlook, count - len(chosen))
        if taken == len(chosen) and (taken == room or count <= taken):
            break
    return answer


def _chosen(candidates: dict[str, Any], turn: int, room: int, *, skip: bool) -> list[str]:
    ids = list(picked(candidates, turn)) if skip else list(islice(picked(candidates, turn), room))
    first = random.randrange(len(ids) - room + 1) if len(ids) > room else 0
    return ids[first : first + room]


def _learn(answer: Claimed, request: ClaimRequest, outlook: Outlook, left: int) -> None:
    answer.more = left > 0
    answer.alone_waiting = left > 0 if request.alone else bool(outlook.alone)
    answer.now = outlook.now
    known = [outlook.next_due, *(blocked.execution.due for blocked in answer.blocked)]
    answer.next_due = min((due for due in known if due is not None), default=None)


async def _look(db: Database, request: ClaimRequest, most: int, ended: Sequence[str]) -> Outlook:
    """What there is once waiters of freed keys are woken, if there were any, and rows whose time has come are ready."""
    outlook = await look(db, request, most, waiters=bool(ended))
    if outlook.waiters:
        await wake_waiters(db, await keys_of(db, ended))
        outlook = await look(db, request, most, waiters=False)
        outlook.waiters = True
    for _ in range(_PROMOTIONS):
        if outlook.next_due is None or outlook.next_due > outlook.now:
            break
        await promote(db, outlook.now)
        waiters, outlook = outlook.waiters, await look(db, request, most, waiters=False)
        outlook.waiters = waiters
    return outlook


# --- time -----------------------------------------------------------------------------------------------------------


async def promote(db: Database, now: Micros) -> None:
    """Future rows whose time has come become ready: a bounded number at once."""
    due = {"future": True, "due": {"$lte": now}}
    found = db.executions.find(due, {"_id": 1}).sort("due").limit(PROMOTED_AT_ONCE)
    ids = [doc["_id"] async for doc in found]
    ripe: list[dict[str, Any]] = [{"$set": {"ready": READY}}, {"$unset": ["future", "waits_for"]}]
    await repeated(lambda: db.claims.update_many({"_id": {"$in": ids}, **due}, ripe))


async def keys_of(db: Database, ids: Sequence[str]) -> list[str]:
    """The keys that these executions held, as waiters name them."""
    found = db.executions.find({"_id": {"$in": ids}}, {"unique_key": 1, "overlap_key": 1})
    return [key async for doc in found for key in waited_keys(doc.get("unique_key"), doc.get("overlap_key"))]


def waited_keys(unique: str | None, overlap: str | None) -> list[str]:
    return [f"{kind}:{key}" for kind, key in (("u", unique), ("o", overlap)) if key is not None]


async def wake_waiters(db: Database, keys: Sequence[str]) -> None:
    """Rows that a claim deferred because of one of these keys are due at once, unless they are due already."""
    if not keys:
        return
    now = db.time.now()
    waiting = {"waits_for": {"$in": keys}, "future": True, "$expr": {"$gt": ["$due", now]}}
    due: list[dict[str, Any]] = [{"$set": {"due": now, "ready": READY}}, {"$unset": ["future", "waits_for"]}]
    await repeated(lambda: db.claims.update_many(waiting, due))


# --- taking ---------------------------------------------------------------------------------------------------------


async def _take(
    db: Database, request: ClaimRequest, ids: Sequence[str], outlook: Outlook
) -> tuple[list[Execution], list[Blocked]]:
    """In the order of picking; what somebody else has taken meanwhile is left out."""
    plain = [id for id in ids if id not in outlook.staged]
    rows = {row.id: row for row in (await _take_plain(db, request, plain) if plain else [])}
    blocked: list[Blocked] = []
    for id in ids:
        if id in outlook.staged:
            match await _take_staged(db, request, id):
                case Blocked() as refused:
                    blocked.append(refused)
                case Execution() as row:
                    rows[id] = row
                case None:
                    pass
    return [rows[id] for id in ids if id in rows], blocked


def taken(db: Database, request: ClaimRequest, stamp: ObjectId) -> list[dict[str, Any]]:
    """What a claim does to a row. The stamp tells which claim did it, should its answer get lost."""
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
    return [{"$set": fields}, {"$unset": ["ready"]}]


def _since_creation(now: Any) -> Any:
    """The server's now, but not before the creation of the row within the same millisecond: MongoDB knows no finer."""
    same = {"$eq": [{"$floor": {"$divide": ["$created", 1000]}}, {"$floor": {"$divide": [now, 1000]}}]}
    return {"$cond": [same, {"$max": [now, "$created"]}, now]}


async def _take_plain(db: Database, request: ClaimRequest, ids: Sequence[str]) -> list[Execution]:
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


async def _take_staged(db: Database, request: ClaimRequest, id: str) -> Execution | Blocked | None:
    for _ in range(_KEY_TRIES):
        stamp = ObjectId()
        keys = {name: {"$ifNull": [f"$running_{name}", "$$REMOVE"]} for name in ("unique_key", "overlap_key")}
        trade = [*taken(db, request, stamp), {"$set": keys}, {"$unset": ["staged"]}]
        try:
            row = await db.claims.find_one_and_update(
                {"_id": id, "ready": {"$exists": True}}, trade, return_document=ReturnDocument.AFTER
            )
            return None if row is None else execution_of(row)
        except DuplicateKeyError:
            row = await db.executions.find_one({"_id": id, "ready": {"$exists": True}})
        if row is None:
            return None
        blocked = await _defer(db, row)
        if blocked is not None:
            return blocked
    return None


async def _defer(db: Database, row: dict[str, Any]) -> Blocked | None:
    """None when the key has been freed meanwhile."""
    wanted = row.get("running_unique_key"), row.get("running_overlap_key")
    holder = await _key_holder(db, row["_id"], *wanted)
    if holder is None:
        return None
    keys = waited_keys(*wanted)
    fields = {"due": later(db.time, BLOCKED_DEFER), "future": True, "waits_for": {"$literal": keys}}
    deferred = await db.claims.find_one_and_update(
        {"_id": row["_id"], "ready": {"$exists": True}},
        [{"$set": fields}, {"$unset": ["ready"]}],
        return_document=ReturnDocument.AFTER,
    )
    if deferred is None:
        return None
    if await _key_holder(db, row["_id"], *wanted) is None:  # it ended before it could see that somebody waits
        await wake_waiters(db, keys)
    return Blocked(execution_of(deferred), holder)


async def _key_holder(db: Database, id: str, unique: str | None, overlap: str | None) -> str | None:
    holders = (await unique_holder(db, unique), await overlap_holder(db, overlap))
    return next((holder for holder in holders if holder not in (None, id)), None)
