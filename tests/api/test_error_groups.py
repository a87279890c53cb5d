"""Error groups over HTTP: listed, looked at, muted, retried."""

from __future__ import annotations

import pytest

from tests.api.client import client_of
from tests.support import Nodes, until


@pytest.mark.req("SRC-2", "API-1")
async def test_errors_are_listed_muted_and_retried(nodes: Nodes) -> None:
    app = nodes.app(fold_interval=0.05)

    @app.job("charge", max_attempts=1, search="order_id")
    async def charge(order_id: int) -> None:
        raise LookupError(f"order {order_id} is gone")

    async with app, client_of(app) as client:
        for order in range(3):
            await app.wait(await app.enqueue("charge", {"order_id": order}))

        async def all_counted() -> bool:
            return [each.count for each in await app.errors.all()] == [3]

        await until(all_counted)
        page = await client.get("/api/v1/errors", params={"sort": "count", "job": "charge", "limit": 5})
        [group] = page["items"]
        assert (page["total"], group["type"], group["message"]) == (1, "LookupError", "order <n> is gone")
        assert (group["count"], group["failures"], sum(group["trend"]), len(group["trend"])) == (3, 3, 3, 24)
        assert group["jobs"] == [{"name": "charge", "count": 3}]
        at = f"/api/v1/errors/{group['id']}"
        detail = await client.get(at)
        assert "is gone" in detail["sample"]["stack_trace"]
        found = (await client.get("/api/v1/executions", params={"search": "order_id=1"}))["items"]
        assert [(each["search_keys"], each["error_group"]) for each in found] == [({"order_id": ["1"]}, group["id"])]

        assert (await client.post(f"{at}/mute", {"note": "known"}))["mute"]["note"] == "known"
        assert (await client.get("/api/v1/errors", params={"muted": "false"}))["items"] == []
        page = (await client.ask("GET", "/metrics")).text
        assert 'job_unmuted_failure_timestamp_seconds{job_name="charge"} 0' in page
        assert (await client.post(f"{at}/unmute"))["muted"] is False
        begun = await client.post(f"{at}/retry", {"note": "fixed", "pace": "100/s"})
        assert begun["action"] == "retry"
        assert (await app.bulk.wait(begun["id"], timeout=30)).done == 3

        await client.refused(404, "GET", "/api/v1/errors/000000000000")
        await client.refused(404, "POST", "/api/v1/errors/000000000000/mute")
        await client.refused(400, "GET", "/api/v1/errors", params={"sort": "name"})
        await client.refused(400, "POST", f"{at}/mute", {"until": "2001-01-01T00:00:00Z"})
