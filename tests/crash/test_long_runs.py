"""Handlers that run far longer than a lease, whatever they do to their process, are nobody's orphans."""

from __future__ import annotations

from pathlib import Path

import pytest

from mainspring import Execution, State
from mainspring.core.views.execution import row_of
from tests.crash.handlers import Witnessed, build
from tests.crash.processes import PATIENCE, Processes, until

LEASE = 2.5
RUN = 5 * LEASE
GROUPS = {"blocking": ["block_loop"], "computing": ["compute"], "sleeping": ["sleep_on_loop", "sleep_in_thread"]}
"""A queue and a worker each, so that those that block the event loop run beside the others."""


@pytest.mark.req("WRK-3", "WRK-4")
async def test_a_handler_that_runs_five_leases_is_not_rescued(tmp_path: Path, processes: Processes) -> None:
    app = build(tmp_path)
    try:
        processes.node("scheduler", lease=LEASE, heartbeat=LEASE / 5)
        executions = [each for queue in GROUPS for each in await _in_a_worker_of_its_own(app, processes, queue)]
        await until(lambda: app.all_in(State.COMPLETED, executions), PATIENCE)
        await _judge(app, executions)
    finally:
        await app.close()


async def _in_a_worker_of_its_own(app: Witnessed, processes: Processes, queue: str) -> list[Execution]:
    processes.node("worker", lease=LEASE, heartbeat=LEASE / 5, queues=queue)
    added = await app.enqueue_many([(name, {"seconds": RUN}) for name in GROUPS[queue]], queue=queue)
    return [each for each in added if each is not None]


async def _judge(app: Witnessed, executions: list[Execution]) -> None:
    for execution in [await app.get(each.id) for each in executions]:
        assert [attempt.end for attempt in execution.attempts] == ["completed"]
        assert (execution.failures, execution.crashes, row_of(execution).claims) == (0, 0, 1)
        assert execution.duration_ms is not None
        assert execution.duration_ms >= RUN * 1000 * 0.99
    assert app.ledger.lines("rescued") == []
    assert len(app.ledger.lines("began")) == len(executions)
    assert sum([view.stats.rescued for view in await app.jobs()]) == 0
