"""What follows from a write to a job, kept in the job's own document until it is done.

The write that wins puts its executions and its audit record there, in the same step. Finishing them is idempotent: the
writer does it at once; should it have died, the next writer of that job does, or whoever folds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from bson import ObjectId

from ....model.store.messages import Added
from ..audit import keep
from ..connection.database import Database
from ..executions.pending_ticks import bring_all_to_life
from .incarnations import numbers_of_writes


async def finish(db: Database, name: str, stamp: ObjectId) -> dict[str, Added]:
    return await finish_all(db, [name], [stamp])


async def finish_all(db: Database, names: Sequence[str], stamps: Sequence[ObjectId]) -> dict[str, Added]:
    """What became of their executions, by id. Nothing of those that somebody else has finished already."""
    mine = {"_id": {"$in": list(names)}, "outbox.id": {"$in": list(stamps)}}
    boxes = {doc["_id"]: doc["outbox"] async for doc in db.jobs.find(mine, {"outbox": 1})}
    await keep(db, [record for box in boxes.values() for record in box["audits"]])
    born = await bring_all_to_life(db, await _numbers(db, boxes.values()))
    if boxes:
        await db.jobs.update_many({**mine, "outbox.deleted": {"$exists": False}}, {"$unset": {"outbox": 1}})
    for name, box in boxes.items():
        if box.get("deleted"):
            await _delete(db, name, box)
    return born


async def _numbers(db: Database, boxes: Iterable[dict[str, Any]]) -> dict[str, int]:
    """A number for each execution, by id; the same ones whoever asks. None for boxes that are finished already."""
    full = [box for box in boxes if box["executions"]]
    wanted = {box["job_id"]: (box["version"], len(box["executions"])) for box in full}
    drawn = await numbers_of_writes(db, wanted) if wanted else {}
    return {
        id: number
        for box in full
        if box["job_id"] in drawn
        for id, number in zip(box["executions"], drawn[box["job_id"]], strict=True)
    }


async def _delete(db: Database, name: str, box: dict[str, Any]) -> None:
    if box["purge"]:
        await db.purges.update_one({"_id": box["job_id"]}, {"$set": {"job": name}}, upsert=True)
    await db.jobs.delete_one({"_id": name, "outbox.id": box["id"]})


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
