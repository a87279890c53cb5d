"""What all pages share: login, forms that other sites cannot send, errors as pages, live updates."""

from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack
from urllib.parse import parse_qs, quote, urlsplit

import pytest

from mainspring import JobContext, Mainspring
from mainspring.server.dashboard import live
from mainspring.server.dashboard.live import LIVE_HEADER, LivePages
from mainspring.server.dashboard.visit import NOTICE
from mainspring.server.stream import Streams
from tests.dashboard.support import ORIGIN, pages_of
from tests.support import until

pytestmark = pytest.mark.req("DSH-2")


async def guarded() -> tuple[Mainspring, dict[str, str]]:
    app = Mainspring("memory://", api_tokens=True)
    tokens = {
        role: (await app.tokens.create(f"{role}-token", role)).text.reveal() for role in ("admin", "operator", "viewer")
    }
    return app, tokens


async def test_a_stranger_logs_in_and_out_and_comes_back_to_the_page_that_was_wanted() -> None:
    app, tokens = await guarded()
    try:
        async with pages_of(app) as browser:
            page = await browser.open("locks", cursor="x")
            assert urlsplit(page.url).path == "/dashboard/login"
            assert parse_qs(urlsplit(page.url).query)["next"] == ["/dashboard/locks?cursor=x"]
            wrong = await browser.press(page, "/login", credential="mainspring_no_such-token")
            assert (wrong.status, "not valid" in wrong.text) == (401, True)
            page = await browser.press(wrong, "/login", credential=tokens["viewer"], next="/dashboard/locks")
            assert (page.status, urlsplit(page.url).path) == (200, "/dashboard/locks")
            assert "viewer-token, viewer" in page.text
            cookie = next(each for each in browser.http.cookies.jar if each.name == "mainspring_session")
            assert cookie.has_nonstandard_attr("HttpOnly")
            assert cookie.get_nonstandard_attr("SameSite") == "lax"
            out = await browser.press(page, "/logout")
            assert urlsplit(out.url).path == "/dashboard/login"
            assert urlsplit((await browser.open("locks")).url).path == "/dashboard/login"
    finally:
        await app.close()


async def test_the_api_does_not_accept_the_cookie_of_the_dashboard() -> None:
    app, tokens = await guarded()
    try:
        async with pages_of(app, credential=tokens["admin"]) as browser:
            assert (await browser.http.get("/dashboard/locks")).status_code == 200
            assert (await browser.http.get("/api/v1/jobs")).status_code == 401
    finally:
        await app.close()


@pytest.mark.parametrize("next", ["https://evil.example/", "//evil.example", "/\\evil.example", "/dashboardx", "x"])
async def test_a_login_never_leads_to_another_site(next: str) -> None:
    app, tokens = await guarded()
    try:
        async with pages_of(app) as browser:
            page = await browser.open("login", next=next)
            data = {**page.forms["/dashboard/login"], "credential": tokens["viewer"]}
            answer = await browser.http.post("/dashboard/login", data=data)
            assert (answer.status_code, answer.headers["location"]) == (303, "/dashboard")
    finally:
        await app.close()


async def test_forms_of_other_sites_are_refused() -> None:
    app = Mainspring("memory://")
    try:
        async with pages_of(app) as browser, app.lock("held", ttl="1m"):
            page = await browser.open("locks")
            good = page.forms["/dashboard/locks/release"]
            own = {"origin": ORIGIN, "sec-fetch-site": "same-origin"}
            for fields, headers in (
                ({**good, "csrf": "0" * 32}, own),
                ({"name": "held"}, own),
                (good, {**own, "sec-fetch-site": "cross-site"}),
                (good, {**own, "sec-fetch-site": "same-site"}),
                (good, {**own, "origin": "https://evil.example"}),
                (good, {**own, "origin": "null"}),
            ):
                answer = await browser.http.post("/dashboard/locks/release", data=fields, headers=headers)
                assert answer.status_code == 403, (fields, headers)
            wrong_type = await browser.http.post("/dashboard/locks/release", json=good, headers=own)
            assert wrong_type.status_code == 415
            assert (await app.locks.all())[0].name == "held"
            assert "was released" in (await browser.press(page, "/release")).text
            assert await app.locks.all() == []
    finally:
        await app.close()


