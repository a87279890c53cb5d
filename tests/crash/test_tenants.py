"""A job for 500 tenants while workers are killed: those that fail for good stop nobody, and every number is exact."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from mainspring import Execution, State
from mainspring.core.views.execution import row_of
from tests.crash.handlers import Witnessed, hold
from tests.crash.processes import PATIENCE, Process, Processes, until
from tests.crash.tables import live
from tests.crash.tally import TALLY
from tests.crash.tenant_node import BAD, LATE, TENANTS, TRIES, with_tenants

WORKERS = 3
KILLS = 3


@pytest.mark.req("TEN-1", "TEN-2", "TEN-3", "TEN-4", "REL-1")
async def test_five_hundred_tenants_whoever_is_killed(tmp_path: Path, processes: Processes) -> None:
    app = with_tenants(tmp_path)
    try:
        parent = await app.trigger("nightly")
        hold(tmp_path, "lists").touch()
        lister = processes.start("tenant_node", "worker")
        await until(lambda: _lists(app, parent), PATIENCE, "somebody asks for the tenants")
        _kill(lister)
        hold(tmp_path, "lists").unlink()
        for _ in range(WORKERS):
            processes.start("tenant_node", "worker")
        for number in range(KILLS):
            wanted = (number + 1) * TENANTS // (KILLS + 2)
            await until(lambda wanted=wanted: _completed(app, wanted), PATIENCE, f"{wanted} have completed")
            async with app.at_work():
                await until(lambda: _kill_a_busy_worker(app, processes), PATIENCE)
            processes.start("tenant_node", "worker")
        over = await app.wait(parent, timeout=PATIENCE)
        await _judge(app, over)
        await until(lambda: live(tmp_path) == 0, PATIENCE, "what else was at work has ended too")
        assert app.ledger.lines("trouble") == []
    finally:
        await app.close()


async def _lists(app: Witnessed, parent: Execution) -> bool:
    return (await app.get(parent.id)).state is State.RUNNING


async def _completed(app: Witnessed, at_least: int) -> bool:
    return (await app.job_view("nightly")).stats.completed >= at_least


async def _kill_a_busy_worker(app: Witnessed, processes: Processes) -> bool:
    """Stop one first, so that what the store says of it stays true until the kill."""
    for process in random.sample(alive := processes.alive(), len(alive)):
        process.pause()
        running = await app.running(process)
        if running and not any(row_of(execution).alone for execution in running):
            _kill(process)
            return True
        process.go_on()
    return False


def _kill(process: Process) -> None:
    process.kill()
    TALLY.kills += 1


async def _judge(app: Witnessed, parent: Execution) -> None:
    counts = {"total": TENANTS, "success": TENANTS - len(BAD), "failed": len(BAD)}
    assert (parent.state, parent.result, parent.counters) == (State.PARTIAL, counts, counts)
    ends = [attempt.end for attempt in parent.attempts]
    assert (ends[-1], set(ends[:-1])) == ("fanned_out", {"worker_lost"})
    found: list[Execution] = []
    while page := await app.executions(parent_id=parent.id, limit=500, before=found[-1].id if found else None):
        found += page
    assert len({each.tenant for each in found}) == len(found) == TENANTS
    for each in found:
        _judge_tenant(each)
    again = {run.tenant for run in await app.tenants.runs(parent, status="failed")}
    assert again == BAD


def _judge_tenant(child: Execution) -> None:
    ends = Counter(attempt.end for attempt in child.attempts)
    lost = ends["worker_lost"]
    assert set(ends) <= {"completed", "failed", "worker_lost", "handed_back"}
    assert (child.crashes, child.failures) == (lost, ends["failed"] + lost)
    if child.tenant in BAD:
        assert (child.state, child.failures, ends["completed"]) == (State.FAILED, TRIES, 0)
    else:
        failed = 2 if child.tenant in LATE else 0
        assert (child.state, ends["failed"], ends["completed"]) == (State.COMPLETED, failed, 1)
    assert child.attempts[-1].end in ("completed", "failed", "worker_lost")
