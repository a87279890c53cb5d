"""The views for reporting: the same columns, with the same content, on PostgreSQL and SQLite; and nothing to write."""

from __future__ import annotations

import json
import random
import re
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest

from mainspring.app.adapters import SystemClock
from mainspring.core.ports import Store
from mainspring.model.execution import AttemptRecord, ExecutionRow, State, encode_policy
from mainspring.model.job import Job, JobSpec, encode_spec
from mainspring.model.policies import FanOut, RunPolicy
from mainspring.model.store.messages import Change, ClaimRequest, JobWrite
from mainspring.model.triggers import encode_trigger
from mainspring.model.triggers.interval import Every
from mainspring.model.values.ids import random_id
from mainspring.stores.postgres import PostgresStore
from mainspring.stores.sqlite import SqliteStore
from tests.servers import postgres

COLUMNS = {
    "jobs": (
        *("job_name", "handler", "queue", "priority", "trigger", "description", "enabled", "max_attempts"),
        *("origin", "release", "version"),
        *("paused", "paused_by", "cancelled", "next_run_at", "last_tick_at", "last_number", "last_status"),
        *(
            "last_finished_at",
            "completed",
            "partial",
            "failed",
            "cancelled_count",
            "skipped",
            "created_at",
            "updated_at",
        ),
    ),
    "job_executions": (
        *("execution_id", "job_name", "handler", "queue", "trace_id", "status", "trigger_type", "triggered_by"),
        *("number", "params", "tenant", "parent_id", "scheduled_at", "window_begin", "window_end", "priority"),
        *("attempt", "max_attempts", "reason", "error_message", "result", "counters", "metadata", "tenants_total"),
        *("tenants_success", "tenants_failed", "created_at", "started_at", "finished_at", "duration_ms", "worker"),
    ),
    "tenant_executions": (
        *("execution_id", "parent_execution_id", "tenant", "job_name", "trace_id", "status", "trigger_type"),
        *("attempt", "max_attempts", "error_message", "started_at", "finished_at", "duration_ms", "window_begin"),
        *("window_end", "worker"),
    ),
    "locks": (*("name", "owner", "token", "acquired_at", "expires_at", "kind", "job_name", "execution_id", "status"),),
}
ONLY_SQLITE = {"job_executions": ("started_us",), "tenant_executions": ("started_us",)}

Run = Callable[[str], tuple[list[tuple[Any, ...]], list[str]]]
"""Gives rows and the names of their columns."""


class Ground:
    """A store, the names of its views, and how an administrator asks."""

    def __init__(
        self, store: Store, view: Callable[[str], str], run: Run, explain: str, error: type[Exception]
    ) -> None:
        self.store, self.view, self.run, self.explain, self.error = store, view, run, explain, error

    def ask(self, text: str) -> list[dict[str, Any]]:
        rows, names = self.run(text)
        return [dict(zip(names, row, strict=True)) for row in rows]

    def plan(self, query: str) -> str:
        return "\n".join(str(row[-1]) for row in self.run(f"{self.explain} {query}")[0])


@asynccontextmanager
async def on_postgres(folder: Path) -> AsyncIterator[Ground]:
    url = postgres().new_database()
    store = PostgresStore(url)
    await store.open()

    def run(text: str) -> tuple[list[tuple[Any, ...]], list[str]]:
        with psycopg.connect(url, autocommit=True) as connection:
            cursor = connection.execute(text.encode())
            return (cursor.fetchall() if cursor.description else []), [each.name for each in cursor.description or ()]

    yield Ground(store, lambda name: f"mainspring.{name}", run, "EXPLAIN", psycopg.Error)
    await store.close()


@asynccontextmanager
async def on_sqlite(folder: Path) -> AsyncIterator[Ground]:
    path = folder / "jobs.db"
    store = SqliteStore(path, SystemClock())
    await store.open()

    def run(text: str) -> tuple[list[tuple[Any, ...]], list[str]]:
        with closing(sqlite3.connect(path)) as connection, connection:
            cursor = connection.execute(text)
            return cursor.fetchall(), [column[0] for column in cursor.description or ()]

    yield Ground(store, lambda name: f"mainspring_view_{name}", run, "EXPLAIN QUERY PLAN", sqlite3.Error)
    await store.close()


GROUNDS: dict[str, Callable[[Path], AbstractAsyncContextManager[Ground]]] = {
    "postgres": on_postgres,
    "sqlite": on_sqlite,
}


