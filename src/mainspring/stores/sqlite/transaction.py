"""One open transaction: runs named statements, and has the store's time.

Execution numbers and statistics are collected per job and saved by `flush`, so that a commit with the work of many
callers writes each job's row once.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice, repeat
from typing import Any

import msgspec
from msgspec.structs import astuple

from ...core.ports import Clock, Topic
from ...model.execution import ExecutionRow, State
from ...model.job import JobStats
from ...model.store.messages import Audit
from ...model.time.instants import Micros
from ..common.rows import merge_stats
from .executions.rows import Row, executions
from .statements import sql, sql_for_rows

_CHUNKS = (64, 16, 4, 1)  # rows per statement: few sizes, so that each is prepared once
_JOINED_AT_ONCE, _JOINED_STEP = 128, 4


class Transaction:
    def __init__(self, connection: sqlite3.Connection, clock: Clock) -> None:
        self._cursor = connection.cursor()
        self._cursor.row_factory = None
        self._clock = clock
        self._numbers: dict[str, int] = {}
        self._jobs: dict[str, str] = {}
        self._deltas: dict[str, JobStats] = {}
        self._ended: Counter[str] = Counter()
        self._seq: int | None = None
        self.now: Micros = clock.now()
        self.topics: set[Topic] = set()
        self.after_commit: list[Callable[[], None]] = []

    def tick(self) -> None:
        """Read the clock again: the next step of this transaction begins."""
        self.now = self._clock.now()

    # --- statements -----------------------------------------------------------------------------------------------

    def run(self, name: str, *values: Any) -> int:
        """Returns the number of changed rows."""
        return self._cursor.execute(sql(name), values).rowcount

    def rows(self, name: str, *values: Any) -> list[Row]:
        return self._cursor.execute(sql(name), values).fetchall()

    def value(self, name: str, *values: Any) -> Any:
        """The first column of the first row; None when there is none."""
        row = self._cursor.execute(sql(name), values).fetchone()
        self._cursor.fetchall()
        return None if row is None else row[0]

    def executions(self, name: str, *values: Any) -> list[ExecutionRow]:
        return executions(self.value(name, *values))

    def numbered(self, name: str, *values: Any) -> list[tuple[int, ExecutionRow]]:
        """Executions with their `seq`, from a statement that returns both lists."""
        [(text, numbers)] = self.rows(name, *values)
        return list(zip(msgspec.json.decode(numbers, type=list[int]), executions(text), strict=True))

    def query(self, text: str, values: Sequence[Any]) -> list[Row]:
        """A statement put together at run time."""
        return self._cursor.execute(text, values).fetchall()

    def bulk(self, name: str, rows: Iterable[Row]) -> None:
        """Many rows in few statements: each step costs a release of the interpreter's lock."""
        left = iter(rows)
        chunk = list(islice(left, _CHUNKS[0]))
        while chunk:
            size = next(size for size in _CHUNKS if size <= len(chunk))
            now, rest = chunk[:size], chunk[size:]
            self._cursor.execute(sql_for_rows(name, size), list(chain.from_iterable(now)))
            chunk = rest or list(islice(left, _CHUNKS[0]))

    def joined(self, name: str, rows: Sequence[Row], *values: Any) -> int:
        """As `bulk`, for a statement that joins the given rows with a table. Returns the number of changed rows.

        Rows of NULLs, which match nothing, fill up the last statement, so that few sizes have to be prepared.
        """
        changed = 0
        for start in range(0, len(rows), _JOINED_AT_ONCE):
            part = rows[start : start + _JOINED_AT_ONCE]
            size = -(-len(part) // _JOINED_STEP) * _JOINED_STEP
            given = [*chain.from_iterable(part), *repeat(None, (size - len(part)) * len(part[0])), *values]
            changed += self._cursor.execute(sql_for_rows(name, size), given).rowcount
        return changed

    def audit(self, *audits: Audit | None) -> None:
        for audit in audits:
            if audit is not None:
                self.run("audit_insert", *astuple(audit))

    # --- saved by flush ----------------------------------------------------------------------------------------------

    def next_seq(self) -> int:
        """The number of the next execution row. Used or not: only order and uniqueness matter."""
        if self._seq is None:
            self._seq = self.value("last_seq") or 0
        self._seq += 1
        return self._seq

    def next_number(self, execution: ExecutionRow) -> int:
        """The number of this execution among those of its job."""
        job_id = execution.job_id
        last = self._numbers.get(job_id)
        if last is None:
            last = self.value("incarnation_number", job_id) or 0
            self._jobs[job_id] = execution.job
        self._numbers[job_id] = last + 1
        return last + 1

    def ended(self, job_id: str, count: int = 1) -> None:
        """Count executions of this incarnation that have ended, or were recorded as ended."""
        self._ended[job_id] += count

    def count(self, delta: JobStats | None) -> None:
        """Add to the statistics of a job."""
        if delta is not None:
            known = self._deltas.get(delta.job_id)
            self._deltas[delta.job_id] = delta if known is None else merge_stats(known, delta)

    def flush(self) -> None:
        """Save numbers and statistics. The last step before the commit."""
        for job_id, last in self._numbers.items():
            self.run("incarnation_save", job_id, self._jobs[job_id], last)
        for job_id, count in self._ended.items():
            self.run("incarnation_ended", job_id, count)
        for delta in self._deltas.values():
            self.run("totals_add", *_totals_row(delta))
            self._add_endings(delta)
        self._numbers, self._deltas, self._ended = {}, {}, Counter()

    def save_totals(self, stats: JobStats) -> None:
        """Replace the totals of a job."""
        self.run("totals_save", *_totals_row(stats))
        self._add_endings(stats)

    def _add_endings(self, stats: JobStats) -> None:
        for ending, count in stats.by_trigger.items():
            self.run("endings_add", stats.job_id, ending, count)


def _totals_row(stats: JobStats) -> Row:
    state = None if stats.last_state is None else stats.last_state.value
    return astuple(msgspec.structs.replace(stats, last_state=state))[:-1]


def stats_of(row: Row, by_trigger: dict[str, int]) -> JobStats:
    """A row of the totals: the fields of `JobStats` in their order, but for the last one."""
    fields = dict(zip(JobStats.__struct_fields__[:-1], row, strict=True))
    state = fields["last_state"]
    return JobStats(**{**fields, "last_state": None if state is None else State(state)}, by_trigger=by_trigger)


def as_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
