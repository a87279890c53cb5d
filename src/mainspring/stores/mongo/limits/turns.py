"""Turns of rows that have a share: tags among ready rows, places in a wait line. `core.ports.Store.exchange` defines
how they follow from each other.

A row that is inserted due gets its tag before; one that becomes due, or is woken, when the next claim promotes it; a
row that is parked gets its place then. Each time only the ends of two indexes are read, so the cost does not depend on
how many rows and shares there are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ....model.execution import ExecutionRow
from ...common.limits import next_tag
from ..connection.database import Database
from ..documents import ready_lane, ready_lane_of

_SHARES_AT_ONCE = 1_000


class TurnOrder(NamedTuple):
    """Which field names the line that rows are in, which one holds their turn there, and the index of both."""

    line: str
    turn: str
    index_name: str


READY = TurnOrder("ready", "tag", "ready")
PARKED = TurnOrder("wait_line", "place", "wait_lines")


class Entrant(NamedTuple):
    """A row that enters a line. `kept` is the turn that it had there before."""

    id: str
    line: str
    priority: int
    share: str
    weight: int
    kept: int | None = None


Level = tuple[str, int]
"""Line and priority: rows take turns within these."""

SHARE_FIELDS = {"lane": 1, "alone": 1, "priority": 1, "share": 1, "weight": 1}
"""The fields that turns follow from."""


def ready_entrant(doc: dict[str, Any]) -> Entrant:
    return Entrant(doc["_id"], ready_lane_of(doc), doc["priority"], doc["share"], doc.get("weight", 1))


async def tags_of_new(db: Database, executions: Iterable[ExecutionRow]) -> dict[str, int]:
    """The tags of those new executions that have a share and are due, by id."""
    entrants = [
        Entrant(e.id, ready_lane(e), e.priority, e.share, e.weight)
        for e in executions
        if e.share is not None and e.due <= e.created and not e.state.final
    ]
    return await next_turns(db, READY, sorted(entrants)) if entrants else {}


async def next_turns(db: Database, order: TurnOrder, entrants: Sequence[Entrant]) -> dict[str, int]:
    """The turns of these rows by id. They enter one after another."""
    await db.learn_limits()
    levels: dict[Level, set[str]] = {}
    for row in entrants:
        levels.setdefault((row.line, row.priority), set()).add(row.share)
    first, last = await asyncio.gather(
        asyncio.gather(*(_smallest(db, order, level) for level in levels)),
        asyncio.gather(*(_greatest(db, order, level, sorted(shares)) for level, shares in levels.items())),
    )
    smallest = dict(zip(levels, first, strict=True))
    greatest = {(level, share): turn for level, found in zip(levels, last, strict=True) for share, turn in found}
    turns: dict[str, int] = {}
    for row in entrants:
        level = row.line, row.priority
        least, most = smallest[level], greatest.get((level, row.share))
        turn = next_tag(least, most, row.weight) if row.kept is None else row.kept
        turns[row.id] = turn
        smallest[level] = turn if least is None else min(turn, least)
        greatest[level, row.share] = turn if most is None else max(turn, most)
    return turns


async def _smallest(db: Database, order: TurnOrder, level: Level) -> int | None:
    rows = {order.line: level[0], "priority": level[1]}
    found = await db.executions.find_one(rows, {"_id": 0, order.turn: 1}, sort=[(order.turn, 1)], hint=order.index_name)
    return None if found is None else int(found[order.turn])


async def _greatest(db: Database, order: TurnOrder, level: Level, shares: Sequence[str]) -> list[tuple[str, int]]:
    """The greatest turn of each share, skipping along the index from share to share."""
    found: list[tuple[str, int]] = []
    for start in range(0, len(shares), _SHARES_AT_ONCE):
        some = {"$in": shares[start : start + _SHARES_AT_ONCE]}
        pipeline: list[dict[str, Any]] = [
            {"$match": {order.line: level[0], "priority": level[1], "share": some}},
            {"$sort": {"share": 1, order.turn: -1}},
            {"$group": {"_id": "$share", "turn": {"$first": f"${order.turn}"}}},
        ]
        found += [(doc["_id"], int(doc["turn"])) for doc in await db.executions.aggregate(pipeline)]
    return found
