"""What isolation saves a worker from, and what a worker that is killed leaves behind: nothing."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainspring import State
from mainspring.processes.resources import family
from tests.crash.isolation_node import FOLDER, HARMFUL, build
from tests.crash.processes import PATIENCE, Processes, until

CELLS = [f"{place}_{what}" for place in ("async", "thread") for what in HARMFUL]


@pytest.fixture
def workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Processes]:
    """On a database of SQLite only: stores have no part in this."""
    monkeypatch.setenv(FOLDER, str(tmp_path))
    started = Processes(tmp_path)
    try:
        yield started
    finally:
        started.kill_all()


@pytest.mark.req("EXE-8", "EXE-12")
async def test_without_isolation_the_worker_is_lost_and_another_takes_over(workers: Processes, tmp_path: Path) -> None:
    """Each cell has a worker of its own to harm. None of the executions is lost."""
    app = build(isolated=False, roles="worker")
    try:
        executions = {cell: await app.enqueue(cell) for cell in CELLS}
        victims = {cell: workers.start("isolation_node", cell) for cell in CELLS}
        await until(lambda: all((tmp_path / cell).exists() for cell in CELLS), PATIENCE)
        for cell, victim in victims.items():
            if not cell.endswith("blocks"):
                await until(lambda victim=victim: not victim.alive, PATIENCE)
        await app.start()
        for cell, execution in executions.items():
            assert execution is not None
            ended = await app.wait(execution.id, timeout=PATIENCE)
            assert (ended.state, ended.result) == (State.COMPLETED, "unharmed"), cell
            assert [attempt.end for attempt in ended.attempts] == ["worker_lost", "completed"], cell
    finally:
        await app.close()


@pytest.mark.req("EXE-9")
async def test_a_worker_that_is_killed_leaves_no_process(workers: Processes, tmp_path: Path) -> None:
    """Four busy children, two of which have started others, and two of which hold the interpreter's lock."""
    app, everyone = build(), set[int]()
    try:
        worker = workers.start("isolation_node", "default")
        for children, blocks in ((0, False), (2, False), (0, True), (2, True)):
            await app.enqueue("hold", {"children": children, "blocks": blocks})
        await until(lambda: len(list(tmp_path.glob("*.pids"))) == 4, PATIENCE)
        known = _written_down(tmp_path)
        assert len(known) == 8
        everyone |= set(family(worker.pid)) - {worker.pid}
        assert known < everyone, "the guardian is one of them as well"
        worker.kill()
        await until(lambda: not any(map(_lives, everyone)), PATIENCE)
    finally:
        await app.close()
        for pid in filter(_lives, everyone):
            os.kill(pid, signal.SIGKILL)


def _written_down(folder: Path) -> set[int]:
    return {int(pid) for file in folder.glob("*.pids") for pid in file.read_text().split()}


def _lives(pid: int) -> bool:
    """A process that nobody has waited for yet counts as gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False
