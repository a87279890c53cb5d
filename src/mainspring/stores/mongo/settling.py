"""Settling: each change is one fenced update; all changes of a batch go in one command.

A command says how many of its updates matched, not which. That is all there is to know when all of them did. Otherwise,
or when its answer got lost, the rows themselves tell: each update leaves the stamp of its batch on its row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bson import ObjectId
from pymongo import UpdateOne
from pymongo.errors import PyMongoError

from ...model.changes import Change
from ...model.execution import Attempt, State, encode_attempts
from .clock import Time, later
from .database import Database, is_lost
from .documents import audit_document

READY = {"$cond": [{"$eq": ["$alone", True]}, {"$concat": ["$lane", "/alone"]}, "$lane"]}
"""The lane in which a row of this kind is claimed."""

_TEXTS = ("result_json", "counters_json", "metadata_json")
_RELEASED = ("owner", "lease", "ready", "future", "waits_for")
_UNSEEN = ("parent_id", "tenant", "trace_id", "stray", "rare")
_TRIES = 4

Numbered = tuple[int, Change]


async def settle(db: Database, changes: Sequence[Change]) -> list[bool]:
    applied = [False] * len(changes)
    for batch in rounds(changes):
        done = await _settle_round(db, [change for _, change in batch])
        for number, change in batch:
            applied[number] = change.id in done
    return applied


def rounds(changes: Sequence[Change]) -> list[list[Numbered]]:
    """Numbered changes, no id twice in a round. Hardly ever more than one."""
    left, result = list(enumerate(changes)), []
    while left:
        batch = {change.id: (number, change) for number, change in reversed(left)}
        result.append(sorted(batch.values(), key=lambda item: item[0]))
        taken = {number for number, _ in batch.values()}
        left = [item for item in left if item[0] not in taken]
    return result


async def _settle_round(db: Database, changes: Sequence[Change]) -> frozenset[str]:
    """The ids whose change was applied."""
    stamp = ObjectId()
    writes = [UpdateOne(fence(change, db.time), update(change, stamp, db.time)) for change in changes]
    matched, unsure = await _send(db, writes)
    ids = [change.id for change in changes]
    if matched == len(changes):
        return frozenset(ids)
    if matched == 0 and not unsure:
        return frozenset()
    stamped = db.executions.find({"_id": {"$in": ids}, "settle": stamp}, {"_id": 1})
    return frozenset([doc["_id"] async for doc in stamped])


async def _send(db: Database, writes: Sequence[UpdateOne]) -> tuple[int, bool]:
    """How many matched; whether an answer got lost before, so that more may have."""
    unsure, tried = False, 0
    while True:
        try:
            return (await db.executions.bulk_write(writes, ordered=False)).matched_count, unsure
        except PyMongoError as error:
            tried += 1
            if tried == _TRIES or not is_lost(error):
                raise
            unsure = True


def fence(change: Change, time: Time) -> dict[str, Any]:
    """The row is live and as the decision saw it; for a rescue, its lease has run out by the server's clock."""
    seen: dict[str, Any] = {
        "_id": change.id,
        "live": True,
        "state": change.expect.value,
        "token": change.token,
        "owner": change.owner,
    }
    if change.rescue:
        seen["lease"] = {"$exists": True}
        seen["$expr"] = {"$lte": ["$lease", time.now()]}
    return seen


def update(change: Change, stamp: ObjectId, time: Time) -> Any:
    return _to_pending(change, stamp, time) if change.to is State.PENDING else _to_other(change, stamp)


def _to_other(change: Change, stamp: ObjectId) -> dict[str, Any]:
    """Ended, or waiting for children: nothing here depends on the server's time."""
    fields, gone = _fields(change), set(_RELEASED)
    if change.to.final:
        unseen = not change.keep and not change.todo
        fields |= {"live": False, "finished": change.at, "delta": "settled"}
        fields |= {"rare": None if change.to is State.COMPLETED else True, "todo": change.todo or None}
        fields |= {"unkept": True if change.todo and not change.keep else None, "hidden": unseen or None}
        gone |= set(_UNSEEN) if unseen else set()
    elif change.rescue:
        fields["delta"] = "rescued"
    kept = {name: value for name, value in fields.items() if value is not None and name not in gone}
    gone |= {name for name, value in fields.items() if value is None}
    operators: dict[str, Any] = {"$set": {**kept, "settle": stamp}, "$unset": dict.fromkeys(sorted(gone), 1)}
    pushes: dict[str, Any] = {}
    if change.attempt is not None:
        pushes["attempts"] = attempt_text(change.attempt)
    if change.audit is not None:
        pushes["audits"] = audit_document(change.audit)
    if pushes:
        operators["$push"] = pushes
    if change.rescue:
        operators["$inc"] = {"rescued": 1}
    return operators


def _to_pending(change: Change, stamp: ObjectId, time: Time) -> list[dict[str, Any]]:
    """Due after the delay, counted from the server's now. Values are literals: a text may begin with a dollar sign."""
    fields, gone = _fields(change), {*_RELEASED, "claimed", "progress_json"}
    literal: dict[str, Any] = {name: {"$literal": value} for name, value in fields.items() if value is not None}
    gone |= {name for name, value in fields.items() if value is None}
    literal |= {"due": later(time, change.delay), "settle": stamp}
    if change.attempt is not None:
        literal["attempts"] = _appended("attempts", attempt_text(change.attempt))
    if change.audit is not None:
        literal["audits"] = _appended("audits", audit_document(change.audit))
    if change.rescue:
        literal |= {"rescued": {"$add": [{"$ifNull": ["$rescued", 0]}, 1]}, "delta": "rescued"}
    place = {"future": True} if change.delay > 0 else {"ready": READY}
    return [{"$set": literal}, {"$unset": sorted(gone)}, {"$set": place}]


def _fields(change: Change) -> dict[str, Any]:
    """What every change writes; None means that the field goes."""
    fields: dict[str, Any] = {
        "state": change.to.value,
        "failures": change.failures,
        "crashes": change.crashes,
        "alone": change.alone or None,
        "reason": change.reason,
        "error": change.error,
    }
    if change.started is not None:
        fields["started"] = change.started
    for name in _TEXTS:
        if (text := getattr(change, name)) is not None:
            fields[name] = text
    return fields


def attempt_text(attempt: Attempt) -> str:
    return encode_attempts([attempt])[1:-1]


def _appended(field: str, value: Any) -> dict[str, Any]:
    return {"$concatArrays": [{"$ifNull": [f"${field}", []]}, [{"$literal": value}]]}
