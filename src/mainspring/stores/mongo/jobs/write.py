"""Writing and deleting jobs: compare-and-set by version, with executions and audit through the job's outbox.

A batch of ticks is a handful of commands, however many ticks there are: the executions are stored as pending ticks, the
jobs written in one update in which each job compares its own version, numbers drawn, pending ticks turned into
executions, outboxes cleared. A write that this does not decide is tried on its own, after whatever was in its way is
finished.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from bson import ObjectId

from ....core.ports import Topic
from ....model.errors import StoreError
from ....model.store.messages import Added, Audit, JobWrite, JobWritten
from ..connection.bulk import rounds, value_by_id
from ..connection.database import Database
from ..connection.errors import Unsure, repeated
from ..documents import JOB_FIELDS, audit_document, job_document
from ..executions.incarnations import Registering
from . import outbox
from .pending_ticks import add_outcome, delete_lost, store_pending

_TRIES = 50
_AT_ONCE = 10
_OPTIONAL = sorted({*JOB_FIELDS, "due", "outbox"} - {"id", "version", "declared"})


class JobWrites(Registering):
    async def write_jobs(self, writes: Sequence[JobWrite]) -> list[JobWritten]:
        """Each write on its own; those of one job in order."""
        db = self.db
        executions = [execution for write in writes for execution in write.executions]
        await self.register({write.job.id: write.job.name for write in writes} | self.unregistered(executions))
        written = [JobWritten(won=False)] * len(writes)
        for batch in rounds(writes, key=lambda write: write.job.name):
            answers = await _write_batch(db, [write for _, write in batch])
            for (n, _), answer in zip(batch, answers, strict=True):
                written[n] = answer
        topics = {Topic.JOBS} if any(one.won for one in written) else set()
        self.wake(topics | {Topic.WORK} if any(one.added for one in written) else topics)
        return written

    async def delete_job(self, name: str, seen_version: int, *, purge: bool, audit: Audit | None) -> bool:
        deleted = await _delete(self.db, name, seen_version, purge=purge, audit=audit)
        if deleted and purge:
            await outbox.purge_deleted_jobs(self.db)
        self.wake({Topic.JOBS} if deleted else ())
        return deleted


async def _delete(db: Database, name: str, seen_version: int, *, purge: bool, audit: Audit | None) -> bool:
    """The document becomes a mark of the job's deletion, which its outbox then completes."""
    stamp = ObjectId()
    records = [] if audit is None else [audit_document(audit)]
    for _ in range(_TRIES):
        stored = await db.jobs.find_one({"_id": name}, {"id": 1, "version": 1, "outbox": 1, "deleted": 1})
        if stored is None or stored["version"] != seen_version or "deleted" in stored:
            return False
        if "outbox" in stored:
            await outbox.finish(db, name, stored["outbox"]["id"])
            continue
        box = {"id": stamp, "job_id": stored["id"], "executions": [], "audits": records}
        seen = {"_id": name, "id": stored["id"], "version": seen_version, "outbox": {"$exists": False}}
        mark = {"deleted": True, "outbox": {**box, "deleted": True, "purge": purge}}
        change = {"$set": mark, "$unset": {"due": 1, "sweep": 1}}
        if (await db.jobs.update_one(seen, change)).matched_count:
            await outbox.finish(db, name, stamp)
            return True
    raise StoreError(f"job {name!r} is being written by other processes all the time")


# --- batches --------------------------------------------------------------------------------------------------------


class JobWriteAttempt(msgspec.Struct):
    """One write in progress. The executions in `known` exist already; `new` ones come with this write."""

    write: JobWrite
    stamp: ObjectId
    known: frozenset[str] = frozenset()
    won: bool = False
    lost: bool = False  # for good: the job has a later version

    @property
    def name(self) -> str:
        return self.write.job.name

    @property
    def new(self) -> list[str]:
        return [execution.id for execution in self.write.executions if execution.id not in self.known]

    @property
    def needs_outbox(self) -> bool:
        return bool(self.new) or self.write.audit is not None

    def fields(self) -> dict[str, Any]:
        job = self.write.job.with_changes(version=(self.write.seen_version or 0) + 1)
        fields = job_document(job) | {"stamp": self.stamp}
        if self.needs_outbox:
            audits = [] if self.write.audit is None else [audit_document(self.write.audit)]
            box = {"id": self.stamp, "job_id": job.id, "version": job.version}
            fields["outbox"] = box | {"executions": self.new, "audits": audits}
        return {name: value for name, value in fields.items() if value is not None}


