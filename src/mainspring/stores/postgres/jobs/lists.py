"""The job list: along an index that leaves few rows when few match, along the index of the order when many do.

First the matches are collected up to the cap of the count. If those are all, they are sorted. Otherwise matches are
frequent, and the first page is soon found by walking along the index of the order.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from ....model.execution import State
from ....model.store.messages import JobFacts, JobQuery, JobsFound
from ....model.values.reading import SYSTEM_PREFIX
from ..database import Database
from ..executions.literals import storable_texts, texts
from ..executions.searches import Values
from ..statements import in_schema

# The newest ending of each job among those that are not folded yet.
_NEWEST = """newest AS MATERIALIZED (
    SELECT DISTINCT ON (d.job_key) d.job_key, d.last_id, d.last_state, d.last_started
    FROM mainspring.delta d WHERE d.last_id IS NOT NULL ORDER BY d.job_key, d.last_id DESC
)"""
_LIST = "mainspring.job_list j"
_WITH_ENDINGS = """ LEFT JOIN mainspring.totals t ON t.job_key = j.job_key
    LEFT JOIN newest n ON n.job_key = j.job_key AND (t.last_id IS NULL OR n.last_id > t.last_id)"""
_LAST_STATE = "CASE WHEN n.job_key IS NULL THEN t.last_state ELSE n.last_state END"
_LAST_STARTED = "CASE WHEN n.job_key IS NULL THEN t.last_started ELSE n.last_started END"
_ACTIVE = "(SELECT FROM mainspring.live l WHERE l.phase >= 2 AND l.job_key = j.job_key)"
_PENDING = "(SELECT FROM mainspring.live l WHERE l.phase < 2 AND l.job_key = j.job_key)"
_NEXT_RUN = "CASE WHEN NOT x.paused THEN (SELECT b.due FROM mainspring.job b WHERE b.name = x.name) END"
_KEYS = {
    "name": "x.name",
    "handler": "x.handler",
    "created": "x.created",
    "updated": "x.updated",
    "next_run": _NEXT_RUN,
    "last_started": "x.last_started",
}
_LOOKED_UP = ("next_run", "last_started")
_TRIED = 20  # when sorting by totals, this many times the wanted rows are looked up at first
_RARE = frozenset(State) - {State.COMPLETED}


class Walk(NamedTuple):
    """Tables, the sort key, and a further condition."""

    source: str
    key: str
    extra: str = "true"


async def find_jobs(db: Database, query: JobQuery, cap: int) -> JobsFound:
    if query.order in _LOOKED_UP:  # only looked up for rows that have to be sorted
        plain = msgspec.structs.replace(query, order="name", limit=0)
        count, names = await _all_of_few(db, plain, cap)
        if 0 < count < cap and query.limit > 0:
            count, names = await _all_of_few(db, query, cap)
    else:
        count, names = await _all_of_few(db, query, cap)
    if count < cap or query.limit < 1:
        return JobsFound(names, count)
    return JobsFound(await _first_of_many(db, query), count)


# --- few ------------------------------------------------------------------------------------------------------------


async def _all_of_few(db: Database, query: JobQuery, cap: int) -> tuple[int, list[str]]:
    """The count up to the cap, and the page, which is right if the count is below the cap."""
    values = Values()
    most = values.add(cap, "bigint")
    started = f", {_LAST_STARTED} AS last_started" if query.order == "last_started" else ""
    parts = []
    for facts in query.any_of or (JobFacts(),):
        source = _LIST + (_WITH_ENDINGS if started or facts.last is not None else "")
        where = " AND ".join(_terms(query, facts, values)) or "true"
        parts.append(f"(SELECT j.*{started} FROM {source} WHERE {where} LIMIT {most})")
    after = values.add(query.after, "text")
    down = "DESC" if query.backwards else "ASC"
    text = f"""
        WITH {_NEWEST}, found AS MATERIALIZED (
            SELECT x.name, {_KEYS[query.order]} AS key FROM ({" UNION ".join(parts)}) x
        )
        SELECT (SELECT count(*) FROM found), (
            SELECT json_agg(p.name) FROM (
                SELECT f.name FROM found f WHERE f.name > {after} COLLATE "C"
                ORDER BY f.key {down} NULLS LAST, f.name
                LIMIT {values.add(query.limit, "bigint")} OFFSET {values.add(query.offset, "bigint")}
            ) p
        )::text
    """
    [(count, names)] = await db.query(in_schema(text, db.schema), values.given, repeat=True)
    return min(cap, count), msgspec.json.decode(names or "[]")


# --- many -----------------------------------------------------------------------------------------------------------


async def _first_of_many(db: Database, query: JobQuery) -> list[str]:
    """Jobs without a value come last, by name."""
    wanted = query.offset + query.limit
    if query.order == "last_started":
        bound = await _bound(db, query, _TRIED * wanted)
        found = await _walked(db, query, _by_last_started(bound), wanted)
        if len(found) < wanted and bound:
            found = await _walked(db, query, _by_last_started(""), wanted)
        rest = Walk(_LIST + _WITH_ENDINGS, "j.name", f"{_LAST_STARTED} IS NULL")
    elif query.order == "next_run":
        source = f"mainspring.job b JOIN {_LIST} ON j.name = b.name"
        found = await _walked(db, query, Walk(source, "b.due", "b.due IS NOT NULL AND NOT j.paused"), wanted)
        rest = Walk(_LIST, "j.name", "(NOT j.planned OR j.paused)")
    else:
        return (await _walked(db, query, Walk(_LIST, f"j.{query.order}"), wanted))[query.offset :]
    if len(found) < wanted:
        ahead = msgspec.structs.replace(query, backwards=False)
        found += await _walked(db, ahead, rest, wanted - len(found))
    return found[query.offset :]


def _by_last_started(bound: str) -> Walk:
    """`bound` is an operator and a value; totals beyond it are not looked up."""
    key = f"({_LAST_STARTED})"
    extra = f"{key} IS NOT NULL"
    if bound:
        near = f"SELECT b.job_key FROM mainspring.totals b WHERE b.last_started {bound}"
        extra = f"{key} {bound} AND j.job_key IN ({near} UNION ALL SELECT m.job_key FROM newest m)"
    return Walk(_LIST + _WITH_ENDINGS, key, extra)


async def _bound(db: Database, query: JobQuery, enough: int) -> str:
    """A bound with so many totals on this side of it."""
    values = Values()
    down, sign = ("DESC", ">=") if query.backwards else ("ASC", "<=")
    text = f"""
        SELECT t.last_started FROM mainspring.totals t WHERE t.last_started IS NOT NULL
        ORDER BY t.last_started {down} LIMIT 1 OFFSET {values.add(enough, "bigint")}
    """
    found = await db.query(in_schema(text, db.schema), values.given, repeat=True)
    return f"{sign} {int(found[0][0])}" if found else ""


async def _walked(db: Database, query: JobQuery, walk: Walk, most: int) -> list[str]:
    """The first names in the order of the walk."""
    values = Values()
    limit, after = values.add(most, "bigint"), values.add(query.after, "text")
    down = "DESC" if query.backwards else "ASC"
    named = "b.name" if walk.key == "b.due" else "j.name"
    order = f"{walk.key} {down}" + ("" if walk.key == "j.name" else f", {named}")
    parts = []
    for facts in query.any_of or (JobFacts(),):
        where = " AND ".join([walk.extra, f'j.name > {after} COLLATE "C"', *_terms(query, facts, values)])
        joined = "newest" in walk.source or facts.last is None
        source = walk.source if joined else walk.source + _WITH_ENDINGS
        parts.append(f"(SELECT j.name, {walk.key} AS key FROM {source} WHERE {where} ORDER BY {order} LIMIT {limit})")
    text = f"""
        WITH {_NEWEST}
        SELECT x.name FROM ({" UNION ".join(parts)}) x ORDER BY x.key {down}, x.name LIMIT {limit}
    """
    return [name for (name,) in await db.query(in_schema(text, db.schema), values.given, repeat=True)]


# --- both -----------------------------------------------------------------------------------------------------------


def _terms(query: JobQuery, facts: JobFacts, values: Values) -> list[str]:
    """The conditions."""
    columns = (("handler", query.handler), ("queue", query.queue), ("origin", query.origin))
    terms = [f"j.{name} = {values.add(value, 'text')}" for name, value in columns if value is not None]
    marks = (("paused", facts.paused), ("cancelled", facts.cancelled), ("planned", facts.planned))
    terms += [f"j.{name}" if value else f"NOT j.{name}" for name, value in marks if value is not None]
    if query.search is not None:
        terms.append(f"strpos(j.search, {values.add(query.search, 'text')}) > 0")
    if query.name_part is not None:
        terms.append(f"strpos(split_part(j.search, chr(31), 1), {values.add(query.name_part, 'text')}) > 0")
    if query.labels:
        terms.append(f"j.labels @> {values.add(texts(storable_texts(query.labels)), 'text::text[]')}")
    if query.due_before is not None:
        due = f"SELECT b.name FROM mainspring.job b WHERE b.due < {values.add(query.due_before, 'bigint')}"
        terms.append(f"NOT j.paused AND j.name IN ({due})")
    if query.without_system:
        end = SYSTEM_PREFIX[:-1] + chr(ord(SYSTEM_PREFIX[-1]) + 1)
        terms.append(f"NOT (j.name >= {values.add(SYSTEM_PREFIX, 'text')} AND j.name < {values.add(end, 'text')})")
    if query.without:
        names = values.add(texts(sorted(query.without)), "text::text[]")
        terms.append(f"NOT EXISTS (SELECT FROM unnest({names}) w (name) WHERE w.name = j.name)")
    if query.code_in is not None:
        names = values.add(texts(sorted(query.code_in)) or "{}", "text::text[]")
        terms.append(f"(j.origin <> 'code' OR j.name IN (SELECT unnest({names})))")
    if facts.active is not None:
        terms.append(f"EXISTS {_ACTIVE}" if facts.active else f"NOT EXISTS {_ACTIVE}")
    if facts.pending is not None:
        terms.append(f"EXISTS {_PENDING}" if facts.pending else f"NOT EXISTS {_PENDING}")
    return terms if facts.last is None else [*terms, *_last(facts.last)]


def _last(states: frozenset[State | None]) -> list[str]:
    """Rare endings have an index; endings that are not folded yet are searched too."""
    named = ", ".join(f"'{state}'" for state in sorted(state for state in states if state is not None))
    parts = [f"{_LAST_STATE} IN ({named})"] if named else []
    parts += [f"{_LAST_STATE} IS NULL"] if None in states else []
    terms = [f"({' OR '.join(parts) or 'false'})"]
    if states and states <= _RARE:
        rare = (
            f"SELECT r.job_key FROM mainspring.totals r WHERE r.last_state <> 'completed' AND r.last_state IN ({named})"
        )
        terms.append(f"j.job_key IN ({rare} UNION ALL SELECT m.job_key FROM newest m)")
    return terms
