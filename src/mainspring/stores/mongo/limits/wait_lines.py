"""Names of what rows wait for, `slot:key` or `~token:key`, and of the lines in which they stand: the numbers of the
limit and the lane come after that, with line breaks between. No key has one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from ....model.limits import Limit
from ...common.limits import Wait, limit_with, next_tag, numbers_in, wait_of
from ..connection.database import Database
from ..executions.documents import FAIR
from .shares import Entering

TOKENS, _SLOTS = "~token:", "slot:"
IN_TURN = [("priority", -1), ("place", 1), ("_id", 1)]


def waited(wait: Wait) -> str:
    """As parked rows name what they wait for. Tokens come last in the order of names: no ending frees any."""
    return f"{TOKENS if wait.kind == 'token' else _SLOTS}{wait.key}"


def wait_named(name: str) -> Wait:
    if name.startswith(TOKENS):
        return Wait(name.removeprefix(TOKENS), "token")
    return Wait(name.removeprefix(_SLOTS), "slot")


def line_name(limit: Limit, lane: str) -> str:
    return f"{waited(wait_of(limit))}\n{numbers_in(limit)}\n{lane}"


def limit_in(line: str) -> Limit:
    """The limit that the rows of this line wait for."""
    name, numbers, _ = line.split("\n")
    return limit_with(wait_named(name), numbers)


def is_fair(line: str) -> bool:
    """Whether its rows have shares."""
    return FAIR in line.rpartition("\n")[2]


# --- places ---------------------------------------------------------------------------------------------------------


class Standing(NamedTuple):
    """A row that is parked in this line; `place` is the one it had there before."""

    line: str
    row: Entering
    place: int | None


async def places(db: Database, rows: Sequence[Standing]) -> dict[str, int]:
    """By id. The rows, all of which have a share, get theirs one after another, as ready ones get their tags."""
    smallest, greatest = await _ends(db, rows)
    given: dict[str, int] = {}
    for standing in rows:
        line = standing.line, standing.row.level.priority
        share = *line, standing.row.share
        least, most = smallest[line], greatest.get(share)
        place = next_tag(least, most, standing.row.weight) if standing.place is None else standing.place
        given[standing.row.id] = place
        smallest[line] = place if least is None else min(least, place)
        greatest[share] = place if most is None else max(most, place)
    return given


async def _ends(
    db: Database, rows: Sequence[Standing]
) -> tuple[dict[tuple[str, int], int | None], dict[tuple[str, int, str], int]]:
    """The smallest place in each line and priority, the greatest one of each share there."""
    lines: dict[tuple[str, int], set[str]] = {}
    for each in rows:
        lines.setdefault((each.line, each.row.level.priority), set()).add(each.row.share)
    first, last = await asyncio.gather(
        asyncio.gather(*(_smallest(db, *line) for line in lines)),
        asyncio.gather(*(_greatest(db, *line, sorted(shares)) for line, shares in lines.items())),
    )
    greatest = {(*line, share): place for line, found in zip(lines, last, strict=True) for share, place in found}
    return dict(zip(lines, first, strict=True)), greatest


async def _smallest(db: Database, line: str, priority: int) -> int | None:
    there = {"stands": line, "priority": priority}
    found = await db.executions.find_one(there, {"_id": 0, "place": 1}, sort=[("place", 1)], hint="lines")
    return None if found is None else int(found["place"])


async def _greatest(db: Database, line: str, priority: int, shares: list[str]) -> list[tuple[str, int]]:
    """Skipping along the index from share to share."""
    pipeline: list[dict[str, Any]] = [
        {"$match": {"stands": line, "priority": priority, "share": {"$in": shares}}},
        {"$sort": {"share": 1, "place": -1}},
        {"$group": {"_id": "$share", "place": {"$first": "$place"}}},
    ]
    cursor = await db.executions.aggregate(pipeline)
    return [(doc["_id"], int(doc["place"])) async for doc in cursor]
