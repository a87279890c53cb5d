"""Tags: the turns of ready rows that have a share (`core.ports.Store.exchange` says how they follow from each other).

A row that is inserted due gets its tag before, one whose time comes or is freed when the next claim promotes it. Both
look at the ends of two indexes alone, so that it costs the same however many rows and shares there are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ....model.execution import ExecutionRow
from ...common.limits import next_tag
from ..connection.database import Database
from ..executions.documents import lane_name, ready_lane

_SHARES_AT_ONCE = 1_000


class Level(NamedTuple):
    """Rows of one lane and one priority."""

    lane: str
    priority: int


class Entering(NamedTuple):
    """A row that becomes ready."""

    id: str
    level: Level
    share: str
    weight: int


ENTERING = {"lane": 1, "alone": 1, "priority": 1, "share": 1, "weight": 1}


def entering_document(doc: dict[str, Any]) -> Entering:
    lane = lane_name(doc["lane"], fair=True, alone=bool(doc.get("alone")))
    return Entering(doc["_id"], Level(lane, doc["priority"]), doc["share"], doc.get("weight", 1))


def entering(executions: Iterable[ExecutionRow]) -> list[Entering]:
    """Those of them that have a share; whoever has to wait yet needs no tag, and does not get it."""
    return [
        Entering(e.id, Level(ready_lane(e), e.priority), e.share, e.weight)
        for e in executions
        if e.share is not None and e.due <= e.created and not e.state.final
    ]


async def tags(db: Database, rows: Sequence[Entering]) -> dict[str, int]:
    """By id. The rows get theirs one after another, in the order of their ids."""
    await db.learn_flow()
    levels: dict[Level, set[str]] = {}
    for row in rows:
        levels.setdefault(row.level, set()).add(row.share)
    first, last = await asyncio.gather(
        asyncio.gather(*(_smallest(db, level) for level in levels)),
        asyncio.gather(*(_greatest(db, level, sorted(shares)) for level, shares in levels.items())),
    )
    smallest = dict(zip(levels, first, strict=True))
    greatest = {(level, share): tag for level, found in zip(levels, last, strict=True) for share, tag in found}
    given: dict[str, int] = {}
    for row in sorted(rows):
        place, least = (row.level, row.share), smallest[row.level]
        tag = given[row.id] = next_tag(least, greatest.get(place), row.weight)
        smallest[row.level] = tag if least is None else min(tag, least)
        greatest[place] = max(tag, greatest.get(place, tag))
    return given


async def _smallest(db: Database, level: Level) -> int | None:
    ready = {"ready": level.lane, "priority": level.priority}
    found = await db.executions.find_one(ready, {"_id": 0, "tag": 1}, sort=[("tag", 1)], hint="turns")
    return None if found is None else int(found["tag"])


async def _greatest(db: Database, level: Level, shares: Sequence[str]) -> list[tuple[str, int]]:
    """Skipping along the index from share to share."""
    found: list[tuple[str, int]] = []
    for start in range(0, len(shares), _SHARES_AT_ONCE):
        some = {"$in": shares[start : start + _SHARES_AT_ONCE]}
        pipeline: list[dict[str, Any]] = [
            {"$match": {"ready": level.lane, "priority": level.priority, "share": some}},
            {"$sort": {"share": 1, "tag": -1}},
            {"$group": {"_id": "$share", "tag": {"$first": "$tag"}}},
        ]
        cursor = await db.executions.aggregate(pipeline)
        found += [(doc["_id"], int(doc["tag"])) async for doc in cursor]
    return found
