"""Incarnations: one document for each `job_id`, with the name of its job, the last number and the statistics of its
executions. It is created before its first execution is, and outlives the job."""

from __future__ import annotations

from collections.abc import Iterable

from pymongo import UpdateOne

from ....model.execution import ExecutionRow
from ..connection.bulk import value_by_id
from ..connection.database import Database, StorePart
from ..connection.errors import repeated


class Registering(StorePart):
    """The base of parts that create executions: remembers which incarnations exist, as they are never deleted."""

    def __init__(self) -> None:
        self._registered: set[str] = set()

    def unregistered(self, executions: Iterable[ExecutionRow]) -> dict[str, str]:
        """The incarnations of these executions that may not exist yet: job id to name of the job."""
        return {e.job_id: e.job for e in executions if e.job_id not in self._registered}

    async def register(self, names: dict[str, str]) -> None:
        """Create the incarnations that may not exist yet: job id to name of the job."""
        new = {job_id: name for job_id, name in names.items() if job_id not in self._registered}
        if new:
            await register(self.db, new)
            self._registered.update(new)


async def register(db: Database, names: dict[str, str]) -> None:
    writes = [
        UpdateOne({"_id": job_id}, {"$setOnInsert": {"job": name, "last_number": 0, "folds": 0}}, upsert=True)
        for job_id, name in sorted(names.items())
    ]
    await repeated(lambda: db.incarnations.bulk_write(writes))


async def ids_of(db: Database, job: str) -> list[str]:
    return [doc["_id"] for doc in await db.incarnations.find({"job": job}, {"_id": 1})]


async def draw_numbers(db: Database, wanted: dict[str, tuple[int, int]]) -> dict[str, range]:
    """Numbers for the executions of writes to jobs: `wanted` maps a job id to the version written and how many
    executions come with it.

    They are drawn once for each version; repeated calls get the same numbers. Versions of a job follow one after the
    other, so it is enough to remember the last. An older version gets none: its executions have their numbers already.
    """
    ids = list(wanted)
    version = value_by_id({id: version for id, (version, _) in wanted.items()})
    count = value_by_id({id: count for id, (_, count) in wanted.items()})
    new = {"_id": {"$in": ids}, "$expr": {"$lt": [{"$ifNull": ["$written", 0]}, version]}}
    total = {"$add": ["$last_number", count]}
    draw = [{"$set": {"last_number": total, "written": version, "written_number": total}}]
    await repeated(lambda: db.incarnations.update_many(new, draw))
    found = await db.incarnations.find({"_id": {"$in": ids}}, {"written": 1, "written_number": 1})
    last = {doc["_id"]: doc["written_number"] for doc in found if doc.get("written") == wanted[doc["_id"]][0]}
    return {id: range(int(at) - wanted[id][1] + 1, int(at) + 1) for id, at in last.items()}
