"""A cancel travels between processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from mainspring import State
from mainspring.core.views.execution import row_of
from tests.crash.handlers import UNDISTURBED, Witnessed, build, go
from tests.crash.processes import PATIENCE, Processes, until
from tests.crash.tables import expire_leases

DEADLINE = 2.0  # the promise is one second; the rest is for a busy machine


@pytest.mark.req("WRK-9", "EXE-9")
async def test_a_cancel_stops_what_runs_in_another_process(tmp_path: Path, processes: Processes) -> None:
    app = build(tmp_path)
    try:
        worker = processes.node(heartbeat="10m", lease="30m", poll_interval="10m")  # only a wake-up can tell it
        running, neighbour = [each for each in await app.enqueue_many([("wait",)] * 2) if each is not None]
        await until(lambda: len(app.ledger.lines("began", pid=worker.pid)) == 2, PATIENCE)
        client = processes.start("client", "cancel", running.id)
        [asked] = await until(lambda: app.ledger.lines("asked", pid=client.pid), PATIENCE)
        await until(lambda: app.all_in(State.CANCELLED, [running]), PATIENCE)
        ended = await app.get(running.id)
        assert row_of(ended).finished is not None
        took = row_of(ended).finished / 1e6 - asked["at"]
        print(f"stopped {took:.2f} s after the cancel was acknowledged")
        assert took < DEADLINE
        assert ended.reason == "cancelled by operator"
        assert [attempt.end for attempt in ended.attempts] == ["cancelled"]
        assert ended.failures == 0
        assert (await app.get(neighbour.id)).state is State.RUNNING
        go(tmp_path, 1).touch()
        await until(lambda: app.all_in(State.COMPLETED, [neighbour]), PATIENCE)
    finally:
        await app.close()


@pytest.mark.req("WRK-9", "WRK-4")
async def test_a_cancel_is_not_lost_with_the_worker_it_was_meant_for(tmp_path: Path, processes: Processes) -> None:
    """A plain function does not look; its worker dies; nobody may run it again."""
    app = build(tmp_path)
    try:
        worker = processes.node(**UNDISTURBED)
        execution = await app.enqueue("wait_in_thread")
        assert execution is not None
        await until(lambda: app.ledger.lines("began"), PATIENCE)
        processes.start("client", "cancel", execution.id)
        await until(lambda: _asked(app, execution.id), PATIENCE)
        worker.kill()
        expire_leases(tmp_path)
        processes.node()
        await until(lambda: app.all_in(State.CANCELLED, [execution]), PATIENCE)
        assert len(app.ledger.lines("began")) == 1
    finally:
        await app.close()


async def _asked(app: Witnessed, id: str) -> bool:
    return (await app.get(id)).cancel_requested_at is not None
