"""Claiming rows that have limits: those with room get their slots in the very update that claims them.

The room is read and shared out, tokens are taken, rows are claimed. Somebody else may have taken the same slot
meanwhile: the unique index refuses that row, and it is judged anew. A row without room is parked. Rows that trade keys
as well are taken one by one: they are judged by their limits first, and take nothing when their running key is held.

Slots are confirmed by a majority, other than plain claims: an election must not give one to two rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from bson import ObjectId
from pymongo import UpdateOne
from pymongo.errors import BulkWriteError, PyMongoError

from ....model.execution import ExecutionRow
from ....model.limits import Limit, decode_limits
from ....model.store.messages import Blocked, ClaimRequest
from ....model.time.instants import Micros
from ...common.limits import limits_before
from ..connection.database import Database, duplicate_index, is_lost
from ..executions.claim_update import taken
from ..executions.documents import execution_of
from ..executions.staged import defer, key_holder, traded
from .buckets import give_back, take_tokens
from .free_slots import Room, room_for
from .parking import STANDING, Full, park, pass_on

_DUPLICATE = 11000
_TRIES = 5

Document = dict[str, Any]


class Outcome(msgspec.Struct):
    """What became of some rows with limits. Those that somebody else took are in none of these."""

    rows: list[ExecutionRow] = []
    blocked: list[Blocked] = []
    parked: int = 0
    look: Micros | None = None  # when parked ones are looked at again
    woken: bool = False  # others have become ready instead


class Chosen(NamedTuple):
    """A row that there is room for, and the slots it is to have."""

    id: str
    limits: str
    slots: list[Document]
    staged: bool

    @property
    def tokens(self) -> list[Limit]:
        return [limit for limit in decode_limits(self.limits) if limit.concurrency is None]


class Judged(NamedTuple):
    """What there is room for, and what not."""

    chosen: list[Chosen]
    full: list[Full]


async def take_limited(db: Database, request: ClaimRequest, ids: Sequence[str], now: Micros) -> Outcome:
    outcome = Outcome()
    left = list(ids)
    for tried in range(_TRIES):
        if left:
            left = await _try(db, request, left, now, outcome, hopeful=tried == 0)
    return outcome


async def _try(
    db: Database, request: ClaimRequest, ids: list[str], now: Micros, outcome: Outcome, *, hopeful: bool
) -> list[str]:
    """Those that have to be tried once more. At first buckets are taken to be full, without a look at them: rows that
    were woken for their tokens find them, and whoever does not is tried once more. Where rows have other limits as
    well, or keys to trade, it would be decided too early who of them has room."""
    fields = {"limits": 1, "staged": 1, "running_unique_key": 1, "running_overlap_key": 1, **STANDING}
    found = db.executions.find({"_id": {"$in": ids}, "ready": {"$exists": True}}, fields)
    docs = {doc["_id"]: doc async for doc in found}
    rows = [docs[id] for id in ids if id in docs]
    limits = [limit for doc in rows for limit in decode_limits(doc["limits"])]
    alike = len(limits) == len(rows) and not any(doc.get("staged") for doc in rows)
    room = await room_for(db, limits, now, hopeful=hopeful and alike)
    judged = _judge(rows, room)
    again: list[str] = []
    chosen: list[Chosen] = []
    for row in judged.chosen:
        if row.staged and await key_holder(db, docs[row.id]) is not None:
            again += await _defer(db, docs[row.id], outcome, now)
        else:
            chosen.append(row)
    again += await _claim(db, request, chosen, docs, outcome, now)
    if judged.full:
        parked = await park(db, judged.full, room)
        outcome.parked += parked.rows
        outcome.woken = outcome.woken or parked.woken
        outcome.look = min((look for look in (outcome.look, parked.look) if look is not None), default=None)
    return again


def _judge(rows: Sequence[Document], room: Room) -> Judged:
    """One after another: whether there is room for a row hangs on those before it."""
    judged = Judged([], [])
    for doc in rows:
        limits = doc["limits"]
        limit = room.full(limits)
        if limit is None:
            judged.chosen.append(Chosen(doc["_id"], limits, room.take(doc["_id"], limits), bool(doc.get("staged"))))
        else:
            judged.full.append(Full(doc, limit, [room.spare(before) for before in limits_before(limits, limit)]))
    return judged


async def _defer(db: Database, doc: Document, outcome: Outcome, now: Micros) -> list[str]:
    """The row again, should its key have been freed meanwhile. The room it had goes to others."""
    blocked = await defer(db, doc)
    if blocked is None:
        return [doc["_id"]]
    outcome.blocked.append(blocked)
    limits = decode_limits(doc["limits"])
    room = await room_for(db, limits, now)
    outcome.woken = await pass_on(db, [room.spare(limit) for limit in limits]) > 0 or outcome.woken
    return []


async def _claim(
    db: Database,
    request: ClaimRequest,
    chosen: list[Chosen],
    docs: dict[str, Document],
    outcome: Outcome,
    now: Micros,
) -> list[str]:
    """Those that have to be tried once more: somebody else was faster with a token, a slot or a key."""
    paid = await _pay(db, chosen)
    if not paid:
        return [row.id for row in chosen]
    claimed, refused = await _update(db, request, paid)
    outcome.rows += claimed
    got = {row.id for row in claimed}
    await _give_back(db, [row for row in paid if row.id not in got])
    again = [row.id for row in chosen if row not in paid]
    for row in paid:
        if refused.get(row.id) in ("unique_key", "overlap_key"):
            again += await _defer(db, docs[row.id], outcome, now)
        elif row.id in refused:
            again.append(row.id)
    return again


async def _pay(db: Database, chosen: Sequence[Chosen]) -> list[Chosen]:
    """Those that got all their tokens, the first ones first."""
    wanted = Counter(limit for row in chosen for limit in row.tokens)
    if not wanted:
        return list(chosen)
    purse = {limit: await take_tokens(db, limit, count) for limit, count in wanted.items()}
    paid: list[Chosen] = []
    for row in chosen:
        if all(purse[limit] > 0 for limit in row.tokens):
            purse.update({limit: purse[limit] - 1 for limit in row.tokens})
            paid.append(row)
    for limit, rest in purse.items():
        if rest:
            await give_back(db, limit.key, rest)
    return paid


async def _give_back(db: Database, rows: Sequence[Chosen]) -> None:
    for key, count in Counter(limit.key for row in rows for limit in row.tokens).items():
        await give_back(db, key, count)


async def _update(
    db: Database, request: ClaimRequest, chosen: Sequence[Chosen]
) -> tuple[list[ExecutionRow], dict[str, str]]:
    """The rows that were claimed, and which index refused which others."""
    stamp = ObjectId()
    refused: dict[str, str] = {}
    writes = [
        UpdateOne(
            {"_id": row.id, "ready": {"$exists": True}},
            [
                *taken(db, request, stamp),
                {"$set": {"slots": {"$literal": row.slots}}},
                {"$unset": ["stood", "place"]},
                *(traded() if row.staged else ()),
            ],
        )
        for row in chosen
    ]
    try:
        await db.executions.bulk_write(writes, ordered=False)
    except BulkWriteError as error:
        failed = error.details["writeErrors"]
        if error.details.get("writeConcernErrors") or any(one["code"] != _DUPLICATE for one in failed):
            raise
        refused = {chosen[one["index"]].id: duplicate_index(one) for one in failed}
    except PyMongoError as error:
        if not is_lost(error):
            raise
    found = db.executions.find({"_id": {"$in": [row.id for row in chosen]}, "claim": stamp})
    rows = {doc["_id"]: execution_of(doc) for doc in await found.to_list()}
    return [rows[row.id] for row in chosen if row.id in rows], refused
