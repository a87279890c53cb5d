"""The execution list: live and finished rows in the order of their ids, along an index that gives it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from ....model.execution import FINAL, LIVE, ExecutionRow, State
from ....model.store.messages import ExecutionQuery, LogLine
from ..connection.database import Database
from ..jobs.incarnations import ids_of
from .documents import SLACK, execution_of, first_id

SEEN = {"hidden": {"$exists": False}}
RARE = FINAL - {State.COMPLETED}

Filter = dict[str, Any]


async def execution(db: Database, id: str) -> ExecutionRow | None:
    doc = await db.executions.find_one({"_id": id, **SEEN})
    return None if doc is None else execution_of(doc)


async def find(db: Database, query: ExecutionQuery) -> list[ExecutionRow]:
    wanted = await conditions(db, query)
    if wanted is None or query.limit < 1:
        return []
    found = (
        db.executions.find(wanted).sort("_id", 1 if query.oldest_first else -1).skip(query.offset).limit(query.limit)
    )
    return [execution_of(doc) for doc in await found.to_list()]


async def count(db: Database, query: ExecutionQuery, cap: int) -> int:
    wanted = await conditions(db, query)
    if wanted is None or cap < 1:
        return 0
    hint: Any = {"hint": "_id_"} if wanted == {"$and": [SEEN]} else {}  # or else the whole collection is read
    return await db.executions.count_documents(wanted, limit=cap, **hint)


async def logs(db: Database, id: str, after: int) -> list[tuple[int, LogLine]]:
    """Lines go with their execution, even those that are still to be deleted."""
    if await db.executions.find_one({"_id": id, **SEEN}, {"_id": 1}) is None:
        return []
    return await lines_of(db, id, after)


async def lines_of(db: Database, id: str, after: int) -> list[tuple[int, LogLine]]:
    found = db.logs.find({"_id": {"$gt": line_id(id, after), "$lt": f"{id}0"}}).sort("_id", 1)
    return [(int(doc["n"]), LogLine(int(doc["at"]), doc["level"], doc["message"])) async for doc in found]


def line_id(id: str, number: int) -> str:
    """In the order of numbers, and of nothing else: an id is followed by a slash, which is just before 0."""
    return f"{id}/{number:015}"


# --- conditions -----------------------------------------------------------------------------------------------------


async def conditions(db: Database, query: ExecutionQuery) -> Filter | None:
    """None when nothing can match."""
    states = frozenset(State) if query.states is None else query.states
    jobs = await _job_ids(db, query)
    if not states or jobs == []:
        return None
    parts = [SEEN, _states(states, by_job=jobs is not None), *_created(query), *_equal(query)]
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
    """The few that ended otherwise than completed, and those that have not ended, have indexes of their own."""
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
    if query.trigger is not None:  # the usual one is left out of documents
        found.append({"trigger": None if query.trigger == "enqueue" else query.trigger})
    if query.trace_id is not None:
        found.append(_traced(query.trace_id))
    return found


def _traced(trace_id: str) -> Filter:
    """A trace id came from elsewhere, or is the id of the execution itself."""
    try:
        own = str(UUID(hex=trace_id)) if len(trace_id) == 32 else None
    except ValueError:
        own = None
    if own is None or own.replace("-", "") != trace_id:
        return {"trace_id": trace_id}
    return {"$or": [{"trace_id": trace_id}, {"_id": own, "trace_id": None}]}


def _created(query: ExecutionQuery) -> list[Filter]:
    """A range of creation times is a range of ids, give or take; those whose ids tell another time come apart."""
    begin, end = query.created_from, query.created_to
    if begin is None and end is None:
        return []
    created: Filter = {}
    ids: Filter = {}
    if begin is not None:
        created["$gte"], ids["$gte"] = begin, first_id(begin // 1000 - SLACK)
    if end is not None:
        created["$lt"], ids["$lt"] = end, first_id(end // 1000 + SLACK + 1)
    return [{"created": created}, {"$or": [{"_id": ids}, {"stray": True}]}]
