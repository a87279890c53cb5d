"""Parked rows: pending, out of the ready order, until a limit has room for them.

What is freed wakes them (`waking`). The net below it is a look at each name that rows are parked under, when its next
token comes and at the latest after five seconds: see `buckets`. A row is parked after its look is on record, and what
it waits for is read once more afterwards: it may have been freed before anybody could see that a row waits.

A row that is parked stands in a line (`stands`), and remembers which (`stood`) until it is claimed or changed: woken,
and parked there once more, it has the place it had.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ....model.limits import Limit
from ....model.time.instants import Micros, seconds_to_micros
from ...common.limits import LOOK_AGAIN, Wait, look_at_slots, wait_of
from ..connection.database import Database, repeated
from ..executions.documents import lane_name
from .buckets import forget_full_buckets, look_by
from .free_slots import Room, Spare, room_for, room_in
from .shares import entering_document
from .wait_lines import IN_TURN, Standing, limit_in, line_name, places, wait_named, waited
from .waking import wake_line

LOOKS_AT_ONCE = 50
_AT_HAND = 20  # rows of a line that a look reads in case there is room for them
_SLOW = 1.0  # seconds after which a look that was put on record may have been taken off again

STANDING = {"lane": 1, "alone": 1, "priority": 1, "share": 1, "weight": 1, "stood": 1, "place": 1}
"""What has to be known of a row that is parked."""


class Full(NamedTuple):
    """A row for which this limit has no room, and what the limits before had at that moment."""

    doc: dict[str, Any]
    limit: Limit
    spare: Sequence[Spare]

    @property
    def line(self) -> str:
        shared, alone = "share" in self.doc, bool(self.doc.get("alone"))
        return line_name(self.limit, lane_name(self.doc["lane"], fair=shared, alone=alone))


class Parked(NamedTuple):
    """How many were parked, when somebody will look at them, and whether others became ready instead."""

    rows: int
    look: Micros | None
    woken: bool


async def park(db: Database, rows: Sequence[Full], room: Room) -> Parked:
    by_wait: dict[Wait, list[Full]] = {}
    for row in rows:
        by_wait.setdefault(wait_of(row.limit), []).append(row)
    turns = await _turns(db, [row for row in rows if "share" in row.doc])
    count, woken, looks = 0, 0, []
    for wait, alike in by_wait.items():
        looks.append(min(room.next_look(row.limit) for row in alike))
        count += await _park_alike(db, wait, alike, looks[-1], turns)
        woken += await _wake_if_freed(db, {row.line for row in alike}, room.now) if wait.kind == "slot" else 0
    woken += await pass_on(db, [spare for row in rows for spare in row.spare])
    return Parked(count, min(looks, default=None), woken > 0)


async def _turns(db: Database, rows: Sequence[Full]) -> dict[str, int]:
    """The places of those that have a share; the others have none, as one."""
    if not rows:
        return {}
    standing = [
        Standing(row.line, entering_document(row.doc), row.doc["place"] if row.doc.get("stood") == row.line else None)
        for row in rows
    ]
    return await places(db, standing)


async def _park_alike(db: Database, wait: Wait, rows: Sequence[Full], look: Micros, turns: Mapping[str, int]) -> int:
    begun = time.monotonic()
    lines = {row.line for row in rows}
    await look_by(db, wait, look, lines)
    ids = [row.doc["_id"] for row in rows]
    own = {"$arrayElemAt": [{"$literal": [row.line for row in rows]}, {"$indexOfArray": [{"$literal": ids}, "$_id"]}]}
    place = {"$arrayElemAt": [[turns.get(id, 0) for id in ids], {"$indexOfArray": [{"$literal": ids}, "$_id"]}]}
    fields = {
        "parked": {"$literal": wait.key},
        "waits_for": [{"$literal": waited(wait)}],
        "stands": own,
        "stood": own,
        "place": place,
    }
    change: list[dict[str, Any]] = [{"$set": fields}, {"$unset": ["ready", "tag"]}]
    ready = {"_id": {"$in": ids}, "ready": {"$exists": True}}
    parked = await repeated(lambda: db.claims.update_many(ready, change))
    if time.monotonic() - begun > _SLOW:
        await look_by(db, wait, look, lines)
    return int(parked.modified_count)


async def _wake_if_freed(db: Database, lines: set[str], now: Micros) -> int:
    """Tokens come with time, which the look knows; a slot may have been freed before this row could be seen to wait."""
    room = await room_for(db, map(limit_in, lines), now)
    return sum(await asyncio.gather(*(wake_line(db, line, room.left(limit_in(line))) for line in lines)))


async def pass_on(db: Database, spare: Sequence[Spare]) -> int:
    """One row of each line that waits for such a key gets the room that another one has there and cannot use."""
    if not spare:
        return 0
    names = {waited(each.wait) for each in spare}
    found = {doc["_id"]: doc async for doc in db.limits.find({"_id": {"$in": list(names)}}, {"lines": 1})}
    counts = Counter(
        line
        for each in spare
        for line in found.get(waited(each.wait), {}).get("lines", ())
        if each.left(limit_in(line)) > 0
    )
    return sum(await asyncio.gather(*(wake_line(db, line, count) for line, count in counts.items())))


# --- looks ----------------------------------------------------------------------------------------------------------


async def look_at_parked(db: Database) -> int:
    """Where a look is due: as many rows of each line as there is room for become ready. How many were woken."""
    looks = [_look(db, docs, int(docs[0]["now"])) for docs in await _due_looks(db)]
    return sum(await asyncio.gather(*looks))


async def _due_looks(db: Database) -> list[list[dict[str, Any]]]:
    """For each name that it is time to look at: its lines, each with the first rows in it."""
    now = db.time.now()
    first = {
        "from": db.executions.name,
        "localField": "lines",
        "foreignField": "stands",
        "pipeline": [{"$sort": dict(IN_TURN)}, {"$limit": _AT_HAND}, {"$project": {"_id": 1}}],
        "as": "rows",
    }
    due: list[dict[str, Any]] = [
        {"$match": {"again": {"$exists": True}, "$expr": {"$lte": ["$again", now]}}},
        {"$sort": {"again": 1}},
        {"$limit": LOOKS_AT_ONCE},
        {"$unwind": {"path": "$lines", "preserveNullAndEmptyArrays": True}},
        {"$lookup": first},
        {"$set": {"now": now}},
    ]
    found: dict[str, list[dict[str, Any]]] = {}
    for doc in await (await db.limits.aggregate(due)).to_list():
        found.setdefault(doc["_id"], []).append(doc)
    return list(found.values())


async def bring_forward(db: Database) -> None:
    """Looks that lie further ahead than any is put off: the clock was set back."""
    now = db.time.now()
    far = {"$expr": {"$gt": ["$again", {"$add": [now, seconds_to_micros(LOOK_AGAIN)]}]}}
    await db.limits.update_many({"again": {"$exists": True}, **far}, [{"$set": {"again": now}}])


async def _look(db: Database, docs: Sequence[dict[str, Any]], now: Micros) -> int:
    """At the lines of one name, each by its numbers. Whoever moves the look on does the waking: the others leave it to
    that one."""
    lines = {doc["lines"]: [row["_id"] for row in doc["rows"]] for doc in docs if doc["rows"]}
    if not lines:
        await _end_looking(db, docs[0], now)
        return 0
    limits = {line: limit_in(line) for line in lines}
    slots = wait_named(docs[0]["_id"]).kind == "slot"
    some = next(iter(limits.values()))
    room = await room_for(db, limits.values(), now) if slots else room_in(docs[0], some, now)
    free = {line: max(0, room.left(limit)) for line, limit in limits.items()}
    left = [line for line, ids in lines.items() if len(ids) > free[line] or len(ids) == _AT_HAND]
    look = min(room.next_look(limits[line], free[line]) for line in left or lines)
    seen = {"_id": docs[0]["_id"], "again": docs[0]["again"]}
    ahead = {"since": now} if docs[0].get("since", now) > now else {}  # it fills up from now on: the clock was set back
    moved = await db.limits.update_one(seen, {"$set": {"again": look, **ahead}})
    if not moved.modified_count:
        return 0
    return sum(await asyncio.gather(*(wake_line(db, line, free[line], ids) for line, ids in lines.items())))


async def _end_looking(db: Database, doc: dict[str, Any], now: Micros) -> None:
    """Nothing is parked there, unless somebody is about to."""
    seen = {"_id": doc["_id"], "again": doc["again"], "touched": doc.get("touched")}
    if doc.get("touched", 0) > now - seconds_to_micros(LOOK_AGAIN):
        await db.limits.update_one(seen, {"$set": {"again": look_at_slots(now)}})
    elif "level" in doc:
        await db.limits.update_one(seen, {"$unset": {"again": 1, "touched": 1, "lines": 1}})
    else:
        await db.limits.delete_one(seen)


async def tidy(db: Database, now: Micros) -> None:
    """Looks under which nothing is parked any more, and buckets that are full."""
    for docs in await _due_looks(db):
        if not any(doc["rows"] for doc in docs):
            await _end_looking(db, docs[0], int(docs[0]["now"]))
    await forget_full_buckets(db, now)
