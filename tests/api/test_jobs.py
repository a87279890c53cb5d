"""`/api/v1/jobs`: create, list, read, change, remove; executions, numbers."""

from __future__ import annotations

from typing import Any

import pytest

from mainspring import InvalidValue, JobContext, Mainspring, every
from mainspring.server.api import create_api
from tests.api.client import Client, client_of
from tests.integration.gate import Gate
from tests.support import Nodes, ended

API_12 = [
    "id",
    "name",
    "handler",
    "params",
    "status",
    "is_paused",
    "paused_at",
    "cancelled_at",
    "started_at",
    "completed_at",
    "next_run_at",
    "last_status",
    "error_message",
    "current_retry_count",
    "interval_minutes",
    "interval_type",
    "schedule",
    "metadata",
    "created_at",
    "updated_at",
]
API_12_EXECUTION = [
    "counters",
    "items_crawled",
    "items_indexed",
    "error_message",
    "stack_trace",
    "cpu_time_ms",
    "memory_peak_mb",
    "retry_attempt",
    "execution_number",
    "started_at",
    "finished_at",
    "duration_ms",
]


def crawler(nodes: Nodes, **settings: Any) -> Mainspring:
    app = nodes.app(**settings)

    @app.job("crawl")
    async def crawl(ctx: JobContext, url: str = "http://localhost", source_id: int = 0, **rest: str) -> None:
        ctx.count(items_crawled=25, items_indexed=20)

    return app


@pytest.mark.req("API-3", "TIM-10")
async def test_a_job_every_thirty_minutes_is_created_read_and_listed(nodes: Nodes) -> None:
    app = crawler(nodes)
    async with client_of(app) as client:
        body = {
            "name": "crawl-news",
            "handler": "crawl",
            "params": {"url": "http://localhost/news"},
            "interval_minutes": 30,
            "interval_type": "minutes",
            "schedule": "0 3 * * *",
            "metadata": {"team": "news"},
        }
        answer = await client.ask("POST", "/api/v1/jobs", json=body)
        assert answer.status_code == 201
        assert answer.headers["location"] == "/api/v1/jobs/crawl-news"
        made = answer.json()
        assert set(API_12) <= set(made)
        assert (made["status"], made["schedule"], made["execution_id"]) == ("scheduled", "@every 30m", None)
        assert (made["interval_minutes"], made["interval_type"]) == (30, "minutes")
        assert (made["metadata"], made["origin"], made["next_run_at"] is not None) == ({"team": "news"}, "api", True)
        read = await client.ask("GET", "/api/v1/jobs/crawl-news")
        assert read.headers["etag"] == answer.headers["etag"]
        listed = await client.get("/api/v1/jobs")
        assert ([job["name"] for job in listed["items"]], listed["total"]) == (["crawl", "crawl-news"], 2)
    await app.close()


@pytest.mark.req("API-3")
async def test_retries_of_a_created_job(nodes: Nodes) -> None:
    app = crawler(nodes)
    async with client_of(app) as client:
        plain = await client.post("/api/v1/jobs", {"handler": "crawl", "interval_minutes": 5})
        assert (plain["max_retries"], plain["retry_backoff_seconds"]) == (3, 60)
        assert plain["policy"]["retry"] == {
            "initial": 60.0,
            "multiplier": 2.0,
            "max": 3600.0,
            "jitter": 0.0,
            "delays": [],
        }
        own = await client.post(
            "/api/v1/jobs",
            {"handler": "crawl", "interval_minutes": 5, "max_retries": 0, "retry_backoff_seconds": 1.5},
        )
        assert (own["policy"]["max_attempts"], own["retry_backoff_seconds"]) == (1, 1.5)
    await app.close()


