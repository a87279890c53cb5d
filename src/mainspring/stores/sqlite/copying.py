"""Whole records, read from the tables and inserted as they are; nothing is counted again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import cast

import msgspec
from msgspec.structs import astuple

from ...model.errors import StoreError
from ...model.execution import ExecutionRow, State
from ...model.job import Job
from ...model.store.copy_records import ExecutionRecord, Incarnation, Record, RecordKind, place_of
from ...model.store.entries import Entry
from ...model.store.messages import Audit, LogLine
from . import small_tables
from .executions.lists import read
from .executions.rows import execution_row, history_row, is_plain, label_rows, live_row, plain_row
from .jobs import jobs_after, restore_job, stats
from .limits.limits import hold_slots
from .transaction import Transaction, as_json

_ids = msgspec.json.Decoder(list[str]).decode


def copy_out(tx: Transaction, kind: RecordKind, after: str, limit: int) -> list[Record]:
    match kind:
        case "incarnations":
            return list(_incarnations(tx, after, limit))
        case "executions":
            return list(_executions(tx, _ids(tx.value("ids_after", after, limit))))
        case "audits":
            rows = tx.rows("audits_after", after, limit)
            return [Audit(**dict(zip(Audit.__struct_fields__, row, strict=True))) for row in rows]
        case "entries":
            return list(small_tables.entries_after(tx, place_of(after), limit))
        case "jobs":
            return list(jobs_after(tx, after, limit))


def copy_in(tx: Transaction, kind: RecordKind, records: Sequence[Record]) -> int:
    match kind:
        case "incarnations":
            return sum(_add_incarnation(tx, record) for record in cast(Sequence[Incarnation], records))
        case "executions":
            return _CopyBatch(tx).add(cast(Sequence[ExecutionRecord], records))
        case "audits":
            return sum(tx.run("audit_insert", *astuple(audit)) for audit in cast(Sequence[Audit], records))
        case "entries":
            return sum(small_tables.restore_entry(tx, entry) for entry in cast(Sequence[Entry], records))
        case "jobs":
            return sum(restore_job(tx, job) for job in cast(Sequence[Job], records))


# --- out --------------------------------------------------------------------------------------------------------


def _incarnations(tx: Transaction, after: str, limit: int) -> list[Incarnation]:
    found = tx.rows("incarnations_after", after, limit)
    totals = stats(tx, [row[0] for row in found])
    return [
        Incarnation(job_id=job_id, job=job, last_number=last, stats=totals.get(job_id)) for job_id, job, last in found
    ]


def _executions(tx: Transaction, ids: Sequence[str]) -> list[ExecutionRecord]:
    rows = {row.id: row for row in read(tx, ids)}
    wanted = as_json(ids)
    unkept = {id for (id,) in tx.rows("unkept_ids", wanted)}
    logs: dict[str, list[tuple[int, LogLine]]] = defaultdict(list)
    for id, seq, *line in tx.rows("logs_of", wanted):
        logs[id].append((seq, LogLine(*line)))
    return [ExecutionRecord(execution=rows[id], keep=id not in unkept, logs=tuple(logs[id])) for id in ids]


# --- in ---------------------------------------------------------------------------------------------------------


def _add_incarnation(tx: Transaction, record: Incarnation) -> int:
    added = tx.run("incarnation_restore", record.job_id, record.job, record.last_number)
    if added and record.stats is not None:
        tx.save_totals(record.stats)
    return added


class _CopyBatch:
    """Executions that do not exist yet, collected by table."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._plain: list[tuple[object, ...]] = []
        self._ended: list[tuple[object, ...]] = []

    def add(self, records: Sequence[ExecutionRecord]) -> int:
        known = set(_ids(self._tx.value("known_ids", as_json([record.execution.id for record in records]))))
        new = [record for record in records if record.execution.id not in known]
        rows = [self._add(record) for record in new]
        self._tx.bulk("execution_insert", rows)
        self._tx.bulk("live_insert_plain", self._plain)
        self._tx.bulk("history_insert", self._ended)
        labels = [row for record in new for row in label_rows(record.execution.id, record.execution.labels)]
        self._tx.bulk("label_insert", labels)
        lines = [(r.execution.id, seq, *astuple(line)) for r in new for seq, line in r.logs]
        self._tx.bulk("log_insert", lines)
        return len(new)

    def _add(self, record: ExecutionRecord) -> tuple[object, ...]:
        row, seq = record.execution, self._tx.next_seq()
        if row.state.final:
            self._ended.append(history_row(seq, row, record.keep))
        elif is_plain(row):
            self._plain.append(plain_row(seq, row, self._tx.now))
        elif self._tx.run("live_insert", *live_row(seq, row, self._tx.now)) == 0:
            raise StoreError(f"execution {row.id} cannot be copied: another one holds its key")
        if row.state is State.RUNNING:
            hold_slots(self._tx, seq, row)
        return execution_row(seq, row, self._numbered(row))

    def _numbered(self, row: ExecutionRow) -> int:
        """Its number, or the next one. The incarnation's count of ended executions is kept right."""
        new = row.number is None
        if new is row.state.final:
            self._tx.ended(row.job_id, 1 if new else -1)
        return self._tx.next_number(row) if row.number is None else row.number
