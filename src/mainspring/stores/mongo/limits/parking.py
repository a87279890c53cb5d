"""Parked rows: pending, but out of the ready order until a limit has capacity for them.

What is freed wakes them (`waking`). The safety net is a recheck of each name that rows are parked under, when its next
token comes and at the latest after five seconds (`buckets`). The recheck is recorded before a row is parked, and the
capacity read once more afterwards: it may have been freed before any process could see that a row waits.

A parked row is in a wait line (`wait_line`), and remembers which (`last_wait_line`) until it is claimed or changed: if
it is woken and parked there once more, it keeps its place.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ....model.limits import Limit
from ....model.time.instants import Micros, seconds_to_micros
from ...common.limits import RECHECK_AFTER, Wait, next_slot_check, wait_of
from ..connection.bulk import value_by_id
from ..connection.database import Database
from ..connection.errors import repeated
from ..documents import Document, ready_lane_of
from .buckets import bucket_of, delete_full_buckets
from .capacity import Capacity, KeyCapacity, read_capacity
from .turns import PARKED, SHARE_FIELDS, Entrant, next_turns
from .wait_lines import claimable, first_of_lines, limit_of, line_name, wait_named, waited, wake_line, wake_lines

_RECHECKS_AT_ONCE = 50
_ROWS_PER_LINE = 20  # first rows of a line that a recheck reads in case there is capacity for them
_SLOW = 1.0  # seconds after which another process may have removed the recheck that was recorded

LIMITED_FIELDS = {
    **dict.fromkeys(("limits", "limited", "staged", "running_unique_key", "running_overlap_key"), 1),
    **dict.fromkeys((*SHARE_FIELDS, "last_wait_line", "place"), 1),
}
"""The fields of a row that claiming it under its limits, or parking it, needs."""


class FullRow(NamedTuple):
    """A row for which this limit has no capacity, and what the limits before it had at that moment."""

    doc: Document
    limit: Limit
    unused: Sequence[KeyCapacity]

    @property
    def line(self) -> str:
        return line_name(self.limit, ready_lane_of(self.doc))

    def entrant(self) -> Entrant:
        doc = self.doc
        kept = doc["place"] if doc.get("last_wait_line") == self.line else None
        return Entrant(doc["_id"], self.line, doc["priority"], doc["share"], doc.get("weight", 1), kept)


class Parked(NamedTuple):
    """How many rows were parked, when the first of them is rechecked, and whether others became ready instead."""

    rows: int
    recheck_at: Micros | None
    woken: bool


async def park(db: Database, rows: Sequence[FullRow], capacity: Capacity) -> Parked:
    by_wait: dict[Wait, list[FullRow]] = {}
    for row in rows:
        by_wait.setdefault(wait_of(row.limit), []).append(row)
    shared = [row.entrant() for row in rows if "share" in row.doc]
    places = await next_turns(db, PARKED, shared) if shared else {}
    count, woken, rechecks = 0, 0, []
    for wait, group in by_wait.items():
        rechecks.append(min(capacity.next_recheck(row.limit) for row in group))
        count += await _park_group(db, wait, group, rechecks[-1], places)
        if wait.kind == "slot":  # the next token is known to the recheck, but a slot may have been freed just now
            woken += await _wake_if_freed(db, {row.line for row in group}, capacity.now)
    woken += await pass_on(db, [unused for row in rows for unused in row.unused])
    return Parked(count, min(rechecks, default=None), woken > 0)


async def _park_group(
    db: Database, wait: Wait, rows: Sequence[FullRow], recheck_at: Micros, places: Mapping[str, int]
) -> int:
    """Park rows that wait for the same; those without a share all have place 0."""
    begun = time.monotonic()
    lines = {row.line for row in rows}
    await schedule_recheck(db, wait, recheck_at, lines)
    line_by_id = {row.doc["_id"]: row.line for row in rows}
    line = value_by_id(line_by_id)
    fields = {
        "due": {"$min": ["$due", db.time.now()]},
        "parked": {"$literal": wait.key},
        "waits_for": [{"$literal": waited(wait)}],
        "wait_line": line,
        "last_wait_line": line,
        "place": value_by_id({id: places.get(id, 0) for id in line_by_id}),
    }
    change: list[dict[str, Any]] = [{"$set": fields}, {"$unset": ["ready", "tag", "future"]}]
    parked = await repeated(lambda: db.claims.update_many(claimable(line_by_id), change))
    if time.monotonic() - begun > _SLOW:
        await schedule_recheck(db, wait, recheck_at, lines)
    return int(parked.modified_count)


async def _wake_if_freed(db: Database, lines: set[str], now: Micros) -> int:
    capacity = await read_capacity(db, map(limit_of, lines), now)
    return sum((await wake_lines(db, {line: capacity.left(limit_of(line)) for line in lines})).values())


async def pass_on(db: Database, unused: Sequence[KeyCapacity]) -> int:
    """Wake one row of each line that waits for capacity which another row has and cannot use."""
    if not unused:
        return 0
    names = {waited(each.wait) for each in unused}
    found = {doc["_id"]: doc for doc in await db.limits.find({"_id": {"$in": list(names)}}, {"wait_lines": 1})}
    counts = Counter(
        line
        for each in unused
        for line in found.get(waited(each.wait), {}).get("wait_lines", ())
        if each.left(limit_of(line)) > 0
    )
    return sum((await wake_lines(db, counts)).values())


# --- rechecks -------------------------------------------------------------------------------------------------------


async def schedule_recheck(db: Database, wait: Wait, at: Micros, lines: Iterable[str]) -> None:
    """Before rows are parked in these lines: from now on some process will recheck them, at the latest at this time."""
    await db.learn_limits()
    earliest = {"$min": ["$recheck_at", at]}  # ignores a missing field
    known = {"$setUnion": [{"$ifNull": ["$wait_lines", []]}, {"$literal": sorted(lines)}]}
    change = [{"$set": {"recheck_at": earliest, "touched": db.time.now(), "wait_lines": known}}]
    await db.buckets.update_one({"_id": waited(wait)}, change, upsert=True)


async def recheck_parked(db: Database) -> int:
    """Where a recheck is due, wake as many rows of each line as there is capacity for; returns how many."""
    return sum(await asyncio.gather(*(_recheck(db, docs) for docs in await _due_rechecks(db))))


async def _due_rechecks(db: Database) -> list[list[Document]]:
    """For each name that is due: one document per wait line, each with its first rows and the time."""
    now = db.time.now()
    due: list[dict[str, Any]] = [
        {"$match": {"recheck_at": {"$exists": True}, "$expr": {"$lte": ["$recheck_at", now]}}},
        {"$sort": {"recheck_at": 1}},
        {"$limit": _RECHECKS_AT_ONCE},
        {"$unwind": {"path": "$wait_lines", "preserveNullAndEmptyArrays": True}},
        first_of_lines(db, _ROWS_PER_LINE, {"_id": 1}),
        {"$set": {"now": now}},
    ]
    found: dict[str, list[Document]] = {}
    for doc in await db.limits.aggregate(due):
        found.setdefault(doc["_id"], []).append(doc)
    return list(found.values())


async def bring_forward(db: Database) -> None:
    """Make rechecks due that lie further ahead than any is scheduled: the clock was set back."""
    now = db.time.now()
    far = {"$expr": {"$gt": ["$recheck_at", {"$add": [now, seconds_to_micros(RECHECK_AFTER)]}]}}
    await db.limits.update_many({"recheck_at": {"$exists": True}, **far}, [{"$set": {"recheck_at": now}}])


async def _recheck(db: Database, docs: Sequence[Document]) -> int:
    """Recheck the lines of one name, each by its own numbers. Only the process that moves the recheck on wakes rows."""
    [doc, *_] = docs
    now = int(doc["now"])
    lines = {each["wait_lines"]: [row["_id"] for row in each["rows"]] for each in docs if each["rows"]}
    if not lines:
        await _end_rechecks(db, doc)
        return 0
    limits = {line: limit_of(line) for line in lines}
    if wait_named(doc["_id"]).kind == "slot":
        capacity = await read_capacity(db, limits.values(), now)
    else:
        limit, capacity = next(iter(limits.values())), Capacity(now)
        capacity.buckets[limit.key] = bucket_of(doc, limit)  # it was read already
    free = {line: max(0, capacity.left(limit)) for line, limit in limits.items()}
    left = [line for line, ids in lines.items() if len(ids) > free[line] or len(ids) == _ROWS_PER_LINE]
    change = {"recheck_at": min(capacity.next_recheck(limits[line], free[line]) for line in left or lines)}
    if doc.get("since", now) > now:  # the clock was set back: the bucket fills up from now on
        change["since"] = now
    seen = {"_id": doc["_id"], "recheck_at": doc["recheck_at"]}
    if not (await db.limits.update_one(seen, {"$set": change})).modified_count:
        return 0
    return sum(await asyncio.gather(*(wake_line(db, line, free[line], ids) for line, ids in lines.items())))


async def _end_rechecks(db: Database, doc: Document) -> None:
    """No rows are parked under this name, unless a process is just about to park some."""
    now = int(doc["now"])
    seen = {"_id": doc["_id"], "recheck_at": doc["recheck_at"], "touched": doc.get("touched")}
    if doc.get("touched", 0) > now - seconds_to_micros(RECHECK_AFTER):
        await db.limits.update_one(seen, {"$set": {"recheck_at": next_slot_check(now)}})
    elif "level" in doc:
        await db.limits.update_one(seen, {"$unset": {"recheck_at": 1, "touched": 1, "wait_lines": 1}})
    else:
        await db.limits.delete_one(seen)


async def delete_unused_limits(db: Database, now: Micros) -> None:
    """Delete rechecks without parked rows, and buckets that are full."""
    for docs in await _due_rechecks(db):
        if not any(doc["rows"] for doc in docs):
            await _end_rechecks(db, docs[0])
    await delete_full_buckets(db, now)
