"""Jobs that come after jobs, through the application object on a clock of the test's own."""

from __future__ import annotations

import warnings
from collections import Counter
from random import Random
from typing import Any

import pytest

from mainspring import CommandRefused, InvalidValue, JobContext, Mainspring, NonRetryable, Skip, daily_at
from mainspring.app.adapters import SystemClock
from mainspring.core.dependencies.joins import KEPT_FOR, prune_joins
from mainspring.core.dependencies.links import Dependents
from mainspring.core.engine.janitor import Janitor
from mainspring.core.views.job import job_of
from mainspring.stores.memory import MemoryStore
from mainspring.testing import harness

START = "2026-03-10T00:00Z"


class Flow:
    """An application whose handlers write down that they ran; those in `bad` fail."""

    def __init__(self) -> None:
        self.app = Mainspring("memory://", timezone="UTC")
        self.ran: list[str] = []
        self.bad: set[str] = set()

    def job(self, name: str, **options: Any) -> None:
        async def handler(ctx: JobContext) -> None:
            self.ran.append(name if ctx.tenant is None else f"{name} {ctx.tenant}")
            if self.bad & {name, f"{name} {ctx.tenant}"}:
                raise NonRetryable("it is bad")

        self.app.job(name, **{"max_attempts": 1, **options})(handler)

    def harness(self, start: str = START) -> Any:
        return harness(self.app, start=start, raise_errors=False)

    async def states(self, *names: str) -> dict[str, list[str]]:
        return {name: sorted(row.state.value for row in await self.app.executions(name)) for name in names}


# --- what follows --------------------------------------------------------------------------------------------------


@pytest.mark.req("FLW-1")
async def test_what_follows_has_the_tick_the_window_the_trace_and_who_caused_it() -> None:
    flow = Flow()
    flow.job("load", trigger=daily_at("02:00"), window="yesterday")
    flow.job("report", after="load")
    async with flow.harness() as kit:
        await kit.advance("3h")
        by_hand = await flow.app.trigger("load", window=("2026-03-01", "2026-03-02"), by="ada")
        await kit.run_until_idle()
        assert flow.ran == ["load", "report"] * 2
        second, first = await flow.app.executions("report")
        load = await flow.app.get(first.metadata["after"]["load"])
        assert first.scheduled_at == load.scheduled_at is not None
        assert (first.window, first.trace_id) == (load.window, load.trace_id)
        assert (first.trigger, first.flow_id, first.parent_id) == ("dependency", load.id, None)
        assert (second.triggered_by, second.flow_id, second.scheduled_at) == ("ada", by_hand.id, None)
        assert second.window == by_hand.window


@pytest.mark.req("FLW-1")
async def test_several_parents_meet_by_window_by_tick_or_by_the_flow_they_come_from() -> None:
    flow = Flow()
    flow.job("start")
    for name in ("left", "right"):
        flow.job(name, after="start")
    flow.job("end", after=("left", "right"))
    for name, at in (("orders", "02:00"), ("prices", "05:00")):
        flow.job(name, trigger=daily_at(at), window="yesterday")
    flow.job("totals", after=("orders", "prices"))
    for name in ("north", "south"):
        flow.job(name, trigger=daily_at("03:00"))
    flow.job("both", after=("north", "south"))
    async with flow.harness() as kit:
        for _ in range(2):
            await flow.app.enqueue("start")
        await kit.run_until_idle()
        assert flow.ran.count("end") == 2, "each flow has an end of its own"
        await kit.advance("4h")
        assert (flow.ran.count("both"), flow.ran.count("totals")) == (1, 0), "prices have not come yet"
        await kit.advance("2d")
        assert (flow.ran.count("both"), flow.ran.count("totals")) == (2 + 1, 2)


