"""Whole records, read from the tables and added to them as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar, cast

from ...model.errors import StoreError
from ...model.job import Job
from ...model.store.copy_records import ExecutionRecord, Incarnation, Record, RecordKind, key_of
from ...model.store.entries import Entry
from ...model.store.messages import Audit
from .executions import ExecutionTable
from .jobs import JobTable
from .small_tables import AuditTable, EntryTable
from .statistics import Statistics

R = TypeVar("R", bound=Record)


class Copying:
    """Copies the records of one store out and in; the caller holds its lock."""

    def __init__(
        self,
        jobs: JobTable,
        executions: ExecutionTable,
        statistics: Statistics,
        audits: AuditTable,
        entries: EntryTable,
    ) -> None:
        self._jobs, self._executions, self._statistics = jobs, executions, statistics
        self._audits, self._entries = audits, entries

    def copy_out(self, kind: RecordKind, after: str, limit: int) -> list[Record]:
        if kind == "executions":
            return list(self._executions.records(after, limit))
        found = sorted((record for record in self._all(kind) if key_of(record) > after), key=key_of)
        return found[:limit]

    def _all(self, kind: RecordKind) -> Iterable[Record]:
        if kind == "incarnations":
            return self._statistics.incarnations()
        if kind == "audits":
            return self._audits
        return self._entries if kind == "entries" else self._jobs.jobs()

    def copy_in(self, kind: RecordKind, records: Sequence[Record]) -> int:
        match kind:
            case "incarnations":
                return _count(self._statistics.restore, cast(Sequence[Incarnation], records))
            case "executions":
                return _count(self._execution, cast(Sequence[ExecutionRecord], records))
            case "audits":
                return _count(self._audits.restore, cast(Sequence[Audit], records))
            case "entries":
                return _count(self._entries.restore, cast(Sequence[Entry], records))
            case "jobs":
                return _count(self._jobs.restore, cast(Sequence[Job], records))

    def _execution(self, record: ExecutionRecord) -> bool:
        row = record.execution
        if self._executions.execution(row.id) is not None:
            return False
        holders = (
            self._executions.live.unique_holder(row.unique_key),
            self._executions.live.overlap_holder(row.overlap_key),
        )
        if not row.state.final and any(holders):
            raise StoreError(f"execution {row.id} cannot be copied: another one holds its key")
        self._executions.restore(record)
        return True


def _count(restore: Callable[[R], bool], records: Sequence[R]) -> int:
    return sum(restore(record) for record in records)
