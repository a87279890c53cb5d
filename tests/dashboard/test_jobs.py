"""The list of jobs and the page of one job: what they show, and what their forms do."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any, Literal

import pytest

from mainspring import JobContext, Mainspring, State
from mainspring.core.views import execution as views
from mainspring.model.values.access import Role
from tests.dashboard.support import Pages, actions_of, links_of, notice_of, pages_of, text_of
from tests.support import Nodes, ended, until

PROBE = """"'><script>alert(1)</script>🦉"""


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


def _shop(nodes: Nodes, **settings: Any) -> Mainspring:
    app = nodes.app(**settings)

    @app.job("report", cron="30 2 * * *", tz="Europe/Berlin", window="yesterday", overlap="allow", max_attempts=1)
    async def report(ctx: Any, day: str = "today") -> None:
        """Adds up a day."""
        if ctx.window.begin.day % 2 and day == "odd fails":
            raise ValueError(f"no books {PROBE}")

    @app.job("mail", queue="post", tags=["news"], owner=PROBE, params={"to": "ada"}, description=f"Sends {PROBE}")
    def mail(
        to: str, size: Size = Size.SMALL, count: int = 1, loud: bool = False, of: Literal["a", "b"] = "a", more: Any = 0
    ) -> list[Any]:
        return [to, size.value, count, loud, of, more]

    @app.job("anything")
    def anything(**params: Any) -> dict[str, Any]:
        return params

    @app.job("invoices", tenants=["acme", "globex"], cron="0 4 * * *", tz="Asia/Tokyo")
    def invoices() -> None: ...

    return app


# --- the list ---------------------------------------------------------------------------------------------------


@pytest.mark.req("DSH-1")
async def test_jobs_are_listed_with_their_state_schedule_and_last_runs(nodes: Nodes) -> None:
    app = _shop(nodes)
    async with app, pages_of(app) as pages:
        for _ in range(3):
            await ended(app, await app.enqueue("mail", {"count": 7}))
        page = await until(lambda: _with(pages, "jobs", "Last 3 runs: 3 completed"))
        text = text_of(page)
        assert "At 02:30 (Europe/Berlin)" in text
        assert "after" not in text
        assert "on demand" in text
        assert "<script>alert" not in page
        assert "Sends &#34;" in page
        assert "/dashboard/jobs/mail" in links_of(page)
        await app.pause("report", by="ada")
        assert "paused" in text_of(await pages.get("jobs?status=paused"))


@pytest.mark.req("DSH-1", "DSH-2")
async def test_filters_are_chips_that_can_be_removed_and_lead_to_a_bulk_action(nodes: Nodes) -> None:
    app = _shop(nodes)
    async with pages_of(app) as pages:
        await pages.get("jobs")
        page = await pages.get("jobs?queue=post&tag=news&status=&search=")
        assert "mail" in text_of(page)
        assert "invoices" not in text_of(page)
        assert "queue: post" in text_of(page)
        assert "/dashboard/jobs?queue=post&status=&search=" in links_of(page)  # without the tag
        assert re.search(r'name="queue" value="post">\s*<input type="hidden" name="tag" value="news">', page)
        assert "With all 1 jobs that match" in text_of(page)
        assert "With all" not in text_of(await pages.get("jobs"))  # a bulk action needs a filter
        bulk = "bulk/new?target=jobs&action=pause"
        assert "Pause 1 job" in text_of(await pages.get(f"{bulk}&queue=post&tag=news"))
        assert "Pause 2 jobs" in text_of(await pages.get(f"{bulk}&id=mail&id=report"))
        assert "No job matches." in await pages.get("jobs?search=nothing-of-the-kind")
        assert "mail" not in text_of(await pages.get("jobs?last_status=failed")).partition("Filter ")[2]
        await pages.get("jobs?status=nonsense", status=400)
        by_next = text_of(await pages.get("jobs?sort=-next_run_at"))
        assert {"report", "invoices"} <= set(by_next.split())
    await app.close()


