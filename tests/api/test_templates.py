"""Templates over HTTP: kept, changed, removed, and jobs made from them; jobs that come after others."""

from __future__ import annotations

from typing import Any

import pytest

from mainspring import Mainspring, every
from tests.api.client import client_of
from tests.support import Nodes

TEMPLATE: dict[str, Any] = {
    "name": "nightly-crawl",
    "handler": "crawl",
    "schedule": "0 30 3 * * *",
    "timezone": "Europe/Paris",
    "params": {"depth": 2},
    "max_retries": 5,
    "queue": "web",
    "metadata": {"team": "search"},
    "description": "Crawls a site at night.",
}


def application(nodes: Nodes, **settings: Any) -> Mainspring:
    app = nodes.app(**settings)

    @app.job("crawl")
    def crawl(url: str, depth: int = 1) -> None: ...

    app.job("load", trigger=every(hours=1))(lambda: None)
    return app


@pytest.mark.req("FLW-5")
async def test_a_template_is_kept_and_jobs_are_made_from_it(nodes: Nodes) -> None:
    app = application(nodes)
    async with client_of(app) as client:
        made = await client.post("/api/v1/templates", TEMPLATE)
        assert (made["schedule"], made["timezone"], made["params"]) == ("0 30 3 * * *", "Europe/Paris", {"depth": 2})
        assert made["options"] == {"max_attempts": 6, "queue": "web"}
        assert (await client.get("/api/v1/templates"))["items"] == [made]
        overrides = {"name": "crawl-news", "params": {"url": "/news"}, "queue": "slow", "metadata": {"site": "news"}}
        job = await client.post("/api/v1/templates/nightly-crawl/jobs", overrides)
        assert (job["handler"], job["schedule"], job["queue"]) == ("crawl", "0 30 3 * * *", "slow")
        assert (job["params"], job["max_retries"]) == ({"url": "/news", "depth": 2}, 5)
        assert job["metadata"] == {"team": "search", "site": "news", "template": "nightly-crawl"}
        assert (job["origin"], job["description"], job["execution_id"]) == ("api", "Crawls a site at night.", None)
        hourly = {"interval_minutes": 60, "params": {"url": "/now"}}
        assert (await client.post("/api/v1/templates/nightly-crawl/jobs", hourly))["schedule"] == "@every 1h"
        audit = (await client.get("/api/v1/audit?target=template:nightly-crawl"))["items"]
        assert [(each["action"], each["actor"]) for each in audit] == [("create", "loopback")]
    await app.close()


@pytest.mark.req("API-3", "OPS-2")
async def test_the_retries_of_the_settings_reach_jobs_made_from_a_template(memory_nodes: Nodes) -> None:
    app = application(memory_nodes, retry_max_attempts=7, retry_policy="tenant")
    async with client_of(app) as client:
        await client.post("/api/v1/templates", {"name": "plain", "handler": "crawl", "schedule": "@daily"})
        await client.post("/api/v1/templates", TEMPLATE)
        url = {"params": {"url": "/"}}
        plain = await client.post("/api/v1/templates/plain/jobs", url)
        assert (plain["max_retries"], plain["policy"]["retry"]["initial"]) == (6, 5.0)
        own = await client.post("/api/v1/templates/nightly-crawl/jobs", url)
        assert (own["max_retries"], own["policy"]["retry"]["initial"]) == (5, 5.0)
    await app.close()


async def test_an_option_that_an_override_removes_is_not_inherited(memory_nodes: Nodes) -> None:
    app = memory_nodes.app()
    app.job("crawl", timeout=30)(lambda: None)
    await app.templates.create("slow", "crawl", timeout=60, max_attempts=7, retry="patient")
    plain = await app.templates.apply("slow", "plain")
    bare = await app.templates.apply("slow", "bare", timeout=None, max_attempts=None, retry=None)
    assert (plain.timeout, plain.max_attempts, plain.retry.initial) == (60, 7, 60)
    assert (bare.timeout, bare.max_attempts, bare.retry.initial) == (None, 10, 2)
    await app.close()


