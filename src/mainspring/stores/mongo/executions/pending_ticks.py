"""Executions that a tick is about to bring: laid down unseen, brought to life once, by whoever comes first.

A tick is a write to its job and the executions that follow from it, in documents of their own. Were they inserted after
the write, a scheduler that had stopped in between could insert one again that another had inserted meanwhile, which had
run and had been deleted. So they are laid down first, as embryos that no reader sees and no index knows. The write that
wins names them in the job's outbox. Coming to life consumes the embryo: it can happen once, however often it is tried.

An embryo belongs to the version of the job that its writer saw. A writer that saw a later version takes it over. Once
the job has left that version, and its outbox does not name it, nobody can need it any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from pymongo import ReturnDocument, UpdateOne
from pymongo.errors import BulkWriteError, DuplicateKeyError, PyMongoError

from ....model.execution import ExecutionRow
from ....model.store.messages import Added, JobWrite
from ...common.rows import in_slot, overlap_choices, skipped_record
from ..connection.database import Database, duplicate_index, repeated
from .documents import document, execution_of
from .insert import overlap_holder, unique_holder

_DUPLICATE = 11000
_TRIES = 20
_FORGOTTEN = timedelta(days=1)
_UNBORN = {"embryo": {"$exists": True}}
_WITHOUT_KEYS = {"embryo.row.unique_key": {"$exists": False}, "embryo.row.overlap_key": {"$exists": False}}


async def lay_embryos(db: Database, writes: Sequence[JobWrite]) -> frozenset[str]:
    """Lay down all that the writes would add; the ids that exist already.

    Where others have been before, the rest is a few commands too, however many there are: many schedulers that are late
    go for the same ticks at the same time, and the slowest of them must not need longer than the next one is away."""
    left = [_embryo(execution, write) for write in writes for execution in write.executions]
    known: set[str] = set()
    for _ in range(_TRIES):
        left = await _not_overtaken(db, await _lay(db, left))
        if not left:
            return frozenset(known)
        await _take_over(db, left)
        found = db.executions.find({"_id": {"$in": [doc["_id"] for doc in left]}}, {"embryo.version": 1})
        stored = {doc["_id"]: "embryo" in doc async for doc in found}
        known.update(id for id, unborn in stored.items() if not unborn)
        left = [doc for doc in left if doc["_id"] not in stored]  # gone meanwhile
    raise PyMongoError(f"execution {left[0]['_id']} comes and goes all the time")


async def _lay(db: Database, embryos: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those whose ids exist already."""
    try:
        if embryos:
            await repeated(lambda: db.executions.insert_many(embryos, ordered=False))
        return []
    except BulkWriteError as error:
        failed = error.details["writeErrors"]
        if error.details.get("writeConcernErrors") or any(one["code"] != _DUPLICATE for one in failed):
            raise
    return [embryos[one["index"]] for one in failed]