@pytest.mark.req("DSH-1")
async def test_many_jobs_come_in_pages_by_name_and_by_other_orders(nodes: Nodes) -> None:
    app = nodes.app()
    for number in range(120):
        app.job(f"job-{number:03d}")(lambda: None)
    async with pages_of(app) as pages:
        first = await pages.get("jobs")
        assert len(first) < 150_000
        assert "job-049" in first
        assert "job-050" not in text_of(first)
        [further] = [link for link in links_of(first) if "cursor=" in link and "sort=" not in link]
        second = await pages.get(further.removeprefix("/dashboard/"))
        assert "job-050" in text_of(second)
        assert "/dashboard/jobs" in links_of(second)
        by_state = await pages.get("jobs?sort=status")
        assert "/dashboard/jobs?sort=status&offset=50" in links_of(by_state)
        assert "job-119" in text_of(await pages.get("jobs?sort=status&offset=100"))
    await app.close()


@pytest.mark.req("DSH-1")
async def test_an_application_without_jobs_shows_how_to_declare_one(nodes: Nodes) -> None:
    app = nodes.app()
    async with pages_of(app) as pages:
        assert "@app.job(" in text_of(await pages.get("jobs"))
        assert "no job named 'nobody'" in text_of(await pages.get("jobs/nobody", status=404))
    await app.close()


# --- one job ----------------------------------------------------------------------------------------------------


@pytest.mark.req("DSH-1")
async def test_a_job_shows_its_next_runs_in_both_zones_and_what_the_clocks_do(nodes: Nodes) -> None:
    app = _shop(nodes)
    async with pages_of(app) as pages:
        pages.http.cookies.set("mainspring_zone", "America/New_York", domain="localhost.local")
        text = text_of(await pages.get("jobs/report"))
        assert "in Europe/Berlin" in text
        assert "your time, America/New_York" in text
        assert "02:30:00" in text
        assert re.search(r"Europe/Berlin: clocks go forward from .* 02:00 to 03:00: 02:30 is skipped: one run at", text)
        tokyo = text_of(await pages.get("jobs/invoices"))
        assert "clocks go" not in tokyo
        mail = await pages.get("jobs/mail")
        assert "<script>alert" not in mail
        assert "It has not run yet." in text_of(mail)
    await app.close()


@pytest.mark.req("DSH-1", "DSH-2")
async def test_a_run_is_skipped_moved_and_restored(nodes: Nodes) -> None:
    app = _shop(nodes)
    async with pages_of(app) as pages:
        await pages.get("jobs")
        at = (await app.job_view("invoices")).next_run_at
        assert at is not None
        done = await pages.act("jobs/invoices/occurrences/skip", at=at.isoformat())
        assert "skipped by" in text_of(await pages.get("jobs/invoices"))
        await pages.undo(done)
        assert (await app.job_view("invoices")).next_run_at == at
        await pages.act("jobs/invoices/occurrences/move", at=at.isoformat(), to="2090-01-01T05:00")
        [moved] = (await app.job_view("invoices")).occurrences
        assert moved.moved_to == datetime(2089, 12, 31, 20, tzinfo=UTC)  # the job's zone is nine hours ahead
        assert "moved from" in text_of(await pages.get("jobs/invoices"))
        await pages.act("jobs/invoices/occurrences/restore", at=at.isoformat())
        assert (await app.job_view("invoices")).occurrences == ()
        assert "an occurrence in the future" in await pages.refused(
            "jobs/invoices/occurrences/skip", at="2001-01-01T04:00"
        )
        assert {each.action for each in await app.audits("job:invoices")} == {
            "skip_occurrence",
            "restore_occurrence",
            "move_occurrence",
        }
    await app.close()


