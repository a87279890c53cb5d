"""Lists of executions: live and finished rows in the order of their ids, along an index that gives it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....model.execution import ExecutionRow, State
from ....model.store.messages import (
    ExecutionQuery,
    ExecutionsFound,
    HeldKey,
    KeyKind,
    LaneCounts,
    LogLine,
    RunSummary,
    TenantCounts,
)
from ....model.time.instants import Micros
from ...common.rows import held_key
from .. import audit, failure_notes
from ..connection.database import Database, StorePart
from ..documents import execution_of, log_of, logs_after
from .conditions import VISIBLE, Conditions, conditions
from .lane_counts import lane_counts, tenant_counts
from .newest_runs import newest_runs
from .search import count_among, search


class ExecutionLists(StorePart):
    async def execution(self, id: str) -> ExecutionRow | None:
        doc = await self.db.executions.find_one({"_id": id, **VISIBLE})
        return None if doc is None else execution_of(doc)

    async def find(self, query: ExecutionQuery) -> list[ExecutionRow]:
        wanted = await self._conditions(query)
        if wanted is None or query.limit < 1:
            return []
        order = {"_id": 1 if query.oldest_first else -1}
        found = await self.db.executions.find(wanted.all, sort=order, skip=query.offset, limit=query.limit)
        return [execution_of(doc) for doc in found]

    async def search(self, query: ExecutionQuery, budget: int) -> ExecutionsFound:
        wanted = await self._conditions(query)
        if wanted is None or query.limit < 1 or budget < 1:
            return ExecutionsFound([])
        return await search(self.db, query, wanted, budget)

    async def count(self, query: ExecutionQuery, cap: int, budget: int | None = None) -> int:
        wanted = await self._conditions(query)
        if wanted is None or cap < 1:
            return 0
        if budget is not None and query.checks_rows:
            return await count_among(self.db, query, wanted, cap, budget)
        if (walk := wanted.counted_on) is not None:
            return await self.db.executions.count_keys(walk.wanted, walk.hint, cap)
        hint: Any = {"hint": "_id_"} if wanted.parts == [VISIBLE] else {}  # else the whole collection is read
        return await self.db.executions.count_documents(wanted.all, limit=cap, **hint)

    async def _conditions(self, query: ExecutionQuery) -> Conditions | None:
        return await conditions(self.db, query, await self.db.now() if query.longer_than is not None else None)

    async def lane_counts(self) -> list[LaneCounts]:
        return await lane_counts(self.db)

    async def tenant_counts(self, limit: int) -> list[TenantCounts]:
        return await tenant_counts(self.db, limit)

    async def newest_runs(
        self, job_ids: Sequence[str], limit: int, since: Micros | None = None
    ) -> dict[str, list[RunSummary]]:
        return await newest_runs(self.db, job_ids, limit, since)

    async def children(self, parent_id: str) -> dict[State, int]:
        group = {"$group": {"_id": "$state", "count": {"$sum": 1}}}
        found = await self.db.executions.aggregate([{"$match": {"parent_id": parent_id}}, group])
        return {State(doc["_id"]): int(doc["count"]) for doc in found}

    async def last_child_ended(self, parent_id: str) -> Micros | None:
        latest = {"$group": {"_id": None, "finished": {"$max": "$finished"}}}
        found = await self.db.executions.aggregate([{"$match": {"parent_id": parent_id, "live": False}}, latest])
        return next((int(doc["finished"]) for doc in found if doc["finished"] is not None), None)

    async def held_keys(self, kind: KeyKind, first: str = "", limit: int = 1_000) -> list[HeldKey]:
        field = f"{kind}_key"
        wanted = {"live": True, field: {"$exists": True, "$gte": first}, **VISIBLE}
        found = await self.db.executions.find(wanted, {"params": 0}, sort={field: 1}, limit=limit, hint=field)
        return [held_key(kind, doc[field], execution_of(doc)) for doc in found]

    async def logs(self, id: str, after: int = 0) -> list[tuple[int, LogLine]]:
        """None for an execution that is gone, even if its lines are still to be deleted."""
        if await self.db.executions.find_one({"_id": id, **VISIBLE}, {"_id": 1}) is None:
            return []
        return await logs_of(self.db, id, after)


async def logs_of(db: Database, id: str, after: int) -> list[tuple[int, LogLine]]:
    return [log_of(doc) for doc in await db.logs.find({"_id": logs_after(id, after)}, sort={"_id": 1})]


async def clear_out(db: Database, ids: Sequence[str]) -> None:
    """Before these executions are deleted: delete their log lines, and move audit records and notes of failures that
    they still carry. Few have any of these, and those are marked."""
    marks = ("logged", "audits", "notes")
    any_mark = [{name: {"$exists": True}} for name in marks]
    found = await db.executions.find({"_id": {"$in": list(ids)}, "$or": any_mark}, dict.fromkeys(marks, 1))
    for doc in found:
        await db.logs.delete_many({"_id": logs_after(doc["_id"], 0)})
    if noted := [doc for doc in found if "notes" in doc]:
        await failure_notes.move(db, noted)
    if carrying := [doc for doc in found if "audits" in doc]:
        await audit.move(db, db.executions, carrying)
