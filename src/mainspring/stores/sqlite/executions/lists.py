"""The execution list: live and finished rows in the order of their ids, every search along an index in that order.

A query becomes one or more searches (by kind of state, incarnation of the job, origin of the trace id), each of which
returns ids in order; the page is cut from their merge, and only its rows are read in full. A range of creation times is
searched as a range of ids; strays, whose ids have another time, have an index of their own.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from msgspec import json
from msgspec.structs import replace

from ....model.execution import FINAL, LIVE, ExecutionRow, State
from ....model.store.messages import ExecutionQuery, ExecutionsFound, LaneCounts, LogLine, RunSummary, TenantCounts
from ....model.time.instants import Micros
from ...common.ids import id_in_trace, id_range
from ...common.newest_runs import RunWalk
from ...common.rows import busiest
from ..statements import sql
from ..transaction import Transaction, as_json
from .searching import PHASES, count_matching, search_ids

_PAGE = 50  # executions read per statement
_LAST = "g"  # greater than all ids


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
        return f"SELECT {self.table}.id {self._matching()} ORDER BY {self.table}.id {self.order} LIMIT ?"

    def counting(self) -> str:
        """In any order: most of the newest executions may be live, which a count of finished ones would pass first."""
        return f"SELECT count(*) FROM (SELECT 1 {self._matching()} LIMIT ?)"

    def _matching(self) -> str:
        where = " AND ".join(self.conditions) or "TRUE"
        both = (
            self.table == "execution" or "execution." in where
        )  # join the unchanging part only if a condition needs it
        source = self.source if both else self.source.partition(_JOIN)[0]
        return f"FROM {source} WHERE {where}"


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
    found = read(tx, [id])
    return found[0] if found else None


def find(tx: Transaction, query: ExecutionQuery) -> list[ExecutionRow]:
    return _page(tx, query, _ids(tx, query, query.offset + query.limit))


def search(tx: Transaction, query: ExecutionQuery, budget: int) -> ExecutionsFound:
    found = search_ids(tx, query, query.offset + query.limit, budget)
    return ExecutionsFound(_page(tx, query, found.ids), found.searched_to)


def _page(tx: Transaction, query: ExecutionQuery, ids: Iterable[str]) -> list[ExecutionRow]:
    page = list(islice(ids, query.offset, query.offset + query.limit))
    found = {row.id: row for start in range(0, len(page), _PAGE) for row in read(tx, page[start : start + _PAGE])}
    return [found[id] for id in page]


def is_live_of_one_job(query: ExecutionQuery) -> bool:
    """The engine's own query before it cancels executions; live rows of one job are few."""
    return query.job_id is not None and query.states is not None and query.states <= LIVE


def count(tx: Transaction, query: ExecutionQuery, cap: int, budget: int | None = None) -> int:
    if _is_search(query):
        return count_matching(tx, query, cap, budget if query.checks_rows else None)
    counts = (tx.query(search.counting(), (*search.values, cap))[0][0] for search in searches(tx, query))
    return min(cap, sum(map(int, counts)))


def lane_counts(tx: Transaction) -> list[LaneCounts]:
    lanes: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for line, count in tx.rows("parked_by_line"):
        lane = lanes[line.partition(" ")[2]]
        lane["parked"] = lane.get("parked", 0) + count
    for name, count in tx.rows("running_by_lane"):
        lanes[name]["running"] = count
    [found] = tx.rows("pending_by_lane", tx.now)
    ready, ready_dues, planned, planned_dues = (json.decode(text) for text in found)
    for field, first, names, dues in (
        ("ready", "oldest", ready, ready_dues),
        ("planned", "next_due", planned, planned_dues),
    ):
        for name, count in Counter[str](names).items():
            lanes[name][field] = count
        for name, due in _smallest(names, dues).items():
            lanes[name][first] = due
    return _by_queue(lanes)


def tenant_counts(tx: Transaction, limit: int) -> list[TenantCounts]:
    """No index has the tenants of live rows: one would be paid for by each enqueue."""
    [(pending,)] = tx.rows("pending_tenants")
    return busiest(Counter(json.decode(pending, type=list[str])), dict(tx.rows("running_tenants")), limit)


def newest_runs(
    tx: Transaction, job_ids: Sequence[str], limit: int, since: Micros | None = None
) -> dict[str, list[RunSummary]]:
    found = {id: _runs_of(tx, id, limit, since) for id in job_ids} if limit > 0 else {}
    return {id: runs for id, runs in found.items() if runs}


def _runs_of(tx: Transaction, job_id: str, limit: int, since: Micros | None) -> list[RunSummary]:
    lowest, _ = id_range(since, None)
    walk, more = RunWalk(limit, since), True
    while more:
        page = tx.rows("newest_runs", job_id, walk.before or _LAST, lowest or "", walk.wanted)
        more = walk.add([(RunSummary(id, State(state), *rest), bool(child)) for id, state, *rest, child in page])
    return walk.runs


def _smallest(names: list[str], dues: list[int]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, due in zip(names, dues, strict=True):
        if due < found.get(name, due + 1):
            found[name] = due
    return found


def _by_queue(lanes: Mapping[str, Mapping[str, Any]]) -> list[LaneCounts]:
    """Rows of one queue and handler may be in several lanes."""
    found: dict[tuple[str, str], LaneCounts] = {}
    for name, counts in lanes.items():
        queue, handler, *_ = name.split("/")
        lane = LaneCounts(queue=queue, handler=handler, **counts)
        known = found.get((queue, handler))
        found[queue, handler] = lane if known is None else _sum(known, lane)
    return [found[key] for key in sorted(found)]


def _sum(one: LaneCounts, other: LaneCounts) -> LaneCounts:
    return replace(
        one,
        ready=one.ready + other.ready,
        planned=one.planned + other.planned,
        parked=one.parked + other.parked,
        running=one.running + other.running,
        oldest=min(filter(None, (one.oldest, other.oldest)), default=None),
        next_due=min(filter(None, (one.next_due, other.next_due)), default=None),
    )


def logs(tx: Transaction, id: str, after: int = 0) -> list[tuple[int, LogLine]]:
    return [(seq, LogLine(*line)) for seq, *line in tx.rows("logs", id, after)]


def read(tx: Transaction, ids: Sequence[str]) -> list[ExecutionRow]:
    """With their labels."""
    wanted = as_json(ids)
    rows = tx.executions("live_rows_by_id", wanted) + tx.executions("history_rows_by_id", wanted)
    labels: dict[str, tuple[str, ...]] = {}
    for id, label in tx.rows("labels_of", wanted):
        labels[id] = (*labels.get(id, ()), label)
    return [replace(row, labels=labels[row.id]) if row.id in labels else row for row in rows] if labels else rows


def _ids(tx: Transaction, query: ExecutionQuery, limit: int) -> Iterable[str]:
    if _is_search(query):
        return search_ids(tx, query, limit, None).ids
    found = [[id for (id,) in tx.query(search.ids(), (*search.values, limit))] for search in searches(tx, query)]
    return heapq.merge(*found, reverse=not query.oldest_first)


def _is_search(query: ExecutionQuery) -> bool:
    """By labels, by what no index serves, or live ones of all jobs."""
    all_live = query.states is not None and query.states <= LIVE and query.job is None and query.job_id is None
    return query.checks_rows or bool(query.labels) or all_live


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
    phases = sorted(phase for state in states & LIVE for phase in PHASES[state])
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
