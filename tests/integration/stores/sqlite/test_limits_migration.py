"""A file from before shares, limits and counts by trigger: what it holds is found by trigger, and goes on."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from mainspring.admin.copy import opened
from mainspring.model.execution import ExecutionRow, State
from mainspring.model.execution import lane as lane_of
from mainspring.model.limits import Limit, encode_limits
from mainspring.model.store.messages import ExecutionQuery
from mainspring.stores.sqlite.executions import rows
from mainspring.stores.sqlite.statements import migrations
from mainspring.testing.clock import START
from tests.integration.stores.sqlite_support import claim_request

BEFORE = 4


@pytest.mark.req("OPS-5")
async def test_an_older_file_learns_of_triggers_shares_and_limits(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "old.db")) as connection, connection:
        _fill(connection)
    async with opened(f"sqlite:///{tmp_path}/old.db") as store:
        stats = await store.stats()
        assert stats["job-1"].by_trigger == {"schedule:completed": 2, "enqueue:completed": 1, "api:failed": 1}
        found = await store.find(ExecutionQuery(trigger="schedule"))
        assert [row.id for row in found] == [_id(5), _id(1), _id(0)]
        assert [row.id for row in await store.find(ExecutionQuery(trigger="enqueue"))] == [_id(4), _id(2)]
        limited = {"share": "s", "limits": encode_limits([Limit("k", concurrency=1)])}
        await store.add([_execution(10, **limited), _execution(11, **limited)])
        answer = await store.exchange([], claim_request("w"))
        assert [row.id for row in answer.claimed] == [_id(4), _id(10), _id(5)], (
            "lanes take turns, old rows and new ones"
        )
        [parked] = [row for row in await store.find(ExecutionQuery()) if row.parked is not None]
        assert (parked.id, parked.parked) == (_id(11), "k")


@pytest.mark.req("OPS-5", "FLW-3")
async def test_rows_that_an_earlier_release_has_parked_are_judged_anew(tmp_path: Path) -> None:
    limits = encode_limits([Limit("k", concurrency=1)])
    with closing(sqlite3.connect(tmp_path / "old.db")) as connection, connection:
        _migrate(connection, 6)
        plain = lane_of("default", "work")
        for number, lane, share in ((0, plain, None), (1, f"{plain}//fair", "a")):
            row = _execution(number, share=share, limits=limits)
            connection.execute(
                "INSERT INTO mainspring_executions (seq, id, job_id, created, body) VALUES (?, ?, 'job-1', ?, ?)",
                (number + 1, row.id, row.created, rows.body(row, number + 1)),
            )
            connection.execute(
                "INSERT INTO mainspring_live (seq, id, job_id, phase, lane, priority, due, share, parked)"
                " VALUES (?, ?, 'job-1', 4, ?, 0, 0, ?, 'slot:k')",
                (number + 1, row.id, lane, share),
            )
        connection.execute("INSERT INTO mainspring_waits (parked, look) VALUES ('slot:k', ?)", (START * 2,))
    async with opened(f"sqlite:///{tmp_path}/old.db") as store:
        [first] = (await store.exchange([], claim_request("w"))).claimed
        [parked] = [row for row in await store.find(ExecutionQuery()) if row.parked is not None]
        assert {first.id, parked.id} == {_id(0), _id(1)}


def _migrate(connection: sqlite3.Connection, newest: int) -> None:
    connection.create_function("mainspring_lower", 1, str.lower)
    for number, text in migrations():
        if number <= newest:
            connection.executescript(text)
    connection.execute("UPDATE mainspring_meta SET value = ? WHERE key = 'schema'", (newest,))


def _fill(connection: sqlite3.Connection) -> None:
    """Four that have ended and two that are ready, as an earlier release has left them."""
    _migrate(connection, BEFORE)
    triggers = ("schedule", "schedule", "enqueue", "api", "enqueue", "schedule")
    for number, trigger in enumerate(triggers):
        row = _execution(number, trigger=trigger)
        connection.execute(
            "INSERT INTO mainspring_executions (seq, id, job_id, created, body) VALUES (?, ?, ?, ?, ?)",
            (number + 1, row.id, row.job_id, row.created, rows.body(row, number + 1)),
        )
    for number in range(4):
        state = State.FAILED if triggers[number] == "api" else State.COMPLETED
        connection.execute(
            "INSERT INTO mainspring_history (seq, id, job_id, state, todo, keep, due, token, finished)"
            " VALUES (?, ?, 'job-1', ?, 0, 1, 0, 1, 1)",
            (number + 1, _id(number), state.value),
        )
    for number in (4, 5):
        connection.execute(
            "INSERT INTO mainspring_live (seq, id, job_id, phase, lane, priority, due)"
            " VALUES (?, ?, 'job-1', 1, 'default/work', 0, 0)",
            (number + 1, _id(number)),
        )
    connection.execute("INSERT INTO mainspring_incarnations VALUES ('job-1', 'job', 6, 4)")
    connection.execute(
        "INSERT INTO mainspring_totals VALUES ('job-1', 3, 0, 1, 0, 0, 0, 0, 0, ?, 'failed', 1, 1, NULL, 1)", (_id(3),)
    )


def _execution(number: int, **fields: object) -> ExecutionRow:
    base = {"id": _id(number), "job": "job", "job_id": "job-1", "handler": "work", "created": START, "due": START}
    return ExecutionRow(**{**base, **fields})  # type: ignore[arg-type]


def _id(number: int) -> str:
    return f"019b7000-0000-7000-8000-{number:012x}"
