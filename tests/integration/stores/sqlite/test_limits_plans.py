"""Shares, limits and triggers in the SQLite store: every statement walks along its index, and what a claim costs hangs
neither on the number of shares nor on that of parked rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainspring.model.execution import ExecutionRow, State
from mainspring.model.limits import Limit, encode_limits
from mainspring.model.store.messages import ClaimRequest, ExecutionQuery
from mainspring.stores.sqlite import migrate
from mainspring.stores.sqlite.executions import claim, insert, lists
from mainspring.stores.sqlite.executions.usual_endings import ClaimedRows
from mainspring.stores.sqlite.statements import sql
from mainspring.stores.sqlite.threads import connect
from mainspring.stores.sqlite.transaction import Transaction
from mainspring.testing.clock import START, FakeClock
from tests.integration.stores.sqlite.test_plans import check, plan, steps_of

SHARES = 2_000
PARKED = 2_000
PARKED_LINE = "1 tight/crawl"
LANE = "fair/crawl//fair"
REQUEST = ClaimRequest(owner="w", handlers=frozenset({"crawl"}), queues=None, limit=10, lease=30.0)


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Many shares ready, many rows parked for slots and tokens, and a few executions of rare triggers."""
    path = tmp_path_factory.mktemp("flow") / "flow.db"
    connection = connect.connect(str(path), "OFF", 5.0)
    migrate.migrate(connection, str(path), 5.0)
    connection.execute("BEGIN")
    fair = [_execution(n, queue="fair", share=f"tenant-{n % SHARES}") for n in range(2 * SHARES)]
    parked = [
        _execution(10_000 + n, queue="tight", limits=encode_limits([limit]))
        for limit in (Limit("slots", concurrency=1), Limit("tokens", rate=0.01))
        for n in range(PARKED * (limit.key == "slots"), PARKED * (1 + (limit.key == "slots")))
    ]
    rare = [_execution(20_000 + n, queue="rare", trigger="schedule") for n in range(50)]
    _add(connection, fair + parked + rare)
    for _ in range(3):
        _claim(connection, queues=frozenset({"tight"}), limit=PARKED)
    connection.execute("COMMIT")
    connection.close()
    return path


@pytest.fixture(params=["fresh", "analysed"])
def database(request: pytest.FixtureRequest, seeded: Path) -> Iterator[sqlite3.Connection]:
    """Whatever a test does is rolled back."""
    connection = sqlite3.connect(seeded, isolation_level=None)
    if request.param == "analysed":
        connection.execute("ANALYZE")
    connection.execute("BEGIN")
    yield connection
    connection.execute("ROLLBACK")
    connection.close()


def _execution(number: int, **fields: object) -> ExecutionRow:
    base = {"id": _id(number), "job": "job", "job_id": "job-1", "handler": "crawl", "created": START, "due": START}
    return ExecutionRow(**{**base, **fields})  # type: ignore[arg-type]


def _id(number: int) -> str:
    return f"019b7000-0000-7000-8000-{number:012x}"


def _add(connection: sqlite3.Connection, executions: list[ExecutionRow]) -> None:
    tx = Transaction(connection, FakeClock())
    insert.add(tx, executions)
    tx.flush()


def _claim(connection: sqlite3.Connection, **fields: object) -> tuple[ExecutionRow, ...]:
    request = ClaimRequest(**{**_fields(REQUEST), **fields})  # type: ignore[arg-type]
    return claim.exchange(Transaction(connection, FakeClock()), [], request, ClaimedRows()).claimed


def _fields(request: ClaimRequest) -> dict[str, object]:
    return {name: getattr(request, name) for name in request.__struct_fields__}


HOT = [
    ("next_due", (START,), ("mainspring_live_scheduled", "mainspring_waits_look")),
    ("candidates", (f'["{LANE}"]', 100), ("mainspring_live_ready (lane=?)",)),
    ("promoted_shares", (START, 100), ("mainspring_live_scheduled (due<?)",)),
    ("tag_smallest", (LANE, 0), ("mainspring_live_ready (lane=? AND priority=?)",)),
    ("tag_greatest", (LANE, 0, "tenant-7"), ("mainspring_live_share (lane=? AND share=? AND priority=?)",)),
    ("tag_rows", ("[[1, 2]]",), ("INTEGER PRIMARY KEY (rowid=?)",)),
    ("slots_held", ("slots",), ("PRIMARY KEY (key=?)",)),
    ("slots_leave", ("slots", "[1]"), ("PRIMARY KEY (key=? AND seq=?)",)),
    ("bucket", ("tokens",), ("PRIMARY KEY (key=?)",)),
    ("standing", ("[1]",), ("INTEGER PRIMARY KEY (rowid=?)",)),
    ("park", ('[[1, "slot:slots", "1 tight/crawl", 0]]',), ("INTEGER PRIMARY KEY (rowid=?)",)),
    ("lines", ("slot:slots",), ("mainspring_live_parked (parked=?)", "mainspring_live_parked (parked=? AND line>?)")),
    ("unpark", ("slot:slots", PARKED_LINE, 1, START), ("mainspring_live_parked (parked=? AND line=?)",)),
    (
        "place_smallest",
        ("slot:slots", PARKED_LINE, 0),
        ("mainspring_live_parked (parked=? AND line=? AND priority=?)",),
    ),
    (
        "place_greatest",
        ("slot:slots", PARKED_LINE, 0, "tenant-7"),
        ("mainspring_live_places (parked=? AND line=? AND share=? AND priority=?)",),
    ),
    ("waits_due", (START, 10, START), ("mainspring_waits_look (look<?)", "mainspring_waits_look (look>?)")),
    ("wait_look", ("slot:slots", START), ("PRIMARY KEY (parked=?)",)),
    ("wait_end", ("slot:slots",), ("PRIMARY KEY (parked=?)", "mainspring_live_parked (parked=?)")),
    ("endings_some", ('["job-1"]',), ("PRIMARY KEY (job_id=?)",)),
    ("purge_endings", ("job-1",), ("PRIMARY KEY (job_id=?)",)),
]


