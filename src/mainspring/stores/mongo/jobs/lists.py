"""Reading jobs: by name, by due time, and as lists.

Lists filter by fields of the job's own document (`list`) that ticks never change, each with an index. What executions
say is read first, along indexes, and the jobs that have such ones are named in the query. The last ending of a job is
in its incarnation, or, if it is not folded yet, in the execution itself. Where too many would be named, the incarnation
of each job is looked up.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from ....model.errors import StoreError, StoreUnavailable
from ....model.execution import FINAL, State
from ....model.job import Job
from ....model.store.messages import DuePage, JobFacts, JobQuery, JobsFound, JobSnapshot
from ....model.values.reading import SYSTEM_PREFIX
from ...common.rows import snapshots
from ..connection.bulk import value_by_id
from ..connection.database import Database, StorePart
from ..documents import job_of
from .statistics import live_of, stats

Stage = dict[str, Any]
Condition = dict[str, Any]

SNAPSHOT_TRIES = 60
"""A snapshot takes about ten reads, and is torn by a change between the first and the last. While a job changes all the
time, that many of them in a row may be torn; the last one is then returned as it is. On a replica set none is torn."""
_IDS_AT_ONCE = 1_000
_MOST_NAMED = 50_000
_VISIBLE = {"deleted": {"$exists": False}}
_FIELDS = {"handler": "list.handler", "created": "created", "updated": "updated"}
_ENDED: list[Stage] = [{"$match": {"delta": True, "live": False, "state": {"$ne": "skipped"}}}, {"$sort": {"_id": 1}}]
_NEWEST = {"$last": {"id": "$_id", "state": "$state", "started": "$started"}}


class JobLists(StorePart):
    async def jobs(self, names: Sequence[str] | None = None) -> list[Job]:
        wanted = {} if names is None else {"_id": {"$in": list(names)}}
        return await _read(self.db, {**wanted, **_VISIBLE}, {"_id": 1}, None)

    async def job_snapshots(self, names: Sequence[str]) -> list[JobSnapshot]:
        """Several reads: of one instant on a replica set, elsewhere repeated if live executions have changed in
        between."""
        db = self.db
        try:
            async with db.snapshot() as session:
                if session is not None:
                    return await _snapshots(db, names, session)
        except StoreUnavailable:
            raise
        except StoreError:
            pass  # the server gave the snapshot up
        ids = [doc["id"] for doc in await db.jobs.find({"_id": {"$in": list(names)}}, {"id": 1})]
        found: list[JobSnapshot] = []
        for _ in range(SNAPSHOT_TRIES):
            live = await live_of(db, ids)
            ended, jobs = await stats(db, ids), await self.jobs(names)
            found = snapshots(jobs, ended, *live)
            if await live_of(db, ids) == live:
                break
        return found

    async def jobs_after(self, name: str, limit: int) -> list[Job]:
        return await _read(self.db, {"_id": {"$gt": name}, **_VISIBLE}, {"_id": 1}, limit)

    async def job_queues(self) -> list[str]:
        """A job that is being deleted counts until it is gone: a condition would have every job read."""
        return sorted(await self.db.jobs.distinct("list.queue"))

    async def count_jobs(self, cap: int) -> int:
        return int(await self.db.jobs.count_documents(_VISIBLE, limit=cap)) if cap > 0 else 0

    async def swept(self, limit: int) -> list[Job]:
        return await _read(self.db, {"sweep": True}, {"_id": 1}, limit)

    async def due_jobs(self, limit: int) -> DuePage:
        """Reads one job more than asked for, which gives the next due time."""
        db, now = self.db, await self.db.now()
        found = await _read(db, {"due": {"$lte": now}}, {"due": 1, "_id": 1}, limit + 1)
        if len(found) > limit:
            return DuePage(jobs=tuple(found[:limit]), next_due=found[limit].due, now=now)
        upcoming = await db.jobs.find_one({"due": {"$gt": now}}, {"due": 1}, sort=[("due", 1)])
        return DuePage(jobs=tuple(found), next_due=None if upcoming is None else int(upcoming["due"]), now=now)

    async def find_jobs(self, query: JobQuery, cap: int) -> JobsFound:
        """First counts the matches, up to `cap`. If these are all, they are sorted. Otherwise matches are frequent, and
        walking along the index of the order soon finds a page of them."""
        db = self.db
        known = await _known(db, query)
        stages = _stages(db, query, known)
        counted = await db.jobs.aggregate([*stages, {"$limit": cap}, {"$count": "n"}])
        count = sum([int(doc["n"]) for doc in counted])
        if query.limit < 1 or not count:
            return JobsFound([], count)
        if query.order == "last_started":
            return JobsFound(await _by_last_start(db, query, stages, known), count)
        if count < cap:
            return JobsFound(await _sorted(db, query, stages), count)
        return JobsFound(await _walked(db, query, known), count)


async def _snapshots(db: Database, names: Sequence[str], session: Any) -> list[JobSnapshot]:
    jobs = await _read(db, {"_id": {"$in": list(names)}, **_VISIBLE}, {"_id": 1}, None, session=session)
    ids = [job.id for job in jobs]
    live = await live_of(db, ids, session=session)
    return snapshots(jobs, await stats(db, ids, session=session), *live)


async def _read(db: Database, wanted: dict[str, Any], order: dict[str, int], limit: int | None, **at: Any) -> list[Job]:
    if limit is not None and limit < 1:
        return []
    numbers = {"from": db.incarnations.name, "localField": "id", "foreignField": "_id", "as": "incarnation"}
    pipeline: list[dict[str, Any]] = [{"$match": wanted}, {"$sort": order}]
    pipeline += [] if limit is None else [{"$limit": limit}]
    pipeline += [{"$lookup": numbers}, {"$unset": "outbox"}]
    return [job_of(doc) for doc in await db.jobs.aggregate(pipeline, **at)]


# --- filters by executions --------------------------------------------------------------------------------------------


class KnownExecutions(msgspec.Struct, frozen=True):
    """What a query needs to know about executions: the ids of jobs that have active or pending ones, and by job id the
    endings (id, state, started) newer than the totals. `ended` are the ids of jobs whose last ending is in these
    states; states of too many jobs are not in it."""

    active: list[str] = []
    pending: list[str] = []
    newer: dict[str, dict[str, Any]] = {}
    ended: dict[frozenset[State], list[str]] = {}


async def _known(db: Database, query: JobQuery) -> KnownExecutions:
    asked = query.any_of
    active = any(facts.active is not None for facts in asked)
    endings = query.order == "last_started" or any(facts.last is not None for facts in asked)
    newer = await _newer(db) if endings else {}
    named = {_named(facts.last) for facts in asked if facts.last is not None}
    ended = {states: await _ended_in(db, states, newer) for states in named}
    return KnownExecutions(
        active=await _with_active(db) if active else [],
        pending=await _with_pending(db, query),
        newer=newer,
        ended={states: ids for states, ids in ended.items() if ids is not None},
    )


async def _with_active(db: Database) -> list[str]:
    match = {"live": True, "state": {"$in": ["running", "waiting"]}}
    found = await db.executions.aggregate([{"$match": match}, {"$group": {"_id": "$job_id"}}], hint="live")
    return [doc["_id"] for doc in found]


async def _with_pending(db: Database, query: JobQuery) -> list[str]:
    """Of the jobs that meet the other conditions: pending executions may be many."""
    branches = [{"$and": [*_flags(facts), {}]} for facts in query.any_of if facts.pending is not None]
    if not branches:
        return []
    jobs = await db.jobs.find({"$and": [_VISIBLE, *_own(query), {"$or": branches}]}, {"_id": 0, "id": 1})
    ids = [doc["id"] for doc in jobs]
    found: list[str] = []
    for start in range(0, len(ids), _IDS_AT_ONCE):
        match = {"job_id": {"$in": ids[start : start + _IDS_AT_ONCE]}, "live": True, "state": "pending"}
        some = await db.executions.aggregate([{"$match": match}, {"$group": {"_id": "$job_id"}}], hint="job")
        found += [doc["_id"] for doc in some]
    return found


def _named(last: frozenset[State | None]) -> frozenset[State]:
    """The states whose jobs are named: the unwanted ones, where jobs without any ending are wanted."""
    return FINAL - last if None in last else FINAL & last


async def _ended_in(db: Database, states: frozenset[State], newer: dict[str, dict[str, Any]]) -> list[str] | None:
    """None if there are too many. Incarnations outlive their jobs."""
    if not states:
        return []
    names = sorted(state.value for state in states)
    wanted = {"stats.last_state": {"$in": names}}
    found = await db.incarnations.find(wanted, {"_id": 1}, limit=_MOST_NAMED + 1, hint="last_state")
    if len(found) > _MOST_NAMED:
        return None
    totals = {doc["_id"] for doc in found} - newer.keys()
    return sorted(totals | {id for id, last in newer.items() if last["state"] in names})


async def _newer(db: Database) -> dict[str, dict[str, Any]]:
    """Endings that the totals may not include yet."""
    found = await db.executions.aggregate([*_ENDED, {"$group": {"_id": "$job_id", "last": _NEWEST}}], hint="delta")
    last = {doc["_id"]: doc["last"] for doc in found}
    folded = await db.incarnations.find({"_id": {"$in": list(last)}}, {"stats.last_id": 1})
    totals = {doc["_id"]: doc.get("stats", {}).get("last_id", "") for doc in folded}
    return {id: doc for id, doc in last.items() if doc["id"] > totals.get(id, "")}


# --- filters by jobs ------------------------------------------------------------------------------------------------


def _stages(db: Database, query: JobQuery, known: KnownExecutions) -> list[Stage]:
    """Filters on the job's own document come first; the incarnation is looked up only for the jobs that are left."""
    branches = [_facts(facts, known) for facts in query.any_of]
    conditions: list[Condition] = [_VISIBLE, *_own(query)]
    if branches:
        conditions.append({"$or": [{"$and": [*own, {}]} for own, _ in branches]})
    if not any(last for _, last in branches):
        return [{"$match": {"$and": conditions}}]
    by_last = {"$match": {"$or": [{"$and": [*own, *last, {}]} for own, last in branches]}}
    return [{"$match": {"$and": conditions}}, *_with_last(db, known), by_last]


