"""Windows and backfills through the application object: what is listed, what runs, what operators can do."""

from __future__ import annotations

import asyncio
from datetime import datetime
from itertools import pairwise
from typing import Any

import pytest

from mainspring import (
    Backfill,
    CommandRefused,
    InvalidValue,
    JobContext,
    Mainspring,
    NonRetryable,
    Retention,
    every,
    offset,
)
from mainspring.core.engine.janitor import Janitor
from mainspring.core.views.job import job_of
from mainspring.model.errors import BackfillNotFound
from mainspring.model.events import BackfillBegan, BackfillEnded
from mainspring.testing import harness
from tests.support import DEADLINE, Nodes, Seen, until

START = "2026-03-10T12:00Z"
BEGIN, END = "2026-03-01", "2026-03-10"
DAYS = 9


def days(*numbers: int) -> list[str]:
    return [f"2026-03-{number:02d}" for number in numbers]


def application(**options: Any) -> tuple[Mainspring, list[str]]:
    """A job with daily windows. It fails on the 5th, and is slow about nothing."""
    app, ran = Mainspring("memory://"), []

    @app.job("report", **{"cron": "0 3 * * *", "window": "yesterday", "max_attempts": 1, **options})
    async def report(ctx: JobContext, region: str = "all") -> None:
        ran.append(f"{ctx.window.begin:%Y-%m-%d}" + ("" if region == "all" else f" {region}"))
        if ctx.window.begin.day == 5 and region == "all":
            raise NonRetryable("no data on the 5th")

    return app, ran


# --- the ledger ----------------------------------------------------------------------------------------------


@pytest.mark.req("WIN-6")
async def test_done_failed_missing_and_running_windows_of_a_range() -> None:
    app, _ = application()
    async with harness(app, start="2026-03-03T12:00Z", raise_errors=False) as kit:
        await kit.advance("3d")
        running = await app.trigger("report", window=("2026-03-01", "2026-03-02"))
        found = await app.windows("report", BEGIN, END)
        assert [(f"{each.window.begin:%d}", each.state, each.runs) for each in found] == [
            ("01", "running", 0),
            ("02", "missing", 0),
            ("03", "done", 1),
            ("04", "done", 1),
            ("05", "failed", 1),
        ]
        assert found.counts == {"done": 2, "failed": 1, "missing": 1, "running": 1}
        assert (found[0].execution_id, found[4].last_state) == (running.id, "failed")
        assert found[2].finished_at == datetime.fromisoformat("2026-03-04T03:00Z")


@pytest.mark.req("WIN-6", "WIN-7")
async def test_a_later_failure_leaves_a_done_window_done_and_a_cancelled_one_is_missing() -> None:
    app, _ = application()
    async with harness(app, start="2026-03-07T12:00Z", raise_errors=False) as kit:
        await app.trigger("report", {"region": "north"}, window=("2026-03-05", "2026-03-06"))
        await kit.advance("1s")
        await app.trigger("report", window=("2026-03-05", "2026-03-06"))
        await kit.advance("1s")
        waiting = await app.trigger("report", window=("2026-03-06", "2026-03-07"))
        await app.cancel(waiting)
        await kit.run_until_idle()
        first, second = await app.windows("report", "2026-03-05", "2026-03-07")
        assert (first.state, first.last_state, first.runs) == ("done", "failed", 2)
        assert (second.state, second.last_state, second.runs) == ("missing", "cancelled", 1)


@pytest.mark.req("WIN-6", "TIM-1")
async def test_a_fixed_delay_with_windows_goes_on_and_is_entered() -> None:
    app = Mainspring("memory://")

    @app.job("poll", trigger=every(minutes=50, delay=True), window="previous_hour")
    async def poll(ctx: JobContext) -> None: ...

    async with harness(app, start="2026-03-01T00:00Z") as kit:
        await kit.advance("10h")
        assert len(kit.executions("poll", state="completed")) == 12
        counts = (await app.windows("poll", "2026-03-01", kit.now)).counts
        assert (counts["done"], counts["missing"]) == (10, 0)


