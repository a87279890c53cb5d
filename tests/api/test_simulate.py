"""`/api/v1/simulate`: the runs to come of the stored jobs; `/api/v1/me` and requests that give up rights."""

from __future__ import annotations

import pytest

from mainspring import cron, every
from tests.api.client import client_of
from tests.support import Nodes


@pytest.mark.req("DEV-5", "API-8")
async def test_what_the_stored_jobs_will_do(nodes: Nodes) -> None:
    app = nodes.app()
    app.job("report", trigger=cron("0 3 * * *"), overlap="skip")(lambda: None)
    app.job("poll", trigger=every(minutes=30), queue="web")(lambda: None)
    app.job("by-hand")(lambda: None)
    async with app, client_of(app) as client:
        await app.pause("poll", by="ada")
        day = await client.get("/api/v1/simulate")
        assert [run["job"] for run in day["runs"]] == ["report"]
        assert (day["total"], day["totals"]["runs"], day["left_out"], day["unfinished"]) == (1, 1, 0, [])
        assert day["on_demand"] == ["by-hand", "poll"], "a paused job has no runs to come"
        await app.resume("poll", by="ada")

        page = await client.get("/api/v1/simulate?span=1d&limit=3&offset=2&queue=web")
        assert [job["name"] for job in page["jobs"]] == ["poll"]
        assert (page["total"], len(page["runs"]), page["totals"]["busiest_minute"]["runs"]) == (48, 3, 1)
        longer = await client.get("/api/v1/simulate", params={"span": "7d", "job": "report", "duration": "report=25h"})
        [job] = longer["jobs"]
        assert (job["runs"] + job["skipped"], job["skipped"] > 0, job["duration_from"]) == (7, True, "given")
        refused = await client.refused(400, "GET", "/api/v1/simulate?span=1000d")
        assert "31d" in refused["message"]
        await client.refused(400, "GET", "/api/v1/simulate?duration=report")
        assert "report" in (await client.refused(404, "GET", "/api/v1/simulate?job=reports"))["message"]


@pytest.mark.req("DEV-5")
async def test_jobs_that_tick_all_the_time_are_followed_for_a_while(memory_nodes: Nodes) -> None:
    app = memory_nodes.app()
    app.job("busy", trigger=every(seconds=1))(lambda: None)
    async with app, client_of(app) as client:
        found = await client.get("/api/v1/simulate?span=7d&limit=1")
        assert found["unfinished"] == ["busy"]
        assert 100 <= found["total"] <= 10_000


@pytest.mark.req("DEV-5", "SEC-2")
async def test_a_request_may_give_up_rights(memory_nodes: Nodes) -> None:
    app = memory_nodes.app()
    app.job("report", trigger=every(hours=1))(lambda: None)
    async with app, client_of(app) as client:
        assert await client.get("/api/v1/me") == {"actor": "loopback", "role": "admin", "kind": "loopback"}
        limited = {"X-Role-Limit": "viewer"}
        assert (await client.get("/api/v1/me", headers=limited))["role"] == "viewer"
        error = await client.refused(403, "POST", "/api/v1/jobs/report/pause", headers=limited)
        assert error["code"] == "role_too_low"
        error = await client.refused(400, "GET", "/api/v1/jobs", headers={"X-Role-Limit": "root"})
        assert "'root' is not a role; allowed: viewer, operator, admin" in error["message"]