@pytest.mark.req("DSH-2")
async def test_a_job_is_paused_with_note_and_end_and_the_page_says_why_it_does_not_run(nodes: Nodes) -> None:
    app = _shop(nodes)
    async with pages_of(app) as pages:
        await pages.get("jobs")
        await pages.act("jobs/report/pause", note=f"stock taking {PROBE}", resume_after="4h")
        page = await pages.get("jobs/report")
        assert "<script>alert" not in page
        assert "Why is it not running?" in text_of(page)
        assert "stock taking" in text_of(page)
        job = await app.job_view("report")
        assert job.resume_at is not None
        resumed = await pages.act("jobs/report/resume")
        assert not (await app.job_view("report")).is_paused
        await pages.undo(resumed)
        again = await app.job_view("report")
        assert (again.pause_note, again.resume_at) == (job.pause_note, job.resume_at)
        await pages.act("jobs/report/resume")
        await pages.act("jobs/report/pause", resume_at="2090-06-01T12:00")
        assert (await app.job_view("report")).resume_at == datetime(2090, 6, 1, 10, tzinfo=UTC)  # in the job's zone
        cancelled = await pages.act("jobs/report/cancel", reason="no more reports")
        assert (await app.job_view("report")).state == "cancelled"
        assert "no more reports" in text_of(await pages.get("jobs/report"))
        await pages.undo(cancelled)
        assert (await app.job_view("report")).state == "scheduled"
    await app.close()


@pytest.mark.req("DSH-1")
async def test_the_page_stays_small_whatever_a_job_holds(nodes: Nodes) -> None:
    app, large = nodes.app(), {f"key-{number}": "<" * 1_000 for number in range(50)}

    @app.job("large", params={"data": large, "text": "&" * 50_000}, metadata=large, description="<" * 1_000)
    def keeps(data: dict[str, str], text: str) -> None: ...

    async with pages_of(app) as pages:
        await pages.get("jobs")
        await app.update_job("large", params={"data": large, "text": ">" * 50_000}, by="ada")
        assert len(await pages.get("jobs/large")) < 60_000
        assert 'name="param.text" value=""' in await pages.get("jobs/large")  # empty: the job's own
        assert len(await pages.get("jobs")) < 20_000
    await app.close()


@pytest.mark.req("DSH-2")
async def test_a_job_is_deleted(nodes: Nodes) -> None:
    app = _shop(nodes)
    async with pages_of(app) as pages:
        await pages.get("jobs")
        await app.enqueue("mail", {"to": "bob"})
        assert "alive with 1 execution" in await pages.refused("jobs/mail/delete")
        await pages.act("jobs/mail/delete", force="1")
        await pages.get("jobs/mail", status=404)
    await app.close()


# --- running it -------------------------------------------------------------------------------------------------


async def _result(app: Mainspring, pages: Pages, job: str, **fields: Any) -> Any:
    answer = await pages.send(f"jobs/{job}/trigger", **fields)
    assert notice_of(answer)["kind"] == "ok", notice_of(answer)
    return (await app.wait(answer.headers["location"].rpartition("/")[2], timeout=60)).result


@pytest.mark.req("DSH-2")
async def test_a_job_is_run_with_typed_parameters_from_its_signature(nodes: Nodes) -> None:
    app = _shop(nodes)
    async with app, pages_of(app) as pages:
        page = await pages.get("jobs/mail")
        assert 'name="param.to" value="ada"' in page  # the job's own
        assert 'name="param.count" value="" placeholder="1" inputmode="decimal"' in page
        assert "default: 'small'" in text_of(page)
        assert '<option value="&#34;large&#34;">large</option>' in page
        assert await _result(app, pages, "mail") == ["ada", "small", 1, False, "a", 0]
        given = {
            "param.to": "42",
            "param.size": '"large"',
            "param.count": "9007199254740993",
            "param.loud": "true",
            "param.of": '"b"',
            "param.more": "plain text",
        }
        assert await _result(app, pages, "mail", **given) == ["42", "large", 9007199254740993, True, "b", "plain text"]
        assert "params.count" in await pages.refused("jobs/mail/trigger", **{"param.count": "many"})
        assert await _result(app, pages, "anything", params='{"deep": [1, {"a": null}]}') == {"deep": [1, {"a": None}]}
        assert "a JSON object" in await pages.refused("jobs/anything/trigger", params="[1]")
        assert {each.action for each in await app.audits("job:mail")} == {"trigger"}
        page = await pages.get("jobs/mail")
        assert "What operators did" in page
        assert "trigger" in text_of(page).partition("What operators did")[2]


