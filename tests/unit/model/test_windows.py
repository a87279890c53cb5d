"""Data windows: half-open, in the job's zone, right on days of 23 and 25 hours, touching without gap or overlap."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from zoneinfo import available_timezones

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.model.errors import InvalidValue
from mainspring.model.windows import (
    Limited,
    Offset,
    Window,
    caller_window,
    custom_window,
    encode_window_spec,
    limited,
    offset,
    resolve,
    window_spec,
    window_words,
)

HOUR = timedelta(hours=1)
moments = st.datetimes(datetime(1971, 1, 1), datetime(2037, 12, 1)).map(lambda at: at.replace(tzinfo=UTC))
zone_names = st.sampled_from(sorted(name for name in available_timezones() if "/" in name))


def at(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.req("WIN-3")
@pytest.mark.parametrize(
    ("spec", "begin", "end"),
    [
        ("previous_hour", "2026-05-13T13:00", "2026-05-13T14:00"),
        ("previous_day", "2026-05-12T00:00", "2026-05-13T00:00"),
        ("yesterday", "2026-05-12T00:00", "2026-05-13T00:00"),
        ("today", "2026-05-13T00:00", "2026-05-14T00:00"),
        ("0_days_ago", "2026-05-13T00:00", "2026-05-14T00:00"),
        ("1_days_ago", "2026-05-12T00:00", "2026-05-13T00:00"),
        ("2_days_ago", "2026-05-11T00:00", "2026-05-12T00:00"),
        ("365_days_ago", "2025-05-13T00:00", "2025-05-14T00:00"),
        ("previous_week", "2026-05-04T00:00", "2026-05-11T00:00"),
        ("previous_month", "2026-04-01T00:00", "2026-05-01T00:00"),
        ("since_previous_tick", "2026-05-13T14:00", "2026-05-13T14:35:10"),
        (offset("2h", "1h"), "2026-05-13T12:35:10", "2026-05-13T13:35:10"),
        (offset("90m"), "2026-05-13T13:05:10", "2026-05-13T14:35:10"),
        ({"offset": ["2h", "1h"]}, "2026-05-13T12:35:10", "2026-05-13T13:35:10"),
    ],
)
def test_windows_in_utc(spec, begin, end):
    found = resolve(spec, at("2026-05-13T14:35:10"), "UTC", at("2026-05-13T14:00"))
    assert found == Window(at(begin), at(end))


@pytest.mark.req("WIN-3")
def test_a_tick_on_the_boundary_covers_what_has_just_ended():
    assert resolve("previous_hour", at("2026-05-13T14:00")) == Window(at("2026-05-13T13:00"), at("2026-05-13T14:00"))
    assert resolve("yesterday", at("2026-05-13T00:00")) == Window(at("2026-05-12T00:00"), at("2026-05-13T00:00"))
    assert resolve("today", at("2026-05-13T00:00")) == Window(at("2026-05-13T00:00"), at("2026-05-14T00:00"))


@pytest.mark.req("WIN-3")
@pytest.mark.parametrize(
    ("zone", "tick", "hours"),
    [
        ("America/New_York", "2026-03-09T12:00", 23),
        ("America/New_York", "2026-11-02T12:00", 25),
        ("Australia/Lord_Howe", "2026-10-04T20:00", 23.5),
        ("Australia/Lord_Howe", "2026-04-05T20:00", 24.5),
        ("America/Santiago", "2026-09-07T12:00", 23),
        ("America/Havana", "2024-11-04T12:00", 25),
        ("Europe/Istanbul", "2026-03-30T12:00", 24),
    ],
)
def test_days_have_the_hours_their_clock_says(zone, tick, hours):
    assert resolve("yesterday", at(tick), zone).span == timedelta(hours=hours)


@pytest.mark.req("WIN-3")
def test_the_zone_of_the_job_decides_the_day():
    found = resolve("yesterday", at("2026-05-12T23:00"), "Europe/Istanbul")
    assert found == Window(at("2026-05-11T21:00"), at("2026-05-12T21:00"))


@pytest.mark.req("WIN-3")
def test_the_missing_day_of_apia_is_no_window():
    found = resolve("yesterday", at("2011-12-31T00:00"), "Pacific/Apia")  # 14:00 on the 31st there
    assert found == Window(at("2011-12-29T10:00"), at("2011-12-30T10:00"))
    assert found.span == timedelta(days=1)


@pytest.mark.req("WIN-3")
def test_hours_of_an_overlap_are_two_windows():
    zone = "America/New_York"
    first, second = (
        resolve("previous_hour", at("2026-11-01T06:00"), zone),
        resolve("previous_hour", at("2026-11-01T07:00"), zone),
    )
    assert (first.begin, first.end) == (at("2026-11-01T05:00"), at("2026-11-01T06:00"))
    assert (second.begin, second.end) == (at("2026-11-01T06:00"), at("2026-11-01T07:00"))


@given(zone_names, moments, st.sampled_from(["previous_hour", "previous_day", "previous_week", "previous_month"]))
@pytest.mark.req("WIN-3")
def test_windows_touch(zone, tick, spec):
    """The window of a tick at the end of one window is that window; the one before it ends where it begins."""
    window = resolve(spec, tick, zone)
    assert window.begin < window.end <= tick
    assert resolve(spec, window.end, zone) == window
    assert resolve(spec, window.begin, zone).end == window.begin
    assert tick in resolve("today", tick, zone)


@pytest.mark.req("WIN-3")
def test_without_a_previous_tick_the_window_is_empty():
    found = resolve("since_previous_tick", at("2026-05-13T14:00"), "UTC", None)
    assert found.empty
    assert found.end_inclusive == found.begin


@pytest.mark.req("WIN-3", "WIN-7")
def test_window_helpers():
    day = Window(at("2026-01-01T00:00"), at("2026-01-02T00:00"))
    assert day.end_inclusive == at("2026-01-01T23:59:59.999999")
    assert day.key() == "2026-01-01T00:00:00Z/2026-01-02T00:00:00Z"
    assert day.begin in day
    assert day.end not in day
    assert Window(at("2026-01-01T00:00:00.000001"), day.end).key().startswith("2026-01-01T00:00:00.000001Z/")
    assert msgspec.convert(msgspec.to_builtins(day), Window) == day


def test_equal_windows_have_equal_keys_whatever_their_zone():
    here = custom_window("2026-01-01T03:00:00+03:00", "2026-01-02T03:00:00+03:00")
    assert here.key() == custom_window("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z").key()
    assert here.begin.tzinfo is UTC


@pytest.mark.req("WIN-4")
def test_a_callers_window_is_checked():
    zone = "Europe/Istanbul"
    assert custom_window("2026-01-01", "2026-01-02", tz=zone) == Window(at("2025-12-31T21:00"), at("2026-01-01T21:00"))
    for begin, end, field in [
        ("2026-01-02", "2026-01-01", "window.end"),
        ("2026-01-01", "2026-01-01", "window.end"),
        ("soon", "2026-01-01", "window.begin"),
    ]:
        with pytest.raises(InvalidValue) as caught:
            custom_window(begin, end, tz=zone)
        assert caught.value.field == field
    with pytest.raises(InvalidValue, match="at most 1d"):
        custom_window("2026-01-01", "2026-01-03", tz=zone, max_span="1d")
    with pytest.raises(InvalidValue, match="time zone"):
        custom_window("2026-01-01", "2026-01-02")


@pytest.mark.req("WIN-4", "WIN-3")
def test_the_longest_span_follows_the_wall_clock():
    """A day is a day, of 25 hours or of 23; an hour more or less is not."""
    zone = "America/New_York"
    for day, after, hours in [("2026-11-01", "2026-11-02", 25), ("2026-03-08", "2026-03-09", 23)]:
        assert custom_window(day, after, tz=zone, max_span="1d").span == timedelta(hours=hours)
    with pytest.raises(InvalidValue, match="at most 1d"):
        custom_window("2026-11-01", "2026-11-02T01:00", tz=zone, max_span="1d")
    assert custom_window("2026-03-07T12:00", "2026-03-08T13:00", tz=zone, max_span="1d").span == timedelta(days=1)
    with pytest.raises(InvalidValue, match="at most 1d"):
        custom_window("2026-03-07T12:00", "2026-03-08T13:00:01", tz=zone, max_span="1d")


@pytest.mark.req("WIN-4")
@pytest.mark.parametrize(
    ("align", "begin", "end", "wrong"),
    [
        ("hour", "2026-05-13T05:30:00Z", "2026-05-13T06:30:00Z", None),  # half past by UTC is the full hour there
        ("hour", "2026-05-13T05:00:00Z", "2026-05-13T06:30:00Z", "window.begin"),
        ("day", "2026-05-13", "2026-05-15", None),
        ("day", "2026-05-13", "2026-05-15T12:00", "window.end"),
        ("week", "2026-05-11", "2026-05-18", None),
        ("week", "2026-05-12", "2026-05-18", "window.begin"),
        ("month", "2026-05-01", "2026-07-01", None),
        ("month", "2026-05-01", "2026-06-30", "window.end"),
    ],
)
def test_a_callers_window_may_have_to_be_aligned(align, begin, end, wrong):
    if wrong is None:
        assert custom_window(begin, end, tz="Asia/Kolkata", align=align) == custom_window(begin, end, tz="Asia/Kolkata")
        return
    with pytest.raises(InvalidValue, match=f"whole {align}. Nearest are ") as caught:
        custom_window(begin, end, tz="Asia/Kolkata", align=align)
    assert caught.value.field == wrong


@pytest.mark.req("WIN-4")
def test_a_midnight_that_does_not_exist_is_where_the_day_begins():
    day = custom_window("2026-09-06", "2026-09-07", tz="America/Santiago", align="day", max_span="1d")
    assert day.span == timedelta(hours=23)


@pytest.mark.req("WIN-4")
def test_a_job_may_limit_the_windows_of_its_callers():
    spec = limited("yesterday", max_span="2d", align="day")
    assert resolve(spec, at("2026-05-13T14:00")) == resolve("yesterday", at("2026-05-13T14:00"))
    for known in (spec, encode_window_spec(spec)):
        assert caller_window(known, "2026-05-01", "2026-05-03", tz="UTC").span == timedelta(days=2)
        with pytest.raises(InvalidValue, match="at most 2d"):
            caller_window(known, "2026-05-01", "2026-05-04", tz="UTC")
        with pytest.raises(InvalidValue, match="whole day"):
            caller_window(known, "2026-05-01", "2026-05-02T01:00", tz="UTC")
    for free in (None, "yesterday", offset("2h")):
        assert caller_window(free, "2026-05-01T01:00", "2026-06-04", tz="UTC").span > timedelta(days=30)


def test_a_window_never_runs_backwards():
    with pytest.raises(InvalidValue, match="window"):
        Window(at("2026-01-02T00:00"), at("2026-01-01T00:00"))
    with pytest.raises(InvalidValue, match="aware"):
        Window(datetime(2026, 1, 1), datetime(2026, 1, 2))


@pytest.mark.parametrize(
    "spec",
    [
        "yesterday",
        "today",
        "since_previous_tick",
        "previous_month",
        offset("2h", "1h"),
        offset(0.25),
        limited("today", max_span="1h30m", align="hour"),
        limited(offset("2h", "1h"), max_span=90),
        limited("previous_week"),
    ],
)
@pytest.mark.req("WIN-3")
def test_specs_round_trip_through_json(spec):
    known = window_spec(spec)
    assert window_spec(json.loads(json.dumps(encode_window_spec(known)))) == known
    assert isinstance(known, str | Offset | Limited)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("yesterday", "previous_day"),
        (offset("2h"), "from 2h before the tick to it"),
        (offset("2h", "30m"), "from 2h to 30m before the tick"),
        (limited("today", max_span="2d", align="day"), "today; from callers at most 2d, whole days"),
        (limited("today", align="month"), "today; from callers whole months"),
        (limited("today"), "today"),
    ],
)
def test_specs_in_words(spec, words):
    assert window_words(spec) == words
    assert window_words(encode_window_spec(window_spec(spec))) == words


@pytest.mark.req("REG-11")
@pytest.mark.parametrize(
    "spec",
    [
        *[
            "tomorrow",
            "",
            None,
            5,
            {},
            {"offset": []},
            {"offset": "2h"},
            {"offset": ["1h", "2h"]},
            {"offset": [1, 2, 3]},
        ],
        *[{"window": "today", "align": "year"}, {"window": "today", "max_span": "long"}, {"window": "tomorrow"}],
        *[{"window": {"window": "today"}}, {"window": "today", "least_span": 5}],
    ],
)
def test_bad_specs(spec):
    with pytest.raises(InvalidValue, match="window"):
        window_spec(spec)


def test_bad_specs_get_a_suggestion():
    with pytest.raises(InvalidValue, match="Did you mean 'yesterday'"):
        window_spec("yesterdy")
    with pytest.raises(InvalidValue, match="further back"):
        Offset(1.0, 2.0)


def test_a_tick_outside_the_calendar_is_refused():
    with pytest.raises(InvalidValue, match="tick"):
        resolve("yesterday", datetime.min.replace(tzinfo=UTC), "Asia/Tokyo")
