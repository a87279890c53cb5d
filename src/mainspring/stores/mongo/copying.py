"""Copying whole records out of the collections and into them, as they are: nothing is counted or numbered again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from ...model.errors import StoreError
from ...model.job import Job, JobStats
from ...model.store.copy_records import ExecutionRecord, Incarnation, Record, RecordKind
from ...model.store.entries import Entry
from ...model.store.messages import Audit
from . import entries, failure_notes
from .audit import move_all
from .connection.database import Database
from .connection.errors import Refused
from .documents import (
    Document,
    audit_document,
    audit_of,
    execution_document,
    execution_of,
    job_document,
    log_document,
    stats_document,
)
from .executions.conditions import VISIBLE
from .executions.incarnations import register
from .executions.lists import logs_of
from .jobs.lists import JobLists
from .jobs.statistics import stats

_PAGE = 500


class Copying(JobLists):
    async def copy_out(self, kind: RecordKind, after: str, limit: int) -> list[Record]:
        db, next_ids = self.db, {"_id": {"$gt": after}}
        match kind:
            case "incarnations":
                return list(await _incarnations(db, after, limit))
            case "executions":
                found = await db.executions.find({**next_ids, **VISIBLE}, sort={"_id": 1}, limit=limit)
                return [await _execution(db, doc) for doc in found]
            case "audits":
                await move_all(db)
                return [audit_of(doc) for doc in await db.audits.find(next_ids, sort={"_id": 1}, limit=limit)]
            case "entries":
                await failure_notes.move_all(db)
                return list(await entries.entries_after(db, after, limit))
            case "jobs":
                return list(await self.jobs_after(after, limit))

    async def copy_in(self, kind: RecordKind, records: Sequence[Record]) -> int:
        db = self.db
        match kind:
            case "incarnations":
                return sum([await _add_incarnation(db, record) for record in cast(Sequence[Incarnation], records)])
            case "executions":
                return await _add_executions(db, cast(Sequence[ExecutionRecord], records))
            case "audits":
                documents = [audit_document(record) for record in cast(Sequence[Audit], records)]
                return len(documents) - len(await db.audits.insert_missing(documents))
            case "entries":
                return await entries.restore(db, cast(Sequence[Entry], records))
            case "jobs":
                return sum([await _add_job(db, job) for job in cast(Sequence[Job], records)])


# --- out ------------------------------------------------------------------------------------------------------------


async def _incarnations(db: Database, after: str, limit: int) -> list[Incarnation]:
    """Those that have given a number or have statistics."""
    chosen: list[Incarnation] = []
    while len(chosen) < limit:
        page = await db.incarnations.find({"_id": {"$gt": after}}, sort={"_id": 1}, limit=_PAGE)
        if not page:
            break
        exact = await stats(db, [doc["_id"] for doc in page])
        chosen += [
            _incarnation(doc, exact.get(doc["_id"])) for doc in page if doc["last_number"] or doc["_id"] in exact
        ]
        after = page[-1]["_id"]
    return chosen[:limit]


def _incarnation(doc: Document, exact: JobStats | None) -> Incarnation:
    return Incarnation(job_id=doc["_id"], job=doc["job"], last_number=int(doc["last_number"]), stats=exact)


async def _execution(db: Database, doc: Document) -> ExecutionRecord:
    lines = await logs_of(db, doc["_id"], 0) if "logged" in doc else []
    return ExecutionRecord(execution=execution_of(doc), keep="unkept" not in doc, logs=tuple(lines))


# --- in -------------------------------------------------------------------------------------------------------------


async def _add_incarnation(db: Database, record: Incarnation) -> int:
    """An incarnation that was only registered counts as missing."""
    empty = {"_id": record.job_id, "last_number": 0, "stats": {"$exists": False}}
    fields: Document = {"job": record.job, "last_number": record.last_number}
    if record.stats is not None:
        fields["stats"] = stats_document(record.stats)
    try:
        await db.incarnations.update_one(empty, {"$set": fields, "$inc": {"folds": 1}}, upsert=True)
    except Refused:
        return 0
    return 1


async def _add_executions(db: Database, records: Sequence[ExecutionRecord]) -> int:
    """Log lines go first, so that an execution that exists has all of its own."""
    if not records:
        return 0
    await register(db, {record.execution.job_id: record.execution.job for record in records})
    await db.logs.insert_missing(
        [log_document(each.execution.id, n, line) for each in records for n, line in each.logs]
    )
    documents = [_execution_document(record) for record in records]
    refused = await db.executions.insert_missing(documents)
    for n, field in refused.items():
        if field != "_id":
            raise StoreError(f"execution {documents[n]['_id']} cannot be copied: another one holds its key")
    return len(documents) - len(refused)


def _execution_document(record: ExecutionRecord) -> Document:
    doc: dict[str, Any] = execution_document(record.execution)
    doc.pop("delta", None)  # the statistics that were copied before include it
    if not record.keep:
        doc["unkept"] = True
    if record.logs:
        doc["logged"] = record.logs[-1][0]
    return doc


async def _add_job(db: Database, job: Job) -> int:
    await register(db, {job.id: job.name})
    fields = {name: value for name, value in job_document(job).items() if value is not None}
    return 1 - len(await db.jobs.insert_missing([{"_id": job.name, **fields}]))