@pytest.mark.req("WIN-6")
async def test_the_ledger_outlives_the_executions() -> None:
    app, _ = application(retention=Retention(days=0, newest=0))
    async with harness(app, start="2026-03-01T12:00Z", raise_errors=False) as kit:
        await kit.advance("3d")
        await Janitor(kit._store, kit.clock, kit._chance, lambda event: None).retain_once()
        assert await app.executions("report") == []
        assert (await app.windows("report", "2026-03-01", END)).counts["done"] == 3


@pytest.mark.req("WIN-6")
async def test_the_ledger_belongs_to_the_name_until_it_is_purged() -> None:
    app, _ = application()
    async with harness(app, start="2026-03-01T12:00Z", raise_errors=False) as kit:
        await kit.advance("3d")
        before = job_of(await app.job_view("report"))
        await app.remove_job("report")
        again, _ = application(cron="0 4 * * 1", window="previous_week")
        again._runtime.given_store, again._runtime.clock = kit._store, kit.clock
        found = await again.windows("report", "2026-02-20", "2026-03-05")
        assert job_of(await again.job_view("report")).id != before.id
        assert [f"{each.window.begin:%d}" for each in found if each.state == "done"] == ["01", "02", "03"]
        await again.remove_job("report", purge=True)
        assert (
            await kit._store.list_entries("window", "report")
            == await kit._store.list_entries("revision", "report")
            == []
        )
        await again.close()


@pytest.mark.req("WIN-6")
async def test_what_has_no_windows_is_refused_with_the_remedy() -> None:
    app = Mainspring("memory://")

    async def nothing(ctx: JobContext) -> None: ...

    app.job("plain", cron="@daily")(nothing)
    app.schedule("delayed", "plain", every(hours=1, delay=True), window=offset("1h"))
    app.schedule("by-hand", "plain", window="previous_day")
    async with harness(app, start=START) as kit:
        with pytest.raises(InvalidValue, match=r'Declare it with window=, such as window="yesterday"'):
            await app.windows("plain", BEGIN, END)
        with pytest.raises(InvalidValue, match="Give it a trigger other than a fixed delay"):
            await app.backfill("delayed", BEGIN, END)
        assert len(await app.windows("by-hand", BEGIN, END)) == DAYS
        with pytest.raises(InvalidValue, match=r"end: .* an instant after begin \(2026-03-01T00:00:00Z\)"):
            await app.windows("by-hand", BEGIN, BEGIN)
        with pytest.raises(InvalidValue, match="an instant from the year 1970"):
            await app.windows("by-hand", "1950-01-01")
        app.schedule("minutely", "plain", every(minutes=1), window="since_previous_tick")
        with pytest.raises(InvalidValue, match=r"at most 100,000 windows\. Give a begin and an end closer together"):
            await app.windows("minutely", "2025-01-01", kit.now)


# --- backfills -----------------------------------------------------------------------------------------------


@pytest.mark.req("WIN-5", "WIN-6")
async def test_the_windows_of_a_range_that_are_not_done_run_oldest_first() -> None:
    app, ran = application()
    seen = Seen()
    app.observe(seen)
    async with harness(app, start="2026-03-06T12:00Z", raise_errors=False) as kit:
        await kit.advance("3d")
        assert ran == days(6, 7, 8)
        made = await app.backfill("report", BEGIN, END, by="ada", note="after the outage")
        assert (made.state, made.total, made.already_done, made.running) == ("running", 5, 3, 1)
        await kit.run_until_idle()
        over = await app.backfills.get(made.id)
        assert ran[3:] == days(1, 2, 3, 4, 5)
        assert (over.state, over.completed, over.failed, over.ended) == ("partial", 4, 1, 5)
        assert (over.created_by, over.note, over.finished_at) == ("ada", "after the outage", kit.now)
        (row,) = [each for each in await app.executions("report") if each.state == "failed"]
        assert (row.trigger, row.parent_id, row.triggered_by) == ("backfill", made.id, "ada")
        assert [len(seen.of(BackfillBegan)), len(seen.of(BackfillEnded))] == [1, 1]
        assert [each.action for each in await app.audits("job:report")] == ["backfill"]
        assert await kit._store.list_entries("backfill_plan", made.id) == []


