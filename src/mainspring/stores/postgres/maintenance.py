"""Maintenance of the tables, by the process that folds statistics: create partitions ahead, vacuum the live table,
rebuild its indexes when they are mostly empty.

Each execution leaves two dead versions behind in the live table. Autovacuum comes at most once a minute,
which at ten thousand executions a second is a million dead rows later: claims would walk over all of them. So the live
table is vacuumed as soon as some thousands are dead, which takes milliseconds while it is small. A large one waits
until a third as many are dead as alive, because every one of its indexes has to be read. Where that frees nothing,
because a transaction somewhere has been open for long, it is tried less and less often.

A backlog leaves large indexes behind: vacuum frees their pages for new entries, but never gives them back. An index
that is many times larger than the rows of the table need is rebuilt concurrently, in a quiet moment, by one process at
a time. A rebuild that is interrupted leaves an invalid index behind, which the next look drops.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from ...model.errors import StoreError
from .database import Database
from .live_indexes import replace_live_indexes

PARTITIONS_INTERVAL = 600.0
DEAD_ROWS, DEAD_SHARE = 10_000, 0.3
_SHORTEST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0

INDEXES_INTERVAL = 300.0  # between two looks at the indexes, of all processes
LARGE_INDEX, INDEX_BYTES_PER_ROW = 16 * 2**20, 500  # what is larger than that is mostly empty
QUIET_FOR = 2.0
BUSY = 200  # rows written a second


class Maintenance:
    def __init__(self, db: Database) -> None:
        self._db = db
        self._partitions_due = self._vacuum_due = self._indexes_due = float("-inf")
        self._written: tuple[float, int] | None = None
        self._turn_ends = float("-inf")
        self._pause = _SHORTEST_PAUSE

    async def step(self) -> None:
        now = asyncio.get_running_loop().time()
        if now >= self._partitions_due:
            self._partitions_due = now + PARTITIONS_INTERVAL
            await self._db.value("keep_partitions")  # the function itself runs once an hour at most
        if self._db.autocommits and now >= self._vacuum_due:
            await self._vacuum()
            self._vacuum_due = asyncio.get_running_loop().time() + self._pause
        if self._db.autocommits and now >= self._indexes_due:
            self._indexes_due = now + INDEXES_INTERVAL
            await self._look_at_indexes()

    async def _look_at_indexes(self) -> None:
        """An index is rebuilt at a second look, if little was written since the one before. Looks go on until the turn
        of this process is over."""
        now, before = asyncio.get_running_loop().time(), self._written
        self._written = None
        if before is None:
            if not await self._db.value("indexes_turn", int(INDEXES_INTERVAL)):
                return
            self._turn_ends = now + INDEXES_INTERVAL - 10 * QUIET_FOR
            with suppress(StoreError):  # it took too long, or this role may not: the old ones do, too
                await replace_live_indexes(self._db)
        elif now > self._turn_ends:
            return
        found = await self._db.rows("empty_indexes", LARGE_INDEX, INDEX_BYTES_PER_ROW, repeat=True)
        with suppress(StoreError):  # it took too long, or this role may not: that costs space alone
            for name in [name for name, left_behind, _ in found if left_behind]:
                await self._db.query(f'DROP INDEX CONCURRENTLY IF EXISTS {self._db.schema}."{name}"', ())
            empty = [(name, written) for name, left_behind, written in found if not left_behind]
            if not empty:
                return
            written = empty[0][1]
            if before is None or written - before[1] > BUSY * max(now - before[0], QUIET_FOR):
                self._written, self._indexes_due = (now, written), now + QUIET_FOR
                return
            for name, _ in empty:
                await self._db.query(f'REINDEX INDEX CONCURRENTLY {self._db.schema}."{name}"', ())

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