@pytest.mark.req("FLW-1")
async def test_a_failure_is_passed_on_unless_a_job_runs_anyway_and_a_retry_is_followed_again() -> None:
    flow = Flow()
    flow.job("load")
    flow.job("report", after="load")
    flow.job("mail", after="report")
    flow.job("tidy", after="load", on_failed_parent="run")
    flow.bad = {"load"}
    async with flow.harness() as kit:
        failed = await flow.app.enqueue("load")
        await kit.run_until_idle()
        assert flow.ran == ["load", "tidy"]
        [mail] = await flow.app.executions("mail")
        assert (mail.state, mail.reason, mail.metadata["failed_parent"]) == ("skipped", "dependency_failed", "report")
        flow.bad.clear()
        again = await flow.app.retry(failed)
        await kit.run_until_idle()
        assert (again.flow_id, again.retry_of) == (failed.id, failed.id)
        assert sorted(flow.ran[2:]) == ["load", "mail", "report", "tidy"]
        assert await flow.states("report", "mail") == {name: ["completed", "skipped"] for name in ("report", "mail")}


@pytest.mark.req("FLW-1")
async def test_of_several_parents_one_is_retried_and_the_newest_of_each_counts() -> None:
    flow = Flow()
    flow.job("left", trigger=daily_at("02:00"), window="yesterday")
    flow.job("right", trigger=daily_at("02:00"), window="yesterday")
    flow.job("end", after=("left", "right"))
    flow.bad = {"right"}
    async with flow.harness() as kit:
        await kit.advance("3h")
        [end] = await flow.app.executions("end")
        assert (end.state, end.metadata["failed_parent"]) == ("skipped", "right")
        flow.bad.clear()
        again = await flow.app.retry("right")
        await kit.run_until_idle()
        ended = (await flow.app.executions("end", status="completed"))[0]
        assert ended.metadata["after"] == {"left": end.metadata["after"]["left"], "right": again.id}


@pytest.mark.req("FLW-1")
async def test_what_did_not_take_place_is_not_followed() -> None:
    """A tick skipped for an overlap, an occurrence that somebody skipped, a cancelled or removed dependent."""
    flow = Flow()
    flow.job("load", trigger=daily_at("02:00"))
    flow.job("report", after="load")
    flow.job("mail", after="load")
    async with flow.harness() as kit:
        await flow.app.skip_occurrence("load", "2026-03-10T02:00Z")
        await kit.advance("3h")
        assert await flow.states("load", "report") == {"load": ["skipped"], "report": []}
        await flow.app.cancel("report")
        await flow.app.remove_job("mail")
        await kit.advance("1d")
        assert flow.ran == ["load"]
        cancelled = await flow.app.enqueue("load", start_at="1h")
        await flow.app.cancel(cancelled)
        await kit.run_until_idle()
        await flow.app.reactivate("report")
        again = await flow.app.enqueue("load", start_at="1h")
        await flow.app.cancel(again)
        await kit.run_until_idle()
        assert await flow.states("report") == {"report": ["skipped"]}, "a cancelled parent did not complete"


@pytest.mark.req("FLW-1")
async def test_not_before_is_a_time_of_day_in_the_jobs_zone_on_the_day_of_the_tick() -> None:
    flow = Flow()
    flow.job("load", trigger=daily_at("01:00"))
    flow.job("report", after="load", not_before="06:00", tz="Europe/Paris")
    flow.job("early", after="load", not_before="02:45", tz="Europe/Paris")  # a time that the 29th does not have
    async with flow.harness("2026-03-27T12:00Z") as kit:
        await kit.advance("3d")
        early = [row.started_at.isoformat()[:16] for row in reversed(await flow.app.executions("early"))]
        assert early == ["2026-03-28T01:45", "2026-03-29T01:00", "2026-03-30T01:00"]
        starts = [row.started_at.isoformat() for row in reversed(await flow.app.executions("report"))]
        assert [start[:16] for start in starts] == ["2026-03-28T05:00", "2026-03-29T04:00", "2026-03-30T04:00"]
        late = await flow.app.trigger("load")
        await kit.run_until_idle()
        assert (await flow.app.executions("report"))[0].start_at >= late.created_at, "that time is over: at once"
        assert sorted(flow.ran[-3:]) == ["early", "load", "report"]


