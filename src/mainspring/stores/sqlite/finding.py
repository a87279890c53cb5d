"""The execution list: live and finished rows, newest id first, every search along an index that gives that order.

A query becomes one or more searches (per table, incarnation of the job and state), each of which returns ids in
order; the page is cut from their merge, and only its rows are read in full.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple
from uuid import UUID

from ...model.changes import ExecutionQuery, LogLine, PruneRule
from ...model.execution import FINAL, LIVE, Execution, State
from .rows import FUTURE, READY, RUNNING, WAITING
from .transaction import Transaction, as_json

_PHASES = {State.PENDING: (FUTURE, READY), State.RUNNING: (RUNNING,), State.WAITING: (WAITING,)}
_PAGE = 50  # executions read per statement
SCANNED_AT_ONCE = 20_000  # finished rows one pruning step looks at


class Search(NamedTuple):
    """Conditions on one table."""

    table: str
    conditions: tuple[str, ...]
    values: tuple[Any, ...]

    def where(self, condition: str, *values: Any) -> Search:
        return Search(self.table, (*self.conditions, condition), (*self.values, *values))

    def ids(self, limit: int) -> tuple[str, tuple[Any, ...]]:
        where = " AND ".join(self.conditions) or "TRUE"
        return f"SELECT id FROM {self.table} WHERE {where} ORDER BY id DESC LIMIT ?", (*self.values, limit)


def execution(tx: Transaction, id: str) -> Execution | None:
    found = tx.executions("live_rows", as_json([id])) or tx.executions("history_rows", as_json([id]))
    return found[0] if found else None


def find(tx: Transaction, query: ExecutionQuery) -> list[Execution]:
    page = list(islice(_ids(tx, query, query.offset + query.limit), query.offset, query.offset + query.limit))
    found = {row.id: row for start in range(0, len(page), _PAGE) for row in _read(tx, page[start : start + _PAGE])}
    return [found[id] for id in page]


def count(tx: Transaction, query: ExecutionQuery, cap: int) -> int:
    return sum(1 for _ in islice(_ids(tx, query, cap), cap))


def logs(tx: Transaction, id: str, after: int) -> list[tuple[int, LogLine]]:
    return [(seq, LogLine(at, level, message)) for seq, at, level, message in tx.rows("logs", id, after)]


def _read(tx: Transaction, ids: Sequence[str]) -> list[Execution]:
    wanted = as_json(ids)
    return tx.executions("live_rows", wanted) + tx.executions("history_rows", wanted)


def _ids(tx: Transaction, query: ExecutionQuery, limit: int) -> Iterator[str]:
    found = [[id for (id,) in tx.query(*search.ids(limit))] for search in searches(tx, query)]
    return heapq.merge(*found, reverse=True)


def searches(tx: Transaction, query: ExecutionQuery) -> list[Search]:
    plain = [*_live(query), *_history(query)]
    filtered = [_filtered(search, query) for search in plain]
    return [one for search in filtered for traced in _traced(search, query) for one in _of_job(tx, traced, query)]


def _live(query: ExecutionQuery) -> list[Search]:
    live = Search("mainspring_live", (), ())
    if query.states is None or query.states >= LIVE:
        return [live]
    phases = [phase for state in query.states & LIVE for phase in _PHASES[state]]
    return [live.where(f"phase IN ({', '.join(map(str, sorted(phases)))})")] if phases else []


def _history(query: ExecutionQuery) -> list[Search]:
    """Rare states are searched one by one along the indexes that leave out the completed ones."""
    history = Search("mainspring_history", (), ())
    if query.states is None or query.states >= FINAL:
        return [history]
    wanted = sorted(state.value for state in query.states & FINAL)
    if State.COMPLETED in query.states:
        return [history.where(f"state IN ({', '.join('?' * len(wanted))})", *wanted)]
    return [history.where("state <> 'completed'").where("state = ?", state) for state in wanted]


def _filtered(search: Search, query: ExecutionQuery) -> Search:
    terms = (
        ("id < ?", query.before),
        ("tenant = ?", query.tenant),
        ("parent_id = ?", query.parent_id),
        ("created >= ?", query.created_from),
        ("created < ?", query.created_to),
        ("json_extract(body, '$.trigger') = ?", None if query.trigger == "enqueue" else query.trigger),
    )
    for condition, value in terms:
        search = search if value is None else search.where(condition, value)
    return search.where("json_extract(body, '$.trigger') IS NULL") if query.trigger == "enqueue" else search


def _traced(search: Search, query: ExecutionQuery) -> list[Search]:
    """A trace id came from elsewhere, or is the id of the execution itself."""
    if query.trace_id is None:
        return [search]
    foreign = search.where("foreign_trace = ?", query.trace_id)
    own = _as_id(query.trace_id)
    return [foreign] if own is None else [foreign, search.where("id = ?", own).where("foreign_trace IS NULL")]


def _as_id(trace_id: str) -> str | None:
    try:
        return str(UUID(hex=trace_id))
    except ValueError:
        return None


def _of_job(tx: Transaction, search: Search, query: ExecutionQuery) -> list[Search]:
    if query.job_id is not None:
        search = search.where("job_id = ?", query.job_id)
    if query.job is None:
        return [search]
    incarnations = [job_id for (job_id,) in tx.rows("incarnations", query.job)]
    if query.job_id is not None:
        return [search] if query.job_id in incarnations else []
    return [search.where("job_id = ?", job_id) for job_id in incarnations]


def prunable(tx: Transaction, rule: PruneRule, limit: int) -> list[str]:
    """Ids of what the rule lets go, oldest first."""
    first_kept = tx.value("prune_keep", rule.job_id, rule.newest - 1) if rule.newest > 0 else None
    found = [id for state in sorted(rule.states) for id in _prunable(tx, rule, state, first_kept, limit)]
    return sorted(found)[:limit]


def _prunable(tx: Transaction, rule: PruneRule, state: State, first_kept: str | None, limit: int) -> list[str]:
    """The newest are safe, except that skipped ones are never among them."""
    search = Search("mainspring_history", ("job_id = ?", "todo = 0"), (rule.job_id,)).where("state = ?", state.value)
    if state is not State.COMPLETED:
        search = search.where("state <> 'completed'")
    if rule.newest > 0 and state is not State.SKIPPED:
        if first_kept is None:
            return []
        search = search.where("id < ?", first_kept)
    if rule.older_than is not None:
        search = search.where("finished < ?", rule.older_than)
    text = f"SELECT id FROM {search.table} WHERE {' AND '.join(search.conditions)} ORDER BY id LIMIT ?"
    return [id for (id,) in tx.query(text, (*search.values, limit))]
