"""What the server does for each statement: along an index, and no more of it however much there is.

`make plans ROWS=1000000` runs this with a million rows of each kind; `make test` with thirty thousand.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

import msgspec
import psycopg
import pytest

from mainspring.model.execution import ExecutionRow, State
from mainspring.model.store.messages import Change, ClaimRequest, ExecutionQuery, JobQuery, JobWrite, PruneRule
from mainspring.model.time.instants import SECOND
from mainspring.model.values.ids import random_id
from mainspring.stores.postgres import PostgresStore
from mainspring.stores.postgres.connection.address import parse_address
from mainspring.stores.postgres.connection.pool import Connections, PsycopgSession, Row, Startup
from mainspring.stores.postgres.migrate import script
from tests.servers import postgres
from tests.support import until

ROWS = int(os.environ.get("PLAN_ROWS", "30000"))
FEW = 2_000
OWNER = "w1"
CHANCE = random.Random(1)

FILL = """
    INSERT INTO mainspring.incarnation (job_id, job) SELECT 'job-' || n, 'job' || n FROM generate_series(1, 50) n;
    INSERT INTO mainspring.job (name, id, version, origin, declared, overrides, release, anchor, sweep, created,
        updated, due, template)
    SELECT 'idle' || n, 'idle-' || n, 1, 'code', '{"handler":"work"}', '{}', '', 0, false, 0, 0,
        mainspring.now_micros() + 3600000000 + n, '{"row":{"handler":"work","queue":"default"},"search":""}'
    FROM generate_series(1, %(rows)s) n;
    INSERT INTO mainspring.totals (job_key, completed, partial, failed, cancelled, skipped, duration_ms, timed, rescued,
        last_failures)
    SELECT i.key, 1, 0, 0, 0, 0, 5, 1, 0, 0 FROM mainspring.incarnation i WHERE i.job_id LIKE 'idle%%';
    INSERT INTO mainspring.live (id, created, due, job_key, priority, phase, lane, body)
    SELECT mainspring.new_id(t), t, CASE n %% 3 WHEN 0 THEN t + 7200000000000 ELSE 0 END, 1 + n %% 50, n %% 7 %% 2,
        CASE n %% 3 WHEN 0 THEN 0 ELSE 1 END, CASE n %% 3 WHEN 1 THEN 'default/excluded' ELSE 'default/work' END,
        '{"job":"job","job_id":"job-1","handler":"work","params":"{}"'
    FROM (SELECT n, mainspring.now_micros() - n::bigint * 100000 AS t FROM generate_series(1, %(rows)s) n) x;
    INSERT INTO mainspring.live (id, created, due, job_key, priority, phase, lane, share, weight, tag, body)
    SELECT mainspring.new_id(t), t, 0, 1, 0, 1, 'default/share//fair', 's' || n %% 10000, 1, n / 10000 * 1000000,
        '{"job":"job","job_id":"job-1","handler":"share","params":"{}","share":"s' || n %% 10000 || '"'
    FROM (SELECT n, mainspring.now_micros() - n::bigint * 100000 AS t FROM generate_series(1, %(rows)s / 4) n) x;
    INSERT INTO mainspring.live (id, created, due, job_key, priority, phase, lane, limits, parked, for_token, line,
        place, body)
    SELECT mainspring.new_id(t), t, 0, 1, 0, -1, 'default/limit//limited', '[{"key":"full","concurrency":3}]', 'full',
        false, '3 default/limit//limited', 0, '{"job":"job","job_id":"job-1","handler":"limit","params":"{}"'
    FROM (SELECT n, mainspring.now_micros() - n::bigint * 100000 AS t FROM generate_series(1, %(rows)s / 4) n) x;
    INSERT INTO mainspring.live (id, created, due, job_key, priority, phase, lane, share, weight, limits, parked,
        for_token, line, place, body)
    SELECT mainspring.new_id(t), t, 0, 1, 0, -1, 'default/turn//fair', 's' || n %% 1000, 1,
        '[{"key":"busy","concurrency":3}]', 'busy', false, '3 default/turn//fair', n / 1000 * 1000000,
        '{"job":"job","job_id":"job-1","handler":"turn","params":"{}"'
    FROM (SELECT n, mainspring.now_micros() - n::bigint * 100000 AS t FROM generate_series(1, %(rows)s / 10) n) x;
    INSERT INTO mainspring.limit_state (key, running, slot_look) VALUES ('full', 0, 0), ('busy', 3, 4102444800000000);
    INSERT INTO mainspring.history (id, created, due, started, finished, token, job_key, failures, crashes, alone,
        staged, todo, keep, stray, state, trigger, tenant, parent_id, body)
    SELECT mainspring.new_id(t), t, 0, 1, 2, 1, 1 + n %% 50, 0, 0, false, false, false, true, false,
        CASE WHEN n %% 100 = 0 THEN 'failed' ELSE 'completed' END,
        CASE n %% 7 WHEN 1 THEN 'manual' WHEN 2 THEN 'schedule' END,
        CASE WHEN n %% 10 = 0 THEN 't' || n %% 1000 END, CASE WHEN n %% 10 = 0 THEN 'p' || n / 100 END,
        '{"job":"job","job_id":"job-1","handler":"work","params":"{}"'
    FROM (SELECT n, mainspring.now_micros() - n::bigint * 100000 AS t FROM generate_series(1, %(rows)s) n) x;
    INSERT INTO mainspring.label (label, id) SELECT 'order_id=' || n, h.id
        FROM (SELECT id, row_number() OVER () AS n FROM mainspring.history) h;
    INSERT INTO mainspring.label (label, id) SELECT '!group', h.id FROM mainspring.history h;
    UPDATE mainspring.job_list SET labels = ARRAY['owner=o' || job_key / 100, 'tag=all'];
    ANALYZE mainspring.job; ANALYZE mainspring.live; ANALYZE mainspring.history; ANALYZE mainspring.label;
    ANALYZE mainspring.job_list;
