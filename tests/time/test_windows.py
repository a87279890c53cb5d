"""Windows in every zone, from 1970 to 2037: they tile real time, whatever the clocks do. Worked out by `zoneinfo`."""

from __future__ import annotations

import copy
import os
import pickle
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo, available_timezones

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mainspring.model.triggers import daily_at
from mainspring.model.windows import Window, resolve
from tests.time.walls import DAY, instant_of, near_changes

EXAMPLES = 3_000 if os.environ.get("TIME_FULL") else 200
MICRO = timedelta(microseconds=1)
zones = st.sampled_from(sorted(available_timezones() - {"localtime"}))
moments = st.datetimes(datetime(1970, 3, 3), datetime(2037, 12, 1)).map(lambda at: at.replace(tzinfo=UTC))


def midnight(where: ZoneInfo, day: date) -> datetime:
    return instant_of(where, datetime.combine(day, time()))


def following_midnight(where: ZoneInfo, begin: datetime, day: date) -> datetime:
    """The beginning of the next date that exists."""
    while midnight(where, day) <= begin:
        day += DAY
    return midnight(where, day)


@given(zones, st.dates(date(1970, 3, 1), date(2037, 6, 1)))
@example("America/New_York", date(2026, 3, 1))
@example("America/New_York", date(2026, 10, 25))
@example("America/St_Johns", date(2007, 3, 9))  # 00:01 becomes 23:01 in autumn
@example("Australia/Lord_Howe", date(2026, 4, 1))
@example("Antarctica/Troll", date(2026, 3, 27))
@example("America/Santiago", date(2026, 9, 4))  # no midnight on the 6th
@example("Africa/Casablanca", date(2026, 2, 13))
@example("Pacific/Apia", date(2011, 12, 27))  # no 30 December
@settings(max_examples=EXAMPLES)
@pytest.mark.req("WIN-3")
def test_days_tile_time_and_have_the_hours_of_their_clock(zone, first):
    where = ZoneInfo(zone)
    for n in range(10):
        day = first + n * DAY
        begin = midnight(where, day)
        end = following_midnight(where, begin, day)
        expected = Window(begin, end)
        for tick in (begin, begin + (end - begin) / 2, end - MICRO):
            assert resolve("today", tick, zone) == expected
        assert resolve("yesterday", end, zone) == expected
        if exists(where, day) and n == 9:
            for ago in (2, 3, 7):
                earlier = resolve(f"{ago}_days_ago", begin + (end - begin) / 2, zone)
                assert not exists(where, day - ago * DAY) or earlier == resolve("today", earlier.begin, zone)
                assert earlier.begin == midnight(where, day - ago * DAY)
        shift = end.astimezone(where).utcoffset() - begin.astimezone(where).utcoffset()
        shown = end.astimezone(where).replace(tzinfo=None) - begin.astimezone(where).replace(tzinfo=None)
        assert expected.span == shown - shift


@given(zones, moments, st.sampled_from(["previous_hour", "previous_day", "previous_week", "previous_month"]))
@settings(max_examples=EXAMPLES)
@pytest.mark.req("WIN-3")
def test_windows_touch_and_hold_what_their_name_says(zone, at, spec):
    tick, where = near_changes(zone, at), ZoneInfo(zone)
    window = resolve(spec, tick, zone)
    assert window.begin < window.end <= tick
    assert resolve(spec, window.end, zone) == window
    assert resolve(spec, window.begin, zone).end == window.begin
    if spec == "previous_hour":
        assert timedelta(minutes=1) <= window.span <= timedelta(hours=2)
        return
    begin = date_of_boundary(where, window.begin)
    if spec == "previous_week":
        assert begin.isoweekday() == 1 or not exists(where, begin)
    if spec == "previous_month":
        assert begin.day == 1


def date_of_boundary(where: ZoneInfo, boundary: datetime) -> date:
    """The local date that begins here."""
    day = (boundary - MICRO).astimezone(where).date()
    while midnight(where, day) != boundary:
        day += DAY
    return day


def exists(where: ZoneInfo, day: date) -> bool:
    return midnight(where, day) != midnight(where, day + DAY)


@given(zones, moments, st.sampled_from(["previous_hour", "previous_day", "today", "previous_month"]))
@example("Europe/Berlin", datetime(2026, 10, 25, 0, 30, tzinfo=UTC), "previous_hour")  # ends in the repeated hour
@example("Europe/Berlin", datetime(2026, 10, 25, 1, 30, tzinfo=UTC), "previous_hour")  # from one pass to the other
@example("Africa/Monrovia", datetime(1971, 3, 1, 12, tzinfo=UTC), "today")  # its offset had seconds
@settings(max_examples=EXAMPLES)
@pytest.mark.req("WIN-3", "WIN-7")
def test_a_window_by_the_clock_of_its_zone_is_the_same_window(zone, at, spec):
    window = resolve(spec, near_changes(zone, at), zone)
    plain = window.in_zone(None)
    assert (window, hash(window), window.key()) == (plain, hash(plain), plain.key())
    assert (window.end - window.begin, window.span) == (plain.span, plain.span), "elapsed, not by the wall clock"
    assert window.begin <= window.end_inclusive < window.end
    for local, instant in ((window.begin, plain.begin), (window.end, plain.end)):
        expected = instant.astimezone(ZoneInfo(zone))
        assert (local, instant) == (instant, local)
        if not expected.utcoffset() % timedelta(minutes=1):
            assert local.isoformat() == expected.isoformat()
        assert msgspec.json.decode(msgspec.json.encode(local), type=datetime) == instant
    assert Window(window.begin, window.end).begin.isoformat() == window.begin.isoformat()
    assert pickle.loads(pickle.dumps(window)) == copy.deepcopy(window) == window


@given(zones, moments, st.times().map(lambda at: at.replace(microsecond=0)))
@settings(max_examples=EXAMPLES)
@pytest.mark.req("WIN-3", "WIN-7")
def test_a_daily_job_since_its_previous_tick_covers_all_time_once(zone, at, clock):
    trigger = daily_at(clock, zone)
    at = near_changes(zone, at)
    windows = [
        resolve("since_previous_tick", tick, zone, trigger.previous(tick - MICRO))
        for tick in trigger.ticks(at, at + 6 * DAY)
    ]
    for earlier, later in pairwise(windows):
        assert earlier.end == later.begin
        assert later.end_inclusive == later.end.astimezone(UTC) - MICRO
    assert len({window.key() for window in windows}) == len(windows)
