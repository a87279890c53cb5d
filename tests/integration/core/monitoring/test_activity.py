"""Activity over time, counted by two processes on each database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mainspring import Mainspring, every
from tests.mongo_server import mongo
from tests.servers import postgres
from tests.support import Nodes, until

KINDS = ["memory", "sqlite", "postgres", "mongo"]


@pytest.fixture(params=KINDS)
def nodes(request: pytest.FixtureRequest, tmp_path: Path) -> Nodes:
    servers = {"postgres": postgres, "mongo": lambda: mongo("replica_set")}
    server = servers[request.param]().migrated_database() if request.param in servers else None
    return Nodes(request.param, tmp_path, server)


def worker_of(nodes: Nodes) -> Mainspring:
    app = nodes.app(poll_interval=0.05)

    @app.job("work", max_attempts=1)
    async def work(fail: bool = False) -> None:
        if fail:
            raise ValueError("broken")

    @app.job("tick", trigger=every(seconds=1))
    async def tick() -> None:
        pass

    return app


@pytest.mark.req("DSH-1")
async def test_two_processes_add_to_the_same_buckets(nodes: Nodes) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    first, second = worker_of(nodes), worker_of(nodes)
    async with first, second:
        executions = [await first.enqueue("work", {"fail": n % 4 == 0}) for n in range(20)]
        waiting = await second.enqueue("work", start_at=later)
        assert waiting is not None
        await second.cancel(waiting)
        for execution in executions:
            assert execution is not None
            await first.wait(execution, timeout=30)
        await until(lambda: _ticked(first))
    async with nodes.client() as app:
        totals = (await app.monitoring.activity("7d")).totals
        ended = {state: len(await app.executions(status=state, limit=500)) for state in ("completed", "failed")}
    assert (totals.completed, totals.failed, totals.cancelled) == (ended["completed"], 5, 1)
    assert ended["failed"] == 5
    assert totals.ticks >= 1
    late = totals.late_at_most()
    assert late is not None
    assert late <= 60


async def _ticked(app: Mainspring) -> bool:
    return bool(await app.executions("tick", status="completed"))


@pytest.mark.req("DSH-1")
async def test_a_process_without_roles_adds_its_counts_when_it_is_closed(memory_nodes: Nodes) -> None:
    async with memory_nodes.client() as app:
        app.job("work")(lambda: None)
        execution = await app.enqueue("work")
        assert execution is not None
        await app.cancel(execution)
    async with memory_nodes.client() as app:
        assert (await app.monitoring.activity("1h")).totals.cancelled == 1