@pytest.mark.req("API-3", "OPS-2")
@pytest.mark.parametrize(
    ("settings", "retries", "first_wait"),
    [
        ({"retry_max_attempts": 7}, 6, 60.0),
        ({"retry_policy": {"initial": "5s", "max": "1m"}}, 3, 5.0),
        ({"retry_max_attempts": 1, "retry_policy": "queue"}, 0, 2.0),
    ],
)
async def test_the_retries_of_the_settings_reach_created_jobs(
    memory_nodes: Nodes, settings: dict[str, Any], retries: int, first_wait: float
) -> None:
    app = crawler(memory_nodes, **settings)
    async with client_of(app) as client:
        for schedule in ({"interval_minutes": 5}, {}):
            plain = await client.post("/api/v1/jobs", {"handler": "crawl", **schedule})
            assert (plain["max_retries"], plain["retry_backoff_seconds"]) == (retries, first_wait)
        own = await client.post("/api/v1/jobs", {"handler": "crawl", "max_retries": 2, "retry": "tenant"})
        assert (own["max_retries"], own["retry_backoff_seconds"]) == (2, 5.0)
    await app.close()


async def test_a_disabled_schedule_is_enabled_again(memory_nodes: Nodes) -> None:
    app = crawler(memory_nodes)
    async with client_of(app) as client:
        await client.post("/api/v1/jobs", {"name": "j", "handler": "crawl", "interval_minutes": 5})
        for enabled in (False, True):
            edited = await client.put("/api/v1/jobs/j", {"schedule_enabled": enabled})
            assert (edited["schedule_enabled"], edited["next_run_at"] is not None) == (enabled, enabled)
    await app.close()


@pytest.mark.req("API-3", "API-12")
@pytest.mark.parametrize("fields", [{}, {"interval_minutes": 30, "schedule_enabled": False}])
async def test_a_job_without_a_schedule_runs_once_at_once(nodes: Nodes, fields: dict[str, Any]) -> None:
    app = crawler(nodes)
    async with app, client_of(app) as client:
        made = await client.post("/api/v1/jobs", {"handler": "crawl", "params": {"url": "u"}, **fields})
        assert made["name"].startswith("crawl-")
        execution = await client.get(f"/api/v1/executions/{made['execution_id']}?wait=20s")
        assert (execution["status"], execution["trigger"], execution["job"]) == ("completed", "api", made["name"])
        assert set(API_12_EXECUTION) <= set(execution)
        assert (execution["items_crawled"], execution["counters"]["items_indexed"]) == (25, 20)
        assert (await client.get(f"/api/v1/jobs/{made['name']}"))["status"] == "completed"


@pytest.mark.req("API-3")
@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "handler"),
        ({"handler": 5}, "handler"),
        ({"handler": "nobody-has-it"}, "handler"),
        ({"handler": "crawl", "interval_minutes": "30"}, "interval_minutes"),
        ({"handler": "crawl", "interval_minutes": 0}, "interval_minutes"),
        ({"handler": "crawl", "interval_minutes": 1.5}, "interval_minutes"),
        ({"handler": "crawl", "interval_minutes": True}, "interval_minutes"),
        ({"handler": "crawl", "interval_minutes": 5, "interval_type": "weeks"}, "interval_type"),
        ({"handler": "crawl", "schedule": "61 * * * *"}, "schedule"),
        ({"handler": "crawl", "schedule": "@every"}, "schedule"),
        ({"handler": "crawl", "schedule": "@once yesterday"}, "schedule"),
        ({"handler": "crawl", "schedule": "@daily", "timezone": "Mars/Olympus"}, "timezone"),
        ({"handler": "crawl", "max_retries": -1}, "max_retries"),
        ({"handler": "crawl", "max_retries": "3"}, "max_retries"),
        ({"handler": "crawl", "params": []}, "params"),
        ({"handler": "crawl", "params": {"url": 5}}, "params.url"),
        ({"handler": "crawl", "name": "no spaces"}, "name"),
        ({"handler": "crawl", "metadata": "text"}, "metadata"),
        ({"handler": "crawl", "source_name": "x"}, "source_name"),
    ],
)
async def test_what_is_wrong_with_a_new_job_is_named(memory_nodes: Nodes, body: dict[str, Any], field: str) -> None:
    app = crawler(memory_nodes)
    async with client_of(app) as client:
        error = await client.refused(400, "POST", "/api/v1/jobs", body)
        assert error["details"][0]["field"] == field
        assert (await client.get("/api/v1/jobs"))["total"] == 1
    await app.close()