"""


TELL_PLANS = """
    LOAD 'auto_explain';
    SET auto_explain.log_min_duration = 0;
    SET auto_explain.log_nested_statements = on;
    SET client_min_messages = log;
"""


class Explaining:
    """Runs each statement as EXPLAIN ANALYZE, and keeps what the server says, also of statements inside functions."""

    def __init__(self, url: str) -> None:
        self.plans: list[str] = []
        self.buffers = 0
        self._connections = Connections(Startup(parse_address(url).main, 60.0).connect, 1, 60.0)
        self._url = url

    async def fetch(self, text: str, values: Sequence[Any]) -> list[Row]:
        async with await psycopg.AsyncConnection.connect(self._url, autocommit=True) as connection:
            connection.add_notice_handler(self._noticed)
            await connection.execute(TELL_PLANS.encode())
            session = PsycopgSession(connection)
            async with connection.transaction(force_rollback=True):
                [[told]] = await session.fetch(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {text}", values)
            plan = told[0]["Plan"]
            self.buffers += plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
            self.plans.append(json.dumps(plan))
        return await self._connections.fetch(text, values)

    async def close(self) -> None:
        await self._connections.close()

    def _noticed(self, notice: psycopg.errors.Diagnostic) -> None:
        self.plans.append(notice.message_primary or "")

    def scanned(self) -> set[str]:
        """The tables that were read from one end to the other."""
        as_text = re.compile(r"Seq Scan on (\w+)")
        as_json = re.compile(r'"Node Type": "Seq Scan"[^{}]*?"Relation Name": "(\w+)"')
        return {found[1] for plan in self.plans for way in (as_text, as_json) for found in way.finditer(plan)}


@cache
def filled(rows: int) -> str:
    """The address of a database with so many rows of each kind: jobs, ready, future, of an excluded lane, finished."""
    url = postgres().new_database()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(script("mainspring").encode())
        for statement in FILL.split(";\n"):
            if statement.strip():
                connection.execute(statement.encode() % {b"rows": str(rows).encode()})
        connection.execute("VACUUM")
    return url


def large_tables(rows: int) -> set[str]:
    """An empty month or an empty table may be read as a whole."""
    text = "SELECT relname FROM pg_class WHERE relnamespace = 'mainspring'::regnamespace AND reltuples > 1000"
    with psycopg.connect(filled(rows)) as connection:
        found = {name for (name,) in connection.execute(text)}
    assert {"live", "job"} < found
    return found


@asynccontextmanager
async def watched(rows: int) -> AsyncIterator[tuple[PostgresStore, Explaining]]:
    url = filled(rows)
    store, source = PostgresStore(url), Explaining(url)
    await store.open()
    assert store._opened is not None
    own, store._opened.db._source = store._opened.db._source, source
    try:
        yield store, source
    finally:
        store._opened.db._source = own
        await source.close()
        await store.close()


def request(**fields: Any) -> ClaimRequest:
    plain = {"owner": OWNER, "handlers": frozenset({"work"}), "queues": None, "limit": 10, "lease": 30.0}
    return ClaimRequest(**{**plain, **fields})


def ending(row: ExecutionRow) -> Change:
    seen: dict[str, Any] = {"id": row.id, "expect": row.state, "token": row.token, "owner": row.owner}
    return Change(**seen, to=State.COMPLETED, at=row.created, failures=0, crashes=0)


async def claim(store: PostgresStore) -> None:
    answer = await store.exchange([], request())
    assert len(answer.claimed) == 10
    back = [ending(row) for row in answer.claimed]
    await store.exchange([Change(**{**_fields(change), "to": State.PENDING}) for change in back], None)


async def settle(store: PostgresStore) -> None:
    rows = (await store.exchange([], request(limit=5))).claimed
    assert (await store.exchange([ending(row) for row in rows], None)).applied == (True,) * 5


async def claim_from_two_lanes(store: PostgresStore) -> None:
    both = frozenset({"work", "excluded"})
    rows = (await store.exchange([], request(handlers=both))).claimed
    assert {row.handler for row in rows} == {"work"}  # what the rows were filled with; the lanes are two
    await store.exchange([Change(**{**_fields(ending(row)), "to": State.PENDING}) for row in rows], None)


async def claim_from_shares(store: PostgresStore) -> None:
    await store.add([execution(handler="share", share="newcomer")])
    rows = (await store.exchange([], request(handlers=frozenset({"share"})))).claimed
    assert len(rows) == 10
    assert sum(row.share == "newcomer" for row in rows) <= 1
    await store.exchange([Change(**{**_fields(ending(row)), "to": State.PENDING}) for row in rows], None)


async def claim_under_a_limit(store: PostgresStore) -> None:
    """A look finds room, a settle frees it again, and each time others are woken."""
    rows: tuple[ExecutionRow, ...] = ()
    for _ in range(3):
        rows = (await store.exchange([ending(row) for row in rows], request(handlers=frozenset({"limit"})))).claimed
        assert len(rows) == 3
    await store.exchange([Change(**{**_fields(ending(row)), "to": State.PENDING}) for row in rows], None)
    parked = await store.exchange([], request(handlers=frozenset({"limit"}), limit=20))
    assert len(parked.claimed) == 3
    await store.exchange([ending(row) for row in parked.claimed], None)


async def park_among_shares(store: PostgresStore) -> None:
    """Some find no room, and take their places among those that wait; one that is cancelled has the key looked at."""
    limits = '[{"key":"busy","concurrency":3}]'
    await store.add([execution(handler="turn", share=f"s{n % 2}", limits=limits) for n in range(4)])
    claimed = (await store.exchange([], request(handlers=frozenset({"turn"})))).claimed
    assert claimed == ()
    found = await store.find(ExecutionQuery(states=frozenset({State.PENDING}), limit=1))
    assert [row.parked for row in found] == ["busy"]
    cancelled = Change(**{**_fields(ending(found[0])), "to": State.CANCELLED, "expect": State.PENDING, "token": 0})
    assert (await store.exchange([Change(**{**_fields(cancelled), "owner": None})], None)).applied == (True,)


def _fields(change: Change) -> dict[str, Any]:
    return {name: getattr(change, name) for name in change.__struct_fields__}


async def find_in_time(store: PostgresStore) -> None:
    now = time.time_ns() // 1000
    query = ExecutionQuery(created_from=now - 170 * SECOND, created_to=now - 110 * SECOND, limit=20)
    assert len(await store.find(query)) == 20


async def prune_nothing(store: PostgresStore) -> None:
    long_ago = time.time_ns() // 1000 - 365 * 86_400 * SECOND
    rule = PruneRule(job_id="job-7", states=frozenset({State.COMPLETED, State.FAILED}), older_than=long_ago, newest=10)
    assert await store.prune(rule, 500) == 0


def searched(**filters: Any) -> Any:
    """A step that looks at few candidates, and finds nothing among them."""

    async def step(store: PostgresStore) -> None:
        query = ExecutionQuery(**{"error_text": "nowhere", "limit": 20, **filters})
        assert (await store.search(query, 10)).rows == []
        assert await store.count(query, 20, 10) == 0

    return step


def long_ago(hours: int) -> int:
    return time.time_ns() // 1000 - hours * 3_600 * SECOND


async def tick(store: PostgresStore) -> None:
    """Once as planned, once with every job's execution still alive."""
    for expected in ("added", "skipped"):
        jobs = await store.jobs_after("idle5", 20)
        ticks = [execution(job=job.name, job_id=job.id, overlap_key=job.id) for job in jobs]
        writes = [
            JobWrite(job=job, seen_version=job.version, executions=(tick,), only_plan=True)
            for job, tick in zip(jobs, ticks, strict=True)
        ]
        assert {added.outcome for written in await store.write_jobs(writes) for added in written.added} == {expected}