@pytest.mark.req("WIN-6")
async def test_fill_the_holes_is_one_command() -> None:
    app, ran = application()
    async with harness(app, start="2026-03-01T12:00Z", raise_errors=False) as kit:
        await kit.advance("2d")
        await app.pause("report")
        await kit.advance("2d")
        await app.resume("report")
        await kit.advance("2d")
        assert ran == days(1, 2, 5, 6)
        await app.backfill("report", params={"region": "north"})
        await kit.run_until_idle()
        assert ran[4:] == ["2026-03-03 north", "2026-03-04 north", "2026-03-05 north"]
        assert (await app.windows("report")).counts == {"done": 6, "failed": 0, "missing": 0, "running": 0}
        nothing = await app.backfill("report")
        assert (nothing.state, nothing.total, nothing.already_done) == ("completed", 0, 6)
        assert await app.backfills.get(nothing.id) == nothing


@pytest.mark.req("WIN-5")
async def test_newest_first_only_some_and_forced() -> None:
    app, ran = application()
    async with harness(app, start=START, raise_errors=False) as kit:
        oldest = await app.backfill("report", BEGIN, END, dry_run=True)
        newest = await app.backfill("report", BEGIN, END, dry_run=True, order="newest", force=True)
        assert oldest.windows == newest.windows[::-1]
        assert [f"{window.begin:%Y-%m-%d}" for window in oldest.windows] == days(*range(1, 10))
        assert (oldest.state, oldest.total, oldest.id, await app.backfills.recent()) == ("planned", DAYS, "", [])
        assert await kit._store.copy_out("executions", "", 10) == []
        await app.backfill("report", "2026-03-04", "2026-03-06", order="newest")
        await kit.run_until_idle()
        assert ran == days(5, 4)
        await app.backfill("report", BEGIN, END, only="failed")
        await kit.run_until_idle()
        assert ran == days(5, 4, 5)
        await app.backfill("report", "2026-03-04", "2026-03-06", force=True)
        await kit.run_until_idle()
        assert ran == days(5, 4, 5, 4, 5)
        found = await app.windows("report", "2026-03-04", "2026-03-06")
        assert [(each.state, each.runs) for each in found] == [("done", 2), ("failed", 3)]


@pytest.mark.req("WIN-5")
async def test_a_pace_is_kept() -> None:
    app, _ = application()
    async with harness(app, start=START, raise_errors=False) as kit:
        made = await app.backfill("report", BEGIN, END, concurrency=4, pace="10m")
        await kit.advance("2h")
        starts = sorted(each.started_at for each in await app.executions("report", trigger="backfill"))
        assert [(later - earlier).total_seconds() for earlier, later in pairwise(starts)] == [600] * (DAYS - 1)
        assert (await app.backfills.get(made.id)).over


@pytest.mark.req("WIN-5")
async def test_pause_resume_and_cancel() -> None:
    app, ran = application()
    async with harness(app, start=START, raise_errors=False) as kit:
        made = await app.backfill("report", BEGIN, END, pace="1h", by="ada")
        await kit.advance("90m")
        paused = await app.backfills.pause(made.id, by="bob")
        assert (paused.state, paused.completed, paused.running) == ("paused", 2, 1)
        await kit.advance("5h")
        assert ran == days(1, 2, 3), "what was handed out runs, no more"
        with pytest.raises(CommandRefused, match="it is paused; pause is possible when running"):
            await app.backfills.pause(made.id)
        assert (await app.backfills.resume(made.id, by="bob")).state == "running"
        await kit.advance("1h")
        over = await app.backfills.cancel(made.id, by="eve", reason="wrong year")
        assert (over.state, over.reason, over.completed, over.running) == ("cancelled", "wrong year", 4, 0)
        await kit.advance("1d")
        assert ran[5:] == days(10), "the tick of the next day, and nothing of the backfill"
        actions = [(each.action, each.actor) for each in await app.audits(f"backfill:{made.id}")]
        assert actions == [("cancel", "eve"), ("resume", "bob"), ("pause", "bob")]
        with pytest.raises(CommandRefused, match="it is cancelled; resume is possible when paused"):
            await app.backfills.resume(made.id)
        with pytest.raises(BackfillNotFound):
            await app.backfills.get("019a1b2c-3d4e-7f00-8a1b-0123456789ab")
        assert [each.id for each in await app.backfills.recent("report")] == [made.id]
        assert await app.backfills.recent("other") == []


