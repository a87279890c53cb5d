"""Declaring jobs and bringing them to the store, through the application object."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mainspring import (
    ConfigurationError,
    DuplicateRegistration,
    Execution,
    HandlerNotFound,
    InvalidValue,
    JobContext,
    JobNotFound,
    Mainspring,
    Retry,
    cron,
    daily_at,
    every,
)
from mainspring.core.views.execution import row_of
from mainspring.core.views.job import job_of
from tests.support import Nodes, ended, run_once, until


async def version(app: Mainspring, name: str) -> int:
    return (await app.job_view(name)).version


# --- declaring -----------------------------------------------------------------------------------------------


@pytest.mark.req("REG-1")
async def test_a_job_is_a_decorator_on_a_function(nodes: Nodes) -> None:
    app = nodes.app()
    ran = asyncio.Event()

    @app.job("vpos-summary", cron="0 0 2 * * *")
    async def vpos_summary() -> str:
        """Sum up the day."""
        ran.set()
        return "done"

    async with app:
        view = await app.job_view("vpos-summary")
        assert (view.schedule, view.state, view.handler) == ("0 0 2 * * *", "scheduled", "vpos-summary")
        assert view.description == "Sum up the day."
        execution = await ended(app, await app.trigger("vpos-summary"))
        assert ran.is_set()
        assert execution.result == "done"


class Reminder:
    """Keeps what it was given, to see that one object serves all executions."""

    name = "shift-start-reminder"
    max_attempts = 4
    seen: list[tuple[int, Any, str]]

    def __init__(self) -> None:
        self.seen = []

    async def perform(self, data: dict[str, Any], execution: Execution) -> Any:
        self.seen.append((id(self), data, execution.id))
        return data["shift"]


class Mailer:
    name = "mailer"

    def __init__(self, server: str) -> None:
        self.server = server

    def perform(self, data: dict[str, Any]) -> str:
        return f"{data['to']} via {self.server}"


@dataclass
class Invoice:
    number: int
    paid: bool = False


class Billing:
    name = "billing"

    def perform(self, data: Invoice, execution: JobContext) -> str:
        return f"{data.number} {data.paid} {execution.attempt}"


@pytest.mark.req("REG-2")
async def test_a_class_is_constructed_once_and_serves_all_executions(nodes: Nodes) -> None:
    app = nodes.app()
    app.register(Reminder, queue="notifications")
    async with app:
        first = await run_once(app, Reminder, {"shift": 1})
        second = await run_once(app, "shift-start-reminder", {"shift": 2})
        assert [first.result, second.result, first.queue] == [1, 2, "notifications"]
        assert row_of(first).rules.max_attempts == 4
        served = app._runtime.registry.get("shift-start-reminder").instance.seen
        assert len({self_id for self_id, _, _ in served}) == 1
        assert [(data, id) for _, data, id in served] == [({"shift": 1}, first.id), ({"shift": 2}, second.id)]


@pytest.mark.req("REG-2", "REG-6")
async def test_an_object_with_dependencies_and_the_optional_second_argument(nodes: Nodes) -> None:
    app = nodes.app()
    app.register(Mailer("localhost"))
    app.register(Billing())
    async with app:
        assert (await run_once(app, Mailer, {"to": "ada"})).result == "ada via localhost"
        assert (await run_once(app, Billing, {"number": 7})).result == "7 False 1"
        assert (await run_once(app, Billing, Invoice(8, True))).result == "8 True 1"
        with pytest.raises(InvalidValue, match=r"params\.number is missing"):
            await app.enqueue(Billing, {"paid": True})


@pytest.mark.req("REG-2")
@pytest.mark.parametrize("annotation", [None, Any, object, dict, Execution, Invoice, "Execution | None", "Nowhere"])
async def test_perform_gets_an_object_with_the_fields_of_the_execution_and_the_means_of_the_context(
    memory_nodes: Nodes, annotation: Any
) -> None:
    class Handler:
        name = "handler"
        max_attempts = 1

        def perform(self, data, execution):  # type: ignore[no-untyped-def]
            execution.progress(1, 2)
            execution.count(seen=1)
            execution.metadata["by"] = "handler"
            execution.check()
            execution.logger.info("attempt %d", execution.attempt)
            assert isinstance(execution, Execution)
            assert "progress" in dir(execution)
            assert execution.idempotency_key == execution.execution_id
            with pytest.raises(AttributeError, match="nonsense"):
                _ = execution.nonsense
            fields = ("id", "job", "handler", "queue", "params", "trigger", "triggered_by", "attempt", "max_attempts")
            return {name: getattr(execution, name) for name in (*fields, "state", "tenant", "window", "counters")}

    if annotation is not None:
        Handler.perform.__annotations__["execution"] = annotation
    app = memory_nodes.app()
    app.register(Handler)
    async with app:
        done = await run_once(app, Handler, {"a": 1}, by="ada")
        assert done.state == "completed", done.error
        assert done.result == {
            "id": done.id,
            "job": "handler",
            "handler": "handler",
            "queue": "default",
            "params": {"a": 1},
            "trigger": "enqueue",
            "triggered_by": "ada",
            "attempt": 1,
            "max_attempts": done.max_attempts,
            "state": "running",
            "tenant": None,
            "window": None,
            "counters": {"seen": 1},
        }
        assert (done.counters, done.metadata, done.progress) == (
            {"seen": 1},
            {"by": "handler"},
            {"done": 1, "total": 2, "percent": 50.0, "updated_at": done.progress["updated_at"]},
        )


@pytest.mark.req("ENQ-1", "REG-2")
async def test_a_job_is_triggered_by_whatever_it_can_be_enqueued_by(nodes: Nodes) -> None:
    app = nodes.app()

    def plain(name: str) -> str:
        return f"plain {name}"

    handle = app.job("plain")(plain)
    mailer = Mailer("localhost")
    app.register(mailer)
    app.register(Reminder)

    async with app:
        for handler in ("plain", plain, handle):
            assert (await ended(app, await app.trigger(handler, {"name": "ada"}, by="bob"))).result == "plain ada"
            blocking = await asyncio.to_thread(app.sync.trigger, handler, {"name": "ada"})
            assert (await ended(app, blocking)).result == "plain ada"
        for handler in (Mailer, mailer, "mailer"):
            run = await app.trigger(handler, {"to": "ada"})
            assert (run.job, run.trigger, (await ended(app, run)).result) == ("mailer", "manual", "ada via localhost")
        assert (await ended(app, await app.trigger(Reminder, {"shift": 1}))).result == 1
        for unknown in (print, Invoice):
            with pytest.raises(HandlerNotFound):
                await app.trigger(unknown)
        with pytest.raises(JobNotFound):
            await app.trigger("plane")


@pytest.mark.req("REG-2", "REG-8")
async def test_a_second_object_of_a_class_is_not_used_and_warned_about(nodes: Nodes) -> None:
    app = nodes.app()
    app.register(Mailer("first"))
    with pytest.warns(UserWarning, match="handler 'mailer' keeps its first Mailer object"):
        app.schedule("mail-nightly", Mailer("second"), daily_at("03:00"), params={"to": "bob"})
    async with app:
        assert (await ended(app, await app.trigger("mail-nightly"))).result == "bob via first"


@pytest.mark.req("REG-3")
async def test_objects_with_execute_are_scheduled_through_the_registrar(nodes: Nodes) -> None:
    class Report:
        async def execute(self, ctx: JobContext) -> str:
            return ctx.job

    app = nodes.app()
    registrar = app.registrar
    registrar.fixed_rate("poll", Report(), "30s")
    registrar.hourly_at("sync", Report(), 15)
    registrar.daily_at("report", Report(), "03:00", tz="Europe/Istanbul")
    registrar.weekly_at("invoices", Report(), "monday", "06:30")
    registrar.monthly_at("close", Report(), 31, "23:30")
    async with app:
        found = {view.name: view.schedule for view in await app.jobs()}
        assert found == {
            "poll": "@every 30s",
            "sync": "0 15 * * * *",
            "report": "0 0 3 * * *",
            "invoices": "0 30 6 * * 1",
            "close": found["close"],
        }
        assert {view.state for view in await app.jobs()} == {"scheduled"}
        assert (await ended(app, await app.trigger("report"))).result == "report"


@pytest.mark.req("REG-4")
async def test_enqueue_by_name_and_by_class_where_the_handler_cannot_be_constructed(nodes: Nodes) -> None:
    worker = nodes.app()
    worker.register(Mailer("localhost"))
    async with worker, nodes.client() as web:
        by_name = await web.enqueue("mailer", {"to": "ada"})
        by_class = await web.enqueue(Mailer, {"to": "bob"})
        assert (await ended(web, by_name)).result == "ada via localhost"
        assert (await ended(web, by_class)).result == "bob via localhost"


@pytest.mark.req("REG-4")
async def test_what_nobody_has_is_refused_with_a_suggestion(nodes: Nodes) -> None:
    app = nodes.app()

    @app.job("send-mail")
    async def send_mail() -> None: ...

    def stranger() -> None: ...

    async with app:
        with pytest.raises(HandlerNotFound, match="no handler named 'send-mial'; did you mean 'send-mail'"):
            await app.enqueue("send-mial")
        with pytest.raises(HandlerNotFound, match="no handler named 'stranger'"):
            await app.enqueue(stranger)
        with pytest.raises(JobNotFound, match="no job named 'send_mail'; did you mean 'send-mail'"):
            await app.trigger("send_mail")


@pytest.mark.req("REG-5")
def test_a_second_registration_names_both_places(nodes: Nodes) -> None:
    app = nodes.app()

    @app.job("crawl")
    def first() -> None: ...

    with pytest.raises(DuplicateRegistration) as refused:

        @app.job("crawl")
        def second() -> None: ...

    message = str(refused.value)
    assert message.count("test_registration.py:") == 2
    assert "allow_override=True" in message

    @app.job("Crawl")  # case-sensitive
    def third() -> None: ...


@pytest.mark.req("REG-5")
async def test_allow_override_replaces_a_handler(nodes: Nodes) -> None:
    app = nodes.app()

    @app.job("crawl")
    async def real() -> str:
        return "real"

    @app.job("crawl", allow_override=True)
    async def fake() -> str:
        return "fake"

    async with app:
        assert (await run_once(app, "crawl")).result == "fake"


@pytest.mark.req("REG-6")
async def test_parameters_are_checked_where_they_are_given(nodes: Nodes) -> None:
    app = nodes.app()

    @app.job("remind")
    async def remind(ctx: JobContext, shift_id: str, times: int = 1) -> None: ...

    async with app:
        for give in (lambda params: app.enqueue(remind, params), lambda params: app.trigger("remind", params)):
            with pytest.raises(InvalidValue, match=r"params\.shift_id is missing.*takes \(shift_id: str, times: int"):
                await give({})
            with pytest.raises(InvalidValue, match=r"params\.times: 'twice' is not valid; allowed: int"):
                await give({"shift_id": "1", "times": "twice"})
            with pytest.raises(InvalidValue, match="params has no parameter 'shift'; did you mean 'shift_id'"):
                await give({"shift": "1"})
        with pytest.raises(InvalidValue, match=r"params\.shift_id is missing"):
            await app.enqueue_many([(remind, {"shift_id": "1"}), (remind, {})])
        assert await app.executions() == []


# --- values from the configuration ---------------------------------------------------------------------------


@pytest.mark.req("REG-7")
async def test_schedules_from_settings_and_environment(
    nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('[values.reports]\ncron = "15 4 * * *"\n')
    monkeypatch.setenv("REPORTS_RETRIES", "7")
    app = nodes.app(config_file=str(file))

    @app.job("report", cron="${reports.cron}", tz="${reports.tz:Europe/Paris}", max_attempts="${reports.retries}")  # type: ignore[arg-type]
    async def report() -> None: ...

    async with app:
        view = await app.job_view("report")
        assert (view.schedule, view.tz, view.max_attempts) == (
            "15 4 * * *",
            "Europe/Paris",
            7,
        )


@pytest.mark.req("REG-7")
async def test_an_unknown_placeholder_stops_the_start(nodes: Nodes) -> None:
    app = nodes.app()

    @app.job("report", cron="${reports.missing}")
    async def report() -> None: ...

    with pytest.raises(ConfigurationError, match=r"job 'report' .*reports\.missing.*REPORTS_MISSING"):
        await app.start()
    with pytest.raises(ConfigurationError, match=r"reports\.missing"):
        await app.enqueue(report)
    assert not nodes.file.exists()


# --- upsert --------------------------------------------------------------------------------------------------


def shop(nodes: Nodes, trigger: Any = None, **options: Any) -> Mainspring:
    """The application of one release."""
    app = nodes.app(release=options.pop("release", ""), prune=options.pop("prune", False))

    @app.job("crawl", trigger=trigger or every(minutes=30), **options)
    async def crawl(url: str = "http://localhost") -> str:
        return url

    return app


@pytest.mark.req("REG-8")
async def test_an_unchanged_declaration_is_not_touched(nodes: Nodes) -> None:
    async with shop(nodes, release="1") as app:
        before = job_of(await app.job_view("crawl"))
    async with shop(nodes, release="2") as app:
        after = job_of(await app.job_view("crawl"))
    assert after == before
    assert after.version == 1


@pytest.mark.req("REG-8")
async def test_a_changed_trigger_is_replanned(nodes: Nodes) -> None:
    async with shop(nodes, every(hours=10), release="1") as app:
        before = job_of(await app.job_view("crawl"))
    async with shop(nodes, every(hours=1), release="2") as app:
        after = job_of(await app.job_view("crawl"))
    assert after.next_run is not None
    assert before.next_run is not None
    assert after.next_run < before.next_run
    assert (after.version, after.id, after.release) == (before.version + 1, before.id, "2")
    assert after.declared_hash != before.declared_hash


@pytest.mark.req("REG-8")
async def test_another_change_keeps_the_plan(nodes: Nodes) -> None:
    async with shop(nodes) as app:
        before = job_of(await app.job_view("crawl"))
    async with shop(nodes, queue="web") as app:
        after = job_of(await app.job_view("crawl"))
    assert (after.next_run, after.spec.queue, after.version) == (before.next_run, "web", 2)


@pytest.mark.req("REG-8")
async def test_one_handler_has_many_jobs_with_their_own_parameters_and_queues(nodes: Nodes) -> None:
    app = shop(nodes, queue="web")
    app.schedule("crawl-news", "crawl", every(minutes=15), params={"url": "news"}, queue="slow")
    app.schedule("crawl-now", "crawl", params={"url": "now"})
    async with app:
        news = await ended(app, await app.trigger("crawl-news"))
        now = await ended(app, await app.enqueue("crawl-now"))
        own = await ended(app, await app.trigger("crawl"))
        assert [(each.result, each.queue, each.job, each.handler) for each in (news, now, own)] == [
            ("news", "slow", "crawl-news", "crawl"),
            ("now", "web", "crawl-now", "crawl"),
            ("http://localhost", "web", "crawl", "crawl"),
        ]
        assert (await app.job_view("crawl-now")).state == "completed"


@pytest.mark.req("REG-8")
async def test_jobs_declared_after_the_store_was_opened_are_brought_to_it_too(nodes: Nodes) -> None:
    app = shop(nodes)
    async with app:
        assert [view.name for view in await app.jobs()] == ["crawl"]

        @app.job("late", cron="0 5 * * *")
        async def late() -> str:
            return "not too late"

        assert (await run_once(app, late)).result == "not too late"
        assert (await app.job_view("late")).state == "scheduled"
        assert await version(app, "crawl") == 1


@pytest.mark.req("REG-9")
async def test_a_job_removed_from_code_keeps_ticking_and_is_shown_as_orphaned(nodes: Nodes) -> None:
    app = shop(nodes)
    app.schedule("crawl-news", "crawl", every(seconds=1))
    async with app:
        assert {view.name: view.orphaned for view in await app.jobs()} == {"crawl": False, "crawl-news": False}
    async with shop(nodes) as newer:
        assert {view.name: view.orphaned for view in await newer.jobs()} == {"crawl": False, "crawl-news": True}
        await until(lambda: newer.executions(job="crawl-news", status="completed"))
        await newer.remove_job("crawl-news", by="ada", force=True)
        assert [view.name for view in await newer.jobs()] == ["crawl"]
        assert [audit.action for audit in await newer.audits("job:crawl-news")] == ["remove"]


@pytest.mark.req("REG-9")
async def test_prune_retires_orphans_but_no_job_of_a_running_node(nodes: Nodes) -> None:
    older = shop(nodes)
    older.schedule("crawl-old", "crawl", every(hours=1))
    other = nodes.app()

    @other.job("elsewhere", cron="0 5 * * *")
    async def elsewhere() -> None: ...

    async with older:
        pass
    async with other, shop(nodes, prune=True) as newer:
        assert sorted(view.name for view in await newer.jobs()) == ["crawl", "elsewhere"]


@pytest.mark.req("REG-9", "API-11")
async def test_removing_is_refused_while_alive_unless_forced_and_keeps_or_purges_history(nodes: Nodes) -> None:
    app = nodes.app()

    @app.job("later")
    async def later() -> None: ...

    async with app:
        done = await run_once(app, later)
        waiting = await app.enqueue(later, start_at="2100-01-01T00:00:00Z")
        with pytest.raises(Exception, match=r"cannot remove job 'later': it is alive with 1 execution"):
            await app.remove_job("later")
        await app.remove_job("later", force=True)
        assert (await ended(app, waiting)).state == "cancelled"
        assert (await app.get(done.id)).state == "completed"
        with pytest.raises(JobNotFound):
            await app.job_view("later")
    async with nodes.app() as again:
        assert [each.id for each in await again.executions(job="later")] == [waiting.id, done.id]


@pytest.mark.req("API-11", "REG-9")
async def test_purge_removes_the_history_too(nodes: Nodes) -> None:
    async with shop(nodes) as app:
        done = await run_once(app, "crawl")
        await app.remove_job("crawl", purge=True)
        await until(lambda: _gone(app, done.id), "the history is purged")
        assert await app.executions(job="crawl") == []


async def _gone(app: Mainspring, id: str) -> bool:
    try:
        await app.get(id)
    except LookupError:
        return True
    return False


# --- operators -----------------------------------------------------------------------------------------------


@pytest.mark.req("REG-10")
async def test_operator_edits_survive_a_deploy_are_visible_and_can_be_reverted(nodes: Nodes) -> None:
    async with shop(nodes, every(minutes=30)) as app:
        view = await app.update_job("crawl", by="ada", trigger=cron("0 5 * * *"), retry=Retry("patient"), queue="slow")
        assert (view.schedule, view.queue) == ("0 5 * * *", "slow")
        await app.pause("crawl", by="ada", note="too much load")
    async with shop(nodes, every(minutes=10), timeout="5m") as app:
        view = await app.job_view("crawl")
        assert (view.schedule, view.queue, view.state) == ("0 5 * * *", "slow", "paused")
        assert (view.retry, view.timeout) == (Retry("patient"), 300.0)
        assert (view.paused_by, view.pause_note) == ("ada", "too much load")
        assert sorted(view.overrides) == ["queue", "retry", "trigger"]
        back = await app.revert_job("crawl", by="ada")
        assert (back.schedule, back.queue, back.overrides) == ("@every 10m", "default", {})
        assert back.state == "paused"  # paused is a state, not an edit
        resumed = await app.resume("crawl", by="ada")
        assert (resumed.state, resumed.is_paused) == ("scheduled", False)
        by_whom = [(audit.action, audit.actor) for audit in await app.audits("job:crawl")]
        edits = [(action, "ada") for action in ("resume", "revert", "pause", "update")]
        assert by_whom == [*edits[:2], ("declare", "code"), *edits[2:]]  # the deploy is among them


@pytest.mark.req("REG-10")
async def test_a_cron_expression_can_be_edited_as_it_is_declared(nodes: Nodes) -> None:
    async with shop(nodes) as app:
        view = await app.update_job("crawl", cron="0 0 5 * * *", tz="Europe/Istanbul", timeout="90s", max_attempts=2)
        assert (view.schedule, view.tz, view.timeout) == (
            "0 0 5 * * *",
            "Europe/Istanbul",
            90.0,
        )
        assert job_of(view).trigger == cron("0 0 5 * * *", tz="Europe/Istanbul")
        assert sorted(view.overrides) == ["max_attempts", "timeout", "trigger", "tz"]
        plain = await app.update_job("crawl", interval_minutes=30, tz="UTC", timeout=None, max_attempts=3)
        assert (plain.schedule, plain.overrides) == ("@every 30m", {})


@pytest.mark.req("REG-10", "REG-11")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cron": "0 25 * * *"}, "hour"),
        ({"trigger": "daily"}, "trigger: 'daily' is not valid"),
        ({"max_attempts": 0}, "max_attempts: 0 is not valid; allowed: a whole number from 1 to"),
        ({"queue": "a queue"}, "queue: 'a queue' is not valid"),
        ({"priority": 1_000_000}, "priority: 1000000 is not valid"),
        ({"tz": "Mars/Olympus"}, "tz: 'Mars/Olympus' is not valid"),
        ({"overlap": "sometimes"}, "overlap: 'sometimes' is not valid"),
        ({"timeout": "soon"}, "timeout: 'soon' is not valid"),
        ({"retry": "often"}, "retry: 'often' is not valid"),
        ({"params": {"uri": "x"}}, "params has no parameter 'uri'; did you mean 'url'"),
        ({"window": "fortnight"}, "window: 'fortnight' is not valid"),
        ({"enabled": "no"}, "enabled: 'no' is not valid"),
        ({"colour": "red"}, "'colour' is not valid"),
        ({"handler": "mailer"}, "'handler' is not valid"),
        ({"retention": {"days": -1}}, "retention.days: -1"),
    ],
)
async def test_a_wrong_edit_is_refused_like_a_wrong_declaration(
    memory_nodes: Nodes, change: dict[str, Any], message: str
) -> None:
    async with shop(memory_nodes) as app:
        with pytest.raises(InvalidValue) as refused:
            await app.update_job("crawl", **change)
        assert message in str(refused.value)
        assert await version(app, "crawl") == 1


@pytest.mark.req("REG-13")
async def test_a_disabled_job_never_ticks_and_can_be_triggered(nodes: Nodes) -> None:
    async with shop(nodes, every(seconds=1), schedule_enabled=False) as app:
        view = await app.job_view("crawl")
        assert (view.next_run_at, view.state, view.schedule) == (None, "pending", "@every 1s")
        manual = await ended(app, await app.trigger("crawl"))
        assert manual.trigger == "manual"
        assert (await app.job_view("crawl")).state == "completed"
        enabled = await app.update_job("crawl", enabled=True)
        assert enabled.state == "scheduled"
        ticks = await until(lambda: app.executions(job="crawl", trigger="schedule"))
        assert ticks


# --- modules -------------------------------------------------------------------------------------------------


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the import path; its modules are forgotten afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.mark.req("REG-12")
async def test_modules_that_hold_declarations_are_imported(nodes: Nodes, modules: Path) -> None:
    app = nodes.app(jobs=["warehouse_jobs"])
    (modules / "warehouse_app.py").write_text("app = None\n")
    (modules / "warehouse_jobs.py").write_text(
        "from warehouse_app import app\n\n\n@app.job('stock', cron='0 4 * * *')\ndef stock() -> int:\n    return 7\n"
    )
    import warehouse_app  # type: ignore[import-not-found]

    warehouse_app.app = app
    async with app:
        assert (await ended(app, await app.trigger("stock"))).result == 7


@pytest.mark.req("REG-12")
@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (None, "There is no module 'broken_jobs' in "),
        ("import no_such_thing", "ModuleNotFoundError: No module named 'no_such_thing'"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("def (", "SyntaxError"),
    ],
)
async def test_a_failing_import_stops_the_start_and_names_the_module(
    memory_nodes: Nodes, modules: Path, source: str | None, reason: str
) -> None:
    if source is not None:
        (modules / "broken_jobs.py").write_text(source)
    app = memory_nodes.app(jobs=["broken_jobs"])
    for _ in range(2):  # a second try does not start without the jobs
        with pytest.raises(ConfigurationError) as refused:
            await app.start()
        assert f"module 'broken_jobs' could not be imported: {reason}" in str(refused.value)


@pytest.mark.req("REG-8")
async def test_a_client_creates_missing_jobs_and_changes_nothing_that_is_known(nodes: Nodes) -> None:
    async with shop(nodes, every(minutes=30)) as app:
        before = job_of(await app.job_view("crawl"))
        older = shop(nodes, every(minutes=5), prune=True)
        older.schedule("crawl-old", "crawl", every(hours=1))
        assert [view.name for view in await older.jobs()] == ["crawl", "crawl-old"]
        assert job_of(await older.job_view("crawl")) == before
        await older.close()
