"""Stopping a process that has work: within its time, in good order, and never waiting for a handler for ever."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from mainspring import Execution, State
from tests.crash.handlers import UNDISTURBED, Witnessed, build, go
from tests.crash.processes import PATIENCE, Process, Processes, until
from tests.crash.tables import expire_leases

STOP, RESERVE = 20.0, 16.0
"""Seconds in all, and those of them for handing back, to a disk on which other tests commit all the time. A watchdog
ends what takes longer, with exit code 1."""
TEN = ["wait"] * 4 + ["wait_in_thread"] * 4 + ["stubborn"] * 2


@pytest.mark.req("WRK-5", "EXE-4")
async def test_ten_long_handlers_come_back_uncounted(tmp_path: Path, processes: Processes) -> None:
    app = build(tmp_path)
    try:
        worker = processes.node(stop_timeout=STOP, stop_reserve=RESERVE, concurrency=12, **UNDISTURBED)
        executions = await _running(app, TEN)
        began = time.monotonic()
        worker.send(signal.SIGTERM)
        await until(lambda: app.ledger.lines("stopping"), PATIENCE, "the worker has heard")
        late = await app.enqueue("work")
        assert late is not None
        await until(lambda: not worker.alive, PATIENCE)
        took = time.monotonic() - began
        print(f"stopped after {took:.1f} of {STOP:g} s")
        assert worker.exit_code == 0, worker.said()
        for execution in [await app.get(each.id) for each in executions]:
            assert execution.state is State.PENDING
            assert (execution.failures, execution.crashes, execution.attempt) == (0, 0, 1)
            assert [attempt.end for attempt in execution.attempts] == ["handed_back"]
        late = await app.get(late.id)  # a claim that was on its way may bring it, but it does not begin any more
        assert (late.state, late.failures) == (State.PENDING, 0)
        assert {attempt.end for attempt in late.attempts} <= {"handed_back"}
        assert not app.ledger.lines("began", id=late.id)
        assert app.ledger.lines("swallowed"), "the stubborn ones were asked"

        go(tmp_path, 2).touch()
        processes.node(**UNDISTURBED)
        await until(lambda: app.all_in(State.COMPLETED, [*executions, late]), PATIENCE)
        assert [(await app.get(each.id)).failures for each in executions] == [0] * 10
        assert app.ledger.lines("rescued") == []
    finally:
        await app.close()


@pytest.mark.req("WRK-5")
async def test_a_handler_that_ends_in_time_completes(tmp_path: Path, processes: Processes) -> None:
    app = build(tmp_path)
    try:
        worker = processes.node(stop_timeout=600, **UNDISTURBED)
        executions = await _running(app, ["wait", "wait_in_thread"])
        worker.send(signal.SIGINT)
        go(tmp_path, 1).touch()
        await until(lambda: not worker.alive, PATIENCE, "nobody waits for the rest of the ten minutes")
        assert worker.exit_code == 0, worker.said()
        assert await app.all_in(State.COMPLETED, executions)
    finally:
        await app.close()


@pytest.mark.req("WRK-5", "WRK-4")
async def test_a_second_signal_stops_at_once(tmp_path: Path, processes: Processes) -> None:
    app = build(tmp_path)
    try:
        worker = processes.node(stop_timeout=600, **UNDISTURBED)
        executions = await _running(app, TEN)
        worker.send(signal.SIGTERM)
        late = await app.enqueue("work")
        assert late is not None
        await until(lambda: app.ledger.lines("stopping", pid=worker.pid), PATIENCE)
        await until(lambda: _told_again(worker), PATIENCE)
        assert await app.all_in(State.RUNNING, executions)  # nobody handed them back: the lease has to run out

        expire_leases(tmp_path)
        go(tmp_path, 2).touch()
        processes.node(**UNDISTURBED)
        await until(lambda: app.all_in(State.COMPLETED, [*executions, late]), PATIENCE)
    finally:
        await app.close()


@pytest.mark.req("WRK-5")
async def test_a_handler_that_blocks_the_event_loop_for_good_does_not_keep_the_process(
    tmp_path: Path, processes: Processes
) -> None:
    app = build(tmp_path)
    try:
        worker = processes.node(stop_timeout=2, **UNDISTURBED)
        [execution] = await _running(app, ["block_loop"], seconds=600)
        worker.send(signal.SIGTERM)
        await until(lambda: not worker.alive, PATIENCE)
        assert worker.exit_code == 1
        assert "blocks the event loop" in worker.said()

        expire_leases(tmp_path)
        processes.node("scheduler")
        await until(lambda: app.all_in(State.PENDING, [execution]), PATIENCE)
    finally:
        await app.close()


async def _running(app: Witnessed, handlers: list[str], **params: object) -> list[Execution]:
    added = await app.enqueue_many([(name, params) for name in handlers])
    await until(lambda: len(app.ledger.lines("began")) == len(handlers), PATIENCE)
    return [each for each in added if each is not None]


def _told_again(worker: Process) -> bool:
    """An impatient operator: two signals at once would be one wish."""
    if worker.alive:
        worker.send(signal.SIGTERM)
    return not worker.alive
