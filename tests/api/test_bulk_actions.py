"""`/api/v1/bulk`: dry run, start, progress, results, abort; a retry with other parameters."""

from __future__ import annotations

import pytest

from mainspring import JobContext, Mainspring, NonRetryable
from mainspring.testing import harness
from tests.api.client import client_of


@pytest.mark.req("SRC-4", "SRC-5")
async def test_bulk_actions_over_http() -> None:
    app = Mainspring("memory://")

    @app.job("pay", max_attempts=1)
    async def pay(ctx: JobContext, order: int, good: bool = False) -> None:
        if not good:
            raise NonRetryable(f"order {order}")

    app.job("crawl", cron="0 3 * * *", queue="web")(lambda: None)
    filter = {"job": "pay", "status": ["failed"]}
    async with harness(app, raise_errors=False) as kit:
        await app.enqueue_many([("pay", {"order": number}) for number in range(4)])
        await kit.run_until_idle()
        async with client_of(app) as client:
            wanted = {"target": "executions", "action": "retry", "filter": filter}
            seen = await client.post("/api/v1/bulk", {**wanted, "dry_run": True})
            assert (seen["total"], seen["total_is_exact"], seen["sample"][0]["now"]) == (4, True, "retried")
            answer = await client.ask("POST", "/api/v1/bulk", json={**wanted, "pace": "100/s", "note": "fixed"})
            begun = answer.json()
            assert (answer.status_code, begun["status"], begun["total"], begun["pace"]) == (202, "running", 4, 100)
            assert answer.headers["Location"] == f"/api/v1/bulk/{begun['id']}"
            await app.bulk.wait(begun["id"], timeout=10)
            over = await client.get(f"/api/v1/bulk/{begun['id']}")
            assert (over["status"], over["done"], over["refused"], over["filter"]) == ("completed", 4, 0, filter)
            page = await client.get(f"/api/v1/bulk/{begun['id']}/items?status=done&limit=3")
            rest = await client.get(f"/api/v1/bulk/{begun['id']}/items?status=done&cursor={page['next_cursor']}")
            assert (len(page["items"]), len(rest["items"]), rest["next_cursor"]) == (3, 1, None)
            assert [each["id"] for each in (await client.get("/api/v1/bulk"))["items"]] == [begun["id"]]
            await client.refused(409, "POST", f"/api/v1/bulk/{begun['id']}/abort")
            await kit.run_until_idle()

            paced = {**wanted, "pace": "1/h"}
            slow = await client.post("/api/v1/bulk", paced, headers={"Idempotency-Key": "once"})
            again = await client.post("/api/v1/bulk", paced, headers={"Idempotency-Key": "once"})
            assert again["id"] == slow["id"]
            stopped = await client.post(f"/api/v1/bulk/{slow['id']}/abort", {"reason": "enough"})
            assert (stopped["status"], stopped["reason"]) == ("aborted", "enough")

            paused = await client.post("/api/v1/bulk", {"target": "jobs", "action": "pause", "ids": ["crawl", "nope"]})
            assert (await app.bulk.wait(paused["id"], timeout=10)).errors == {"not_found": 1}
            await client.refused(404, "GET", "/api/v1/bulk/nothing")
            await client.refused(400, "POST", "/api/v1/bulk", {"target": "executions", "action": "edit", "ids": ["x"]})
            await client.refused(400, "POST", "/api/v1/bulk", {**wanted, "ids": ["x"]})

            failed = (await app.executions("pay", status="failed"))[0]
            path = f"/api/v1/executions/{failed.id}/retry"
            made = (await client.post(path, {"params": {"good": True}}))["execution"]
            assert made["params"] == {**failed.params, "good": True}
            assert made["edited"] == {"good": {"after": True}}
            await client.refused(400, "POST", path, {"params": {"order": "x"}})
            await client.refused(400, "POST", path, {"params": {"order": 1}, "remove": ["order"]})