@pytest.mark.req("API-3")
async def test_an_unknown_name_has_one_message_here_and_in_code(memory_nodes: Nodes) -> None:
    app = memory_nodes.app()

    @app.job("fetch")
    async def fetch(url: str = "") -> None: ...

    with pytest.raises(InvalidValue) as refused:
        await app.enqueue("fetch", {"ulr": 3})
    assert "params has no parameter 'ulr'; did you mean 'url'? Handler 'fetch' takes" in str(refused.value)
    async with client_of(app) as client:
        for path, body in (("jobs", {"handler": "fetch"}), ("jobs/fetch/trigger", {})):
            error = await client.refused(400, "POST", f"/api/v1/{path}", body | {"params": {"ulr": 3}})
            assert error["message"] == str(refused.value)
        error = await client.refused(400, "POST", "/api/v1/jobs", {"handler": "fetch", "every": "5m"})
        assert error["details"][0]["remedy"] == "Did you mean 'schedule'?"
    await app.close()


@pytest.mark.req("API-3")
async def test_unknown_fields_are_parameters_where_a_default_handler_is_configured(memory_nodes: Nodes) -> None:
    app = crawler(memory_nodes, api_handler="crawl")
    async with client_of(app, create_api(app._runtime)) as client:
        made = await client.post(
            "/api/v1/jobs", {"source_id": 7, "source_name": "x", "url": "u", "interval_minutes": 5}
        )
        assert (made["handler"], made["params"]) == ("crawl", {"source_id": 7, "source_name": "x", "url": "u"})
        await client.refused(400, "POST", "/api/v1/jobs", {"source_id": "7", "interval_minutes": 5})
    await app.close()


@pytest.mark.req("API-3")
async def test_a_name_is_taken_once(nodes: Nodes) -> None:
    app = crawler(nodes)
    async with client_of(app) as client:
        body = {"name": "twice", "handler": "crawl", "interval_minutes": 5}
        await client.post("/api/v1/jobs", body)
        error = await client.refused(409, "POST", "/api/v1/jobs", body)
        assert error["code"] == "command_refused"
    await app.close()


@pytest.mark.req("API-3", "REG-10")
async def test_a_partial_update_changes_what_it_names(nodes: Nodes) -> None:
    app = crawler(nodes)
    async with client_of(app) as client:
        await client.post("/api/v1/jobs", {"name": "j", "handler": "crawl", "interval_minutes": 30, "queue": "slow"})
        edited = await client.put("/api/v1/jobs/j", {"interval_minutes": 15, "params": {"url": "v"}, "max_retries": 1})
        assert (edited["schedule"], edited["params"], edited["max_retries"]) == ("@every 15m", {"url": "v"}, 1)
        assert edited["queue"] == "slow"
        cron = await client.put("/api/v1/jobs/j", {"schedule": "30 4 * * *", "timezone": "Europe/Paris"})
        assert (cron["schedule"], cron["policy"]["tz"]) == ("30 4 * * *", "Europe/Paris")
        on_demand = await client.put("/api/v1/jobs/j", {"schedule": None})
        assert (on_demand["schedule"], on_demand["next_run_at"]) == (None, None)
        await client.refused(400, "PUT", "/api/v1/jobs/j", {"interval_minutes": "15"})
        await client.refused(400, "PUT", "/api/v1/jobs/j", {"colour": "red"})
        await client.refused(404, "PUT", "/api/v1/jobs/nope", {"queue": "x"})
        reverted = await client.post("/api/v1/jobs/j/revert")
        assert (reverted["schedule"], reverted["overrides"]) == ("@every 30m", {})
    await app.close()


