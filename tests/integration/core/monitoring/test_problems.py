"""What needs attention, induced for real: by code, on stores, with a clock that the test moves."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from mainspring import Mainspring, every
from mainspring.core.rules.problems import Problem
from mainspring.model.events import Missed
from mainspring.model.store.messages import HeartbeatRequest, WorkerInfo
from mainspring.testing.clock import FakeClock
from tests.support import ON_A_FAKE_CLOCK, Nodes, Seen, until

pytestmark = pytest.mark.req("DSH-1")


async def current(app: Mainspring) -> list[Problem]:
    """As they are now, whatever was read a moment ago."""
    parts = await app._runtime.engine()
    parts.queues.cache.forget()
    parts.problems.cache.forget()
    return [each for each in (await app.monitoring.problems()).problems if each.kind != "disk_space"]


async def kinds(app: Mainspring) -> list[str]:
    return [each.kind for each in await current(app)]


async def test_late_jobs_and_queues_without_a_worker(nodes: Nodes) -> None:
    clock, seen = FakeClock(), Seen()
    app = nodes.app(clock=clock, observers=[seen], **ON_A_FAKE_CLOCK)
    app.job("tick", trigger=every(minutes=10), tz="Europe/Istanbul")(lambda: None)
    app.job("send", queue="mail")(lambda: None)
    app.job("later", queue="mail")(lambda: None)
    try:
        await app.enqueue("later", start_at=clock.datetime + timedelta(days=30))
        assert await kinds(app) == ["no_scheduler"]
        await app.enqueue("send")
        await app.enqueue("send")
        clock.advance("1m")
        assert await kinds(app) == ["no_scheduler", "no_worker"]

        clock.advance("3h")
        _, queue, tick, send = await current(app)
        assert (queue.subject.name, queue.text, queue.count) == ("mail", "has no running worker", 2)
        assert queue.evidence == "2 ready, oldest 3 h 1 min"
        both = sorted([tick, send], key=lambda each: each.subject.name)
        assert [(each.kind, each.subject.name, each.text) for each in both] == [
            ("late_job", "send", "is late by 3 h 1 min"),
            ("late_job", "tick", "is late by 2 h 51 min"),
        ]
        assert "no worker serves queue 'mail', 2 wait" in both[0].evidence
        assert both[1].evidence.startswith("due 03:10 Europe/Istanbul, no scheduler is running, ")
        assert seen.of(Missed) == []  # looking reports nothing and records nothing
        assert await app.monitoring.missed_runs() == []

        await app.queues.pause("mail", note="server down", by="ann")
        found = {(each.kind, each.severity): each for each in await current(app)}
        assert ("no_worker", "bad") not in found
        assert found["paused_queue", "warn"].by == "ann"
        assert "is paused" in found["late_job", "warn"].evidence
        await app.pause("tick")
        assert {each.subject.name for each in await current(app) if each.kind == "late_job"} == {"send"}
    finally:
        await app.close()


async def test_a_run_that_takes_much_longer_than_usual(nodes: Nodes) -> None:
    clock = FakeClock()
    app, release, quick = nodes.app(clock=clock, **ON_A_FAKE_CLOCK), asyncio.Event(), True

    @app.job("import")
    async def import_() -> None:
        if not quick:
            await release.wait()

    async with app:
        for _ in range(3):
            execution = await app.enqueue("import")
            assert execution is not None
            await app.wait(execution)
        quick = False
        execution = await app.enqueue("import")
        assert execution is not None

        await until(lambda: app.executions(running=True))
        assert await kinds(app) == []
        clock.advance("52m")
        [stuck] = await current(app)
        assert (stuck.kind, stuck.subject.name, stuck.subject.id) == ("stuck_run", "import", execution.id)
        assert stuck.text == "has run over 1,000 times longer than usual"
        assert stuck.evidence.startswith("52 min, usually ")
        release.set()
        await app.wait(execution)
        assert await kinds(app) == []


async def test_a_new_error_group_until_it_is_muted(nodes: Nodes) -> None:
    app = nodes.app(release="r1", fold_interval=0.05)

    @app.job("sync-stock", max_attempts=1)
    def sync() -> None:
        raise ConnectionError("supplier does not answer")

    async with app:
        execution = await app.enqueue("sync-stock")
        assert execution is not None
        await app.wait(execution)

        await until(lambda: current(app))
        [error] = await current(app)
        assert (error.kind, error.severity, error.fix, error.count) == ("new_error", "bad", "retry_probe", 1)
        assert error.subject.name == "ConnectionError: supplier does not answer"
        assert error.text == "is new in sync-stock"
        assert error.evidence.startswith("1 failed attempt, 1 failed run, first in release r1, last ")
        assert error.subject.id is not None
        await app.errors.mute(error.subject.id)
        assert await current(app) == []


async def test_an_error_whose_runs_were_retried_with_success_is_no_problem_any_more(nodes: Nodes) -> None:
    app, broken = nodes.app(fold_interval=0.05), True

    @app.job("sync-stock", max_attempts=1)
    def sync() -> None:
        if broken:
            raise ConnectionError("supplier does not answer")

    async with app:
        for _ in range(2):
            await app.wait(await app.enqueue("sync-stock") or "")
        await until(lambda: counted(app, 2))
        [error] = await current(app)
        assert (error.fix, error.details["open_failures"]) == ("retry_probe", 2)
        group = error.subject.id or ""

        failed = await app.executions(status="failed")
        await app.wait(await app.retry(failed[0].id))  # fails again: this retry is open, what it repeats is not
        await until(lambda: counted(app, 3))
        [error] = await current(app)
        assert (error.severity, error.details["failures"], error.details["open_failures"]) == ("bad", 3, 2)
        assert error.evidence.startswith("3 failed attempts, 2 failed runs, last ")

        broken = False
        bulk = await app.errors.retry(group)
        await app.bulk.wait(bulk.id)
        view = await app.errors.get(group)
        assert (view.failures, view.open_failures) == (3, 0)
        await until(lambda: no_problem(app))
        retried = await app.get((await app.errors.get(group)).last_retry_id or "")
        assert retried.state == "completed"


async def counted(app: Mainspring, failures: int) -> bool:
    return [each.failures for each in await app.errors.all()] == [failures]


async def no_problem(app: Mainspring) -> bool:
    return await current(app) == []


async def test_processes_that_went_silent_or_lack_the_code(nodes: Nodes) -> None:
    clock = FakeClock()
    app = nodes.app(clock=clock, **ON_A_FAKE_CLOCK)
    app.job("tick", trigger=every(hours=1))(lambda: None)
    fields: dict[str, Any] = {"version": "1", "lease": 30.0, "concurrency": 5}
    scheduler = WorkerInfo(id="s", host="web", pid=1, roles=("scheduler",), seen=clock.now(), **fields)
    worker = WorkerInfo(id="w", host="web", pid=2, roles=("worker",), handlers=("other",), seen=clock.now(), **fields)
    script = WorkerInfo(id="x", host="laptop", pid=3, seen=clock.now(), **fields)
    try:
        store = (await app._runtime.engine()).store

        async def beat(*workers: WorkerInfo) -> None:
            for each in workers:
                request = HeartbeatRequest(worker=each, leases=(), lease=30.0)
                await asyncio.to_thread(store.heartbeat, request)

        await beat(scheduler, worker, script)
        assert await kinds(app) == []
        await app.enqueue("tick")
        clock.advance("20s")
        [missing] = await current(app)
        assert (missing.kind, missing.subject.name, missing.count) == ("no_handler", "tick", 1)
        clock.advance("15s")
        await beat(worker)
        found = {each.kind: each for each in await current(app)}
        assert found.keys() == {"no_scheduler", "silent_worker", "no_handler"}
        silent = found["silent_worker"]
        assert (silent.subject.name, silent.text) == ("web:1", "has been silent for 35 s and was not stopped")
    finally:
        await app.close()


async def test_what_this_process_cannot_do(memory_nodes: Nodes) -> None:
    app = memory_nodes.app()
    app.job("send")(lambda: None)
    async with app:
        parts = await app._runtime.engine()
        assert await current(app) == []
        assert parts.node is not None
        parts.store._store.hears = False  # type: ignore[attr-defined]
        parts.time.skew = 3.2
        outage = next(loop for loop in parts.node.janitor.loops if loop.name == "retention")._outage
        outage.failed(OSError("disk is full"), 100.0)
        outage.failed(OSError("disk is full"), 190.0)
        found = {each.kind: each for each in (await app.monitoring.problems()).problems}
        assert found == {}  # shared for two seconds
        parts.problems.cache.forget()
        found = {each.kind: each for each in (await app.monitoring.problems()).problems}
        assert found.keys() == {"failing_loop", "wakeups_down", "clock_skew"}
        assert found["failing_loop"].text == "has failed in retention for 1 min 30 s"
        assert found["failing_loop"].evidence == "OSError: disk is full"
        outage.worked(200.0)
        assert "failing_loop" not in await kinds(app)
