"""Writing and deleting jobs: compare-and-set by version, with executions and audit through the job's outbox.

A batch of ticks is a handful of commands, however many ticks there are: the executions are stored as drafts, the jobs
written in one update in which each job compares its own version, numbers drawn, drafts published, outboxes cleared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from bson import ObjectId

from ....core.ports import Topic
from ....model.errors import StoreError
from ....model.store.messages import Added, Audit, JobWrite, JobWritten
from ..connection.bulk import rounds, value_by_id
from ..connection.database import Database
from ..connection.errors import Unsure, repeated, sent
from ..documents import JOB_FIELDS, Document, audit_document, job_document
from ..executions.incarnations import Registering
from . import outbox
from .drafts import add_outcomes, drop_drafts, store_drafts

_TRIES = 50
_OPTIONAL = sorted({*JOB_FIELDS, "due", "labels", "outbox"} - {"id", "version", "declared"})


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
    stamp, unsure = ObjectId(), False
    records = [] if audit is None else [audit_document(audit)]
    for _ in range(_TRIES):
        stored = await db.jobs.find_one({"_id": name}, {"id": 1, "version": 1, "outbox": 1, "deleted": 1})
        if stored is None:
            return unsure
        box = stored.get("outbox")
        if box is not None and (box["id"] == stamp or (stored["version"] == seen_version and "deleted" not in stored)):
            await outbox.finish(db, box["id"], {name: box})
            continue
        if stored["version"] != seen_version or "deleted" in stored:
            return False
        seen = {"_id": name, "id": stored["id"], "version": seen_version, "outbox": {"$exists": False}}
        box = {
            "id": stamp,
            "job_id": stored["id"],
            "executions": [],
            "audits": records,
            "deleted": True,
            "purge": purge,
        }
        change = {"$set": {"deleted": True, "outbox": box}, "$unset": {"due": 1, "sweep": 1}}
        answer, again = await sent(partial(db.jobs.update_one, seen, change))
        if answer.matched_count:
            await outbox.finish(db, stamp, {name: box})
            return True
        unsure = unsure or again
    raise StoreError(f"job {name!r} is being written by other processes all the time")


# --- writing --------------------------------------------------------------------------------------------------------


class JobWriteAttempt(msgspec.Struct):
    """One write in progress. The executions in `known` exist already; `new` ones come with this write."""

    write: JobWrite
    stamp: ObjectId
    known: frozenset[str] = frozenset()
    won: bool = False
    unsure: bool = False  # an answer got lost: perhaps it has won

    @property
    def name(self) -> str:
        return self.write.job.name

    @property
    def new(self) -> list[str]:
        return [execution.id for execution in self.write.executions if execution.id not in self.known]

    @property
    def needs_outbox(self) -> bool:
        return bool(self.new) or self.write.audit is not None

    @property
    def version(self) -> int:
        return (self.write.seen_version or 0) + 1

    def outbox(self) -> Document:
        audits = [] if self.write.audit is None else [audit_document(self.write.audit)]
        written = {"id": self.stamp, "job_id": self.write.job.id, "version": self.version}
        return {**written, "executions": self.new, "audits": audits}

    def fields(self) -> Document:
        fields = job_document(self.write.job.with_changes(version=self.version)) | {"stamp": self.stamp}
        if self.needs_outbox:
            fields["outbox"] = self.outbox()
        return {name: value for name, value in fields.items() if value is not None}


async def _write_batch(db: Database, writes: Sequence[JobWrite]) -> list[JobWritten]:
    """No job comes twice. All writes have the same stamp."""
    stamp = ObjectId()
    known = await store_drafts(db, writes, stamp) if any(write.executions for write in writes) else frozenset()
    attempts = [JobWriteAttempt(write, stamp, known) for write in writes]
    await _decide(db, attempts)
    if lost := [id for one in attempts if not one.won for id in one.new]:
        await drop_drafts(db, lost, stamp)
    boxes = {one.name: one.outbox() for one in attempts if one.won and one.needs_outbox}
    added = {id: Added(id, "duplicate") for id in known}
    if boxes:
        added |= await repeated(lambda: outbox.finish(db, stamp, boxes))
    if others := [id for one in attempts if one.won for id in one.new if id not in added]:
        added |= await add_outcomes(db, others)
    return [_answer(one, added) for one in attempts]


def _answer(one: JobWriteAttempt, added: Mapping[str, Added]) -> JobWritten:
    return JobWritten(won=one.won, added=tuple(added[e.id] for e in one.write.executions) if one.won else ())


async def _decide(db: Database, attempts: Sequence[JobWriteAttempt]) -> None:
    """Send the writes until each has won or lost. The stamps tell which have won when the answers do not."""
    left = list(attempts)
    for _ in range(_TRIES):
        count, again = await sent(partial(_send, db, left))
        stored: dict[str, Document] = {}
        if count < len(left):
            names, fields = [one.name for one in left], {"id": 1, "version": 1, "stamp": 1, "outbox": 1}
            stored = {doc["_id"]: doc for doc in await db.jobs.find({"_id": {"$in": names}}, fields)}
        for one in left:
            one.unsure = one.unsure or again
            one.won = count == len(left) or stored.get(one.name, {}).get("stamp") == one.stamp
        left = [one for one in left if not one.won and await _may_win(db, one, stored.get(one.name))]
        if not left:
            return
    raise StoreError(f"job {left[0].name!r} is being written by other processes all the time")


async def _may_win(db: Database, one: JobWriteAttempt, stored: Document | None) -> bool:
    """Whether a write that was not stored may win yet. An outbox in its way, which belongs to the version that it has
    seen or to the deletion of the job before, is finished first."""
    write = one.write
    if stored is None:
        return write.seen_version is None
    is_as_seen = (stored["id"], stored["version"]) == (write.job.id, write.seen_version)
    box = stored.get("outbox")
    if box is not None and (is_as_seen or (write.seen_version is None and "deleted" in box)):
        await outbox.finish(db, box["id"], {one.name: box})
        return True
    if one.unsure and stored["id"] == write.job.id and stored["version"] > one.version:
        raise Unsure(f"job {one.name!r} has been written since, perhaps after this write; read it again")
    return is_as_seen


async def _send(db: Database, batch: Sequence[JobWriteAttempt]) -> int:
    """Returns how many were stored."""
    new = [{"_id": one.name, **one.fields()} for one in batch if one.write.seen_version is None]
    known = [one for one in batch if one.write.seen_version is not None]
    count = len(new) - len(await db.jobs.insert(new)) if new else 0
    return count + await _update(db, known) if known else count


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