def _own(query: JobQuery) -> list[Condition]:
    columns = (("handler", query.handler), ("queue", query.queue), ("origin", query.origin))
    conditions: list[Condition] = [{f"list.{name}": value} for name, value in columns if value is not None]
    if query.search is not None:
        conditions.append({"list.search": {"$regex": re.escape(query.search)}})
    if query.name_part is not None:  # the text begins with the name
        conditions.append({"list.search": {"$regex": f"^[^\x1f]*{re.escape(query.name_part)}"}})
    conditions += [{"labels": label} for label in query.labels]
    if query.due_before is not None:
        conditions.append({"due": {"$lt": query.due_before}, "paused": {"$exists": False}})
    if query.without_system:
        conditions.append({"_id": {"$not": {"$regex": f"^{re.escape(SYSTEM_PREFIX)}"}}})
    if query.without:
        conditions.append({"_id": {"$nin": sorted(query.without)}})
    if query.code_in is not None:
        conditions.append({"$or": [{"list.origin": {"$ne": "code"}}, {"_id": {"$in": sorted(query.code_in)}}]})
    return conditions


def _facts(facts: JobFacts, known: KnownExecutions) -> tuple[list[Condition], list[Condition]]:
    """Conditions on the job's own document, and conditions on its incarnation."""
    own = _flags(facts)
    for ids, wanted in ((known.active, facts.active), (known.pending, facts.pending)):
        if wanted is not None:
            own.append({"id": {"$in" if wanted else "$nin": ids}})
    if facts.last is None:
        return own, []
    if (ended := known.ended.get(_named(facts.last))) is not None:
        return [*own, {"id": {"$nin" if None in facts.last else "$in": ended}}], []
    named = [None if state is None else state.value for state in facts.last]
    return own, [{"last.state": {"$in": named}}]


