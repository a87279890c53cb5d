"""What holds for every zone of the database, from 1970 to 2037, and for every policy.

What a daily job should do is worked out here from `zoneinfo` alone. `make time-full` tries many more examples.
"""

from __future__ import annotations

import os
from calendar import isleap
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mainspring.model.triggers import cron, daily_at
from mainspring.model.triggers.cron import rule
from tests.time.walls import DAY, SECOND, instant_of, near_changes, shift_between

EXAMPLES = 5_000 if os.environ.get("TIME_FULL") else 200
MICRO = timedelta(microseconds=1)

zones = st.sampled_from(sorted(available_timezones() - {"localtime"}))
moments = st.datetimes(datetime(1970, 1, 3), datetime(2037, 12, 1)).map(lambda at: at.replace(tzinfo=UTC))
clocks = st.times().map(lambda at: at.replace(microsecond=0))
gaps, overlaps = st.sampled_from(["at_end", "shift", "skip"]), st.sampled_from(["first", "second", "both"])
frequent = st.sampled_from([("* * * * *", 1), ("*/15 * * * *", 15), ("0 * * * *", 60), ("45 */1 * * *", 60)])
fixed = st.sampled_from(["30 2 * * *", "0 0 * * *", "30 1 * * 0", "0 3 1,15 * *", "59 23 L * *", "15,45 0-3 * * *"])
rules = fixed | frequent.map(lambda pair: pair[0]) | st.sampled_from(["0 */6 * * *", "*/20 1-2 * * *", "10 5 0 * * *"])


@given(rules, zones, moments, gaps, overlaps, st.booleans())
@settings(max_examples=EXAMPLES)
@pytest.mark.req("TIM-4")
def test_ticks_increase_and_are_found_again_from_behind(expression, zone, at, gap, overlap, near):
    trigger = cron(expression, tz=zone, gap=gap, overlap=overlap)
    at = near_changes(zone, at) if near else at
    ticks = [at := trigger.next_after(at) for _ in range(8)]
    for earlier, later in pairwise(ticks):
        assert earlier < later
        assert trigger.next_after(trigger.previous(later - MICRO)) == later
        assert trigger.previous(trigger.next_after(earlier)) == later
        assert trigger.previous(later - MICRO) == earlier


@given(rules, zones, moments)
@settings(max_examples=EXAMPLES)
@pytest.mark.req("TIM-4")
def test_what_the_clock_shows_at_a_tick_is_what_was_asked_for_or_the_end_of_a_gap(expression, zone, at):
    parsed, where, at = rule(expression), ZoneInfo(zone), near_changes(zone, at)
    for tick in cron(expression, tz=zone).ticks(at, at + 4 * DAY, limit=400):
        wall = tick.astimezone(where).replace(tzinfo=None, fold=0)
        if parsed.until(wall) == wall:
            continue
        assert not parsed.wildcard
        before = tick - SECOND
        skipped_from = before.astimezone(where).replace(tzinfo=None, fold=0) + SECOND
        assert skipped_from <= parsed.after(skipped_from - SECOND) < wall


@given(zones, st.dates(date(1970, 1, 3), date(2036, 12, 1)), clocks)
@example("Pacific/Apia", date(2011, 1, 1), time(9))  # 30 December is missing
@example("Pacific/Kwajalein", date(1993, 1, 1), time(12))  # 21 August is missing
@example("America/St_Johns", date(2007, 1, 1), time(0, 0, 30))  # comes twice, on the evening of the change
@example("America/Santiago", date(2026, 1, 1), time(0, 30))
@example("Australia/Lord_Howe", date(2026, 1, 1), time(2, 15))
@example("Antarctica/Troll", date(2026, 1, 1), time(1))
@example("Africa/Monrovia", date(1971, 12, 1), time(0, 20))  # 44 minutes and 30 seconds
@settings(max_examples=EXAMPLES)
@pytest.mark.req("TIM-4")
def test_a_daily_job_runs_once_for_every_local_date(zone, first, clock):
    """Also where its time was skipped, then at the end of the gap; what falls on one instant is one run."""
    where, days = ZoneInfo(zone), 380
    expected = {instant_of(where, datetime.combine(first + n * DAY, clock)) for n in range(days)}
    begin, end = min(expected), max(expected)
    assert list(daily_at(clock, zone).ticks(begin - MICRO, end)) == sorted(expected)
    assert len(expected) >= days - 1


@given(zones, st.dates(date(1971, 1, 1), date(2010, 12, 31)), clocks)
@example("Pacific/Kiritimati", date(2000, 1, 1), time(0))  # still the old year by UTC
@example("Pacific/Niue", date(2000, 12, 31), time(23, 59, 59))  # already the new one
@example("Europe/Berlin", date(1980, 2, 29), time(12))
@settings(max_examples=EXAMPLES)
@pytest.mark.req("TIM-4")
def test_a_yearly_job_runs_once_a_year_wherever_the_year_ends(zone, day, clock):
    where, trigger = ZoneInfo(zone), cron(f"{clock:%S %M %H} {day.day} {day.month} *", tz=zone)
    days = [date(year, day.month, day.day) for year in range(day.year, day.year + 27) if not is_no_day(year, day)]
    expected = [instant_of(where, datetime.combine(each, clock)) for each in days]
    assert list(trigger.ticks(expected[0] - MICRO, expected[-1])) == expected
    for earlier, later in pairwise(expected):
        assert trigger.previous(later - MICRO) == earlier


def is_no_day(year: int, day: date) -> bool:
    return (day.month, day.day) == (2, 29) and not isleap(year)


@given(zones, moments, frequent)
@settings(max_examples=EXAMPLES)
@pytest.mark.req("TIM-4")
def test_there_is_no_hole_in_a_frequent_job(zone, at, rule_and_period):
    expression, minutes = rule_and_period
    check_holes(cron(expression, tz=zone), zone, near_changes(zone, at), timedelta(minutes=minutes), 3 * DAY)


@given(zones, moments, clocks, st.sampled_from(["at_end", "shift"]), overlaps)
@settings(max_examples=EXAMPLES)
@pytest.mark.req("TIM-4")
def test_there_is_no_hole_in_a_daily_job(zone, at, clock, gap, overlap):
    trigger = cron(f"{clock.second} {clock.minute} {clock.hour} * * *", tz=zone, gap=gap, overlap=overlap)
    check_holes(trigger, zone, near_changes(zone, at), DAY, 6 * DAY)


def check_holes(trigger, zone: str, begin: datetime, period: timedelta, span: timedelta) -> None:
    for earlier, later in pairwise(trigger.ticks(begin, begin + span, limit=500)):
        assert later - earlier <= period + shift_between(zone, earlier, later), (earlier, later)
