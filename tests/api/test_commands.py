"""The command table, over HTTP: each state of a job, each command, and what must come of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

import pytest

from mainspring import Mainspring, every
from tests.api.client import Client, client_of
from tests.integration.gate import Gate
from tests.support import Nodes, ended, until

COMMANDS = ("pause", "resume", "trigger", "cancel", "retry", "reactivate")

# What each command gives: a status of the job after it, 202 for a new execution, or 409.
TABLE: dict[str, tuple[Any, ...]] = {
    "pending": ("paused", 409, 202, "cancelled", 409, 409),
    "scheduled": ("paused", 409, 202, "cancelled", 409, 409),
    "scheduled, last failed": ("paused", 409, 202, "cancelled", 202, 409),
    "running": ("paused", 409, 409, "cancelled", 409, 409),
    "paused": (409, "scheduled", 202, "cancelled", 409, 409),
    "paused, last failed": (409, "scheduled", 202, "cancelled", 202, 409),
    "completed": (409, 409, 202, 409, 409, 409),
    "failed": (409, 409, 202, 409, 202, 409),
    "cancelled": (409, 409, 409, 409, 409, "scheduled"),
}
CASES = [(state, command, row[at]) for state, row in TABLE.items() for at, command in enumerate(COMMANDS)]


class World:
    """One job, `job`, brought into a state. Its handler waits, fails or returns as the state needs it."""

    def __init__(self, app: Mainspring, client: Client) -> None:
        self.app, self.client = app, client
        self.fails = False
        self.gate = asyncio.Event()
        self.gate.set()
        self.running = asyncio.Event()
        app.job("work")(self.work)
        app.job("elsewhere")(self.work)

    async def work(self) -> None:
        self.running.set()
        await self.gate.wait()
        if self.fails:
            raise ValueError("as asked")

    async def create(self, **fields: Any) -> dict[str, Any]:
        body = {"name": "job", "handler": "work", "max_retries": 0, **fields}
        made: dict[str, Any] = await self.client.post("/api/v1/jobs", body)
        return made

    async def recurring(self) -> None:
        await self.create(interval_minutes=30)

    async def one_shot(self) -> None:
        made = await self.create()
        await self.client.get(f"/api/v1/executions/{made['execution_id']}?wait=20s")

    async def failed_run(self) -> None:
        self.fails = True
        await self.client.refused(500, "POST", "/api/v1/jobs/job/trigger?wait=20s")
        self.fails = False


async def _pending(world: World) -> None:
    await world.app.stop()  # nobody picks it up
    await world.create()


async def _scheduled(world: World) -> None:
    await world.recurring()


async def _scheduled_last_failed(world: World) -> None:
    await world.recurring()
    await world.failed_run()


async def _running(world: World) -> None:
    world.gate.clear()
    await world.recurring()
    await world.client.post("/api/v1/jobs/job/trigger")
    await asyncio.wait_for(world.running.wait(), 20)


async def _paused(world: World) -> None:
    await world.recurring()
    await world.client.post("/api/v1/jobs/job/pause")


async def _paused_last_failed(world: World) -> None:
    await _scheduled_last_failed(world)
    await world.client.post("/api/v1/jobs/job/pause")


async def _completed(world: World) -> None:
    await world.one_shot()


async def _failed(world: World) -> None:
    world.fails = True
    await world.one_shot()
    world.fails = False


async def _cancelled(world: World) -> None:
    await world.recurring()
    await world.client.post("/api/v1/jobs/job/cancel")


SETUPS: dict[str, Callable[[World], Awaitable[None]]] = {
    "pending": _pending,
    "scheduled": _scheduled,
    "scheduled, last failed": _scheduled_last_failed,
    "running": _running,
    "paused": _paused,
    "paused, last failed": _paused_last_failed,
    "completed": _completed,
    "failed": _failed,
    "cancelled": _cancelled,
}


@pytest.mark.req("API-4", "EXE-1")
@pytest.mark.parametrize(("state", "command", "expected"), CASES)
async def test_the_command_table(nodes: Nodes, state: str, command: str, expected: int | str) -> None:
    app = nodes.app()
    async with client_of(app) as client:
        world = World(app, client)
        async with app:
            await SETUPS[state](world)
            plain = state.partition(",")[0]
            before = await client.get("/api/v1/jobs/job")
            assert before["status"] == plain
            answer = await client.ask("POST", f"/api/v1/jobs/job/{command}")
            after = await client.get("/api/v1/jobs/job")
            if expected == 409:
                assert answer.status_code == 409
                details = answer.json()["error"]["details"]
                assert details["command"] == command
                assert plain in details["current_state"]
                assert details["allowed_states"]
                assert after["status"] == plain
            elif expected == 202:
                assert answer.status_code == 202
                assert answer.json()["execution"]["status"] == "pending"
                assert after["next_run_at"] == before["next_run_at"]
            else:
                assert answer.status_code == 200
                run_goes_on = state == "running" and command == "pause"
                assert after["status"] == ("running" if run_goes_on else expected)
            world.gate.set()


@pytest.mark.req("API-4")
async def test_a_pause_while_it_runs_lets_the_run_finish(nodes: Nodes) -> None:
    app = nodes.app()
    gate = Gate(app, "long", trigger=every(hours=1))
    async with app, client_of(app) as client:
        run = await app.trigger("long")
        await gate.holds(run)
        running = await client.get("/api/v1/jobs/long")
        assert (running["status"], running["completed_at"]) == ("running", None)
        assert running["started_at"] is not None
        paused = await client.post("/api/v1/jobs/long/pause", {"note": "later"})
        assert (paused["is_paused"], paused["pause_note"], paused["paused_by"]) == (True, "later", "loopback")
        assert paused["paused_at"]
        gate.open.set()
        assert (await ended(app, run)).state == "completed"
        job = await client.get("/api/v1/jobs/long")
        assert (job["status"], job["next_run_at"]) == ("paused", None)
        assert job["started_at"] == running["started_at"]
        assert datetime.fromisoformat(job["completed_at"]) >= datetime.fromisoformat(job["started_at"])


@pytest.mark.req("API-4", "WRK-9")
async def test_a_cancel_stops_the_run_too(nodes: Nodes) -> None:
    app = nodes.app()
    gate = Gate(app, "long", trigger=every(hours=1))
    async with app, client_of(app) as client:
        run = await app.trigger("long")
        await gate.holds(run)
        cancelled = await client.post("/api/v1/jobs/long/cancel", {"reason": "wrong month"})
        assert cancelled["status"] == "cancelled"
        assert cancelled["cancelled_at"]
        execution = await client.get(f"/api/v1/executions/{run.id}?wait=20s")
        assert (execution["status"], execution["reason"]) == ("cancelled", "wrong month")


@pytest.mark.req("API-4")
async def test_a_retry_makes_a_pending_execution_and_a_pending_job(nodes: Nodes) -> None:
    app = nodes.app()
    async with client_of(app) as client:
        world = World(app, client)
        async with app:
            await _failed(world)
            await app.stop()
            before = await client.get("/api/v1/jobs/job")
            assert (before["status"], before["current_retry_count"]) == ("failed", 1)
            answer = await client.post("/api/v1/jobs/job/retry")
            assert (answer["id"], answer["status"], answer["current_retry_count"]) == ("job", "pending", 0)
            made = answer["execution"]
            assert (made["trigger"], made["retry_attempt"], made["status"]) == ("retry", 0, "pending")
            assert (await client.get("/api/v1/jobs/job"))["status"] == "pending"


@pytest.mark.req("API-4", "WIN-1")
@pytest.mark.parametrize(
    ("overlap", "status"), [("skip", 409), ("queue", 202), ("allow", 202), ("cancel_running", 202)]
)
async def test_a_trigger_while_it_runs_follows_the_overlap_policy(nodes: Nodes, overlap: str, status: int) -> None:
    app = nodes.app()
    gate = Gate(app, "long", trigger=every(hours=1), overlap=overlap)
    async with app, client_of(app) as client:
        run = await app.trigger("long")
        await gate.holds(run)
        answer = await client.ask("POST", "/api/v1/jobs/long/trigger")
        assert answer.status_code == status
        if status == 409:
            details = answer.json()["error"]["details"]
            assert details["holder"] == run.id
            skipped = await client.get(f"/api/v1/executions/{details['execution_id']}")
            assert (skipped["status"], skipped["reason"]) == ("skipped", "overlap")
        gate.open.set()


@pytest.mark.req("API-4", "TIM-9")
async def test_a_trigger_takes_parameters_and_a_window_and_leaves_the_schedule(nodes: Nodes) -> None:
    app = nodes.app()
    seen: list[Any] = []

    @app.job("daily", cron="0 3 * * *", window="yesterday", params={"n": 1})
    async def daily(ctx: Any, n: int) -> None:
        seen.append((n, ctx.window.begin.isoformat()))

    async with app, client_of(app) as client:
        before = (await client.get("/api/v1/jobs/daily"))["next_run_at"]
        window = {"begin": "2026-03-01T00:00:00Z", "end": "2026-03-02T00:00:00Z"}
        body = {"params": {"n": 7}, "window": window}
        done = (await client.post("/api/v1/jobs/daily/trigger?wait=20s", body))["execution"]
        assert (done["status"], done["trigger"], done["triggered_by"]) == ("completed", "api", "loopback")
        assert seen == [(7, "2026-03-01T00:00:00+00:00")]
        assert (await client.get("/api/v1/jobs/daily"))["next_run_at"] == before
        error = await client.refused(400, "POST", "/api/v1/jobs/daily/trigger", {"params": {"n": "7"}})
        assert error["details"][0]["field"] == "params.n"
        await client.refused(400, "POST", "/api/v1/jobs/daily/trigger", {"window": window | {"end": window["begin"]}})


@pytest.mark.req("API-4")
async def test_commands_at_the_same_time_lose_no_update(nodes: Nodes) -> None:
    app = nodes.app()
    app.job("job", trigger=every(hours=1))(lambda: None)
    async with client_of(app) as client:
        posts = [client.ask("POST", f"/api/v1/jobs/job/{command}") for command in ("pause", "cancel") * 10]
        edits = [client.ask("PUT", "/api/v1/jobs/job", json={"priority": n, "max_retries": n}) for n in range(10)]
        answers = await asyncio.gather(*posts, *edits)
        statuses = [answer.status_code for answer in answers[:20]]
        assert sorted(statuses[1::2]) == [200, *[409] * 9]
        assert statuses[0::2].count(200) <= 1
        assert [answer.status_code for answer in answers[20:]] == [200] * 10
        job = await client.get("/api/v1/jobs/job")
        assert job["status"] == "cancelled"
        assert job["policy"]["priority"] == job["max_retries"]
        records = (await client.get("/api/v1/audit?target=job:job&limit=100"))["items"]
        assert [each["action"] for each in records].count("update") == 10
    await app.close()


@pytest.mark.req("API-4", "EXE-1")
async def test_a_trigger_that_meets_a_cancel_leaves_nothing_alive(memory_nodes: Nodes) -> None:
    app = memory_nodes.app()
    app.job("job", overlap="allow")(lambda: None)
    async with client_of(app) as client:
        triggers = [client.ask("POST", "/api/v1/jobs/job/trigger") for _ in range(20)]
        answers = await asyncio.gather(*triggers[:10], client.ask("POST", "/api/v1/jobs/job/cancel"), *triggers[10:])
        assert {answer.status_code for answer in answers} <= {200, 202, 409}
        live = await app.executions("job", status=["pending", "running"], limit=100)
        assert live == []
    await app.close()


@pytest.mark.req("API-2", "WIN-1")
async def test_many_triggers_at_once_of_a_job_that_skips_run_it_once(nodes: Nodes) -> None:
    app = nodes.app()
    gate = Gate(app, "long", trigger=every(hours=1))
    async with app, client_of(app) as client:
        answers = await asyncio.gather(*[client.ask("POST", "/_sys/job/long") for _ in range(50)])
        assert sorted(answer.status_code for answer in answers) == [202, *[409] * 49]
        await until(lambda: len(gate.running) == 1)
        gate.open.set()
        skipped = await client.get("/api/v1/jobs/long/executions?status=skipped")
        assert skipped["total"] == 49
