"""Viewers learn that an API token did something, and not which: whatever answer or page they read."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from mainspring import Mainspring, every
from mainspring.server.access.token_names import SHOWN
from tests.api.access_support import SECRET, STRANGER, signed
from tests.api.dashboard_crawler import Crawl
from tests.support import Nodes, ended, until

pytestmark = pytest.mark.req("SEC-4")

NAME = "deploy_of.the-secret-project"


def fail() -> None:
    raise ValueError("as it should")


async def used_everywhere(app: Mainspring) -> dict[str, str]:
    """Do, through a token, whatever leaves its name somewhere; returns what takes the place of ids in paths."""
    text = (await app.tokens.create(NAME, "admin", by="ops")).text.reveal()
    async with client(app, text) as http:

        async def post(path: str, body: Any = None, method: str = "POST") -> Any:
            answer = await http.request(method, f"/api/v1{path}", json=body if body is not None else {})
            assert answer.status_code < 300, (path, answer.text)
            return answer.json() if answer.content else None

        failed = (await post("/jobs/fail/trigger"))["execution_id"]
        await ended(app, await app.get(failed))
        waiting = (await post("/jobs/job/trigger"))["execution_id"]
        await post(f"/executions/{waiting}/cancel")
        await post("/jobs/job/pause", {"note": "maintenance"})
        await post("/calendars/bank", {"entries": ["12-25"]}, "PUT")
        await post("/templates", {"name": "nightly", "handler": "job"})
        backfill = (await post("/backfills", {"job": "windowed", "begin": "2026-01-01", "end": "2026-01-03"}))["id"]
        bulk = (await post("/bulk", {"target": "jobs", "action": "pause", "ids": ["other"]}))["id"]
        await post("/queues/default/pause", {})

        async def groups() -> Any:
            return (await http.get("/api/v1/errors")).json()["items"]

        group = (await until(groups))[0]["id"]
        await post(f"/errors/{group}/mute", {})
    await app.tokens.create("another-name", "viewer", by="ops")
    return {"execution": failed, "waiting": waiting, "backfill": backfill, "bulk": bulk, "group": group}


def client(app: Mainspring, bearer: str) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app.asgi(), client=(STRANGER, 4_711))
    headers = {"Authorization": f"Bearer {bearer}"}
    return httpx.AsyncClient(transport=transport, base_url="https://jobs.example.com", headers=headers)


def readable(app: Mainspring, ids: dict[str, str]) -> list[str]:
    """Every path that viewers may read, with each id that fits."""
    things = {
        "/api/v1/jobs/{": ["job", "other", "fail"],
        "/api/v1/executions/{": [ids["execution"], ids["waiting"]],
        "/api/v1/backfills/{": [ids["backfill"]],
        "/api/v1/bulk/{": [ids["bulk"]],
        "/api/v1/errors/{": [ids["group"]],
        "/api/v1/calendars/{": ["bank"],
        "/api/v1/templates/{": ["nightly"],
        "/api/v1/queues/{": ["default"],
    }
    found = []
    for path, item in app.asgi().openapi()["paths"].items():
        if "get" not in item or item["get"]["x-required-role"] != "viewer" or path.endswith(("stream", "/events")):
            continue
        before, brace, after = path.partition("{")
        rest = after.partition("}")[2]
        found += [f"{before}{id}{rest}" for id in things.get(before + brace, [])] if brace else [path]
    return [path for path in found if "{" not in path]


async def test_viewers_read_no_name_of_a_token(memory_nodes: Nodes) -> None:
    app = memory_nodes.app(jwt_secret=SECRET, api_tokens=True, sys_allow=STRANGER)
    app.job("job", trigger=every(hours=1), queue="slow")(lambda: None)
    app.job("other", trigger=every(hours=1))(lambda: None)
    app.job("windowed", trigger=every(days=1), window="previous_day")(lambda: None)
    app.job("fail", max_attempts=1)(fail)
    async with app:
        paths = readable(app, await used_everywhere(app))
        named, hidden = [], []
        async with client(app, signed(role="viewer")) as viewer, client(app, signed(role="admin")) as admin:
            for path in paths:
                shown, whole = await viewer.get(path), await admin.get(path)
                assert (NAME in shown.text, "another-name" in shown.text) == (False, False), path
                named += [path] if NAME in whole.text else []
                hidden += [path] if SHOWN in shown.text else []
                assert int(shown.headers.get("content-length", len(shown.content))) == len(shown.content)
            assert len(paths) > 25
            assert (
                {"/api/v1/jobs/job", "/api/v1/audit", "/api/v1/changes", "/api/v1/executions"} <= {*hidden} <= {*named}
            )
            assert len(named) > 12, named
            crawl = await Crawl(viewer, "/dashboard", things=4).read()
            assert len(crawl.pages) > 15
            assert [path for path, page in crawl.pages.items() if NAME in page.text or NAME in str(page.links)] == []
            assert any(SHOWN in page.text for page in crawl.pages.values())


async def test_viewers_know_their_own_token(memory_nodes: Nodes) -> None:
    app = memory_nodes.app(api_tokens=True)
    async with app, client(app, (await app.tokens.create("mine", "viewer")).text.reveal()) as viewer:
        assert (await viewer.get("/api/v1/me")).json()["actor"].startswith("token:mine/")
        refused = (await viewer.post("/api/v1/jobs/x/pause")).json()["error"]["message"]
        assert "token:mine/" in refused
