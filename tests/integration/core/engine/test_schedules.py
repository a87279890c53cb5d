"""Ticks, overlap, missed ticks and windows, through the application object."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainspring import AlreadyRunning, Execution, InvalidValue, JobContext, Mainspring, cron, daily_at, every, once
from mainspring.core.views.execution import row_of
from mainspring.core.views.job import job_of
from mainspring.model.events import Skipped, Ticked
from mainspring.testing.clock import FakeClock
from tests.integration.gate import Gate
from tests.support import FAST, ON_A_FAKE_CLOCK, Nodes, Seen, ended, until

START = datetime(2026, 1, 1, tzinfo=UTC)


class World:
    """An application on a clock that the test moves; the roles look at it every few milliseconds."""

    def __init__(self, nodes: Nodes, **options: Any) -> None:
        self.clock = FakeClock()
        self.seen = Seen()
        self.nodes = nodes
        self.options = {**ON_A_FAKE_CLOCK, **options}

    def app(self, **options: Any) -> Mainspring:
        return self.nodes.app(clock=self.clock, observers=[self.seen], **{**self.options, **options})

    def ticks(self) -> list[datetime | None]:
        return [event.execution.scheduled_at for event in self.seen.of(Ticked)]

    async def ticked(self, count: int) -> list[datetime | None]:
        await until(lambda: len(self.seen.of(Ticked)) >= count, f"{count} ticks")
        return self.ticks()


@pytest.fixture
def world(nodes: Nodes) -> World:
    return World(nodes)


# --- ticks ---------------------------------------------------------------------------------------------------


@pytest.mark.req("TIM-1", "TIM-5")
async def test_kinds_of_triggers_tick_at_their_times(world: World) -> None:
    app = world.app()
    app.job("each-minute", trigger=cron("* * * * *"))(lambda: None)
    app.job("each-20", trigger=every(seconds=20))(lambda: None)
    app.job("daily", trigger=daily_at("00:01:30"))(lambda: None)
    app.job("one-time", trigger=once("2026-01-01T00:00:50Z"))(lambda: None)
    async with app:
        for _ in range(12):
            world.clock.advance(10)
            await until(lambda: _up_to_date(app), "every due tick is made")
        by_job: dict[str, list[float]] = {}
        for event in world.seen.of(Ticked):
            assert event.late_ms <= 1_000
            by_job.setdefault(event.execution.job, []).append(
                (event.execution.scheduled_at - START).total_seconds()  # type: ignore[operator]
            )
        assert by_job == {
            "each-minute": [60, 120],
            "each-20": [20, 40, 60, 80, 100, 120],
            "daily": [90],
            "one-time": [50],
        }
        view = await app.job_view("one-time")
        assert view.next_run_at is None


async def _up_to_date(app: Mainspring) -> bool:
    now = await app._runtime.parts.store.now()  # type: ignore[union-attr]
    return all(job_of(view).due is None or job_of(view).due > now for view in await app.jobs()) and not any(
        view.live.total for view in await app.jobs()
    )


@pytest.mark.req("TIM-5")
async def test_the_scheduler_sleeps_to_the_next_due_instant(nodes: Nodes) -> None:
    """Real time, and polling that never comes: only a sleep to the due instant can make this tick."""
    seen = Seen()
    app = nodes.app(observers=[seen])
    await app.open()  # which may take a while
    app.job("soon", trigger=once(datetime.now(UTC) + timedelta(seconds=1)))(lambda: None)
    async with app:
        [execution, *_] = await until(lambda: app.executions(job="soon", status="completed"))
    [tick] = seen.of(Ticked)
    assert tick.late_ms >= 0
    assert execution.started_at >= execution.scheduled_at


@pytest.mark.req("TIM-5")
async def test_a_job_changed_elsewhere_wakes_the_scheduler(nodes: Nodes) -> None:
    app = nodes.app()
    app.job("report", cron="0 3 * * *")(lambda: None)
    async with app, nodes.client() as operator:
        await operator.update_job("report", trigger=every(seconds=1))
        assert await until(lambda: operator.executions(job="report", status="completed"))


@pytest.mark.req("TIM-9")
async def test_a_manual_trigger_leaves_the_next_scheduled_time(world: World) -> None:
    app = world.app()
    app.job("nightly", cron="0 0 0 * * *")(lambda: None)
    async with app:
        world.clock.advance(14 * 3600)
        before = await app.job_view("nightly")
        assert before.next_run_at == START + timedelta(days=1)
        run = await ended(app, await app.trigger("nightly", by="ada"))
        assert (run.trigger, run.scheduled_at) == ("manual", None)
        assert (await app.job_view("nightly")).next_run_at == before.next_run_at
        assert world.ticks() == []
        world.clock.advance(10 * 3600)
        assert await world.ticked(1) == [START + timedelta(days=1)]


@pytest.mark.req("TIM-10")
async def test_the_interval_pair_is_accepted_and_wins_over_cron(memory_nodes: Nodes) -> None:
    app = memory_nodes.app()
    app.job("minutes", interval_minutes=45)(lambda: None)
    app.job("hours", interval_minutes=2, interval_type="hours")(lambda: None)
    app.job("days", interval_minutes=1, interval_type="days", cron="*/5 * * * *")(lambda: None)
    await app.open()
    assert {view.name: view.schedule for view in await app.jobs()} == {
        "minutes": "@every 45m",
        "hours": "@every 2h",
        "days": "@every 1d",
    }
    await app.close()


@pytest.mark.req("TIM-3")
async def test_the_zone_of_the_settings_is_that_of_jobs_that_name_none(memory_nodes: Nodes) -> None:
    app = memory_nodes.app(timezone="Europe/Istanbul", clock=FakeClock())
    app.job("here", cron="0 3 * * *")(lambda: None)
    app.job("there", cron="0 3 * * *", tz="Asia/Tokyo")(lambda: None)
    await app.open()
    views = {view.name: (view.tz, view.next_run_at) for view in await app.jobs()}
    assert views == {
        "here": ("Europe/Istanbul", datetime(2026, 1, 2, tzinfo=UTC)),
        "there": ("Asia/Tokyo", datetime(2026, 1, 1, 18, tzinfo=UTC)),
    }
    await app.close()


@pytest.mark.req("TIM-6")
async def test_many_schedulers_make_each_tick_once(world: World) -> None:
    apps = [world.app() for _ in range(4)]
    for app in apps:
        app.job("tick", trigger=every(seconds=1), overlap="allow")(lambda: None)
        await app.start()
    for count in range(1, 16):
        world.clock.advance(1)
        await world.ticked(count)
    await until(lambda: _idle(apps[0], "tick"))
    made = await apps[0].executions(job="tick", limit=100)
    assert sorted(each.scheduled_at for each in made if each.scheduled_at) == [
        START + timedelta(seconds=second) for second in range(1, 16)
    ]
    for app in apps:
        await app.close()


async def _idle(app: Mainspring, name: str) -> bool:
    return (await app.job_view(name)).live.total == 0


@pytest.mark.req("TIM-1")
async def test_a_fixed_delay_is_counted_from_the_end_of_the_run(world: World) -> None:
    app = world.app(fold_interval=FAST)
    gate = Gate(app, "gate", trigger=every(seconds=10, delay=True))
    async with app:
        world.clock.advance(10)
        await until(lambda: gate.running)
        world.clock.advance(7)
        assert (await app.job_view("gate")).next_run_at is None
        gate.open.set()
        view = await until(lambda: _planned(app, "gate"), "the follow-up plans the next run")
        assert view.next_run_at == START + timedelta(seconds=27)
        world.clock.advance(10)
        await world.ticked(2)


async def _planned(app: Mainspring, name: str) -> Any:
    view = await app.job_view(name)
    return view if view.next_run_at else None


@pytest.mark.req("OPS-1")
async def test_roles_can_be_switched_off(world: World) -> None:
    scheduler, worker = world.app(roles=["scheduler"]), world.app(roles="worker")
    for app in (scheduler, worker):
        app.job("tick", trigger=every(seconds=1))(lambda: None)
        await app.start()
    assert {each.roles for each in await worker.workers()} == {("scheduler",), ("worker",)}
    await worker.stop()
    world.clock.advance(1)
    await world.ticked(1)
    [execution] = await scheduler.executions()
    assert execution.state == "pending"  # nobody here works
    await worker.start(roles=["worker"])
    done = await ended(scheduler, execution)
    [attempt] = done.attempts
    assert attempt.worker in {each.id for each in await worker.workers() if each.roles == ("worker",)}
    for app in (scheduler, worker):
        await app.close()


# --- pause ---------------------------------------------------------------------------------------------------


@pytest.mark.req("EXE-1", "WIN-2")
async def test_ticks_missed_while_paused_leave_one_record(world: World) -> None:
    app = world.app()
    app.job("tick", trigger=every(seconds=10))(lambda: None)
    async with app:
        await app.pause("tick")
        world.clock.advance(95)
        await app.resume("tick")
        [record] = await app.executions(job="tick")
        assert (record.state, record.reason) == ("skipped", "missed")
        assert (record.metadata["count"], record.metadata["because"]) == (9, "the job was paused")
        world.clock.advance(5)
        assert await world.ticked(1) == [START + timedelta(seconds=100)]


@pytest.mark.req("EXE-1", "WIN-2")
async def test_the_last_tick_missed_while_paused_can_be_made_up_for(world: World) -> None:
    app = world.app()
    app.job("tick", trigger=every(seconds=10), missed_while_paused="latest")(lambda: None)
    async with app:
        await app.pause("tick")
        world.clock.advance(95)
        await app.resume("tick")
        made = await until(lambda: app.executions(job="tick", status="completed"))
        assert [(each.trigger, each.scheduled_at) for each in made] == [("catch_up", START + timedelta(seconds=90))]


@pytest.mark.req("WIN-8", "EXE-1")
async def test_a_pause_can_end_by_itself(world: World) -> None:
    app = world.app()
    app.job("tick", trigger=every(seconds=10))(lambda: None)
    async with app:
        view = await app.pause("tick", by="ada", note="deploy", resume_at=START + timedelta(seconds=35))
        assert view.resume_at == START + timedelta(seconds=35)
        world.clock.advance(30)
        assert (await app.job_view("tick")).state == "paused"
        world.clock.advance(5)
        await until(lambda: _in_state(app, "tick", "scheduled"))
        world.clock.advance(5)
        assert await world.ticked(1) == [START + timedelta(seconds=40)]


async def _in_state(app: Mainspring, name: str, state: str) -> bool:
    return (await app.job_view(name)).state == state


# --- missed ticks --------------------------------------------------------------------------------------------


async def down_for(world: World, seconds: float, **options: Any) -> Mainspring:
    """The application after it was declared, and then not running for so long."""
    first = world.app()
    first.job("tick", trigger=every(seconds=60), **options)(lambda: None)
    async with first:
        pass
    world.clock.advance(seconds)
    app = world.app()
    app.job("tick", trigger=every(seconds=60), **options)(lambda: None)
    await app.start()
    return app


@pytest.mark.req("WIN-2")
async def test_a_tick_found_within_the_grace_runs(world: World) -> None:
    app = await down_for(world, 60 + 59)
    assert await world.ticked(1) == [START + timedelta(seconds=60)]
    [execution] = await until(lambda: app.executions(job="tick", status="completed"))
    assert execution.trigger == "schedule"
    await app.close()


@pytest.mark.req("WIN-2", "OBS-1")
async def test_missed_ticks_are_skipped_with_one_record_for_the_gap(world: World) -> None:
    app = await down_for(world, 14 * 86_400 + 30, grace="10s")
    [record] = await until(lambda: app.executions(job="tick"))
    assert (record.state, record.reason, record.trigger) == ("skipped", "missed", "schedule")
    first, last = START + timedelta(seconds=60), START + timedelta(days=14)
    assert (record.metadata["from"], record.metadata["to"]) == (first.isoformat(), last.isoformat())
    assert (record.metadata["count"], record.metadata["exact"]) == (20_160, True)
    assert world.ticks() == []
    assert [event.reason for event in world.seen.of(Skipped)] == ["missed"]
    view = await app.job_view("tick")
    assert (view.stats.skipped, view.stats.total, view.last_status) == (1, 0, None)
    await app.close()


@pytest.mark.req("WIN-2")
async def test_latest_makes_up_for_the_last_missed_tick_alone(world: World) -> None:
    app = await down_for(world, 5 * 60 + 30, missed="latest", grace="10s")
    [run] = await until(lambda: app.executions(job="tick", status="completed"))
    assert (run.trigger, run.scheduled_at) == ("catch_up", START + timedelta(seconds=300))
    [gap] = await app.executions(job="tick", status="skipped")
    assert gap.metadata["count"] == 4
    assert (await app.job_view("tick")).next_run_at == START + timedelta(seconds=360)
    await app.close()


@pytest.mark.req("WIN-2")
async def test_a_one_time_job_survives_a_deploy_at_its_time(world: World) -> None:
    def shop() -> Mainspring:
        app = world.app()
        app.job("launch", trigger=once(START + timedelta(seconds=30)))(lambda: "launched")
        return app

    async with shop():
        pass
    world.clock.advance(3_600)
    async with shop() as app:
        [run] = await until(lambda: app.executions(job="launch", status="completed"))
        assert (run.trigger, run.result) == ("catch_up", "launched")
    async with shop() as app:
        assert len(await app.executions(job="launch")) == 1


@pytest.mark.req("OPS-3")
async def test_a_tick_due_while_nobody_runs_is_left_for_the_next_node(world: World) -> None:
    app = world.app()
    app.job("tick", trigger=every(seconds=60))(lambda: None)
    await app.start()
    await app.stop()
    world.clock.advance(60)
    assert await app.executions() == []
    await app.start()
    assert await world.ticked(1) == [START + timedelta(seconds=60)]
    await app.close()


# --- overlap -------------------------------------------------------------------------------------------------


def pair(nodes: Nodes, **options: Any) -> tuple[Mainspring, Mainspring, Gate, Seen]:
    """Two processes that share a job."""
    seen = Seen()
    one, two = nodes.app(observers=[seen]), nodes.app(observers=[seen])
    gate = Gate(one, **options)
    gate.serve(two, **options)
    return one, two, gate, seen


@pytest.mark.req("WIN-1", "API-2")
async def test_skip_holds_across_nodes_for_schedule_trigger_and_enqueue(nodes: Nodes) -> None:
    one, two, gate, seen = pair(nodes, trigger=every(seconds=1), overlap="skip")
    async with one, two:
        await until(lambda: gate.running, "a tick runs")
        [holder] = gate.running
        with pytest.raises(AlreadyRunning) as refused:
            await two.trigger("gate", by="ada")
        assert refused.value.holder == holder
        assert holder in str(refused.value)
        recorded = await one.get(refused.value.execution.id)
        assert (recorded.state, recorded.reason, recorded.trigger) == ("skipped", "overlap", "manual")
        enqueued = await two.enqueue("gate")
        assert enqueued is not None
        assert (await one.get(enqueued.id)).state == "skipped"
        await until(lambda: _skipped_tick(one), "the next tick is skipped too, and recorded")
        assert gate.most == 1
        await until(lambda: seen.of(Skipped), "it is told of")
        assert {event.reason for event in seen.of(Skipped)} == {"overlap"}
        await one.pause("gate")
        gate.open.set()
        assert (await ended(two, await one.get(holder))).state == "completed"
        assert (await ended(two, await two.trigger("gate"))).state == "completed"


async def _skipped_tick(app: Mainspring) -> bool:
    return any(each.trigger == "schedule" for each in await app.executions(status="skipped"))


@pytest.mark.req("WIN-1", "OBS-1")
async def test_a_skip_is_logged_as_a_warning_with_job_and_trigger(
    memory_nodes: Nodes, caplog: pytest.LogCaptureFixture
) -> None:
    app = memory_nodes.app()
    gate = Gate(app, overlap="skip")
    async with app:
        first = await app.enqueue("gate")
        await gate.holds(first)
        await app.enqueue("gate")
        gate.open.set()
        await ended(app, first)
    [record] = [record for record in caplog.records if getattr(record, "event", "") == "job_skipped"]
    fields = (record.levelname, record.job, record.trigger, record.reason)  # type: ignore[attr-defined]
    assert fields == ("WARNING", "gate", "enqueue", "overlap")


@pytest.mark.req("WIN-1")
async def test_skip_holds_while_a_run_waits_for_its_retry(nodes: Nodes) -> None:
    app = nodes.app()

    @app.job("flaky", overlap="skip")
    async def flaky() -> None:
        raise ValueError("no")

    async with app:
        first = await app.enqueue(flaky)
        assert first is not None
        await until(lambda: _retrying(app, first.id))
        with pytest.raises(AlreadyRunning, match=first.id):
            await app.trigger("flaky")


async def _retrying(app: Mainspring, id: str) -> bool:
    row = await app.get(id)
    return row.state == "pending" and row.failures > 0


@pytest.mark.req("WIN-1")
async def test_queue_lets_one_wait(nodes: Nodes) -> None:
    one, two, gate, _ = pair(nodes, overlap="queue")
    async with one, two:
        first = await one.enqueue("gate")
        await gate.holds(first)
        waiting = await two.trigger("gate")
        with pytest.raises(AlreadyRunning):
            await one.trigger("gate")
        skipped = await one.enqueue("gate")
        assert skipped is not None
        assert skipped.state == "skipped"
        assert (await one.get(waiting.id)).state == "pending"
        deferred_to = await until(lambda: _deferred_to(one, waiting), "its keys are taken: it is deferred")
        gate.open.set()
        assert (await ended(two, first)).state == "completed"
        done = await ended(one, waiting)
        assert row_of(done).due < deferred_to  # the end of the first made it due at once, not after 5 s
        assert (done.state, done.failures) == ("completed", 0)
        assert gate.most == 1


async def _deferred_to(app: Mainspring, execution: Execution) -> int | None:
    due = row_of(await app.get(execution.id)).due
    return due if due > row_of(execution).due else None


@pytest.mark.req("WIN-1")
async def test_allow_with_a_limit(nodes: Nodes) -> None:
    one, two, gate, _ = pair(nodes, overlap="allow", overlap_limit=3)
    async with one, two:
        made = [await app.enqueue("gate") for app in (one, two, one)]
        for each in made:
            await gate.holds(each)
        with pytest.raises(AlreadyRunning):
            await two.trigger("gate")
        gate.open.set()
        for each in made:
            await ended(one, each)
        assert gate.most == 3
        await ended(two, await two.trigger("gate"))


@pytest.mark.req("WIN-1")
async def test_allow_without_a_limit(nodes: Nodes) -> None:
    one, two, gate, _ = pair(nodes)
    async with one, two:
        made = [await app.enqueue("gate") for app in (one, two) * 3]
        for each in made:
            await gate.holds(each)
        gate.open.set()
        for each in made:
            await ended(one, each)
    assert gate.most == 6


@pytest.mark.req("WIN-1")
async def test_cancel_running_makes_way_for_the_new_one(nodes: Nodes) -> None:
    one, two, gate, _ = pair(nodes, overlap="cancel_running")
    async with one, two:
        first = await one.enqueue("gate")
        await gate.holds(first)
        second = await two.trigger("gate", by="ada")
        old = await ended(two, first)
        assert (old.state, old.reason) == ("cancelled", f"superseded by {second.id}")
        await gate.holds(second)
        gate.open.set()
        assert (await ended(one, second)).state == "completed"
        assert gate.most == 1


@pytest.mark.req("WIN-1")
async def test_different_jobs_of_one_handler_do_not_exclude_each_other(nodes: Nodes) -> None:
    app = nodes.app()
    gate = Gate(app, overlap="skip")
    app.schedule("gate-2", "gate")
    async with app:
        first, second = await app.enqueue("gate"), await app.enqueue("gate-2")
        await gate.holds(first)
        await gate.holds(second)
        gate.open.set()
        await ended(app, first)
        await ended(app, second)


# --- windows -------------------------------------------------------------------------------------------------


@pytest.mark.req("WIN-3", "WIN-4")
async def test_a_trigger_takes_the_jobs_window_or_a_custom_one(world: World) -> None:
    app = world.app()
    windows: list[str] = []

    @app.job("sum", cron="0 2 * * *", tz="Europe/Istanbul", window="yesterday")
    async def total(ctx: JobContext, shop: int = 0) -> None:
        assert ctx.window is not None
        windows.append(ctx.window.key())

    async with app:
        await ended(app, await app.trigger("sum"))
        custom = await app.trigger("sum", {"shop": 1}, window=("2025-06-01T00:00:00Z", "2025-06-02T00:00:00Z"))
        assert (await ended(app, custom)).params == {"shop": 1}
        local = await app.trigger("sum", window=("2025-06-01", "2025-06-02"))  # read in the job's zone
        await ended(app, local)
    assert windows == [
        "2025-12-30T21:00:00Z/2025-12-31T21:00:00Z",
        "2025-06-01T00:00:00Z/2025-06-02T00:00:00Z",
        "2025-05-31T21:00:00Z/2025-06-01T21:00:00Z",
    ]


@pytest.mark.req("WIN-4")
@pytest.mark.parametrize(
    ("window", "message"),
    [
        (("2025-06-02T00:00:00Z", "2025-06-01T00:00:00Z"), "window.end: '2025-06-01T00:00:00Z' is not valid"),
        (("2025-06-01T00:00:00Z", "2025-06-01T00:00:00Z"), "an instant after window.begin"),
        (("2025-06-01T00:00:00Z",), "allowed: a pair (begin, end)"),
        ("yesterday", "allowed: a pair (begin, end)"),
        (("soon", "later"), "window.begin: 'soon' is not valid"),
        ((None, None), "window.begin: None is not valid"),
    ],
)
async def test_a_wrong_window_is_refused(memory_nodes: Nodes, window: Any, message: str) -> None:
    app = memory_nodes.app()
    app.job("sum", cron="0 2 * * *", window="yesterday")(lambda: None)
    await app.open()
    with pytest.raises(InvalidValue) as refused:
        await app.trigger("sum", window=window)
    assert message in str(refused.value)
    assert await app.executions() == []
    await app.close()


@pytest.mark.req("EXE-1")
async def test_a_broken_observer_of_ticks_does_not_stop_them(world: World) -> None:
    def broken(event: Any) -> None:
        raise RuntimeError("observer")

    app = world.app()
    app.observe(broken)
    app.job("tick", trigger=every(seconds=1))(lambda: None)
    async with app:
        for count in range(1, 4):
            world.clock.advance(1)
            await world.ticked(count)
            await until(lambda: _idle(app, "tick"))
        await asyncio.sleep(0)
    assert len(world.ticks()) == 3
