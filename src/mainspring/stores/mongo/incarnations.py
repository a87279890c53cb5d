"""Incarnations of jobs: which executions belong to a job of that name, their numbers and their statistics.

One document for each `job_id`, made before its first execution is; it outlives the job.
"""

from __future__ import annotations

from collections.abc import Iterable

from bson import ObjectId
from pymongo import ReturnDocument, UpdateOne

from ...model.execution import Execution
from .database import Database, repeated


class Incarnations:
    """Remembers which ones this process knows to exist: they are never deleted."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def unknown(self, executions: Iterable[Execution]) -> dict[str, str]:
        """Names of jobs by id, of which this process does not know yet."""
        return {e.job_id: e.job for e in executions if e.job_id not in self._known}

    async def know(self, db: Database, executions: Iterable[Execution]) -> None:
        await self.know_jobs(db, self.unknown(executions))

    async def know_jobs(self, db: Database, names: dict[str, str]) -> None:
        new = {job_id: name for job_id, name in names.items() if job_id not in self._known}
        if new:
            await register(db, new)
            self._known.update(new)


async def register(db: Database, names: dict[str, str]) -> None:
    """`names` by job id."""
    writes = [
        UpdateOne({"_id": job_id}, {"$setOnInsert": {"job": name, "last_number": 0, "folds": 0}}, upsert=True)
        for job_id, name in sorted(names.items())
    ]
    await repeated(lambda: db.incarnations.bulk_write(writes, ordered=False))


async def ids_of(db: Database, job: str) -> list[str]:
    return [doc["_id"] async for doc in db.incarnations.find({"job": job}, {"_id": 1})]


async def numbers_of(db: Database, counts: dict[str, int]) -> dict[str, range]:
    """New numbers for several at once: drawn in one update, and read back by its stamp."""
    ids, stamp = list(counts), ObjectId()
    own = {"$arrayElemAt": [list(counts.values()), {"$indexOfArray": [{"$literal": ids}, "$_id"]}]}
    drawn = {"last_number": {"$add": ["$last_number", own]}, "drawn": stamp}
    if len(ids) > 1:
        await db.incarnations.update_many({"_id": {"$in": ids}}, [{"$set": drawn}])
    found = db.incarnations.find({"_id": {"$in": ids}, "drawn": stamp}, {"last_number": 1})
    last = {doc["_id"]: int(doc["last_number"]) async for doc in found} if len(ids) > 1 else {}
    numbers = {id: range(at - counts[id] + 1, at + 1) for id, at in last.items()}
    for id in ids:  # somebody else drew meanwhile, or there is only one
        if id not in numbers:
            numbers[id] = await next_numbers(db, id, counts[id])
    return numbers


async def next_numbers(db: Database, job_id: str, count: int) -> range:
    """So many new numbers. Whoever dies with them leaves a gap."""
    after = await db.incarnations.find_one_and_update(
        {"_id": job_id},
        {"$inc": {"last_number": count}, "$unset": {"drawn": 1}},
        projection={"last_number": 1},
        return_document=ReturnDocument.AFTER,
        upsert=True,
    )
    assert after is not None  # it was made, if need be
    last = int(after["last_number"])
    return range(last - count + 1, last + 1)