STEPS: dict[str, Any] = {
    "claim": claim,
    "claim from two lanes": claim_from_two_lanes,
    "settle": settle,
    "add": lambda store: store.add([execution() for _ in range(20)]),
    "claim from shares": claim_from_shares,
    "claim under a limit": claim_under_a_limit,
    "park among shares": park_among_shares,
    "add for shares": lambda store: store.add([execution(handler="share", share=f"s{n}") for n in range(20)]),
    "triggered by hand": lambda store: store.find(ExecutionQuery(trigger="manual", limit=20)),
    "triggered by hand, of a job": lambda store: store.find(ExecutionQuery(job="job2", trigger="manual", limit=5)),
    "count of triggered by schedule": lambda store: store.count(ExecutionQuery(trigger="schedule"), 100),
    "add with a key": lambda store: store.add([execution(unique_key="k", overlap_key="o") for _ in range(3)]),
    "add for a tenant": lambda store: store.add([execution(tenant="t1", parent_id="p1") for _ in range(20)]),
    "due jobs": lambda store: store.due_jobs(100),
    "some jobs": lambda store: store.jobs([f"idle{n}" for n in range(1, 100, 5)]),
    "snapshots of some jobs": lambda store: store.job_snapshots(["idle5", "idle7", "idle11"]),
    "statistics of some jobs": lambda store: store.stats(["idle-5", "idle-7"]),
    "tick": tick,
    "walk over jobs": lambda store: store.jobs_after("idle5", 50),
    "queues of jobs": lambda store: store.job_queues(),
    "newest": lambda store: store.find(ExecutionQuery(limit=20)),
    "page": lambda store: store.find(ExecutionQuery(limit=20, before="019b0000-0000-7000-8000-000000000000")),
    "of a job": lambda store: store.find(ExecutionQuery(job="job7", limit=20)),
    "oldest of a job": lambda store: store.find(
        ExecutionQuery(job="job7", limit=20, oldest_first=True, after="019b0000-0000-7000-8000-000000000000")
    ),
    "failed": lambda store: store.find(ExecutionQuery(states=frozenset({State.FAILED}), limit=20)),
    "failed of a job": lambda store: store.find(
        ExecutionQuery(job="job1", states=frozenset({State.FAILED, State.PENDING}), limit=20)
    ),
    "running": lambda store: store.find(ExecutionQuery(job="job1", states=frozenset({State.RUNNING}), limit=20)),
    "of a tenant": lambda store: store.find(ExecutionQuery(tenant="t10", limit=20)),
    "of a parent": lambda store: store.find(ExecutionQuery(parent_id="p1", limit=20)),
    "of a trace": lambda store: store.find(ExecutionQuery(trace_id="ab" * 16)),
    "in a range of time": find_in_time,
    "count up to a cap": lambda store: store.count(ExecutionQuery(), 100),
    "children": lambda store: store.children("p1"),
    "when the last child ended": lambda store: store.last_child_ended("p1"),
    "keys held": lambda store: store.held_keys("unique", "k", 20),
    "follow-ups": lambda store: store.todo(100, "019b0000-0000-7000-8000-000000000000"),
    "expired": lambda store: store.expired(100),
    "strays": lambda store: store.unserved_cancels(100),
    "cancels": lambda store: store.cancels(OWNER),
    "one execution": lambda store: store.execution("019b0000-0000-7000-8000-000000000000"),
    "log lines": lambda store: store.logs("019b0000-0000-7000-8000-000000000000"),
    "executions to copy": lambda store: store.copy_out("executions", "019b0000-0000-7000-8000-000000000000", 20),
    "jobs to copy": lambda store: store.copy_out("jobs", "idle5", 20),
    "search": searched(),
    "search by handler and queue": searched(handler="nothing", queue="none"),
    "search by worker and duration": searched(workers=frozenset({"w"}), longer_than=5),
    "search by reason, oldest first": searched(reason="none", oldest_first=True),
    "search by label": searched(labels=("!group",)),
    "search by labels and tenant": searched(labels=("!group", "order_id=7"), tenant="t10"),
    "search by label in a range of time": searched(labels=("!group",), created_from=long_ago(1)),
    "search among pending": searched(states=frozenset({State.PENDING})),
    "search among failed": searched(states=frozenset({State.FAILED}), tenant="t10"),
    "search of a job": searched(job="job7", trigger="manual"),
    "search of failed of a job": searched(job="job1", states=frozenset({State.FAILED})),
    "search of a tenant": searched(tenant="t10", trigger="manual", without_system=True),
    "search of a trigger": searched(trigger="manual", handler="nothing"),
    "search in a range of time": searched(created_from=long_ago(2), created_to=long_ago(1)),
    "by search key": lambda store: store.find(ExecutionQuery(labels=("order_id=7",))),
    "of an error group": lambda store: store.find(ExecutionQuery(labels=("!group",), limit=20)),
    "jobs by label": lambda store: store.find_jobs(JobQuery(labels=("owner=o1", "tag=all"), limit=20), 50),
    "jobs by due time": lambda store: store.find_jobs(JobQuery(due_before=1, order="next_run", limit=20), 50),
    "newest runs of some jobs": lambda store: store.newest_runs(["job-7", "job-11", "idle-5"], 20),
    "newest runs since": lambda store: store.newest_runs(["job-7"], 20, long_ago(1)),
    "prune nothing": prune_nothing,
    "fold nothing": lambda store: store.fold(100),
}