@pytest.mark.req("FLW-5")
async def test_a_template_is_changed_and_removed_and_its_jobs_stay(nodes: Nodes) -> None:
    app = application(nodes)
    async with client_of(app) as client:
        await client.post("/api/v1/templates", TEMPLATE)
        await client.post("/api/v1/templates/nightly-crawl/jobs", {"name": "first", "params": {"url": "/"}})
        changed = await client.put("/api/v1/templates/nightly-crawl", {"schedule": None, "max_retries": 1})
        assert (changed["schedule"], changed["options"]) == (None, {"max_attempts": 2, "queue": "web"})
        assert (changed["version"], changed["params"]) == (2, {"depth": 2})
        once = await client.post("/api/v1/templates/nightly-crawl/jobs", {"params": {"url": "/once"}})
        assert once["execution_id"] is not None, "without a schedule it runs at once"
        back = await client.put("/api/v1/templates/nightly-crawl", {"schedule": None, "interval_minutes": 30})
        assert back["schedule"] == "@every 30m"
        assert (await client.ask("DELETE", "/api/v1/templates/nightly-crawl")).status_code == 204
        await client.refused(404, "DELETE", "/api/v1/templates/nightly-crawl")
        await client.refused(404, "POST", "/api/v1/templates/nightly-crawl/jobs", {})
        assert (await client.get("/api/v1/jobs/first"))["schedule"] == "0 30 3 * * *"
        audit = (await client.get("/api/v1/audit?target=template:nightly-crawl"))["items"]
        assert [each["action"] for each in audit] == ["remove", "update", "update", "create"]
    await app.close()


@pytest.mark.req("FLW-5")
async def test_what_is_wrong_with_a_template_is_told_when_it_is_kept_and_when_it_is_used(nodes: Nodes) -> None:
    app = application(nodes)
    async with client_of(app) as client:
        for wrong, field in [
            ({"schedule": "every day"}, "schedule"),
            ({"handler": "crwl"}, "handler"),
            ({"params": {"dept": 1}}, "dept"),
            ({"timezone": "Mars"}, "timezone"),
            ({"surprise": 1}, "surprise"),
        ]:
            error = await client.refused(400, "POST", "/api/v1/templates", TEMPLATE | wrong)
            assert field in error["message"], error
        assert (await client.get("/api/v1/templates"))["items"] == []
        await client.post("/api/v1/templates", TEMPLATE)
        await client.refused(409, "POST", "/api/v1/templates", TEMPLATE)
        missing = await client.refused(400, "POST", "/api/v1/templates/nightly-crawl/jobs", {"name": "no-url"})
        assert "url" in missing["message"]
        suggested = await client.refused(404, "GET", "/api/v1/templates/nightly-craw")
        assert suggested["details"] == {"suggestion": "nightly-crawl"}
    await app.close()


@pytest.mark.req("FLW-1")
async def test_a_job_made_over_http_comes_after_another_and_both_say_so(nodes: Nodes) -> None:
    app = application(nodes)
    async with client_of(app) as client:
        fields = {"name": "mail", "handler": "crawl", "params": {"url": "/"}, "after": ["load"], "not_before": "06:00"}
        mail = await client.post("/api/v1/jobs", fields)
        assert (mail["after"], mail["execution_id"], mail["policy"]["not_before"]) == (["load"], None, "06:00:00")
        assert (await client.get("/api/v1/jobs/load"))["dependents"] == ["mail"]
        typo = await client.refused(400, "POST", "/api/v1/jobs", fields | {"name": "other", "after": ["lod"]})
        assert "Did you mean 'load'?" in typo["message"]
        cycle = await client.refused(400, "PUT", "/api/v1/jobs/load", {"after": ["mail"]})
        assert "This is a cycle: load after mail after load" in cycle["message"]
        itself = await client.refused(400, "PUT", "/api/v1/jobs/mail", {"after": ["mail"]})
        assert "mail after mail" in itself["message"]
        assert (await client.put("/api/v1/jobs/mail", {"after": None}))["after"] == []
        assert (await client.get("/api/v1/jobs/load"))["dependents"] == []
        assert (await client.put("/api/v1/jobs/load", {"after": ["mail"]}))["after"] == ["mail"]
    await app.close()
