"""Coming back after an absence: missed ticks that are caught up, through the application object."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainspring import CatchUp, Execution, InvalidValue, JobContext, Mainspring, every
from mainspring.testing.clock import FakeClock
from tests.integration.gate import Gate
from tests.support import ON_A_FAKE_CLOCK, Nodes, until

START = datetime(2026, 1, 1, tzinfo=UTC)


class Shop:
    """An application with one job, every minute, on a clock that the test moves."""

    def __init__(self, nodes: Nodes, **options: Any) -> None:
        self.clock, self.nodes, self.options = FakeClock(), nodes, options
        self.order: list[datetime] = []
        self.at_once = self.most = 0

    def app(self) -> Mainspring:
        app = self.nodes.app(clock=self.clock, **ON_A_FAKE_CLOCK)
        app.job("tick", trigger=every(seconds=60), grace=0, **self.options)(self.tick)
        return app

    async def tick(self, ctx: JobContext) -> None:
        assert ctx.scheduled_at is not None
        self.order.append(ctx.scheduled_at)
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await asyncio.sleep(0.005)
        self.at_once -= 1

    async def away(self, seconds: float) -> Mainspring:
        async with self.app():
            pass
        self.clock.advance(seconds)
        app = self.app()
        await app.start()
        return app


def minutes(*numbers: int) -> list[datetime]:
    return [START + timedelta(minutes=number) for number in numbers]


async def done(app: Mainspring, count: int) -> list[Execution]:
    async def enough() -> list[Execution]:
        found = await app.executions(job="tick", status="completed", limit=200)
        return found if len(found) >= count else []

    return await until(enough, f"{count} runs have completed")


@pytest.mark.req("WIN-1", "WIN-2")
@pytest.mark.parametrize("overlap", ["skip", "queue", "cancel_running"])
async def test_caught_up_ticks_run_one_after_another_and_none_is_skipped(nodes: Nodes, overlap: str) -> None:
    shop = Shop(nodes, overlap=overlap, missed=CatchUp("all", max_runs=12, pace=0))
    app = await shop.away(20 * 60 + 30)
    runs = await done(app, 12)
    assert shop.order == minutes(*range(9, 21))
    assert shop.most == 1
    assert {run.trigger for run in runs} == {"catch_up"}
    [gap] = await app.executions(job="tick", status="skipped")
    assert (gap.reason, gap.metadata["count"]) == ("missed", 8)
    await app.close()


@pytest.mark.req("WIN-2")
async def test_caught_up_ticks_become_due_at_their_pace(nodes: Nodes) -> None:
    shop = Shop(nodes, overlap="allow", missed=CatchUp("all", pace="20s"))
    app = await shop.away(3 * 60 + 10)
    await done(app, 1)
    assert shop.order == minutes(1)
    for number in (2, 3):
        shop.clock.advance(20)
        await done(app, number)
        assert shop.order == minutes(*range(1, number + 1))
    assert await app.executions(job="tick", status="skipped") == []
    await app.close()


@pytest.mark.req("WIN-2", "EXE-1")
async def test_what_a_pause_missed_is_caught_up_when_it_ends(nodes: Nodes) -> None:
    shop = Shop(nodes, missed_while_paused=CatchUp("all", max_age="5m", pace=0))
    async with shop.app() as app:
        await app.pause("tick", by="ada", note="stock-taking", resume_at=START + timedelta(minutes=10, seconds=30))
        shop.clock.advance(10 * 60 + 30)
        await done(app, 5)
        assert shop.order == minutes(*range(6, 11))
        [gap] = await app.executions(job="tick", status="skipped")
        assert (gap.metadata["count"], gap.metadata["because"]) == (5, "the job was paused")
        view = await app.job_view("tick")
        assert (view.is_paused, view.pause_note, view.next_run_at) == (False, None, START + timedelta(minutes=11))


@pytest.mark.req("WIN-2", "TIM-6")
async def test_two_schedulers_that_come_back_together_catch_up_once(nodes: Nodes) -> None:
    shop = Shop(nodes, missed=CatchUp("all", pace=0))
    async with shop.app():
        pass
    shop.clock.advance(8 * 60 + 30)
    first, second = shop.app(), shop.app()
    await asyncio.gather(first.start(), second.start())
    await done(first, 8)
    assert sorted(shop.order) == minutes(*range(1, 9))
    assert len(await first.executions(job="tick", limit=100)) == 8
    await asyncio.gather(first.close(), second.close())


@pytest.mark.req("WIN-1", "WIN-2")
async def test_the_record_of_a_gap_stops_nothing_that_runs(nodes: Nodes) -> None:
    """Only a run makes what runs make way for it."""
    clock = FakeClock()
    app = nodes.app(clock=clock, **ON_A_FAKE_CLOCK)
    gate = Gate(app, "tick", trigger=every(seconds=60), grace=0, overlap="cancel_running")
    async with app:
        running = await app.trigger("tick")
        await gate.holds(running)
        clock.advance(10 * 60 + 30)
        await until(lambda: app.executions(job="tick", status="skipped"), "the gap is recorded")
        await app.skip_occurrence("tick", START + timedelta(minutes=11))
        clock.advance(60)

        async def both() -> bool:
            return len(await app.executions(job="tick", status="skipped")) == 2

        await until(both, "the skipped occurrence is recorded")
        gate.open.set()
        ended = await app.wait(running, timeout=60)
        assert (ended.state, ended.cancel_requested_at) == ("completed", None)


# --- pauses that end by themselves -----------------------------------------------------------------------------


@pytest.mark.req("WIN-8", "EXE-1")
async def test_a_pause_may_last_for_a_while_and_says_why(nodes: Nodes) -> None:
    shop = Shop(nodes)
    async with shop.app() as app:
        view = await app.pause("tick", by="ada", note="stock-taking", resume_after="2m30s")
        assert (view.paused_by, view.pause_note, view.resume_at) == ("ada", "stock-taking", minutes(2)[0] + HALF)
        assert view.next_run_at is None
        shop.clock.advance(150)
        await until(lambda: _resumed(app), "the pause ends by itself")
        [gap] = await app.executions(job="tick", status="skipped")
        assert (gap.reason, gap.metadata["count"]) == ("missed", 2)
        shop.clock.advance(30)
        await done(app, 1)
        assert shop.order == minutes(3)


HALF = timedelta(seconds=30)


async def _resumed(app: Mainspring) -> bool:
    return not (await app.job_view("tick")).is_paused


@pytest.mark.req("WIN-8")
async def test_the_end_of_a_pause_may_be_a_time_in_the_zone_of_the_job(memory_nodes: Nodes) -> None:
    shop = Shop(memory_nodes, tz="Europe/Berlin")
    async with shop.app() as app:
        view = await app.pause("tick", resume_at="2026-01-01T08:00")
        assert view.resume_at == datetime(2026, 1, 1, 7, tzinfo=UTC)
        await app.resume("tick")
        with pytest.raises(InvalidValue, match="Give one of them"):
            await app.pause("tick", resume_at="2026-01-01T08:00", resume_after="1h")


@pytest.mark.req("WIN-2", "WIN-8")
async def test_what_came_before_a_pause_is_not_a_matter_of_the_pause(nodes: Nodes) -> None:
    """Nobody ran when the job was paused: the ticks before that were missed, and those after it were paused."""
    shop = Shop(nodes, missed="skip", missed_while_paused=CatchUp("all", pace=0))
    async with shop.app():
        pass
    shop.clock.advance(3 * 60 + 30)
    async with nodes.client(clock=shop.clock) as client:
        await client.pause("tick")
        [gap] = await client.executions(job="tick")
        assert (gap.metadata["count"], gap.metadata["because"]) == (3, "no scheduler was running")
        shop.clock.advance(120)
        await client.resume("tick")
    async with shop.app() as app:
        await done(app, 2)
        assert shop.order == minutes(4, 5)