@pytest.mark.req("HIS-3", "NUM-1")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("step", STEPS)
async def test_along_an_index_and_flat_however_much_there_is(step: str) -> None:
    async with watched(FEW) as (store, source):
        await STEPS[step](store)
        few = source.buffers
    async with watched(ROWS) as (store, source):
        await STEPS[step](store)
        many = source.buffers
        assert source.plans
        assert source.scanned() & large_tables(ROWS) == set()
    assert many <= 2 * few + 60, f"{few} buffers with {FEW} rows, {many} with {ROWS}"


@pytest.mark.req("DSH-1")
async def test_the_newest_runs_of_a_job_are_found_past_its_many_tenants() -> None:
    """The server expects few rows of each of the many jobs, and must not take that as a reason to sort them."""
    url = postgres().migrated_database()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(FAN_OUTS.encode())
        connection.execute("VACUUM ANALYZE mainspring.history")
    store, source = PostgresStore(url), Explaining(url)
    await store.open()
    assert store._opened is not None
    own, store._opened.db._source = store._opened.db._source, source
    try:
        found = await store.newest_runs(["job-0"], 10)
    finally:
        store._opened.db._source = own
        await source.close()
        await store.close()
    assert [run.created for run in found["job-0"]] == [(1_800_000 - n) * SECOND for n in range(10)]
    assert source.buffers < 2_000


