"""Copy whole records out of the tables and into them, without counting anything again.

Each page is one statement: it is stored as a whole, or not at all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, cast

from msgspec.structs import asdict, replace

from ...model.execution import ExecutionRow
from ...model.job import Job
from ...model.store.copy_records import ExecutionRecord, Incarnation, Record, RecordKind, place_of
from ...model.store.entries import Entry
from ...model.store.messages import Audit, LogLine
from ..common.ids import first_id
from . import small_tables
from .database import Database
from .executions.literals import numbers, storable, storable_texts, texts
from .executions.rows import as_json, incoming
from .jobs.rows import job_row, jobs_after, stats


async def copy_out(db: Database, kind: RecordKind, after: str, limit: int) -> list[Record]:
    match kind:
        case "incarnations":
            return list(await _incarnations(db, after, limit))
        case "executions":
            return list(await _executions(db, after, limit))
        case "audits":
            rows = await db.rows("audits_after", after, limit, repeat=True)
            return [Audit(**dict(zip(Audit.__struct_fields__, row, strict=True))) for row in rows]
        case "entries":
            return list(await small_tables.entries_after(db, place_of(after), limit))
        case "jobs":
            return list(await jobs_after(db, after, limit))


async def copy_in(db: Database, kind: RecordKind, records: Sequence[Record]) -> int:
    if not records:
        return 0
    return int(await _add(db, kind, records))


async def _add(db: Database, kind: RecordKind, records: Sequence[Record]) -> Any:
    match kind:
        case "incarnations":
            return await _add_incarnations(db, cast(Sequence[Incarnation], records))
        case "executions":
            return await _add_executions(db, cast(Sequence[ExecutionRecord], records))
        case "audits":
            return await db.value("audits_restore", as_json(records), repeat=True)
        case "entries":
            return await small_tables.restore(db, cast(Sequence[Entry], records))
        case "jobs":
            rows = [job_row(job, job.version) for job in cast(Sequence[Job], records)]
            return await db.value("jobs_restore", as_json(rows), repeat=True)


# --- out ------------------------------------------------------------------------------------------------------------


async def _incarnations(db: Database, after: str, limit: int) -> list[Incarnation]:
    found = await db.rows("incarnations_after", after, limit, repeat=True)
    totals = await stats(db, [row[0] for row in found])
    return [
        Incarnation(job_id=job_id, job=job, last_number=last, stats=totals.get(job_id)) for job_id, job, last in found
    ]


async def _executions(db: Database, after: str, limit: int) -> list[ExecutionRecord]:
    rows = await db.executions("executions_after", after or first_id(0), limit)
    if not rows:
        return []
    ids = numbers([row.id for row in rows])
    unkept = {id for (id,) in await db.rows("unkept", ids, repeat=True)}
    logs: dict[str, list[tuple[int, LogLine]]] = defaultdict(list)
    for id, seq, *line in await db.rows("logs_of", ids, repeat=True):
        logs[id].append((seq, LogLine(*line)))
    return [ExecutionRecord(execution=row, keep=row.id not in unkept, logs=tuple(logs[row.id])) for row in rows]


# --- in -------------------------------------------------------------------------------------------------------------


async def _add_incarnations(db: Database, records: Sequence[Incarnation]) -> Any:
    rows = [{"job_id": one.job_id, "job": one.job, "last_number": one.last_number} for one in records]
    totals = [replace(one.stats, last_error=storable(one.stats.last_error)) for one in records if one.stats]
    return await db.value("incarnations_restore", as_json(rows), as_json(totals), repeat=True)


async def _add_executions(db: Database, records: Sequence[ExecutionRecord]) -> Any:
    executions = [record.execution for record in records]
    names = {row.job_id: row.job for row in executions}
    await db.value("ensure_incarnations", texts(list(names)), texts(list(names.values())), repeat=True)
    unkept = [record.execution.id for record in records if not record.keep]
    lines = [
        {"execution_id": record.execution.id, "seq": seq, "at": line.at, "level": line.level}
        | {"message": storable(line.message), "logger": storable(line.logger)}
        for record in records
        for seq, line in record.logs
    ]
    rows = as_json([_wire(row) for row in executions])
    return await db.value("executions_restore", rows, numbers(unkept), as_json(lines), repeat=True)


def _wire(row: ExecutionRow) -> dict[str, Any]:
    texts = {name: storable(getattr(row, name)) for name in ("reason", "error", "cancel_reason")}
    labels = {"labels": storable_texts(row.labels)} if row.labels else {}
    return asdict(incoming(replace(row, **texts))) | {"number": row.number} | labels
