"""Lists of executions: live and finished rows in the order of their ids, along an index that gives it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....model.execution import FINAL, LIVE, ExecutionRow, State
from ....model.store.messages import ExecutionQuery, HeldKey, KeyKind, LogLine
from ....model.time.instants import Micros
from ...common.ids import id_in_trace, id_range
from ...common.rows import held_key
from .. import audit
from ..connection.database import Database, StorePart
from ..documents import execution_of, log_of, logs_after
from .incarnations import ids_of

VISIBLE = {"hidden": {"$exists": False}}
RARE = FINAL - {State.COMPLETED}

Filter = dict[str, Any]


class ExecutionLists(StorePart):
    async def execution(self, id: str) -> ExecutionRow | None:
        doc = await self.db.executions.find_one({"_id": id, **VISIBLE})
        return None if doc is None else execution_of(doc)

    async def find(self, query: ExecutionQuery) -> list[ExecutionRow]:
        wanted = await _conditions(self.db, query)
        if wanted is None or query.limit < 1:
            return []
        order = {"_id": 1 if query.oldest_first else -1}
        found = await self.db.executions.find(wanted, sort=order, skip=query.offset, limit=query.limit)
        return [execution_of(doc) for doc in found]

    async def count(self, query: ExecutionQuery, cap: int) -> int:
        wanted = await _conditions(self.db, query)
        if wanted is None or cap < 1:
            return 0
        hint: Any = {"hint": "_id_"} if wanted == {"$and": [VISIBLE]} else {}  # else the whole collection is read
        return await self.db.executions.count_documents(wanted, limit=cap, **hint)

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
    """Before these executions are deleted: delete their log lines, and move audit records that they still carry. Few
    have either, and those are marked."""
    either = [{"logged": {"$exists": True}}, {"audits": {"$exists": True}}]
    found = await db.executions.find({"_id": {"$in": list(ids)}, "$or": either}, {"logged": 1, "audits": 1})
    for doc in found:
        await db.logs.delete_many({"_id": logs_after(doc["_id"], 0)})
    if carrying := [doc for doc in found if "audits" in doc]:
        await audit.move(db, db.executions, carrying)


# --- conditions -----------------------------------------------------------------------------------------------------


async def _conditions(db: Database, query: ExecutionQuery) -> Filter | None:
    """None when nothing can match."""
    states = frozenset(State) if query.states is None else query.states
    jobs = await _job_ids(db, query)
    if not states or jobs == []:
        return None
    parts = [VISIBLE, _states(states, by_job=jobs is not None), *_created(query), *_equal(query)]
    if jobs is not None:
        parts.append({"job_id": {"$in": jobs} if len(jobs) > 1 else jobs[0]})
    if query.before is not None:
        parts.append({"_id": {"$lt": query.before}})
    if query.after is not None:
        parts.append({"_id": {"$gt": query.after}})
    return {"$and": [part for part in parts if part]}


async def _job_ids(db: Database, query: ExecutionQuery) -> list[str] | None:
    if query.job is None:
        return None if query.job_id is None else [query.job_id]
    ids = await ids_of(db, query.job)
    return ids if query.job_id is None else [id for id in ids if id == query.job_id]


def _states(states: frozenset[State], *, by_job: bool) -> Filter:
    """Live rows, and the few endings other than completed, have indexes of their own."""
    if states <= RARE:
        return {"rare": True, "state": {"$in": _names(states)}}
    kinds = [kind for kind, members in ((True, LIVE), (False, FINAL)) if states & members]
    chosen = {} if states >= frozenset(State) else {"state": {"$in": _names(states)}}
    if len(kinds) == 1:
        return {"live": kinds[0], **chosen}
    return {"live": {"$in": kinds}, **chosen} if by_job else chosen


def _names(states: frozenset[State]) -> list[str]:
    return sorted(state.value for state in states)


def _equal(query: ExecutionQuery) -> list[Filter]:
    found: list[Filter] = [
        {name: value} for name, value in (("tenant", query.tenant), ("parent_id", query.parent_id)) if value is not None
    ]
    if query.trigger is not None:  # the default is left out of documents
        found.append({"trigger": None if query.trigger == "enqueue" else query.trigger})
    if query.trace_id is not None:
        found.append(_traced(query.trace_id))
    return found


def _traced(trace_id: str) -> Filter:
    """A trace id came from elsewhere, or is the id of the execution itself."""
    own = id_in_trace(trace_id)
    if own is None or own.replace("-", "") != trace_id:
        return {"trace_id": trace_id}
    return {"$or": [{"trace_id": trace_id}, {"_id": own, "trace_id": None}]}


def _created(query: ExecutionQuery) -> list[Filter]:
    """A range of creation times is a range of ids, with some slack, and the strays of that range."""
    first, last = id_range(query.created_from, query.created_to)
    created: Filter = {}
    ids: Filter = {}
    if first is not None:
        created["$gte"], ids["$gte"] = query.created_from, first
    if last is not None:
        created["$lt"], ids["$lt"] = query.created_to, last
    return [{"created": created}, {"$or": [{"_id": ids}, {"stray": True}]}] if created else []
