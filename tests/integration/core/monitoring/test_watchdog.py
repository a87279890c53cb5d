"""Missed runs while no scheduler lives: found by whoever watches, told once, by the rules of the schedule itself."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainspring import Mainspring, every
from mainspring.model.events import Missed
from mainspring.testing.clock import FakeClock
from tests.support import ON_A_FAKE_CLOCK, Nodes, Seen, until

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(**distance: float) -> datetime:
    return START + timedelta(**distance)


class Absent:
    """Applications on one store, none of which schedules, on a clock that the test moves."""

    def __init__(self, nodes: Nodes) -> None:
        self.clock, self.nodes = FakeClock(), nodes

    def app(self, **options: Any) -> tuple[Mainspring, Seen]:
        seen = Seen()
        app = self.nodes.app(clock=self.clock, observers=[seen], **ON_A_FAKE_CLOCK)
        app.job("tick", **({"trigger": every(minutes=10)} | options))(lambda: None)
        return app, seen


@pytest.mark.req("OBS-6")
async def test_missed_ticks_are_told_once_over_any_number_of_watchers(nodes: Nodes) -> None:
    absent = Absent(nodes)
    (one, heard), (other, heard_too) = absent.app(), absent.app()
    try:
        await one.open()
        assert await one.monitoring.late() == []
        absent.clock.advance("10m 30s")
        assert await one.monitoring.late() == []  # its grace of a minute is not over
        absent.clock.advance("21m")
        (late,) = await one.monitoring.late()
        assert (late.job, late.first_at, late.last_at, late.count) == ("tick", at(minutes=10), at(minutes=30), 3)
        assert [late] == await other.monitoring.late()
        (event,) = heard.of(Missed) + heard_too.of(Missed)
        assert event == Missed("tick", at(minutes=10), at(minutes=30), 3, True, 0)

        absent.clock.advance("20m")
        (late,) = await other.monitoring.late()
        assert (late.first_at, late.last_at, late.count) == (at(minutes=10), at(minutes=50), 5)
        await one.monitoring.late()
        assert heard_too.of(Missed) == [Missed("tick", at(minutes=40), at(minutes=50), 2, True, 0)]
        assert heard.of(Missed) == [event]
    finally:
        await one.close()
        await other.close()


class Killed(BaseException):
    """As when a process dies in the middle of something."""


async def dies_before_confirming(app: Mainspring) -> None:
    """Its watcher dies after it has entered what it found, and before anybody has heard of it."""
    watch = (await app._runtime.ready()).watch

    def die(event: object) -> None:
        raise Killed

    watch._emit = die


@pytest.mark.req("OBS-6")
async def test_what_a_watcher_had_no_time_to_report_is_reported_by_the_next(memory_nodes: Nodes) -> None:
    absent = Absent(memory_nodes)
    (watcher, heard), (dying, _) = absent.app(), absent.app()
    try:
        await watcher.open()
        absent.clock.advance("11m 5s")
        await watcher.monitoring.late()
        await dies_before_confirming(dying)
        absent.clock.advance("10m")
        with pytest.raises(Killed):
            await dying.monitoring.late()
        await watcher.monitoring.late()
        assert [event.count for event in heard.of(Missed)] == [1]  # the other one may be about to tell
        absent.clock.advance("11s")
        await watcher.monitoring.late()
        await watcher.monitoring.late()
        assert [(event.first, event.count) for event in heard.of(Missed)] == [(at(minutes=10), 1), (at(minutes=20), 1)]
        absent.clock.advance("10m")
        await watcher.monitoring.late()
        assert [event.count for event in heard.of(Missed)] == [1, 1, 1]
        (stretch,) = await watcher.monitoring.missed_runs("tick")
        assert (stretch.job, stretch.count) == ("tick", 3)
        assert (stretch.first_at, stretch.last_at) == (at(minutes=10), at(minutes=30))
        assert await watcher.monitoring.missed_runs("other") == []
    finally:
        await watcher.close()
        await dying.close()


@pytest.mark.req("OBS-6")
async def test_a_scheduler_that_comes_back_ends_it(nodes: Nodes) -> None:
    absent = Absent(nodes)
    app, heard = absent.app()
    async with app:
        await until(lambda: heard.events, "it runs")
    watcher, _ = absent.app()
    try:
        absent.clock.advance("35m")
        assert [late.count for late in await watcher.monitoring.late()] == [3]
        back, _ = absent.app()
        async with back:

            async def dealt_with() -> bool:
                return await watcher.monitoring.late() == []

            await until(dealt_with, "nothing is late any more")
            (record,) = await watcher.executions("tick", status="skipped")
            assert (record.reason, record.metadata["count"]) == ("missed", 3)
    finally:
        await watcher.close()


@pytest.mark.req("OBS-6")
@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({"trigger": every(minutes=10), "missed": "all"}, 5),
        ({"trigger": every(minutes=10), "missed": "latest"}, 5),
        ({"trigger": every(minutes=10), "grace": "2h"}, 0),
        ({"trigger": every(minutes=10), "hours": "12:00-13:00"}, 0),
        ({"trigger": every(minutes=10), "enabled": False}, 0),
        ({"trigger": every(minutes=10, delay=True)}, 1),
        ({"trigger": None}, 0),
    ],
    ids=["all", "latest", "long grace", "outside hours", "disabled", "fixed delay", "on demand"],
)
async def test_what_counts_as_missed_follows_the_job(memory_nodes: Nodes, options: dict[str, Any], count: int) -> None:
    absent = Absent(memory_nodes)
    app, heard = absent.app(**options)
    try:
        await app.open()
        absent.clock.advance("52m")
        assert sum(late.count for late in await app.monitoring.late()) == count
        assert sum(event.count for event in heard.of(Missed)) == count
    finally:
        await app.close()


@pytest.mark.req("OBS-6")
async def test_a_paused_job_is_not_late_and_a_moved_run_may_be(memory_nodes: Nodes) -> None:
    absent = Absent(memory_nodes)
    app, _ = absent.app(trigger=every(hours=1))
    try:
        await app.open()
        await app.move_occurrence("tick", START + timedelta(hours=1), to=START + timedelta(minutes=30))
        absent.clock.advance("40m")
        (late,) = await app.monitoring.late()
        assert (late.first_at, late.count) == (at(minutes=30), 1)
        await app.pause("tick")
        absent.clock.advance("5h")
        assert await app.monitoring.late() == []
    finally:
        await app.close()


@pytest.mark.req("OBS-6")
async def test_work_that_no_worker_takes_is_told_once_although_ticks_are_planned(nodes: Nodes) -> None:
    absent = Absent(nodes)
    (scheduler, _), (watcher, heard) = absent.app(), absent.app()
    try:
        await scheduler.start(roles=["scheduler"])
        absent.clock.advance("10m")
        await until(lambda: scheduler.executions(job="tick"), "the tick is planned")
        assert await watcher.monitoring.late() == []
        absent.clock.advance("61s")
        (late,) = await watcher.monitoring.late()
        assert (late.job, late.first_at, late.count, late.waiting) == ("tick", at(minutes=10), 1, True)
        assert await watcher.monitoring.late() == [late]
        (event,) = heard.of(Missed)
        assert event == Missed("tick", at(minutes=10), at(minutes=10), 1, True, 1, waiting=True)
        (runs,) = await watcher.monitoring.missed_runs()
        assert (runs.job, runs.reason) == ("tick", "no_worker")

        await watcher.pause("tick")
        assert await watcher.monitoring.late() == []
        await watcher.resume("tick")
        await watcher.start(roles=["worker"])
        await until(lambda: _done(watcher), "a worker takes it")
        assert await watcher.monitoring.late() == []
    finally:
        await scheduler.close()
        await watcher.close()


async def _done(app: Mainspring) -> bool:
    return all(each.state == "completed" for each in await app.executions(job="tick"))
