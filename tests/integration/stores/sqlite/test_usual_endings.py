"""The usual ending, which the SQLite store moves to history inside the database, is the same as any other ending.

A store that has not claimed an execution itself cannot take that way: what it makes of the same change is the measure.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from mainspring.model.execution import AttemptRecord, ExecutionRow, State
from mainspring.model.job import JobStats
from mainspring.model.store.messages import CancelRequest, Change, ProgressReport
from mainspring.stores.sqlite import SqliteStore
from mainspring.stores.sqlite.executions import usual_endings
from tests.integration.stores.sqlite_support import ALL, change, claim_request, execution, opened


@asynccontextmanager
async def two_stores(folder: Path) -> AsyncIterator[tuple[SqliteStore, SqliteStore]]:
    """On one file."""
    async with opened(folder / "store.db") as store, opened(folder / "store.db") as other:
        yield store, other


def ending(row: ExecutionRow, **fields: Any) -> Change:
    """A completed try, as the engine tells of it."""
    attempt = AttemptRecord(1, row.owner or "", row.due, row.due + 1, "completed")
    return replace(change(row, State.COMPLETED), **{"attempt": attempt, **fields})


def unnamed(row: ExecutionRow) -> ExecutionRow:
    return replace(row, id="", job="", job_id="", unique_key=None, overlap_key=None)


ADDED: list[dict[str, Any]] = [
    {},
    {"priority": 7, "tenant": "t", "trace_id": "0" * 32, "traceparent": "x", "params": '{"a":"ä"}', "created": 3},
    {"parent_id": "parent", "retry_of": "other", "tick": 5, "window_begin": 1, "window_end": 2},
]
TOLD: list[dict[str, Any]] = [
    {},
    {"result_json": '{"a":"\\"quoted\\""}', "counters_json": '{"n":1}', "metadata_json": "{}", "reason": "because"},
    {"todo": True, "keep": False, "failures": 2, "crashes": 1},
    {"attempt": None},
]


@pytest.mark.req("HIS-1", "REL-1")
@pytest.mark.parametrize("told", TOLD, ids=["plain", "texts", "todo", "no attempt"])
@pytest.mark.parametrize("added", ADDED, ids=["plain", "described", "related"])
async def test_the_record_is_the_same_either_way(tmp_path: Path, added: dict[str, Any], told: dict[str, Any]) -> None:
    """Two executions of two jobs, alike in all but their names: one is settled where it was claimed."""
    async with two_stores(tmp_path) as (store, other):
        await store.add([execution(n, job=f"job-{n}", job_id=f"job-{n}", **added) for n in (1, 2)])
        mine, theirs = (await store.exchange([], claim_request("worker"))).claimed
        assert (await store.exchange([ending(mine, **told)], None)).applied == (True,)
        assert (await other.exchange([ending(theirs, **told)], None)).applied == (True,)
        second, first = await store.find(ALL)
        assert [first.id, first.state] == [mine.id, State.COMPLETED]
        assert unnamed(first) == unnamed(second)
        stats = await store.stats()
        assert replace(stats["job-1"], job_id="", last_id="") == replace(stats["job-2"], job_id="", last_id="")
        assert stats["job-1"].completed == stats["job-1"].timed == 1
        assert await store.live_counts() == {}


async def test_a_key_is_recorded_and_freed(tmp_path: Path) -> None:
    async with two_stores(tmp_path) as (store, _):
        waiting = execution(2, staged=True, running_unique_key="u")
        await store.add([execution(1, unique_key="u", overlap_key="o"), waiting])
        reply = await store.exchange([], claim_request("worker"))
        [row], [blocked] = reply.claimed, reply.blocked
        assert blocked.holder == row.id
        reply = await store.exchange([ending(row)], claim_request("worker"))
        assert [(next_one.id, next_one.unique_key) for next_one in reply.claimed] == [(waiting.id, "u")]
        _, ended = await store.find(ALL)
        assert (ended.unique_key, ended.overlap_key) == ("u", "o")


@pytest.mark.req("REL-1", "WRK-3")
async def test_rows_that_changed_since_their_claim_are_settled_as_they_are(tmp_path: Path) -> None:
    """In one batch: untouched, with progress, asked to stop, taken over by another worker, ended before."""
    async with two_stores(tmp_path) as (store, other):
        await store.add([execution(n) for n in range(1, 7)])
        rows = (await store.exchange([], claim_request("w1"))).claimed
        _, noted, asked, taken, ended, _ = rows
        await store.report([ProgressReport(id=noted.id, token=noted.token, owner="w1", progress_json='{"percent":50}')])
        await store.request_cancel([CancelRequest(id=asked.id, token=asked.token, at=1, reason="enough")])
        await other.exchange([change(taken, State.PENDING)], claim_request("w2"))
        await other.exchange([ending(ended)], None)
        applied = (await store.exchange([ending(row) for row in rows], None)).applied
        assert applied == (True, True, True, False, False, True)
        found = {row.id: row for row in await store.find(ALL)}
        assert [found[row.id].state for row in rows].count(State.COMPLETED) == 5
        assert found[taken.id].owner == "w2"
        assert found[noted.id].progress_json == '{"percent":50}'
        assert found[asked.id].cancel_reason == "enough"
        assert all(len(found[row.id].attempts) == 1 for row in rows if row is not taken)
        [stats] = (await store.stats()).values()
        assert stats.completed == 5


async def test_of_two_changes_of_one_execution_the_first_counts(tmp_path: Path) -> None:
    async with two_stores(tmp_path) as (store, _):
        await store.add([execution(1)])
        [row] = (await store.exchange([], claim_request("worker"))).claimed
        both = [change(row, State.PENDING), ending(row)]
        assert (await store.exchange(both, None)).applied == (True, False)
        [after] = await store.find(ALL)
        assert after.state is State.PENDING


def test_the_statistics_of_many_are_those_of_each() -> None:
    rows = [execution(n, state=State.RUNNING, token=1, owner="w", started=n * 1_000) for n in range(1, 4)]
    rows[1] = replace(rows[1], trigger="api")
    endings = [(n, row, replace(ending(row), at=10_000)) for n, row in enumerate(rows)]
    assert usual_endings.completed_delta("job-1", endings) == JobStats(
        job_id="job-1",
        completed=3,
        duration_ms=24.0,
        timed=3,
        last_id=rows[2].id,
        last_state=State.COMPLETED,
        last_started=3_000,
        last_finished=10_000,
        by_trigger={"enqueue:completed": 2, "api:completed": 1},
    )
