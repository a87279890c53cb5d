"""Which windows a schedule asks for: over days of 23 and 25 hours, and when the schedule was changed in between."""

from __future__ import annotations

import os
import random
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mainspring import Hours, Mainspring, every
from mainspring.core.rules import job_commands, ticks
from mainspring.core.rules.timing_history import expected, revision, timing_periods
from mainspring.model.job import Job, JobSpec, encode_spec
from mainspring.model.store.entries import Entry
from mainspring.model.time.instants import Micros, to_datetime, to_micros
from mainspring.model.triggers import Trigger, cron, encode_trigger
from mainspring.model.windows import encode_window_spec, offset, window_spec
from mainspring.testing import harness
from tests.time.walls import near_changes

FULL = bool(os.environ.get("TIME_FULL"))

HOUR = 3_600 * 1_000_000
DAY = 24 * HOUR
zones = st.sampled_from(
    ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "America/Santiago"]
)
moments = st.datetimes(datetime(2024, 1, 3), datetime(2027, 12, 1)).map(lambda at: at.replace(tzinfo=UTC))
TRIGGERS = ["0 3 * * *", "30 2 * * *", "15 * * * *", "*/20 * * * *", "0 6 * * 1", "0 1 1 * *", "0 0 * * *"]
WINDOWS = ["previous_hour", "previous_day", "previous_week", "previous_month", "today", "since_previous_tick"]
schedules = st.sampled_from(TRIGGERS).map(cron) | st.sampled_from([every(minutes=50), every(hours=7)])
windows = st.sampled_from(WINDOWS) | st.just(offset("2h", "1h"))


def job(trigger: Trigger | None, window: Any, tz: str = "UTC", anchor: Micros = 0) -> Job:
    spec = JobSpec(
        handler="h",
        tz=tz,
        trigger=None if trigger is None else encode_trigger(trigger),
        window=None if window is None else encode_window_spec(window_spec(window)),
    )
    return Job(name="j", id="i", version=1, declared=encode_spec(spec), anchor=anchor, created=anchor)


def asked(begin: Micros, end: Micros, now: Micros, present: Job, *revisions: Entry) -> list[tuple[Micros, Micros]]:
    found = expected(timing_periods(present, revisions), begin, end, now)
    return [window for window in found if window is not None]


def instants(*texts: str) -> list[Micros]:
    return [to_micros(datetime.fromisoformat(text).replace(tzinfo=UTC)) for text in texts]


@pytest.mark.req("WIN-3", "WIN-6")
@given(schedules, windows, zones, moments, st.integers(1, 40))
@settings(max_examples=1_500 if FULL else 60)
@example(cron("30 2 * * *"), "previous_day", "Europe/Berlin", datetime(2026, 3, 28, tzinfo=UTC), 3)
@example(cron("30 2 * * *"), "previous_day", "Europe/Berlin", datetime(2026, 10, 24, tzinfo=UTC), 3)
@example(cron("15 * * * *"), "previous_hour", "Australia/Lord_Howe", datetime(2026, 4, 4, tzinfo=UTC), 3)
def test_what_is_asked_for_is_what_the_ticks_make(trigger, window, zone, at, days):
    """Tick by tick, through the function that the scheduler itself uses."""
    begin = to_micros(near_changes(zone, at))
    end, now = begin + days * DAY, begin + (days + 40) * DAY
    present = job(trigger, window, zone)
    slow = []
    for tick in present.trigger.ticks(to_datetime(begin) - timedelta(days=1), to_datetime(now)):
        made = ticks.window_at(present, to_micros(tick))
        if begin <= made[0] < made[1] <= end and made not in slow[-3:]:
            slow.append(made)
    assert asked(begin, end, now, present) == slow


