"""What operators do, from the page that they open to the end of it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import expect

from tests.browser.application import FAILED_CHARGES, WAITING_MAILS
from tests.browser.chromium import Visitor
from tests.browser.site import Site

FAILED = FAILED_CHARGES + 1
"""One of them was retried before, and failed again."""


@pytest.mark.req("DSH-1", "DSH-2")
def test_find_the_failing_group_and_retry_it_with_a_probe(visitor: Visitor, site: Site) -> None:
    page = visitor.open("/dashboard")
    page.get_by_role("link", name="Errors", exact=True).click()
    page.get_by_role("link", name=re.compile("the bank does not answer")).click()
    expect(page.locator("#traceback")).to_contain_text("charge_card")
    expect(page.locator("#jobs")).to_contain_text("charge-card")
    page.get_by_role("link", name=re.compile("Try 5 first")).click()

    expect(page.get_by_text("nothing has happened yet")).to_be_visible()
    expect(page.get_by_label("Probe")).to_have_value("5")
    page.get_by_label("Note").fill("the bank is back")
    site.shop.bank_is_down = False
    page.get_by_role("button", name=f"Retry {FAILED} executions").click()

    expect(page).to_have_url(re.compile("/dashboard/bulk/"))
    expect(page.locator("#probe")).to_contain_text("All of these completed")
    expect(page.locator("#bulk")).to_contain_text("completed")
    expect(page.get_by_role("progressbar", name=f"{FAILED} of {FAILED}")).to_be_visible()
    expect(page.locator("#about")).to_contain_text("the bank is back")
    visitor.check_page()


@pytest.mark.req("DSH-1", "DSH-2")
def test_pause_a_job_with_a_note_and_resume_it(visitor: Visitor) -> None:
    page = visitor.open("/dashboard/jobs")
    page.get_by_role("link", name="hourly-totals", exact=True).click()
    actions = page.locator("#job-actions")
    actions.get_by_text("Pause", exact=True).click()
    actions.get_by_label("note").fill("the books are being moved")
    actions.get_by_role("button", name="Pause this job").click()

    expect(page.locator(".notice")).to_be_visible()
    expect(page.locator("#job-head")).to_contain_text("paused")
    expect(page.locator("#why")).to_contain_text("the books are being moved")
    visitor.check_page()
    actions.get_by_role("button", name="Resume").click()
    expect(actions.get_by_role("button", name="Resume")).to_be_hidden()
    expect(page.locator("#job-head h1")).not_to_contain_text("paused")


@pytest.mark.req("DSH-1", "DSH-2")
def test_run_a_job_with_parameters_and_follow_it_to_the_end(visitor: Visitor, site: Site) -> None:
    page = visitor.open("/dashboard/jobs/import-catalogue")
    actions = page.locator("#job-actions")
    actions.locator("summary", has_text="Run now").click()
    actions.get_by_label("pages").fill("4")
    actions.get_by_label("supplier").fill("O'Neill <b>& Co</b>")
    visitor.check_page()
    actions.get_by_role("button", name="Run now").click()

    expect(page).to_have_url(re.compile("/dashboard/executions/"))
    expect(page.locator("#head h1")).to_contain_text("running")
    site.step()
    lines = page.get_by_role("log")
    expect(lines).to_contain_text("page 1 of O'Neill <b>& Co</b>")
    expect(page.locator("#progress")).to_contain_text("1 of 4")
    site.step(2)
    expect(lines).to_contain_text("page 3 of")
    expect(page.locator("#progress")).to_contain_text("3 of 4, 75 %")
    site.step()
    expect(page.locator("#head h1")).to_contain_text("completed")
    expect(lines).to_contain_text("page 4 of")
    expect(page.locator("#parameters")).to_contain_text("O'Neill <b>& Co</b>")
    visitor.check_page()


@pytest.mark.req("DSH-1", "DSH-2")
def test_backfill_a_week_and_watch_it(visitor: Visitor, site: Site) -> None:
    today = datetime.now(UTC).date()
    page = visitor.open("/dashboard/jobs/ledger")
    page.get_by_role("link", name="Backfill", exact=True).click()
    page.get_by_label("from").fill(str(today - timedelta(days=9)))
    page.get_by_label("until (exclusive)").fill(str(today - timedelta(days=2)))
    page.get_by_label("how many at once").fill("3")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("#backfill-preview")).to_contain_text("7 windows would run")
    visitor.check_page()
    page.get_by_role("button", name="Start the backfill of 7 windows").click()

    expect(page).to_have_url(re.compile("/dashboard/backfills/"))
    expect(page.locator("#windows .w.running")).to_have_count(4)  # and the one of the legend
    site.step(4)
    expect(page.get_by_role("progressbar", name="4 of 7")).to_be_visible()
    visitor.check_page()
    site.step(3)
    expect(page.get_by_role("progressbar", name="7 of 7")).to_be_visible()
    expect(page.locator("#backfill h1")).to_contain_text("completed")


@pytest.mark.req("DSH-1", "DSH-2")
def test_fill_a_hole_from_the_calendar(visitor: Visitor, site: Site) -> None:
    page = visitor.open("/dashboard/jobs/daily-report")
    begin = datetime.fromisoformat(site.shop.day(4)[0]).replace(tzinfo=ZoneInfo("Europe/Paris")).astimezone(UTC)
    window = f"[data-begin='{begin:%Y-%m-%dT%H:%M:%SZ}']"
    page.locator(f"#windows a.missing{window}").click()
    expect(page.locator("#backfill-preview")).to_contain_text("1 window would run")
    page.get_by_role("button", name="Start the backfill of 1 window").click()
    expect(page.locator("#backfill h1")).to_contain_text("completed")

    page.get_by_role("link", name="daily-report", exact=True).first.click()
    expect(page.locator(f"#windows a.done{window}")).to_be_visible()


@pytest.mark.req("DSH-1", "DSH-2")
def test_cancel_a_running_execution(visitor: Visitor, site: Site) -> None:
    run = site.call(site.app.trigger("import-catalogue", by="ada"))
    page = visitor.open(f"/dashboard/executions/{run.id}")
    expect(page.locator("#head h1")).to_contain_text("running")
    page.locator("#head summary", has_text="Cancel").click()
    page.get_by_label("Reason").fill("wrong supplier")
    page.get_by_role("button", name="Cancel this execution").click()
    expect(page.locator("#head h1")).to_contain_text("cancelled")
    expect(page.locator("#related")).to_contain_text("wrong supplier")
    visitor.check_page()


@pytest.mark.req("DSH-1", "DSH-2")
def test_edit_a_schedule_with_a_preview_and_revert_it(visitor: Visitor) -> None:
    page = visitor.open("/dashboard/jobs/price-update")
    page.get_by_role("link", name="Edit", exact=True).click()
    page.get_by_label("schedule", exact=False).first.fill("15 7 * * MON-FRI")
    expect(page.locator("#schedule-preview")).to_contain_text("07:15")
    expect(page.locator("#schedule-preview tbody tr")).to_have_count(5)
    visitor.check_page()
    page.get_by_label("schedule", exact=False).first.fill("every day")
    expect(page.locator("#schedule-preview .bad-text")).to_be_visible()
    page.get_by_label("schedule", exact=False).first.fill("15 7 * * MON-FRI")
    page.get_by_role("button", name="Save").click()

    expect(page.locator("#schedule")).to_contain_text("15 7 * * MON-FRI")
    difference = page.locator("#difference")
    expect(difference).to_contain_text("30 2 * * *")
    visitor.check_page()
    difference.get_by_role("button", name="Revert to code").click()
    expect(difference).to_contain_text("None: it runs as its code declares it")
    expect(page.locator("#schedule")).to_contain_text("02:30")


@pytest.mark.req("DSH-1")
def test_search_for_an_order(visitor: Visitor) -> None:
    page = visitor.open("/dashboard")
    page.get_by_role("searchbox").fill("order_id=4703")
    page.keyboard.press("Enter")
    rows = page.locator("#executions tbody tr")
    expect(rows.first).to_contain_text("charge-card")
    assert all("4703" in text for text in rows.all_inner_texts())
    rows.first.get_by_role("link").first.click()
    expect(page.locator("#parameters")).to_contain_text('"order_id": 4703')


@pytest.mark.req("DSH-2")
def test_cancel_all_that_match(visitor: Visitor) -> None:
    page = visitor.open("/dashboard/executions")
    page.get_by_label("Job", exact=True).fill("send-mail")
    page.locator("input[name=status][value=pending]").check()
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("#executions")).to_contain_text(f"{WAITING_MAILS} executions")
    visitor.check_page()
    page.locator("#all-that-match summary").click()
    page.get_by_role("link", name="Cancel all that match", exact=True).click()

    expect(page.get_by_text("nothing has happened yet")).to_be_visible()
    page.get_by_role("button", name=f"Cancel {WAITING_MAILS} executions").click()
    expect(page.get_by_role("progressbar", name=f"{WAITING_MAILS} of {WAITING_MAILS}")).to_be_visible()
    expect(page.locator("#bulk h1")).to_contain_text("completed")
    visitor.open("/dashboard/executions?job=send-mail&status=pending")
    expect(page.get_by_text("No execution matches")).to_be_visible()
