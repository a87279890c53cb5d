"""Executions made from one blank: what they have in common is written once, around what is each one's own."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from ...model.alike import Alike, Blank
from ...model.execution import Execution
from .rows import NO_PARAMS, SLACK, as_json, body, is_bare_blank, json_texts, lane_of


class Pattern:
    """How the executions of one blank lie in the tables. Quotes inside of texts are escaped, so what looks like a field
    of the body is one."""

    def __init__(self, blank: Execution) -> None:
        self.bare = is_bare_blank(blank)
        self.job_id, self.job, self.lane, self.priority = blank.job_id, blank.job, lane_of(blank), blank.priority
        self.unique_key = blank.unique_key
        marked = msgspec.structs.replace(blank, trace_id="?", params=NO_PARAMS)
        before, _, after = body(marked).partition('"trace_id":"?')
        _, _, rest = body(msgspec.structs.replace(marked, params="?")).partition('"trace_id":"?')
        between, _, after_params = rest.partition('"params":"?"')
        self._before, self._after = f'{before}"trace_id":"', after
        self._between, self._after_params = f'{between}"params":', after_params

    def body(self, row: Execution) -> str:
        return f"{self._before}{row.trace_id}{self._rest(row.params)}"

    def bodies(self, rows: Alike) -> str:
        """As `rows.bodies` writes them."""
        params = [row.params for row in rows]
        if params.count(params[0]) == len(params):
            own, after = [row.trace_id for row in rows], self._rest(params[0])
        else:
            after = self._after_params
            own = [f"{row.trace_id}{self._between}{text}" for row, text in zip(rows, json_texts(params), strict=True)]
        return self._before + f"{after}}}\n{self._before}".join(own) + after

    def _rest(self, params: str) -> str:
        if params == NO_PARAMS:
            return self._after
        return f"{self._between}{as_json(params)}{self._after_params}"


def are_bare_alike(rows: Alike) -> bool:
    """As `rows.are_bare`, of which the blank knows nearly all."""
    return rows.ahead <= SLACK * 1000 and pattern_of(rows.blank).bare


@lru_cache(maxsize=1024)
def pattern_of(blank: Blank) -> Pattern:
    return Pattern(blank.execution)