@pytest.mark.req("HIS-4")
@pytest.mark.parametrize("kind", GROUNDS)
async def test_views_have_their_columns_and_refuse_to_be_written(kind: str, tmp_path: Path) -> None:
    async with GROUNDS[kind](tmp_path) as ground:
        await fill(ground.store)
        for name, columns in COLUMNS.items():
            rows = ground.ask(f"SELECT * FROM {ground.view(name)}")
            assert rows, name
            assert tuple(rows[0]) == (*columns, *(ONLY_SQLITE.get(name, ()) if kind == "sqlite" else ()))
            with pytest.raises(ground.error):
                ground.ask(f"DELETE FROM {ground.view(name)}")


@pytest.mark.req("HIS-4")
@pytest.mark.parametrize("kind", GROUNDS)
async def test_views_show_what_happened(kind: str, tmp_path: Path) -> None:
    async with GROUNDS[kind](tmp_path) as ground:
        failed = await fill(ground.store)
        [job] = ground.ask(f"SELECT * FROM {ground.view('jobs')}")
        assert (job["job_name"], job["handler"], job["queue"], bool(job["paused"])) == ("job", "work", "mail", False)
        assert (job["completed"], job["failed"], job["last_status"]) == (1, 1, "failed")
        [row] = ground.ask(f"SELECT * FROM {ground.view('job_executions')} WHERE error_message = 'boom'")
        assert (str(row["execution_id"]), row["job_name"], row["status"]) == (failed.id, "job", "failed")
        assert (row["trigger_type"], row["triggered_by"], as_json(row["params"])) == ("api", "ann", {"n": 1})
        assert (as_json(row["counters"]), as_json(row["metadata"])) == ({"rows": 2}, {"a": [1]})
        assert (row["worker"], row["max_attempts"], row["tenants_total"]) == ("w1", 4, None)
        assert (row["trace_id"], row["attempt"], float(row["duration_ms"])) == ("ab" * 16, failed.attempt, 1500.0)
        assert as_datetime(row["started_at"]) == failed.started_at
        assert as_datetime(row["created_at"]) == failed.created_at
        assert [column["enabled"] for column in ground.ask(f"SELECT enabled FROM {ground.view('jobs')}")] == [True]
        assert job["max_attempts"] == 5
        [tenant] = ground.ask(f"SELECT * FROM {ground.view('tenant_executions')}")
        assert (tenant["tenant"], tenant["status"], tenant["parent_execution_id"]) == ("t1", "failed", "p")
        assert (tenant["worker"], tenant["max_attempts"]) == ("w1", 4)
        workers = ground.ask(f"SELECT status, worker FROM {ground.view('job_executions')} ORDER BY 1")
        assert [each["worker"] for each in workers] == ["w1", "w1", None]
        states = ground.ask(f"SELECT status FROM {ground.view('job_executions')} ORDER BY 1")
        assert [each["status"] for each in states] == ["completed", "failed", "pending"]
        [lock] = ground.ask(f"SELECT * FROM {ground.view('locks')}")
        assert (lock["name"], lock["owner"]) == ("report", "w1")


@pytest.mark.req("HIS-4", "TEN-4")
@pytest.mark.parametrize("kind", GROUNDS)
async def test_a_parent_shows_how_many_of_its_tenants_succeeded(kind: str, tmp_path: Path) -> None:
    """While it waits, by counting them; once it has ended, also after its tenants were deleted."""
    policy = encode_policy(RunPolicy(fan_out=FanOut()))
    columns = "tenants_total, tenants_success, tenants_failed, worker"
    async with GROUNDS[kind](tmp_path) as ground:
        waits, ended, child = (execution(policy=policy), execution(policy=policy), execution())
        await ground.store.add([waits, ended])
        claimed = (await ground.store.exchange([], claim())).claimed
        tried = AttemptRecord(1, "w1", 1, 2, "fanned_out")
        await ground.store.exchange([change(row, State.WAITING, 5, attempt=tried) for row in claimed], None)
        await ground.store.add([execution(tenant=name, parent_id=waits.id) for name in "abc"])
        await ground.store.add([execution(tenant="d", parent_id=waits.id, state=State.SKIPPED, finished=1)])
        good, bad = (await ground.store.exchange([], claim(limit=2))).claimed
        counts = '{"total":9,"success":7,"failed":2}'
        [token] = [row.token for row in claimed if row.id == ended.id]
        over = change(ended, State.PARTIAL, 9, expect=State.WAITING, token=token, owner=None, result_json=counts)
        changes = [change(good, State.COMPLETED, 6), change(bad, State.FAILED, 7), over]
        assert (await ground.store.exchange(changes, None)).applied == (True, True, True)
        await ground.store.add([child])
        rows = ground.ask(f"SELECT execution_id, {columns} FROM {ground.view('job_executions')} WHERE tenant IS NULL")
        shown = {str(row.pop("execution_id")): tuple(row.values()) for row in rows}
        assert shown == {waits.id: (4, 1, 1, "w1"), ended.id: (9, 7, 2, "w1"), child.id: (None, None, None, None)}