async def test_a_viewer_is_offered_no_action_and_refused_all_the_same() -> None:
    app, tokens = await guarded()
    try:
        async with app.lock("held", ttl="1m"), pages_of(app, credential=tokens["operator"]) as browser:
            page = await browser.open("locks")
            assert "held" in page.text
            assert "/dashboard/locks/release" not in page.forms
            data = {"csrf": page.forms["/dashboard/logout"]["csrf"], "name": "held"}
            answer = await browser.http.post("/dashboard/locks/release", data=data)
            assert answer.status_code == 403
            assert "admin" in answer.text
    finally:
        await app.close()


async def test_errors_are_pages_and_every_page_has_the_headers_that_protect_it() -> None:
    app = Mainspring("memory://")
    try:
        async with pages_of(app) as browser:
            for path, status in (("/nothing-here", 404), ("/locks", 200), ("/login", 200)):
                answer = await browser.http.get(f"/dashboard{path}")
                assert answer.status_code == status
                assert answer.headers["content-type"].startswith("text/html")
                policy = answer.headers["content-security-policy"]
                assert "default-src 'none'" in policy
                assert "unsafe" not in policy
                assert answer.headers["x-frame-options"] == "DENY"
                assert "<script>" not in answer.text
                assert "style=" not in answer.text
    finally:
        await app.close()


@pytest.mark.parametrize(
    ("proxies", "said", "secure"),
    [
        ("127.0.0.1", "https", True),
        ("127.0.0.1", "http", False),
        ("10.0.0.1", "https", False),
        ("127.0.0.1", "", False),
    ],
)
async def test_cookies_are_secure_when_a_trusted_proxy_says_https(proxies: str, said: str, secure: bool) -> None:
    app = Mainspring("memory://", api_tokens=True, trusted_proxies=proxies)
    try:
        async with pages_of(app) as browser:
            headers = {"x-forwarded-proto": said, "x-forwarded-for": "192.0.2.7"}
            answer = await browser.http.get("/dashboard/login", headers=headers)
            assert ("Secure" in answer.headers["set-cookie"]) is secure
    finally:
        await app.close()


async def test_the_search_field_knows_ids_keys_and_names() -> None:
    app = Mainspring("memory://")

    @app.job("crawl")
    async def crawl(ctx: JobContext) -> None: ...

    try:
        async with pages_of(app) as browser:
            id = "0199c1f2-7d5e-7abc-8def-0123456789ab"
            for wanted, to in (
                ("crawl", "/dashboard/jobs/crawl"),
                ("cra", "/dashboard/jobs?search=cra"),
                ("order_id = 47/11", "/dashboard/executions?search=order_id%3D47%2F11"),
                (id.upper(), f"/dashboard/executions/{id}"),
            ):
                answer = await browser.http.get("/dashboard/search", params={"q": wanted})
                assert answer.headers["location"] == to
    finally:
        await app.close()


async def test_the_tail_reads_only_while_a_page_is_open_and_says_when_something_changed() -> None:
    app = Mainspring("memory://")

    @app.job("hello")
    async def hello(ctx: JobContext) -> None: ...

    try:
        engine = await app._runtime.engine()
        pages: LivePages = app.asgi().state.live_pages
        assert not pages.tail.reading
        tabs = [pages.tail.join(engine.queries) for _ in range(20)]
        try:
            await until(lambda: pages.tail.version >= 1)
            await app.enqueue("hello")
            async with asyncio.timeout(10):
                await asyncio.gather(*(tab.event.wait() for tab in tabs))
        finally:
            for tab in tabs:
                pages.tail.leave(tab)
        assert pages.tail.reads < 10
        await until(lambda: not pages.tail.reading)
    finally:
        await app.close()


