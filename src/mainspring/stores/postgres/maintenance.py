"""Maintenance of the tables, by the process that folds statistics: create partitions ahead, vacuum the live table.

Each execution leaves two dead versions behind in the live table. Autovacuum comes at most once a minute,
which at ten thousand executions a second is a million dead rows later: claims would walk over all of them. So the live
table is vacuumed as soon as some thousands are dead, which takes milliseconds while it is small. A large one waits
until a third as many are dead as alive, because every one of its indexes has to be read. Where that frees nothing,
because a transaction somewhere has been open for long, it is tried less and less often.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from ...model.errors import StoreError
from .database import Database

PARTITIONS_INTERVAL = 600.0
DEAD_ROWS, DEAD_SHARE = 10_000, 0.3
_SHORTEST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0


class Maintenance:
    def __init__(self, db: Database) -> None:
        self._db = db
        self._partitions_due = self._vacuum_due = float("-inf")
        self._pause = _SHORTEST_PAUSE

    async def step(self) -> None:
        now = asyncio.get_running_loop().time()
        if now >= self._partitions_due:
            self._partitions_due = now + PARTITIONS_INTERVAL
            await self._db.value("keep_partitions")  # the function itself runs once an hour at most
        if self._db.autocommits and now >= self._vacuum_due:
            await self._vacuum()
            self._vacuum_due = asyncio.get_running_loop().time() + self._pause

    async def _vacuum(self) -> None:
        if not await self._too_many_dead():
            self._pause = _SHORTEST_PAUSE
            return
        with suppress(StoreError):  # it took too long or was cancelled: autovacuum is still there
            await self._db.rows("vacuum")
        self._pause = min(self._pause * 2, _LONGEST_PAUSE) if await self._too_many_dead() else _SHORTEST_PAUSE

    async def _too_many_dead(self) -> bool:
        rows = await self._db.rows("dead_rows", repeat=True)
        return any(dead > DEAD_ROWS + DEAD_SHARE * live for dead, live in rows)