@pytest.mark.req("DSH-2")
async def test_a_job_is_run_for_chosen_tenants_and_without_its_code_by_json(nodes: Nodes) -> None:
    app = _shop(nodes)
    async with app, pages_of(app) as pages:
        await pages.act("jobs/invoices/trigger", tenants="globex")
        await until(lambda: _ended(app, "invoices", 2))
        children = [each.tenant for each in await app.executions("invoices") if each.tenant]
        assert children == ["globex"]
        page = await pages.get("jobs/invoices")
        parent, child = sorted(await app.executions("invoices"), key=lambda each: each.tenant or "")
        assert f"/dashboard/executions/{parent.id}" in links_of(page)
        assert f"/dashboard/executions/{child.id}" not in links_of(page)
        async with nodes.client() as console, pages_of(console) as others:  # has no code
            page = await others.get("jobs/mail")
            assert "does not have the code of handler mail" in text_of(page)
            assert await _result(app, others, "mail", params='{"to": "eve", "count": 3}') == [
                *("eve", "small", 3, False, "a", 0)
            ]


# --- windows ----------------------------------------------------------------------------------------------------


def _day(ago: int) -> str:
    return f"{datetime.now(UTC).date() - timedelta(days=ago)}"


async def _run_windows(app: Mainspring, *days_ago: int, **params: Any) -> None:
    for ago in days_ago:
        made = await app.trigger("report", params or None, window=(_day(ago), _day(ago - 1)))
        await app.wait(made, timeout=60)


async def _with(pages: Pages, path: str, words: str) -> str | None:
    page = await pages.get(path)
    return page if words in page else None


async def _ended(app: Mainspring, job: str, count: int) -> bool:
    return len([each for each in await app.executions(job) if each.state.final]) >= count


@pytest.mark.req("DSH-1", "DSH-2")
async def test_windows_are_a_calendar_whose_holes_can_be_filled(nodes: Nodes) -> None:
    app = _shop(nodes)
    async with app, pages_of(app) as pages:
        await _run_windows(app, 9, 8, 6, 5)
        page = await until(lambda: _with(pages, "jobs/report", "</i> 4 done"))
        assert ": missing, fill it" in page
        holes = [link for link in links_of(page) if "/backfill?begin=" in link]
        assert len(holes) >= 5  # seven days ago, and those since; yesterday's may not be due yet
        one = await pages.get(holes[0].removeprefix("/dashboard/"))
        assert "1 window would run" in text_of(one)
        assert "Start the backfill of 1 window" in text_of(one)
        begin, end = re.findall(r'name="(?:begin|end)" value="([^"]*Z)"', one)[-2:]
        started = await pages.send("jobs/report/backfill", begin=begin, end=end)
        assert notice_of(started)["text"] == "A backfill of 1 window has begun."
        made = started.headers["location"].rpartition("/")[2]
        assert started.headers["location"] == f"/dashboard/backfills/{made}"
        assert (await app.backfills.wait(made, timeout=60)).completed == 1
        await until(lambda: _with(pages, "jobs/report", "</i> 5 done"))


@pytest.mark.req("DSH-2")
async def test_a_backfill_is_previewed_and_started_with_its_options(nodes: Nodes) -> None:
    app = _shop(nodes)
    async with app, pages_of(app) as pages:
        await pages.get("jobs/report/backfill")
        query = f"begin={_day(40)}&end={_day(20)}&order=newest&concurrency=4&only=holes"
        page = await pages.get(f"jobs/report/backfill?{query}")
        assert "20 windows would run, newest first, 4 at once." in text_of(page)
        assert "and 10 more" in text_of(page)
        assert await app.backfills.recent() == []
        fields = {"begin": _day(40), "end": _day(20), "order": "newest", "concurrency": "4", "note": "new books"}
        made = (await pages.send("jobs/report/backfill", **fields)).headers["location"].rpartition("/")[2]
        backfill = await app.backfills.wait(made, timeout=60)
        assert (backfill.total, backfill.completed, backfill.order, backfill.concurrency) == (20, 20, "newest", 4)
        page = await pages.get(f"jobs/report/backfill?{query}&force=1")
        assert "20 windows would run" in text_of(page)
        assert "end" in text_of(await pages.get("jobs/report/backfill?begin=2026-02-01&end=2026-01-01"))
        assert "concurrency" in await pages.refused("jobs/report/backfill", concurrency="many")
        assert {each.action for each in await app.audits("job:report")} >= {"backfill"}
        assert made[-8:] in text_of(await pages.get("jobs/report"))