async def test_an_open_page_is_rendered_once_for_all_its_browsers_and_sent_only_when_it_changed() -> None:
    app = Mainspring("memory://")
    try:
        async with pages_of(app) as browser, app.lock("held", ttl="1m"):
            pages: LivePages = app.asgi().state.live_pages
            await browser.open("locks")
            first = await browser.http.get("/dashboard/locks", headers={LIVE_HEADER: "1"})
            assert "held" in first.text
            again = await browser.http.get(
                "/dashboard/locks", headers={LIVE_HEADER: "1", "if-none-match": first.headers["etag"]}
            )
            assert (again.status_code, again.text) == (304, "")
            async with pages_of(app) as other:
                await other.open("locks")
                shared, _ = await asyncio.gather(
                    *(other.http.get("/dashboard/locks", headers={LIVE_HEADER: "1"}) for _ in range(2))
                )
            assert pages.rendered == 1
            own, others = browser.http.cookies["mainspring_form"], other.http.cookies["mainspring_form"]
            assert own != others
            assert (own in first.text, others in first.text) == (True, False)
            assert (own in shared.text, others in shared.text) == (False, True)
    finally:
        await app.close()


async def test_a_notice_is_shown_once_as_text() -> None:
    app = Mainspring("memory://")
    try:
        async with pages_of(app) as browser, app.lock("<b>&'\"", ttl="1m"):
            page = await browser.press(await browser.open("locks"), "/release")
            assert "Lock <b>&'\" was released." in page.text
            assert "<b>" not in page.html
            assert "released" not in (await browser.open("locks")).text
            assert json.dumps(page.links)
    finally:
        await app.close()


async def test_a_long_notice_still_fits_into_its_cookie() -> None:
    app = Mainspring("memory://")

    @app.job("hello", cron="0 3 * * *")
    async def hello(ctx: JobContext) -> None: ...

    try:
        async with pages_of(app) as browser:
            note = "😀" * 1_000
            await app.pause("hello", note=note)
            page = await browser.press(await browser.open("jobs/hello"), "/resume")
            assert "Job hello runs again." in page.text
            assert "Undo" not in page.text
            refused = await browser.press(
                await browser.open("jobs/hello"), "/pause", note=note, resume_after="💥" * 900
            )
            assert "resume" in refused.text
            assert "💥💥💥" in refused.text
    finally:
        await app.close()


@pytest.mark.parametrize("undo", ["https://evil.example/", "javascript:alert(1)", "/elsewhere", 7])
async def test_an_undo_never_leads_to_another_site(undo: object) -> None:
    app = Mainspring("memory://")
    try:
        async with pages_of(app) as browser:
            cookie = quote(json.dumps({"text": "Done.", "kind": "ok", "undo": undo, "fields": {}}))
            answer = await browser.http.get("/dashboard/locks", headers={"cookie": f"{NOTICE}={cookie}"})
            assert (answer.status_code, "Undo" in answer.text) == (200, False)
    finally:
        await app.close()


async def test_a_form_leads_back_to_its_page_behind_a_proxy_that_takes_https_off() -> None:
    app = Mainspring("memory://")
    try:
        async with pages_of(app) as browser:
            page = await browser.open("queues/mail")
            data, headers = (
                page.forms["/dashboard/queues/mail/pause"],
                {"referer": "https://localhost/dashboard/queues/mail"},
            )
            answer = await browser.http.post("/dashboard/queues/mail/pause", data=data, headers=headers)
            assert answer.headers["location"] == "/dashboard/queues/mail"
            for foreign in (
                "https://evil.example/dashboard/queues",
                "x://localhost/dashboard",
                "https://localhost.evil",
            ):
                answer = await browser.http.post(
                    "/dashboard/queues/mail/pause", data=data, headers={"referer": foreign}
                )
                assert answer.headers["location"] == "/dashboard"
    finally:
        await app.close()


async def test_what_users_write_is_never_taken_for_the_token_of_a_form() -> None:
    app = Mainspring("memory://")
    try:
        async with pages_of(app) as browser, app.lock("@@form-token@@", ttl="1m"):
            assert "@@form-token@@" in (await browser.open("locks")).text
    finally:
        await app.close()


