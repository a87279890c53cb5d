"""The newest runs of jobs, as grids and timelines show them."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from mainspring.model.execution import State
from tests.support import Nodes


@pytest.mark.req("DSH-1")
async def test_by_name_with_instants_that_a_pause_does_not_move(tmp_path: Path) -> None:
    async with Nodes("memory", tmp_path).client() as app:
        app.job("work")(lambda: None)
        app.job("rest")(lambda: None)
        first, second = await app.enqueue("work"), await app.enqueue("work")
        assert first is not None
        assert second is not None
        await app.pause("work", note="later")
        queries = (await app._runtime.engine()).queries
        views = await queries.jobs()
        found = await queries.newest_runs(views)
        assert {name: [run.id for run in runs] for name, runs in found.items()} == {
            "work": [second.id, first.id],
            "rest": [],
        }
        newest = found["work"][0]
        assert (newest.state, newest.trigger, newest.duration_ms) == (State.PENDING, "enqueue", None)
        assert newest.start_at == newest.created_at == second.created_at
        later = await queries.newest_runs(views, since=newest.created_at + timedelta(microseconds=1))
        assert later == {"work": [], "rest": []}
