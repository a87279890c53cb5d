"""Wait lines of parked rows: their names, and waking their first rows.

What a row waits for is named `slot:key` or `~token:key`. The name of a wait line is that, the numbers of the limit and
the lane, with line breaks between: no key contains one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ....model.limits import Limit
from ...common.limits import Wait, limit_with, numbers_in, wait_of
from ..connection.bulk import lookup
from ..connection.database import Database
from ..documents import DUE_NOW

TOKENS, _SLOTS = "~token:", "slot:"
READY = {"ready": {"$exists": True}}
LINE_ORDER = {"priority": -1, "place": 1, "_id": 1}


def waited(wait: Wait) -> str:
    """The name of what parked rows wait for. Tokens sort last, because no ending frees any."""
    return f"{TOKENS if wait.kind == 'token' else _SLOTS}{wait.key}"


def wait_named(name: str) -> Wait:
    if name.startswith(TOKENS):
        return Wait(name.removeprefix(TOKENS), "token")
    return Wait(name.removeprefix(_SLOTS), "slot")


def line_name(limit: Limit, lane: str) -> str:
    return f"{waited(wait_of(limit))}\n{numbers_in(limit)}\n{lane}"


def limit_of(line: str) -> Limit:
    """The limit that the rows of this line wait for."""
    name, numbers, _ = line.split("\n")
    return limit_with(wait_named(name), numbers)


def claimable(ids: Iterable[str]) -> dict[str, Any]:
    """Those of these rows that are ready, or still wait for what has been freed."""
    return {"_id": {"$in": list(ids)}, "$or": [READY, {"waits_for": {"$exists": True}}]}


def first_of_lines(db: Database, count: int, fields: dict[str, int]) -> dict[str, Any]:
    """The stage that reads the first rows of a wait line of a limit."""
    first = ({"$sort": LINE_ORDER}, {"$limit": count}, {"$project": fields})
    return lookup(db.executions, "wait_lines", "wait_line", *first)


def woken_stages(db: Database) -> list[dict[str, Any]]:
    """The update of rows that wait no longer: they are ready; those with a share when the next claim promotes them."""
    return [
        {"$set": {"due": {"$min": ["$due", db.time.now()]}, **DUE_NOW}},
        {"$unset": ["waits_for", "parked", "wait_line"]},
    ]


async def wake_lines(db: Database, counts: Mapping[str, int]) -> dict[str, int]:
    """Wake so many rows of each line; returns how many were woken."""
    woken = await asyncio.gather(*(wake_line(db, line, count) for line, count in counts.items()))
    return dict(zip(counts, woken, strict=True))


async def wake_line(db: Database, line: str, count: int, first: Sequence[str] = ()) -> int:
    """Make so many rows of this line ready.

    Rows that another process has woken meanwhile are not counted: they use what that process freed. `first` are the
    first rows of the line, if they are known.
    """
    parked = {"wait_line": line}
    woken, ids = 0, list(first[: max(0, count)])
    while woken < count:
        if not ids:
            found = await db.executions.find(parked, {"_id": 1}, sort=LINE_ORDER, limit=count - woken)
            ids = [doc["_id"] for doc in found]
        if not ids:
            break
        woken += (await db.claims.update_many({"_id": {"$in": ids}, **parked}, woken_stages(db))).modified_count
        ids = []
    return woken
