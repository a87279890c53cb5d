"""What makes rows ready: they become due, or what they waited for is freed.

A deferred row waits for a running key, a parked one for a slot or a token of a limit; both are named in `waits_for`. A
process that frees something wakes the rows that wait for it; a process that parks a row checks once more afterwards, in
case it was freed just before (`parking`).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ....model.execution import State
from ....model.limits import Limit
from ....model.store.messages import Change
from ....model.time.instants import Micros
from ...common.limits import Wait, WaitKind, keys_of
from ...common.rows import WAITERS_AT_ONCE
from ..connection.bulk import value_by_id
from ..connection.database import Database
from ..connection.errors import repeated
from ..documents import DUE_NOW, READY_LANE, Document
from .capacity import read_capacity
from .turns import READY, SHARE_FIELDS, next_turns, ready_entrant
from .wait_lines import is_fair, limit_of, waited, wake_lines

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
    """`woken` rows are ready, or will be when they are promoted; `fair` is how many of them have a share and wait for a
    slot. `disturbed` rows had been parked, or woken, and were changed: a recheck is due where they were."""

    woken: int = 0
    fair: int = 0
    disturbed: int = 0

    def __bool__(self) -> bool:
        return self.woken + self.disturbed > 0


def may_disturb(db: Database, changes: Sequence[Change]) -> bool:
    """Whether these changes may concern parked rows."""
    return db.knows_limits and any(change.expect is State.PENDING for change in changes)


async def wake_freed(db: Database, changes: Sequence[Change], now: Micros) -> Freed:
    """Wake the rows that wait for keys of rows that have ended, or for slots of rows that ran."""
    ended = {change.id for change in changes if change.to.final}
    ran = {change.id for change in changes if change.expect is State.RUNNING}
    fields = dict.fromkeys((*_KEYS, *_RUNNING_KEYS, "staged", "due", "limits", "last_wait_line"), 1)
    slots: Counter[str] = Counter()
    keys: list[str] = []
    disturbed: dict[str, str] = {}
    for doc in await db.executions.find({"_id": {"$in": [change.id for change in changes]}}, fields):
        if doc["_id"] in ended:
            keys += waited_keys(*map(doc.get, _KEYS))
            if doc.get("staged") and doc["due"] <= now:  # it passes its turn on
                keys += waited_keys(*map(doc.get, _RUNNING_KEYS))
        if doc["_id"] in ran and "limits" in doc:
            slots.update(keys_of(doc["limits"]))
        if doc["_id"] not in ran and "last_wait_line" in doc:
            disturbed[doc["_id"]] = doc["last_wait_line"]
    if disturbed:
        await _recheck_now(db, disturbed)
    deferred, parked = await wake_deferred(db, keys), await _wake_for_slots(db, slots)
    fair = sum(count for line, count in parked.items() if is_fair(line))
    return Freed(deferred + sum(parked.values()), fair, len(disturbed))


async def _wake_for_slots(db: Database, slots: Counter[str]) -> dict[str, int]:
    """How many rows of each wait line were woken."""
    if not slots:
        return {}
    names = {waited(Wait(key, "slot")): count for key, count in slots.items()}
    any_of_key = [Limit(key, concurrency=1) for key in slots]
    found, capacity = await asyncio.gather(
        db.limits.find({"_id": {"$in": list(names)}}, {"wait_lines": 1}),
        read_capacity(db, any_of_key, now=0),
    )
    freed = {line: names[doc["_id"]] for doc in found for line in doc.get("wait_lines", ())}
    return await wake_lines(db, {line: min(count, capacity.left(limit_of(line))) for line, count in freed.items()})


async def _recheck_now(db: Database, lines: Mapping[str, str]) -> None:
    """`lines` are the wait lines of changed rows by id; the rows lose their places there."""
    keys = {limit_of(line).key for line in lines.values()}
    names = [waited(Wait(key, kind)) for key in sorted(keys) for kind in _KINDS]
    await db.limits.update_many(
        {"_id": {"$in": names}, "recheck_at": {"$exists": True}}, [{"$set": {"recheck_at": db.time.now()}}]
    )
    await db.claims.update_many({"_id": {"$in": list(lines)}}, {"$unset": {"last_wait_line": 1, "place": 1}})


def waited_keys(unique: str | None, overlap: str | None) -> list[str]:
    return [f"{kind}:{key}" for kind, key in (("u", unique), ("o", overlap)) if key is not None]


async def wake_deferred(db: Database, keys: Sequence[str]) -> int:
    """Make rows that a claim deferred because of these keys due at once: of the first that wait for a key, the first of
    each lane."""
    woken, left = 0, list(keys)
    while left:
        page = {"sort": {"priority": -1, "_id": 1}, "limit": WAITERS_AT_ONCE * len(left)}
        wanted = {"waits_for": {"$in": left}, "$expr": {"$gt": ["$due", db.time.now()]}}
        waiters = await db.executions.find(wanted, {"waits_for": 1, **SHARE_FIELDS}, **page)
        by_key = {key: [doc for doc in waiters if key in doc["waits_for"]][:WAITERS_AT_ONCE] for key in left}
        ids = [id for rows in by_key.values() for id in _first_of_lanes(rows)]
        woken += await _wake(db, ids) if ids else 0
        # The rows of one key may have filled the page: the keys without any are looked at again.
        left = [key for key in left if not by_key[key]] if len(waiters) == page["limit"] else []
    return woken


def _first_of_lanes(waiters: Sequence[Document]) -> Iterable[str]:
    return {(doc["lane"], doc.get("alone"), "share" in doc): doc["_id"] for doc in reversed(waiters)}.values()


async def _wake(db: Database, ids: Sequence[str]) -> int:
    now = db.time.now()
    waiting = {"_id": {"$in": ids}, "waits_for": {"$exists": True}, "$expr": {"$gt": ["$due", now]}}
    due: list[dict[str, Any]] = [{"$unset": ["waits_for"]}, {"$set": {"due": now, **DUE_NOW}}]
    return int((await repeated(lambda: db.claims.update_many(waiting, due))).modified_count)
