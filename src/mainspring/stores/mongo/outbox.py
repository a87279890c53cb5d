"""What follows from a write to a job, kept in the job's own document until it is done.

The write that wins puts its executions and its audit record there, in the same step. Finishing them is idempotent: the
writer does it at once; should it have died, the next writer of that job does, or whoever folds.
"""

from __future__ import annotations

from typing import Any

from bson import ObjectId

from ...model.changes import Added
from .auditing import keep
from .database import Database
from .embryos import bring_to_life
from .incarnations import next_numbers


async def finish(db: Database, name: str, stamp: ObjectId) -> dict[str, Added]:
    """What became of its executions, by id. Nothing when somebody else has finished it already."""
    job = await db.jobs.find_one({"_id": name, "outbox.id": stamp}, {"outbox": 1})
    if job is None:
        return {}
    left: dict[str, Any] = job["outbox"]
    await keep(db, left["audits"])
    born: dict[str, Added] = {}
    ids = left["executions"]
    if ids:
        numbers = await next_numbers(db, left["job_id"], len(ids))
        for id, number in zip(ids, numbers, strict=True):
            born[id] = await bring_to_life(db, id, number)
    mine = {"_id": name, "outbox.id": stamp}
    if not left.get("deleted"):
        await db.jobs.update_one(mine, {"$unset": {"outbox": 1}})
        return born
    if left["purge"]:
        await db.purges.update_one({"_id": left["job_id"]}, {"$set": {"job": name}}, upsert=True)
    await db.jobs.delete_one(mine)
    return born


class Leftovers:
    """Outboxes whose writers died: those that are still there when looked at a second time."""

    def __init__(self) -> None:
        self._seen: frozenset[ObjectId] = frozenset()

    async def finish(self, db: Database, limit: int) -> None:
        found = await db.jobs.find({"outbox.id": {"$exists": True}}, {"outbox.id": 1}).limit(limit).to_list()
        for job in found:
            if job["outbox"]["id"] in self._seen:
                await finish(db, job["_id"], job["outbox"]["id"])
        self._seen = frozenset(job["outbox"]["id"] for job in found)