FILL = {
    "postgres": """
    INSERT INTO mainspring.incarnation (job_id, job) SELECT 'job-' || n, 'job' || n FROM generate_series(1, 500) n;
    INSERT INTO mainspring.live (id, created, due, started, job_key, priority, phase, lane, owner, body)
    SELECT mainspring.new_id(t), t, t, CASE WHEN n % 100 < 2 THEN t END, 1 + n % 500, 0,
        CASE n % 100 WHEN 0 THEN 2 ELSE 1 END, 'default/work', 'w1', '{"job":"job","job_id":"job-1","handler":"work"'
    FROM (SELECT n, mainspring.now_micros() - n::bigint * 1000000 AS t FROM generate_series(1, %(rows)s) n) x;
    INSERT INTO mainspring.history (id, created, due, started, finished, token, job_key, failures, crashes, alone,
        staged, todo, keep, stray, state, body)
    SELECT mainspring.new_id(t), t, t, t, t, 1, 1 + n % 500, 0, 0, false, false, false, true, false,
        CASE WHEN n % 10 = 0 THEN 'failed' ELSE 'completed' END, '{"job":"job","job_id":"job-1","handler":"work"'
    FROM (SELECT n, mainspring.now_micros() - (%(rows)s - n)::bigint * 1000000 AS t
          FROM generate_series(1, %(rows)s) n) x;
    VACUUM ANALYZE mainspring.live;
    VACUUM ANALYZE mainspring.history;
    VACUUM ANALYZE mainspring.incarnation
    """,
    "sqlite": """
    CREATE TABLE numbers AS
    WITH RECURSIVE n (value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE value < 2 * %(rows)s)
    SELECT value FROM n;
    INSERT INTO mainspring_incarnations
    SELECT 'job-' || value, 'job' || value, 0, 0 FROM numbers WHERE value <= 500;
    INSERT INTO mainspring_executions (seq, id, job_id, created, body)
    SELECT value, printf('%036d', value), 'job-' || (1 + value % 500), 0, '{"job":"job","handler":"work"}'
    FROM numbers WHERE value BETWEEN 1 AND 2 * %(rows)s;
    INSERT INTO mainspring_live (seq, id, job_id, phase, lane, priority, due, started, owner)
    SELECT value, printf('%036d', value), 'job-' || (1 + value % 500), CASE value % 100 WHEN 0 THEN 2 ELSE 1 END,
        'default/work', 0, 0, CASE WHEN value % 100 < 2 THEN unixepoch() * 1000000 END, 'w1'
    FROM numbers WHERE value BETWEEN 1 AND %(rows)s;
    INSERT INTO mainspring_history (seq, id, job_id, state, started, finished, todo, keep, due, token)
    SELECT value, printf('%036d', value), 'job-' || (1 + value % 500), 'completed',
        unixepoch() * 1000000 - (2 * %(rows)s - value) * 1000000, 1, 0, 1, 0, 1
    FROM numbers WHERE value BETWEEN %(rows)s + 1 AND 2 * %(rows)s
    """,
}
RECENT = {
    "postgres": "started_at >= now() - interval '10 minutes'",
    "sqlite": "started_us >= (unixepoch() - 600) * 1000000",
}
ROWS = 20_000


@pytest.mark.req("HIS-4")
@pytest.mark.parametrize("kind", GROUNDS)
async def test_conditions_on_job_and_start_are_answered_along_an_index(kind: str, tmp_path: Path) -> None:
    """Of live executions (a backlog of rows that have not started among them) and of finished ones."""
    async with GROUNDS[kind](tmp_path) as ground:
        for statement in FILL[kind].split(";\n"):
            ground.run(statement.replace("%(rows)s", str(ROWS)))
        statuses: set[str] = set()
        of_job, recent = "job_name = 'job1'", RECENT[kind]
        for condition in (of_job, recent, f"{of_job} AND {recent}"):
            for columns in ("count(*) AS found", "execution_id, status, params"):
                query = f"SELECT {columns} FROM {ground.view('job_executions')} WHERE {condition}"
                rows = ground.ask(query)
                found = rows[0]["found"] if "found" in rows[0] else len(rows)
                assert 2 <= found <= ROWS // 10, (condition, found)
                assert scanned(ground.plan(query)) & LARGE == set(), (condition, ground.plan(query))
            statuses = {row["status"] for row in rows} if condition == recent else statuses
        assert {"running", "pending", "completed"} <= statuses


LARGE = {"live", f"history_{datetime.now(UTC):%Y_%m}", "l", "h", "e"}
"""Tables of PostgreSQL, names that the views of SQLite give to theirs."""


