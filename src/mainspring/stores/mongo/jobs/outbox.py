"""What follows from a write to a job, kept in the job's own document until it is done.

The write that wins puts its executions and its audit record there, in the same step. Finishing them is idempotent: the
writer does it at once; if it dies, the next writer of that job does it, or the next `fold`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bson import ObjectId

from ....model.store.messages import Added
from ..connection.database import Database
from ..documents import Document
from ..executions.incarnations import draw_numbers
from ..executions.lists import clear_out
from .drafts import publish
from .statistics import finish_folding

_PURGED_AT_ONCE = 500


async def finish(db: Database, stamp: ObjectId, boxes: Mapping[str, Document]) -> dict[str, Added]:
    """Finish the outboxes of one writer, by job. Returns the outcome for each execution, by id; those that another
    process has published are left out."""
    await db.audits.insert_missing([record for box in boxes.values() for record in box["audits"]])
    added = await publish(db, stamp, await _numbers(db, boxes.values()))
    own = {"_id": {"$in": list(boxes)}, "outbox.id": stamp}
    await db.jobs.update_many({**own, "outbox.deleted": {"$exists": False}}, {"$unset": {"outbox": 1}})
    for name, box in boxes.items():
        if box.get("deleted"):
            await _delete(db, name, box)
    return added


async def _numbers(db: Database, boxes: Iterable[Document]) -> dict[str, int]:
    """A number for each execution, by id; repeated calls give the same ones. None for outboxes finished already."""
    full = [box for box in boxes if box["executions"]]
    wanted = {box["job_id"]: (box["version"], len(box["executions"])) for box in full}
    drawn = await draw_numbers(db, wanted) if wanted else {}
    return {
        id: number
        for box in full
        if box["job_id"] in drawn
        for id, number in zip(box["executions"], drawn[box["job_id"]], strict=True)
    }


async def _delete(db: Database, name: str, box: Document) -> None:
    if box["purge"]:
        await db.purges.update_one({"_id": box["job_id"]}, {"$set": {"job": name}}, upsert=True)
    await db.jobs.delete_one({"_id": name, "outbox.id": box["id"]})


async def purge_deleted_jobs(db: Database) -> None:
    """Delete the finished executions and the statistics of jobs that were deleted with `purge`."""
    for purge in await db.purges.find():
        await _purge(db, purge["_id"])
        await db.purges.delete_one({"_id": purge["_id"]})


async def _purge(db: Database, job_id: str) -> None:
    await finish_folding(db, job_id)
    ended = {"job_id": job_id, "live": False}
    while found := await db.executions.find(ended, {"_id": 1}, limit=_PURGED_AT_ONCE):
        ids = [doc["_id"] for doc in found]
        await clear_out(db, ids)
        await db.executions.delete_many({"_id": {"$in": ids}, "live": False})
    live = {"job_id": job_id, "live": True, "delta": True}
    await db.executions.update_many(live, {"$unset": {"delta": 1, "rescued": 1}})
    await db.incarnations.update_one({"_id": job_id}, {"$unset": {"stats": 1, "folding": 1}, "$inc": {"folds": 1}})


async def finish_left(db: Database, limit: int) -> None:
    """Finish outboxes that dead writers have left. Those of writers that are still at work may be finished here too,
    which does no harm."""
    for job in await db.jobs.find({"outbox.id": {"$exists": True}}, {"outbox": 1}, limit=limit):
        await finish(db, job["outbox"]["id"], {job["_id"]: job["outbox"]})
