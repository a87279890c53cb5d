"""Writing jobs: compare-and-set by version, with executions and audit through the job's outbox (see `outbox`).

A batch of ticks is a handful of commands, however many there are: embryos are laid down, the jobs written in one update
in which each job compares its own version, numbers drawn, embryos brought to life, outboxes cleared. A write that this
does not settle is tried on its own, after whatever stood in its way is finished.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from bson import ObjectId
from pymongo.errors import DuplicateKeyError, PyMongoError

from ....model.store.messages import Added, JobWrite, JobWritten
from ..connection.database import Database, is_lost, repeated
from ..executions.documents import audit_document
from ..executions.pending_ticks import born, forget_embryos, lay_embryos
from . import outbox
from .documents import FIELDS, job_document

_TRIES = 50
_AT_ONCE = 10
_OPTIONAL = sorted({*FIELDS, "due", "outbox"} - {"id", "version", "declared"})


class Writing(msgspec.Struct):
    """One write under way. `known` executions exist already; `unborn` ones come with it."""

    write: JobWrite
    stamp: ObjectId
    known: frozenset[str] = frozenset()
    won: bool = False
    lost: bool = False  # for good: the job has moved on

    @property
    def name(self) -> str:
        return self.write.job.name

    @property
    def unborn(self) -> list[str]:
        return [execution.id for execution in self.write.executions if execution.id not in self.known]

    @property
    def leaves_something(self) -> bool:
        return bool(self.unborn) or self.write.audit is not None

    def fields(self) -> dict[str, Any]:
        job = self.write.job.with_changes(version=(self.write.seen_version or 0) + 1)
        fields = job_document(job) | {"stamp": self.stamp}
        if self.leaves_something:
            audits = [] if self.write.audit is None else [audit_document(self.write.audit)]
            box = {"id": self.stamp, "job_id": job.id, "version": job.version}
            fields["outbox"] = box | {"executions": self.unborn, "audits": audits}
        return {name: value for name, value in fields.items() if value is not None}


async def write_jobs(db: Database, writes: Sequence[JobWrite]) -> list[JobWritten]:
    """Each on its own; those of one job in order."""
    written: list[JobWritten | None] = [None] * len(writes)
    left = list(enumerate(writes))
    while left:
        batch = {write.job.name: (n, write) for n, write in reversed(left)}
        places = sorted(n for n, _ in batch.values())
        for n, answer in zip(places, await _write_all(db, [writes[n] for n in places]), strict=True):
            written[n] = answer
        left = [item for item in left if item[0] not in places]
    return [answer for answer in written if answer is not None]


async def _write_all(db: Database, writes: Sequence[JobWrite]) -> list[JobWritten]:
    """No job twice."""
    under_way = [Writing(write, ObjectId()) for write in writes]
    known = await lay_embryos(db, writes) if any(write.executions for write in writes) else frozenset()
    for one in under_way:
        one.known = known
    await _win_together(db, [one for one in under_way if one.write.seen_version is not None and one.leaves_something])
    gate = asyncio.Semaphore(_AT_ONCE)
    await asyncio.gather(*(_win_or_clear_up(db, one, gate) for one in under_way if not one.won))
    left = [one for one in under_way if one.won and one.leaves_something]
    names, stamps = [one.name for one in left], [one.stamp for one in left]
    done = await repeated(lambda: outbox.finish_all(db, names, stamps)) if left else {}
    return [await _answer(db, one, done) if one.won else JobWritten(won=False) for one in under_way]


async def _win_or_clear_up(db: Database, one: Writing, gate: asyncio.Semaphore) -> None:
    async with gate:
        one.won = not one.lost and await _win_alone(db, one)
        if not one.won and one.unborn:
            job = one.write.job
            await forget_embryos(db, job.name, job.id, one.unborn, one.write.seen_version or 0)


async def _answer(db: Database, one: Writing, done: Mapping[str, Added]) -> JobWritten:
    added = []
    for execution in one.write.executions:
        duplicate = execution.id in one.known
        found = Added(execution.id, "duplicate") if duplicate else done.get(execution.id)
        added.append(found or await born(db, execution.id))
    return JobWritten(won=True, added=tuple(added))


# --- together -------------------------------------------------------------------------------------------------------


async def _win_together(db: Database, batch: Sequence[Writing]) -> None:
    """Marks those that won, and those that have lost for good. Of the others nothing is known."""
    if len(batch) < 2:
        return
    names = [one.name for one in batch]

    def own(values: list[Any]) -> dict[str, Any]:
        return {"$arrayElemAt": [{"$literal": values}, {"$indexOfArray": [{"$literal": names}, "$_id"]}]}

    same = [
        {"$eq": ["$id", own([one.write.job.id for one in batch])]},
        {"$eq": ["$version", own([one.write.seen_version for one in batch])]},
    ]
    seen = {"_id": {"$in": names}, "outbox": {"$exists": False}, "$expr": {"$and": same}}
    change: list[dict[str, Any]] = [
        {"$set": {"change": own([one.fields() for one in batch])}},
        {"$unset": _OPTIONAL},
        {"$replaceWith": {"$mergeObjects": ["$$ROOT", "$change"]}},
        {"$unset": "change"},
    ]
    try:
        all_won = (await db.jobs.update_many(seen, change)).matched_count == len(batch)
    except PyMongoError as error:
        if not is_lost(error):
            raise
        all_won = False
    found = (
        [] if all_won else await db.jobs.find({"_id": {"$in": names}}, {"id": 1, "version": 1, "stamp": 1}).to_list()
    )
    stored = {doc["_id"]: doc for doc in found}
    for one in batch:
        doc = stored.get(one.name, {})
        one.won = all_won or doc.get("stamp") == one.stamp
        one.lost = doc.get("id") == one.write.job.id and doc["version"] > (one.write.seen_version or 0) and not one.won


# --- alone ----------------------------------------------------------------------------------------------------------


async def _win_alone(db: Database, one: Writing) -> bool:
    """Somebody's unfinished outbox is finished first: it belongs to the version that this write has seen."""
    write, unsure = one.write, False
    for _ in range(_TRIES):
        try:
            if await _try(db, one):
                return True
        except PyMongoError as error:
            if not is_lost(error):
                raise
            unsure = True
            continue
        stored = await db.jobs.find_one({"_id": one.name}, {"id": 1, "version": 1, "stamp": 1, "outbox": 1})
        if unsure and stored is not None and stored.get("stamp") == one.stamp:
            return True
        if stored is None:
            if write.seen_version is not None:
                return False
        elif "outbox" in stored and _stands_in_the_way(stored, write):
            await outbox.finish(db, one.name, stored["outbox"]["id"])
        elif not _as_seen(stored, write):
            return False
    raise PyMongoError(f"job {one.name!r} is written by others all the time")


async def _try(db: Database, one: Writing) -> bool:
    fields, write = one.fields(), one.write
    if write.seen_version is None:
        try:
            await db.jobs.insert_one({"_id": one.name, **fields})
        except DuplicateKeyError:
            return False
        return True
    seen = {"_id": one.name, "id": write.job.id, "version": write.seen_version, "outbox": {"$exists": False}}
    gone = {name: 1 for name in _OPTIONAL if name not in fields}
    change: dict[str, Any] = {"$set": fields, **({"$unset": gone} if gone else {})}
    return bool((await db.jobs.update_one(seen, change)).matched_count)


def _stands_in_the_way(stored: Mapping[str, Any], write: JobWrite) -> bool:
    return _as_seen(stored, write) or (write.seen_version is None and "deleted" in stored["outbox"])


def _as_seen(stored: Mapping[str, Any], write: JobWrite) -> bool:
    return (stored["id"], stored["version"]) == (write.job.id, write.seen_version)