async def test_a_session_that_has_ended_is_forgotten_so_that_open_pages_are_no_failed_logins() -> None:
    app = Mainspring("memory://", api_tokens=True, failed_logins_per_minute=3)
    try:
        async with pages_of(app) as browser:
            browser.http.cookies.set("mainspring_session", "mainspring_revoked", domain="localhost.local")
            seen = [await browser.http.get("/dashboard/locks", headers={"accept": "*/*"}) for _ in range(6)]
            assert [each.status_code for each in seen] == [401] * 6
            assert "mainspring_session" not in browser.http.cookies
            assert urlsplit((await browser.open("locks")).url).path == "/dashboard/login"
    finally:
        await app.close()


async def test_where_nobody_logs_in_the_session_of_another_application_on_this_machine_does_no_harm() -> None:
    app = Mainspring("memory://")
    try:
        async with pages_of(app) as browser:
            browser.http.cookies.set("mainspring_session", "mainspring_of_another_port")
            assert (await browser.open("locks")).status == 200
    finally:
        await app.close()


@pytest.mark.parametrize("name", ["  held ", "50%41", "a+b/ü"])
async def test_a_lock_of_any_name_is_released(name: str) -> None:
    app = Mainspring("memory://")
    try:
        async with pages_of(app) as browser, app.lock(name, ttl="1m"):
            page = await browser.press(await browser.open("locks"), "/release")
            assert "was released" in page.text
            assert await app.locks.all() == []
    finally:
        await app.close()


async def test_one_viewer_leaves_streams_for_others() -> None:
    app, tokens = await guarded()
    streams: Streams = app.asgi().state.streams
    try:
        async with pages_of(app, credential=tokens["viewer"]) as browser:
            token = next(each for each in await app.tokens.all() if each.name == "viewer-token")
            with ExitStack() as held:
                for _ in range(streams.most_of_one):
                    held.enter_context(streams.holding(f"token:viewer-token/{token.id}"))
                answer = await browser.http.get("/dashboard/live")
                assert (answer.status_code, answer.headers["retry-after"]) == (429, "30")
                assert f"{streams.most_of_one} streams open" in answer.text
                async with pages_of(app, credential=tokens["operator"]) as other:
                    following = asyncio.create_task(other.http.get("/dashboard/live"))
                    await until(lambda: streams.open > streams.most_of_one)
                    streams.close()
                    assert (await following).status_code == 200
            assert streams.open == 0
    finally:
        await app.close()


async def test_where_nobody_logs_in_streams_are_counted_by_address() -> None:
    app = Mainspring("memory://")
    streams: Streams = app.asgi().state.streams
    try:
        async with pages_of(app) as browser:
            with ExitStack() as held:
                for _ in range(streams.most_of_one):
                    held.enter_context(streams.holding("127.0.0.1"))
                assert (await browser.http.get("/dashboard/live")).status_code == 429
    finally:
        await app.close()


async def test_commands_that_touch_no_execution_reach_open_pages_within_two_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live, "TAIL_EVERY", 0.1)
    app = Mainspring("memory://")

    @app.job("hello", cron="0 3 * * *")
    async def hello(ctx: JobContext) -> None: ...

    try:
        engine = await app._runtime.engine()
        await engine.queries.named(["hello"])
        tail = app.asgi().state.live_pages.tail
        tab = tail.join(engine.queries)
        try:
            for command in (
                lambda: app.pause("hello"),
                lambda: app.update_job("hello", priority=3),
                lambda: app.queues.pause("mail"),
                lambda: app.webhooks.create("https://example.com/hook", id="alerts"),
                lambda: app.webhooks.disable("alerts"),
            ):
                calm = tail.reads + 3
                await until(lambda least=calm: tail.reads >= least)  # what came before has been noticed
                version, reads = tail.version, tail.reads
                await command()
                await until(lambda seen=version: tail.version > seen)
                assert tail.reads <= reads + 3  # one may have been under way
        finally:
            tail.leave(tab)
    finally:
        await app.close()
