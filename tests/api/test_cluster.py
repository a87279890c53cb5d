"""Workers, handlers, locks, audit, bulk commands, backfills: the rest of the resources."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import pytest

from mainspring import CommandRefused, Mainspring, every
from mainspring.testing import FakeClock
from tests.api.client import client_of
from tests.support import ON_A_FAKE_CLOCK, Nodes, ended, until


@pytest.mark.req("API-8", "WRK-7")
async def test_workers_and_handlers(nodes: Nodes) -> None:
    app = nodes.app()

    @app.job("remind")
    def remind(shift_id: str, urgent: bool = False) -> None: ...

    async with app, client_of(app) as client:
        (worker,) = (await client.get("/api/v1/workers"))["items"]
        assert (worker["handlers"], worker["roles"]) == (["remind"], ["scheduler", "worker"])
        (handler,) = (await client.get("/api/v1/handlers"))["items"]
        assert (handler["name"], handler["required"], handler["workers"]) == ("remind", ["shift_id"], [worker["id"]])
        assert "shift_id: str" in handler["signature"]


@pytest.mark.req("LCK-4")
async def test_a_lock_is_shown_and_released_by_an_administrator(nodes: Nodes) -> None:
    app = nodes.app()
    async with client_of(app) as client:
        async with app.lock("import / daily", ttl=60):
            (lock,) = (await client.get("/api/v1/locks"))["items"]
            assert lock["name"] == "import / daily"
            assert lock["owner"]
            assert lock["expires_at"] > lock["acquired_at"]
            headers = {"X-Request-Id": "req-9"}
            released = await client.ask("DELETE", "/api/v1/locks/import%20%2F%20daily", headers=headers)
            assert released.status_code == 204
            assert (await client.get("/api/v1/locks"))["items"] == []
            await client.refused(404, "DELETE", "/api/v1/locks/import%20%2F%20daily")
        (record,) = (await client.get("/api/v1/audit?action=release"))["items"]
        assert (record["target"], record["actor"], record["request_id"]) == ("lock:import / daily", "loopback", "req-9")
    await app.close()


@pytest.mark.req("LCK-4")
async def test_what_a_running_job_holds_is_in_the_list_and_only_its_end_releases_it(nodes: Nodes) -> None:
    app = nodes.app()
    entered, release = asyncio.Event(), asyncio.Event()

    @app.job("import", overlap="skip")
    async def work() -> None:
        entered.set()
        await release.wait()

    async with app, client_of(app) as client, app.lock("by name", ttl=60):
        execution = await app.enqueue(work, unique="orders / 7")
        assert execution is not None
        await entered.wait()
        (worker,) = await app.workers()
        named, overlap, unique = (await client.get("/api/v1/locks?sort=name"))["items"]
        by_kind = {row["kind"]: row for row in (named, overlap, unique)}
        assert by_kind["lock"]["name"] == "by name"
        for kind in ("overlap", "unique"):
            row = by_kind[kind]
            assert (row["job"], row["execution_id"], row["status"]) == ("import", execution.id, "running")
            assert row["owner"] == worker.id
            assert row["acquired_at"] < row["expires_at"]
            assert (await client.get(f"/api/v1/locks?kind={kind}"))["items"] == [row]
            refused = await client.refused(409, "DELETE", f"/api/v1/locks/{quote(row['name'], safe='')}")
            assert f"mainspring executions cancel {execution.id}" in refused["message"]
            with pytest.raises(CommandRefused, match=f"running on {worker.id}"):
                await app.locks.release(row["name"])
        pages, cursor = [], None
        while not pages or cursor:
            page = await app.locks.page(1, cursor)
            pages, cursor = [*pages, *page.items], page.next_cursor
        assert pages == await app.locks.all()
        assert [row.kind for row in pages] == ["lock", "overlap", "unique"]
        release.set()
        await ended(app, execution)
        assert [row.kind for row in await app.locks.all()] == ["lock"]
        await client.refused(400, "GET", "/api/v1/locks?cursor=nonsense")


@pytest.mark.req("SEC-3", "API-8")
async def test_every_change_leaves_who_what_when_before_after_and_the_request(nodes: Nodes) -> None:
    app = nodes.app()
    app.job("job", trigger=every(hours=1))(lambda: None)
    async with client_of(app) as client:
        steps = [
            ("POST", "/api/v1/jobs/job/pause", "pause"),
            ("POST", "/api/v1/jobs/job/resume", "resume"),
            ("POST", "/api/v1/jobs/job/trigger", "trigger"),
            ("PUT", "/api/v1/jobs/job", "update"),
            ("POST", "/api/v1/jobs/job/revert", "revert"),
            ("POST", "/api/v1/jobs/job/cancel", "cancel"),
            ("POST", "/api/v1/jobs/job/reactivate", "reactivate"),
            ("DELETE", "/api/v1/jobs/job?force=true", "remove"),
        ]
        for number, (method, path, _) in enumerate(steps):
            body: dict[str, Any] = {"json": {"priority": 5}} if method == "PUT" else {}
            answer = await client.ask(method, path, headers={"X-Request-Id": f"r{number}"}, **body)
            assert answer.status_code < 300, (path, answer.text)
        records = (await client.get("/api/v1/audit?target=job:job"))["items"][::-1]
        assert [(each["action"], each["request_id"]) for each in records] == [
            (action, f"r{number}") for number, (_, _, action) in enumerate(steps)
        ]
        assert {each["actor"] for each in records} == {"loopback"}
        paused = records[0]
        assert "paused" in paused["after"]
        assert "paused" not in paused["before"]
        assert records[3]["after"]["overrides"] == {"priority": 5}
        only = await client.get("/api/v1/audit?request_id=r1")
        assert [each["action"] for each in only["items"]] == ["resume"]
        assert len((await client.get("/api/v1/audit?limit=2&offset=1"))["items"]) == 2
    await app.close()


@pytest.mark.req("API-8", "FLW-6")
async def test_bulk_commands_on_jobs(nodes: Nodes) -> None:
    app = nodes.app()
    for number in range(4):
        app.job(f"job-{number}", trigger=every(hours=1), queue="reports" if number < 3 else "other")(lambda: None)
    async with client_of(app) as client:
        done = await client.post("/api/v1/bulk/jobs", {"command": "pause", "ids": ["job-0", "job-1", "job-2"]})
        assert (done["matched"], done["done"], done["refused"]) == (3, 3, 0)
        assert {each["status"] for each in done["results"]} == {"paused"}
        mixed = await client.post("/api/v1/bulk/jobs", {"command": "resume", "ids": ["job-0", "job-3", "nope"]})
        assert [each["done"] for each in mixed["results"]] == [True, False, False]
        assert [each["error"]["code"] for each in mixed["results"][1:]] == ["command_refused", "not_found"]
        assert (await client.get("/api/v1/jobs?status=paused"))["total"] == 2
        cancelled = await client.post("/api/v1/bulk/jobs", {"command": "cancel", "ids": ["job-1", "job-2"]})
        assert cancelled["done"] == 2
        for body in (
            {"command": "pause"},
            {"command": "pause", "ids": ["a"], "filter": {"queue": "reports"}},
            {"command": "explode", "ids": ["a"]},
            {"command": "pause", "ids": []},
            {"command": "pause", "ids": ["a"] * 1_001},
        ):
            await client.refused(400, "POST", "/api/v1/bulk/jobs", body)
    await app.close()


@pytest.mark.req("API-8", "FLW-6")
async def test_bulk_commands_on_executions(nodes: Nodes) -> None:
    app = nodes.app()
    app.job("job", max_attempts=1)(_failing)
    async with client_of(app) as client:
        waiting = await app.enqueue_many([("job",)] * 5)
        body = {"command": "cancel", "ids": [each.id for each in waiting if each], "note": "wrong"}
        done = await client.post("/api/v1/bulk/executions", body)
        assert (done["done"], {each["status"] for each in done["results"]}) == (5, {"cancelled"})
        ids = [each["id"] for each in done["results"]]
        retried = await client.post("/api/v1/bulk/executions", {"command": "retry", "ids": [*ids[:2], "nope"]})
        assert [each["done"] for each in retried["results"]] == [True, True, False]
        assert (await client.get("/api/v1/executions?trigger=retry"))["total"] == 2
    async with app:
        await until(lambda: _ended(app, 7))
        async with client_of(app) as client:
            again = await client.post("/api/v1/bulk/jobs", {"command": "retry", "ids": ["job"]})
            assert again["done"] == 1
            assert again["results"][0]["execution_id"]


def _failing() -> None:
    raise ValueError("as asked")


async def _ended(app: Mainspring, count: int) -> bool:
    return len(await app.executions(status=["cancelled", "failed"], limit=100)) == count


@pytest.mark.req("WIN-5", "API-8")
async def test_backfills(memory_nodes: Nodes) -> None:
    clock = FakeClock(datetime(2026, 3, 10, 12, tzinfo=UTC))
    app = memory_nodes.app(clock=clock, **ON_A_FAKE_CLOCK)
    app.job("daily", cron="0 3 * * *", window="yesterday")(lambda: None)
    body = {"job": "daily", "begin": "2026-03-01T00:00:00Z", "end": "2026-03-04T00:00:00Z", "force": True}
    async with app, client_of(app) as client:
        planned = await client.ask("POST", "/api/v1/backfills", json=body | {"dry_run": True})
        assert (planned.status_code, planned.json()["status"]) == (200, "planned")
        assert (await client.get("/api/v1/backfills"))["items"] == []
        begun = await client.ask("POST", "/api/v1/backfills", json=body)
        id = begun.json()["id"]
        assert (begun.status_code, begun.headers["location"]) == (201, f"/api/v1/backfills/{id}")
        await app.backfills.wait(id, timeout=60)
        done = await client.get(f"/api/v1/backfills/{id}")
        assert (done["status"], done["total"]) == ("completed", planned.json()["total"])
        assert [each["id"] for each in (await client.get("/api/v1/backfills?job=daily"))["items"]] == [id]
        for command in ("pause", "resume", "cancel"):
            error = await client.refused(409, "POST", f"/api/v1/backfills/{id}/{command}")
            assert error["details"]["current_state"] == "completed"
        await client.refused(404, "POST", "/api/v1/backfills/nope/cancel")
        await client.refused(404, "POST", "/api/v1/backfills", body | {"job": "nope"})
        await client.refused(400, "POST", "/api/v1/backfills", body | {"begin": "tomorrow"})


async def test_a_run_in_this_process_is_the_same_as_over_http(nodes: Nodes) -> None:
    app = nodes.app()
    app.job("job")(lambda: None)
    async with app, client_of(app) as client:
        run = await ended(app, await app.enqueue("job"))
        assert (await client.get(f"/api/v1/executions/{run.id}"))["status"] == "completed"