FAN_OUTS = """
    INSERT INTO mainspring.incarnation (job_id, job) SELECT 'job-' || n, 'job' || n FROM generate_series(0, 4000) n;
    INSERT INTO mainspring.history (id, created, due, token, job_key, failures, crashes, alone, staged, todo, keep,
        stray, state, tenant, parent_id, body)
    SELECT overlay(mainspring.new_id(t)::text PLACING version FROM 15 FOR 1)::uuid, t, t, 1, i.key, 0, 0, false, false,
        false, true, false, 'completed', tenant, parent, '{"job":"job","job_id":"job-0","handler":"work","params":"{}"'
    FROM (
        SELECT 'job-' || n AS job, 1800000000000::bigint AS t, '7' AS version, NULL AS tenant, NULL AS parent
        FROM generate_series(1, 4000) n
        UNION ALL
        SELECT 'job-0', (1800000 - n) * 1000000::bigint, '7', NULL, NULL FROM generate_series(0, 19) n
        UNION ALL
        SELECT 'job-0', (1800000 - n % 20) * 1000000::bigint - 1000, '8', 't' || n, 'p' || n % 20
        FROM generate_series(0, 39999) n
    ) x JOIN mainspring.incarnation i ON i.job_id = x.job
"""
"""4,000 jobs with one run each, and one with 20 runs of 2,000 tenants."""


