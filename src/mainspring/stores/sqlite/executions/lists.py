"""The execution list: live and finished rows in the order of their ids, every search along an index in that order.

A query becomes one or more searches (by kind of state, incarnation of the job, origin of the trace id), each of which
returns ids in order; the page is cut from their merge, and only its rows are read in full. A range of creation times is
searched as a range of ids; strays, whose ids have another time, have an index of their own.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from ....model.execution import FINAL, LIVE, ExecutionRow, State
from ....model.store.messages import ExecutionQuery, LogLine
from ...common.ids import id_in_trace, id_range
from ..statements import sql
from ..transaction import Transaction, as_json
from .rows import FUTURE, PARKED, READY, RUNNING, WAITING

_PHASES = {State.PENDING: (FUTURE, READY, PARKED), State.RUNNING: (RUNNING,), State.WAITING: (WAITING,)}
_PAGE = 50  # executions read per statement


class Search(NamedTuple):
    """Conditions on the tables of `source`; the search walks through `table`."""

    table: str
    source: str
    conditions: tuple[str, ...] = ()
    values: tuple[Any, ...] = ()
    order: str = "DESC"

    def where(self, condition: str, *values: Any) -> Search:
        """The search with one more condition; `@` stands for `table`."""
        conditions = (*self.conditions, condition.replace("@", self.table))
        return self._replace(conditions=conditions, values=(*self.values, *values))

    def ids(self) -> str:
        where = " AND ".join(self.conditions) or "TRUE"
        both = (
            self.table == "execution" or "execution." in where
        )  # join the unchanging part only if a condition needs it
        source = self.source if both else self.source.partition(_JOIN)[0]
        return f"SELECT {self.table}.id FROM {source} WHERE {where} ORDER BY {self.table}.id {self.order} LIMIT ?"


_JOIN = " CROSS JOIN "
_EXECUTIONS = "mainspring_executions AS execution"
_LIVE = "mainspring_live AS live"
_HISTORY = "mainspring_history AS history"
_ALL = Search("execution", _EXECUTIONS)
_LIVE_FIRST = Search("live", f"{_LIVE}{_JOIN}{_EXECUTIONS} ON execution.seq = live.seq")
_LIVE_SECOND = Search("execution", f"{_EXECUTIONS}{_JOIN}{_LIVE} ON live.seq = execution.seq")
_HISTORY_FIRST = Search("history", f"{_HISTORY}{_JOIN}{_EXECUTIONS} ON execution.seq = history.seq")
_HISTORY_SECOND = Search("execution", f"{_EXECUTIONS}{_JOIN}{_HISTORY} ON history.seq = execution.seq")


def execution(tx: Transaction, id: str) -> ExecutionRow | None:
    found = tx.executions("live_rows_by_id", as_json([id])) or tx.executions("history_rows_by_id", as_json([id]))
    return found[0] if found else None


def find(tx: Transaction, query: ExecutionQuery) -> list[ExecutionRow]:
    page = list(islice(_ids(tx, query, query.offset + query.limit), query.offset, query.offset + query.limit))
    found = {row.id: row for start in range(0, len(page), _PAGE) for row in read(tx, page[start : start + _PAGE])}
    return [found[id] for id in page]


def is_live_of_one_job(query: ExecutionQuery) -> bool:
    """The engine's own query before it cancels executions; live rows of one job are few."""
    return query.job_id is not None and query.states is not None and query.states <= LIVE


def count(tx: Transaction, query: ExecutionQuery, cap: int) -> int:
    return sum(1 for _ in islice(_ids(tx, query, cap), cap))


def logs(tx: Transaction, id: str, after: int = 0) -> list[tuple[int, LogLine]]:
    return [(seq, LogLine(*line)) for seq, *line in tx.rows("logs", id, after)]


def read(tx: Transaction, ids: Sequence[str]) -> list[ExecutionRow]:
    wanted = as_json(ids)
    return tx.executions("live_rows_by_id", wanted) + tx.executions("history_rows_by_id", wanted)


def _ids(tx: Transaction, query: ExecutionQuery, limit: int) -> Iterator[str]:
    found = [[id for (id,) in tx.query(search.ids(), (*search.values, limit))] for search in searches(tx, query)]
    return heapq.merge(*found, reverse=not query.oldest_first)


