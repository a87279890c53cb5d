"""Tenants over HTTP: what became of them, triggers for some of them, and running the failed ones again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from mainspring import InvalidValue, JobContext
from tests.api.client import client_of
from tests.support import Nodes, until


@pytest.mark.req("TEN-1", "TEN-3", "TEN-4", "API-8")
async def test_tenants_are_listed_triggered_and_retried(nodes: Nodes) -> None:
    app, broken = nodes.app(), {"b", "d"}

    @app.job("nightly", tenants=["a", "b", "c", "d", "e"], tenant_max_attempts=1)
    async def nightly(ctx: JobContext) -> None:
        if ctx.tenant in broken:
            raise ValueError("broken")

    app.job("plain")(lambda: None)

    async with app, client_of(app) as client:
        error = await client.refused(500, "POST", "/api/v1/jobs/nightly/trigger?wait=20s", {})
        parent = await client.get(f"/api/v1/executions/{error['details']['execution_id']}")
        assert (parent["status"], parent["counters"]) == ("partial", {"total": 5, "success": 3, "failed": 2})
        tenants = f"/api/v1/executions/{parent['id']}/tenants"
        first = await client.get(f"{tenants}?limit=2")
        assert [
            (item["tenant"], item["status"]) for item in sorted(first["items"], key=lambda item: item["tenant"])
        ] == [
            ("b", "failed"),
            ("d", "failed"),
        ]
        assert (first["total"], first["counts"]) == (5, {"failed": 2, "completed": 3})
        assert first["items"][0] | {"tenant": "b"} == {
            "tenant": "b",
            "execution_id": first["items"][0]["execution_id"],
            "status": "failed",
            "attempts": 1,
            "max_attempts": 1,
            "started_at": first["items"][0]["started_at"],
            "finished_at": first["items"][0]["finished_at"],
            "next_try_at": None,
            "duration_ms": first["items"][0]["duration_ms"],
            "error_message": "ValueError: broken",
            "reason": "error",
        }
        assert first["items"][0]["started_at"].endswith("Z")
        rest = await client.get(f"{tenants}?limit=2&offset=3")
        assert {item["status"] for item in rest["items"]} == {"completed"}
        assert (await client.get(f"{tenants}?status=completed"))["total"] == 3

        broken.clear()
        path = f"/api/v1/executions/{parent['id']}/retry?only=failed&wait=20s"
        again = (await client.post(path))["execution"]
        assert (again["retry_of"], again["counters"]) == (parent["id"], {"total": 2, "success": 2, "failed": 0})
        await client.refused(409, "POST", f"/api/v1/executions/{again['id']}/retry?only=failed")
        child = first["items"][0]["execution_id"]
        await client.refused(409, "POST", f"/api/v1/executions/{child}/retry?only=failed")
        await client.refused(400, "POST", f"/api/v1/executions/{child}/retry?only=good")
        assert (await client.get(f"/api/v1/executions/{child}/tenants"))["items"] == []

        some = await client.post("/api/v1/jobs/nightly/trigger?wait=20s", {"tenants": ["a", "e"]})
        assert some["execution"]["counters"]["total"] == 2
        one = (await client.post("/api/v1/jobs/nightly/trigger?wait=20s", {"tenant": "a"}))["execution"]
        assert (one["tenant"], one["parent_id"], one["status"]) == ("a", None, "completed")
        await client.refused(400, "POST", "/api/v1/jobs/plain/trigger", {"tenants": ["a"]})
        await client.refused(400, "POST", "/api/v1/jobs/nightly/trigger", {"tenants": ["a", "a"]})
        await client.refused(400, "POST", "/api/v1/jobs/nightly/trigger", {"tenants": ["a", "x"]})


@pytest.mark.req("TEN-4", "API-8")
async def test_which_tenant_makes_the_noise(memory_nodes: Nodes) -> None:
    app = memory_nodes.app()

    @app.job("send", max_attempts=1)
    async def send(ctx: JobContext) -> None:
        raise ValueError("broken")

    async with app, client_of(app) as client:
        later = datetime.now(UTC) + timedelta(hours=1)
        await app.enqueue("send", tenant="broken")
        for tenant in ("loud", "loud", "calm"):
            await app.enqueue("send", tenant=tenant, start_at=later)

        async def failed() -> bool:
            first = (await client.get("/api/v1/tenants?sort=failed&limit=1"))["items"]
            return first == [{"tenant": "broken", "waiting": 0, "running": 0, "failed": 1}]

        await until(failed)
        items = (await client.get("/api/v1/tenants"))["items"]
        assert [(item["tenant"], item["waiting"]) for item in items] == [
            ("loud", 2),
            ("calm", 1),
            ("broken", 0),
        ]
        assert [view.tenant for view in await app.tenants.busiest("running", 1)] == ["broken"]
        await client.refused(400, "GET", "/api/v1/tenants?sort=name")
        with pytest.raises(InvalidValue, match="limit"):
            await app.tenants.busiest(limit=0)
