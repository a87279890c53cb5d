"""Statistics: an ended row is its own delta until `fold` has added it to the totals of its job.

The write that ends a row marks it (`delta`). Folding takes a batch of marked rows of one job, adds them to the totals
and, in the same write, lists their ids there (`folding`); then it clears the marks, then the list. Listed rows count as
part of the totals, marked or not, and the next fold finishes a list that a crash has left. Ended rows without a number
get it in the same way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import reduce
from typing import Any

from pymongo import ReturnDocument

from ....model.execution import State
from ....model.job import JobStats, LiveCounts
from ....model.store.messages import NewestLive
from ...common.rows import ending_of, merge_stats
from ..connection.bulk import value_by_id
from ..connection.database import Database, StorePart
from ..connection.errors import repeated
from ..documents import Document, stats_document, stats_of
from ..executions.lists import clear_out

_SUMS = ("completed", "partial", "failed", "cancelled", "skipped")
TRIES = 20
_IDS_AT_ONCE = 1_000
_AT_ONCE = 8

_DELTA = {"delta": True}
_TOTALS = {"stats": 1, "folds": 1, "folding": 1}
_ENDED = {"live": False, **_DELTA}


class Statistics(StorePart):
    async def stats(self, job_ids: Sequence[str] | None = None) -> dict[str, JobStats]:
        return await stats(self.db, job_ids)

    async def live_counts(self, job_ids: Sequence[str] | None = None) -> dict[str, LiveCounts]:
        return (await _counted(self.db, job_ids))[0]


# --- reading --------------------------------------------------------------------------------------------------------


async def live_of(
    db: Database, job_ids: Sequence[str], **at: Any
) -> tuple[dict[str, LiveCounts], dict[str, NewestLive]]:
    """`at` is the session of a snapshot, if there is one; so it is below."""
    counts, last = await _counted(db, job_ids, **at)
    newest, fields = {"_id": {"$in": list(last.values())}}, {"job_id": 1, "failures": 1, "started": 1}
    rows = await db.executions.find(newest, fields, **at)
    return counts, {row["job_id"]: NewestLive(row["_id"], row.get("failures", 0), row.get("started")) for row in rows}


async def _counted(
    db: Database, job_ids: Sequence[str] | None, **at: Any
) -> tuple[dict[str, LiveCounts], dict[str, str]]:
    """Counts and the newest id, along an index and without reading a document, by job."""
    ids = [doc["_id"] for doc in await db.incarnations.find({}, {"_id": 1})] if job_ids is None else list(job_ids)
    counts: dict[str, dict[str, int]] = {}
    last: dict[str, str] = {}
    for start in range(0, len(ids), _IDS_AT_ONCE):
        match = {"$match": {"job_id": {"$in": ids[start : start + _IDS_AT_ONCE]}, "live": True}}
        for doc in await db.executions.aggregate([match, _LIVE], **at):
            job_id, state = doc["_id"]["job_id"], doc["_id"]["state"]
            counts.setdefault(job_id, {})[state] = int(doc["count"])
            last[job_id] = max(doc["newest"], last.get(job_id, ""))
    return {id: LiveCounts(**states) for id, states in counts.items()}, last


async def stats(db: Database, job_ids: Sequence[str] | None, **at: Any) -> dict[str, JobStats]:
    """Totals and deltas are two reads, repeated if something was folded in between."""
    wanted = {} if job_ids is None else {"_id": {"$in": list(job_ids)}}
    found: dict[str, JobStats] = {}
    for _ in range(TRIES):
        totals = await _totals(db, wanted, **at)
        counted = [id for doc in totals.values() for id in doc.get("folding", {}).get("ids", ())]
        deltas = await _deltas(db, job_ids, counted, **at)
        found = {id: stats_of(id, doc["stats"]) for id, doc in totals.items() if "stats" in doc}
        for id, delta in deltas.items():
            found[id] = merge_stats(found[id], delta) if id in found else delta
        after = totals if at else await _totals(db, wanted)
        if {id: doc["folds"] for id, doc in after.items()} == {id: doc["folds"] for id, doc in totals.items()}:
            break
    return found


async def _totals(db: Database, wanted: dict[str, Any], **at: Any) -> dict[str, Any]:
    found = await db.incarnations.find({**wanted, "folds": {"$exists": True}}, _TOTALS, **at)
    return {doc["_id"]: doc for doc in found}


async def _deltas(
    db: Database, job_ids: Sequence[str] | None, counted: Sequence[str], **at: Any
) -> dict[str, JobStats]:
    match: dict[str, Any] = dict(_DELTA) if job_ids is None else {"job_id": {"$in": list(job_ids)}, **_DELTA}
    if counted:
        match["_id"] = {"$nin": list(counted)}
    group = {"$group": {"_id": {"job_id": "$job_id", "trigger": _TRIGGER}, **_GROUP}}
    deltas: dict[str, JobStats] = {}
    for doc in await db.executions.aggregate([{"$match": match}, group], hint="delta", **at):
        id, delta = doc["_id"]["job_id"], _batch_of(doc)
        deltas[id] = merge_stats(deltas[id], delta) if id in deltas else delta
    return deltas


def _batch_of(doc: Document) -> JobStats:
    """The sum over rows of one job and one trigger."""
    job_id, trigger = doc["_id"]["job_id"], doc["_id"]["trigger"]
    endings = {ending_of(trigger, State(state)): doc[state] for state in _SUMS if doc[state]}
    last = {f"last_{name}": value for name, value in (doc["last"] or {}).items()}
    return stats_of(job_id, {**doc, **last, "by_trigger": endings})


def _one_if(state: str) -> dict[str, Any]:
    return {"$sum": {"$cond": [{"$eq": ["$state", state]}, 1, 0]}}


_STATE_OF_JOB = {"job_id": "$job_id", "state": "$state"}
_LIVE: dict[str, Any] = {"$group": {"_id": _STATE_OF_JOB, "count": {"$sum": 1}, "newest": {"$max": "$_id"}}}
_COUNTED = {"$and": [{"$eq": ["$live", False]}, {"$ne": ["$state", "skipped"]}]}
_TIMED = {"$and": [_COUNTED, {"$ne": [{"$type": "$started"}, "missing"]}, {"$ne": [{"$type": "$finished"}, "missing"]}]}
_LAST = {
    "id": "$_id",
    "state": "$state",
    "started": "$started",
    "finished": "$finished",
    "error": "$error",
    "failures": "$failures",
}
_TRIGGER = {"$ifNull": ["$trigger", "enqueue"]}
_GROUP: dict[str, Any] = {
    **{state: _one_if(state) for state in _SUMS},
    "duration": {"$sum": {"$cond": [_TIMED, {"$subtract": ["$finished", "$started"]}, 0]}},
    "timed": {"$sum": {"$cond": [_TIMED, 1, 0]}},
    "rescued": {"$sum": {"$ifNull": ["$rescued", 0]}},
    "last": {"$max": {"$cond": [_COUNTED, _LAST, None]}},
}
"""The sums over rows. `last` is the greatest by its first field, which is the id."""


# --- folding --------------------------------------------------------------------------------------------------------


async def fold(db: Database, limit: int) -> int:
    merged = 0
    jobs: list[dict[str, Any]] = [{"$match": _DELTA}, {"$group": {"_id": "$job_id"}}]
    left = [job["_id"] for job in await db.executions.aggregate(jobs, hint="delta")]
    while left and merged < limit:
        some, left = left[: min(_AT_ONCE, limit - merged)], left[min(_AT_ONCE, limit - merged) :]
        share = (limit - merged) // len(some)
        merged += sum(await asyncio.gather(*(_fold_job(db, job_id, share) for job_id in some)))
    return merged


async def _fold_job(db: Database, job_id: str, limit: int) -> int:
    """Reads the totals before the rows, so that the write fails if another process folds meanwhile."""
    known = await finish_folding(db, job_id)
    unnumbered = {"$push": {"$cond": [{"$eq": [{"$type": "$number"}, "missing"]}, "$_id", "$$REMOVE"]}}
    ids = {"ids": {"$push": "$_id"}, "unnumbered": unnumbered}
    batch: list[Document] = [
        {"$match": {"job_id": job_id, **_ENDED}},
        {"$sort": {"_id": 1}},
        {"$limit": limit},
        {"$group": {"_id": {"job_id": "$job_id", "trigger": _TRIGGER}, **ids, **_GROUP}},
    ]
    found = await db.executions.aggregate(batch, hint="delta")
    if not found or known is None:
        return 0
    totals = reduce(merge_stats, map(_batch_of, found), stats_of(job_id, known.get("stats", {})))
    folding = {name: sorted(id for group in found for id in group[name]) for name in ids}
    fields = {
        "stats": {"$literal": stats_document(totals)},
        "folds": {"$add": ["$folds", 1]},
        "folding": {"$mergeObjects": [{"$literal": folding}, {"first": {"$add": ["$last_number", 1]}}]},
        "last_number": {"$add": ["$last_number", len(folding["unnumbered"])]},
    }
    seen = {"_id": job_id, "folds": known["folds"], "folding": {"$exists": False}}
    after = await db.incarnations.find_one_and_update(
        seen, [{"$set": fields}], projection=_TOTALS, return_document=ReturnDocument.AFTER
    )
    if after is None:
        return 0
    await _clear(db, after)
    return len(folding["ids"])


async def finish_folding(db: Database, job_id: str) -> Document | None:
    """Finish what a crash has left; returns the incarnation."""
    known = await db.incarnations.find_one({"_id": job_id}, _TOTALS)
    if known is not None and "folding" in known:
        await _clear(db, known)
    return known


async def _clear(db: Database, doc: Document) -> None:
    """Clear the marks of rows that the totals include, give them their numbers, delete those that are not kept."""
    ids, unnumbered, first = doc["folding"]["ids"], doc["folding"]["unnumbered"], int(doc["folding"]["first"])
    clear: dict[str, Any] = {"$unset": ["delta", "rescued", "settle", "claim"]}
    number = value_by_id({id: first + n for n, id in enumerate(unnumbered)})
    rest = sorted(set(ids) - set(unnumbered))
    if unnumbered:
        await _change(db, unnumbered, [{"$set": {"number": number}}, clear])
    if rest:
        await _change(db, rest, [clear])
    await _delete_hidden(db, ids)
    await db.incarnations.update_one({"_id": doc["_id"], "folds": doc["folds"]}, {"$unset": {"folding": 1}})


async def _change(db: Database, ids: list[str], change: list[dict[str, Any]]) -> None:
    await repeated(lambda: db.executions.update_many({"_id": {"$in": ids}, "live": False}, change))


async def _delete_hidden(db: Database, ids: Sequence[str]) -> None:
    """Delete those of these rows that no reader can see any more."""
    hidden = {"_id": {"$in": list(ids)}, "hidden": True, "live": False, "delta": {"$ne": True}}
    gone = [doc["_id"] for doc in await db.executions.find(hidden, {"_id": 1})]
    if gone:
        await clear_out(db, gone)
        await repeated(lambda: db.executions.delete_many({"_id": {"$in": gone}, "hidden": True}))