@pytest.mark.req("WIN-3")
@given(st.sampled_from(WINDOWS[:4]), zones, moments)
@settings(max_examples=500 if FULL else 50)
def test_calendar_windows_of_a_job_without_a_trigger_touch_without_gap_or_overlap(window, zone, at):
    begin = to_micros(near_changes(zone, at))
    found = asked(begin, begin + 100 * DAY, begin + 200 * DAY, job(None, window, zone))
    assert found
    assert [earlier[1] for earlier, _ in pairwise(found)] == [later[0] for _, later in pairwise(found)]
    hours = {round((last - first) / HOUR, 1) for first, last in found}
    allowed = {"previous_hour": {0.5, 1.0, 1.5, 2.0}, "previous_day": {23.0, 23.5, 24.0, 24.5, 25.0}}
    assert hours <= allowed.get(window, hours)


@pytest.mark.req("WIN-3")
def test_days_of_23_and_25_hours() -> None:
    (begin, end), present = instants("2026-01-01", "2027-01-01"), job(cron("0 3 * * *"), "yesterday", "Europe/Berlin")
    found = asked(begin, end, end + DAY, present)
    spans = [(last - first) // HOUR for first, last in found]
    assert (spans.count(23), spans.count(25), spans.count(24)) == (1, 1, len(found) - 2)
    berlin = ZoneInfo("Europe/Berlin")
    assert {to_datetime(first).astimezone(berlin).hour for first, _ in found} == {0}


@pytest.mark.req("WIN-6")
def test_a_window_whose_tick_is_in_the_future_is_not_asked_for_yet() -> None:
    begin, end, before, after = instants("2026-03-01", "2026-03-03", "2026-03-03T02:59", "2026-03-03T03:00")
    present = job(cron("0 3 * * *"), "yesterday")
    assert len(asked(begin, end, before, present)) == 1
    assert len(asked(begin, end, after, present)) == 2


@pytest.mark.req("WIN-5")
def test_in_the_era_in_which_the_job_was_daily_its_windows_are_days() -> None:
    begin, changed, end = instants("2026-03-01", "2026-03-04T12:00", "2026-03-06")
    daily, hourly = job(cron("0 3 * * *"), "yesterday"), job(cron("5 * * * *"), "previous_hour")
    kept = revision(daily, hourly, changed)
    found = asked(begin, end, end + DAY, hourly, kept.entry)
    spans = [(last - first) // HOUR for first, last in found]
    assert spans == [24] * 3 + [1] * 37
    assert [found[2][1], found[3][0]] == instants("2026-03-04", "2026-03-04T11:00")


@pytest.mark.req("WIN-6", "WIN-8")
async def test_what_the_hours_of_a_job_leave_out_is_not_asked_for() -> None:
    app = Mainspring("memory://")
    app.calendars.declare("holidays", ["2026-03-10"])
    ran = []

    async def run(ctx) -> None:
        ran.append((ctx.execution.job, to_micros(ctx.window.begin), to_micros(ctx.window.end)))

    office = Hours("09:00-17:00", days="mon-fri", closed="holidays")
    app.job("skips", cron="30 * * * *", window="previous_hour", hours=office, tz="Europe/Berlin")(run)
    app.schedule("rarely", "skips", cron("*/25 * * * *"), window="yesterday", hours=office, tz="Europe/Berlin")
    app.schedule("waits", "skips", cron("0 3 * * *"), window="yesterday", hours=office, outside="wait")
    async with harness(app, start="2026-03-02T00:00Z") as kit:
        await kit.advance("14d")
        for job, days in (("skips", 9 * 8), ("rarely", 9)):
            found = await app.windows(job, "2026-03-01", kit.now)
            assert (found.counts["missing"], len(found)) == (0, days)
            made = dict.fromkeys((begin, end) for name, begin, end in ran if name == job)
            assert [(to_micros(each.window.begin), to_micros(each.window.end)) for each in found] == list(made)
        assert len(await app.windows("waits", "2026-03-01", kit.now)) == 14


@pytest.mark.req("WIN-5")
@given(
    st.lists(st.tuples(schedules, windows, zones), min_size=1, max_size=4), moments, st.integers(1, 2**32), st.data()
)
@settings(max_examples=1_000 if FULL else 60)
def test_changed_schedules(timings, at, seed, data):
    """Each period asks for what it would ask for by itself at its own ticks; a window is asked for once."""
    start, chance = to_micros(at), random.Random(seed)
    jobs = [job(trigger, window, zone, start) for trigger, window, zone in timings]
    changes = sorted(chance.sample(range(1, 30 * 24), len(jobs) - 1))
    kept = []
    for before, after, hour in zip(jobs, jobs[1:], changes, strict=False):
        made = revision(before, after, start + hour * HOUR)
        kept += [] if made is None else [made.entry]
    begin, end = start, start + 30 * DAY
    found = asked(begin, end, end + 40 * DAY, jobs[-1], *kept)
    assert len(found) == len(set(found))
    assert all(begin <= first < last <= end for first, last in found)
    limits = [start - 100 * DAY, *(start + hour * HOUR for hour in changes), end + 40 * DAY]
    for present, after, until in zip(jobs, limits, limits[1:], strict=False):
        sample = data.draw(st.integers(0, 5))
        for tick in list(present.trigger.ticks(to_datetime(max(after, begin)), to_datetime(min(until, end))))[:sample]:
            window = ticks.window_at(present, to_micros(tick))
            assert not begin <= window[0] < window[1] <= end or window in found


@pytest.mark.req("WIN-5")
def test_a_revision_left_by_a_crash_changes_nothing() -> None:
    begin, orphaned, end = instants("2026-03-01", "2026-03-04T12:00", "2026-03-20")
    daily, hourly = job(cron("0 3 * * *"), "yesterday"), job(cron("5 * * * *"), "previous_hour")
    orphan = revision(daily, hourly, orphaned).entry
    assert asked(begin, end, end + DAY, daily, orphan) == asked(begin, end, end + DAY, daily)


def test_what_is_kept_and_what_is_not() -> None:
    daily = job(cron("0 3 * * *"), "yesterday")
    assert revision(daily, daily.with_changes(paused=5, next_run=7, anchor=9), 10) is None, "a calendar has no anchor"
    assert revision(None, daily, 10) is None
    assert revision(job(cron("0 3 * * *"), None), daily, 10) is None, "windows declared later hold for before as well"
    assert revision(daily, job(cron("0 4 * * *"), "yesterday"), 10) is not None
    assert revision(daily, job(cron("0 3 * * *"), "yesterday", "Europe/Berlin"), 10) is not None
    assert revision(daily, job(cron("0 3 * * *"), None), 10) is not None
    assert revision(daily, None, 10) is not None
    counted = job(every(hours=7), "since_previous_tick", anchor=5)
    assert revision(counted, counted.with_changes(anchor=6), 10) is not None
    assert revision(counted, job_commands.pause(counted, 10, by="ada", note=None, resume=None).job, 10) is None


@pytest.mark.req("WIN-5", "WIN-6")
async def test_through_the_application_every_run_is_an_asked_for_window() -> None:
    """A year with edits, a deploy and a removal: what ran and what is asked for are the same windows."""
    app = Mainspring("memory://")
    ran = []

    @app.job("report", cron="0 3 * * *", tz="Europe/Berlin", window="yesterday")
    async def report(ctx) -> None:
        ran.append((to_micros(ctx.window.begin), to_micros(ctx.window.end)))

    async with harness(app, start="2026-03-01T12:00Z") as kit:
        await kit.advance("30d")
        await app.update_job("report", cron="20 */6 * * *", window="since_previous_tick")
        await kit.advance("10d")
        await app.update_job("report", enabled=False)
        await app.update_job("report", enabled=True)
        await app.update_job("report", cron="0 2 * * 1", window="previous_week", tz="America/New_York")
        await kit.advance("40d")
        await app.revert_job("report")
        await kit.advance("5d")
        found = await app.windows("report", to_datetime(min(ran)[0]), kit.now)
        assert found.counts["missing"] == 0
        assert [(to_micros(each.window.begin), to_micros(each.window.end)) for each in found] == ran
        assert {each.state for each in found} == {"done"}
