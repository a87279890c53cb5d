"""Incarnations of jobs: which executions belong to a job of that name, their numbers and their statistics.

One document for each `job_id`, made before its first execution is; it outlives the job.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pymongo import UpdateOne

from ....model.execution import ExecutionRow
from ..connection.database import Database, repeated


class Incarnations:
    """Remembers which ones this process knows to exist: they are never deleted."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def unknown(self, executions: Iterable[ExecutionRow]) -> dict[str, str]:
        """Names of jobs by id, of which this process does not know yet."""
        return {e.job_id: e.job for e in executions if e.job_id not in self._known}

    async def know(self, db: Database, executions: Iterable[ExecutionRow]) -> None:
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


async def numbers_of_writes(db: Database, wanted: dict[str, tuple[int, int]]) -> dict[str, range]:
    """Numbers for the executions of writes to jobs: by job id, the version written and how many it brings.

    They are drawn once for each version, by whoever comes first; everybody else is told the same. Versions of a job
    come one after the other, so that it is enough to remember the last. Nothing for an older one: that is long done.
    """
    ids = list(wanted)

    def own(values: list[int]) -> dict[str, Any]:
        return {"$arrayElemAt": [values, {"$indexOfArray": [{"$literal": ids}, "$_id"]}]}

    version, count = own([version for version, _ in wanted.values()]), own([count for _, count in wanted.values()])
    new = {"_id": {"$in": ids}, "$expr": {"$lt": [{"$ifNull": ["$written", 0]}, version]}}
    total = {"$add": ["$last_number", count]}
    draw = [{"$set": {"last_number": total, "written": version, "written_number": total}}]
    await repeated(lambda: db.incarnations.update_many(new, draw))
    found = db.incarnations.find({"_id": {"$in": ids}}, {"written": 1, "written_number": 1})
    last = {doc["_id"]: doc["written_number"] async for doc in found if doc.get("written") == wanted[doc["_id"]][0]}
    return {id: range(int(at) - wanted[id][1] + 1, int(at) + 1) for id, at in last.items()}