# --- editing ----------------------------------------------------------------------------------------------------


async def _seen(app: Mainspring, job: str) -> str:
    return (await app.job_view(job)).tag


FORM = {
    "schedule": "0 30 2 * * *",
    "timezone": "Europe/Berlin",
    "schedule_enabled": "1",
    "queue": "default",
    "max_retries": "0",
    "retry": "queue",
    "timeout": "",
    "overlap": "allow",
    "params": "{}",
}


async def _form(app: Mainspring, pages: Pages, **changes: str) -> dict[str, str]:
    """The form of the job "report" as a browser sends it."""
    page = await pages.get("jobs/report/edit")
    schedule = re.search(r'name="schedule" value="([^"]*)"', page)
    assert schedule
    return {**FORM, "schedule": schedule[1], "seen": await _seen(app, "report"), **changes}


@pytest.mark.req("DSH-1", "DSH-2")
async def test_a_job_is_edited_and_reverted_to_its_code(nodes: Nodes) -> None:
    app = _shop(nodes)
    async with pages_of(app) as pages:
        assert (await pages.act("jobs/report/edit", **await _form(app, pages)))["text"] == "Nothing was changed."
        changes = {"schedule": "0 5 * * *", "timeout": "10m", "max_retries": "4", "params": '{"day": "yesterday"}'}
        done = await pages.act("jobs/report/edit", **await _form(app, pages, **changes))
        assert done["text"] == "Job report was edited: schedule, max_retries, timeout, params."
        job = await app.job_view("report")
        assert (job.timeout, job.max_attempts, job.params) == (600, 5, {"day": "yesterday"})
        assert job.description_of_schedule == "At 05:00 (Europe/Berlin)"
        text = text_of(await pages.get("jobs/report"))
        assert "trigger 30 2 * * * (At 02:30) 0 5 * * * (At 05:00)" in text
        assert "update : max_attempts, params, timeout, trigger" in text
        await pages.undo(done)
        assert (await app.job_view("report")).overrides == {}
        await pages.act("jobs/report/edit", **await _form(app, pages, queue="slow", schedule_enabled=""))
        off = await app.job_view("report")
        assert (off.queue, off.enabled) == ("slow", False)
        await pages.act("jobs/report/revert", seen=off.tag)
        assert (await app.job_view("report")).overrides == {}
        assert [each.action for each in await app.audits("job:report")] == ["revert", "update", "update", "update"]
    await app.close()


@pytest.mark.req("DSH-2")
async def test_a_stale_edit_is_refused_and_a_wrong_one_keeps_what_was_typed(nodes: Nodes) -> None:
    app = _shop(nodes)
    async with pages_of(app) as pages:
        stale = await _form(app, pages, queue="slow")
        await app.update_job("report", priority=5, by="bob")
        assert "has changed since it was read" in await pages.refused("jobs/report/edit", **stale)
        assert (await app.job_view("report")).queue == "default"
        wrong = await pages.send("jobs/report/edit", **await _form(app, pages, schedule="0 25 * * *", queue="slow"))
        assert wrong.status_code == 422
        assert "instead of &#39;25&#39;" in wrong.text
        assert 'name="queue" value="slow"' in wrong.text
        assert "stale" not in (await app.job_view("report")).overrides
    await app.close()