@pytest.mark.req("QUE-1")
async def test_counts_by_lane_read_indexes_alone() -> None:
    async with watched(ROWS) as (store, source):
        counts = {(one.queue, one.handler): one for one in await store.lane_counts()}
        assert source.scanned() & large_tables(ROWS) == set()
    assert counts["default", "work"].ready > 0 < counts["default", "work"].planned
    assert counts["default", "limit"].parked > 0


@pytest.mark.req("NUM-1")
async def test_the_live_table_stays_small_however_many_have_passed_through() -> None:
    """The server's own vacuum comes once a minute; whoever folds comes more often."""
    url = postgres().new_database()
    store = PostgresStore(url)
    await store.open()
    sizes = [await pass_through(store, url, 10_000) for _ in range(5)]
    assert sizes[-1] < 0.7 * len(sizes) * sizes[0], sizes  # each round would add as much as the first one
    await store.close()


async def pass_through(store: PostgresStore, url: str, count: int) -> int:
    """The size of the live table once so many more executions have come and gone."""
    ended: list[Change] = []
    for _ in range(count // 1_000):
        await store.add([execution() for _ in range(1_000)])
        while rows := (await store.exchange(ended, request(limit=250))).claimed:
            ended = [ending(row) for row in rows]
        ended = []
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute("SELECT pg_total_relation_size('mainspring.live')").fetchone()
    assert store._opened is not None
    await until(store._opened.maintenance._too_many_dead, "the server has counted the dead rows")
    store._opened.maintenance._vacuum_due = 0
    await store.fold(10_000)
    assert found is not None
    return int(found[0])


def execution(**fields: Any) -> ExecutionRow:
    now = time.time_ns() // 1000
    plain = {"id": random_id(now, CHANCE), "job": "job", "job_id": "job-1", "handler": "work"}
    return ExecutionRow(**{**plain, "created": now, "due": now, **fields})


@pytest.mark.req("SRC-3")
async def test_a_job_with_many_incarnations_is_searched_in_one_plan() -> None:
    """One search for each of them would be planned for seconds."""
    url = postgres().migrated_database()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO mainspring.incarnation (job_id, job) SELECT 'j' || n, 'j' FROM generate_series(1, 300) n"
        )
    store = PostgresStore(url)
    await store.open()
    rows = [execution(job="j", job_id=f"j{n}") for n in range(1, 301, 3)]
    await store.add(rows)
    found: list[str] = []
    query = ExecutionQuery(job="j", handler="work", limit=60)
    async with asyncio.timeout(10):
        while True:
            page = await store.search(query, 1_000)
            found += [row.id for row in page.rows]
            if not page.rows and page.searched_to is None:
                break
            query = msgspec.structs.replace(query, before=page.searched_to or found[-1])
        assert await store.count(ExecutionQuery(job="j", handler="work"), 1_000, 1_000) == len(rows)
    assert found == sorted((row.id for row in rows), reverse=True)
    await store.close()