def searches(tx: Transaction, query: ExecutionQuery) -> list[Search]:
    lowest, end = id_range(query.created_from, query.created_to)
    found = [_in_order(search, query, lowest, end) for search in _by_state(query, narrow=_narrow(query))]
    if lowest is not None or end is not None:
        found += [_stray(search, query, lowest, end) for search in _by_state(query, narrow=True)]
    filtered = [_filtered(search._replace(order="ASC" if query.oldest_first else "DESC"), query) for search in found]
    return [one for search in filtered for traced in _traced(search, query) for one in _of_job(tx, traced, query)]


def _by_state(query: ExecutionQuery, narrow: bool) -> list[Search]:
    """`narrow`: a condition on the unchanging part leaves few rows."""
    return [_ALL] if query.states is None else [*_live(query.states, narrow), *_history(query.states, narrow)]


def _live(states: frozenset[State], narrow: bool) -> list[Search]:
    phases = sorted(phase for state in states & LIVE for phase in _PHASES[state])
    search = _LIVE_SECOND if narrow else _LIVE_FIRST
    return [search.where(f"live.phase IN ({', '.join(map(str, phases))})")] if phases else []


def _history(states: frozenset[State], narrow: bool) -> list[Search]:
    """Rare endings are searched one by one along the indexes that leave out the completed ones."""
    wanted = sorted(state.value for state in states & FINAL)
    if not wanted:
        return []
    if State.COMPLETED in states or narrow:
        return [_HISTORY_SECOND.where(f"history.state IN ({', '.join('?' * len(wanted))})", *wanted)]
    return [_HISTORY_FIRST.where("history.state <> 'completed'").where("history.state = ?", state) for state in wanted]


def _narrow(query: ExecutionQuery) -> bool:
    return any(value is not None for value in (query.tenant, query.parent_id, query.trace_id))


def _in_order(search: Search, query: ExecutionQuery, lowest: str | None, end: str | None) -> Search:
    """One bound on each side: of two, SQLite would seek to one and check the other row by row."""
    ends = [bound for bound in (query.before, end) if bound is not None]
    search = search.where("@.id < ?", min(ends)) if ends else search
    if query.after is not None and query.after >= (lowest or ""):
        return search.where("@.id > ?", query.after)
    return search if lowest is None else search.where("@.id >= ?", lowest)


def _stray(search: Search, query: ExecutionQuery, lowest: str | None, end: str | None) -> Search:
    """Strays in the range of creation times, outside the range of ids."""
    outside = [("@.id < ?", lowest), ("@.id >= ?", end)]
    given = [(condition, bound) for condition, bound in outside if bound is not None]
    source = search.source.replace(_EXECUTIONS, f"{_EXECUTIONS} INDEXED BY mainspring_executions_stray")
    search = search._replace(source=source).where(sql("part_stray"))
    search = search.where(f"({' OR '.join(condition for condition, _ in given)})", *(bound for _, bound in given))
    search = search if query.after is None else search.where("@.id > ?", query.after)
    return search if query.before is None else search.where("@.id < ?", query.before)


def _filtered(search: Search, query: ExecutionQuery) -> Search:
    terms = (
        ("execution.tenant = ?", query.tenant),
        ("execution.parent_id = ?", query.parent_id),
        ("execution.created >= ?", query.created_from),
        ("execution.created < ?", query.created_to),
    )
    if query.trigger == "enqueue":
        search = search.where("execution.rare_trigger IS NULL")
    elif query.trigger is not None:
        search = search.where("execution.rare_trigger = ?", query.trigger)
    for condition, value in terms:
        search = search if value is None else search.where(condition, value)
    return search


def _traced(search: Search, query: ExecutionQuery) -> list[Search]:
    """A trace id either came from elsewhere or is the id of the execution itself."""
    if query.trace_id is None:
        return [search]
    foreign = search.where("execution.foreign_trace = ?", query.trace_id)
    own = id_in_trace(query.trace_id)
    if own is None:
        return [foreign]
    return [foreign, search.where("@.id = ?", own).where("execution.foreign_trace IS NULL")]


def _of_job(tx: Transaction, search: Search, query: ExecutionQuery) -> list[Search]:
    if query.job_id is not None:
        search = search.where("@.job_id = ?", query.job_id)
    if query.job is None:
        return [search]
    incarnations = [job_id for (job_id,) in tx.rows("incarnations", query.job)]
    if query.job_id is not None:
        return [search] if query.job_id in incarnations else []
    return [search.where("@.job_id = ?", job_id) for job_id in incarnations]
