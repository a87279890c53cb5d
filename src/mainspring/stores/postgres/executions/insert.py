"""Adding executions: those that ask for no key in one statement, the others one by one, in order.

The usual ones, bare of everything but their job, parameters and a unique key, travel as arrays and are inserted by one
statement; the rest travels as JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import msgspec

from ....model.execution import ExecutionRow
from ....model.store.batches import TemplatedBatch
from ....model.store.messages import Added, Audit
from ...common.ids import foreign_trace
from ..database import Database
from .literals import numbers, texts
from .rows import are_bare, as_json, bodies, body, incoming, is_bare, is_plain, lane_of
from .templates import are_bare_alike, pattern_of


class Sorted(msgspec.Struct):
    """Executions by the way they are added, with their places in the batch."""

    plain: list[tuple[int, ExecutionRow]]
    others: list[tuple[int, ExecutionRow]]

    def wire(self) -> dict[str, Any]:
        """The rows by kind; a kind of which there is none is left out."""
        kinds = {"plain": self.plain, "others": self.others}
        return {kind: [incoming(row) for _, row in rows] for kind, rows in kinds.items() if rows}

    def answer(self, known: Sequence[str], outcomes: Sequence[Any]) -> list[Added]:
        """What became of each, in the order given. `known` are plain ones that existed already."""
        refused = frozenset(known)
        answers = [(n, Added(row.id, "duplicate" if row.id in refused else "added")) for n, row in self.plain]
        answers += [(n, Added(row.id, *outcome)) for (n, row), outcome in zip(self.others, outcomes, strict=True)]
        return [added for _, added in sorted(answers, key=lambda answer: answer[0])]


def sorted_by_kind(executions: Sequence[ExecutionRow]) -> Sorted:
    """An id that comes twice is judged in order, after its first one."""
    kinds, seen = Sorted([], []), set[str]()
    for n, execution in enumerate(executions):
        plain = is_plain(execution) and execution.id not in seen
        (kinds.plain if plain else kinds.others).append((n, execution))
        seen.add(execution.id)
    return kinds


async def add(db: Database, executions: Sequence[ExecutionRow], audits: Sequence[Audit] = ()) -> list[Added]:
    if not executions:
        return []
    kinds = sorted_by_kind(executions)
    rows = ([incoming(row) for _, row in kind] for kind in (kinds.plain, kinds.others))
    parts = [as_json(part) if part else None for part in (*rows, audits)]
    known, outcomes = await db.row("add", *parts, repeat=True)
    return kinds.answer(decoded(known), decoded(outcomes))


def all_bare(executions: Sequence[ExecutionRow]) -> bool:
    if isinstance(executions, TemplatedBatch):
        return are_bare_alike(executions)
    if len(executions) == 1:
        return is_bare(executions[0])
    return are_bare(executions)


async def add_bare(
    db: Database, executions: Sequence[ExecutionRow], *, news: str | None = None, patient: bool = True
) -> list[Added]:
    """Executions that are `all_bare`. `news` are told to other processes with the commit."""
    name, values = statement_for(executions)
    refused = await db.value(name, *values, news, repeat=True, patient=patient)
    added = [Added(row.id, "added") for row in executions]
    for position, outcome, holder in decoded(refused):
        added[position - 1] = Added(executions[position - 1].id, outcome, holder)
    return added


def statement_for(rows: Sequence[ExecutionRow]) -> tuple[str, tuple[Any, ...]]:
    """Its name, and all of its arguments but the news."""
    if len(rows) == 1:
        return "add_single", single(rows)
    return ("add_alike", literals_alike(rows)) if isinstance(rows, TemplatedBatch) else ("add_bare", literals(rows))


def single(rows: Sequence[ExecutionRow]) -> tuple[Any, ...]:
    """The arguments of the schema's function `add_single`; there is one row."""
    [row] = rows
    if isinstance(rows, TemplatedBatch):
        own, like = (row.id, row.created), pattern_of(rows.template)
        return (
            *own,
            like.opening + like.line(row),
            like.job_id,
            like.job,
            like.lane,
            like.priority,
            None,
            None,
            like.unique_key,
        )
    due = None if row.due == row.created else row.due
    of_job = (row.job_id, row.job, lane_of(row), row.priority)
    return (row.id, row.created, body(row), *of_job, due, foreign_trace(row), row.unique_key)


def literals(rows: Sequence[ExecutionRow]) -> tuple[str | None, ...]:
    """The fields of the schema's type `bare`."""
    ids, created, dues, job_ids, jobs, queues, handlers, priorities, traces, keys = zip(
        *map(_columns, rows), strict=True
    )
    one_lane = same(queues) and same(handlers)
    own_traces = "".join(ids).replace("-", "") == "".join(traces)
    return (
        numbers(ids),
        numbers(created),
        bodies(rows),
        texts(one_or_all(job_ids)),
        texts(one_or_all(jobs)),
        texts(list(map(lane_of, rows[:1] if one_lane else rows))),
        numbers(one_or_all(priorities)),
        None if dues == created else numbers(dues),
        None if own_traces else texts(list(map(foreign_trace, rows))),
        texts(keys),
        min(ids),
        max(ids),
    )


def literals_alike(rows: TemplatedBatch) -> tuple[str | None, ...]:
    """The same without what these never have, and with what their bodies begin with."""
    ids, like = [row.id for row in rows], pattern_of(rows.template)
    created, keys = numbers([row.created for row in rows]), texts([like.unique_key] * len(rows))
    of_job = (texts([like.job_id]), texts([like.job]), texts([like.lane]), numbers([like.priority]))
    return (numbers(ids), created, like.lines(rows), *of_job, keys, min(ids), max(ids), like.opening)


_columns = attrgetter("id", "created", "due", "job_id", "job", "queue", "handler", "priority", "trace_id", "unique_key")


def same(values: Sequence[Any]) -> bool:
    return values.count(values[0]) == len(values)


def one_or_all(values: Sequence[Any]) -> Sequence[Any]:
    """One stands for all when they are the same."""
    return values[:1] if same(values) else values


def decoded(text: str | None) -> list[Any]:
    return [] if text is None else msgspec.json.decode(text, type=list[Any])