@pytest.mark.req("FLW-1")
async def test_a_paused_or_disabled_job_says_that_it_did_not_follow() -> None:
    flow = Flow()
    flow.job("load")
    flow.job("report", after="load")
    flow.job("mail", after="report", enabled=False)
    async with flow.harness() as kit:
        await flow.app.pause("report")
        await flow.app.enqueue("load")
        await kit.run_until_idle()
        assert [(await flow.app.executions(name))[0].reason for name in ("report", "mail")] == [
            "paused",
            "dependency_failed",
        ]
        skipped = (await flow.app.why("mail"))[1][-1]
        assert (skipped.code, skipped.blocking, skipped.details["reason"]) == ("skipped", False, "dependency_failed")
        assert "was skipped: job 'report' did not complete" in skipped.message
        await flow.app.resume("report")
        await flow.app.enqueue("load")
        await kit.run_until_idle()
        assert flow.ran == ["load", "load", "report"]
        reasons = sorted(str(row.reason) for row in await flow.app.executions("mail"))
        assert reasons == ["dependency_failed", "disabled"]
        assert (await flow.app.job_view("report")).state == "completed"
        await flow.app.cancel("report")  # it is not over: what comes after other jobs has them as its schedule
        assert (await flow.app.job_view("report")).state == "cancelled"


@pytest.mark.req("FLW-1")
async def test_what_follows_waits_for_its_turn_and_is_never_skipped() -> None:
    flow = Flow()
    flow.job("load")
    flow.job("report", after="load", overlap="skip")
    async with flow.harness() as kit:
        for _ in range(4):
            await flow.app.enqueue("load")
        await kit.run_until_idle()
        assert await flow.states("report") == {"report": ["completed"] * 4}


@pytest.mark.req("FLW-1")
async def test_what_had_begun_before_the_dependent_was_declared_is_not_followed() -> None:
    flow = Flow()
    flow.job("load")
    async with flow.harness() as kit:
        await flow.app.enqueue("load")
        flow.job("report", after="load")
        await flow.app.open()
        await kit.run_until_idle()
        assert flow.ran == ["load"]
        await flow.app.enqueue("load")
        await kit.run_until_idle()
        assert flow.ran == ["load", "load", "report"]


# --- tenants -------------------------------------------------------------------------------------------------------


@pytest.mark.req("FLW-1", "TEN-3")
async def test_fan_in_after_fan_out_and_the_same_tenants_again() -> None:
    flow = Flow()
    everybody = ["a", "b", "c"]
    flow.job("load", tenants=everybody)
    flow.job("totals", after="load")
    flow.job("anyhow", after="load", on_failed_parent="run")
    flow.job("mail", after="load", tenants=["x", "y"])
    flow.job("tidy", after="load", tenants=["x", "y"], on_failed_parent="run")
    flow.bad = {"load b"}
    async with flow.harness() as kit:
        await flow.app.trigger("load")
        await kit.run_until_idle()
        assert [row.state for row in await flow.app.executions("load") if row.tenant is None] == ["partial"]
        assert await flow.states("totals", "anyhow") == {"totals": ["skipped"], "anyhow": ["completed"]}
        assert sorted(flow.ran) == sorted(
            [
                "anyhow",
                *(f"load {name}" for name in everybody),
                *(f"tidy {name}" for name in everybody),
                "mail a",
                "mail c",
            ]
        )
        flow.bad.clear()
        [parent] = [row for row in await flow.app.executions("load") if row.tenant is None]
        flow.ran.clear()
        await flow.app.tenants.retry_failed(parent)
        await kit.run_until_idle()
        assert sorted(flow.ran) == ["anyhow", "load b", "mail b", "tidy b", "totals"], "only for those that had failed"


@pytest.mark.req("FLW-1")
async def test_a_run_for_one_tenant_is_followed_for_that_tenant() -> None:
    flow = Flow()
    flow.job("load")
    flow.job("mail", after="load", tenants=["x", "y"])
    flow.job("note", after="load")
    async with flow.harness() as kit:
        await flow.app.enqueue("load", tenant="y")
        await kit.run_until_idle()
        assert sorted(flow.ran) == ["load y", "mail y", "note y"]


# --- declaring -----------------------------------------------------------------------------------------------------


