"""Clients killed in the middle of enqueueing: what was acknowledged is there, what was not committed is not."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from mainspring import State
from tests.crash.client import IN_ONE_TRANSACTION, KEYS, RIVALS, TRIGGERS
from tests.crash.handlers import UNDISTURBED, Witnessed, build, go
from tests.crash.processes import PATIENCE, Process, Processes, until
from tests.crash.tables import is_intact, known, orders


@pytest.mark.req("REL-1", "ENQ-1")
async def test_every_acknowledged_enqueue_is_there(tmp_path: Path, processes: Processes) -> None:
    app = build(tmp_path)
    await app.open()
    try:
        for _ in range(2):
            await _kill_while_enqueueing(app, processes)
        wanted = {line["id"] for line in app.ledger.lines("acknowledged")}
        stored = set(known(tmp_path))
        assert wanted <= stored
        print(f"{len(wanted)} acknowledged, {len(stored)} stored")
        assert is_intact(tmp_path)
    finally:
        await app.close()


async def _kill_while_enqueueing(app: Witnessed, processes: Processes) -> None:
    """Several that want the same file, so that there is always a transaction under way somewhere."""
    clients = await _clients(app, processes, "enqueue", "many", "enqueue")
    for client in clients:
        await until(lambda pid=client.pid: len(app.ledger.lines("acknowledged", pid=pid)) > 300, PATIENCE)
    for client in clients:
        assert client.alive, client.said()
        client.kill()
    go(app.folder, 0).unlink()


@pytest.mark.req("ENQ-3")
async def test_a_key_wanted_by_many_processes_is_given_once(tmp_path: Path, processes: Processes) -> None:
    app = build(tmp_path)
    await app.open()
    try:
        clients = await _clients(app, processes, *["unique"] * RIVALS)
        await until(lambda: len(app.ledger.lines("tried")) == len(clients), PATIENCE)
        won = Counter(line["key"] for line in app.ledger.lines("won"))
        assert won == Counter(range(KEYS))
        assert len(known(tmp_path)) == KEYS
        assert len({line["pid"] for line in app.ledger.lines("won")}) > 1, "only one ever won: nothing was contested"
    finally:
        await app.close()


@pytest.mark.req("WIN-1")
async def test_a_job_that_may_not_overlap_runs_once_whoever_triggers_it(tmp_path: Path, processes: Processes) -> None:
    """Several processes trigger it, several workers could run it: each run begins after the one before has ended."""
    app = build(tmp_path)
    await app.open()
    try:
        for _ in range(2):
            processes.node(**UNDISTURBED)
        clients = await _clients(app, processes, *["trigger"] * 3, workers=2)
        await until(lambda: len(app.ledger.lines("tried")) == len(clients), PATIENCE)
        await until(lambda: _ended(app) == _triggered(app), PATIENCE)
        runs = [line["what"] for line in app.ledger.lines(job="exclusive")]
        assert runs == ["began", "ended"] * len(_triggered(app))
        stats = (await app.job_view("exclusive")).stats
        assert stats.completed == len(_triggered(app)) == len(clients) * TRIGGERS
        assert stats.skipped > 0, "nothing was contested"
        print(f"{stats.completed} ran, {stats.skipped} skipped")
    finally:
        await app.close()


async def _clients(app: Witnessed, processes: Processes, *commands: str, workers: int = 0) -> list[Process]:
    """Clients that begin at the same time, and not before so many workers take part."""
    clients = [processes.start("client", command) for command in commands]

    async def all_there() -> bool:
        ready = {line["pid"] for line in app.ledger.lines("ready")}
        return {client.pid for client in clients} <= ready and len(await app.workers()) == workers

    await until(all_there, PATIENCE, "all are there")
    go(app.folder, 0).touch()
    return clients


def _triggered(app: Witnessed) -> set[str]:
    return {line["id"] for line in app.ledger.lines("triggered")}


def _ended(app: Witnessed) -> set[str]:
    return {line["id"] for line in app.ledger.lines("accepted", state="completed")}


@pytest.mark.req("ENQ-2")
async def test_a_caller_killed_before_its_commit_has_enqueued_nothing(tmp_path: Path, processes: Processes) -> None:
    app = build(tmp_path)
    await app.open()
    try:
        client = processes.start("client", "transaction")
        await until(lambda: app.ledger.lines("waiting", pid=client.pid), PATIENCE)
        client.kill()
        assert known(tmp_path) == []
        assert orders(tmp_path) == []

        client = processes.start("client", "committed")
        await until(lambda: app.ledger.lines("waiting", pid=client.pid), PATIENCE)
        client.kill()
        stored = sorted(known(tmp_path))
        assert len(stored) == IN_ONE_TRANSACTION
        assert stored == sorted(orders(tmp_path))
        processes.node()
        executions = [await app.get(id) for id in stored]
        await until(lambda: app.all_in(State.COMPLETED, executions), PATIENCE)
    finally:
        await app.close()