def _flags(facts: JobFacts) -> list[Condition]:
    flags = (("cancelled", facts.cancelled), ("paused", facts.paused), ("due", facts.planned))
    return [{field: {"$exists": wanted}} for field, wanted in flags if wanted is not None]


def _with_last(db: Database, known: KnownExecutions) -> list[Stage]:
    """Stages that set `last` to the last ending of each job: that of its totals, or a newer one."""
    lookup = {"from": db.incarnations.name, "localField": "id", "foreignField": "_id", "as": "totals"}
    totals = {name: {"$first": f"$totals.stats.last_{name}"} for name in ("state", "started")}
    is_newer = {"$in": ["$id", {"$literal": list(known.newer)}]}
    chosen = {"$cond": [is_newer, value_by_id(known.newer, "$id"), totals]} if known.newer else totals
    return [
        {"$lookup": {**lookup, "pipeline": [{"$project": {"stats.last_state": 1, "stats.last_started": 1}}]}},
        {"$set": {"last": chosen}},
    ]


# --- orders ---------------------------------------------------------------------------------------------------------


async def _sorted(db: Database, query: JobQuery, stages: list[Stage]) -> list[str]:
    """Jobs without a value for the order come last, by name."""
    key: Any = "$_id" if query.order == "name" else f"${_FIELDS.get(query.order, 'due')}"
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
    return await _names(db, pipeline)


