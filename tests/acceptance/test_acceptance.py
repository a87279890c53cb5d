"""The plain promises, as a user would check them: through the application object, on both stores."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mainspring import JobContext, Mainspring, cron, daily_at, every
from mainspring.core.views.job import job_of
from mainspring.testing.clock import FakeClock
from tests.support import DEADLINE, ON_A_FAKE_CLOCK, Nodes, ended, new_threads, until, until_blocking

MIDNIGHT = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(params=["memory", "sqlite"])
def nodes(request: pytest.FixtureRequest, tmp_path: Path) -> Nodes:
    return Nodes(request.param, tmp_path)


class Day:
    """A day under control of the test: the roles look at its clock every few milliseconds."""

    def __init__(self, nodes: Nodes) -> None:
        self.clock = FakeClock()
        self.app = nodes.app(clock=self.clock, **ON_A_FAKE_CLOCK)

    async def wait(self, seconds: float) -> None:
        """Let time pass, second by second; after each, everything due has been done."""
        for _ in range(round(seconds)):
            self.clock.advance(1)
            await until(self._nothing_left, "all that is due has run")

    async def _nothing_left(self) -> bool:
        views = await self.app.jobs()
        return all(job_of(view).due is None or job_of(view).due > self.clock.now() for view in views) and not any(
            view.live.total for view in views
        )


@pytest.mark.req("NUM-4", "TIM-1")
async def test_a_job_every_5_seconds_for_15_seconds_runs_3_times(nodes: Nodes) -> None:
    day = Day(nodes)
    runs: list[float] = []

    @day.app.job("pulse", trigger=every(seconds=5))
    async def pulse(ctx: JobContext) -> None:
        assert ctx.scheduled_at is not None
        runs.append((ctx.scheduled_at - MIDNIGHT).total_seconds())

    async with day.app as app:
        await day.wait(15)
        assert runs == [5, 10, 15]
        assert [each.state for each in await app.executions(job="pulse")] == ["completed"] * 3
        assert (await app.job_view("pulse")).stats.completed == 3


@pytest.mark.req("NUM-4", "TIM-2", "API-1")
async def test_three_jobs_are_listed_with_cron_words_and_next_run(nodes: Nodes) -> None:
    day = Day(nodes)
    app = day.app
    app.job("hourly", cron="0 5 * * * *")(lambda: None)
    app.job("nightly", trigger=daily_at("03:30"), tz="Europe/Istanbul")(lambda: None)
    app.job("often", trigger=every(minutes=30))(lambda: None)
    async with app:
        listed = {
            view.name: (view.schedule, view.description_of_schedule, view.next_run_at) for view in await app.jobs()
        }
        assert {name: (schedule, next_run) for name, (schedule, _, next_run) in listed.items()} == {
            "hourly": ("0 5 * * * *", MIDNIGHT + timedelta(minutes=5)),
            "nightly": ("0 30 3 * * *", MIDNIGHT + timedelta(minutes=30)),  # 03:30 in Istanbul
            "often": ("@every 30m", MIDNIGHT + timedelta(minutes=30)),
        }
        words = {name: text.lower() for name, (_, text, _) in listed.items()}
        assert "5 minutes past the hour" in words["hourly"]
        assert "03:30" in words["nightly"]
        assert "30 minutes" in words["often"]
        assert cron("0 5 * * * *").describe() == listed["hourly"][1]


@pytest.mark.req("NUM-4", "TIM-9")
async def test_a_trigger_at_2_pm_leaves_midnight_in_place(nodes: Nodes) -> None:
    day = Day(nodes)
    ran: list[tuple[str, datetime | None]] = []

    @day.app.job("nightly", cron="0 0 0 * * *")
    async def nightly(ctx: JobContext) -> None:
        ran.append((ctx.trigger, ctx.scheduled_at))

    async with day.app as app:
        day.clock.advance(14 * 3600)
        await ended(app, await app.trigger("nightly", by="ada"))
        assert ran == [("manual", None)]
        assert (await app.job_view("nightly")).next_run_at == MIDNIGHT + timedelta(days=1)
        day.clock.advance(10 * 3600 - 1)
        await day.wait(1)
        assert ran == [("manual", None), ("schedule", MIDNIGHT + timedelta(days=1))]
        assert (await app.job_view("nightly")).next_run_at == MIDNIGHT + timedelta(days=2)


def connections(folder: Path) -> list[str]:
    """Files of this folder that this process holds open."""
    links = [os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd")]
    targets = [os.readlink(link) for link in links if os.path.lexists(link)]
    return [target for target in targets if target.startswith(str(folder))]


def leftovers(folder: Path, threads: list[threading.Thread]) -> dict[str, Any]:
    return {
        "threads": new_threads(threads),
        "tasks": sorted(task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()),
        "connections": connections(folder),
    }


NOTHING = {"threads": [], "tasks": [], "connections": []}


@pytest.mark.req("NUM-4", "OPS-3")
async def test_no_threads_tasks_or_connections_are_left_after_stop(nodes: Nodes) -> None:
    threads = threading.enumerate()
    for _ in range(3):
        await busy_life(nodes)
        await until(lambda: leftovers(nodes.folder, threads) == NOTHING, "nothing is left behind")
    gc.collect()  # an unclosed connection or a forgotten coroutine would warn now, and a warning is an error


async def busy_life(nodes: Nodes) -> None:
    """Start, use everything, stop with handlers running."""
    app = nodes.app(stop_timeout=0.5, concurrency=30)
    running: set[str] = set()

    @app.job("thread")
    def in_thread(ctx: JobContext) -> None:
        running.add(ctx.execution_id)

    @app.job("endless")
    async def endless(ctx: JobContext) -> None:
        running.add(ctx.execution_id)
        await asyncio.Event().wait()

    async with app:
        made = await app.enqueue_many([("thread", None)] * 10 + [("endless", None)] * 5)
        await until(lambda: running >= {each.id for each in made if each}, "all of them run")
        async with app.lock("import", ttl=5), app.track("inline"):
            pass
        with pytest.raises(TimeoutError):
            await app.wait(made[-1], timeout=0.01)  # type: ignore[arg-type]


@pytest.mark.req("NUM-4", "OPS-1")
def test_nor_after_blocking_use(nodes: Nodes) -> None:
    app = nodes.app()
    app.job("greet")(lambda: "hello")
    before = set(threading.enumerate())
    for _ in range(3):
        with app.sync as sync:
            execution = sync.enqueue("greet")
            assert execution is not None
            assert sync.wait(execution, timeout=DEADLINE).result == "hello"
        until_blocking(lambda: not new_threads(before))
        assert connections(nodes.folder) == []
    gc.collect()


SCRIPT = """\
from mainspring import Mainspring, every

