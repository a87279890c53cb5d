"""Insert executions: rows without a key in one statement, rows with keys one by one, in order.

Nearly all executions are fresh: nothing has happened to them yet, and they have nothing but their job, their
parameters and perhaps a unique key. Fresh rows travel as arrays, which takes half the time of JSON. A single fresh row
has a statement without arrays, a fifth cheaper; a batch made from one template sends what its rows share once, which
saves a fifth too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from operator import attrgetter
from typing import Any

import msgspec

from ....model.execution import ExecutionRow
from ....model.store.batches import ExecutionTemplate, TemplatedBatch
from ....model.store.messages import Added, Audit
from ...common.ids import SLACK, foreign_trace
from ..database import Database
from .literals import numbers, storable_texts, texts
from .rows import (
    NO_PARAMS,
    are_fresh,
    as_json,
    bodies,
    body,
    has_fresh_fields,
    incoming,
    is_fresh,
    is_keyless,
    json_texts,
    lane_of,
)

_OPENING = '{"job":"'  # of every body
_BETWEEN_BODIES = "}\n" + _OPENING  # splitting at a longer separator is faster

# --- any rows -------------------------------------------------------------------------------------------------------


class SortedRows(msgspec.Struct):
    """Executions by the way they are inserted, with their positions in the batch."""

    keyless: list[tuple[int, ExecutionRow]]
    others: list[tuple[int, ExecutionRow]]

    def wire(self) -> dict[str, Any]:
        """The rows by kind and their labels; what is empty is left out."""
        kinds = {"keyless": self.keyless, "others": self.others}
        parts: dict[str, Any] = {kind: [incoming(row) for _, row in rows] for kind, rows in kinds.items() if rows}
        labels = self.labels()
        return parts | {"labels": labels} if labels else parts

    def labels(self) -> list[dict[str, Any]]:
        """As the schema's function `label_added` takes them."""
        places = [*((None, row) for _, row in self.keyless), *((n, row) for n, (_, row) in enumerate(self.others, 1))]
        return [{"id": row.id, "n": n, "labels": storable_texts(row.labels)} for n, row in places if row.labels]

    def audits(self, audits: Sequence[Audit]) -> list[dict[str, Any]]:
        """Each with the keyless execution that it is about, or with the place of that one among the others."""
        if not audits:
            return []
        places: list[tuple[int, dict[str, Any]]] = [(n, {"execution": row.id}) for n, row in self.keyless]
        places += [(n, {"n": place}) for place, (n, _) in enumerate(self.others)]
        return [{**msgspec.to_builtins(audits[n]), **place} for n, place in places]

    def answer(self, known: Sequence[str], outcomes: Sequence[Any]) -> list[Added]:
        """The outcome of each, in the order given. `known` are the keyless ones that existed already."""
        refused = frozenset(known)
        answers = [(n, Added(row.id, "duplicate" if row.id in refused else "added")) for n, row in self.keyless]
        answers += [(n, Added(row.id, *outcome)) for (n, row), outcome in zip(self.others, outcomes, strict=True)]
        return [added for _, added in sorted(answers, key=lambda answer: answer[0])]


def sorted_by_kind(executions: Sequence[ExecutionRow]) -> SortedRows:
    """An id that comes twice is judged in order, after its first row."""
    kinds, seen = SortedRows([], []), set[str]()
    for n, execution in enumerate(executions):
        keyless = is_keyless(execution) and execution.id not in seen
        (kinds.keyless if keyless else kinds.others).append((n, execution))
        seen.add(execution.id)
    return kinds


async def insert_rows(db: Database, executions: Sequence[ExecutionRow], audits: Sequence[Audit] = ()) -> list[Added]:
    if not executions:
        return []
    kinds = sorted_by_kind(executions)
    rows = ([incoming(row) for _, row in kind] for kind in (kinds.keyless, kinds.others))
    parts = [as_json(part) if part else None for part in (*rows, kinds.audits(audits))]
    if labels := kinds.labels():
        known, outcomes = await db.row("insert_rows_labelled", *parts, as_json(labels), repeat=True)
    else:
        known, outcomes = await db.row("insert_rows", *parts, repeat=True)
    return kinds.answer(decoded(known), decoded(outcomes))


def decoded(text: str | None) -> list[Any]:
    return [] if text is None else msgspec.json.decode(text, type=list[Any])


# --- fresh rows -----------------------------------------------------------------------------------------------------


def all_fresh(executions: Sequence[ExecutionRow]) -> bool:
    if isinstance(executions, TemplatedBatch):
        return executions.ahead <= SLACK * 1000 and template_text(executions.template).fresh
    return is_fresh(executions[0]) if len(executions) == 1 else are_fresh(executions)