async def _write_batch(db: Database, writes: Sequence[JobWrite]) -> list[JobWritten]:
    """No job comes twice."""
    known = await store_pending(db, writes) if any(write.executions for write in writes) else frozenset()
    attempts = [JobWriteAttempt(write, ObjectId(), known) for write in writes]
    await _try_together(db, [one for one in attempts if one.write.seen_version is not None and one.needs_outbox])
    gate = asyncio.Semaphore(_AT_ONCE)
    await asyncio.gather(*(_try_alone(db, one, gate) for one in attempts if not one.won))
    boxes = [one for one in attempts if one.won and one.needs_outbox]
    names, stamps = [one.name for one in boxes], [one.stamp for one in boxes]
    added = await repeated(lambda: outbox.finish_all(db, names, stamps)) if boxes else {}
    return [await _answer(db, one, added) if one.won else JobWritten(won=False) for one in attempts]


async def _answer(db: Database, one: JobWriteAttempt, added: Mapping[str, Added]) -> JobWritten:
    outcomes = []
    for execution in one.write.executions:
        duplicate = execution.id in one.known
        found = Added(execution.id, "duplicate") if duplicate else added.get(execution.id)
        outcomes.append(found or await add_outcome(db, execution.id))
    return JobWritten(won=True, added=tuple(outcomes))


async def _try_together(db: Database, batch: Sequence[JobWriteAttempt]) -> None:
    """Marks the writes that won, and those that have lost for good. Those without a mark are undecided."""
    if len(batch) < 2:
        return
    try:
        all_won = await _update(db, batch) == len(batch)
    except Unsure:
        all_won = False
    stored: dict[str, dict[str, Any]] = {}
    if not all_won:
        found = await db.jobs.find({"_id": {"$in": [one.name for one in batch]}}, {"id": 1, "version": 1, "stamp": 1})
        stored = {doc["_id"]: doc for doc in found}
    for one in batch:
        doc = stored.get(one.name, {})
        one.won = all_won or doc.get("stamp") == one.stamp
        one.lost = doc.get("id") == one.write.job.id and doc["version"] > (one.write.seen_version or 0) and not one.won


async def _update(db: Database, batch: Sequence[JobWriteAttempt]) -> int:
    """One update for jobs that exist, in which each compares its own id and version; returns how many matched."""
    same = [
        {"$eq": ["$id", value_by_id({one.name: one.write.job.id for one in batch})]},
        {"$eq": ["$version", value_by_id({one.name: one.write.seen_version for one in batch})]},
    ]
    names = [one.name for one in batch]
    seen = {"_id": {"$in": names}, "outbox": {"$exists": False}, "$expr": {"$and": same}}
    change: list[dict[str, Any]] = [
        {"$set": {"change": value_by_id({one.name: one.fields() for one in batch})}},
        {"$unset": _OPTIONAL},
        {"$replaceWith": {"$mergeObjects": ["$$ROOT", "$change"]}},
        {"$unset": "change"},
    ]
    return (await db.jobs.update_many(seen, change)).matched_count


# --- single writes --------------------------------------------------------------------------------------------------


async def _try_alone(db: Database, one: JobWriteAttempt, gate: asyncio.Semaphore) -> None:
    async with gate:
        one.won = not one.lost and await _win(db, one)
        if not one.won and one.new:
            job = one.write.job
            await delete_lost(db, job.name, job.id, one.new, one.write.seen_version or 0)


async def _win(db: Database, one: JobWriteAttempt) -> bool:
    """An unfinished outbox is finished first: it belongs to the version that this write has seen."""
    write, unsure = one.write, False
    for _ in range(_TRIES):
        try:
            if await _send(db, one):
                return True
        except Unsure:
            unsure = True
            continue
        stored = await db.jobs.find_one({"_id": one.name}, {"id": 1, "version": 1, "stamp": 1, "outbox": 1})
        if unsure and stored is not None and stored.get("stamp") == one.stamp:
            return True
        if stored is None:
            if write.seen_version is not None:
                return False
        elif "outbox" in stored and _is_in_the_way(stored, write):
            await outbox.finish(db, one.name, stored["outbox"]["id"])
        elif not _is_as_seen(stored, write):
            return False
    raise StoreError(f"job {one.name!r} is being written by other processes all the time")


async def _send(db: Database, one: JobWriteAttempt) -> bool:
    if one.write.seen_version is not None:
        return await _update(db, [one]) == 1
    return not await db.jobs.insert([{"_id": one.name, **one.fields()}])


def _is_in_the_way(stored: Mapping[str, Any], write: JobWrite) -> bool:
    return _is_as_seen(stored, write) or (write.seen_version is None and "deleted" in stored["outbox"])


def _is_as_seen(stored: Mapping[str, Any], write: JobWrite) -> bool:
    return (stored["id"], stored["version"]) == (write.job.id, write.seen_version)