app = Mainspring("sqlite:///jobs.db")

@app.job("hello", trigger=every(seconds=1))
def hello() -> None:
    print("hello", flush=True)

app.run()
"""


@pytest.mark.req("REG-1", "NUM-4", "WRK-5")
def test_a_job_in_under_ten_lines_runs_on_time_and_stops_on_a_signal(tmp_path: Path) -> None:
    assert len(SCRIPT.splitlines()) < 10
    (tmp_path / "hello.py").write_text(SCRIPT)
    process = subprocess.Popen(
        [sys.executable, "hello.py"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["hello\n"] * 2
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=DEADLINE)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, "Traceback" in errors, "ERROR" in errors) == (0, False, False), errors
    assert "job_end       job=hello" in errors


@pytest.mark.req("NUM-1")
async def test_a_thousand_jobs_scheduled_at_once_all_run(nodes: Nodes) -> None:
    """Counted, not timed: benchmarks print numbers."""
    day = Day(nodes)
    ran: list[str] = []

    @day.app.job("each")
    async def each(ctx: JobContext) -> None:
        ran.append(ctx.job)

    for number in range(1_000):
        day.app.schedule(f"job-{number}", each, every(seconds=30))
    async with day.app as app:
        day.clock.advance(30)
        await until(lambda: len(ran) == 1_000, "every job ran once")
        assert len(set(ran)) == 1_000
        assert len(await app.jobs()) == 1_001


@pytest.mark.req("REL-1", "NUM-2")
async def test_ten_nodes_at_once_run_every_tick_and_every_enqueue_once(nodes: Nodes) -> None:
    clock = FakeClock()
    apps = [nodes.app(clock=clock, **ON_A_FAKE_CLOCK) for _ in range(10)]
    runs: list[str] = []
    for app in apps:

        @app.job("tick", trigger=every(seconds=1), overlap="allow")
        async def tick(ctx: JobContext) -> None:
            runs.append(ctx.execution_id)

        @app.job("work")
        async def work(ctx: JobContext) -> None:
            runs.append(ctx.execution_id)

        await app.start()
    made = await apps[0].enqueue_many([("work", None)] * 100)
    for second in range(1, 11):
        clock.advance(1)
        await until(lambda second=second: _ticks(apps[0], second), f"tick {second} ran")
    for execution in made:
        await ended(apps[1], execution)
    assert len(runs) == len(set(runs)) == 110
    for app in apps:
        await app.close()


async def _ticks(app: Mainspring, count: int) -> bool:
    return (await app.job_view("tick")).stats.completed == count