@pytest.mark.req("WIN-5")
@pytest.mark.parametrize("what", ["cancelled", "removed"])
async def test_a_backfill_ends_with_its_job(what: str) -> None:
    app, ran = application()
    async with harness(app, start=START, raise_errors=False) as kit:
        made = await app.backfill("report", BEGIN, END, pace="1h")
        if what == "cancelled":
            await app.cancel("report")
            with pytest.raises(CommandRefused, match="backfill is possible when the job is reactivated"):
                await app.backfill("report", BEGIN, END)
        else:
            await app.remove_job("report", force=True)
        await kit.advance("2h")
        over = await app.backfills.get(made.id)
        assert (over.state, over.reason) == ("cancelled", f"the job was {what}")
        assert ran == []


@pytest.mark.req("WIN-5")
async def test_a_paused_job_may_be_backfilled_with_the_windows_it_had_at_the_time() -> None:
    app, ran = application()
    async with harness(app, start="2026-03-03T12:00Z", raise_errors=False) as kit:
        await app.update_job("report", cron="0 * * * *", window="previous_hour")
        await app.pause("report")
        await kit.advance("4h")
        made = await app.backfill("report", BEGIN, kit.now)
        await kit.run_until_idle()
        assert (await app.backfills.get(made.id)).completed == len(ran) == 2 + 4
        assert ran == days(1, 2, 3, 3, 3, 3)


@pytest.mark.req("WIN-7")
async def test_a_window_that_runs_elsewhere_is_left_to_that_run() -> None:
    app, ran = application(overlap="allow")
    async with harness(app, start=START, raise_errors=False) as kit:
        made = await app.backfill("report", BEGIN, "2026-03-05")
        await app.trigger("report", {"region": "north"}, window=("2026-03-02", "2026-03-03"))
        await app.backfills.pause(made.id)
        await kit.run_until_idle()
        await app.trigger("report", {"region": "north"}, window=("2026-03-03", "2026-03-04"))
        await app.backfills.resume(made.id)
        await kit.run_until_idle()
        over = await app.backfills.get(made.id)
        assert (over.state, over.completed, over.skipped, over.held) == ("completed", 2, 1, 1)
        assert sorted(ran) == sorted([*days(1, 4), "2026-03-02 north", "2026-03-03 north"])
        reasons = {each.reason for each in await app.executions("report", status="skipped")}
        assert reasons == {"already_done", "running_elsewhere"}


@pytest.mark.req("WIN-7")
async def test_what_the_scheduler_still_owes_is_left_to_it() -> None:
    app, ran = application(missed="all", overlap="allow")
    async with harness(app, start="2026-03-06T12:00Z", raise_errors=False) as kit:
        kit.clock.advance(3 * 86_400)  # nobody is there to make the ticks of these days
        assert (await app.windows("report", BEGIN, END)).counts["missing"] == 8
        await app.backfill("report", BEGIN, END)
        await kit.run_until_idle()
        await kit.advance("1h")
        assert sorted(ran) == days(*range(1, 9)), "each once, though both make up for what is missing"
        triggers = [each.trigger for each in await app.executions("report") if each.state != "skipped"]
        assert (triggers.count("backfill"), triggers.count("catch_up")) == (5, 3)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"concurrency": 0}, "concurrency: 0 is not valid; allowed: a whole number from 1 to 1000"),
        ({"order": "random"}, "order: 'random' is not valid; allowed: 'oldest' or 'newest'"),
        ({"only": "done"}, "only: 'done' is not valid"),
        ({"pace": "soon"}, "pace: 'soon' is not valid"),
        ({"params": {"region": 5}}, "params.region"),
        ({"end": "soon"}, "end: 'soon' is not valid"),
        ({"note": ""}, "note"),
    ],
)
async def test_bad_options_are_refused(options: dict[str, Any], words: str) -> None:
    app, _ = application()
    async with harness(app, start=START):
        with pytest.raises(InvalidValue, match=words):
            await app.backfill("report", **{"begin": BEGIN, **options})
        assert await app.backfills.recent() == []


