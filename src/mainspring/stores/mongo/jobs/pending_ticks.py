"""Pending ticks: executions that a write to a job is about to add, stored but not visible yet.

A tick is a write to its job and the executions that come with it, in documents of their own. If they were inserted
after the write, a scheduler that had paused in between could insert an execution a second time that another scheduler
had inserted meanwhile, that had run and had been deleted. So they are stored first, as pending ticks that no reader
sees and no index covers. The write that wins lists them in the job's outbox. Turning a pending tick into its execution
consumes it: that happens once, however often it is tried.

A pending tick belongs to the version of the job that its writer saw. A writer that saw a later version takes it over.
Once the job has left that version, and its outbox does not list it, nobody can need it any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from pymongo import UpdateOne

from ....model.errors import StoreError
from ....model.execution import ExecutionRow
from ....model.store.messages import Added, JobWrite
from ..connection.bulk import value_by_id
from ..connection.database import Database
from ..connection.errors import Refused, repeated
from ..documents import Document, execution_document, execution_of
from ..executions.insert import store_keyed

_TRIES = 20
_ABANDONED = timedelta(days=1)
_PENDING = {"pending_tick": {"$exists": True}}
_WITHOUT_KEYS = {f"pending_tick.row.{key}": {"$exists": False} for key in ("unique_key", "overlap_key")}


# --- storing and deleting -------------------------------------------------------------------------------------------


async def store_pending(db: Database, writes: Sequence[JobWrite]) -> frozenset[str]:
    """Store all executions of these writes as pending; returns the ids of those that exist already.

    Ticks that other schedulers have stored before cost a few commands too, however many there are: many late schedulers
    compete for the same ticks, and the slowest must not need longer than the time to the next tick."""
    left = [_document(execution, write) for write in writes for execution in write.executions]
    known: set[str] = set()
    for _ in range(_TRIES):
        refused = await db.executions.insert_missing(left)
        left = await _without_lost(db, [left[n] for n in sorted(refused)])
        if not left:
            return frozenset(known)
        await _take_over(db, left)
        found = await db.executions.find({"_id": {"$in": [doc["_id"] for doc in left]}}, {"pending_tick.version": 1})
        stored = {doc["_id"]: "pending_tick" in doc for doc in found}
        known.update(id for id, pending in stored.items() if not pending)
        left = [doc for doc in left if doc["_id"] not in stored]  # deleted meanwhile
    raise StoreError(f"execution {left[0]['_id']} is stored and deleted all the time")


def _document(execution: ExecutionRow, write: JobWrite) -> Document:
    tick = {
        "job": write.job.name,
        "job_id": write.job.id,
        "version": write.seen_version or 0,
        "row": execution_document(execution),
        "at": datetime.now(UTC),
    }
    return {"_id": execution.id, "hidden": True, "pending_tick": tick}


async def _without_lost(db: Database, documents: list[Document]) -> list[Document]:
    """Drop those of jobs with a later version: versions never come back, so their write has lost already."""
    if not documents:
        return []
    names = list({doc["pending_tick"]["job"] for doc in documents})
    found = await db.jobs.find({"_id": {"$in": names}}, {"id": 1, "version": 1})
    versions = {(doc["_id"], doc["id"]): doc["version"] for doc in found}
    ticks = [(doc, doc["pending_tick"]) for doc in documents]
    return [doc for doc, tick in ticks if versions.get((tick["job"], tick["job_id"]), 0) <= tick["version"]]


async def _take_over(db: Database, documents: list[Document]) -> None:
    """Take over the pending ticks of writers that saw an earlier version of the job."""
    writes = [
        UpdateOne(
            {"_id": doc["_id"], "pending_tick.version": {"$lt": doc["pending_tick"]["version"]}},
            {"$set": {"pending_tick": doc["pending_tick"]}},
        )
        for doc in documents
    ]
    await repeated(lambda: db.executions.bulk_write(writes))


async def delete_lost(db: Database, job: str, job_id: str, ids: Sequence[str], version: int) -> None:
    """Delete those of a write that lost, or died, unless an outbox lists them or the job still has that version."""
    stored = await db.jobs.find_one({"_id": job}, {"id": 1, "version": 1, "outbox.executions": 1})
    if stored is not None and stored["id"] == job_id and stored["version"] <= version:
        return  # another writer that saw the same version may still win with them
    listed = frozenset((stored or {}).get("outbox", {}).get("executions", ()))
    lost = [id for id in ids if id not in listed]
    if stored is not None or version > 0:
        await db.executions.delete_many({"_id": {"$in": lost}, "pending_tick.version": version})


async def delete_abandoned(db: Database, limit: int) -> None:
    """Delete what dead writers have left."""
    old = datetime.now(UTC) - _ABANDONED
    pending = {"pending_tick.job": {"$gt": ""}}
    for doc in await db.executions.find(pending, {"pending_tick.row": 0}, limit=limit):
        tick = doc["pending_tick"]
        await delete_lost(db, tick["job"], tick["job_id"], [doc["_id"]], tick["version"])
        if tick["version"] > 0 or tick["at"].replace(tzinfo=UTC) > old:
            continue
        if await db.jobs.find_one({"_id": tick["job"]}, {"_id": 1}) is None:
            await db.executions.delete_one({"_id": doc["_id"], "pending_tick.version": 0})


# --- turning them into executions -----------------------------------------------------------------------------------


async def add_pending(db: Database, numbers: dict[str, int]) -> dict[str, Added]:
    """Turn these pending ticks into executions with these numbers. Those without keys are one command, because no index
    can refuse them."""
    found = await db.executions.find({"_id": {"$in": list(numbers)}, **_PENDING, **_WITHOUT_KEYS}, {"_id": 1})
    ids = [doc["_id"] for doc in found]
    added: dict[str, Added] = {}
    if len(ids) > 1:
        number = {"number": value_by_id({id: numbers[id] for id in ids})}
        change = [{"$replaceWith": {"$mergeObjects": ["$pending_tick.row", number]}}]
        await repeated(lambda: db.executions.update_many({"_id": {"$in": ids}, **_PENDING}, change))
        added = {id: Added(id, "added") for id in ids}
    for id, number_of_one in numbers.items():
        if id not in added:
            added[id] = await _add_one(db, id, number_of_one)
    return added


async def _add_one(db: Database, id: str, number: int) -> Added:
    """As `add` does. A second call finds it done."""
    doc = await db.executions.find_one({"_id": id, **_PENDING})
    if doc is None:
        return await add_outcome(db, id)
    execution = execution_of(doc["pending_tick"]["row"])

    async def replace(row: ExecutionRow) -> str:
        change = [{"$replaceWith": {"$literal": {**execution_document(row), "number": number}}}]
        try:
            done = await db.executions.find_one_and_update({"_id": id, **_PENDING}, change, projection={"_id": 1})
        except Refused as refusal:
            return refusal.fields[0]
        return "_id" if done is None else ""

    if execution.state.final:
        added = Added(id, "duplicate" if await replace(execution) else "added")
    else:
        added = await store_keyed(db, execution, replace)
    if added.outcome == "unique_taken":
        await db.executions.delete_one({"_id": id, **_PENDING})
    return await add_outcome(db, id) if added.outcome == "duplicate" else added


async def add_outcome(db: Database, id: str) -> Added:
    """The outcome of a pending tick that another process has turned into an execution."""
    stored: Any = await db.executions.find_one({"_id": id}, {"state": 1, "reason": 1})
    skipped = stored is not None and (stored.get("state"), stored.get("reason")) == ("skipped", "overlap")
    return Added(id, "skipped" if skipped else "added")
