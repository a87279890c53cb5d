"""Whole records out of the collections and into them: everything as it was, nothing counted anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from pymongo.errors import BulkWriteError, DuplicateKeyError

from ...model.errors import StoreError
from ...model.job import Job, JobStats
from ...model.store.copy_records import ExecutionRecord, Incarnation, Record, RecordKind
from ...model.store.entries import Entry
from ...model.store.messages import Audit, LogLine
from . import entries
from .audit import keep, move_all, pushed
from .connection.database import Collection, Database, duplicate_index, repeated
from .executions.documents import audit_of, document, execution_of
from .executions.lists import SEEN, line_id, lines_of
from .jobs.documents import job_document, jobs_after
from .jobs.incarnations import register
from .jobs.statistics import stats, stats_document

_DUPLICATE = 11000
_PAGE = 500


async def copy_out(db: Database, kind: RecordKind, after: str, limit: int) -> list[Record]:
    match kind:
        case "incarnations":
            return list(await _incarnations(db, after, limit))
        case "executions":
            found = db.executions.find({"_id": {"$gt": after}, **SEEN}).sort("_id", 1).limit(limit)
            return [await _execution(db, doc) for doc in await found.to_list()]
        case "audits":
            await move_all(db)
            return [audit_of(doc) async for doc in db.audits.find({"_id": {"$gt": after}}).sort("_id", 1).limit(limit)]
        case "entries":
            return list(await entries.entries_after(db, after, limit))
        case "jobs":
            return list(await jobs_after(db, after, limit))


async def copy_in(db: Database, kind: RecordKind, records: Sequence[Record]) -> int:
    match kind:
        case "incarnations":
            return sum([await _add_incarnation(db, record) for record in cast(Sequence[Incarnation], records)])
        case "executions":
            return await _add_executions(db, cast(Sequence[ExecutionRecord], records))
        case "audits":
            return await keep(db, pushed(cast(Sequence[Audit], records)))
        case "entries":
            return await entries.restore(db, cast(Sequence[Entry], records))
        case "jobs":
            return sum([await _add_job(db, job) for job in cast(Sequence[Job], records)])


# --- out ------------------------------------------------------------------------------------------------------------


async def _incarnations(db: Database, after: str, limit: int) -> list[Incarnation]:
    """Those that have given a number or have statistics."""
    chosen: list[Incarnation] = []
    while len(chosen) < limit:
        page = await db.incarnations.find({"_id": {"$gt": after}}).sort("_id", 1).limit(_PAGE).to_list()
        if not page:
            break
        exact = await stats(db, [doc["_id"] for doc in page])
        chosen += [
            _incarnation(doc, exact.get(doc["_id"])) for doc in page if doc["last_number"] or doc["_id"] in exact
        ]
        after = page[-1]["_id"]
    return chosen[:limit]


def _incarnation(doc: dict[str, Any], exact: JobStats | None) -> Incarnation:
    return Incarnation(job_id=doc["_id"], job=doc["job"], last_number=int(doc["last_number"]), stats=exact)


async def _execution(db: Database, doc: dict[str, Any]) -> ExecutionRecord:
    lines = await lines_of(db, doc["_id"], 0) if "logged" in doc else []
    return ExecutionRecord(execution=execution_of(doc), keep="unkept" not in doc, logs=tuple(lines))


# --- in -------------------------------------------------------------------------------------------------------------


async def _add_incarnation(db: Database, record: Incarnation) -> int:
    """One that was only registered holds nothing yet."""
    empty = {"_id": record.job_id, "last_number": 0, "stats": {"$exists": False}}
    fields: dict[str, Any] = {"job": record.job, "last_number": record.last_number}
    if record.stats is not None:
        fields["stats"] = stats_document(record.stats)
    try:
        await db.incarnations.update_one(empty, {"$set": fields, "$inc": {"folds": 1}}, upsert=True)
    except DuplicateKeyError:
        return 0
    return 1


async def _add_executions(db: Database, records: Sequence[ExecutionRecord]) -> int:
    """Log lines go first: an execution that is there has all of its own."""
    if not records:
        return 0
    await register(db, {record.execution.job_id: record.execution.job for record in records})
    lines = [_line(record.execution.id, n, line) for record in records for n, line in record.logs]
    await _insert_missing(db.logs, lines)
    return await _insert_missing(db.executions, [_document(record) for record in records])


def _document(record: ExecutionRecord) -> dict[str, Any]:
    doc = document(record.execution)
    doc.pop("delta", None)  # the statistics that came before hold it
    if not record.keep:
        doc["unkept"] = True
    if record.logs:
        doc["logged"] = record.logs[-1][0]
    return doc


def _line(id: str, n: int, line: LogLine) -> dict[str, Any]:
    return {"_id": line_id(id, n), "n": n, "at": line.at, "level": line.level, "message": line.message}


async def _insert_missing(collection: Collection, documents: Sequence[dict[str, Any]]) -> int:
    """How many were new."""
    if not documents:
        return 0
    try:
        await repeated(lambda: collection.insert_many(documents, ordered=False))
        return len(documents)
    except BulkWriteError as error:
        failed = error.details["writeErrors"]
        if error.details.get("writeConcernErrors") or any(one["code"] != _DUPLICATE for one in failed):
            raise
        for one in failed:
            if duplicate_index(one) != "_id":
                id = documents[one["index"]]["_id"]
                raise StoreError(f"execution {id} cannot be copied: another one holds its key") from error
        return int(error.details["nInserted"])


async def _add_job(db: Database, job: Job) -> int:
    await register(db, {job.id: job.name})
    fields = {name: value for name, value in job_document(job).items() if value is not None}
    return await _insert_missing(db.jobs, [{"_id": job.name, **fields}])
