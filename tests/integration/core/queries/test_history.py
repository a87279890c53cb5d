"""History: queries, statistics, audit and retention, through the application object."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainspring import InvalidValue, JobContext, Mainspring, Retention, every
from mainspring.testing.clock import FakeClock
from tests.integration.gate import Gate
from tests.support import ON_A_FAKE_CLOCK, Nodes, ended, run_once, until

START = datetime(2026, 1, 1, tzinfo=UTC)
DAY = 86_400.0


@pytest.mark.req("HIS-1")
async def test_executions_are_found_by_job_state_trigger_time_trace_and_running(nodes: Nodes) -> None:
    clock = FakeClock()
    app = nodes.app(clock=clock, **ON_A_FAKE_CLOCK)
    gate = Gate(app)

    @app.job("sum", max_attempts=1)
    async def total(fail: bool = False) -> None:
        if fail:
            raise ValueError("no")

    trace = "0af7651916cd43dd8448eb211c80319c"
    async with app:
        good = await run_once(app, total, traceparent=f"00-{trace}-b7ad6b7169203331-01")
        clock.advance(60)
        bad = await run_once(app, total, {"fail": True})
        clock.advance(60)
        manual = await ended(app, await app.trigger("sum", by="ada"))
        clock.advance(1)
        running = await app.enqueue("gate")
        assert running is not None
        await gate.holds(running)

        async def ids(**query: Any) -> list[str]:
            return [each.id for each in await app.executions(**query)]

        assert await ids() == [running.id, manual.id, bad.id, good.id]
        assert await ids(job="sum") == [manual.id, bad.id, good.id]
        assert await ids(status="failed") == [bad.id]
        assert await ids(status=["failed", "completed"]) == [manual.id, bad.id, good.id]
        assert await ids(running=True) == [running.id]
        assert await ids(running=False) == [manual.id, bad.id, good.id]
        assert await ids(trigger="manual") == [manual.id]
        assert await ids(trace_id=trace) == [good.id]
        assert await ids(since=START + timedelta(seconds=60), until=START + timedelta(seconds=120)) == [bad.id]
        assert await ids(limit=2) == [running.id, manual.id]
        assert await ids(limit=2, offset=2) == [bad.id, good.id]
        assert await ids(before=manual.id) == [bad.id, good.id]
        assert await ids(job="nothing") == []
        assert await ids(tenant="nobody") == []
        gate.open.set()
        await ended(app, running)


@pytest.mark.req("HIS-1", "API-5", "EXE-6")
async def test_statistics_of_a_job(nodes: Nodes) -> None:
    app = nodes.app(fold_interval=0.02)

    @app.job("sum", max_attempts=2, retry="queue", overlap="skip")
    async def total(ctx: JobContext, kind: str) -> None:
        if kind == "fail":
            raise ValueError("no")

    async with app:
        app_view = await app.job_view("sum")
        assert (app_view.stats.total, app_view.stats.success_rate, app_view.last_run_at) == (0, None, None)
        for _ in range(3):
            await run_once(app, total, {"kind": "fine"})
        await app.update_job("sum", max_attempts=1)
        last = await run_once(app, total, {"kind": "fail"})
        waiting = await app.enqueue(total, {"kind": "fine"}, start_at="2100-01-01T00:00:00Z")
        skipped = await app.enqueue(total, {"kind": "fine"})
        assert skipped is not None
        assert skipped.state == "skipped"
        await app.cancel(waiting)  # type: ignore[arg-type]
        stats = (await app.job_view("sum")).stats
        assert (stats.completed, stats.failed, stats.cancelled, stats.skipped) == (3, 1, 1, 1)
        assert (stats.total, stats.success_rate) == (5, 0.75)
        assert stats.average_duration_ms is not None
        assert stats.average_duration_ms >= 0
        view = await app.job_view("sum")
        assert (view.last_status, view.error_message) == ("cancelled", None)
        assert last.error == "ValueError: no"


@pytest.mark.req("HIS-1", "SEC-3")
async def test_every_change_leaves_an_audit_record(nodes: Nodes) -> None:
    app = nodes.app()
    gate = Gate(app, trigger=every(hours=1))
    async with app:
        run = await app.trigger("gate", by="ada")
        await gate.holds(run)
        await app.cancel(run, by="bob")
        await ended(app, run)
        await app.pause("gate", by="carl")
        await app.update_job("gate", by="dora", queue="slow")
        records = await app.audits()
        assert [(each.action, each.actor, each.target) for each in records] == [
            ("update", "dora", "job:gate"),
            ("pause", "carl", "job:gate"),
            ("cancel", "bob", f"execution:{run.id}"),
            ("trigger", "ada", "job:gate"),
        ]
        assert records[0].before != records[0].after
        assert records[0].after["overrides"] == {"queue": "slow"}
        assert len(await app.audits(limit=2)) == 2


@pytest.mark.req("HIS-1")
@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"status": "done"}, "status: 'done' is not valid; allowed: 'pending', 'running'"),
        ({"limit": 0}, "limit: 0 is not valid; allowed: a whole number from 1 to 1000"),
        ({"limit": 100_000}, "limit: 100000 is not valid"),
        ({"offset": -1}, "offset: -1 is not valid"),
        ({"since": "yesterday"}, "since: 'yesterday' is not valid"),
        ({"until": datetime(2026, 1, 1)}, "Add a time zone"),
    ],
)
async def test_a_wrong_query_is_refused(memory_nodes: Nodes, query: dict[str, Any], message: str) -> None:
    async with memory_nodes.client() as app:
        with pytest.raises(InvalidValue) as refused:
            await app.executions(**query)
        assert message in str(refused.value)


# --- retention -----------------------------------------------------------------------------------------------


class Past:
    """An application on a clock of its own, whose janitor prunes all the time."""

    def __init__(self, nodes: Nodes) -> None:
        self.clock = FakeClock()
        self.nodes = nodes

    def app(self) -> Mainspring:
        return self.nodes.app(clock=self.clock, retention_interval=0.02, fold_interval=0.02, **ON_A_FAKE_CLOCK)


async def states(app: Mainspring, job: str) -> list[str]:
    return sorted(each.state.value for each in await app.executions(job=job, limit=500))


@pytest.mark.req("HIS-2")
async def test_scheduled_jobs_keep_the_newest_and_the_young(nodes: Nodes) -> None:
    past = Past(nodes)
    app = past.app()
    app.job("tick", trigger=every(days=400), retention=Retention(newest=3, days=30))(lambda: None)
    async with app:
        old = [await run_once(app, "tick") for _ in range(5)]
        past.clock.advance(29 * DAY)
        young = [await run_once(app, "tick") for _ in range(2)]
        assert len(await app.executions(job="tick")) == 7
        past.clock.advance(2 * DAY)  # the first five are older than 30 days, one of them is among the newest 3
        await until(lambda: _count(app, "tick", 3), "four are pruned")
        kept = {each.id for each in await app.executions(job="tick")}
        assert {each.id for each in young} < kept
        assert len(kept & {each.id for each in old}) == 1
        stats = (await app.job_view("tick")).stats
        assert stats.completed == 7  # totals outlive the records


async def _count(app: Mainspring, job: str, wanted: int) -> bool:
    found = len(await app.executions(job=job, limit=500))
    assert found >= wanted
    return found == wanted


@pytest.mark.req("HIS-2")
async def test_defaults_by_state(nodes: Nodes) -> None:
    past = Past(nodes)
    app = past.app()

    @app.job("on-demand", max_attempts=1, overlap="skip")
    async def on_demand(fail: bool = False) -> None:
        if fail:
            raise ValueError("no")

    async with app:
        await run_once(app, on_demand)
        await run_once(app, on_demand, {"fail": True})
        later = await app.enqueue(on_demand, start_at=START + timedelta(days=365))
        skipped = await app.enqueue(on_demand)
        assert skipped is not None
        assert skipped.state == "skipped"
        assert await states(app, "on-demand") == ["completed", "failed", "pending", "skipped"]
        past.clock.advance(6.9 * DAY)
        assert await states(app, "on-demand") == ["completed", "failed", "pending", "skipped"]
        past.clock.advance(0.2 * DAY)
        await until(lambda: _is(app, "on-demand", ["failed", "pending"]), "successes and skips live 7 days")
        past.clock.advance(100 * DAY)
        assert await states(app, "on-demand") == ["failed", "pending"]  # a failure among the newest 100 stays
        assert later is not None


async def _is(app: Mainspring, job: str, wanted: list[str]) -> bool:
    return await states(app, job) == wanted


@pytest.mark.req("HIS-2")
async def test_delete_on_success_at_once(nodes: Nodes) -> None:
    app = nodes.app()

    @app.job("quiet", retention=Retention(keep_success=False), max_attempts=1)
    async def quiet(fail: bool = False) -> None:
        if fail:
            raise ValueError("no")

    async with app:
        await app.enqueue_many([(quiet, None)] * 5)
        await until(lambda: _completed(app, "quiet", 5))
        assert await app.executions(job="quiet") == []
        failed = await run_once(app, quiet, {"fail": True})
        assert [each.id for each in await app.executions(job="quiet")] == [failed.id]


async def _completed(app: Mainspring, job: str, wanted: int) -> bool:
    return (await app.job_view(job)).stats.completed == wanted


@pytest.mark.req("HIS-2")
async def test_a_hard_cap(nodes: Nodes) -> None:
    past = Past(nodes)
    app = past.app()
    app.job("many", retention={"at_most": 4})(lambda: None)
    async with app:
        made = []
        for _ in range(10):
            made.append(await run_once(app, "many"))
            past.clock.advance(1)
        await until(lambda: _count(app, "many", 4))
        newest = sorted((each.id for each in made), reverse=True)[:4]  # two of the same instant have no other order
        assert [each.id for each in await app.executions(job="many")] == newest


@pytest.mark.req("HIS-2", "REG-10")
async def test_an_operator_changes_the_retention_of_a_job(nodes: Nodes) -> None:
    past = Past(nodes)
    app = past.app()
    app.job("many")(lambda: None)
    async with app:
        for _ in range(5):
            await run_once(app, "many")
        await app.update_job("many", retention={"at_most": 2})
        await until(lambda: _count(app, "many", 2))
