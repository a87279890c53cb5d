"""What all pages share: logging in and out, roles, themes, keys, and updates that survive a cut of the network."""

from __future__ import annotations

import re
import time

import pytest
from playwright.sync_api import Page, expect

from mainspring.model.values.access import Role
from tests.api.access_support import signed
from tests.browser.chromium import Visitor
from tests.browser.conftest import NewVisitor
from tests.browser.site import Site


def log_in(visitor: Visitor, token: str) -> None:
    page = visitor.open("/dashboard/login")
    page.get_by_label("API token or JWT").fill(token)
    page.get_by_role("button", name="Log in").click()


def live(page: Page, words: str = "Live") -> None:
    """The page says so about its updates."""
    expect(page.locator("#live-state")).to_contain_text(words)


@pytest.mark.req("DSH-2", "SEC-2")
def test_log_in_and_out(new_visitor: NewVisitor, guarded_site: Site) -> None:
    visitor = new_visitor(guarded_site)
    visitor.expect_trouble("401")
    page = visitor.open("/dashboard/locks")
    expect(page).to_have_url(re.compile(r"/dashboard/login\?next="))
    visitor.check_page()
    page.get_by_label("API token or JWT").fill("mainspring_wrong")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_be_visible()

    page.get_by_label("API token or JWT").fill(guarded_site.tokens[Role.OPERATOR])
    page.get_by_role("button", name="Log in").click()
    expect(page).to_have_url(f"{guarded_site.address}/dashboard/locks")
    expect(page.get_by_role("banner")).to_contain_text("test-operator, operator")

    page.get_by_role("button", name="Log out").click()
    expect(page).to_have_url(f"{guarded_site.address}/dashboard/login")
    visitor.open("/dashboard/locks")
    expect(page).to_have_url(re.compile("/dashboard/login"))


@pytest.mark.req("DSH-2", "SEC-2")
def test_log_in_with_a_jwt(new_visitor: NewVisitor, guarded_site: Site) -> None:
    """Its role counts as that of a token does; one that has expired leads back to the login."""
    visitor = new_visitor(guarded_site)
    visitor.expect_trouble("401")
    log_in(visitor, signed(exp=int(time.time()) - 60))
    page = visitor.page
    expect(page.get_by_role("alert")).to_contain_text("expired")
    log_in(visitor, signed(sub="grace", role="viewer"))
    expect(page.get_by_role("banner")).to_contain_text("grace, viewer")
    visitor.open("/dashboard/jobs/daily-report")
    assert not page.get_by_text("Run now", exact=True).first.is_visible()
    page.get_by_role("button", name="Log out").click()
    log_in(visitor, signed(sub="ada", role="admin"))
    visitor.open("/dashboard/jobs/daily-report")
    expect(page.get_by_role("banner")).to_contain_text("ada, admin")
    assert page.get_by_text("Run now", exact=True).first.is_visible()


@pytest.mark.req("DSH-2", "SEC-2")
def test_an_open_page_of_somebody_without_access_leads_to_the_login(
    new_visitor: NewVisitor, guarded_site: Site
) -> None:
    visitor, app = new_visitor(guarded_site), guarded_site.app
    visitor.expect_trouble("401")
    made = guarded_site.call(app.tokens.create("short-lived", "viewer"))
    log_in(visitor, made.text.reveal())
    page = visitor.open("/dashboard/locks")
    live(page)
    guarded_site.call(app.tokens.revoke(made.token.id))
    guarded_site.call(app.enqueue("hourly-totals"))  # a change, after which the page asks for itself again
    expect(page).to_have_url(re.compile("/dashboard/login"))


@pytest.mark.req("DSH-2")
def test_a_viewer_sees_no_action(new_visitor: NewVisitor, guarded_site: Site) -> None:
    """All pages of viewers are read in tests/api/test_dashboard_texts.py."""
    for role, offered in ((Role.OPERATOR, True), (Role.VIEWER, False)):
        visitor = new_visitor(guarded_site)
        log_in(visitor, guarded_site.tokens[role])
        page = visitor.open("/dashboard/jobs/daily-report")
        expect(page.locator("#windows")).to_contain_text("missing")
        assert page.get_by_text("Run now", exact=True).first.is_visible() is offered
        assert page.get_by_text("Fill the holes", exact=True).is_visible() is offered
        visitor.check_page()