@pytest.mark.req("FLW-3", "TEN-5", "NUM-2")
@pytest.mark.parametrize(("name", "values", "indexes"), HOT, ids=[name for name, _, _ in HOT])
def test_a_statement_walks_along_its_index(
    database: sqlite3.Connection, name: str, values: tuple[object, ...], indexes: tuple[str, ...]
) -> None:
    check(plan(database, sql(name), *values), *indexes)


FAILED, COMPLETED = frozenset({State.FAILED}), frozenset({State.COMPLETED})
FOUND = [
    (ExecutionQuery(trigger="schedule"), "mainspring_executions_trigger (rare_trigger=?)"),
    (ExecutionQuery(trigger="schedule", before=_id(9)), "mainspring_executions_trigger (rare_trigger=? AND id<?)"),
    (ExecutionQuery(trigger="schedule", states=COMPLETED), "mainspring_executions_trigger (rare_trigger=?)"),
    (ExecutionQuery(trigger="schedule", states=FAILED), "mainspring_history_outcome (state=?)"),
    (
        ExecutionQuery(trigger="schedule", job_id="job-1"),
        "mainspring_executions_job_trigger (job_id=? AND rare_trigger=?)",
    ),
    (ExecutionQuery(trigger="enqueue"), "sqlite_autoindex_mainspring_executions_1"),
    (ExecutionQuery(trigger="enqueue", job_id="job-1"), "mainspring_executions_job (job_id=?)"),
]


@pytest.mark.req("HIS-1", "HIS-3")
@pytest.mark.parametrize(("query", "index"), FOUND, ids=[str(number) for number in range(len(FOUND))])
def test_a_list_by_trigger_comes_in_the_order_of_its_index(
    database: sqlite3.Connection, query: ExecutionQuery, index: str
) -> None:
    for search in lists.searches(Transaction(database, FakeClock()), query):
        check(plan(database, search.ids(), *search.values, 50), index)


@pytest.mark.req("TEN-5", "NUM-2")
def test_a_claim_costs_the_same_however_many_shares_wait(database: sqlite3.Connection) -> None:
    fair = {"queues": frozenset({"fair"})}
    many = steps_of(database, lambda: _claim(database, **fair))
    _only_shares(database, 20)
    few = steps_of(database, lambda: _claim(database, **fair))
    assert few > 0
    assert many < 1.5 * few, f"{many} instructions with {SHARES} shares, {few} with 20"


def _only_shares(database: sqlite3.Connection, count: int) -> None:
    kept = {f"tenant-{n}" for n in range(count, 2 * count)}
    names = ", ".join(f"'{name}'" for name in kept)
    database.execute(f"DELETE FROM mainspring_live WHERE share NOT IN ({names})")


@pytest.mark.req("FLW-3", "NUM-2")
def test_a_claim_costs_the_same_however_many_rows_are_parked(database: sqlite3.Connection) -> None:
    [(parked,)] = database.execute("SELECT count(*) FROM mainspring_live WHERE parked IS NOT NULL")
    assert parked > 2 * PARKED - 20
    many = steps_of(database, lambda: _claim(database, queues=frozenset({"rare"})))
    database.execute("DELETE FROM mainspring_live WHERE parked IS NOT NULL")
    few = steps_of(database, lambda: _claim(database, queues=frozenset({"rare"})))
    assert many < 1.5 * few, f"{many} instructions beside parked rows, {few} without"


@pytest.mark.req("FLW-3")
def test_rows_are_woken_one_by_one_however_many_are_parked(database: sqlite3.Connection) -> None:
    assert database.execute(sql("lines"), ("slot:slots",)).fetchall() == [(PARKED_LINE,)]
    for name, values in (("unpark", (PARKED_LINE, 1, START)), ("lines", ())):
        statement = sql(name)
        steps = steps_of(database, lambda: database.execute(statement, ("slot:slots", *values)).fetchall())  # noqa: B023
        assert steps < 1_000, f"{name}: not {PARKED} rows"
