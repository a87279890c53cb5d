"""Every hot query of the SQLite store walks along its index, with 100,000 and more rows in the tables.

A plan is wrong when it scans a table, sorts in a temporary tree, or uses another index than the one made for it.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from mainspring.model.execution import ExecutionRow, State
from mainspring.model.store.messages import ExecutionQuery
from mainspring.stores.sqlite import migrate
from mainspring.stores.sqlite.executions import lists, rows
from mainspring.stores.sqlite.statements import sql, statement_names
from mainspring.stores.sqlite.threads import connect
from mainspring.stores.sqlite.transaction import Transaction
from mainspring.testing.clock import START, FakeClock

ROWS = 25_000  # of each kind: ready, ready in a foreign lane, future, running, finished
IDS = '["019b7000-0000-7000-8000-000000000001"]'
SEQS = "[1, 2, 3]"


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plans") / "plans.db"
    _fill(str(path))
    return path


@pytest.fixture(scope="module", params=["fresh", "analysed"])
def database(request: pytest.FixtureRequest, seeded: Path) -> Iterator[sqlite3.Connection]:
    """As it grew, and after somebody ran ANALYZE: the plans must not hang on it."""
    connection = sqlite3.connect(seeded, isolation_level=None)
    if request.param == "analysed":
        connection.execute("ANALYZE")
    yield connection
    connection.close()


def _fill(path: str) -> None:
    connection = connect.connect(path, "OFF", 5.0)
    migrate.migrate(connection, path, 5.0)
    connection.execute("BEGIN")
    for kind, phase in enumerate((rows.READY, rows.READY, rows.FUTURE, rows.RUNNING, None)):
        _seed(connection, first=kind * ROWS, lane=f"default/handler-{kind % 2}", phase=phase)
    _seed_jobs(connection)
    connection.execute("COMMIT")
    connection.close()


def _seed(connection: sqlite3.Connection, *, first: int, lane: str, phase: int | None) -> None:
    numbers = range(first + 1, first + ROWS + 1)
    static = ((n, _id(n), f"job-{n % 10}", START) for n in numbers)
    connection.executemany(
        "INSERT INTO mainspring_executions (seq, id, job_id, created, body) VALUES (?, ?, ?, ?, '{}')", static
    )
    if phase is None:
        ended = ((n, _id(n), f"job-{n % 10}", "failed" if n % 100 == 0 else "completed") for n in numbers)
        connection.executemany(
            "INSERT INTO mainspring_history (seq, id, job_id, state, todo, keep, due, token)"
            " VALUES (?, ?, ?, ?, 0, 1, 0, 1)",
            ended,
        )
        return
    lease = START if phase == rows.RUNNING else None
    live = ((n, _id(n), f"job-{n % 10}", phase, lane, START + n, lease) for n in numbers)
    connection.executemany(
        "INSERT INTO mainspring_live (seq, id, job_id, phase, lane, priority, due, lease)"
        " VALUES (?, ?, ?, ?, ?, 0, ?, ?)",
        live,
    )


def _seed_jobs(connection: sqlite3.Connection) -> None:
    jobs = ((f"job-{n}", f"job-{n}", START + n if n % 2 else None) for n in range(ROWS))
    connection.executemany(
        "INSERT INTO mainspring_jobs (name, id, version, origin, declared, overrides, release, anchor, sweep, created,"
        " updated, due) VALUES (?, ?, 1, 'code', '{}', '{}', '', 0, 0, 0, 0, ?)",
        jobs,
    )


def _id(number: int) -> str:
    return f"019b7000-0000-7000-8000-{number:012x}"


def plan(connection: sqlite3.Connection, text: str, *values: object) -> list[str]:
    return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {text}", values)]


def steps_of(connection: sqlite3.Connection, work: Callable[[], object]) -> int:
    """How many instructions SQLite needed, to the next hundred."""
    hundreds = 0

    def count() -> int:
        nonlocal hundreds
        hundreds += 1
        return 0

    connection.set_progress_handler(count, 100)
    work()
    connection.set_progress_handler(None, 0)
    return 100 * hundreds


def check(steps: list[str], *indexes: str) -> None:
    """The indexes are used, no table is walked through without one of them, and nothing is sorted."""
    text = "\n".join(steps)
    for index in indexes:
        assert index in text, text
    expected = [f"INDEX {index.split(' ')[0]}" for index in indexes]
    subqueries = {step.removeprefix("CO-ROUTINE ") for step in steps if step.startswith("CO-ROUTINE")}
    for step in steps:
        scanned = re.match(r"SCAN (mainspring_\w+|execution|live|history)\b", step)
        table = scanned is not None and scanned[1] not in subqueries
        assert not table or any(index in step for index in expected), text
        assert "TEMP B-TREE" not in step, text


HOT = [
    ("jobs_due", (START, 10), "mainspring_jobs_due"),
    ("jobs_next_due", (START,), "mainspring_jobs_due"),
    ("promote", (START, 100), "mainspring_live_scheduled (due<?)"),
    ("candidates", ('["default/handler-0"]', 100), "mainspring_live_ready (lane=?)"),
    ("live_rows", (SEQS, "{"), "INTEGER PRIMARY KEY"),
    ("live_rows_by_id", (IDS,), "sqlite_autoindex_mainspring_executions_1 (id=?)"),
    ("history_rows_by_id", (IDS,), "sqlite_autoindex_mainspring_executions_1 (id=?)"),
    ("known_id", ("x",), "sqlite_autoindex_mainspring_executions_1 (id=?)"),
    ("newest_runs", ("job-1", "g", "", 10), "mainspring_executions_job (job_id=? AND id>? AND id<?)"),
    ("held_unique", ('["k"]',), "mainspring_live_unique (unique_key=?)"),
    ("held_overlap", ('["k"]',), "mainspring_live_overlap (overlap_key=?)"),
    ("known_ids", (IDS,), "sqlite_autoindex_mainspring_executions_1 (id=?)"),
    ("claim", ("w", 1, 1, 1, SEQS), "INTEGER PRIMARY KEY"),
    ("live_delete", (SEQS,), "INTEGER PRIMARY KEY"),
    ("history_move", (1, 1, START, None, None, 0, 1, "w"), "live USING INTEGER PRIMARY KEY"),
    ("history_moved", (SEQS,), "live USING INTEGER PRIMARY KEY"),
    ("leases_held", (IDS, "w"), "sqlite_autoindex_mainspring_executions_1 (id=?)"),
    ("leases_renew", (1, SEQS), "INTEGER PRIMARY KEY"),
    ("expired", (START, 10), "mainspring_live_lease (lease<?)"),
    ("cancels", ("w",), "mainspring_live_cancel"),
    ("unserved_cancels", (10,), "mainspring_live_cancel"),
    ("todo", (10, "x"), "mainspring_history_todo (id>?)"),
    ("waited_unique", ('["k"]',), "mainspring_live_blocked_unique"),
    ("waited_overlap", ('["k"]',), "mainspring_live_blocked_overlap"),
    ("waiters_unique", (1, "k", 20), "mainspring_live_blocked_unique"),
    ("waiters_overlap", (1, "k", 20), "mainspring_live_blocked_overlap"),
    ("unique_holder", ("k",), "mainspring_live_unique"),
    ("overlap_holder", ("k",), "mainspring_live_overlap"),
    ("running_key_holder", ("a", "b", "c"), "mainspring_live_unique"),
    ("prune_keep", ("job-1", 99), "mainspring_executions_job (job_id=?)"),
    ("prune_window", ("job-1", "", "[]", "", None, 100), "mainspring_executions_job (job_id=? AND id>?)"),
    ("purge_next", ("job-1", 100), "mainspring_executions_job (job_id=?)"),
    ("live_counts_all", (), "mainspring_incarnations_live"),
    ("ids_after", ("x", 10), "sqlite_autoindex_mainspring_executions_1 (id>?)"),
    ("unkept_ids", (IDS,), "sqlite_autoindex_mainspring_executions_1 (id=?)"),
    ("logs_of", (IDS,), "PRIMARY KEY (execution_id=?)"),
    ("entries_between", ("window", "job", "x", "y", 9), "PRIMARY KEY (kind=? AND scope=? AND key>? AND key<?)"),
    ("entry", ("window", "job", "x"), "PRIMARY KEY (kind=? AND scope=? AND key=?)"),
    ("entries_after", ("window", "job", "x", 9), "PRIMARY KEY ((kind,scope,key)>(?,?,?))"),
    ("entries_update", ("window", "job", "x", "{}", 1), "PRIMARY KEY (kind=? AND scope=? AND key=?)"),
    ("entries_remove", ("window", "job", "x", 1), "PRIMARY KEY (kind=? AND scope=? AND key=?)"),
    ("logs", ("x", 0), "PRIMARY KEY (execution_id=? AND seq>?)"),
]


@pytest.mark.req("NUM-2", "HIS-3")
@pytest.mark.parametrize(("name", "values", "index"), HOT, ids=[name for name, _, _ in HOT])
def test_a_hot_query_walks_along_its_index(
    database: sqlite3.Connection, name: str, values: tuple[object, ...], index: str
) -> None:
    check(plan(database, sql(name), *values), index)


def test_lanes_are_found_by_seeking(database: sqlite3.Connection) -> None:
    check(plan(database, sql("lanes")), "mainspring_live_ready (lane>?)")
    assert database.execute(sql("lanes")).fetchone() == ('["default/handler-0","default/handler-1"]',)


def test_lanes_cost_one_seek_each_however_many_rows_they_have(database: sqlite3.Connection) -> None:
    def look() -> None:
        database.execute(sql("lanes")).fetchone()
        database.execute(sql("candidates"), ('["default/handler-1"]', 10)).fetchone()

    assert steps_of(database, look) < 2_000, "not 200,000 rows"


def test_numbers_of_listed_jobs_do_not_read_what_waits(database: sqlite3.Connection) -> None:
    """A list of jobs reads what runs and what waits for children, never all that is pending."""
    for name, index in (("running_counts", "mainspring_live_lease"), ("waiting_counts", "mainspring_live_waiting")):
        assert f"INDEX {index}" in plan(database, sql(name))[0]
    [first, *_] = plan(database, sql("live_counts_some"), '["job-1"]')
    assert first == "SEARCH mainspring_incarnations USING PRIMARY KEY (job_id=?)"


def test_children_are_counted_along_their_indexes(database: sqlite3.Connection) -> None:
    indexes = ("mainspring_live_parent (parent_id=?)", "mainspring_history_parent (parent_id=?)")
    steps = [step for step in plan(database, sql("children"), "p") if "GROUP BY" not in step]
    check(steps, *indexes)


JOB = {"job_id": "job-1"}
FOUND = [
    (ExecutionQuery(), "sqlite_autoindex_mainspring_executions_1"),
    (ExecutionQuery(before=_id(500)), "sqlite_autoindex_mainspring_executions_1 (id<?)"),
    (ExecutionQuery(after=_id(500)), "sqlite_autoindex_mainspring_executions_1 (id>?)"),
    (ExecutionQuery(**JOB), "mainspring_executions_job (job_id=?)"),
    (ExecutionQuery(**JOB, before=_id(500)), "mainspring_executions_job (job_id=? AND id<?)"),
    (ExecutionQuery(**JOB, states=frozenset({State.COMPLETED})), "mainspring_executions_job (job_id=?)"),
    (ExecutionQuery(**JOB, states=frozenset({State.FAILED})), "mainspring_history_job_outcome (job_id=? AND state=?)"),
    (ExecutionQuery(states=frozenset({State.FAILED})), "mainspring_history_outcome (state=?)"),
    (ExecutionQuery(**JOB, states=frozenset({State.PENDING})), "mainspring_live_job (job_id=?)"),
    (ExecutionQuery(**JOB, states=frozenset({State.RUNNING})), "mainspring_live_job (job_id=?)"),
    (ExecutionQuery(tenant="t"), "mainspring_executions_tenant (tenant=?)"),
    (ExecutionQuery(parent_id="p"), "mainspring_executions_parent (parent_id=?)"),
    (ExecutionQuery(trace_id="t"), "mainspring_executions_trace (foreign_trace=?)"),
    (ExecutionQuery(tenant="t", states=frozenset({State.FAILED})), "mainspring_executions_tenant (tenant=?)"),
]


FROM, TO = START - 3_600_000_000, START
IN_TIME = [
    (ExecutionQuery(created_from=FROM), "sqlite_autoindex_mainspring_executions_1 (id>?)"),
    (ExecutionQuery(created_to=TO), "sqlite_autoindex_mainspring_executions_1 (id<?)"),
    (ExecutionQuery(created_from=FROM, created_to=TO), "sqlite_autoindex_mainspring_executions_1 (id>? AND id<?)"),
    (ExecutionQuery(**JOB, created_from=FROM), "mainspring_executions_job (job_id=? AND id>?)"),
    (ExecutionQuery(tenant="t", created_from=FROM), "mainspring_executions_tenant (tenant=? AND id>?)"),
    (
        ExecutionQuery(states=frozenset({State.FAILED}), created_from=FROM, created_to=TO),
        "mainspring_history_outcome (state=? AND id>? AND id<?)",
    ),
    (
        ExecutionQuery(**JOB, states=frozenset({State.PENDING}), created_from=FROM, before=_id(500)),
        "mainspring_live_job (job_id=? AND id>? AND id<?)",
    ),
]


@pytest.mark.req("HIS-1", "HIS-3")
@pytest.mark.parametrize(("query", "index"), IN_TIME, ids=[index for _, index in IN_TIME])
def test_a_range_of_time_is_a_range_of_ids(database: sqlite3.Connection, query: ExecutionQuery, index: str) -> None:
    found = lists.searches(Transaction(database, FakeClock()), query)
    plans = [plan(database, search.ids(), *search.values, 50) for search in found]
    *in_order, stray = plans
    for steps in in_order:
        check(steps, index)
    assert "mainspring_executions_stray (created" in stray[0]
    check([step for step in stray if "TEMP B-TREE" not in step], "mainspring_executions_stray")


@pytest.mark.req("HIS-3")
def test_a_range_of_time_costs_what_lies_in_it(database: sqlite3.Connection) -> None:
    tx = Transaction(database, FakeClock())
    empty = ExecutionQuery(created_from=START + 86_400_000_000, created_to=START + 90_000_000_000)
    assert steps_of(database, lambda: lists.count(tx, empty, 1_000)) < 2_000, "not 125,000 rows"


@pytest.mark.req("HIS-1", "HIS-3")
@pytest.mark.parametrize(("query", "index"), FOUND, ids=[index for _, index in FOUND])
def test_a_list_comes_in_the_order_of_its_index(
    database: sqlite3.Connection, query: ExecutionQuery, index: str
) -> None:
    for asked in (query, replace(query, oldest_first=True)):
        for search in lists.searches(Transaction(database, FakeClock()), asked):
            steps = plan(database, search.ids(), *search.values, 50)
            check(steps, index)


def test_every_statement_can_be_prepared(database: sqlite3.Connection) -> None:
    for name in statement_names():
        text = sql(name)
        numbered = [int(number) for number in re.findall(r"\?(\d+)", text)]
        count = max(numbered) if numbered else text.count("?")
        assert plan(database, text, *[None] * count) is not None


def test_every_field_of_an_execution_has_its_place() -> None:
    columns = {"state", "token", "claimed", "started", "parked", "labels"}
    parts = (rows.Body, rows.LiveTail, rows.HistoryTail)
    placed = columns.union(*(part.__struct_fields__ for part in parts))
    assert placed == set(ExecutionRow.__struct_fields__)


def test_every_field_of_a_body_gets_its_own_value() -> None:
    known = {"id": "i", "job": "j", "job_id": "k", "handler": "h", "trace_id": "t", "params": "[1]", "policy": "[2]"}
    dates = {"tick": 1, "window_begin": 2, "window_end": 3, "created": 4, "due": 5, "priority": 6, "overlap_slots": 7}
    flow = {"share": "s", "weight": 9, "limits": "[3]", "flow": "f"}
    texts = ("queue", "trigger", "triggered_by", "traceparent", "tenant", "parent_id", "retry_of", "unique_key")
    keys = ("overlap_key", "running_unique_key", "running_overlap_key")
    execution = ExecutionRow(**known, **dates, **flow, **{name: name for name in (*texts, *keys)})
    assert rows.executions(rows.body(execution, 8)) == [replace(execution, number=8)]