# --- on every store, with real nodes --------------------------------------------------------------------------


def reporting(nodes: Nodes, held: asyncio.Event | None = None, **options: Any) -> tuple[Mainspring, list[str]]:
    app, ran = nodes.app(), []

    @app.job("report", cron="0 3 * * *", window="yesterday", **options)
    async def report(ctx: JobContext) -> None:
        ran.append(ctx.window.key())
        if held is not None:
            await held.wait()

    return app, ran


async def over(app: Mainspring, made: Backfill) -> Backfill:
    return await app.backfills.wait(made.id, timeout=DEADLINE)


@pytest.mark.req("WIN-5", "WIN-6")
async def test_a_backfill_on_a_running_node(nodes: Nodes) -> None:
    app, ran = reporting(nodes)
    async with app, nodes.client() as operator:
        made = await operator.backfill("report", "2026-01-01", "2026-02-01", concurrency=5)
        ended = await over(operator, made)
        assert (ended.state, ended.completed, ended.total) == ("completed", 31, 31)
        assert len(ran) == len(set(ran)) == 31
        assert (await operator.windows("report", "2026-01-01", "2026-02-01")).counts["done"] == 31
        again = await operator.backfill("report", "2026-01-01", "2026-02-01")
        assert (again.state, again.already_done) == ("completed", 31)
        assert [each.id for each in await operator.backfills.recent()] == [again.id, made.id]


@pytest.mark.req("WIN-5")
async def test_two_nodes_keep_one_cap_and_a_cancel_reaches_what_runs(nodes: Nodes) -> None:
    held = asyncio.Event()
    first, ran = reporting(nodes, held)
    second, more = reporting(nodes, held)
    async with first, second:
        made = await first.backfill("report", "2026-01-01", "2026-02-01", concurrency=3)
        await until(lambda: len(ran) + len(more) == 3)
        paused = await second.backfills.pause(made.id)
        assert (paused.state, paused.running, paused.ended) == ("paused", 3, 0)
        await second.backfills.resume(made.id)
        await asyncio.gather(first.backfills.cancel(made.id), second.backfills.cancel(made.id), return_exceptions=True)
        ended = await over(first, made)
        assert (ended.state, ended.cancelled, len(ran) + len(more)) == ("cancelled", 3, 3)
        assert (await first.windows("report", "2026-01-01", "2026-02-01")).counts["missing"] == 31


@pytest.mark.req("WIN-6")
async def test_a_success_that_is_not_kept_is_entered_all_the_same(nodes: Nodes) -> None:
    app, _ = reporting(nodes, retention=Retention(keep_success=False))
    async with app:
        await app.trigger("report", window=("2026-01-01", "2026-01-02"))

        async def gone() -> bool:
            return not await app.executions("report")

        await until(gone)
        (found,) = await app.windows("report", "2026-01-01", "2026-01-02")
        assert (found.state, found.runs) == ("done", 1)


def test_the_blocking_facade_has_it_all(memory_nodes: Nodes) -> None:
    app, _ = reporting(memory_nodes)
    with app.sync as facade:
        made = facade.backfill("report", "2026-01-01", "2026-01-11", pace="100s")
        assert facade.backfills.pause(made.id).state == "paused"
        assert facade.backfills.resume(made.id).state == "running"
        assert facade.backfills.cancel(made.id).state in ("cancelling", "cancelled")
        assert facade.backfills.wait(made.id, timeout=DEADLINE).state == "cancelled"
        assert [each.id for each in facade.backfills.recent()] == [made.id]
        assert facade.backfills.get(made.id).over
        assert len(facade.windows("report", "2026-01-01", "2026-01-11")) == 10
