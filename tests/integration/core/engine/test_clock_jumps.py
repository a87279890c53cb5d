"""Clocks that are set while schedulers run: no tick is lost, none is doubled, and what is found late is missed."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainspring import CatchUp, Mainspring, every
from mainspring.core.views.job import job_of
from mainspring.model.events import ClockJumped, Ticked
from mainspring.testing.clock import FakeClock
from tests.support import NEVER, ON_A_FAKE_CLOCK, Nodes, Seen, until

START = datetime(2026, 1, 1, tzinfo=UTC)


class World:
    def __init__(self, nodes: Nodes, **settings: Any) -> None:
        self.clock, self.seen, self.nodes = FakeClock(), Seen(), nodes
        self.settings = {**ON_A_FAKE_CLOCK, **settings}

    def app(self, **options: Any) -> Mainspring:
        app = self.nodes.app(clock=self.clock, observers=[self.seen], **self.settings)
        app.job("tick", trigger=every(seconds=60), overlap="allow", **options)(lambda: None)
        return app

    async def settle(self, app: Mainspring) -> None:
        """Every tick up to now is made."""

        async def nothing_due() -> bool:
            due = job_of(await app.job_view("tick")).due
            return due is not None and due > self.clock.now()

        await until(nothing_due, "every due tick is made")

    async def made(self, app: Mainspring) -> list[float]:
        found = await app.executions(job="tick", limit=200)
        minutes = [(each.scheduled_at - START) / timedelta(minutes=1) for each in found if each.scheduled_at]
        assert max(Counter(minutes).values()) == 1
        return sorted(minutes)


@pytest.fixture
def world(nodes: Nodes) -> World:
    return World(nodes)


@pytest.mark.req("TIM-7")
async def test_a_clock_that_is_set_back_doubles_no_tick(world: World) -> None:
    async with world.app() as app:
        for _ in range(5):
            world.clock.advance(60)
            await world.settle(app)
        world.clock.jump(-180)
        assert await world.made(app) == [1, 2, 3, 4, 5]
        for _ in range(4):
            world.clock.advance(60)
            await world.settle(app)
        assert await world.made(app) == [1, 2, 3, 4, 5, 6]
        await until(lambda: world.seen.of(ClockJumped), "the jump is told of")
        assert world.seen.of(ClockJumped)[0].seconds < -100


@pytest.mark.req("TIM-7")
async def test_steering_after_the_clock_was_set_back_plans_no_tick_again(world: World) -> None:
    async with world.app() as app:
        for _ in range(5):
            world.clock.advance(60)
            await world.settle(app)
        world.clock.jump(-180)
        await app.pause("tick")
        await app.resume("tick")
        await app.update_job("tick", enabled=False)
        await app.update_job("tick", enabled=True)
        await app.cancel("tick")
        await app.reactivate("tick")
        for _ in range(5):
            world.clock.advance(60)
            await world.settle(app)
        ticks = [event.execution.scheduled_at for event in world.seen.of(Ticked)]
        assert len(ticks) == len(set(ticks))
        assert ticks == sorted(tick for tick in ticks if tick is not None)


@pytest.mark.req("TIM-7", "WIN-2")
@pytest.mark.parametrize(
    ("rule", "runs", "missed"),
    [("skip", [1], 60), ("latest", [1, 61], 59), (CatchUp("all", max_runs=3, pace=0), [1, 59, 60, 61], 57)],
)
async def test_a_jump_forwards_is_downtime(world: World, rule: Any, runs: list[float], missed: int) -> None:
    """The clock is set by an hour, or the machine slept for one: what is later than its grace follows the rule."""
    async with world.app(missed=rule, grace=10) as app:
        world.clock.advance(60)
        await world.settle(app)
        world.clock.jump(3600 + 30)
        await world.settle(app)
        [gap] = await app.executions(job="tick", status="skipped")
        assert (gap.reason, gap.metadata["count"]) == ("missed", missed)
        made = await world.made(app)
        assert [number for number in made if number != 2] == runs  # the record of the gap stands at its first tick
        world.clock.advance(30)
        await world.settle(app)
        assert (await world.made(app))[-1] == 62


@pytest.mark.req("TIM-7", "TIM-5")
async def test_a_scheduler_that_sleeps_hears_of_a_jump_with_the_next_heartbeat(memory_nodes: Nodes) -> None:
    """It had planned to sleep much longer: without that word it would look in a minute."""
    world = World(memory_nodes, poll_interval=NEVER, heartbeat="50ms")
    async with world.app(missed="latest") as app:
        node = app._runtime.parts.node  # type: ignore[union-attr]
        assert node is not None
        await until(lambda: node.scheduler.last_check is not None, "it has looked, and sleeps")
        world.clock.jump(3600)
        await until(lambda: world.seen.of(Ticked), "the tick is made", deadline=NEVER / 2)
        assert world.seen.of(ClockJumped)[0].seconds == pytest.approx(3600, abs=5)
