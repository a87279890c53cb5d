"""Workers that lose their lease while they live: paused, unheard, or overtaken by themselves."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from mainspring import Execution, State
from mainspring.core.views.execution import row_of
from mainspring.model.time.instants import to_micros
from tests.crash.handlers import LEASE, UNDISTURBED, Witnessed, build, go, hold
from tests.crash.ledger import Line
from tests.crash.processes import PATIENCE, Process, Processes, until
from tests.crash.tables import expire_leases


@pytest.mark.req("REL-1", "WRK-3", "WRK-4")
@pytest.mark.parametrize("heart", ["hears", "deaf"])
async def test_nothing_that_a_zombie_writes_is_accepted(tmp_path: Path, processes: Processes, heart: str) -> None:
    """It wakes up while another worker runs what it ran. A heart that hears has its renewal refused and tells; with a
    deaf one it learns from nothing but the refusal of what it writes."""
    app = build(tmp_path)
    try:
        executions = await app.enqueue_many([("wait",), ("wait",), ("wait_in_thread",), ("wait_in_thread",)])
        zombie = processes.node(**UNDISTURBED)
        await until(lambda: len(app.ledger.lines("began", pid=zombie.pid)) == 4, PATIENCE)
        if heart == "deaf":
            hold(tmp_path, f"beats-{zombie.pid}").touch()
            await until(lambda: app.ledger.lines("deaf", pid=zombie.pid), PATIENCE)
        await app.halt(zombie)
        halted = time.time_ns() // 1000
        expire_leases(tmp_path)
        heir = processes.node(**UNDISTURBED)
        await until(lambda: len(app.ledger.lines("began", pid=heir.pid)) == 4, PATIENCE)

        woken = time.time_ns() // 1000
        zombie.go_on()
        if heart == "hears":
            await until(lambda: _told(app, zombie, executions), PATIENCE)  # of some a beat later than of others
        else:
            await until(lambda: _refused(app, zombie, "log"), PATIENCE)
        go(tmp_path, 1).touch()
        await until(lambda: len(app.ledger.lines("fenced", pid=zombie.pid)) == 4, PATIENCE)
        assert len(_refused(app, zombie, "ending")) == 4
        assert heart == "hears" or not _refused(app, zombie, "lease")
        assert len(await app.running(heir)) == 4
        assert await _said_by(app, executions, claim=1, since=(halted + woken) // 2) == 0  # while it could say nothing

        go(tmp_path, 2).touch()
        await until(lambda: app.all_in(State.COMPLETED, executions), PATIENCE)
        for execution in [await app.get(each.id) for each in executions if each is not None]:
            assert execution.result == {"token": row_of(execution).token, "pid": heir.pid}
            assert row_of(execution).claims == 2
            assert [attempt.end for attempt in execution.attempts] == ["worker_lost", "completed"]
        heir.kill()
        hold(tmp_path, f"beats-{zombie.pid}").unlink(missing_ok=True)
        again = await app.enqueue("work")
        assert again is not None
        assert (await app.wait(again, PATIENCE)).result["pid"] == zombie.pid  # alive, and of use again
    finally:
        await app.close()


@pytest.mark.req("WRK-8")
@pytest.mark.parametrize("trouble", ["hang", "fail"])
async def test_a_worker_without_a_beat_for_a_lease_stops_its_own_handlers(
    tmp_path: Path, processes: Processes, trouble: str
) -> None:
    app = build(tmp_path)
    try:
        worker = processes.node()
        added = await app.enqueue_many([("wait",)] * 3)
        executions = [each for each in added if each is not None]
        await until(lambda: len(app.ledger.lines("began", claim=1)) == 3, PATIENCE)
        hold(tmp_path, "rescues").touch()  # nobody else takes them: it stops on its own account
        held = time.time()
        hold(tmp_path, f"beats-{trouble}").touch()
        await until(lambda: len(app.ledger.lines("interrupted", claim=1)) == 3, PATIENCE)
        assert max(line["at"] for line in app.ledger.lines("interrupted", claim=1)) < held + 3 * LEASE

        hold(tmp_path, f"beats-{trouble}").unlink()
        hold(tmp_path, "rescues").unlink()
        go(tmp_path, 2).touch()
        await until(lambda: app.all_in(State.COMPLETED, executions), PATIENCE)
        assert worker.alive
    finally:
        await app.close()


@pytest.mark.req("REL-1", "WRK-3")
async def test_a_worker_that_claims_its_own_lost_execution_again_keeps_the_two_runs_apart(
    tmp_path: Path, processes: Processes
) -> None:
    app = build(tmp_path)
    try:
        execution = await app.enqueue("wait_in_thread")
        assert execution is not None
        worker = processes.node(**UNDISTURBED)
        await until(lambda: app.ledger.lines("began", claim=1), PATIENCE)
        processes.node("scheduler")
        await app.halt(worker)
        expire_leases(tmp_path)
        await until(lambda: app.ledger.lines("rescued", id=execution.id), PATIENCE)
        worker.go_on()
        await until(lambda: app.ledger.lines("began", claim=2, pid=worker.pid), PATIENCE)

        go(tmp_path, 1).touch()
        await until(lambda: app.ledger.lines("fenced", claim=1), PATIENCE)
        await _renewed(app, execution.id, times=3)  # the second run keeps its own
        assert (await app.get(execution.id)).state is State.RUNNING

        go(tmp_path, 2).touch()
        ended = await app.wait(execution, PATIENCE)
        assert ended.result == {"token": row_of(ended).token, "pid": worker.pid}
        assert row_of(ended).claims == 2
        assert [attempt.end for attempt in ended.attempts] == ["worker_lost", "completed"]
        await until(lambda: app.ledger.lines("accepted", id=execution.id), PATIENCE)  # told of once it is stored
        assert len(app.ledger.lines("accepted", id=execution.id)) == 1
    finally:
        await app.close()


@pytest.mark.req("WRK-3", "WRK-4")
async def test_a_rescue_that_comes_after_the_renewal_changes_nothing(tmp_path: Path, processes: Processes) -> None:
    """The janitor has seen the lease run out; before it acts, the worker is back and has renewed it."""
    app = build(tmp_path)
    try:
        execution = await app.enqueue("wait")
        assert execution is not None
        worker = processes.node(**UNDISTURBED)
        await until(lambda: app.ledger.lines("began"), PATIENCE)
        hold(tmp_path, "rescues").touch()
        await app.halt(worker)
        expire_leases(tmp_path)
        janitor = processes.node("scheduler")
        await until(lambda: app.ledger.lines("holding", write="rescue", pid=janitor.pid), PATIENCE)
        worker.go_on()
        await _renewed(app, execution.id, times=1)
        hold(tmp_path, "rescues").unlink()
        await until(lambda: app.ledger.lines("refused", write="rescue", pid=janitor.pid), PATIENCE)

        go(tmp_path, 1).touch()
        ended = await app.wait(execution, PATIENCE)
        assert [attempt.end for attempt in ended.attempts] == ["completed"]
        assert (ended.failures, ended.crashes) == (0, 0)
    finally:
        await app.close()


@pytest.mark.req("WRK-4", "TIM-7")
async def test_a_process_that_was_paused_does_not_rescue_from_itself(tmp_path: Path, processes: Processes) -> None:
    """Alone on the machine, paused past its leases: its janitor gives its heart the time for a beat."""
    app = build(tmp_path)
    try:
        executions = await app.enqueue_many([("wait",)] * 5)
        worker = processes.node(lease=6, heartbeat=3)  # time enough for a beat on a busy machine too
        await until(lambda: len(app.ledger.lines("began")) == 5, PATIENCE)
        hold(tmp_path, "beats-hang").touch()
        await until(lambda: app.ledger.lines("holding", write="beat"), PATIENCE)
        await app.halt(worker)
        await until(lambda: _all_expired(app), PATIENCE)
        sign_of_life = await app.enqueue("release", {"what": "beats-hang"})  # by the worker, which is at work again
        assert sign_of_life is not None
        worker.go_on()
        await app.wait(sign_of_life, PATIENCE)
        await until(lambda: _none_expired(app), PATIENCE)

        go(tmp_path, 1).touch()
        await until(lambda: app.all_in(State.COMPLETED, executions), PATIENCE)
        assert [len((await app.get(each.id)).attempts) for each in executions if each is not None] == [1] * 5
        assert app.ledger.lines("rescued") == []
    finally:
        await app.close()


async def _said_by(app: Witnessed, executions: list[Execution | None], claim: int, since: int) -> int:
    """How many log lines that the runs of that claim said since are kept; no such run may have left its progress.
    (What was said and accepted before a pause may arrive after it, where lines lie apart from their execution.)"""
    lines = [line for each in executions if each is not None for _, line in await app.logs(each.id)]
    rows = [await app.get(each.id) for each in executions if each is not None]
    assert not any((row.progress or {}).get("message") == f"claim {claim}" for row in rows)
    return sum(line.message == f"claim {claim}" and to_micros(line.at) >= since for line in lines)


def _refused(app: Witnessed, process: Process, write: str) -> list[Line]:
    return app.ledger.lines("refused", pid=process.pid, write=write)


def _told(app: Witnessed, process: Process, executions: list[Execution | None]) -> bool:
    """The first two write nothing: a refused renewal alone tells them. The others may have had a note refused."""
    ids = [each.id for each in executions if each is not None]
    renewals, logs, notes = ({line["id"] for line in _refused(app, process, w)} for w in ("lease", "log", "note"))
    return set(ids[:2]) <= renewals and set(ids[2:]) <= renewals | logs | notes


async def _renewed(app: Witnessed, id: str, times: int) -> None:
    """Wait until the lease lies in the future and has been renewed so many times."""
    for _ in range(times):
        seen = row_of(await app.get(id)).lease

        async def later(seen: int | None = seen) -> bool:
            lease = row_of(await app.get(id)).lease
            return lease is not None and lease > (seen or 0) and lease > app._runtime.clock.now()

        await until(later, PATIENCE + LEASE)


async def _all_expired(app: Witnessed) -> bool:
    leases = [row_of(each).lease for each in await app.executions(running=True)]
    return all(lease <= app._runtime.clock.now() for lease in leases if lease)


async def _none_expired(app: Witnessed) -> bool:
    leases = [row_of(each).lease for each in await app.executions(running=True)]
    return all(lease > app._runtime.clock.now() for lease in leases if lease)
