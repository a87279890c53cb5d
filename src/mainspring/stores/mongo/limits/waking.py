"""What makes rows ready: their time has come, or what they waited for has been freed.

A deferred row waits for a running key, a parked one for a slot or a token of a limit; both say so in `waits_for`.
Whoever frees something wakes them; whoever parks a row looks once more afterwards, should it have been freed just
before (`parking`).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ....model.execution import State
from ....model.limits import Limit
from ....model.store.messages import Change
from ....model.time.instants import Micros
from ...common.limits import Kind, Wait, keys_of
from ..connection.database import Database, repeated
from ..executions.settle import AT_ONCE, READY, SHARED
from .free_slots import room_for
from .shares import ENTERING, entering_document, tags
from .wait_lines import IN_TURN, is_fair, limit_in, waited

PROMOTED_AT_ONCE = 1_000
_KINDS: tuple[Kind, ...] = ("slot", "token")


async def promote(db: Database, now: Micros) -> None:
    """Future rows whose time has come become ready: a bounded number at once. Those with a share get their turns."""
    due = {"future": True, "due": {"$lte": now}}
    found = await db.executions.find(due, ENTERING).sort("due").limit(PROMOTED_AT_ONCE).to_list()
    shared = [entering_document(doc) for doc in found if "share" in doc]
    plain = [doc["_id"] for doc in found if "share" not in doc]
    ripe: list[dict[str, Any]] = [{"$set": {"ready": READY}}, {"$unset": ["future", "waits_for"]}]
    if plain:
        await repeated(lambda: db.claims.update_many({"_id": {"$in": plain}, **due}, ripe))
    if shared:
        given = await tags(db, shared)
        ids = list(given)
        own = {"$arrayElemAt": [list(given.values()), {"$indexOfArray": [{"$literal": ids}, "$_id"]}]}
        turned = [{"$set": {"tag": own}}, *ripe]
        await repeated(lambda: db.claims.update_many({"_id": {"$in": ids}, **due}, turned))


# --- what has been freed --------------------------------------------------------------------------------------------


def may_wait(db: Database, left: Sequence[Change]) -> bool:
    """Whether these changes may have left a line, which is to be found out whoever else waits."""
    return db.knows_flow and any(change.expect is State.PENDING for change in left)


class Freed(NamedTuple):
    """`woken` rows are ready, or will be when they are promoted; `fair` ones of them for a slot. `disturbed` rows were
    changed that had been parked, or woken: where they were, a look is due."""

    woken: int = 0
    fair: int = 0
    disturbed: int = 0

    def __bool__(self) -> bool:
        return self.woken + self.disturbed > 0


async def wake_freed(db: Database, left: Sequence[Change]) -> Freed:
    """Those that wait for the keys of what has ended, or for the slots of what ran."""
    ended = {change.id for change in left if change.to.final}
    ran = {change.id for change in left if change.expect is State.RUNNING}
    fields = {"unique_key": 1, "overlap_key": 1, "limits": 1, "stood": 1}
    slots: Counter[str] = Counter()
    keys: list[str] = []
    stood: dict[str, str] = {}
    async for doc in db.executions.find({"_id": {"$in": [change.id for change in left]}}, fields):
        if doc["_id"] in ended:
            keys += waited_keys(doc.get("unique_key"), doc.get("overlap_key"))
        if doc["_id"] in ran and "limits" in doc:
            slots.update(keys_of(doc["limits"]))
        if doc["_id"] not in ran and "stood" in doc:
            stood[doc["_id"]] = doc["stood"]
    if stood:
        await _look_soon(db, stood)
    waiters, (plain, fair) = await wake_waiters(db, keys), await _wake_for_slots(db, slots)
    return Freed(waiters + plain + fair, fair, len(stood))


async def _wake_for_slots(db: Database, slots: Counter[str]) -> tuple[int, int]:
    """How many rows without a share were woken, and how many with one."""
    if not slots:
        return 0, 0
    names = {waited(Wait(key, "slot")): count for key, count in slots.items()}
    any_of_them = [Limit(key, concurrency=1) for key in slots]
    found, room = await asyncio.gather(
        db.limits.find({"_id": {"$in": list(names)}}, {"lines": 1}).to_list(), room_for(db, any_of_them, now=0)
    )
    counts = {line: names[doc["_id"]] for doc in found for line in doc.get("lines", ())}
    woken = await asyncio.gather(
        *(wake_line(db, line, min(count, room.left(limit_in(line)))) for line, count in counts.items())
    )
    fair = sum(count for line, count in zip(counts, woken, strict=True) if is_fair(line))
    return sum(woken) - fair, fair


async def _look_soon(db: Database, stood: Mapping[str, str]) -> None:
    """Whoever is still there has no place to come back to."""
    keys = {limit_in(line).key for line in stood.values()}
    names = [waited(Wait(key, kind)) for key in sorted(keys) for kind in _KINDS]
    await db.limits.update_many(
        {"_id": {"$in": names}, "again": {"$exists": True}}, [{"$set": {"again": db.time.now()}}]
    )
    await db.claims.update_many({"_id": {"$in": list(stood)}}, {"$unset": {"stood": 1, "place": 1}})


def waited_keys(unique: str | None, overlap: str | None) -> list[str]:
    return [f"{kind}:{key}" for kind, key in (("u", unique), ("o", overlap)) if key is not None]


async def wake_waiters(db: Database, keys: Sequence[str]) -> int:
    """Rows that a claim deferred because of one of these keys are due at once, unless they are due already."""
    if not keys:
        return 0
    now = db.time.now()
    waiting = {"waits_for": {"$in": keys}, "future": True, "$expr": {"$gt": ["$due", now]}}
    due: list[dict[str, Any]] = [{"$unset": ["waits_for"]}, {"$set": {"due": now, **AT_ONCE}}]
    return int((await repeated(lambda: db.claims.update_many(waiting, due))).modified_count)


async def wake_line(db: Database, line: str, count: int, first: Sequence[str] = ()) -> int:
    """So many of this line become ready; those with a share when the next claim promotes them. Those that somebody else
    has woken meanwhile are not counted: what that one freed is for others. `first` are those whose turn it is, as far
    as they are known."""
    there = {"stands": line}
    now = {"$cond": [SHARED, {"$min": ["$due", db.time.now()]}, "$due"]}
    ready: list[dict[str, Any]] = [{"$set": {"due": now, **AT_ONCE}}, {"$unset": ["waits_for", "parked", "stands"]}]
    woken, ids = 0, list(first[: max(0, count)])
    while woken < count:
        if not ids:
            found = db.executions.find(there, {"_id": 1}).sort(IN_TURN).limit(count - woken)
            ids = [doc["_id"] async for doc in found]
        if not ids:
            break
        woken += (await db.claims.update_many({"_id": {"$in": ids}, **there}, ready)).modified_count
        ids = []
    return woken


async def unpark_strays(db: Database) -> None:
    """Rows that an earlier release has parked stand in no line: they are judged anew."""
    there = {"waits_for": {"$exists": True}, "parked": {"$exists": True}, "stands": {"$exists": False}}
    ready: list[dict[str, Any]] = [{"$set": AT_ONCE}, {"$unset": ["waits_for", "parked", "tag"]}]
    await db.executions.update_many(there, ready)
