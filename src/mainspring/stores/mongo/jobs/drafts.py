"""Drafts: executions that a write to a job is about to add, stored but not visible yet.

A tick is a write to its job and the executions that come with it, in documents of their own. If they were inserted
after the write, a scheduler that had paused in between could insert an execution a second time that another scheduler
had inserted meanwhile, that had run and had been deleted. So they are stored first, as drafts that no reader sees and
no index covers, under the id that the execution will have. The write that wins names its drafts in the job's outbox.
Publishing a draft, which turns the document into the execution, consumes it: that happens once, however often it is
tried.

A draft carries the stamp of its writer. Writers that saw the same version of a job may have drafts of the same
execution side by side, each with its own content, and only that of the winner is published. A writer that has lost
drops its drafts; those of dead writers are dropped once it is certain that they have not won and never will.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from bson import ObjectId

from ....model.errors import StoreError
from ....model.execution import ExecutionRow
from ....model.store.messages import Added, JobWrite
from ..connection.bulk import value_by_id
from ..connection.database import Database
from ..connection.errors import Refused, repeated
from ..documents import Document, execution_document, execution_of
from ..executions.insert import store_keyed

_TRIES = 20
_UNKNOWN_FOR = timedelta(days=1)
_DRAFTED = {"drafts": {"$exists": True}}
_KEYS = ("unique_key", "overlap_key")


# --- storing and dropping -------------------------------------------------------------------------------------------


async def store_drafts(db: Database, writes: Sequence[JobWrite], stamp: ObjectId) -> frozenset[str]:
    """Store drafts of all executions of these writes; returns the ids of executions that exist already.

    Executions that other schedulers have drafted before cost a few commands too, however many there are: many late
    schedulers compete for the same ticks, and the slowest must not need longer than the time to the next tick."""
    drafts = {e.id: _draft(e, write, stamp) for write in writes for e in write.executions}
    left, known = list(drafts), set[str]()
    for _ in range(_TRIES):
        new = [{"_id": id, "hidden": True, "drafts": [drafts[id]]} for id in left]
        refused = await db.executions.insert_missing(new)
        left = await _without_lost(db, {left[n]: drafts[left[n]] for n in sorted(refused)})
        if not left:
            return frozenset(known)
        others = {"_id": {"$in": left}, **_DRAFTED, "drafts.stamp": {"$ne": stamp}}
        beside = {"$concatArrays": ["$drafts", [value_by_id({id: drafts[id] for id in left})]]}
        await repeated(partial(db.executions.update_many, others, [{"$set": {"drafts": beside}}]))
        found = {doc["_id"]: doc for doc in await db.executions.find({"_id": {"$in": left}}, {"drafts.stamp": 1})}
        known.update(id for id, doc in found.items() if "drafts" not in doc)
        stored = {id for id, doc in found.items() if any(one["stamp"] == stamp for one in doc.get("drafts", ()))}
        left = [id for id in left if id not in known | stored]  # dropped or deleted meanwhile
    raise StoreError(f"execution {left[0]} is stored and deleted all the time")


def _draft(execution: ExecutionRow, write: JobWrite, stamp: ObjectId) -> Document:
    return {
        "stamp": stamp,
        "job": write.job.name,
        "job_id": write.job.id,
        "version": write.seen_version or 0,
        "at": datetime.now(UTC),
        "row": execution_document(execution),
    }


async def _without_lost(db: Database, drafts: Mapping[str, Document]) -> list[str]:
    """Leave out those of jobs with a later version: versions never come back, so their write has lost already."""
    names = list({draft["job"] for draft in drafts.values()})
    jobs = await db.jobs.find({"_id": {"$in": names}}, {"id": 1, "version": 1}) if names else []
    versions = {(doc["_id"], doc["id"]): doc["version"] for doc in jobs}
    return [id for id, d in drafts.items() if versions.get((d["job"], d["job_id"]), 0) <= d["version"]]


async def drop_drafts(db: Database, ids: Sequence[str], stamp: ObjectId) -> None:
    """Drop the drafts of a write that has lost."""
    own = {"_id": {"$in": list(ids)}, "drafts.stamp": stamp}
    await repeated(lambda: db.executions.update_many(own, {"$pull": {"drafts": {"stamp": stamp}}}))
    await repeated(lambda: db.executions.delete_many({"_id": {"$in": list(ids)}, "drafts": []}))


async def drop_abandoned(db: Database, limit: int) -> None:
    """Drop what dead writers have left. The drafts are read before the jobs, whose outboxes may name them by then."""
    found = await db.executions.find(_DRAFTED, {"drafts.row": 0}, limit=limit, hint="drafts")
    names = list({draft["job"] for doc in found for draft in doc["drafts"]})
    wanted = {"id": 1, "version": 1, "outbox.id": 1}
    jobs = {doc["_id"]: doc for doc in await db.jobs.find({"_id": {"$in": names}}, wanted)} if names else {}
    abandoned: dict[ObjectId, list[str]] = {}
    for doc in found:
        for draft in doc["drafts"]:
            if _is_abandoned(draft, jobs.get(draft["job"])):
                abandoned.setdefault(draft["stamp"], []).append(doc["_id"])
    for stamp, ids in abandoned.items():
        await drop_drafts(db, ids, stamp)
    if empty := [doc["_id"] for doc in found if not doc["drafts"]]:
        await db.executions.delete_many({"_id": {"$in": empty}, "drafts": []})


def _is_abandoned(draft: Document, job: Document | None) -> bool:
    """Whether its write has lost for certain. That of a new job may still win once the job before it is deleted."""
    if job is not None and job["id"] == draft["job_id"]:
        lost = job.get("outbox", {}).get("id") != draft["stamp"] and job["version"] > draft["version"]
    else:
        lost = draft["version"] > 0 or draft["at"].replace(tzinfo=UTC) < datetime.now(UTC) - _UNKNOWN_FOR
    return bool(lost)


# --- publishing -----------------------------------------------------------------------------------------------------


async def publish(db: Database, stamp: ObjectId, numbers: Mapping[str, int]) -> dict[str, Added]:
    """Turn the drafts with this stamp into executions with these numbers, by id. Those without keys are one command,
    because no index can refuse them. Drafts that another process has published are left out."""
    own = {"_id": {"$in": list(numbers)}, "drafts.stamp": stamp}
    found = await db.executions.find(own, {"drafts": {"$elemMatch": {"stamp": stamp}}}) if numbers else []
    rows = {doc["_id"]: doc["drafts"][0]["row"] for doc in found}
    plain = {id: numbers[id] for id, row in rows.items() if not row["live"] or not any(key in row for key in _KEYS)}
    if plain:
        drafts = {"$filter": {"input": "$drafts", "cond": {"$eq": ["$$this.stamp", stamp]}}}
        row = {"$let": {"vars": {"draft": {"$first": drafts}}, "in": "$$draft.row"}}
        change = [{"$replaceWith": {"$mergeObjects": [row, {"number": value_by_id(plain)}]}}]
        await repeated(lambda: db.executions.update_many({**own, "_id": {"$in": list(plain)}}, change))
    added = {id: Added(id, "added") for id in plain}
    for id in [id for id in numbers if id in rows and id not in plain]:
        added[id] = await _publish_keyed(db, stamp, execution_of(rows[id]), numbers[id])
    return added


async def _publish_keyed(db: Database, stamp: ObjectId, execution: ExecutionRow, number: int) -> Added:
    """As `add` does. A second call finds it done."""
    own = {"_id": execution.id, "drafts.stamp": stamp}

    async def replace(row: ExecutionRow) -> str:
        change = [{"$replaceWith": {"$literal": {**execution_document(row), "number": number}}}]
        try:
            return "" if (await db.executions.update_one(own, change)).matched_count else "_id"
        except Refused as refusal:
            return refusal.fields[0]

    added = await store_keyed(db, execution, replace)
    if added.outcome == "unique_taken":
        await drop_drafts(db, [execution.id], stamp)
    return added


async def add_outcomes(db: Database, ids: Iterable[str]) -> dict[str, Added]:
    """The outcomes of drafts that another process has published."""
    found = await db.executions.find({"_id": {"$in": list(ids)}}, {"state": 1, "reason": 1})
    stored: dict[str, Any] = {doc["_id"]: (doc.get("state"), doc.get("reason")) for doc in found}
    return {id: Added(id, "skipped" if stored.get(id) == ("skipped", "overlap") else "added") for id in ids}
