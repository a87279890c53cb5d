"""What makes rows ready: they become due, or what they waited for is freed.

A deferred row waits for a running key, a parked one for a slot or a token of a limit; both are named in `waits_for`. A
process that frees something finds the rows whose turn it is together with its next candidates, and claims or wakes
them; a process that parks or defers a row checks once more afterwards, in case it was freed just before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ....model.execution import State
from ....model.store.messages import Change
from ....model.time.instants import Micros
from ...common.limits import Wait, WaitKind, keys_of
from ...common.rows import WAITERS_AT_ONCE
from ..connection.bulk import value_by_id
from ..connection.database import Database
from ..connection.errors import repeated
from ..documents import READY_LANE, Document, ready_lane_of
from .turns import READY, SHARE_FIELDS, next_turns, ready_entrant
from .wait_lines import limit_of, waited, woken_stages

_PROMOTED_AT_ONCE = 1_000
_KEYS, _RUNNING_KEYS = ("unique_key", "overlap_key"), ("running_unique_key", "running_overlap_key")
_KINDS: tuple[WaitKind, ...] = ("slot", "token")


async def promote(db: Database, now: Micros) -> None:
    """Make future rows that are due ready, a bounded number at once. Those with a share get their tags."""
    due = {"future": True, "due": {"$lte": now}}
    found = await db.executions.find(due, SHARE_FIELDS, sort={"due": 1}, limit=_PROMOTED_AT_ONCE)
    shared = [ready_entrant(doc) for doc in found if "share" in doc]
    plain = [doc["_id"] for doc in found if "share" not in doc]
    ready: list[dict[str, Any]] = [{"$set": {"ready": READY_LANE}}, {"$unset": ["future", "waits_for"]}]
    if plain:
        await repeated(lambda: db.claims.update_many({"_id": {"$in": plain}, **due}, ready))
    if shared:
        tags = await next_turns(db, READY, sorted(shared))
        tagged = [{"$set": {"tag": value_by_id(tags)}}, *ready]
        await repeated(lambda: db.claims.update_many({"_id": {"$in": list(tags)}, **due}, tagged))


# --- freed keys and slots -------------------------------------------------------------------------------------------


class Freed(NamedTuple):
    """What changes have freed: keys, by the names under which rows wait for them, and how many slots of which keys.
    `disturbed` rows had been parked, or woken, and were changed: their wait lines by id."""

    keys: Sequence[str] = ()
    slots: Mapping[str, int] = {}
    disturbed: Mapping[str, str] = {}


NOTHING = Freed()


async def freed_by(db: Database, changes: Sequence[Change]) -> Freed:
    """Rows that this process has claimed are known; the others are read."""
    ran = [change for change in changes if change.expect is State.RUNNING]
    known = {change.id: doc for change in ran if (doc := db.forget_claim(change.id, change.token)) is not None}
    claimed_here = frozenset(known)
    keys: list[str] = []
    slots: Counter[str] = Counter()
    disturbed: dict[str, str] = {}
    if unknown := [change.id for change in changes if change.id not in known]:
        turn = {"turn": {"$and": [{"$eq": ["$staged", True]}, {"$lte": ["$due", db.time.now()]}]}}
        fields = dict.fromkeys((*_KEYS, *_RUNNING_KEYS, "limits", "old_limits", "last_wait_line"), 1)
        found = await db.executions.find({"_id": {"$in": unknown}}, fields | turn)
        known |= {doc["_id"]: doc for doc in found}
    for change in changes:
        doc = known.get(change.id, {})
        if change.to.final:
            keys += waited_keys(*map(doc.get, _KEYS))
            keys += waited_keys(*map(doc.get, _RUNNING_KEYS)) if doc.get("turn") else []  # it passes its turn on
        ran_under = doc.get("limits")
        if change.limits is not None and change.id not in claimed_here:
            ran_under = doc.get("old_limits")
        if change.expect is State.RUNNING and ran_under is not None:
            slots.update(keys_of(ran_under))
        elif change.expect is not State.RUNNING and "last_wait_line" in doc:
            disturbed[change.id] = doc["last_wait_line"]
    return Freed(sorted(set(keys)), slots, disturbed)


async def recheck_disturbed(db: Database, lines: Mapping[str, str]) -> None:
    """`lines` are the wait lines of changed rows by id; the rows lose their places there."""
    keys = {limit_of(line).key for line in lines.values()}
    names = [waited(Wait(key, kind)) for key in sorted(keys) for kind in _KINDS]
    await db.limits.update_many(
        {"_id": {"$in": names}, "recheck_at": {"$exists": True}}, [{"$set": {"recheck_at": db.time.now()}}]
    )
    await db.claims.update_many({"_id": {"$in": list(lines)}}, {"$unset": {"last_wait_line": 1, "place": 1}})


def waited_keys(unique: str | None, overlap: str | None) -> list[str]:
    return [f"{kind}:{key}" for kind, key in (("u", unique), ("o", overlap)) if key is not None]


def waiters_of(db: Database, keys: Sequence[str]) -> list[dict[str, Any]]:
    """The pipeline for the first rows that a claim deferred because of these keys."""
    return [
        {"$match": {"waits_for": {"$in": keys}, "$expr": {"$gt": ["$due", db.time.now()]}}},
        {"$sort": {"priority": -1, "_id": 1}},
        {"$limit": WAITERS_AT_ONCE * len(keys)},
        {"$project": {"waits_for": 1, "limited": 1, "staged": 1, **SHARE_FIELDS}},
    ]


def first_waiters(keys: Sequence[str], waiters: Sequence[Document]) -> tuple[dict[str, Document], list[str]]:
    """Of the first that wait for a key, the first of each lane. Also the keys to look at once more, because the rows of
    others have filled the list."""
    by_key = {key: [doc for doc in waiters if key in doc["waits_for"]][:WAITERS_AT_ONCE] for key in keys}
    first = {(key, ready_lane_of(doc)): doc for key, docs in by_key.items() for doc in reversed(docs)}
    unseen = [key for key in keys if not by_key[key]] if len(waiters) == WAITERS_AT_ONCE * len(keys) else []
    return {doc["_id"]: doc for doc in first.values()}, unseen


async def wake_deferred(db: Database, keys: Sequence[str]) -> int:
    """Make the first rows that wait for these keys due at once."""
    woken, left = 0, list(keys)
    while left:
        first, left = first_waiters(left, await db.executions.aggregate(waiters_of(db, left)))
        woken += await wake_rows(db, list(first))
    return woken


async def wake_rows(db: Database, ids: Sequence[str]) -> int:
    """Make waiting rows due at once."""
    if not ids:
        return 0
    waiting = {"_id": {"$in": ids}, "waits_for": {"$exists": True}}
    return int((await repeated(lambda: db.claims.update_many(waiting, woken_stages(db)))).modified_count)
