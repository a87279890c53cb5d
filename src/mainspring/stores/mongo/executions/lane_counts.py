"""Live executions by queue and handler, and by tenant, counted along indexes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from ....model.store.messages import LaneCounts, TenantCounts
from ....model.time.instants import Micros
from ...common.rows import busiest
from ..connection.bulk import lookup
from ..connection.database import Database
from ..documents import Document

_FIRST = 20
"""How many ready rows are read to find the earliest due time: the first ones to be claimed."""
_CLAIMED_FIRST = {"priority": -1, "tag": 1, "_id": 1}
_CLAIMED_LAST = {name: -direction for name, direction in _CLAIMED_FIRST.items()}


async def lane_counts(db: Database) -> list[LaneCounts]:
    """Several reads follow each other, so a row that changes between them may be counted twice, or not at all."""
    now = await db.now()
    found: dict[tuple[str, str], dict[str, Any]] = {}
    parts = await asyncio.gather(_ready(db), _future(db, now), _parked(db), _running(db))
    for name, counts in [item for part in parts for item in part]:
        queue, handler, *_ = name.split("/")
        known = found.setdefault((queue, handler), {})
        for field, value in counts.items():
            known[field] = _joined(field, known.get(field), value)
    return [LaneCounts(queue=lane[0], handler=lane[1], **counts) for lane, counts in sorted(found.items())]


def _joined(field: str, one: Micros | None, other: Micros | None) -> Micros | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other) if field in ("oldest", "next_due") else one + other


Counted = Iterable[tuple[str, dict[str, Any]]]


async def _ready(db: Database) -> Counted:
    """The lanes are found by skipping along the index, and each is counted on it."""
    fields = {"$project": {"due": 1, "priority": 1}}
    first = lookup(db.executions, "_id", "ready", {"$sort": _CLAIMED_FIRST}, {"$limit": _FIRST}, fields)
    lanes: list[dict[str, Any]] = [{"$match": {"ready": {"$gt": ""}}}, {"$group": {"_id": "$ready"}}, first]
    found = [doc for doc in await db.executions.aggregate(lanes) if doc["rows"]]
    lowest = {"$group": {"_id": "$ready", "priority": {"$first": "$priority"}}}
    ends = await db.executions.aggregate([lanes[0], {"$sort": {"ready": -1, **_CLAIMED_LAST}}, lowest])
    low = {doc["_id"]: doc["priority"] for doc in ends}
    counts = await asyncio.gather(*(_ready_lane(db, doc["_id"], doc["rows"], low.get(doc["_id"])) for doc in found))
    return [(doc["_id"], each) for doc, each in zip(found, counts, strict=True)]


async def _ready_lane(db: Database, name: str, rows: list[Document], lowest: int | None) -> dict[str, Any]:
    """The earliest due time is found among the first rows of each priority, which have waited longest."""
    oldest, seen = min(int(row["due"]) for row in rows), rows
    while lowest is not None and seen and seen[-1]["priority"] > lowest:
        lower = {"ready": name, "priority": {"$lt": seen[-1]["priority"]}}
        fields = {"due": 1, "priority": 1}
        seen = await db.executions.find(lower, fields, sort=_CLAIMED_FIRST, limit=_FIRST, hint="ready")
        oldest = min([oldest, *(int(row["due"]) for row in seen)])
    count = len(rows) if len(rows) < _FIRST else await db.executions.count_keys({"ready": name}, "ready")
    return {"ready": count, "oldest": oldest}


async def _future(db: Database, now: Micros) -> Counted:
    """Planned rows that are already due count as ready: the next claim promotes them."""
    order = {"$sort": {"future": 1, "lane": 1, "due": 1}}
    first = {"$group": {"_id": "$lane", "due": {"$first": "$due"}}}
    found = await db.executions.aggregate([{"$match": {"future": True}}, order, first], hint="planned")
    counts = await asyncio.gather(*(_future_lane(db, doc["_id"], int(doc["due"]), now) for doc in found))
    return [(doc["_id"], each) for doc, each in zip(found, counts, strict=True)]


async def _future_lane(db: Database, name: str, first: Micros, now: Micros) -> dict[str, Any]:
    async def count(due: dict[str, Micros]) -> int:
        return await db.executions.count_keys({"future": True, "lane": name, "due": due}, "planned")

    counts: dict[str, Any] = {"planned": await count({"$gt": now}), "next_due": first}
    if first <= now:
        later = {"future": True, "lane": name, "due": {"$gt": now}}
        upcoming = await db.executions.find(later, {"_id": 0, "due": 1}, sort=[("due", 1)], limit=1, hint="planned")
        counts |= {"ready": await count({"$lte": now}), "oldest": first}
        counts["next_due"] = int(upcoming[0]["due"]) if upcoming else None
    return counts


async def _parked(db: Database) -> Counted:
    group = {"$group": {"_id": "$wait_line", "count": {"$sum": 1}}}
    found = await db.executions.aggregate([{"$match": {"wait_line": {"$gt": ""}}}, group], hint="wait_lines")
    return [(doc["_id"].split("\n")[2], {"parked": int(doc["count"])}) for doc in found]


async def _running(db: Database) -> Counted:
    group = {"$group": {"_id": "$lane", "count": {"$sum": 1}}}
    found = await db.executions.aggregate([{"$match": {"live": True, "state": "running"}}, group], hint="live")
    return [(doc["_id"], {"running": int(doc["count"])}) for doc in found]


async def tenant_counts(db: Database, limit: int) -> list[TenantCounts]:
    """All rows are counted along their index alone; few of them run or wait for their children. A row that changes
    between the two reads may be counted as pending."""
    by_tenant = {"$group": {"_id": "$tenant", "count": {"$sum": 1}}}
    by_state = {"$group": {"_id": {"tenant": "$tenant", "state": "$state"}, "count": {"$sum": 1}}}
    every = {"$match": {"live": True, "tenant": {"$gt": ""}}}
    states = {"live": True, "state": {"$in": ["running", "waiting"]}, "tenant": {"$gt": ""}}
    all_found, active_found = await asyncio.gather(
        db.executions.aggregate([every, by_tenant], hint="live_tenant"),
        db.executions.aggregate([{"$match": states}, by_state], hint="live"),
    )
    pending, running = {doc["_id"]: int(doc["count"]) for doc in all_found}, {}
    for doc in active_found:
        tenant, state, count = doc["_id"]["tenant"], doc["_id"]["state"], int(doc["count"])
        pending[tenant] = max(0, pending.get(tenant, 0) - count)
        if state == "running":
            running[tenant] = count
    return busiest(pending, running, limit)