@pytest.mark.req("FLW-1")
async def test_cycles_are_refused_where_they_are_made() -> None:
    app = Mainspring("memory://")
    with pytest.raises(InvalidValue, match="This is a cycle: a after a"):
        app.job("a", after="a")(lambda: None)
    app.job("b", after="c")(lambda: None)
    with pytest.raises(InvalidValue, match="This is a cycle: c after b after c"):
        app.job("c", after=["b"])(lambda: None)
    app.job("c")(lambda: None)
    for wrong, match in [(5, "after"), ([1], "after"), ("no name", "after")]:
        with pytest.raises(InvalidValue, match=match):
            app.job("d", after=wrong)(lambda: None)  # type: ignore[arg-type]
    with pytest.raises(InvalidValue, match="on_failed_parent"):
        app.job("d", after="c", on_failed_parent="wait")(lambda: None)
    with pytest.raises(InvalidValue, match="not_before"):
        app.job("d", after="c", not_before="noon")(lambda: None)
    for alone in ({"not_before": "06:00"}, {"on_failed_parent": "run"}, {"after": [], "on_failed_parent": "run"}):
        with pytest.raises(InvalidValue, match="nothing without after="):
            app.job("d", **alone)(lambda: None)  # type: ignore[arg-type]


@pytest.mark.req("FLW-1")
async def test_a_cycle_over_two_applications_or_after_a_revert_is_refused() -> None:
    store = MemoryStore(SystemClock())
    first, second = Mainspring(store), Mainspring(store)
    first.job("a")(lambda: None)
    first.job("b", after="a")(lambda: None)
    await first.open()
    second.job("c", after="b")(lambda: None)
    await second.open()
    with pytest.raises(InvalidValue, match="This is a cycle: a after c after b after a"):
        await first.update_job("a", after="c")
    await first.update_job("b", after=[])
    await first.update_job("a", after="c")
    with pytest.raises(InvalidValue, match="This is a cycle: b after a after c after b"):
        await first.revert_job("b")
    with pytest.raises(InvalidValue, match="Did you mean 'c'"):
        await first.update_job("b", after="cc")
    assert (await first.job_view("a")).after == ("c",)
    assert (await first.job_view("c")).dependents == ("a",)
    assert (await first.job_view("b")).dependents == ("c",)
    assert {view.name: view.dependents for view in await first.jobs()} == {"a": (), "b": ("c",), "c": ("a",)}
    await first.close()
    await second.close()