def scanned(plan: str) -> set[str]:
    """What is read from one end to the other."""
    return set(re.findall(r"(?:Seq Scan on|^SCAN) (\w+)(?! USING)\b", plan, re.MULTILINE))


@pytest.mark.req("HIS-4")
@pytest.mark.parametrize("kind", GROUNDS)
async def test_a_job_that_does_not_tick_has_no_next_run(kind: str, tmp_path: Path) -> None:
    """As in the interface: `Job.next_run_at`."""
    plain = JobSpec(handler="work", trigger=encode_trigger(Every(seconds=60)))
    jobs = {
        "ticks": plan("ticks", plain),
        "paused": plan("paused", plain, paused=2),
        "resumes": plan("resumes", plain, paused=2, resume=9_000_000),
        "cancelled": plan("cancelled", plain, cancelled=2),
        "disabled": plan("disabled", msgspec.structs.replace(plain, enabled=False)),
        "overridden": plan("overridden", plain, overrides='{"enabled":false}'),
        "on-demand": plan("on-demand", JobSpec(handler="work"), next_run=None),
    }
    async with GROUNDS[kind](tmp_path) as ground:
        await ground.store.write_jobs([JobWrite(job=job, seen_version=None) for job in jobs.values()])
        rows = ground.ask(f"SELECT job_name, next_run_at FROM {ground.view('jobs')}")
        shown = {row["job_name"]: row["next_run_at"] and as_datetime(row["next_run_at"]) for row in rows}
        assert shown == {name: job.next_run_at for name, job in jobs.items()}
        assert [name for name, at in shown.items() if at is not None] == ["ticks"]


def plan(name: str, spec: JobSpec, **fields: Any) -> Job:
    return Job(**{"name": name, "id": f"{name}-1", "declared": encode_spec(spec), "next_run": 7_000_000, **fields})


@pytest.mark.req("HIS-4")
def test_the_documentation_lists_the_columns() -> None:
    page = (Path(__file__).parents[3] / "docs" / "stores.md").read_text()
    for name, columns in COLUMNS.items():
        assert f"| `mainspring.{name}` | {', '.join(columns)} |" in page


async def fill(store: Store) -> ExecutionRow:
    """A job with one execution completed, one failed for a tenant, one pending; and a lock."""
    now = await store.now()
    declared = encode_spec(JobSpec(handler="work", queue="mail", max_attempts=5))
    job = Job(name="job", id="job-1", declared=declared, created=now, updated=now)
    await store.write_jobs([JobWrite(job=job, seen_version=None)])
    tenant = {"tenant": "t1", "parent_id": "p", "params": '{"n":1}', "trigger": "api", "triggered_by": "ann"}
    tenant["policy"] = encode_policy(RunPolicy(max_attempts=4))
    await store.add([execution(), execution(**tenant, trace_id="ab" * 16)])
    good, bad = (await store.exchange([], claim())).claimed
    tried, texts = AttemptRecord(1, "w1", now, now, "completed"), {"counters_json": '{"rows":2}'}
    ended = change(bad, State.FAILED, (bad.started or 0) + 1_500_000, failures=1, error="boom", attempt=tried, **texts)
    ended = msgspec.structs.replace(ended, metadata_json='{"a":[1]}')
    answer = await store.exchange([change(good, State.COMPLETED, now, attempt=tried), ended], None)
    assert answer.applied == (True, True)
    while await store.fold(100):
        pass
    await store.add([execution()])
    await store.lock_take("report", "w1", 60)
    found = await store.execution(bad.id)
    assert found is not None
    return found


def execution(**fields: Any) -> ExecutionRow:
    now = time.time_ns() // 1000
    plain = {"id": random_id(now, random.Random()), "job": "job", "job_id": "job-1", "handler": "work"}
    return ExecutionRow(**{**plain, "created": now, "due": now, **fields})


def claim(limit: int = 10) -> ClaimRequest:
    return ClaimRequest(owner="w1", handlers=frozenset({"work"}), queues=None, limit=limit, lease=30.0)


def change(row: ExecutionRow, to: State, at: int, **fields: Any) -> Change:
    seen: dict[str, Any] = {"id": row.id, "expect": row.state, "token": row.token, "owner": row.owner}
    return Change(**{**seen, "to": to, "at": at, "failures": 0, "crashes": 0, **fields})


def as_json(value: Any) -> Any:
    """PostgreSQL gives values, SQLite texts."""
    return json.loads(value) if isinstance(value, str) else value


def as_datetime(value: Any) -> datetime:
    return datetime.fromisoformat(value).astimezone(UTC) if isinstance(value, str) else value