async def insert_fresh(
    db: Database, executions: Sequence[ExecutionRow], *, news: str | None = None, patient: bool = True
) -> list[Added]:
    """Executions that are `all_fresh`. `news` is announced to other processes with the commit."""
    labels: tuple[str | None, ...]
    if len(executions) == 1:
        name, values, own = "insert_single", single(executions), executions[0].labels
        labels = (texts(storable_texts(own)),) if own else ()
    else:
        name, values, labels = "insert_fresh", literals(executions), _labels(executions)
    name = f"{name}_labelled" if labels else name
    refused = await db.value(name, *values, news, *labels, repeat=True, patient=patient)
    added = [Added(row.id, "added") for row in executions]
    for position, outcome, holder in decoded(refused):
        added[position - 1] = Added(executions[position - 1].id, outcome, holder)
    return added


def _labels(rows: Sequence[ExecutionRow]) -> tuple[str | None, ...]:
    """The places of rows with labels, and the labels; nothing if there are none."""
    if not any(map(_labels_of, rows)):
        return ()
    places = [place for place, row in enumerate(rows, 1) for _ in row.labels]
    return numbers(places), texts(storable_texts(chain.from_iterable(map(_labels_of, rows))))


_labels_of = attrgetter("labels")


def single(rows: Sequence[ExecutionRow]) -> tuple[Any, ...]:
    """The arguments of insert_single.sql but the news; there is one row."""
    [row] = rows
    if isinstance(rows, TemplatedBatch):
        text = template_text(rows.template)
        of_job = (text.job_id, text.job, text.lane, text.priority)
        return (row.id, row.created, text.opening + text.rest(row), *of_job, None, None, text.unique_key)
    due = None if row.due == row.created else row.due
    of_job = (row.job_id, row.job, lane_of(row), row.priority)
    return (row.id, row.created, body(row), *of_job, due, foreign_trace(row), row.unique_key)


def literals(rows: Sequence[ExecutionRow]) -> tuple[str | None, ...]:
    """The arguments of insert_fresh.sql but the news."""
    if isinstance(rows, TemplatedBatch):
        return _templated_literals(rows)
    ids, created, dues, job_ids, jobs, queues, handlers, priorities, traces, keys = zip(
        *map(_columns, rows), strict=True
    )
    one_lane = _same(queues) and _same(handlers)
    own_traces = "".join(ids).replace("-", "") == "".join(traces)
    return (
        numbers(ids),
        numbers(created),
        bodies(rows)[len(_OPENING) :],
        _BETWEEN_BODIES,
        _OPENING,
        texts(_one_or_all(job_ids)),
        texts(_one_or_all(jobs)),
        texts(list(map(lane_of, rows[:1] if one_lane else rows))),
        numbers(_one_or_all(priorities)),
        None if dues == created else numbers(dues),
        None if own_traces else texts(list(map(foreign_trace, rows))),
        texts(keys),
        min(ids),
        max(ids),
    )


_columns = attrgetter("id", "created", "due", "job_id", "job", "queue", "handler", "priority", "trace_id", "unique_key")


def _same(values: Sequence[Any]) -> bool:
    return values.count(values[0]) == len(values)


def _one_or_all(values: Sequence[Any]) -> Sequence[Any]:
    """One stands for all when they are the same."""
    return values[:1] if _same(values) else values


# --- batches made from one template ---------------------------------------------------------------------------------


def _templated_literals(rows: TemplatedBatch) -> tuple[str | None, ...]:
    ids, text = [row.id for row in rows], template_text(rows.template)
    created, keys = numbers([row.created for row in rows]), texts([text.unique_key] * len(rows))
    of_job = (texts([text.job_id]), texts([text.job]), texts([text.lane]), numbers([text.priority]))
    return (numbers(ids), created, text.rests(rows), "\n", text.opening, *of_job, None, None, keys, min(ids), max(ids))


class TemplateText:
    """What the executions of one template share, as they are stored: all their bodies begin with `opening`. The rest
    of each is on one line, because JSON has no line breaks of its own."""

    def __init__(self, template: ExecutionRow) -> None:
        self.opening = body(msgspec.structs.replace(template, trace_id="", params=NO_PARAMS)) + ',"trace_id":"'
        self.fresh = has_fresh_fields(template) and template.trigger == "enqueue"  # the schema reads other triggers
        self.job_id, self.job, self.lane = template.job_id, template.job, lane_of(template)
        self.priority, self.unique_key = template.priority, template.unique_key

    def rest(self, row: ExecutionRow) -> str:
        return f'{row.trace_id}"{_params_field(row.params)}'

    def rests(self, rows: TemplatedBatch) -> str:
        params = [row.params for row in rows]
        if _same(params):
            end = f'"{_params_field(params[0])}'
            return f"{end}\n".join([row.trace_id for row in rows]) + end
        texts = json_texts(params)
        return "\n".join([f'{row.trace_id}","params":{text}' for row, text in zip(rows, texts, strict=True)])


def _params_field(params: str) -> str:
    return "" if params == NO_PARAMS else f',"params":{as_json(params)}'


@lru_cache(maxsize=256)
def template_text(template: ExecutionTemplate) -> TemplateText:
    return TemplateText(template.execution)
