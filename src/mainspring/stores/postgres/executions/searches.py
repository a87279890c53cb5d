"""How a query of the execution list becomes searches, each along an index that gives the order of the list.

There is a search for each table and, where an index leaves out completed executions, for each state. One filter leads:
the search reads along its index. The others are checked on each row that it finds, on at most `budget` rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

from msgspec.structs import replace

from ....model.execution import FINAL, LIVE, State
from ....model.store.messages import ExecutionQuery
from ....model.values.reading import SYSTEM_PREFIX
from ...common.ids import id_in_trace, id_range
from .literals import texts
from .rows import as_json, is_id

_PHASES = {State.PENDING: (-1, 0, 1), State.RUNNING: (2,), State.WAITING: (3,)}
_HALVES = ("phase < 2", "phase >= 2")
_RARE = "state <> 'completed'"
_LANE = {"queue": "split_part(x.lane, '/', 1)", "handler": "split_part(x.lane, '/', 2)"}
_NOW = "(SELECT mainspring.now_micros())"
_LAST_WORKER = "CASE WHEN x.attempts IS NOT NULL THEN x.attempts::json->-1->>'worker' END"
FEW_WORKERS = 5  # each is looked for in the text
_SPECIAL = frozenset(".^$*+?()[]{}|\\")

Terms: TypeAlias = tuple[str, ...]


class Values:
    """The values of a statement, numbered in the order they are added; each is given once."""

    def __init__(self) -> None:
        self.given: list[Any] = []
        self._known: dict[tuple[Any, str], str] = {}

    def add(self, value: Any, kind: str) -> str:
        """The placeholder that stands for the value."""
        if (value, kind) not in self._known:
            self.given.append(value)
            self._known[value, kind] = f"${len(self.given)}::{kind}"
        return self._known[value, kind]


class Search(NamedTuple):
    """Conditions on one table. The index serves `along`; `checks` are evaluated on each row. With `label`, the search
    goes along the executions that have it, which may also be in the table of `twin`; with `job`, along each
    incarnation of the job of that name. Label and job are placeholders."""

    table: str
    along: Terms = ()
    checks: Terms = ()
    label: str | None = None
    job: str | None = None
    twin: Search | None = None

    @property
    def narrow(self) -> bool:
        return self.label is not None or any(not term.startswith("x.id ") for term in self.along)

    def served(self, *conditions: str) -> Search:
        return self._replace(along=(*self.along, *conditions))

    def checked(self, *conditions: str) -> Search:
        return self._replace(checks=(*self.checks, *conditions))

    def select(self, order: str, most: str, budget: int | None = None) -> str:
        """The first ids that match, at most `most` of them (for each incarnation), of about `budget` candidates."""
        enough = "" if budget is None else f" ORDER BY x.id {order} LIMIT {budget}"
        if self.label is not None:
            along = f"SELECT x.id FROM mainspring.label x WHERE {_where(self.along)}{enough}"
            tables = " UNION ALL ".join(one._with_id() for one in (self, self.twin) if one is not None)
            return (
                f"(SELECT x.id FROM ({along}) g CROSS JOIN LATERAL ({tables} LIMIT 1) x"
                f" ORDER BY g.id {order} LIMIT {most})"
            )
        if budget is None or not self.checks:
            source, where = f"mainspring.{self.table}", _where((*self.along, *self.checks))
        else:
            along = _where(self.along)
            source = f"(SELECT x.* FROM mainspring.{self.table} x WHERE {along}{enough})"
            where = _where(self.checks)
        return self._each(f"(SELECT x.id FROM {source} x WHERE {where} ORDER BY x.id {order} LIMIT {most})")

    def labelled(self, most: str) -> str | None:
        """All ids with the label, where nothing else is asked for: labels go with their executions."""
        if self.label is None or any(one.checks for one in (self, self.twin) if one is not None):
            return None
        return f"(SELECT x.id FROM mainspring.label x WHERE {_where(self.along)} LIMIT {most})"

    def last_candidate(self, order: str, budget: int) -> str:
        """The id of the last candidate within the budget, NULL if there are no more than that."""
        table = self.table if self.label is None else "label"
        inner = (
            "(SELECT CASE WHEN count(*) = 2 THEN (array_agg(y.id))[1] END AS id FROM ("
            f"SELECT x.id FROM mainspring.{table} x WHERE {_where(self.along)}"
            f" ORDER BY x.id {order} OFFSET {budget - 1} LIMIT 2) y)"
        )
        if self.job is None:
            return inner
        return f"(SELECT c.id FROM ({self._each(inner)}) c WHERE c.id IS NOT NULL ORDER BY c.id {order} LIMIT 1)"

    def _with_id(self) -> str:
        return f"SELECT x.id FROM mainspring.{self.table} x WHERE x.id = g.id AND {_where(self.checks)}"

    def _each(self, inner: str) -> str:
        if self.job is None:
            return inner
        return f"SELECT f.id FROM mainspring.incarnation i CROSS JOIN LATERAL {inner} f WHERE i.job = {self.job}"


def _where(conditions: Terms) -> str:
    return " AND ".join(conditions) or "true"


def order_of(query: ExecutionQuery) -> str:
    return "ASC" if query.oldest_first else "DESC"


def leading_filter(query: ExecutionQuery) -> str:
    """The filter that leaves the fewest candidates, of those that have an index."""
    given = {
        "label": bool(query.labels),
        "parent": query.parent_id is not None,
        "trace": query.trace_id is not None,
        "job": query.job is not None or query.job_id is not None,
        "state": query.states is not None and query.states & FINAL <= FINAL - {State.COMPLETED},
        "tenant": query.tenant is not None,
        "trigger": query.trigger not in (None, "enqueue"),
    }
    return next((name for name, present in given.items() if present), "id")


def searches(query: ExecutionQuery, values: Values, keys: Iterable[int] | None = None) -> list[Search]:
    """The searches of a query; empty if nothing can match. `keys` are those of the job: each is searched separately,
    because the statistics of the server say how many rows each has."""
    lead = leading_filter(query)
    plain = [*_live(query, lead), *_history(query, lead)]
    if keys is not None and lead == "job" and query.job is not None:
        plain = [search.served(f"x.job_key = {key}") for key in keys for search in plain]
        query = replace(query, job=None)
    found = [one for search in plain for one in _filtered(search, query, lead, values)]
    labelled = [search for search in found if search.label is not None]
    if len(labelled) < 2:
        return found
    first, second = labelled
    return [first._replace(twin=second), *(search for search in found if search.label is None)]


# --- states -----------------------------------------------------------------------------------------------------


def _live(query: ExecutionQuery, lead: str) -> list[Search]:
    """Pending and active rows have indexes by job of their own; active ones are few."""
    states = LIVE if query.states is None else query.states & LIVE
    if not states:
        return []
    phases = sorted(phase for state in states for phase in _PHASES[state])
    wanted = f"x.phase IN ({', '.join(map(str, phases))})"
    if lead in ("job", "state", "id"):
        if states >= LIVE and lead != "job":
            return [Search("live")]
        halves = ([p for p in phases if p < 2], [p for p in phases if p >= 2])
        exact = () if states >= LIVE else (wanted,)
        return [Search("live", (half, *exact)) for half, some in zip(_HALVES, halves, strict=True) if some]
    return [Search("live") if states >= LIVE else Search("live", (), (wanted,))]


def _history(query: ExecutionQuery, lead: str) -> list[Search]:
    """Rare states are searched one by one, along the indexes that leave out completed executions. Naming a state
    already implies that it is not completed: with a second condition, the server would expect far fewer rows and sort
    them all."""
    states = FINAL if query.states is None else query.states & FINAL
    if not states:
        return []
    names = sorted(state.value for state in states)
    wanted = f"x.state IN ({', '.join(repr(name) for name in names)})"
    if lead not in ("job", "state") or (lead == "job" and query.trigger not in (None, "enqueue")):
        return [Search("history") if states >= FINAL else Search("history", (), (wanted,))]
    completed = [Search("history", ("state = 'completed'",))] if State.COMPLETED in states else []
    if states >= FINAL:
        return [*completed, Search("history", (_RARE,))]
    return [*completed, *(Search("history", (f"state = '{name}'",)) for name in names if name != "completed")]


# --- filters ----------------------------------------------------------------------------------------------------


def _filtered(search: Search, query: ExecutionQuery, lead: str, values: Values) -> list[Search]:
    search = _of_job(search, query, lead, values)
    terms = (
        ("tenant", "x.tenant = {}", query.tenant),
        ("parent", "x.parent_id = {}", query.parent_id),
        ("trigger", "x.trigger = {}", None if query.trigger == "enqueue" else query.trigger),
    )
    for name, condition, value in terms:
        if value is not None:
            condition = condition.format(values.add(value, "text"))
            served = name == lead or (name == "trigger" and lead == "job" and search.table == "history")
            search = search.served(condition) if served else search.checked(condition)
    if query.trigger == "enqueue":  # as nearly all are: their column is NULL
        search = search.checked("x.trigger IS NULL")
    search = search.served(*_bound("<", query.before, values), *_bound(">", query.after, values))
    search = search.checked(*_row_checks(search.table, query, values))
    timed = _in_time(search, query, values)
    found = [one for each in timed for one in _labelled(each, query, values)]
    return [one for each in found for one in _traced(each, query.trace_id, lead, values)]


def _of_job(search: Search, query: ExecutionQuery, lead: str, values: Values) -> Search:
    if query.job_id is not None:
        given = values.add(query.job_id, "text")
        condition = f"x.job_key = (SELECT key FROM mainspring.incarnation WHERE job_id = {given})"
        search = search.served(condition) if lead == "job" else search.checked(condition)
    if query.job is None:
        return search
    named = values.add(query.job, "text")
    if lead == "job":
        return search.served("x.job_key = i.key")._replace(job=named)
    keys = f"ARRAY(SELECT i.key FROM mainspring.incarnation i WHERE i.job = {named})"
    return search.checked(f"x.job_key = ANY ({keys})")


def _bound(sign: str, cursor: str | None, values: Values) -> Terms:
    """A cursor that is not an id is compared as text."""
    if cursor is None:
        return ()
    if is_id(cursor):
        return (f"x.id {sign} {values.add(cursor, 'uuid')}",)
    return (f'x.id::text {sign} {values.add(cursor, "text")} COLLATE "C"',)


def _in_time(search: Search, query: ExecutionQuery, values: Values) -> list[Search]:
    """A range of creation times is a range of ids, except for strays, which are searched separately. The first of two
    searches is the one without strays."""
    for sign, value in ((">=", query.created_from), ("<", query.created_to)):
        if value is not None:
            search = search.checked(f"x.created {sign} {values.add(value, 'bigint')}")
    lowest, end = id_range(query.created_from, query.created_to)
    if lowest is None and end is None:
        return [search]
    by_id = search.checked("NOT x.stray")
    if lowest is not None:
        by_id = by_id.served(f"x.id >= {values.add(lowest, 'uuid')}")
    if end is not None:
        by_id = by_id.served(f"x.id < {values.add(end, 'uuid')}")
    return [by_id, search.served("x.stray")]


def _labelled(search: Search, query: ExecutionQuery, values: Values) -> list[Search]:
    """Searches along the first label. Search keys come first, because error groups are larger. Strays are fewer than
    either."""
    if not query.labels:
        return [search]
    labels = sorted(query.labels, key=lambda label: (label.startswith("!"), label))
    stray = "x.stray" in search.along
    has = "EXISTS (SELECT FROM mainspring.label o WHERE o.label = {} AND o.id = x.id)"
    search = search.checked(*(has.format(values.add(label, "text")) for label in (labels if stray else labels[1:])))
    if stray:
        return [search]
    label = values.add(labels[0], "text")
    return [search._replace(label=label).served(f"x.label = {label}")]


def _traced(search: Search, trace_id: str | None, lead: str, values: Values) -> list[Search]:
    """A trace id comes from another system, or is the id of the execution itself."""
    if trace_id is None:
        return [search]

    own = id_in_trace(trace_id)
    either = [f"x.foreign_trace = {values.add(trace_id, 'text')}"]
    if own is not None:
        either.append(f"(x.id = {values.add(own, 'uuid')} AND x.foreign_trace IS NULL)")
    if lead == "trace":
        return [search.served(condition) for condition in either]
    return [search.checked(f"({' OR '.join(either)})")]


# --- what is checked on each row --------------------------------------------------------------------------------


def _row_checks(table: str, query: ExecutionQuery, values: Values) -> Terms:
    found: list[str] = []
    live = table == "live"
    for name, value in (("handler", query.handler), ("queue", query.queue)):
        if value is not None:
            found.append(f"{_LANE[name]} = {values.add(value, 'text')}" if live else _in_body(name, value, values))
    if query.reason is not None:
        found.append(f"x.reason = {values.add(query.reason, 'text')}")
    if query.error_text is not None:
        found.append(_has_text(query.error_text, values))
    if query.workers is not None:
        found.append(_run_by(sorted(query.workers), "x.owner" if live else "x.tried_by", values))
    if query.longer_than is not None:
        taken = f"{_NOW} - x.started" if live else "x.finished - x.started"
        found += ["x.phase = 2"] if live else []
        found.append(f"{taken} > {values.add(query.longer_than, 'bigint')}")
    if query.without_system:
        first, end = SYSTEM_PREFIX, SYSTEM_PREFIX[:-1] + chr(ord(SYSTEM_PREFIX[-1]) + 1)
        bounds = f"i.job >= {values.add(first, 'text')} AND i.job < {values.add(end, 'text')}"
        found.append(f"x.job_key <> ALL (ARRAY(SELECT i.key FROM mainspring.incarnation i WHERE {bounds}))")
    return tuple(found)


def _in_body(name: str, value: str, values: Values) -> str:
    """A finished row has its handler and queue in its body alone. Inside texts quotes are escaped, so only the field
    itself matches."""
    found = f"strpos(x.body, {values.add(as_json({name: value})[1:-1], 'text')}) > 0"
    if (name, value) == ("queue", "default"):  # usually left out
        return f"(strpos(x.body, '\"queue\":') = 0 OR {found})"
    return found


def _run_by(workers: list[str], owner: str, values: Values) -> str:
    """Parsing JSON is slow: for a few workers, only attempts whose text contains one of them are parsed."""
    names = values.add(texts(workers) or "{}", "text::text[]")
    last = _LAST_WORKER
    if 0 < len(workers) <= FEW_WORKERS:
        named = " OR ".join(f"strpos(x.attempts, {values.add(as_json(name), 'text')}) > 0" for name in workers)
        last = f"CASE WHEN {named} THEN x.attempts::json->-1->>'worker' END"
    return f"coalesce({owner}, {last}) = ANY (ARRAY(SELECT unnest({names})))"


def _has_text(text: str, values: Values) -> str:
    """Not every database knows the lower case of letters beyond ASCII."""
    if text.isascii():
        return f"strpos(lower(x.error), {values.add(text, 'text')}) > 0"
    pattern = "".join(map(_either_case, text))
    return f"lower(x.error) ~ {values.add(pattern, 'text')}"


def _either_case(letter: str) -> str:
    """
    >>> "".join(map(_either_case, "ämt."))
    '[äÄ]mt\\\\.'
    """
    if letter in _SPECIAL:
        return f"\\{letter}"
    upper = letter.upper()
    return letter if letter.isascii() or upper == letter or len(upper) > 1 else f"[{letter}{upper}]"
