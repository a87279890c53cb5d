"""The job list: fields of the job's own document (`list`) that ticks never change, each with an index.

What is live, and endings that are not folded yet, are few: the jobs they belong to are read first and named in the
query. How the last run of a job ended stands in its incarnation, which is looked up where it is asked for.

First as many as are to be counted are found by what is asked for. If those are all, they are sorted. Otherwise matches
are frequent, and the first page of them is soon found by walking along the index of the order.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec
from pymongo import UpdateOne

from ....model.execution import State
from ....model.job import Job
from ....model.store.messages import JobFacts, JobQuery, JobsFound
from ...common.rows import search_text
from ..connection.database import Collection, Database

Stage = dict[str, Any]
Condition = dict[str, Any]

_FILLED_AT_ONCE = 1_000
_VISIBLE = {"deleted": {"$exists": False}}
_FIELDS = {"handler": "list.handler", "created": "created", "updated": "updated"}
_RARE = frozenset(State) - {State.COMPLETED}
_ENDED: list[Stage] = [{"$match": {"delta": True, "live": False, "state": {"$ne": "skipped"}}}, {"$sort": {"_id": 1}}]
_NEWEST = {"$last": {"id": "$_id", "state": "$state", "started": "$started"}}


class Ending(msgspec.Struct, frozen=True):
    """The newest ending of a job, where the totals do not hold it yet."""

    state: str
    started: int | None


class Known(msgspec.Struct, frozen=True):
    """What a query needs to know of executions: ids of jobs."""

    active: list[str] = []
    pending: list[str] = []
    newer: dict[str, Ending] = {}


def listed(job: Job) -> dict[str, Any]:
    """What lists go by. Always there, whatever it is."""
    spec = job.spec
    return {"handler": spec.handler, "queue": spec.queue, "origin": job.origin, "search": search_text(job)}


async def fill(db: Database) -> None:
    """For jobs that an earlier release has written. Safe to repeat."""
    writes = []
    async for doc in db.jobs.find({"list": {"$exists": False}}, {"id": 1, "declared": 1, "overrides": 1, "origin": 1}):
        texts = {name: doc[name] for name in ("overrides", "origin") if name in doc}
        try:
            job = Job(name=doc["_id"], id=doc["id"], declared=doc["declared"], **texts)
            writes.append(UpdateOne({"_id": job.name, "list": {"$exists": False}}, {"$set": {"list": listed(job)}}))
        except ValueError:
            continue  # of a release still newer: whoever writes it next can read it
        if len(writes) == _FILLED_AT_ONCE:
            await db.jobs.bulk_write(writes, ordered=False)
            writes = []
    if writes:
        await db.jobs.bulk_write(writes, ordered=False)


async def find_jobs(db: Database, query: JobQuery, cap: int) -> JobsFound:
    known = await _known(db, query)
    stages = _stages(db, query, known)
    counted = await db.jobs.aggregate([*stages, {"$limit": cap}, {"$count": "n"}])
    count = sum([int(doc["n"]) async for doc in counted])
    if query.limit < 1 or not count:
        return JobsFound([], count)
    if count < cap:
        return JobsFound(await _sorted(db, query, known, stages), count)
    return JobsFound(await _walked(db, query, known), count)


# --- what is asked of executions ------------------------------------------------------------------------------------


async def _known(db: Database, query: JobQuery) -> Known:
    asked = query.any_of
    active = any(facts.active is not None for facts in asked)
    pending = any(facts.pending is not None for facts in asked)
    endings = query.order == "last_started" or any(facts.last is not None for facts in asked)
    return Known(
        active=await _with_live(db, ["running", "waiting"]) if active else [],
        pending=await _with_live(db, ["pending"]) if pending else [],
        newer=await _newer(db) if endings else {},
    )


async def _with_live(db: Database, states: list[str]) -> list[str]:
    match = {"live": True, "state": {"$in": states}, "hidden": {"$ne": True}}
    found = await db.executions.aggregate([{"$match": match}, {"$group": {"_id": "$job_id"}}])
    return [doc["_id"] async for doc in found]


async def _newer(db: Database) -> dict[str, Ending]:
    """Endings that the totals may not hold yet."""
    found = await db.executions.aggregate([*_ENDED, {"$group": {"_id": "$job_id", "last": _NEWEST}}], hint="delta")
    last = {doc["_id"]: doc["last"] async for doc in found}
    folded = db.incarnations.find({"_id": {"$in": list(last)}}, {"stats.last.id": 1})
    totals = {doc["_id"]: doc.get("stats", {}).get("last", {}).get("id", "") async for doc in folded}
    return {id: Ending(doc["state"], doc.get("started")) for id, doc in last.items() if doc["id"] > totals.get(id, "")}


# --- what is asked of jobs ------------------------------------------------------------------------------------------


def _stages(db: Database, query: JobQuery, known: Known) -> list[Stage]:
    """What a job itself says comes first; its incarnation is looked up only for what is left."""
    branches = [_facts(facts, known) for facts in query.any_of]
    conditions: list[Condition] = [_VISIBLE, *_own(query)]
    if branches:
        conditions.append({"$or": [{"$and": [*own, {}]} for own, _ in branches]})
    if not any(last for _, last in branches) and query.order != "last_started":
        return [{"$match": {"$and": conditions}}]
    stages = [{"$match": {"$and": conditions}}, *_with_last(db, known)]
    if any(last for _, last in branches):
        stages.append({"$match": {"$or": [{"$and": [*own, *last, {}]} for own, last in branches]}})
    return stages


def _own(query: JobQuery) -> list[Condition]:
    columns = (("handler", query.handler), ("queue", query.queue), ("origin", query.origin))
    conditions: list[Condition] = [{f"list.{name}": value} for name, value in columns if value is not None]
    if query.search is not None:
        conditions.append({"list.search": {"$regex": re.escape(query.search)}})
    if query.without:
        conditions.append({"_id": {"$nin": sorted(query.without)}})
    if query.code_in is not None:
        conditions.append({"$or": [{"list.origin": {"$ne": "code"}}, {"_id": {"$in": sorted(query.code_in)}}]})
    return conditions


def _facts(facts: JobFacts, known: Known) -> tuple[list[Condition], list[Condition]]:
    """Of the job itself, and of its last run."""
    own: list[Condition] = [
        {field: {"$exists": wanted}}
        for field, wanted in (("cancelled", facts.cancelled), ("paused", facts.paused), ("due", facts.planned))
        if wanted is not None
    ]
    for ids, wanted in ((known.active, facts.active), (known.pending, facts.pending)):
        if wanted is not None:
            own.append({"id": {"$in" if wanted else "$nin": ids}})
    if facts.last is None:
        return own, []
    named = [None if state is None else state.value for state in facts.last]
    return own, [{"last.state": {"$in": named}}]


def _with_last(db: Database, known: Known) -> list[Stage]:
    """The last run of each job as `last`: by its totals, or by what is newer than those."""
    lookup = {"from": db.incarnations.name, "localField": "id", "foreignField": "_id", "as": "totals"}
    totals = {"$ifNull": [{"$first": "$totals.stats.last"}, {"state": None}]}
    ids = list(known.newer)
    newer = [{"state": ending.state, "started": ending.started} for ending in known.newer.values()]
    place = {"$indexOfArray": [{"$literal": ids}, "$id"]}
    chosen: Any = {"$cond": [{"$gte": [place, 0]}, {"$arrayElemAt": [{"$literal": newer}, place]}, totals]}
    return [
        {"$lookup": {**lookup, "pipeline": [{"$project": {"stats.last.state": 1, "stats.last.started": 1}}]}},
        {"$set": {"last": chosen if ids else totals}},
    ]


# --- in order -------------------------------------------------------------------------------------------------------


async def _sorted(db: Database, query: JobQuery, known: Known, stages: list[Stage]) -> list[str]:
    """Few enough to be sorted."""
    key: Any = {"name": "$_id", "last_started": "$last.started"}.get(query.order, f"${_FIELDS.get(query.order, 'due')}")
    if query.order == "next_run":
        key = {"$cond": [{"$gt": ["$paused", None]}, None, "$due"]}
    elif query.order in ("created", "updated"):
        key = {"$ifNull": [key, 0]}
    sort = {"none": 1, "key": -1 if query.backwards else 1, "_id": 1}
    pipeline = [
        *stages,
        {"$match": {"_id": {"$gt": query.after}}},
        {"$project": {"key": key, "none": {"$lte": [key, None]}}},
        {"$sort": sort},
        {"$skip": query.offset},
        {"$limit": query.limit},
    ]
    return await _names(db.jobs, pipeline)


async def _walked(db: Database, query: JobQuery, known: Known) -> list[str]:
    """So many that walking in the order finds a page soon. Those without a value come after all the others, by name."""
    wanted = query.offset + query.limit
    if query.order == "last_started":
        return (await _by_last_started(db, query, known))[query.offset : wanted]
    if query.order != "next_run":
        field = _FIELDS.get(query.order, "_id")
        return (await _walk(db, query, known, {}, field, wanted))[query.offset :]
    found = await _walk(db, query, known, {"due": {"$exists": True}, "paused": {"$exists": False}}, "due", wanted)
    if len(found) < wanted:
        rest = {"$or": [{"due": {"$exists": False}}, {"paused": {"$exists": True}}]}
        ahead = msgspec.structs.replace(query, backwards=False)
        found += await _walk(db, ahead, known, rest, "_id", wanted - len(found))
    return found[query.offset :]


async def _walk(db: Database, query: JobQuery, known: Known, extra: Condition, field: str, most: int) -> list[str]:
    """Sorting comes before anything is looked up, so that an index can give the order."""
    [first, *rest] = _stages(db, query, known)
    match = {"$match": {"$and": [first["$match"], extra, {"_id": {"$gt": query.after}}]}}
    direction = -1 if query.backwards else 1
    sort = {"$sort": {field: direction} if field == "_id" else {field: direction, "_id": 1}}
    return await _names(db.jobs, [match, sort, *rest, {"$limit": most}])


async def _by_last_started(db: Database, query: JobQuery, known: Known) -> list[str]:
    """Sorted after all: the incarnations that hold what is sorted by are those of jobs long gone, too."""
    whole = msgspec.structs.replace(query, offset=0, limit=query.offset + query.limit)
    return await _sorted(db, whole, known, _stages(db, query, known))


async def _names(collection: Collection, pipeline: Sequence[Stage]) -> list[str]:
    found = await collection.aggregate([*pipeline, {"$project": {"_id": 1}}], allowDiskUse=True)
    return [doc["_id"] async for doc in found]
