"""Forms that are refused come back with the error and with everything that was typed in them, without any script."""

from __future__ import annotations

import pytest

from mainspring import JobContext, Mainspring
from mainspring.server.dashboard.forms import Form
from mainspring.server.dashboard.refusals import shown_again
from tests.dashboard.support import ORIGIN, Page, Pages, pages_of

pytestmark = pytest.mark.req("DSH-2")


def _app() -> Mainspring:
    app = Mainspring("memory://")

    @app.job("mail", cron="0 3 * * *")
    async def mail(ctx: JobContext, to: str = "ada", count: int = 1) -> None: ...

    return app


async def _refuse(pages: Pages, path: str, action: str, **fields: str) -> Page:
    page = await pages.press(await pages.open(path), action, **fields)
    assert 400 <= page.status < 500, (page.status, page.text)
    return page


@pytest.mark.parametrize(
    ("path", "action", "fields", "why"),
    [
        ("jobs/mail", "/trigger", {"param.to": "<ada> & 'co'", "param.count": "many"}, "params.count"),
        ("jobs/mail", "/pause", {"note": 'the "bank"', "resume_at": "2001-01-01T10:00"}, "resume_at"),
        ("queues/mail", "/limit", {"concurrency": "many", "rate": "5/s"}, "whole number"),
        ("queues", "/mail/pause", {"note": "why", "resume_after": "4h", "resume_at": "2001-01-01T10:00"}, "resume"),
    ],
)
async def test_a_refused_popup_is_open_and_has_what_was_typed(
    path: str, action: str, fields: dict[str, str], why: str
) -> None:
    app = _app()
    try:
        async with pages_of(app) as pages:
            await app.queues.limit("mail", concurrency=5)
            page = await _refuse(pages, path, action, **fields)
            assert why in page.text
            [url] = [each for each in page.opened if each.endswith(action)]
            assert fields.items() <= page.forms[url].items()
            assert 'role="alert"' in page.html
    finally:
        await app.close()


async def test_a_refused_page_says_where_it_is_so_that_its_forms_and_updates_go_on() -> None:
    """The address of such a page can only be sent to."""
    app = _app()
    try:
        async with pages_of(app) as pages:
            once = await _refuse(pages, "queues/mail", "/mail/limit", concurrency="many")
            assert once.url.endswith("/queues/mail/limit")
            assert once.body["data-page"] == "/dashboard/queues/mail"
            assert once.body["data-live-stream"].endswith("page=%2Fdashboard%2Fqueues%2Fmail")
            twice = await pages.press(once, "/mail/limit", concurrency="more")
            assert twice.forms["/dashboard/queues/mail/limit"]["concurrency"] == "more"
            done = await pages.press(twice, "/mail/limit", concurrency="3")
            assert (done.status, done.url) == (200, f"{ORIGIN}/dashboard/queues/mail")
            assert "At most 3 run at once" in done.text
    finally:
        await app.close()


async def test_a_refused_edit_of_a_webhook_keeps_everything_but_the_address() -> None:
    app = _app()
    try:
        async with pages_of(app) as pages:
            await app.webhooks.create("https://example.com/hook", id="alerts", events=["job.paused"])
            page = await _refuse(
                pages,
                "webhooks/alerts",
                "/edit",
                url="https://example.com/secret-path",
                jobs="no/such name",
                events="execution.failed",
                tenants="a\nb",
            )
            form = page.forms["/dashboard/webhooks/alerts/edit"]
            assert (form["jobs"], form["events"], form["tenants"]) == ("no/such name", "execution.failed", "a\nb")
            assert (await pages.http.get(page.body["data-page"])).status_code == 200
            assert "secret-path" not in page.html
            assert "/dashboard/webhooks/alerts/edit" in page.opened
    finally:
        await app.close()


async def test_a_form_without_fields_and_one_of_a_page_that_is_gone_leave_a_notice() -> None:
    app = _app()
    try:
        async with pages_of(app) as pages:
            page = await pages.open("jobs/mail")
            for where in (page.url, f"{ORIGIN}/dashboard/jobs/gone", f"{ORIGIN}/dashboard/live"):
                data = {"csrf": page.forms["/dashboard/jobs/mail/delete"]["csrf"]}
                headers = {"Referer": where, "Origin": ORIGIN}
                answer = await pages.http.post("/dashboard/jobs/mail/resume", data=data, headers=headers)
                assert answer.status_code == 303
                assert answer.headers["location"] == where.removeprefix(ORIGIN)
    finally:
        await app.close()


def test_of_several_forms_with_one_address_the_one_that_was_sent_comes_back() -> None:
    row = (
        '<form method="post" action="/move"><input type="hidden" name="at" value="{}"><input name="to" value=""></form>'
    )
    page = f"<body><p>&lt;</p>{row.format(1)}\n<details>{row.format(2)}</details></body>"
    again = shown_again(page, "/page", "/move", Form([("at", "2"), ("to", '">')]), "<no>")
    assert again is not None
    assert "<p>&lt;</p>" in again
    assert (
        '<details open><form method="post" action="/move"><p class="bad-text break" role="alert">&lt;no&gt;</p>'
        in again
    )
    assert 'name="to" value="">' in again.partition("<details")[0]
    assert Page(again).forms["/move"] == {"page": "/page", "at": "2", "to": '">'}
