"""Searches: executions by labels, and by filters that no index serves.

A search becomes one or more walks, each along the index that narrows most, in the order of ids. Whatever else the query
asks for is checked on each row of the walk. With a budget, a walk ends at the id of the last candidate that it may look
at; that id is found first, along the same index. A walk over live rows has no such end: it reads only that table, as
long as the columns of the walk suffice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from ....model.execution import FINAL, LIVE, State
from ....model.store.messages import ExecutionQuery
from ....model.values.reading import SYSTEM_PREFIX
from ...common.ids import id_in_trace, id_range
from ..statements import sql
from ..transaction import Transaction, as_json
from .rows import FUTURE, PARKED, READY, RUNNING, WAITING

AFTER_SYSTEM = SYSTEM_PREFIX[:-1] + chr(ord(SYSTEM_PREFIX[-1]) + 1)
"""Greater than every name that begins with the prefix."""

MARKS = ("alone", "fair")
"""What a lane may have after its queue and handler."""

RECENT = 2_000
"""Among how many of the newest executions live ones are searched for first."""

PHASES = {State.PENDING: (FUTURE, READY, PARKED), State.RUNNING: (RUNNING,), State.WAITING: (WAITING,)}

_EXECUTION = "mainspring_executions AS execution"
_LIVE_ROW = ("live", "LEFT JOIN mainspring_live AS live ON live.seq = execution.seq")
_ENDED_ROW = ("history", "LEFT JOIN mainspring_history AS history ON history.seq = execution.seq")
_QUEUE = "coalesce(json_extract(execution.body, '$.queue'), 'default')"
_HANDLER = "json_extract(execution.body, '$.handler')"


class Term(NamedTuple):
    text: str
    values: tuple[Any, ...] = ()


class Walk(NamedTuple):
    """`driver` is the table that is walked along an index, under the conditions of `driving`, between the ids `low` and
    `high`; `joins` are the tables joined to it, each under the name of its columns, as far as a check needs them."""

    driver: str
    joins: tuple[tuple[str, str], ...]
    driving: tuple[Term, ...] = ()
    checks: tuple[Term, ...] = ()
    low: Term | None = None
    high: Term | None = None
    bounded: bool = True
    recent: bool = False  # look among the newest executions first

    @property
    def table(self) -> str:
        return self.driver.partition(" AS ")[2].partition(" ")[0]

    def where(self, *terms: Term) -> Walk:
        """With conditions on the table that is walked; `@` stands for it."""
        return self._replace(driving=(*self.driving, *map(self._named, terms)))

    def check(self, *terms: Term) -> Walk:
        return self._replace(checks=(*self.checks, *terms))

    def above(self, sign: str, id: str) -> Walk:
        return self._replace(low=self._named(Term(f"@.id {sign} ?", (id,))))

    def below(self, sign: str, id: str) -> Walk:
        return self._replace(high=self._named(Term(f"@.id {sign} ?", (id,))))

    def last_candidate(self, tx: Transaction, budget: int, order: str) -> str | None:
        """The id of the last candidate within the budget; None if there are fewer."""
        terms = self._candidates()
        text = f"SELECT {self.table}.id FROM {self.driver} WHERE {_and(terms)} ORDER BY {self.table}.id {order}"
        found = tx.query(f"{text} LIMIT 1 OFFSET ?", (*_values(terms), budget - 1))
        return found[0][0] if found else None

    def ids(self, tx: Transaction, order: str, limit: int) -> list[str]:
        if self.recent and order == "DESC" and limit < RECENT and len(found := self._recent(tx, limit)) == limit:
            return found
        text, values = self._matching(f"{self.table}.id")
        return [id for (id,) in tx.query(f"{text} ORDER BY {self.table}.id {order} LIMIT ?", (*values, limit))]

    def counted(self, tx: Transaction, cap: int) -> int:
        """A walk that is not bounded has no index by id, so its rows are counted in any order."""
        text, values = self._matching("1")
        order = f" ORDER BY {self.table}.id" if self.bounded else ""
        [(count,)] = tx.query(f"SELECT count(*) FROM ({text}{order} LIMIT ?)", (*values, cap))
        return int(count)

    def _recent(self, tx: Transaction, limit: int) -> list[str]:
        """The first live rows, searched among the newest executions. Live rows have no index by id, but most are
        new."""
        bounds = [bound for bound in (self.low, self.high) if bound is not None]
        newest = (
            f"SELECT seq, id FROM mainspring_executions AS live WHERE {_and(bounds)} ORDER BY id DESC LIMIT {RECENT}"
        )
        terms = (*self.driving, *self.checks)
        where = _and(terms)
        source = f"({newest}) AS newest CROSS JOIN {self.driver} ON live.seq = newest.seq{self._joined(where)}"
        text = f"SELECT live.id FROM {source} WHERE {where} ORDER BY newest.id DESC LIMIT ?"
        return [id for (id,) in tx.query(text, (*_values(bounds), *_values(terms), limit))]

    def _matching(self, column: str) -> tuple[str, tuple[Any, ...]]:
        terms = (*self._candidates(), *self.checks)
        where = _and(terms)
        return f"SELECT {column} FROM {self.driver}{self._joined(where)} WHERE {where}", _values(terms)

    def _joined(self, where: str) -> str:
        """The tables that these conditions, or joins of others, refer to."""
        needed: list[str] = []
        for name, join in reversed(self.joins):
            if f"{name}." in " ".join([where, *needed]):
                needed.insert(0, join)
        return "".join(f" {join}" for join in needed)

    def _candidates(self) -> tuple[Term, ...]:
        return (*self.driving, *(bound for bound in (self.low, self.high) if bound is not None))

    def _named(self, term: Term) -> Term:
        return term._replace(text=term.text.replace("@", self.table))


_EXECUTIONS = Walk(_EXECUTION, (_LIVE_ROW, _ENDED_ROW))
_LABELS = Walk(
    "mainspring_labels AS label",
    (("execution", f"CROSS JOIN {_EXECUTION} ON execution.id = label.id"), _LIVE_ROW, _ENDED_ROW),
)
_LIVE = Walk(
    "mainspring_live AS live",
    (("execution", f"CROSS JOIN {_EXECUTION} ON execution.seq = live.seq"),),
    bounded=False,
)
_HISTORY = Walk(
    "mainspring_history AS history",
    (("execution", f"CROSS JOIN {_EXECUTION} ON execution.seq = history.seq"),),
)


class Found(NamedTuple):
    """Ids in the order of the list, and the last candidate if there are more than the budget permits."""

    ids: list[str]
    searched_to: str | None


def search_ids(tx: Transaction, query: ExecutionQuery, limit: int, budget: int | None) -> Found:
    """Up to `limit` ids that match."""
    order = "ASC" if query.oldest_first else "DESC"
    walks, end = _within(tx, query, budget)
    found = {id for walk in walks for id in walk.ids(tx, order, limit)}
    ids = list(islice(sorted(found, reverse=not query.oldest_first), limit))
    return Found(ids, end if len(ids) < limit else None)


def count_matching(tx: Transaction, query: ExecutionQuery, cap: int, budget: int | None) -> int:
    """No two walks find the same execution."""
    walks, _ = _within(tx, query, budget)
    return min(cap, sum(walk.counted(tx, cap) for walk in walks))


def _within(tx: Transaction, query: ExecutionQuery, budget: int | None) -> tuple[list[Walk], str | None]:
    """The walks, and the id at which the budget ends them, if it does."""
    walks = list(_walks(tx, query))
    end = None if budget is None else _end(tx, walks, budget, "ASC" if query.oldest_first else "DESC")
    if end is None:
        return walks, None
    return [walk.below("<=", end) if query.oldest_first else walk.above(">=", end) for walk in walks], end


def _end(tx: Transaction, walks: list[Walk], budget: int, order: str) -> str | None:
    """The id at which the first of the walks uses up its share of the budget."""
    part = max(budget // max(len(walks), 1), 1)
    ends = [walk.last_candidate(tx, part, order) for walk in walks if walk.bounded]
    known = [end for end in ends if end is not None]
    if not known:
        return None
    return min(known) if order == "ASC" else max(known)


# --- walks ----------------------------------------------------------------------------------------------------------


def _walks(tx: Transaction, query: ExecutionQuery) -> Iterator[Walk]:
    if query.states is not None and not query.states:
        return
    lowest, end = id_range(query.created_from, query.created_to)
    for walk in _drivers(tx, query):
        yield _in_order(walk, query, lowest, end).check(*_system(walk, query), *_checks(query, walk.table, tx.now))
    if lowest is not None or end is not None:
        yield from _strays(tx, query, lowest, end)


def _drivers(tx: Transaction, query: ExecutionQuery) -> Iterator[Walk]:
    """The walks along the index that narrows most. The other filters are checked on each row."""
    job_ids = _job_ids(tx, query)
    if query.labels:
        first, *others = sorted(query.labels, key=lambda label: label.startswith("!"))
        also = [
            Term("EXISTS (SELECT 1 FROM mainspring_labels WHERE label = ? AND id = execution.id)", (o,)) for o in others
        ]
        yield _LABELS.where(Term("@.label = ?", (first,))).check(*also, *_all_of(query, job_ids))
    elif query.parent_id is not None:
        yield _EXECUTIONS.where(Term("@.parent_id = ?", (query.parent_id,))).check(
            *_all_of(query, job_ids, "parent_id")
        )
    elif query.trace_id is not None:
        rest = _all_of(query, job_ids, "trace_id")
        yield _EXECUTIONS.where(Term("@.foreign_trace = ?", (query.trace_id,))).check(*rest)
        own = id_in_trace(query.trace_id)
        if own is not None:
            alone = Term("execution.foreign_trace IS NULL")
            yield _EXECUTIONS.where(Term("@.id = ?", (own,))).check(alone, *rest)
    elif _by_ending(query):
        yield from _of_states(query, job_ids)
    elif job_ids is not None:
        for job_id in job_ids:
            yield _EXECUTIONS.where(Term("@.job_id = ?", (job_id,))).check(*_all_of(query, job_ids, "job"))
    elif query.tenant is not None:
        yield _EXECUTIONS.where(Term("@.tenant = ?", (query.tenant,))).check(*_all_of(query, None, "tenant"))
    elif query.trigger is not None and query.trigger != "enqueue":
        yield _EXECUTIONS.where(Term("@.rare_trigger = ?", (query.trigger,))).check(*_all_of(query, None, "trigger"))
    else:
        yield _EXECUTIONS.check(*_all_of(query, None))


def _by_ending(query: ExecutionQuery) -> bool:
    """Whether to walk along the indexes of the states. Live executions of a tenant are found along the index of the
    tenant instead: few live rows belong to one tenant, and the walk would read all the others."""
    if query.states is None or State.COMPLETED in query.states:
        return False
    return query.tenant is None or not query.states & LIVE


def _of_states(query: ExecutionQuery, job_ids: list[str] | None) -> Iterator[Walk]:
    assert query.states is not None
    for of_job in [[]] if job_ids is None else [[Term("@.job_id = ?", (job_id,))] for job_id in job_ids]:
        rest = _all_of(query, job_ids, "job", "states")
        for walk in _of_phases(query, scattered=not of_job):
            yield walk.where(*of_job).check(*rest)
        for state in sorted(query.states & FINAL):
            rare = (Term("@.state <> 'completed'"), Term("@.state = ?", (state.value,)))
            yield _HISTORY.where(*rare, *of_job).check(*rest)


def _of_phases(query: ExecutionQuery, scattered: bool) -> Iterator[Walk]:
    """Live rows in the states asked for. `scattered`: no other condition has an index; then those of one queue are read
    phase by phase, because the rows that are ready have an index by queue."""
    states = query.states or frozenset()
    phases = [phase for state in sorted(states & LIVE) for phase in PHASES[state]]
    if scattered and (query.queue is not None or phases == [RUNNING]):
        for phase in phases:
            walk = _LIVE._replace(driver=f"{_LIVE.driver} INDEXED BY mainspring_live_{_INDEXES[phase]}")
            yield walk.where(Term(f"@.phase = {phase}"), *_lanes(query, in_order=phase == READY))
    elif phases:
        walk = _LIVE._replace(recent=scattered)
        yield walk.where(Term(f"@.phase IN ({_phases(states)})"), *_lanes(query))


_INDEXES = {FUTURE: "scheduled", READY: "ready", RUNNING: "lease", WAITING: "waiting", PARKED: "parked"}


def _lanes(query: ExecutionQuery, in_order: bool = False) -> Iterator[Term]:
    """The lane of a live row has its queue and its handler."""
    if query.queue is not None and in_order:
        yield Term("@.lane >= ? AND @.lane < ?", (f"{query.queue}/", f"{query.queue}0"))
    elif query.queue is not None:
        yield Term("substr(@.lane, 1, ?) = ?", (len(query.queue) + 1, f"{query.queue}/"))
    if query.handler is not None:
        yield Term("instr(@.lane || '/', ?) > 0", (f"/{query.handler}/",))


def _strays(tx: Transaction, query: ExecutionQuery, lowest: str | None, end: str | None) -> Iterator[Walk]:
    """Executions in the range of creation times whose ids are outside the range of ids: few, so all are read."""
    outside = [Term("execution.id < ?", (lowest,))] if lowest is not None else []
    outside += [Term("execution.id >= ?", (end,))] if end is not None else []
    either = Term(f"({' OR '.join(term.text for term in outside)})", _values(outside))
    labels = [
        Term("EXISTS (SELECT 1 FROM mainspring_labels WHERE label = ? AND id = execution.id)", (label,))
        for label in query.labels
    ]
    driver = f"{_EXECUTION} INDEXED BY mainspring_executions_stray"
    walk = Walk(driver, (_LIVE_ROW, _ENDED_ROW), bounded=False)
    checks = _checks(query, walk.table, tx.now)
    walk = walk.where(Term(sql("part_stray")), *_created(query))
    cursor = _in_order(walk, query, None, None)
    yield cursor.check(either, *labels, *_all_of(query, _job_ids(tx, query)), *_system(walk, query), *checks)


def _in_order(walk: Walk, query: ExecutionQuery, lowest: str | None, end: str | None) -> Walk:
    """One bound on each side: of two, SQLite would seek to one and check the other row by row."""
    ends = [bound for bound in (query.before, end) if bound is not None]
    walk = walk.below("<", min(ends)) if ends else walk
    if query.after is not None and query.after >= (lowest or ""):
        return walk.above(">", query.after)
    return walk if lowest is None else walk.above(">=", lowest)


# --- conditions -------------------------------------------------------------------------------------------------------


def _all_of(query: ExecutionQuery, job_ids: list[str] | None, *driven: str) -> list[Term]:
    """Conditions on columns, except those that drive the walk. A plus sign keeps SQLite from using their indexes."""
    terms = [
        Term(f"+execution.{column} = ?", (value,))
        for name, column, value in (
            ("parent_id", "parent_id", query.parent_id),
            ("tenant", "tenant", query.tenant),
        )
        if value is not None and name not in driven
    ]
    if job_ids is not None and "job" not in driven:
        terms.append(Term("+execution.job_id IN (SELECT value FROM json_each(?))", (as_json(job_ids),)))
    if query.trace_id is not None and "trace_id" not in driven:
        own = id_in_trace(query.trace_id)
        terms.append(
            Term(
                "(+execution.foreign_trace = ? OR execution.foreign_trace IS NULL AND +execution.id = ?)",
                (query.trace_id, own),
            )
        )
    if query.trigger == "enqueue":
        terms.append(Term("+execution.rare_trigger IS NULL"))
    elif query.trigger is not None and "trigger" not in driven:
        terms.append(Term("+execution.rare_trigger = ?", (query.trigger,)))
    if query.states is not None and "states" not in driven:
        finals = as_json(sorted(state.value for state in query.states & FINAL))
        ended = "history.state IN (SELECT value FROM json_each(?))"
        phases = _phases(query.states)
        terms.append(Term(f"(live.phase IN ({phases}) OR {ended})" if phases else ended, (finals,)))
    return [*terms, *_created(query)]


def _checks(query: ExecutionQuery, table: str, now: int) -> list[Term]:
    """Conditions on columns without an index. A walk over live rows, or over finished ones, need not look in other
    tables."""
    tail = f"{table}.tail" if table in ("live", "history") else "coalesce(live.tail, history.tail)"
    terms: list[Term] = []
    if query.queue is not None and table != "live":
        terms.append(Term(f"{_QUEUE} = ?", (query.queue,)))
    if query.handler is not None and (table != "live" or query.handler in MARKS):
        terms.append(Term(f"{_HANDLER} = ?", (query.handler,)))
    if query.reason is not None:
        terms.append(Term(f"json_extract({tail}, '$.reason') = ?", (query.reason,)))
    if query.error_text is not None:
        error = f"json_extract({tail}, '$.error')"
        terms.append(Term(f"{error} IS NOT NULL AND instr(mainspring_lower({error}), ?) > 0", (query.error_text,)))
    if query.workers is not None:
        wanted = as_json(sorted(query.workers))
        terms.append(Term(f"{_worker(table, tail)} IN (SELECT value FROM json_each(?))", (wanted,)))
    if query.longer_than is not None:
        terms.append(_longer(table, query.longer_than, now))
    return terms


def _worker(table: str, tail: str) -> str:
    attempts = {"live": "json_extract(live.tail, '$.attempts_json')", "history": "history.attempts"}
    last = attempts[table] if table in attempts else f"coalesce({attempts['history']}, {attempts['live']})"
    owner = f"json_extract({tail}, '$.owner')" if table == "history" else "live.owner"
    return f"coalesce({owner}, json_extract({last}, '$[#-1].worker'))"


def _longer(table: str, than: int, now: int) -> Term:
    if table == "history":
        return Term("history.finished - history.started > ?", (than,))
    ended = "NULL" if table == "live" else "history.finished - history.started"
    return Term(f"iif(live.phase = 2, ? - live.started, {ended}) > ?", (now, than))


def _system(walk: Walk, query: ExecutionQuery) -> list[Term]:
    """Mainspring's own jobs have few incarnations."""
    if not query.without_system:
        return []
    table = "execution" if walk.table == "label" else walk.table
    own = "SELECT job_id FROM mainspring_incarnations WHERE job >= ? AND job < ?"
    return [Term(f"+{table}.job_id NOT IN ({own})", (SYSTEM_PREFIX, AFTER_SYSTEM))]


def _created(query: ExecutionQuery) -> list[Term]:
    bounds = (("execution.created >= ?", query.created_from), ("execution.created < ?", query.created_to))
    return [Term(text, (value,)) for text, value in bounds if value is not None]


def _phases(states: frozenset[State]) -> str:
    return ", ".join(str(phase) for state in sorted(states & LIVE) for phase in PHASES[state])


def _job_ids(tx: Transaction, query: ExecutionQuery) -> list[str] | None:
    """The incarnations that match; None if the query does not name a job."""
    if query.job is None:
        return None if query.job_id is None else [query.job_id]
    incarnations = [job_id for (job_id,) in tx.rows("incarnations", query.job)]
    return [id for id in incarnations if query.job_id in (None, id)]


def _and(terms: Sequence[Term]) -> str:
    return " AND ".join(term.text for term in terms) or "TRUE"


def _values(terms: Sequence[Term]) -> tuple[Any, ...]:
    return tuple(value for term in terms for value in term.values)