@pytest.mark.req("DSH-1")
async def test_a_schedule_is_previewed_before_it_is_saved(nodes: Nodes) -> None:
    app = _shop(nodes)
    async with pages_of(app) as pages:
        await pages.get("jobs")
        part = await pages.get("jobs/report/preview?schedule=15+6+*+*+MON&timezone=Asia/Tokyo")
        assert "<html" not in part
        assert "At 06:15, only on Monday (Asia/Tokyo)" in text_of(part)
        assert len(re.findall(r"Mon \d{4}-\d\d-\d\d 06:15:00", part)) == 5
        assert "every 30 minutes" in text_of(await pages.get("jobs/report/preview?schedule=@every+30m&timezone="))
        assert "on demand" in text_of(await pages.get("jobs/report/preview?schedule="))
        assert "is not valid" in text_of(await pages.get("jobs/report/preview?schedule=61+6+*+*+*"))
        form = await _form(app, pages, schedule="0 7 * * *", queue="typed")
        page = await pages.send("jobs/report/preview", **form)  # the button, where there is no script
        assert page.status_code == 200
        assert "At 07:00 (Europe/Berlin)" in text_of(page.text)
        assert 'name="queue" value="typed"' in page.text
        assert await app.audits("job:report") == []
    await app.close()


# --- who may ----------------------------------------------------------------------------------------------------


@pytest.mark.req("DSH-2")
async def test_viewers_see_no_action_and_guarded_jobs_refuse_operators(nodes: Nodes) -> None:
    app = _shop(nodes, api_tokens=True)

    @app.job("guarded", trigger_role="admin", ping="https://hc.example/secret", cron="0 1 * * *")
    def guarded() -> None: ...

    async with pages_of(app, Role.VIEWER) as viewer:
        for path in ("jobs", "jobs/report", "jobs/mail"):
            page = await viewer.get(path)
            assert actions_of(page) == []
            assert "bulk/new" not in page
        await viewer.get("jobs/report/edit", status=403)
        await viewer.get("jobs/report/backfill", status=403)
        await viewer.get("jobs/report/preview?schedule=", status=403)
        assert "role" in await viewer.refused("jobs/report/pause")
    async with pages_of(app, Role.OPERATOR) as operator:
        assert actions_of(await operator.get("jobs/report")) != []
        assert actions_of(await operator.get("jobs/guarded")) == []
        for command in ("pause", "trigger", "cancel", "delete", "edit", "revert", "backfill", "occurrences/skip"):
            assert "needs the role admin" in await operator.refused(f"jobs/guarded/{command}"), command
        await app.update_job("guarded", ping="https://hc.example/other", by="ada")
        page = await operator.get("jobs/guarded")
        assert "https://hc.example/..." in page
        assert "secret" not in page
    await app.close()


@pytest.mark.req("DSH-1", "TEN-4")
async def test_partial_runs_are_no_successes_and_executions_that_wait_are_counted(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = nodes.app(roles="worker")

    @app.job("nightly", tenants=list("abcdefghi"), tenant_max_attempts=1)
    async def nightly(ctx: JobContext) -> None:
        if ctx.tenant == "i":
            raise ValueError("no")

    @app.job("slow", queue="other")
    async def slow(ctx: JobContext) -> None: ...

    async with app, pages_of(app) as pages:
        await app.queues.pause("other")
        parent = await app.trigger("nightly")
        assert (await app.wait(parent.id, timeout=30)).state is State.PARTIAL
        await app.enqueue("slow")

        async def counted() -> bool:
            return (await app.job_view("nightly")).stats.total == 10

        await until(counted)
        assert (await app.job_view("nightly")).last_status == "partial"
        assert [view.name for view in await app.jobs(last_status=["failed", "partial"])] == ["nightly"]
        page = text_of(await pages.get("jobs?search=nightly"))
        assert "last run partial" in page
        assert " 0 % " in page, "of its runs; eight of its nine tenants completed"
        assert "nightly" in text_of(await pages.get("")).partition("Jobs whose last run failed")[2]
        assert "waiting for" not in text_of(await pages.get("jobs?search=slow")), "it has only just been due"
        monkeypatch.setattr(views, "WAITS", timedelta(0))
        assert "1 waiting for " in text_of(await pages.get("jobs?search=slow"))
    await app.close()
