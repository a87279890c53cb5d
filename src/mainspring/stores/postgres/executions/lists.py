"""The execution list: live and finished rows in the order of their ids, every search along an index that gives it.

A query becomes one or more searches (per table and, where an index leaves out the completed ones, per state), each
of which returns ids in order. The server merges them, cuts the page, and reads only its rows in full.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ....model.execution import FINAL, LIVE, ExecutionRow, State
from ....model.store.messages import ExecutionQuery, LogLine, PruneRule
from ...common.ids import id_in_trace, id_range
from ..database import Database
from ..statements import in_schema
from .literals import numbers
from .rows import executions, is_id

_PHASES = {State.PENDING: (-1, 0, 1), State.RUNNING: (2,), State.WAITING: (3,)}
_ALL_LIVE = ("phase < 2", "phase >= 2")


class Search(NamedTuple):
    """Conditions on one table; their placeholders are numbered through the whole statement."""

    table: str
    conditions: tuple[str, ...] = ()

    def where(self, *conditions: str) -> Search:
        return Search(self.table, (*self.conditions, *conditions))


class Values:
    """The values of a statement, numbered in the order they are added."""

    def __init__(self) -> None:
        self.given: list[Any] = []

    def add(self, value: Any, kind: str) -> str:
        """The placeholder that stands for the value."""
        self.given.append(value)
        return f"${len(self.given)}::{kind}"


async def execution(db: Database, id: str) -> ExecutionRow | None:
    if not is_id(id):
        return None
    found = await db.executions("execution", id)
    return found[0] if found else None


async def find(db: Database, query: ExecutionQuery) -> list[ExecutionRow]:
    values, order = Values(), _order(query)
    page = _page(query, values, query.offset + query.limit)
    if page is None or query.limit < 1:
        return []
    text = f"""
        WITH page AS MATERIALIZED (
            SELECT id FROM ({page}) x ORDER BY id {order}
            OFFSET {values.add(query.offset, "bigint")} LIMIT {values.add(query.limit, "bigint")}
        ), found AS (
            SELECT p.id, l.text FROM page p
            CROSS JOIN LATERAL (SELECT mainspring.as_json(l) AS text FROM mainspring.live l WHERE l.id = p.id) l
            UNION ALL
            SELECT p.id, h.text FROM page p
            CROSS JOIN LATERAL (SELECT mainspring.as_json(h) AS text FROM mainspring.history h WHERE h.id = p.id) h
        )
        SELECT string_agg(text, ',' ORDER BY id {order}) FROM found
    """
    return executions((await db.query(in_schema(text, db.schema), values.given, repeat=True))[0][0])


async def count(db: Database, query: ExecutionQuery, cap: int) -> int:
    values = Values()
    page = _page(query, values, cap)
    if page is None:
        return 0
    text = f"SELECT count(*) FROM (SELECT 1 FROM ({page}) x LIMIT {values.add(cap, 'bigint')}) x"
    return int((await db.query(in_schema(text, db.schema), values.given, repeat=True))[0][0])


async def logs(db: Database, id: str, after: int = 0) -> list[tuple[int, LogLine]]:
    if not is_id(id):
        return []
    rows = await db.rows("logs", id, after, repeat=True)
    return [(seq, LogLine(*line)) for seq, *line in rows]


# --- searches -------------------------------------------------------------------------------------------------------


def _page(query: ExecutionQuery, values: Values, limit: int) -> str | None:
    """A SELECT that returns at least the first `limit` ids that match; None when nothing can match."""
    searches = [search for plain in (*_live(query), *_history(query)) for search in _filtered(plain, query, values)]
    if not searches:
        return None
    most = values.add(limit, "bigint")
    if query.job is None:
        return " UNION ALL ".join(_select(search, most, _order(query)) for search in searches)
    return " UNION ALL ".join(_select_of_job(search, query, values, most) for search in searches)


def _order(query: ExecutionQuery) -> str:
    return "ASC" if query.oldest_first else "DESC"


def _select(search: Search, most: str, order: str) -> str:
    where = " AND ".join(search.conditions) or "true"
    return f"(SELECT x.id FROM mainspring.{search.table} x WHERE {where} ORDER BY x.id {order} LIMIT {most})"


def _select_of_job(search: Search, query: ExecutionQuery, values: Values, most: str) -> str:
    """Each incarnation of the job is searched along the index separately."""
    named = values.add(query.job, "text")
    inner = _select(search.where("x.job_key = i.key"), most, _order(query))
    return f"SELECT f.id FROM mainspring.incarnation i CROSS JOIN LATERAL {inner} f WHERE i.job = {named}"


def _live(query: ExecutionQuery) -> list[Search]:
    """Pending and active rows have indexes of their own."""
    states = LIVE if query.states is None else query.states & LIVE
    by_job = query.job is not None or query.job_id is not None
    if states >= LIVE:
        return [Search("live", (phase,)) for phase in _ALL_LIVE] if by_job else [Search("live")]
    phases = sorted(phase for state in states for phase in _PHASES[state])
    halves = ([p for p in phases if p < 2], [p for p in phases if p >= 2])
    return [
        Search("live", (half, f"phase IN ({', '.join(map(str, wanted))})"))
        for half, wanted in zip(_ALL_LIVE, halves, strict=True)
        if wanted
    ]


def _history(query: ExecutionQuery) -> list[Search]:
    """Rare states are searched one by one along the indexes that leave out the completed ones."""
    states = FINAL if query.states is None else query.states & FINAL
    by_job = query.job is not None or query.job_id is not None
    if states >= FINAL and not by_job:
        return [Search("history")]
    completed = [Search("history", ("state = 'completed'",))] if State.COMPLETED in states else []
    rare = Search("history", ("state <> 'completed'",))
    if states >= FINAL:
        return [*completed, rare]
    others = sorted(state.value for state in states if state is not State.COMPLETED)
    return [*completed, *(rare.where(f"state = '{state}'") for state in others)]


def _filtered(search: Search, query: ExecutionQuery, values: Values) -> list[Search]:
    terms = (
        *_bound("<", query.before),
        *_bound(">", query.after),
        ("x.tenant = {}", "text", query.tenant),
        ("x.parent_id = {}", "text", query.parent_id),
        ("x.created >= {}", "bigint", query.created_from),
        ("x.created < {}", "bigint", query.created_to),
        ("x.job_key = (SELECT key FROM mainspring.incarnation WHERE job_id = {})", "text", query.job_id),
        ("x.trigger = {}", "text", None if query.trigger == "enqueue" else query.trigger),
    )
    if query.trigger == "enqueue":  # as nearly all are: their column is NULL
        search = search.where("x.trigger IS NULL")
    for condition, kind, value in terms:
        search = search if value is None else search.where(condition.format(values.add(value, kind)))
    return [one for each in _in_time(search, query, values) for one in _traced(each, query.trace_id, values)]


def _bound(sign: str, cursor: str | None) -> list[tuple[str, str, str | None]]:
    """A cursor that is not an id is compared as text."""
    if cursor is None:
        return []
    if is_id(cursor):
        return [(f"x.id {sign} {{}}", "uuid", cursor)]
    return [(f'x.id::text {sign} {{}} COLLATE "C"', "text", cursor)]


def _in_time(search: Search, query: ExecutionQuery, values: Values) -> list[Search]:
    """A range of creation times is a range of ids, but for strays, which are searched separately."""
    lowest, end = id_range(query.created_from, query.created_to)
    if lowest is None and end is None:
        return [search]
    by_id = search.where("NOT x.stray")
    if lowest is not None:
        by_id = by_id.where(f"x.id >= {values.add(lowest, 'uuid')}")
    if end is not None:
        by_id = by_id.where(f"x.id < {values.add(end, 'uuid')}")
    return [by_id, search.where("x.stray")]


def _traced(search: Search, trace_id: str | None, values: Values) -> list[Search]:
    """A trace id is one of another system, or the id of the execution itself."""
    if trace_id is None:
        return [search]
    foreign = search.where(f"x.foreign_trace = {values.add(trace_id, 'text')}")
    own = id_in_trace(trace_id)
    if own is None:
        return [foreign]
    return [foreign, search.where(f"x.id = {values.add(own, 'uuid')}", "x.foreign_trace IS NULL")]


# --- retention ------------------------------------------------------------------------------------------------------


async def prune(db: Database, rule: PruneRule, limit: int) -> int:
    """Found and deleted in two steps. A finished row only ever changes its `todo` mark, which the deletion checks."""
    ids = await _prunable(db, rule, limit)
    if not ids:
        return 0
    gone = int(await db.value("delete_finished", numbers(ids)))
    if gone < limit:
        await db.value("prune_numbers", rule.job_id)
    return gone


async def _prunable(db: Database, rule: PruneRule, limit: int) -> list[str]:
    first_kept = await db.value("prune_keep", rule.job_id, rule.newest - 1, repeat=True) if rule.newest > 0 else None
    found: list[str] = []
    for state in sorted(rule.states):
        safe = rule.newest > 0 and state is not State.SKIPPED
        if not safe or first_kept is not None:
            found += await _prunable_in(db, rule, state, str(first_kept) if safe else None, limit)
    return sorted(found)[:limit]


async def _prunable_in(db: Database, rule: PruneRule, state: State, before: str | None, limit: int) -> list[str]:
    """An execution that ended before an instant was created before it, which bounds the search."""
    name = "prunable_completed" if state is State.COMPLETED else "prunable_other"
    rows = await db.rows(name, rule.job_id, before, rule.older_than, limit, state.value, repeat=True)
    return [str(id) for (id,) in rows]