@pytest.mark.req("DSH-2")
def test_the_theme_follows_the_system(visitor: Visitor) -> None:
    page = visitor.open("/dashboard/locks")
    colours = []
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        colours.append(sum(map(int, re.findall(r"\d+", background)[:3])))
    light, dark = colours
    assert light > 600 > 200 > dark


@pytest.mark.req("DSH-2")
def test_keys_lead_to_the_search_the_pages_and_the_list_of_keys(visitor: Visitor) -> None:
    page = visitor.open("/dashboard/locks")
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.press("Escape")
    page.locator("body").press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.keyboard.press("g")
    page.keyboard.press("j")
    expect(page).to_have_url(re.compile("/dashboard/jobs$"))


@pytest.mark.req("DSH-1")
def test_a_page_stays_up_to_date_and_survives_a_cut_of_the_network(visitor: Visitor, site: Site) -> None:
    """The clock of the browser runs through the 30 s of the cut at once."""
    visitor.expect_trouble("ERR_INTERNET_DISCONNECTED")
    page = visitor.open("/dashboard/locks")
    live(page)
    _take(site, "seen-live")
    expect(page.get_by_text("seen-live")).to_be_visible()

    page.clock.install()
    visitor.context.set_offline(True)
    _take(site, "taken-meanwhile")
    page.clock.fast_forward(30_000)
    live(page, "Disconnected")
    expect(page.get_by_text("taken-meanwhile")).to_be_hidden()

    visitor.context.set_offline(False)
    page.clock.fast_forward(15_000)
    live(page)
    expect(page.get_by_text("taken-meanwhile")).to_be_visible()


def _take(site: Site, lock: str) -> None:
    """Take a lock, and make a change that open pages learn at once."""
    site.call(site.app.try_lock(lock, ttl="1h"))
    site.call(site.app.enqueue("hourly-totals"))


@pytest.mark.req("DSH-1", "OPS-1")
def test_below_a_prefix_pages_find_their_parts_and_stay_up_to_date(new_visitor: NewVisitor, mounted_site: Site) -> None:
    visitor = new_visitor(mounted_site)
    page = visitor.open("/")
    expect(page).to_have_url(f"{mounted_site.address}/dashboard")
    page.get_by_role("link", name="Jobs", exact=True).click()
    page.get_by_role("link", name="import-catalogue", exact=True).click()
    live(page)
    page.locator("#job-actions summary", has_text="Run now").click()
    page.get_by_role("button", name="Run now").click()
    mounted_site.step(3)
    expect(page.locator("#head h1")).to_contain_text("completed")
    visitor.check_page()


@pytest.mark.req("DSH-1")
def test_what_is_opened_stays_open_when_the_page_is_updated(visitor: Visitor, site: Site) -> None:
    page = visitor.open("/dashboard/jobs/hourly-totals")
    live(page)
    page.locator("#durations summary").click()
    page.locator("h1").click()  # a part of the page with the focus is left as it is
    page.locator("#durations figure").evaluate("figure => { figure.dataset.old = ''; }")
    run = site.call(site.app.trigger("hourly-totals"))
    site.call(site.app.wait(run, timeout=60))
    expect(page.locator("#durations figure[data-old]")).to_have_count(0)
    expect(page.locator("#durations details[open]")).to_have_count(1)


@pytest.mark.req("DSH-1", "DSH-2")
def test_a_refused_form_keeps_its_words_and_its_page_stays_up_to_date(visitor: Visitor, site: Site) -> None:
    visitor.expect_trouble("400", "422")
    page = visitor.open("/dashboard/webhooks/shop-alerts")
    page.get_by_text("Edit", exact=True).click()
    page.get_by_label("Only these jobs").fill("no/such name")
    with page.expect_response(lambda answer: "x-mainspring-live" in answer.request.headers) as asked:
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_role("alert")).to_be_visible()
    assert asked.value.status in (200, 304)
    expect(page.get_by_label("Only these jobs")).to_have_value("no/such name")
    expect(page).to_have_url(f"{site.address}/dashboard/webhooks/shop-alerts")
    live(page)
    visitor.check_page()


@pytest.mark.req("DSH-1")
def test_a_page_without_a_stream_asks_by_itself(visitor: Visitor) -> None:
    visitor.expect_trouble("429")
    visitor.page.route("**/dashboard/live?*", lambda route: route.fulfill(status=429, body="too many streams"))
    live(visitor.open("/dashboard/locks"), "Updated every 15 s")
