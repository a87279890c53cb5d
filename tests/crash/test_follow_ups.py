"""What has to happen after an ending happens, whoever dies between the two."""

from __future__ import annotations

from pathlib import Path

import pytest

from mainspring import Retention, every
from tests.crash.handlers import UNDISTURBED, Witnessed, build, hold
from tests.crash.processes import PATIENCE, Processes, until


@pytest.mark.req("REL-1", "TIM-1")
async def test_the_next_run_of_a_fixed_delay_is_planned_by_somebody(tmp_path: Path, processes: Processes) -> None:
    """Killed with the ending accepted and the next run not planned. Successes are not kept: the mark alone tells."""
    app = build(tmp_path)
    pause = every(seconds=0.05, delay=True)
    app.schedule("again-and-again", "tick", pause, retention=Retention(keep_success=False))
    await app.open()
    try:
        hold(tmp_path, "follow-ups").touch()
        for _ in range(3):
            node = processes.node("scheduler,worker", **UNDISTURBED)
            await until(lambda pid=node.pid: app.ledger.lines("holding", write="follow-ups", pid=pid), PATIENCE)
            await until(lambda: _completed(app), PATIENCE, "the ending is counted")
            node.kill()
            assert len(_runs(app)) == 1, "nobody has planned the next run"
            assert await _completed(app) == 1
        hold(tmp_path, "follow-ups").unlink()
        processes.node("scheduler,worker", **UNDISTURBED)
        await until(lambda: len(_runs(app)) >= 5, PATIENCE)
        assert len(_runs(app)) == len(set(_runs(app)))
    finally:
        await app.close()


async def _completed(app: Witnessed) -> int:
    return (await app.job_view("again-and-again")).stats.completed


def _runs(app: Witnessed) -> list[int]:
    return [line["tick"] for line in app.ledger.lines("began", job="again-and-again")]
