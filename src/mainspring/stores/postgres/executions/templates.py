"""Executions made from one blank: what they have in common is written once, around what is each one's own."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from ....model.execution import ExecutionRow
from ....model.store.batches import ExecutionTemplate, TemplatedBatch
from ...common.ids import SLACK
from .rows import NO_PARAMS, as_json, body, is_bare_blank, json_texts, lane_of


class Pattern:
    """How the executions of one blank lie in the tables. All their bodies begin with `opening`; the rest of each is a
    line, as JSON has no line breaks of its own."""

    def __init__(self, blank: ExecutionRow) -> None:
        self.opening = body(msgspec.structs.replace(blank, trace_id="", params=NO_PARAMS)) + ',"trace_id":"'
        self.bare = is_bare_blank(blank) and blank.trigger == "enqueue"  # any other is looked for in the lines
        self.job_id, self.job, self.lane, self.priority = blank.job_id, blank.job, lane_of(blank), blank.priority
        self.unique_key = blank.unique_key

    def line(self, row: ExecutionRow) -> str:
        return f'{row.trace_id}"{_written(row.params)}'

    def lines(self, rows: TemplatedBatch) -> str:
        params = [row.params for row in rows]
        if params.count(params[0]) == len(params):
            end = f'"{_written(params[0])}'
            return f"{end}\n".join([row.trace_id for row in rows]) + end
        texts = json_texts(params)
        return "\n".join([f'{row.trace_id}","params":{text}' for row, text in zip(rows, texts, strict=True)])


def _written(params: str) -> str:
    return "" if params == NO_PARAMS else f',"params":{as_json(params)}'


def are_bare_alike(rows: TemplatedBatch) -> bool:
    """As `rows.are_bare`, of which the blank knows nearly all."""
    return rows.ahead <= SLACK * 1000 and pattern_of(rows.template).bare


@lru_cache(maxsize=256)
def pattern_of(blank: ExecutionTemplate) -> Pattern:
    return Pattern(blank.execution)
