"""Job documents: compare-and-set by version, with executions and audit through the job's outbox (see `outbox`)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from bson import ObjectId
from pymongo.errors import DuplicateKeyError, PyMongoError

from ...model.changes import Added, Audit, DuePage, JobWrite, JobWritten
from ...model.job import Job
from . import outbox
from .database import Database, is_lost
from .documents import audit_document, plain
from .embryos import born, forget_embryos, lay_embryos

_FIELDS = tuple(name for name in Job.__struct_fields__ if name not in ("name", "last_number"))
_DEFAULTS = {name: getattr(Job(name="", id="", declared=""), name) for name in _FIELDS}
_VISIBLE = {"deleted": {"$exists": False}}
_AT_ONCE = 10
_TRIES = 50


# --- writing --------------------------------------------------------------------------------------------------------


async def write_jobs(db: Database, writes: Sequence[JobWrite]) -> list[JobWritten]:
    """Each on its own; several at a time, those of one job in order."""
    by_name: dict[str, list[int]] = {}
    for n, write in enumerate(writes):
        by_name.setdefault(write.job.name, []).append(n)
    written: dict[int, JobWritten] = {}
    gate = asyncio.Semaphore(_AT_ONCE)

    async def in_order(places: Sequence[int]) -> None:
        async with gate:
            for n in places:
                written[n] = await write_job(db, writes[n])

    await asyncio.gather(*map(in_order, by_name.values()))
    return [written[n] for n in range(len(writes))]


async def write_job(db: Database, write: JobWrite) -> JobWritten:
    """The executions are laid down unseen first; the write that wins names them; then they come to life."""
    known = await lay_embryos(db, write) if write.executions else frozenset()
    unborn = [execution.id for execution in write.executions if execution.id not in known]
    stamp = ObjectId()
    if not await _compare_and_set(db, write, stamp, unborn):
        if unborn:
            await forget_embryos(db, write.job.name, unborn, write.seen_version or 0)
        return JobWritten(won=False)
    done = await outbox.finish(db, write.job.name, stamp) if unborn or write.audit is not None else {}
    done |= {id: Added(id, "duplicate") for id in known}
    ids = [execution.id for execution in write.executions]
    return JobWritten(won=True, added=tuple([done.get(id) or await born(db, id) for id in ids]))


async def _compare_and_set(db: Database, write: JobWrite, stamp: ObjectId, unborn: Sequence[str]) -> bool:
    """Somebody's unfinished outbox is finished first: it belongs to the version that this write has seen."""
    unsure = False
    for _ in range(_TRIES):
        try:
            if await _try(db, write, stamp, unborn):
                return True
        except PyMongoError as error:
            if not is_lost(error):
                raise
            unsure = True
            continue
        stored = await db.jobs.find_one({"_id": write.job.name}, {"id": 1, "version": 1, "stamp": 1, "outbox": 1})
        if unsure and stored is not None and stored.get("stamp") == stamp:
            return True
        if stored is None:
            if write.seen_version is not None:
                return False
        elif "outbox" in stored and _stands_in_the_way(stored, write):
            await outbox.finish(db, write.job.name, stored["outbox"]["id"])
        elif not _as_seen(stored, write):
            return False
    raise PyMongoError(f"job {write.job.name!r} is written by others all the time")


def _stands_in_the_way(stored: Mapping[str, Any], write: JobWrite) -> bool:
    return _as_seen(stored, write) or (write.seen_version is None and "deleted" in stored["outbox"])


def _as_seen(stored: Mapping[str, Any], write: JobWrite) -> bool:
    return (stored["id"], stored["version"]) == (write.job.id, write.seen_version)


async def _try(db: Database, write: JobWrite, stamp: ObjectId, unborn: Sequence[str]) -> bool:
    fields = job_document(write.job.with_changes(version=(write.seen_version or 0) + 1)) | {"stamp": stamp}
    if unborn or write.audit is not None:
        fields["outbox"] = {"id": stamp, "job_id": write.job.id, "executions": list(unborn), "audits": _audits(write)}
    if write.seen_version is None:
        try:
            await db.jobs.insert_one({"_id": write.job.name, **_present(fields)})
        except DuplicateKeyError:
            return False
        return True
    seen = {"_id": write.job.name, "id": write.job.id, "version": write.seen_version, "outbox": {"$exists": False}}
    gone = dict.fromkeys((name for name, value in fields.items() if value is None), 1)
    change: dict[str, Any] = {"$set": _present(fields)} | ({"$unset": gone} if gone else {})
    return bool((await db.jobs.update_one(seen, change)).matched_count)


def _audits(write: JobWrite) -> list[dict[str, Any]]:
    return [] if write.audit is None else [audit_document(write.audit)]


def _present(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def job_document(job: Job) -> dict[str, Any]:
    """None for what is left out. `due` is there for the index."""
    fields = {name: getattr(job, name) for name in _FIELDS}
    left_out = {name: None for name, value in fields.items() if value == _DEFAULTS[name] and name != "version"}
    return fields | left_out | {"due": job.due}


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


async def jobs_after(db: Database, name: str, limit: int) -> list[Job]:
    return await _read(db, {"_id": {"$gt": name}, **_VISIBLE}, {"_id": 1}, limit)


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
    fields = {name: plain(doc[name]) for name in _FIELDS if name in doc}
    numbered = doc.get("incarnation") or [{}]
    return Job(name=doc["_id"], last_number=int(numbered[0].get("last_number", 0)), **fields)
