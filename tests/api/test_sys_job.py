"""`/_sys/job`: the overview and the plain trigger."""

from __future__ import annotations

import pytest

from mainspring import every, once
from mainspring.core.queries import queries
from tests.api.client import client_of
from tests.support import Nodes, ended


@pytest.mark.req("API-1")
async def test_every_job_is_listed_with_its_schedule_in_cron_and_in_words(nodes: Nodes) -> None:
    app = nodes.app()
    async with client_of(app) as client:
        assert await client.get("/_sys/job") == []
        app.job("nightly", cron="0 0 2 * * *")(lambda: None)
        app.job("often", trigger=every(minutes=30))(lambda: None)
        app.job("later", trigger=once("2199-01-01T00:00:00Z"))(lambda: None)
        app.job("on-demand")(lambda: None)
        async with app:
            await ended(app, await app.enqueue("on-demand"))
            listed = {job["id"]: job for job in await client.get("/_sys/job")}
            schedules = {name: (job["schedule"], job["description"]) for name, job in listed.items()}
            assert schedules["often"] == ("@every 30m", "every 30 minutes")
            assert schedules["later"][0] == "@once 2199-01-01T00:00:00Z"
            assert schedules["nightly"][0] == "0 0 2 * * *"
            assert schedules["on-demand"] == (None, "on demand")
            done = listed["on-demand"]
            assert (done["last_status"], done["total_executions"], done["successful_runs"]) == ("completed", 1, 1)
            assert listed["later"]["next_run_at"] == "2199-01-01T00:00:00Z"


@pytest.mark.req("API-2")
async def test_a_job_is_run_now_by_its_id(nodes: Nodes) -> None:
    app = nodes.app()
    async with client_of(app) as client:
        await client.refused(404, "POST", "/_sys/job/nope")
        app.job("report", trigger=every(hours=1))(lambda: None)
        async with app:
            started = await client.post("/_sys/job/report")
            done = await app.wait(started["execution_id"], timeout=60)
            assert (done.state, done.trigger, started["id"]) == ("completed", "api", "report")
            await client.refused(404, "POST", "/_sys/job/Report")


@pytest.mark.req("API-1")
async def test_the_list_is_whole_however_many_pages_it_takes(
    memory_nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "MAX_PAGE", 2)
    app = memory_nodes.app()
    for number in range(5):
        app.job(f"job-{number}")(lambda: None)
    async with client_of(app) as client:
        assert [each["id"] for each in await client.get("/_sys/job")] == [f"job-{number}" for number in range(5)]
    await app.close()