@pytest.mark.req("FLW-1")
async def test_a_parent_may_come_later_and_is_followed_from_then_on() -> None:
    store = MemoryStore(SystemClock())
    early = Mainspring(store)
    early.job("report", after="load")(lambda: None)
    early.job("loaf")(lambda: None)
    with pytest.warns(UserWarning, match="after 'load', which does not exist yet; did you mean 'loaf'"):
        await early.open()
    late = Mainspring(store)
    late.job("load")(lambda: None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        await late.open()
    view = await late.job_view("load")
    assert (view.dependents, job_of(view).spec.feeds) == (("report",), True)
    await early.close()
    await late.close()


@pytest.mark.req("FLW-1")
async def test_a_deploy_keeps_the_mark_of_a_parent_that_only_an_operator_linked() -> None:
    store = MemoryStore(SystemClock())
    for _ in range(2):
        app = Mainspring(store, roles=["scheduler"])
        app.job("load")(lambda: None)
        app.job("report")(lambda: None)
        await app.start()
        if not (await app.job_view("report")).after:
            await app.update_job("report", after="load")
        version = (await app.job_view("load")).version
        await app.close()
    assert (await Dependents(store).of("load"))[0].name == "report"
    [load] = await store.jobs(["load"])
    assert (load.spec.feeds, load.version) == (True, version)


@pytest.mark.req("FLW-1")
async def test_endings_that_waited_too_long_are_forgotten() -> None:
    flow = Flow()
    flow.job("left")
    flow.job("right")
    flow.job("end", after=("left", "right"))
    async with flow.harness() as kit:
        await flow.app.enqueue("left")
        await kit.run_until_idle()
        store: Any = (await flow.app._runtime.engine()).store
        [end] = await store.jobs(["end"])
        assert len(await store.list_entries("join", "end")) == 1
        now = await store.now()
        assert await prune_joins(store, end, "", now, print) == ""
        assert len(await store.list_entries("join", "end")) == 1
        await prune_joins(store, end, "", now + KEPT_FOR + 1_000_000, print)
        assert await store.list_entries("join", "end") == []
        await flow.app.enqueue("left")
        await kit.run_until_idle()
        kit.clock.advance(15 * 86_400)
        await Janitor(store, kit.clock, Random(1), print).retain_once()
        assert await store.list_entries("join", "end") == []
        with pytest.raises(CommandRefused, match="job 'end'"):
            await flow.app.retry("end")


@pytest.mark.req("FLW-1", "API-10")
async def test_why_a_job_that_comes_after_others_is_not_running() -> None:
    flow = Flow()
    flow.job("left")
    flow.job("right")
    flow.job("end", after=("left", "right"))

    async def told() -> list[tuple[str, Any]]:
        _, reasons = await (await flow.app._runtime.engine()).overview.why("end")
        return [(each.code, each.details) for each in reasons if each.code in ("after", "waits_for_parent")]

    async with flow.harness() as kit:
        assert await told() == [("after", {"after": ["left", "right"]})]
        waiting = await flow.app.enqueue("left", start_at="1h")
        assert waiting is not None
        alive = {"job": "left", "execution_id": waiting.id, "state": "pending"}
        assert await told() == [("waits_for_parent", alive)]
        await kit.advance("2h")
        half = {"group": f"flow:{waiting.id}", "ended": {"left": waiting.id}, "missing": ["right"]}
        assert await told() == [("waits_for_parent", half)]


@pytest.mark.req("TEN-2", "FLW-1", "WIN-5")
async def test_a_run_for_some_tenants_speaks_for_these_and_not_for_the_window() -> None:
    flow = Flow()
    flow.job("load", window="yesterday", trigger=daily_at("02:00"), tenants=["a", "b", "c"])
    flow.job("enrich", after="load", tenants=["a", "b", "c"])
    flow.job("report", after="load")
    flow.job("mail", after="enrich")
    window = ("2026-03-01", "2026-03-02")
    async with flow.harness() as kit:
        await flow.app.trigger("load", tenants=["a"], window=window)
        await kit.run_until_idle()
        assert flow.ran == ["load a", "enrich a"], "what is about all tenants does not follow"
        assert [each.state for each in await flow.app.windows("load", *window)] == ["missing"]
        await flow.app.trigger("load", window=window)
        await kit.run_until_idle()
        names = Counter(each.split()[0] for each in flow.ran)
        assert names == {"load": 4, "enrich": 4, "report": 1, "mail": 1}
        assert [each.state for each in await flow.app.windows("load", *window)] == ["done"]


@pytest.mark.req("EXE-15")
async def test_a_skip_by_the_handler_is_passed_on_and_tenants_that_skip_do_not_fail_their_parent() -> None:
    flow = Flow()

    @flow.app.job("load", tenants=["a", "b", "c"], max_attempts=1)
    async def load(ctx: JobContext, idle: str = "") -> None:
        if ctx.tenant in idle.split():
            raise Skip(f"nothing for {ctx.tenant}")

    flow.job("report", after="load")
    flow.job("audit", after="load", on_failed_parent="run")
    flow.job("each", after="load", tenants=["a", "b", "c"])
    async with flow.harness() as kit:
        some = await flow.app.trigger("load", {"idle": "a c"})
        await kit.run_until_idle()
        some = await flow.app.get(some.id)
        assert (some.state, some.error) == ("completed", None)
        assert some.result == {"total": 3, "success": 1, "failed": 0, "skipped": 2}
        assert sorted(flow.ran) == ["audit", "each b", "report"]
        flow.ran.clear()
        none = await flow.app.trigger("load", {"idle": "a b c"})
        await kit.run_until_idle()
        none = await flow.app.get(none.id)
        assert (none.state, none.reason) == ("skipped", "children")
        assert flow.ran == ["audit"]
        [report] = await flow.app.executions("report", status="skipped")
        assert (report.state, report.reason) == ("skipped", "dependency_failed")
        assert report.error == f"job 'load' did not complete: execution {none.id} is skipped"
