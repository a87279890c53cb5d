"""A client written to the examples of an interval scheduler that crawls sources: each call, each field, each status.

The walk runs on the three databases. It reads fields by the names and types that such a client relies on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mainspring import JobContext, Mainspring
from tests.api.client import Client, client_of
from tests.mongo_server import mongo
from tests.servers import postgres
from tests.support import Nodes, until

JOBS = "/api/v1/jobs"
SOURCE = {"source_id": "7f1c", "source_name": "Example News", "url": "https://example.org/news"}
STATES = ("pending", "scheduled", "running", "paused", "completed", "failed", "cancelled")


@pytest.fixture(params=["sqlite", "postgres", "mongo"])
def nodes(request: pytest.FixtureRequest, tmp_path: Path) -> Nodes:
    servers = {"postgres": postgres, "mongo": lambda: mongo("replica_set")}
    server = servers[request.param]().migrated_database() if request.param in servers else None
    return Nodes(request.param, tmp_path, server)


class Crawler:
    """The application: one handler, which the interface runs when a request names none."""

    def __init__(self, app: Mainspring) -> None:
        self.release = asyncio.Event()
        app.job("crawl")(self.crawl)

    async def crawl(
        self, ctx: JobContext, source_id: str, url: str, source_name: str = "", max_depth: int = 1
    ) -> dict[str, int]:
        if "slow" in url:
            await self.release.wait()
        if "broken" in url:
            raise ConnectionError(f"{url} does not answer")
        ctx.count(items_crawled=25, items_indexed=20, status=3)
        return {"depth": max_depth}


@asynccontextmanager
async def crawling(nodes: Nodes) -> AsyncIterator[tuple[Client, Crawler]]:
    app = nodes.app(api_handler="crawl")
    crawler = Crawler(app)
    async with app, client_of(app) as client:
        yield client, crawler


def instant(text: str) -> datetime:
    """Timestamps are ISO 8601 with a zone."""
    at = datetime.fromisoformat(text)
    assert at.utcoffset() == timedelta(0), text
    return at


async def reached(client: Client, id: str, status: str) -> dict[str, Any]:
    job: dict[str, Any] = {}

    async def there() -> bool:
        job.update(await client.get(f"{JOBS}/{id}"))
        return bool(job["status"] == status)

    await until(there, f"job {id} is {status}")
    return job


async def one_shot(client: Client, status: str, **fields: Any) -> dict[str, Any]:
    """A job without an interval runs once, at once."""
    made = await client.post(JOBS, {**SOURCE, **fields})
    return await reached(client, made["id"], status)


@pytest.mark.req("API-3", "API-4", "API-12", "TIM-10")
async def test_jobs_are_created_read_changed_and_removed(nodes: Nodes) -> None:
    async with crawling(nodes) as (client, _):
        body = {
            **SOURCE,
            "interval_minutes": 6,
            "interval_type": "hours",
            "schedule_time": "0 3 * * *",
            "schedule_enabled": True,
            "max_retries": 5,
            "retry_backoff_seconds": 30,
            "metadata": {"team": "news"},
        }
        answer = await client.ask("POST", JOBS, json=body)
        job = answer.json()
        place = f"{JOBS}/{job['id']}"
        assert (answer.status_code, answer.headers["location"]) == (201, place)
        assert (job["status"], job["schedule_enabled"], job["is_paused"]) == ("scheduled", True, False)
        assert (job["interval_minutes"], job["interval_type"]) == (6, "hours")  # as given; it wins over schedule_time
        assert (job["max_retries"], job["retry_backoff_seconds"], job["current_retry_count"]) == (5, 30, 0)
        assert (job["metadata"], job["params"]) == ({"team": "news"}, SOURCE)
        assert {name: job[name] for name in SOURCE} == SOURCE
        assert instant(job["next_run_at"]) - instant(job["created_at"]) == timedelta(hours=6)
        unset = ("paused_at", "cancelled_at", "started_at", "completed_at", "last_status", "error_message")
        assert [job[name] for name in unset] == [None] * len(unset)
        assert await client.get(place) == {name: job[name] for name in job if name != "execution_id"}

        listed = await client.get(f"{JOBS}?status=scheduled&limit=10&offset=0")
        assert (listed["total"], listed["limit"], listed["offset"]) == (1, 10, 0)
        assert [each["id"] for each in listed["items"]] == [job["id"]]

        changed = await client.put(place, {"interval_minutes": 12})  # a part of the pair leaves the other part alone
        assert (changed["interval_minutes"], changed["interval_type"]) == (12, "hours")
        changed = await client.put(place, {"interval_type": "minutes"})
        assert (changed["interval_minutes"], changed["interval_type"]) == (12, "minutes")
        assert changed["schedule"] == "@every 12m"
        changed = await client.put(place, {"url": "https://example.org/sport", "max_depth": 2})
        assert changed["params"] == {**SOURCE, "url": "https://example.org/sport", "max_depth": 2}
        assert (changed["url"], changed["interval_minutes"], changed["max_retries"]) == (
            changed["params"]["url"],
            12,
            5,
        )
        await client.refused(400, "PUT", place, {"colour": "red"})
        await client.refused(400, "PUT", place, {"max_depth": "2"})
        changed = await client.put(place, {"schedule_time": "0 */6 * * *"})
        assert (changed["schedule"], changed["interval_minutes"]) == ("0 */6 * * *", None)
        both = {"schedule_time": "0 3 * * *", "interval_minutes": 1, "interval_type": "days"}
        changed = await client.put(place, both)
        assert (changed["schedule"], changed["interval_minutes"], changed["interval_type"]) == ("@every 1d", 1, "days")

        legacy = await client.post(JOBS, {**SOURCE, "schedule_time": "0 * * * *"})
        assert (legacy["schedule"], legacy["interval_minutes"], legacy["interval_type"]) == ("0 * * * *", None, None)
        error = await client.refused(400, "POST", JOBS, {**SOURCE, "schedule_time": "every hour"})
        assert error["details"][0]["field"] == "schedule_time"
        await client.refused(400, "POST", JOBS, {**SOURCE, "schedule_time": "0 * * * *", "schedule": "0 1 * * *"})

        assert (await client.ask("DELETE", place)).status_code == 204
        await client.refused(404, "GET", place)


@pytest.mark.req("API-4", "EXE-1")
async def test_a_job_is_paused_resumed_cancelled_and_reactivated(nodes: Nodes) -> None:
    async with crawling(nodes) as (client, crawler):
        place = f"{JOBS}/{(await client.post(JOBS, {**SOURCE, 'interval_minutes': 30}))['id']}"
        paused = await client.post(f"{place}/pause")
        assert (paused["status"], paused["is_paused"], paused["next_run_at"]) == ("paused", True, None)
        assert instant(paused["paused_at"])
        await client.refused(409, "POST", f"{place}/pause")
        resumed = await client.post(f"{place}/resume")
        assert (resumed["status"], resumed["is_paused"], resumed["paused_at"]) == ("scheduled", False, None)
        assert instant(resumed["next_run_at"])
        cancelled = await client.post(f"{place}/cancel")
        assert (cancelled["status"], cancelled["next_run_at"]) == ("cancelled", None)
        assert instant(cancelled["cancelled_at"])
        await client.refused(409, "POST", f"{place}/trigger")
        active = await client.post(f"{place}/reactivate")
        assert (active["status"], active["cancelled_at"]) == ("scheduled", None)
        assert instant(active["next_run_at"])

        for status, url in (("completed", SOURCE["url"]), ("failed", "https://broken")):
            ended = await one_shot(client, status, url=url, max_retries=0)
            error = await client.refused(409, "POST", f"{JOBS}/{ended['id']}/cancel")
            assert error["details"]["current_state"] == status
            assert error["details"]["allowed_states"] == ["paused", "pending", "running", "scheduled"]

        slow = await one_shot(client, "running", url="https://slow")
        stopped = await client.post(f"{JOBS}/{slow['id']}/cancel")
        assert stopped["status"] == "cancelled"
        await until(_cancelled_run(client, slow["id"]), "its run has stopped")
        error = await client.refused(409, "POST", f"{JOBS}/{slow['id']}/reactivate")
        assert "runs once" in error["message"]
        assert error["details"]["current_state"] == "cancelled"
        again = {"interval_minutes": 5}  # with an interval it can run again
        await client.put(f"{JOBS}/{slow['id']}", again)
        assert (await client.post(f"{JOBS}/{slow['id']}/reactivate"))["status"] == "scheduled"
        crawler.release.set()


def _cancelled_run(client: Client, id: str) -> Any:
    async def stopped() -> bool:
        return bool((await client.get(f"{JOBS}/{id}/stats"))["cancelled_runs"] == 1)

    return stopped


@pytest.mark.req("API-2", "API-4", "API-7", "EXE-2")
async def test_every_answer_to_a_started_run_has_one_form(nodes: Nodes) -> None:
    async with crawling(nodes) as (client, crawler):
        failed = await one_shot(client, "failed", url="https://broken", max_retries=0)
        assert (failed["current_retry_count"], failed["last_status"]) == (1, "failed")
        assert failed["error_message"] == "ConnectionError: https://broken does not answer"
        place = f"{JOBS}/{failed['id']}"
        answers = {"retry": await client.ask("POST", f"{place}/retry")}
        retried = answers["retry"].json()
        assert (retried["id"], retried["status"], retried["current_retry_count"]) == (failed["id"], "pending", 0)
        assert (retried["execution"]["trigger"], retried["execution"]["status"]) == ("retry", "pending")
        await client.get(f"/api/v1/executions/{retried['execution_id']}?wait=20s")
        again = f"/api/v1/executions/{retried['execution_id']}/retry"
        answers["retry of an execution"] = await client.ask("POST", again)

        every = await client.post(JOBS, {**SOURCE, "interval_minutes": 30})
        answers["trigger"] = await client.ask("POST", f"{JOBS}/{every['id']}/trigger")
        triggered = answers["trigger"].json()
        assert (triggered["id"], triggered["status"]) == (every["id"], "scheduled")
        assert (await client.get(f"{JOBS}/{every['id']}"))["next_run_at"] == every["next_run_at"]
        await client.get(f"/api/v1/executions/{triggered['execution_id']}?wait=20s")
        answers["sys"] = await client.ask("POST", f"/_sys/job/{every['id']}")
        answers["handler"] = await client.ask("POST", "/jobs/crawl?wait=0", json=SOURCE)
        for name, answer in answers.items():
            assert answer.status_code == 202, name
            started = answer.json()
            assert list(started) == ["id", "status", "current_retry_count", "execution_id", "execution"], name
            assert (started["id"], started["execution_id"]) == (
                started["execution"]["job_id"],
                started["execution"]["id"],
            )

        await client.get(f"/api/v1/executions/{answers['sys'].json()['execution_id']}?wait=20s")
        done = await client.ask("POST", f"{JOBS}/{every['id']}/trigger?wait=20s")
        assert (done.status_code, list(done.json())) == (200, list(retried))
        assert (done.json()["status"], done.json()["execution"]["status"]) == ("scheduled", "completed")
        error = await client.refused(500, "POST", f"{place}/trigger?wait=20s")
        assert (error["code"], error["details"]["status"]) == ("job_failed", "failed")
        assert error["message"] == "ConnectionError: https://broken does not answer"
        error = await client.refused(500, "POST", f"{place}/retry?wait=20s")
        error = await client.refused(
            500, "POST", f"/api/v1/executions/{error['details']['execution_id']}/retry?wait=20s"
        )
        assert error["code"] == "job_failed"
        slow = await client.post(JOBS, {**SOURCE, "url": "https://slow", "interval_minutes": 30})
        waiting = await client.ask("POST", f"{JOBS}/{slow['id']}/trigger?wait=1ms")
        assert (waiting.status_code, list(waiting.json())) == (202, list(retried))
        crawler.release.set()


@pytest.mark.req("API-5", "API-6", "API-12", "API-13")
async def test_executions_and_numbers(nodes: Nodes) -> None:
    async with crawling(nodes) as (client, _):
        job = await client.post(JOBS, {**SOURCE, "interval_minutes": 30, "max_retries": 1, "retry_backoff_seconds": 0})
        place = f"{JOBS}/{job['id']}"
        for _ in range(2):
            await client.post(f"{place}/trigger?wait=20s")
        await client.refused(500, "POST", f"{place}/trigger?wait=20s", {"params": {"url": "https://broken"}})

        page = await client.get(f"{place}/executions?limit=2&offset=0")
        assert list(page)[:5] == ["executions", "total", "limit", "offset", "next_cursor"]
        assert (page["complete"], page["searched_until"]) == (True, None)
        assert (page["total"], page["limit"], page["offset"], len(page["executions"])) == (3, 2, 0, 2)
        failed, done = page["executions"]
        assert (failed["job_id"], failed["status"], failed["retry_attempt"]) == (job["id"], "failed", 1)
        assert "ConnectionError" in failed["error_message"]
        assert "Traceback" in failed["stack_trace"]
        assert (done["status"], done["retry_attempt"], done["execution_number"]) == ("completed", 0, 2)
        assert done["counters"] == {"items_crawled": 25, "items_indexed": 20, "status": 3}
        assert (done["items_crawled"], done["items_indexed"]) == (25, 20)
        assert done["duration_ms"] >= 0
        assert instant(done["created_at"]) <= instant(done["started_at"]) <= instant(done["completed_at"])
        assert done["completed_at"] == done["finished_at"]
        rest = await client.get(f"{place}/executions?limit=2&offset=2")
        assert [each["execution_number"] for each in rest["executions"]] == [1]
        assert (await client.get(f"{place}/executions?status=failed"))["total"] == 1
        assert await client.get(f"/api/v1/executions/{done['id']}") == done

        stats = await client.get(f"{place}/stats")
        assert (stats["total_executions"], stats["successful_runs"], stats["failed_runs"]) == (3, 2, 1)
        assert stats["success_rate"] == pytest.approx(2 / 3)
        assert stats["average_duration_ms"] >= 0
        assert instant(stats["last_execution_at"]) == instant(failed["started_at"])
        assert stats["next_scheduled_at"] == job["next_run_at"]

        metrics = await client.get("/api/v1/scheduler/metrics")
        assert {"total", *STATES} == set(metrics["jobs"])
        assert (metrics["jobs"]["total"], metrics["jobs"]["scheduled"], metrics["jobs"]["pending"]) == (2, 1, 1)
        runs = metrics["executions"]
        assert (runs["total"], runs["completed"], runs["failed"]) == (3, 2, 1)
        assert (runs["success_rate"], runs["average_duration_ms"] >= 0) == (pytest.approx(2 / 3), True)
        assert instant(metrics["last_check_at"])
        assert instant(metrics["last_metrics_update"])
        assert metrics["stale_locks_cleared"] == 0
        assert set(metrics) == {"jobs", "executions", "stale_locks_cleared", "last_check_at", "last_metrics_update"}
