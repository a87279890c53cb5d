"""A backfill goes on when the process that started it is killed, and every process that works on it in turn."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mainspring import Backfill
from mainspring.core.views.execution import row_of
from tests.crash.backfill_node import with_windows
from tests.crash.handlers import Witnessed
from tests.crash.processes import PATIENCE, Processes, until

BEGIN, END = "2026-01-01", "2026-02-01"
WINDOWS = 31
KILLED = 3


@pytest.mark.req("WIN-5", "REL-1")
async def test_a_backfill_survives_who_started_it_and_who_drives_it(tmp_path: Path, processes: Processes) -> None:
    app = with_windows(tmp_path)
    await app.open()
    try:
        starter = processes.start("backfill_node", "start", BEGIN, END)
        made: Backfill = await until(lambda: _known(app), PATIENCE, "it is begun")
        starter.kill()
        for number in range(KILLED):
            node = processes.start("backfill_node", "scheduler,worker")
            wanted = (number + 1) * 5
            await until(lambda wanted=wanted: len(_ended(app)) >= wanted, PATIENCE, f"{wanted} windows have run")
            node.kill()
        processes.start("backfill_node", "scheduler,worker")
        over = await app.backfills.wait(made.id, timeout=PATIENCE)
        assert (over.state, over.completed, over.total) == ("completed", WINDOWS, WINDOWS)
        assert (await app.windows("report", BEGIN, END)).counts["done"] == WINDOWS
        completed = await app.executions("report", status="completed", limit=1_000)
        windows = Counter((row_of(each).window_begin, row_of(each).window_end) for each in completed)
        assert windows.total() == len(windows) == WINDOWS, "one execution for each window, whoever died"
        assert {each.parent_id for each in completed} == {made.id}
        assert app.ledger.lines("trouble") == []
    finally:
        await app.close()


async def _known(app: Witnessed) -> Backfill | None:
    return next((each for each in await app.backfills.recent() if each.state == "running"), None)


def _ended(app: Witnessed) -> list[dict[str, Any]]:
    return app.ledger.lines("ended", job="report")