@pytest.mark.req("API-3")
async def test_if_match_is_honoured_and_not_required(nodes: Nodes) -> None:
    app = crawler(nodes)
    async with client_of(app) as client:
        seen = (await client.ask("GET", "/api/v1/jobs/crawl")).headers["etag"]
        changed = await client.ask("PUT", "/api/v1/jobs/crawl", json={"priority": 1}, headers={"If-Match": seen})
        assert changed.status_code == 200
        stale = {"If-Match": seen}
        for method, path in (
            ("PUT", ""),
            ("DELETE", ""),
            ("POST", "/cancel"),
            ("POST", "/trigger"),
            ("POST", "/retry"),
        ):
            body = {"json": {"priority": 2}} if method == "PUT" else {}
            answer = await client.ask(method, f"/api/v1/jobs/crawl{path}", headers=stale, **body)
            assert (answer.status_code, answer.json()["error"]["code"]) == (412, "job_changed"), path
        job = await client.get("/api/v1/jobs/crawl")
        assert (job["policy"]["priority"], job["status"]) == (1, "pending")
        await client.refused(400, "PUT", "/api/v1/jobs/crawl", {"priority": 3}, headers={"If-Match": "no quotes"})
        assert await client.put("/api/v1/jobs/crawl", {"priority": 3}, headers={"If-Match": "*"})
        fresh = {"If-Match": (await client.ask("GET", "/api/v1/jobs/crawl")).headers["etag"]}
        assert (await client.ask("POST", "/api/v1/jobs/crawl/cancel", headers=fresh)).status_code == 200
    await app.close()


@pytest.mark.req("API-3", "API-11")
async def test_the_tag_of_an_earlier_incarnation_is_not_that_of_the_job(nodes: Nodes) -> None:
    app = crawler(nodes)
    body, place = {"name": "again", "handler": "crawl", "interval_minutes": 30}, "/api/v1/jobs/again"
    async with client_of(app) as client:
        first = await client.ask("POST", "/api/v1/jobs", json=body)
        assert (await client.ask("DELETE", place)).status_code == 204
        second = await client.ask("POST", "/api/v1/jobs", json=body)
        assert first.json()["version"] == second.json()["version"]
        assert first.headers["etag"] != second.headers["etag"]
        earlier = {"If-Match": first.headers["etag"]}
        error = await client.refused(412, "PUT", place, {"queue": "other"}, headers=earlier)
        assert (f'"{error["details"]["if_match"]}"', f'"{error["details"]["etag"]}"') == (
            first.headers["etag"],
            second.headers["etag"],
        )
        for method, path in (("DELETE", ""), ("POST", "/pause"), ("POST", "/cancel"), ("POST", "/trigger")):
            await client.refused(412, method, f"{place}{path}", headers=earlier)
        same = await client.ask("GET", place)
        assert (same.headers["etag"], same.json()["queue"]) == (second.headers["etag"], "default")
    await app.close()


@pytest.mark.req("API-11")
async def test_a_live_job_is_removed_by_force_only_and_its_history_stays(nodes: Nodes) -> None:
    app = nodes.app()
    gate = Gate(app, "long", trigger=every(hours=1))
    async with app, client_of(app) as client:
        run = await app.trigger("long")
        await gate.holds(run)
        error = await client.refused(409, "DELETE", "/api/v1/jobs/long")
        assert "alive" in error["details"]["current_state"]
        assert (await client.ask("DELETE", "/api/v1/jobs/long?force=true")).status_code == 204
        await client.refused(404, "GET", "/api/v1/jobs/long")
        assert (await client.get(f"/api/v1/executions/{run.id}?wait=20s"))["status"] == "cancelled"
        await client.refused(404, "DELETE", "/api/v1/jobs/long")


@pytest.mark.req("API-11")
async def test_a_purge_removes_the_history_and_a_new_incarnation_starts_over(nodes: Nodes) -> None:
    app = crawler(nodes)
    async with app, client_of(app) as client:
        body = {"name": "again", "handler": "crawl"}
        first = await client.post("/api/v1/jobs", body)
        await client.get(f"/api/v1/executions/{first['execution_id']}?wait=20s")
        assert (await client.ask("DELETE", "/api/v1/jobs/again?purge=true")).status_code == 204
        await client.refused(404, "GET", f"/api/v1/executions/{first['execution_id']}")
        second = await client.post("/api/v1/jobs", body)
        execution = await client.get(f"/api/v1/executions/{second['execution_id']}?wait=20s")
        assert execution["status"] == "completed"


