"""The job list: by an index of the filter when few jobs match, by the index of the order when many do.

First up to `cap` matches are found by the filter. If those are all, they are sorted. Otherwise matches are frequent,
and walking in the order asked for soon finds the first page.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from ...model.execution import State
from ...model.job import Job
from ...model.store.messages import JobFacts, JobQuery, JobsFound
from ...model.values.reading import SYSTEM_PREFIX
from ..common.rows import search_text
from .executions.rows import Row
from .executions.searching import AFTER_SYSTEM
from .transaction import Transaction, as_json

_LIST = "mainspring_job_list AS job"
_TOTALS = "mainspring_totals AS totals"
_WITH_TOTALS = f" LEFT JOIN {_TOTALS} ON totals.job_id = job.id"
_ACTIVE = "SELECT job_id FROM mainspring_live WHERE phase = 2 UNION SELECT job_id FROM mainspring_live WHERE phase = 3"
_PENDING = "EXISTS (SELECT 1 FROM mainspring_live AS live WHERE live.job_id = job.id AND live.phase NOT IN (2, 3))"
_WITH_LIVE = "SELECT job_id FROM mainspring_incarnations WHERE last_number > ended"
_NEXT_RUN = "iif(job.paused, NULL, (SELECT due FROM mainspring_jobs AS plan WHERE plan.name = job.name))"
_KEYS = {
    "name": "job.name",
    "handler": "job.handler",
    "created": "job.created",
    "updated": "job.updated",
    "next_run": _NEXT_RUN,
    "last_started": "totals.last_started",
}
_LOOKED_UP = ("next_run", "last_started")
_TRIED = 20  # sorting by totals looks at 20 times as many of them as rows wanted, at first

Terms = list[tuple[str, tuple[Any, ...]]]


class Walk(NamedTuple):
    """Tables in the order they are read in, what to sort by, and a further condition."""

    source: str
    key: str
    extra: str = "TRUE"


def listed(job: Job) -> Row:
    """The row of the list for this job."""
    spec = job.spec
    marks = (int(job.paused is not None), int(job.cancelled is not None), int(job.due is not None))
    return (
        *(job.name, job.id, spec.handler, spec.queue, job.origin, *marks, job.created, job.updated),
        *(search_text(job), _between(job.labels)),
    )


def _between(labels: Iterable[str]) -> str:
    """Each label between two separators, which occur in none, so that a part of a label finds nothing."""
    return "\x1f".join(("", *labels, ""))


def find_jobs(tx: Transaction, query: JobQuery, cap: int) -> JobsFound:
    if query.order in _LOOKED_UP:  # looked up only for the jobs that have to be sorted
        count, names = _all_of_few(tx, msgspec.structs.replace(query, order="name", limit=0), cap)
        if 0 < count < cap and query.limit > 0:
            count, names = _all_of_few(tx, query, cap)
    else:
        count, names = _all_of_few(tx, query, cap)
    if count < cap or query.limit < 1:
        return JobsFound(names, count)
    return JobsFound(_first_of_many(tx, query), count)


# --- few ------------------------------------------------------------------------------------------------------------


def _all_of_few(tx: Transaction, query: JobQuery, cap: int) -> tuple[int, list[str]]:
    """The number of matches up to the cap, and the page, which is right if there are fewer than the cap."""
    parts, values = [], []
    for facts in query.any_of or (JobFacts(),):
        source, driven = _driver(query, facts)
        terms = _terms(query, facts, driven)
        where = " AND ".join(text for text, _ in terms) or "TRUE"
        totals = _WITH_TOTALS if facts.last is not None or query.order == "last_started" else ""
        text = f"SELECT job.name AS name, {_KEYS[query.order]} AS key FROM {source}{totals} WHERE {where} LIMIT ?"
        parts.append(f"SELECT * FROM ({text})")
        values += [value for _, given in terms for value in given] + [cap]
    down = " DESC" if query.backwards else ""
    text = f"""
        WITH found AS MATERIALIZED ({" UNION ".join(parts)})
        SELECT (SELECT count(*) FROM found), json_group_array(name)
        FROM (SELECT name FROM found WHERE name > ? ORDER BY key IS NULL, key{down}, name LIMIT ? OFFSET ?)
    """
    [(count, names)] = tx.query(text, [*values, query.after, query.limit, query.offset])
    return min(cap, count), msgspec.json.decode(names)


def _driver(query: JobQuery, facts: JobFacts) -> tuple[str, str]:
    """The source to start from, which has the fewest jobs as a rule, and the term that it implies."""
    for wanted, index in ((facts.paused, "paused"), (facts.cancelled, "cancelled")):
        if wanted:
            return f"{_LIST} INDEXED BY mainspring_job_list_{index}", index
    if facts.active:
        return f"({_ACTIVE}) AS active CROSS JOIN {_LIST} ON job.id = active.job_id", "active"
    if query.handler is not None:
        return f"{_LIST} INDEXED BY mainspring_job_list_handler", "handler"
    if facts.pending:
        return f"({_WITH_LIVE}) AS alive CROSS JOIN {_LIST} ON job.id = alive.job_id", ""
    if facts.last is not None and not facts.last & {None, State.COMPLETED}:
        states = ", ".join(f"'{state}'" for state in sorted(state for state in facts.last if state is not None))
        rare = f"SELECT job_id FROM mainspring_totals WHERE last_state <> 'completed' AND last_state IN ({states})"
        return f"({rare}) AS rare CROSS JOIN {_LIST} ON job.id = rare.job_id", ""
    if facts.planned is False:
        return f"{_LIST} INDEXED BY mainspring_job_list_on_demand", "planned"
    if query.queue is not None:
        return f"{_LIST} INDEXED BY mainspring_job_list_queue", "queue"
    if query.origin is not None:
        return f"{_LIST} INDEXED BY mainspring_job_list_origin", "origin"
    return _LIST, ""


# --- many -----------------------------------------------------------------------------------------------------------


def _first_of_many(tx: Transaction, query: JobQuery) -> list[str]:
    """Those without a value come after all the others, by name."""
    wanted = query.offset + query.limit
    if query.order == "last_started":
        bound = _bound(tx, query, _TRIED * wanted)
        found = _walked(tx, query, _by_last_started(bound), wanted)
        if len(found) < wanted and bound:
            found = _walked(tx, query, _by_last_started(""), wanted)
        rest = Walk(f"{_LIST}{_WITH_TOTALS}", "job.name", "totals.last_started IS NULL")
    elif query.order == "next_run":
        plans = "mainspring_jobs AS plan INDEXED BY mainspring_jobs_due"
        source = f"{plans} CROSS JOIN {_LIST} ON job.name = plan.name{_WITH_TOTALS}"
        found = _walked(tx, query, Walk(source, "plan.due", "plan.due IS NOT NULL AND +job.paused = 0"), wanted)
        rest = Walk(f"{_LIST}{_WITH_TOTALS}", "job.name", "(+job.planned = 0 OR +job.paused = 1)")
    else:
        back = "_back" if query.backwards else ""
        index = "" if query.order == "name" else f" INDEXED BY mainspring_job_list_{query.order}"
        index += back if query.order == "handler" else ""
        return _walked(tx, query, Walk(f"{_LIST}{index}{_WITH_TOTALS}", _KEYS[query.order]), wanted)[query.offset :]
    if len(found) < wanted:
        ahead = msgspec.structs.replace(query, backwards=False)
        found += _walked(tx, ahead, rest, wanted - len(found))
    return found[query.offset :]


def _by_last_started(bound: str) -> Walk:
    source = f"{_TOTALS} CROSS JOIN {_LIST} ON job.id = totals.job_id"
    return Walk(source, "totals.last_started", f"totals.last_started IS NOT NULL{bound}")


def _bound(tx: Transaction, query: JobQuery, enough: int) -> str:
    """A condition that about `enough` totals meet: only those are looked up in the list, at first."""
    down, sign = (" DESC", ">=") if query.backwards else ("", "<=")
    text = (
        f"SELECT last_started FROM mainspring_totals WHERE last_started IS NOT NULL ORDER BY 1{down} LIMIT 1 OFFSET ?"
    )
    found = tx.query(text, [enough])
    return f" AND totals.last_started {sign} {int(found[0][0])}" if found else ""


def _walked(tx: Transaction, query: JobQuery, walk: Walk, most: int) -> list[str]:
    """The first `most` names in the order of the walk. Plus signs keep SQLite from using another index."""
    parts, values = [], []
    down = " DESC" if query.backwards else ""
    order = f"ORDER BY key{down}" if walk.key == "job.name" else f"ORDER BY key{down}, name"
    for facts in query.any_of or (JobFacts(),):
        terms = [*_terms(query, facts, ""), ("job.name > ?", (query.after,))]
        where = " AND ".join(text for text, _ in terms)
        needs_totals = facts.last is not None or "totals." in walk.key + walk.extra
        source = walk.source if needs_totals else walk.source.replace(_WITH_TOTALS, "")
        text = (
            f"SELECT job.name AS name, {walk.key} AS key FROM {source} WHERE {walk.extra} AND {where} {order} LIMIT ?"
        )
        parts.append(f"SELECT * FROM ({text})")
        values += [value for _, given in terms for value in given] + [most]
    rows = tx.query(f"SELECT name, key FROM ({' UNION '.join(parts)}) {order} LIMIT ?", [*values, most])
    return [name for name, _ in rows]


# --- both -----------------------------------------------------------------------------------------------------------


def _terms(query: JobQuery, facts: JobFacts, driven: str) -> Terms:
    """The conditions. A plus sign keeps SQLite from using an index for all but the driving condition."""
    columns = (
        ("handler", query.handler),
        ("queue", query.queue),
        ("origin", query.origin),
        ("paused", facts.paused),
        ("cancelled", facts.cancelled),
        ("planned", facts.planned),
    )
    terms: Terms = [_equal(name, value, name == driven) for name, value in columns if value is not None]
    if query.search is not None:
        terms.append(("instr(job.search, ?) > 0", (query.search,)))
    if query.name_part is not None:
        terms.append(("instr(substr(job.search, 1, instr(job.search, char(31))), ?) > 0", (query.name_part,)))
    if query.without_system:
        terms.append(("NOT (+job.name >= ? AND +job.name < ?)", (SYSTEM_PREFIX, AFTER_SYSTEM)))
    if query.without:
        terms.append(("job.name NOT IN (SELECT value FROM json_each(?))", (as_json(sorted(query.without)),)))
    if query.code_in is not None:
        declared = "job.name IN (SELECT value FROM json_each(?))"
        terms.append((f"(+job.origin <> 'code' OR {declared})", (as_json(sorted(query.code_in)),)))
    terms += [("instr(job.labels, ?) > 0", (_between((label,)),)) for label in query.labels]
    if query.due_before is not None:
        late = "SELECT 1 FROM mainspring_jobs AS late WHERE late.name = job.name AND late.due < ?"
        terms.append((f"+job.paused = 0 AND EXISTS ({late})", (query.due_before,)))
    if facts.active is not None and driven != "active":
        terms.append((f"+job.id {'IN' if facts.active else 'NOT IN'} ({_ACTIVE})", ()))
    if facts.pending is not None:
        terms.append((_PENDING if facts.pending else f"NOT {_PENDING}", ()))
    if facts.last is not None:
        terms.append(_last(facts.last))
    return terms


def _equal(column: str, value: str | bool, driving: bool) -> tuple[str, tuple[Any, ...]]:
    plus = "" if driving else "+"
    if isinstance(value, bool):  # a constant, as the conditions of the indexes are
        return f"{plus}job.{column} = {int(value)}", ()
    return f"{plus}job.{column} = ?", (value,)


def _last(states: frozenset[State | None]) -> tuple[str, tuple[Any, ...]]:
    named = sorted(state.value for state in states if state is not None)
    parts = [f"totals.last_state IN ({', '.join('?' * len(named))})"] if named else []
    parts += ["totals.last_state IS NULL"] if None in states else []
    return f"({' OR '.join(parts) or 'FALSE'})", tuple(named)
