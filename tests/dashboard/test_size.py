"""The dashboard beside many jobs and executions: the benchmark in small, with the server in this process."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from benchmarks.dashboard import QUICK, keep_tabs_open, visit_pages
from benchmarks.dashboard_fill import furnish
from benchmarks.dashboard_jobs import new_app
from benchmarks.places import Place
from benchmarks.triage_fill import fill
from mainspring.server.serving import HttpServer


@pytest.mark.req("DSH-1")
async def test_every_page_is_small_and_open_tabs_share_one_tail(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It fails too if a page has no example in the benchmark, or if the tabs did nothing."""
    caplog.set_level(logging.CRITICAL)
    place = Place(f"sqlite:///{tmp_path}/jobs.db", tmp_path)
    await fill(place.url, QUICK.size)
    await furnish(new_app(place.url), QUICK.size)
    app = new_app(place.url)
    async with app:
        server = HttpServer(app.asgi(), app.settings.with_changes({"port": 0}))
        server.bind()
        await server.start()
        try:
            wrong = await asyncio.to_thread(visit_pages, server.port, place, QUICK)
            wrong += await asyncio.to_thread(keep_tabs_open, server.port, QUICK)
        finally:
            await server.stop()
    assert wrong == []
