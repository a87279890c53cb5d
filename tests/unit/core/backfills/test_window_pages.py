"""Long lists of windows: whoever else uses the event loop has their turn meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from mainspring import Mainspring
from mainspring.core.backfills.windows import FEW

BEGIN, END = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


async def turns_during(work: Awaitable[Any]) -> tuple[int, Any]:
    """How often others had their turn until this was done."""
    task = asyncio.ensure_future(work)
    turns = 0
    while not task.done():
        turns += 1
        await asyncio.sleep(0)
    return turns, task.result()


@pytest.mark.req("WIN-6", "API-9")
async def test_a_page_of_many_windows_never_holds_the_loop_for_long() -> None:
    app = Mainspring("memory://")
    app.job("minutely", cron="* * * * *", window="since_previous_tick")(lambda: None)
    windows = (await app._runtime.engine()).windows
    turns, page = await turns_during(windows.page("minutely", BEGIN, END, state=None, limit=2, offset=1))
    assert (page.total, page.counts["missing"], len(page.items)) == (1440, 1440, 2)
    assert page.items[0].window.begin.minute == 1
    assert turns >= 1440 // FEW
    _, none = await turns_during(windows.page("minutely", BEGIN, END, state="done", limit=2, offset=0))
    assert (none.total, none.counts["missing"], none.items) == (0, 1440, [])
    await app.close()


@pytest.mark.req("WIN-6", "WIN-8")
async def test_nor_does_a_schedule_that_its_hours_never_let_through() -> None:
    app = Mainspring("memory://")
    hours = {"times": "09:00-17:00"}
    app.job("night", cron="0 3 * * *", window="previous_day", hours=hours)(lambda: None)
    windows = (await app._runtime.engine()).windows
    turns, found = await turns_during(windows.windows("night", "2023-01-01T00:00:00Z", END))
    assert found == []
    assert turns >= 1_000 // FEW
    await app.close()
