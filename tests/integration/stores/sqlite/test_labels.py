"""Labels beside a release that knows none, inside a transaction of the caller, and found along their indexes."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from mainspring.model.execution import ExecutionRow, State
from mainspring.model.job import Job, JobSpec, encode_spec
from mainspring.model.store.messages import ExecutionQuery, JobQuery, JobWrite
from mainspring.stores.sqlite import SqliteStore
from mainspring.stores.sqlite.executions import searching
from mainspring.stores.sqlite.transaction import Transaction
from mainspring.testing.clock import FakeClock

SPEC = JobSpec(
    handler="work",
    owner="Müller",
    tags=("eu", "50 %"),
    metadata={
        "site": "news",
        "tier": 3,
        "share": 0.5,
        "live": True,
        "off": False,
        "none": None,
        "list": [1],
        "t": "x" * 201,
    },
)


def row(number: int, **fields: object) -> ExecutionRow:
    plain = {"id": f"019b7000-0000-7000-8000-{number:012x}", "job": "job", "job_id": "job-1", "handler": "work"}
    return ExecutionRow(**{**plain, **fields})  # type: ignore[arg-type]


@pytest.mark.req("SRC-1", "UPG-1")
async def test_what_the_release_before_writes_and_deletes(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    store = SqliteStore(path, FakeClock(), synchronous="OFF")
    await store.open()
    jobs = [
        Job(name="a", id="a-1", declared=encode_spec(SPEC)),
        Job(name="b", id="b-1", declared=encode_spec(SPEC), overrides='{"tags":["new"],"metadata":{},"owner":"ops"}'),
        Job(name="c", id="c-1", declared=encode_spec(JobSpec(handler="work"))),
    ]
    await store.write_jobs([JobWrite(job=job, seen_version=None) for job in jobs])
    await store.add([row(1, state=State.COMPLETED, finished=1, labels=("k=1",)), row(2, labels=("k=1",))])
    with closing(sqlite3.connect(path, isolation_level=None)) as old:
        ours = dict(old.execute("SELECT name, labels FROM mainspring_job_list").fetchall())
        columns = "name, id, handler, queue, origin, paused, cancelled, planned, created, updated, search"
        old.execute(f"INSERT OR REPLACE INTO mainspring_job_list ({columns}) SELECT {columns} FROM mainspring_job_list")
        theirs = dict(old.execute("SELECT name, labels FROM mainspring_job_list").fetchall())
        assert {name: set(text.split("\x1f")) for name, text in theirs.items()} == {
            name: set(text.split("\x1f")) for name, text in ours.items()
        }
        assert theirs["c"] == "\x1f"
        old.execute("DELETE FROM mainspring_history WHERE seq = 1")
        old.execute("DELETE FROM mainspring_executions WHERE seq = 1")
    for job in jobs:
        for label in job.labels:
            assert job.name in (await store.find_jobs(JobQuery(labels=(label,)), 10)).names
    assert [found.id for found in await store.find(ExecutionQuery(labels=("k=1",)))] == [row(2).id]
    await store.close()


@pytest.mark.req("SRC-1", "ENQ-2")
async def test_labels_of_a_caller_transaction(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    store = SqliteStore(path, FakeClock(), synchronous="OFF")
    await store.open()
    with closing(sqlite3.connect(path, isolation_level=None)) as mine:
        for number, end in ((1, "ROLLBACK"), (2, "COMMIT")):
            mine.execute("BEGIN IMMEDIATE")
            store.add_in(mine, [row(number, labels=("order_id=7",))])
            mine.execute(end)
        shown = mine.execute("SELECT * FROM mainspring_view_search_keys").fetchall()
    assert shown == [(row(2).id, "order_id", "7")]
    assert [found.labels for found in await store.find(ExecutionQuery(labels=("order_id=7",)))] == [("order_id=7",)]
    await store.close()


WALKED = {
    "label USING PRIMARY KEY (label=? AND id<?)": {"labels": ("k=1",), "queue": "q", "job": "job"},
    "executions_parent": {"parent_id": "p", "queue": "q"},
    "executions_trace": {"trace_id": "t", "reason": "r"},
    "executions_job": {"job_id": "job-1", "queue": "q", "tenant": "t"},
    "history_outcome": {"states": frozenset({State.FAILED}), "error_text": "x", "tenant": "t"},
    "history_job_outcome": {"states": frozenset({State.FAILED}), "job_id": "job-1", "reason": "r"},
    "executions_tenant": {"tenant": "t", "handler": "h"},
    "executions_trigger": {"trigger": "api", "queue": "q"},
    "sqlite_autoindex_mainspring_executions": {"queue": "q", "states": frozenset({State.COMPLETED})},
    "live_ready": {"queue": "q", "states": frozenset({State.PENDING})},
    "live_lease": {"states": frozenset({State.RUNNING}), "longer_than": 1},
}


@pytest.mark.req("SRC-3")
async def test_searches_walk_along_the_index_that_narrows_most(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    store = SqliteStore(path, FakeClock(), synchronous="OFF")
    await store.open()
    await store.add([row(1)])
    with closing(sqlite3.connect(path)) as database:
        database.create_function("mainspring_lower", 1, str.lower, deterministic=True)
        tx = Transaction(database, FakeClock())
        for index, filters in WALKED.items():
            plans = []
            for walk in searching._walks(tx, ExecutionQuery(**filters, before="f")):  # type: ignore[arg-type]
                text, values = walk._matching(f"{walk.table}.id")
                order = f"{text} ORDER BY {walk.table}.id DESC"
                plans.append(" | ".join(step[3] for step in database.execute(f"EXPLAIN QUERY PLAN {order}", values)))
                assert not walk.bounded or "TEMP B-TREE" not in plans[-1], (filters, plans[-1])
            assert any(index in plan.partition("|")[0] for plan in plans), (index, plans)
    await store.close()
