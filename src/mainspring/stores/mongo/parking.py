"""Parked rows: pending, out of the ready order, until a limit has room for them.

What is freed wakes them (`waking`). The net below it is a look at each name that rows are parked under, when its next
token comes and at the latest after five seconds: see `buckets`. A row is parked after its look is on record, and what
it waits for is read once more afterwards: it may have been freed before anybody could see that a row waits.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from ...model.instants import Micros, seconds_to_micros
from ...model.limits import Limit
from ..flow import LOOK_AGAIN, Wait, limit_of, limits_before, look_at_slots, wait_of
from .buckets import forget_full_buckets, look_by
from .database import Database, repeated
from .room import Room, room_for, room_in
from .waking import IN_TURN, wait_named, waited, wake_parked

LOOKS_AT_ONCE = 50
_AT_HAND = 20  # rows that a look reads in case there is room for them
_SLOW = 1.0  # seconds after which a look that was put on record may have been taken off again


class Full(NamedTuple):
    """A row for which this limit has no room."""

    id: str
    limits: str
    limit: Limit


class Parked(NamedTuple):
    """How many were parked, when somebody will look at them, and whether others became ready instead."""

    rows: int
    look: Micros | None
    woken: bool


async def park(db: Database, rows: Sequence[Full], room: Room) -> Parked:
    by_wait: dict[Wait, list[Full]] = {}
    for row in rows:
        by_wait.setdefault(wait_of(row.limit), []).append(row)
    count, woken, looks = 0, 0, []
    for wait, alike in by_wait.items():
        looks.append(room.next_look(alike[0].limit))
        count += await _park_alike(db, wait, alike, looks[-1])
        woken += await _wake_if_freed(db, wait, alike[-1].limit, room.now)
    before = Counter(limit_before for row in rows for limit_before in limits_before(row.limits, row.limit))
    for limit, freed in before.items():  # the room that these rows had there is for others
        woken += await wake_parked(db, wait_of(limit), freed)
    return Parked(count, min(looks, default=None), woken > 0)


async def _park_alike(db: Database, wait: Wait, rows: Sequence[Full], look: Micros) -> int:
    begun = time.monotonic()
    await look_by(db, wait, look)
    ids = [row.id for row in rows]
    fields = {"parked": {"$literal": wait.key}, "waits_for": [{"$literal": waited(wait)}]}
    change: list[dict[str, Any]] = [{"$set": fields}, {"$unset": ["ready"]}]
    ready = {"_id": {"$in": ids}, "ready": {"$exists": True}}
    parked = await repeated(lambda: db.claims.update_many(ready, change))
    if time.monotonic() - begun > _SLOW:
        await look_by(db, wait, look)
    return int(parked.modified_count)


async def _wake_if_freed(db: Database, wait: Wait, limit: Limit, now: Micros) -> int:
    """Tokens come with time, which the look knows; a slot may have been freed before this row could be seen to wait."""
    if wait.kind == "token":
        return 0
    free = (await room_for(db, [limit], now)).left(limit)
    return await wake_parked(db, wait, free) if free > 0 else 0


# --- looks ----------------------------------------------------------------------------------------------------------


async def look_at_parked(db: Database) -> int:
    """Where a look is due: as many rows as there is room for become ready. How many were woken."""
    now = db.time.now()
    first = {
        "from": db.executions.name,
        "localField": "_id",
        "foreignField": "waits_for",
        "pipeline": [{"$sort": dict(IN_TURN)}, {"$limit": _AT_HAND}, {"$project": {"limits": 1}}],
        "as": "rows",
    }
    due: list[dict[str, Any]] = [
        {"$match": {"again": {"$exists": True}, "$expr": {"$lte": ["$again", now]}}},
        {"$sort": {"again": 1}},
        {"$limit": LOOKS_AT_ONCE},
        {"$lookup": first},
        {"$set": {"now": now}},
    ]
    found = await (await db.limits.aggregate(due)).to_list()
    return sum(await asyncio.gather(*(_look(db, doc, int(doc["now"])) for doc in found)))


async def _look(db: Database, doc: dict[str, Any], now: Micros) -> int:
    """By the numbers of the first row. Whoever moves the look on does the waking: the others leave it to that one."""
    if not doc["rows"]:
        await _end_looking(db, doc, now)
        return 0
    wait = wait_named(doc["_id"])
    limit = limit_of(doc["rows"][0]["limits"], wait)
    assert limit is not None  # it waits for it
    room = await room_for(db, [limit], now) if wait.kind == "slot" else room_in(doc, limit, now)
    free = max(0, room.left(limit))
    seen = {"_id": doc["_id"], "again": doc["again"]}
    moved = await db.limits.update_one(seen, {"$set": {"again": room.next_look(limit, free)}})
    return await wake_parked(db, wait, free, [row["_id"] for row in doc["rows"]]) if moved.modified_count else 0


async def _end_looking(db: Database, doc: dict[str, Any], now: Micros) -> None:
    """Nothing is parked there, unless somebody is about to."""
    seen = {"_id": doc["_id"], "again": doc["again"], "touched": doc.get("touched")}
    if doc.get("touched", 0) > now - seconds_to_micros(LOOK_AGAIN):
        await db.limits.update_one(seen, {"$set": {"again": look_at_slots(now)}})
    elif "level" in doc:
        await db.limits.update_one(seen, {"$unset": {"again": 1, "touched": 1}})
    else:
        await db.limits.delete_one(seen)


async def tidy(db: Database, now: Micros) -> None:
    """Looks under which nothing is parked any more, and buckets that are full."""
    await look_at_parked(db)
    await forget_full_buckets(db, now)
