"""The timeline: bars of what ran, by job, queue and tenant, and of what will run."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

from mainspring import JobContext, Mainspring, every
from mainspring.core.forecast.timeline import TimelineRow
from mainspring.server.dashboard.routes.timeline import _overlap_words
from tests.dashboard.support import links_of, pages_of, text_of
from tests.support import Nodes, run_once

ODD_TENANT = """<b>O'Neill</b> & "Söhne" / 50%"""


def _shop(nodes: Nodes) -> Mainspring:
    app = nodes.app(roles="worker")

    @app.job("charge", queue="payments", max_attempts=1, search=("order",))
    async def charge(ctx: JobContext, order: int) -> None:
        if order == 2:
            raise ConnectionError("the bank does not answer")

    @app.job("beat", trigger=every(seconds=1), queue="fast")
    async def beat() -> None: ...

    for number in range(6):

        @app.job(f"nightly-{number}", cron="0 3 * * *", queue="night")
        async def nightly() -> None: ...

    return app


@pytest.mark.req("DSH-1")
async def test_the_timeline_shows_what_ran_and_what_will_run(nodes: Nodes) -> None:
    app = _shop(nodes)
    async with app, pages_of(app) as pages:
        done = await run_once(app, "charge", {"order": 1}, tenant=ODD_TENANT)
        failed = await run_once(app, "charge", {"order": 2})
        await app.pause("nightly-5")
        page = await pages.get("timeline")
        assert {f"/dashboard/executions/{run.id}" for run in (done, failed)} <= set(links_of(page))
        words = text_of(page)
        assert "1 completed, 1 failed" in words
        assert "more than 1,000 to come" in words  # of the job that runs every second
        assert "5 jobs start at" in words
        assert "1 paused job has no forecast." in words
        assert len(page) < 150_000
        assert "6 h back and 6 h ahead" in await pages.get("timeline?hours=6&queue=payments")
        assert "Nothing matches" in await pages.get("timeline?search=unknown")
        await pages.get("timeline?hours=7", status=400)
        await pages.get("timeline?by=worker", status=400)

        queues = text_of(await pages.get("timeline?by=queue"))
        for name in ("payments", "fast", "night"):
            assert name in queues
        assert "nightly" not in queues.partition("Worth knowing")[0]
        tenants = await pages.get("timeline?by=tenant")
        assert "&lt;b&gt;O&#39;Neill&lt;/b&gt; &amp; &#34;Söhne&#34; / 50%</a>" in tenants
        assert "1 completed" in text_of(tenants)
    await app.close()


@pytest.mark.req("DSH-1")
def test_a_forecast_that_breaks_off_is_no_exact_number() -> None:
    row = TimelineRow(name="sync", overlaps={"skipped": 500}, goes_on=True)
    assert _overlap_words(row) == ("more than 500 runs", "all of them are skipped")
    mixed = TimelineRow(name="sync", overlaps={"skipped": 400, "waits": 100}, goes_on=True)
    assert _overlap_words(mixed) == ("more than 500 runs", "of the first 500, 400 are skipped, 100 wait for it")
    exact = TimelineRow(name="sync", overlaps={"waits": 1})
    assert _overlap_words(exact) == ("1 run", "1 wait for it")


@pytest.mark.req("DSH-1")
async def test_hours_are_in_the_zone_of_the_viewer_and_rows_come_in_pages(nodes: Nodes) -> None:
    async with nodes.client() as idle, pages_of(idle) as pages:
        assert "Nothing ran and nothing is planned" in await pages.get("timeline")
    app = nodes.app()
    for number in range(30):
        app.job(f"job-{number:02}", cron="*/7 * * * *")(lambda: None)
    async with pages_of(app) as pages:
        first = await pages.get("timeline?hours=72&search=job")
        [after] = [link for link in links_of(first) if "after=" in link]
        assert "job-19" in first
        assert "job-20" not in first
        second = await pages.get(after.removeprefix("/dashboard/"))
        assert "job-20" in second
        assert len(first) < 150_000
        pages.http.cookies.set("mainspring_zone", "Asia/Kathmandu", domain="localhost.local")
        there = await pages.get("timeline")
        assert "Asia/Kathmandu" in there
        assert re.search(r">12:00</text>", there)
    await app.close()


@pytest.mark.req("DSH-1")
async def test_executions_that_wait_are_bars_as_well(nodes: Nodes) -> None:
    app = _shop(nodes)
    async with pages_of(app) as pages:
        await app.enqueue("charge", {"order": 1})
        await app.enqueue("charge", {"order": 3}, start_at=datetime.now(UTC) + timedelta(hours=2))
        words = text_of(await pages.get("timeline?search=charge"))
        assert "1 pending" in words
        assert "1 to come" in words
    await app.close()