async def _not_overtaken(db: Database, embryos: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without those of jobs that have moved on: a version never comes back, so that their write has lost already."""
    if not embryos:
        return []
    names = list({doc["embryo"]["job"] for doc in embryos})
    found = db.jobs.find({"_id": {"$in": names}}, {"id": 1, "version": 1})
    versions = {(doc["_id"], doc["id"]): doc["version"] async for doc in found}
    abouts = [(doc, doc["embryo"]) for doc in embryos]
    return [doc for doc, about in abouts if versions.get((about["job"], about["job_id"]), 0) <= about["version"]]


async def _take_over(db: Database, embryos: list[dict[str, Any]]) -> None:
    """From writers that saw an earlier version of the job."""
    writes = [
        UpdateOne(
            {"_id": doc["_id"], "embryo.version": {"$lt": doc["embryo"]["version"]}},
            {"$set": {"embryo": doc["embryo"]}},
        )
        for doc in embryos
    ]
    await repeated(lambda: db.executions.bulk_write(writes, ordered=False))


def _embryo(execution: ExecutionRow, write: JobWrite) -> dict[str, Any]:
    about = {
        "job": write.job.name,
        "job_id": write.job.id,
        "version": write.seen_version or 0,
        "row": document(execution),
        "at": datetime.now(UTC),
    }
    return {"_id": execution.id, "hidden": True, "embryo": about}


async def forget_embryos(db: Database, job: str, job_id: str, ids: Sequence[str], version: int) -> None:
    """Of a write that lost, or died: those that no outbox names, now that the job has left that version."""
    stored = await db.jobs.find_one({"_id": job}, {"id": 1, "version": 1, "outbox.executions": 1})
    if stored is not None and stored["id"] == job_id and stored["version"] <= version:
        return  # somebody who saw the same version may still win with them
    named = frozenset((stored or {}).get("outbox", {}).get("executions", ()))
    lost = [id for id in ids if id not in named]
    if stored is not None or version > 0:
        await db.executions.delete_many({"_id": {"$in": lost}, "embryo.version": version})


async def forget_old_embryos(db: Database, limit: int) -> None:
    """What writers that died have left."""
    old = datetime.now(UTC) - _FORGOTTEN
    for doc in await db.executions.find({"embryo.job": {"$gt": ""}}, {"embryo.row": 0}).limit(limit).to_list():
        about = doc["embryo"]
        await forget_embryos(db, about["job"], about["job_id"], [doc["_id"]], about["version"])
        if about["version"] > 0 or about["at"].replace(tzinfo=UTC) > old:
            continue
        if await db.jobs.find_one({"_id": about["job"]}, {"_id": 1}) is None:
            await db.executions.delete_one({"_id": doc["_id"], "embryo.version": 0})


# --- birth ----------------------------------------------------------------------------------------------------------


async def bring_all_to_life(db: Database, numbers: dict[str, int]) -> dict[str, Added]:
    """Those without keys in one step: nothing can be in their way."""
    found = db.executions.find({"_id": {"$in": list(numbers)}, **_UNBORN, **_WITHOUT_KEYS}, {"_id": 1})
    ids = [doc["_id"] async for doc in found]
    answers: dict[str, Added] = {}
    if len(ids) > 1:
        own = {"$arrayElemAt": [[numbers[id] for id in ids], {"$indexOfArray": [{"$literal": ids}, "$_id"]}]}
        birth = [{"$replaceWith": {"$mergeObjects": ["$embryo.row", {"number": own}]}}]
        await repeated(lambda: db.executions.update_many({"_id": {"$in": ids}, **_UNBORN}, birth))
        answers = {id: Added(id, "added") for id in ids}
    for id, number in numbers.items():
        if id not in answers:
            answers[id] = await bring_to_life(db, id, number)
    return answers


async def bring_to_life(db: Database, id: str, number: int) -> Added:
    """As `add` does, from the embryo. Whoever comes second finds it done."""
    doc = await db.executions.find_one({"_id": id, **_UNBORN})
    if doc is None:
        return await born(db, id)
    execution = execution_of(doc["embryo"]["row"])
    for _ in range(_TRIES):
        if execution.state.final:
            return await _become(db, id, document(execution), number, Added(id, "added"))
        holder = await unique_holder(db, execution.unique_key)
        if holder is not None:
            await db.executions.delete_one({"_id": id, **_UNBORN})
            return Added(id, "unique_taken", holder)
        choices = overlap_choices(execution)
        for row in [in_slot(execution, key) for key in choices] or [execution]:
            try:
                return await _become(db, id, document(row), number, Added(id, "added"))
            except DuplicateKeyError as error:
                if duplicate_index(error.details or {}) != "overlap_key":
                    break
        else:
            holder = await overlap_holder(db, choices[0])
            return await _become(db, id, document(skipped_record(execution)), number, Added(id, "skipped", holder))
    raise PyMongoError(f"the keys of execution {id} change hands all the time")


async def _become(db: Database, id: str, row: dict[str, Any], number: int, answer: Added) -> Added:
    """The embryo turns into the row in one step; it may have done so already, through somebody else."""
    done = await db.executions.find_one_and_update(
        {"_id": id, **_UNBORN},
        [{"$replaceWith": {"$literal": {**row, "number": number}}}],
        projection={"_id": 1},
        return_document=ReturnDocument.AFTER,
    )
    return answer if done is not None else await born(db, id)


async def born(db: Database, id: str) -> Added:
    """What became of one that has come to life through somebody else."""
    stored = await db.executions.find_one({"_id": id}, {"state": 1, "reason": 1})
    skipped = stored is not None and (stored.get("state"), stored.get("reason")) == ("skipped", "overlap")
    return Added(id, "skipped" if skipped else "added")
