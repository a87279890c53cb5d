"""The execution list: live and finished rows in the order of their ids (`searches`), and retention.

Each search returns ids in order. The server merges them, cuts the page, and reads only its rows in full.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

import msgspec

from ....model.execution import ExecutionRow, State
from ....model.store.messages import (
    ExecutionQuery,
    ExecutionsFound,
    LaneCounts,
    LogLine,
    PruneRule,
    RunSummary,
    TenantCounts,
)
from ....model.time.instants import Micros
from ...common.ids import first_id, id_range
from ...common.newest_runs import FURTHER
from ..database import Database
from ..statements import in_schema, sql
from .literals import numbers
from .rows import as_json, executions_of, is_id
from .searches import Search, Values, leading_filter, order_of, searches

SCATTERED = 4
FEW = 100  # candidates that every search may look at
SEPARATE = 10  # incarnations of a job that are searched one by one; planning more takes longer than searching them

# The rows of a page in full.
_FOUND = """found AS (
    SELECT p.id, l.text FROM page p
    CROSS JOIN LATERAL (SELECT mainspring.as_json(l) AS text FROM mainspring.live l WHERE l.id = p.id) l
    UNION ALL
    SELECT p.id, h.text FROM page p
    CROSS JOIN LATERAL (SELECT mainspring.as_json(h) AS text FROM mainspring.history h WHERE h.id = p.id) h
)"""


async def execution(db: Database, id: str) -> ExecutionRow | None:
    if not is_id(id):
        return None
    found = await db.executions("execution", id)
    return found[0] if found else None


async def find(db: Database, query: ExecutionQuery) -> list[ExecutionRow]:
    values, order = Values(), order_of(query)
    found = searches(query, values)
    if not found or query.limit < 1:
        return []
    most = values.add(query.offset + query.limit, "bigint")
    text = f"""
        WITH page AS MATERIALIZED (
            SELECT id FROM ({_union(found, order, most)}) x ORDER BY id {order}
            OFFSET {values.add(query.offset, "bigint")} LIMIT {values.add(query.limit, "bigint")}
        ), {_FOUND}
        SELECT mainspring.labelled(text, id) FROM found ORDER BY id {order}
    """
    return await executions_of(row for (row,) in await db.query(in_schema(text, db.schema), values.given, repeat=True))


async def search(db: Database, query: ExecutionQuery, budget: int) -> ExecutionsFound:
    """What a search finds beyond the place where another one stopped is left to the next call."""
    values, order = Values(), order_of(query)
    keys, budget = await _keys(db, query, budget)
    found = searches(query, values, keys)
    if not found or query.limit < 1:
        return ExecutionsFound([])
    shares = _shares(found, budget)
    most = values.add(query.offset + query.limit, "bigint")
    parts = [f"m{n} AS MATERIALIZED ({one.select(order, most, share)})" for n, (one, share) in enumerate(shares)]
    stops = ", ".join(_stop(n, one, order, most, share) for n, (one, share) in enumerate(shares))
    first_stop, sign = ("least", "<=") if query.oldest_first else ("greatest", ">=")
    text = f"""
        WITH {", ".join(parts)}, stop AS MATERIALIZED (SELECT {first_stop}({stops}) AS id),
        page AS MATERIALIZED (
            SELECT x.id FROM ({" UNION ALL ".join(f"SELECT id FROM m{n}" for n in range(len(parts)))}) x, stop s
            WHERE s.id IS NULL OR x.id {sign} s.id ORDER BY x.id {order}
            OFFSET {values.add(query.offset, "bigint")} LIMIT {values.add(query.limit, "bigint")}
        ), {_FOUND}
        SELECT mainspring.labelled(f.text, f.id), s.id::text
        FROM stop s LEFT JOIN found f ON true ORDER BY f.id {order}
    """
    page = await db.query(in_schema(text, db.schema), values.given, repeat=True)
    rows, stop = await executions_of(row for row, _ in page if row is not None), page[0][1]
    return ExecutionsFound(rows, stop if len(rows) < query.limit else None)


async def _keys(db: Database, query: ExecutionQuery, budget: int) -> tuple[list[int] | None, int]:
    """The incarnations to search one by one, if they are few, and the budget; that of many is one for each of them."""
    if query.job is None or leading_filter(query) != "job":
        return None, budget
    keys = [key for (key,) in await db.rows("keys_of_job", query.job, repeat=True)]
    return (keys, budget) if len(keys) <= SEPARATE else (None, max(budget // len(keys), 1))


def _stop(n: int, search: Search, order: str, most: str, budget: int) -> str:
    """Where the search stopped before it had found enough; NULL if it has seen all. Incarnations of a job stop in
    different places."""
    if not search.checks and search.label is None:
        return "NULL::uuid"
    last = search.last_candidate(order, budget)
    return last if search.job is not None else f"CASE WHEN (SELECT count(*) FROM m{n}) < {most} THEN {last} END"


def _shares(found: list[Search], budget: int) -> list[tuple[Search, int]]:
    """Searches of one table share the budget. Neighbours in an index that narrows lie far apart in the table: reading
    such a row costs some times as much as the next one."""
    tables = Counter(search.table for search in found)
    parts = [budget // tables[search.table] // (SCATTERED if search.narrow else 1) for search in found]
    return [(search, max(part, min(budget, FEW), 1)) for search, part in zip(found, parts, strict=True)]


async def count(db: Database, query: ExecutionQuery, cap: int, budget: int | None = None) -> int:
    values, order = Values(), order_of(query)
    keys = None
    if budget is not None:
        keys, budget = await _keys(db, query, budget)
    found = searches(query, values, keys)
    if not found:
        return 0
    most = values.add(cap, "bigint")
    bounded = query.checks_rows or any(search.label is not None and search.checks for search in found)
    labelled = found[0].labelled(most) if len(found) == 1 else None
    page = labelled or _union(found, order, most, budget if bounded else None)
    text = f"SELECT count(*) FROM (SELECT 1 FROM ({page}) x LIMIT {most}) x"
    return int((await db.query(in_schema(text, db.schema), values.given, repeat=True))[0][0])


def _union(found: list[Search], order: str, most: str, budget: int | None = None) -> str:
    """At least the first ids that match."""
    if budget is None:
        return " UNION ALL ".join(search.select(order, most) for search in found)
    return " UNION ALL ".join(search.select(order, most, share) for search, share in _shares(found, budget))


async def lane_counts(db: Database) -> list[LaneCounts]:
    return [LaneCounts(**dict(zip(_COUNTS, row, strict=True))) for row in await db.rows("lane_counts", repeat=True)]


_COUNTS = LaneCounts.__struct_fields__


async def tenant_counts(db: Database, limit: int) -> list[TenantCounts]:
    found = await db.rows("tenant_counts", limit, repeat=True)
    return [TenantCounts(tenant=tenant, pending=pending, running=running) for tenant, pending, running in found]


async def newest_runs(
    db: Database, job_ids: Sequence[str], limit: int, since: Micros | None = None
) -> dict[str, list[RunSummary]]:
    if limit < 1:
        return {}
    lowest, _ = id_range(since, None)
    values = [as_json(list(job_ids)), lowest or first_id(0), since or 0]
    found = await db.query(_newest_runs_sql(db.schema, limit), values, repeat=True)
    return {job_id: [RunSummary(*run) for run in _decode_runs(f"[{text}]")][:limit] for job_id, text in found}


_Run = tuple[str, State, str, Micros, Micros, Micros | None, Micros | None, str | None]
_decode_runs = msgspec.json.Decoder(list[_Run]).decode


@lru_cache
def _newest_runs_sql(schema: str, limit: int) -> str:
    page, greatest = sql("newest_runs_page", schema), "'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid"
    return sql("newest_runs", schema).format(
        limit=int(limit),
        first=page.format(key="i.key", before=greatest, most=int(limit)),
        further=page.format(key="w.key", before="w.before", most=FURTHER),
    )


async def logs(db: Database, id: str, after: int = 0) -> list[tuple[int, LogLine]]:
    if not is_id(id):
        return []
    rows = await db.rows("logs", id, after, repeat=True)
    return [(seq, LogLine(*line)) for seq, *line in rows]


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