async def _by_last_start(db: Database, query: JobQuery, stages: list[Stage], known: KnownExecutions) -> list[str]:
    """No index gives this order. Sorted here: looking each incarnation up in the server takes twenty times as long."""
    chosen = [*stages, {"$match": {"_id": {"$gt": query.after}}}, {"$sort": {"_id": 1}}, {"$project": {"id": 1}}]
    jobs = {doc["id"]: doc["_id"] for doc in await db.jobs.aggregate(chosen, allowDiskUse=True)}
    totals = await db.incarnations.find({"_id": {"$in": list(jobs)}}, {"stats.last_started": 1})
    started = {doc["_id"]: doc.get("stats", {}).get("last_started") for doc in totals}
    started |= {id: last.get("started") for id, last in known.newer.items()}
    with_value = [id for id in jobs if started.get(id) is not None]  # by name, and sorting keeps that for equal ones
    with_value.sort(key=lambda id: int(started[id]), reverse=query.backwards)
    rest = [id for id in jobs if started.get(id) is None]
    return [jobs[id] for id in [*with_value, *rest][query.offset : query.offset + query.limit]]


async def _walked(db: Database, query: JobQuery, known: KnownExecutions) -> list[str]:
    """Jobs without a value for the order come last, by name."""
    wanted = query.offset + query.limit
    if query.order != "next_run":
        field = _FIELDS.get(query.order, "_id")
        return (await _walk(db, query, known, {}, field, wanted))[query.offset :]
    found = await _walk(db, query, known, {"due": {"$exists": True}, "paused": {"$exists": False}}, "due", wanted)
    if len(found) < wanted:
        rest = {"$or": [{"due": {"$exists": False}}, {"paused": {"$exists": True}}]}
        ahead = msgspec.structs.replace(query, backwards=False)
        found += await _walk(db, ahead, known, rest, "_id", wanted - len(found))
    return found[query.offset :]


async def _walk(
    db: Database, query: JobQuery, known: KnownExecutions, extra: Condition, field: str, most: int
) -> list[str]:
    """Sorts before anything is looked up, so that an index can give the order."""
    [first, *rest] = _stages(db, query, known)
    match = {"$match": {"$and": [first["$match"], extra, {"_id": {"$gt": query.after}}]}}
    direction = -1 if query.backwards else 1
    sort = {"$sort": {field: direction} if field == "_id" else {field: direction, "_id": 1}}
    return await _names(db, [match, sort, *rest, {"$limit": most}])


async def _names(db: Database, pipeline: Sequence[Stage]) -> list[str]:
    found = await db.jobs.aggregate([*pipeline, {"$project": {"_id": 1}}], allowDiskUse=True)
    return [doc["_id"] for doc in found]