@pytest.mark.req("API-5", "API-6", "API-13")
async def test_executions_and_numbers_of_a_job(nodes: Nodes) -> None:
    app = crawler(nodes)
    app.job("fails", max_attempts=1)(_failing)
    async with app, client_of(app) as client:
        for number in range(3):
            await ended(app, await app.enqueue("crawl", {"url": f"u{number}"}))
        await ended(app, await app.enqueue("fails"))
        page = await client.get("/api/v1/jobs/crawl/executions?limit=2&offset=1")
        assert [item["params"]["url"] for item in page["executions"]] == ["u1", "u0"]
        assert (page["total"], page["limit"], page["offset"]) == (3, 2, 1)
        assert (await client.get("/api/v1/jobs/crawl/executions?status=failed"))["total"] == 0
        await client.refused(404, "GET", "/api/v1/jobs/nope/executions")
        stats = await client.get("/api/v1/jobs/crawl/stats")
        assert (stats["total_executions"], stats["successful_runs"], stats["failed_runs"]) == (3, 3, 0)
        assert stats["success_rate"] == 1.0
        assert stats["average_duration_ms"] >= 0
        assert stats["last_execution_at"]
        assert stats["next_scheduled_at"] is None
        metrics = await client.get("/api/v1/scheduler/metrics")
        runs = metrics["executions"]
        assert (runs["total"], runs["failed"], runs["success_rate"]) == (4, 1, 0.75)
        assert metrics["jobs"] | {"completed": 1, "failed": 1} == metrics["jobs"]
        assert metrics["last_check_at"]
        assert metrics["last_metrics_update"]
        assert metrics["stale_locks_cleared"] == 0


def _failing() -> None:
    raise ValueError("as asked")


@pytest.fixture
def many() -> list[str]:
    return [f"job-{number:03}" for number in range(25)]


@pytest.mark.req("API-3", "API-13")
async def test_jobs_are_filtered_sorted_and_paged(nodes: Nodes, many: list[str]) -> None:
    app = nodes.app()
    for number, name in enumerate(many):
        queue, trigger = ("even", every(hours=number + 1)) if number % 2 == 0 else ("odd", None)
        app.job(name, queue=queue, trigger=trigger)(lambda: None)
    async with client_of(app) as client:
        assert await _by_cursor(client, "/api/v1/jobs?limit=10") == many
        assert await _by_cursor(client, "/api/v1/jobs?limit=10&queue=odd") == many[1::2]
        second = await client.get("/api/v1/jobs?limit=10&offset=20")
        assert ([job["name"] for job in second["items"]], second["total"]) == (many[20:], 25)
        await client.post("/api/v1/jobs/job-000/pause")
        assert [job["name"] for job in (await client.get("/api/v1/jobs?status=paused"))["items"]] == ["job-000"]
        assert (await client.get("/api/v1/jobs?status=paused&status=scheduled"))["total"] == 13
        assert (await client.get("/api/v1/jobs?paused=true&queue=odd"))["total"] == 0
        assert [job["name"] for job in (await client.get("/api/v1/jobs?q=B-01"))["items"]] == many[10:20]
        last = (await client.get("/api/v1/jobs?sort=-name&limit=3"))["items"]
        assert [job["name"] for job in last] == many[:-4:-1]
        soon = (await client.get("/api/v1/jobs?sort=next_run_at&limit=2"))["items"]
        assert [job["name"] for job in soon] == ["job-002", "job-004"]
        for query in ("limit=201", "limit=0", "offset=-1", "offset=10001", "sort=colour", "colour=red", "paused=maybe"):
            await client.refused(400, "GET", f"/api/v1/jobs?{query}")
        await client.refused(400, "GET", "/api/v1/jobs?sort=-name&cursor=job-001")
    await app.close()


async def _by_cursor(client: Client, path: str) -> list[str]:
    names: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = await client.get(path + (f"&cursor={cursor}" if cursor else ""))
        names += [job["name"] for job in page["items"]]
        cursor = page["next_cursor"]
    return names
