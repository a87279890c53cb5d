"""The views for reporting: the same columns, with the same content, on PostgreSQL and SQLite; and nothing to write."""

from __future__ import annotations

import random
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
from mainspring.model.execution import ExecutionRow, State
from mainspring.model.job import Job, JobSpec, encode_spec
from mainspring.model.store.messages import Change, ClaimRequest, JobWrite
from mainspring.model.triggers import encode_trigger
from mainspring.model.triggers.interval import Every
from mainspring.model.values.ids import random_id
from mainspring.stores.postgres import PostgresStore
from mainspring.stores.sqlite import SqliteStore
from tests.servers import postgres

COLUMNS = {
    "jobs": (
        *("job_name", "handler", "queue", "priority", "trigger", "description", "origin", "release", "version"),
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
        *("attempt", "reason", "error_message", "result", "counters", "metadata", "created_at", "started_at"),
        *("finished_at", "duration_ms", "worker"),
    ),
    "tenant_executions": (
        *("execution_id", "parent_execution_id", "tenant", "job_name", "trace_id", "status", "trigger_type"),
        *("attempt", "error_message", "started_at", "finished_at", "duration_ms", "window_begin", "window_end"),
    ),
    "locks": ("name", "owner", "token", "acquired_at", "expires_at"),
}

Ask = Callable[[str], list[dict[str, Any]]]


class Ground:
    """A store, the names of its views, and how an administrator asks."""

    def __init__(self, store: Store, view: Callable[[str], str], ask: Ask, error: type[Exception]) -> None:
        self.store, self.view, self.ask, self.error = store, view, ask, error


@asynccontextmanager
async def on_postgres(folder: Path) -> AsyncIterator[Ground]:
    url = postgres().new_database()
    store = PostgresStore(url)
    await store.open()

    def ask(text: str) -> list[dict[str, Any]]:
        with psycopg.connect(url, row_factory=psycopg.rows.dict_row) as connection:
            return connection.execute(text.encode()).fetchall()

    yield Ground(store, lambda name: f"mainspring.{name}", ask, psycopg.Error)
    await store.close()


@asynccontextmanager
async def on_sqlite(folder: Path) -> AsyncIterator[Ground]:
    path = folder / "jobs.db"
    store = SqliteStore(path, SystemClock())
    await store.open()

    def ask(text: str) -> list[dict[str, Any]]:
        with closing(sqlite3.connect(path)) as connection:
            cursor = connection.execute(text)
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor]

    yield Ground(store, lambda name: f"mainspring_view_{name}", ask, sqlite3.Error)
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
            assert tuple(rows[0]) == columns
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
        assert (row["trigger_type"], row["triggered_by"], row["params"]) == ("api", "ann", '{"n":1}')
        assert (row["trace_id"], row["attempt"], float(row["duration_ms"])) == ("ab" * 16, failed.attempt, 1500.0)
        assert as_datetime(row["started_at"]) == failed.started_at
        assert as_datetime(row["created_at"]) == failed.created_at
        [tenant] = ground.ask(f"SELECT * FROM {ground.view('tenant_executions')}")
        assert (tenant["tenant"], tenant["status"], tenant["parent_execution_id"]) == ("t1", "failed", "p")
        states = ground.ask(f"SELECT status FROM {ground.view('job_executions')} ORDER BY 1")
        assert [each["status"] for each in states] == ["completed", "failed", "pending"]
        [lock] = ground.ask(f"SELECT * FROM {ground.view('locks')}")
        assert (lock["name"], lock["owner"]) == ("report", "w1")


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
    declared = encode_spec(JobSpec(handler="work", queue="mail"))
    job = Job(name="job", id="job-1", declared=declared, created=now, updated=now)
    await store.write_jobs([JobWrite(job=job, seen_version=None)])
    tenant = {"tenant": "t1", "parent_id": "p", "params": '{"n":1}', "trigger": "api", "triggered_by": "ann"}
    await store.add([execution(), execution(**tenant, trace_id="ab" * 16)])
    good, bad = (await store.exchange([], claim())).claimed
    ended = change(bad, State.FAILED, (bad.started or 0) + 1_500_000, failures=1, error="boom")
    answer = await store.exchange([change(good, State.COMPLETED, now), ended], None)
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


def claim() -> ClaimRequest:
    return ClaimRequest(owner="w1", handlers=frozenset({"work"}), queues=None, limit=10, lease=30.0)


def change(row: ExecutionRow, to: State, at: int, **fields: Any) -> Change:
    seen: dict[str, Any] = {"id": row.id, "expect": row.state, "token": row.token, "owner": row.owner}
    return Change(**{**seen, "to": to, "at": at, "failures": 0, "crashes": 0, **fields})


def as_datetime(value: Any) -> datetime:
    return datetime.fromisoformat(value).astimezone(UTC) if isinstance(value, str) else value
