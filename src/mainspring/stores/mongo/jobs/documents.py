"""Job documents: how they are read, and deleted. How they are written: see `writing`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bson import ObjectId
from pymongo.errors import PyMongoError

from ....model.execution import ExecutionRow
from ....model.job import Job
from ....model.store.messages import Audit, DuePage
from ..connection.database import Database
from ..executions.documents import audit_document, plain
from . import outbox
from .lists import listed

FIELDS = tuple(name for name in Job.__struct_fields__ if name not in ("name", "last_number"))
_DEFAULTS = {name: getattr(Job(name="", id="", declared=""), name) for name in FIELDS}
_VISIBLE = {"deleted": {"$exists": False}}
_TRIES = 50


# --- deleting -------------------------------------------------------------------------------------------------------


def job_document(job: Job) -> dict[str, Any]:
    """None for what is left out. `due` is there for the index, `list` for lists."""
    fields = {name: getattr(job, name) for name in FIELDS}
    left_out = {name: None for name, value in fields.items() if value == _DEFAULTS[name] and name != "version"}
    return fields | left_out | {"due": job.due, "list": listed(job)}


async def delete_job(db: Database, name: str, seen_version: int, purge: bool, audit: Audit | None) -> bool:
    """The job becomes a mark of its own deletion, which its outbox then completes."""
    stamp = ObjectId()
    records = [] if audit is None else [audit_document(audit)]
    for _ in range(_TRIES):
        stored = await db.jobs.find_one({"_id": name}, {"id": 1, "version": 1, "outbox": 1, "deleted": 1})
        if stored is None or stored["version"] != seen_version or "deleted" in stored:
            return False
        if "outbox" in stored:
            await outbox.finish(db, name, stored["outbox"]["id"])
            continue
        left = {
            "id": stamp,
            "job_id": stored["id"],
            "executions": [],
            "audits": records,
            "deleted": True,
            "purge": purge,
        }
        seen = {"_id": name, "id": stored["id"], "version": seen_version, "outbox": {"$exists": False}}
        mark = {"$set": {"deleted": True, "outbox": left}, "$unset": {"due": 1, "sweep": 1}}
        if (await db.jobs.update_one(seen, mark)).matched_count:
            await outbox.finish(db, name, stamp)
            return True
    raise PyMongoError(f"job {name!r} is written by others all the time")


# --- reading --------------------------------------------------------------------------------------------------------


async def jobs(db: Database, names: Sequence[str] | None) -> list[Job]:
    wanted = {} if names is None else {"_id": {"$in": list(names)}}
    return await _read(db, {**wanted, **_VISIBLE}, {"_id": 1}, None)


async def stopped(db: Database, executions: Sequence[ExecutionRow]) -> frozenset[str]:
    """The ids of the jobs of these that are cancelled."""
    names = list({each.job for each in executions})
    found = await db.jobs.find({"_id": {"$in": names}, "cancelled": {"$exists": True}}, {"id": 1}).to_list()
    return frozenset(doc["id"] for doc in found) & {each.job_id for each in executions} if found else frozenset()


async def jobs_after(db: Database, name: str, limit: int) -> list[Job]:
    return await _read(db, {"_id": {"$gt": name}, **_VISIBLE}, {"_id": 1}, limit)


async def count_jobs(db: Database, cap: int) -> int:
    return int(await db.jobs.count_documents(_VISIBLE, limit=cap)) if cap > 0 else 0


async def swept(db: Database, limit: int) -> list[Job]:
    return await _read(db, {"sweep": True}, {"_id": 1}, limit)


async def due_jobs(db: Database, limit: int) -> DuePage:
    """One more than asked for tells when to look again."""
    now = await db.now()
    found = await _read(db, {"due": {"$lte": now}}, {"due": 1, "_id": 1}, limit + 1)
    if len(found) > limit:
        return DuePage(jobs=tuple(found[:limit]), next_due=found[limit].due, now=now)
    upcoming = await db.jobs.find_one({"due": {"$gt": now}}, {"due": 1}, sort=[("due", 1)])
    return DuePage(jobs=tuple(found), next_due=None if upcoming is None else int(upcoming["due"]), now=now)


async def _read(db: Database, wanted: dict[str, Any], order: dict[str, int], limit: int | None) -> list[Job]:
    if limit is not None and limit < 1:
        return []
    numbers = {"from": db.incarnations.name, "localField": "id", "foreignField": "_id", "as": "incarnation"}
    pipeline: list[dict[str, Any]] = [{"$match": wanted}, {"$sort": order}]
    pipeline += [] if limit is None else [{"$limit": limit}]
    pipeline += [{"$lookup": numbers}, {"$unset": "outbox"}]
    return [job_of(doc) async for doc in await db.jobs.aggregate(pipeline)]


def job_of(doc: Mapping[str, Any]) -> Job:
    fields = {name: plain(doc[name]) for name in FIELDS if name in doc}
    numbered = doc.get("incarnation") or [{}]
    return Job(name=doc["_id"], last_number=int(numbered[0].get("last_number", 0)), **fields)
