"""User values: every accepted form, and a clear refusal for everything else."""

from __future__ import annotations

import contextlib
import math
import warnings
from datetime import UTC, datetime, time, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mainspring.core.declaring.option_values import trigger_of_text
from mainspring.model.errors import InvalidValue
from mainspring.model.time import zones
from mainspring.model.triggers import decode_trigger, every, once
from mainspring.model.values import reading
from mainspring.model.windows import custom_window
from mainspring.testing import FakeClock


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (5, 5.0),
        (0.25, 0.25),
        (timedelta(minutes=1, milliseconds=500), 60.5),
        ("250ms", 0.25),
        ("10m", 600.0),
        ("1h30m", 5400.0),
        ("1h 30m", 5400.0),
        ("2d", 172_800.0),
        ("1w", 604_800.0),
        ("1.5h", 5400.0),
        ("30", 30.0),
        ("10 minutes", 600.0),
    ],
)
def test_durations(value, seconds):
    assert reading.duration("timeout", value) == seconds


@pytest.mark.parametrize(
    "value",
    [
        *(-1, -0.5, math.nan, math.inf, True, None, 0, 10**30, timedelta(seconds=-1), [], b"5s"),
        *("", " ", "soon", "1h1h", "1x", "-5s", "5s later", "1h,30m", "0", "0s", "9" * 400, "9" * 400 + "s", "٣s"),
    ],
)
@pytest.mark.req("REG-11")
def test_durations_refused(value):
    with pytest.raises(InvalidValue) as caught:
        reading.duration("timeout", value)
    assert caught.value.field == "timeout"
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "count"),
    [
        (16 * 1024**2, 16 * 1024**2),
        ("20000000", 20_000_000),
        ("512MB", 512_000_000),
        ("512 mb", 512_000_000),
        (" 1.5 GiB ", 1_610_612_736),
        ("20000KB", 20_000_000),
        ("32768KiB", 32 * 1024**2),
        ("1TiB", 1024**4),
        ("2TB", 2 * 10**12),
    ],
)
@pytest.mark.req("EXE-10")
def test_sizes(value, count):
    assert reading.size("max_memory", value) == count
    assert reading.size("max_memory", reading.size_text(count)) == count


@pytest.mark.parametrize(
    "value",
    [
        *(-1, 0, 512, 1.5e9, True, None, 10**30, [], b"1GB", 16 * 1024**2 - 1),
        *("", "512M", "1 GB 1 MB", "1e9", "-1GB", "GB", "0.1MB", "9" * 400, "2048TiB", "٣GB"),
    ],
)
@pytest.mark.req("REG-11")
def test_sizes_refused(value):
    with pytest.raises(InvalidValue) as caught:
        reading.size("max_memory", value)
    assert caught.value.field == "max_memory"


@pytest.mark.parametrize(("count", "text"), [(512 * 1024**2, "512MiB"), (10**9, "1GB"), (16_777_217, "16777217B")])
def test_size_text_is_short(count, text):
    assert reading.size_text(count) == text


def test_zero_is_a_duration_where_it_makes_sense():
    assert reading.duration("grace", 0, allow_zero=True) == 0.0
    assert reading.duration("grace", "0s", allow_zero=True) == 0.0


@given(st.integers(1, 10**12))
def test_duration_text_reads_back(milliseconds):
    seconds = milliseconds / 1000
    assert reading.duration("x", reading.duration_text(seconds)) == pytest.approx(seconds, abs=1e-6)


@pytest.mark.parametrize(("seconds", "text"), [(1800, "30m"), (5400, "1h30m"), (0.25, "250ms"), (90061, "1d1h1m1s")])
def test_duration_text_is_short(seconds, text):
    assert reading.duration_text(seconds) == text


@pytest.mark.req("TIM-3")
@pytest.mark.parametrize("name", ["UTC", "Europe/Istanbul", "America/New_York", "Etc/GMT+5"])
def test_zones_round_trip_by_name(name):
    assert reading.zone_name(reading.zone("tz", name)) == name
    assert reading.zone("tz", reading.zone("tz", name)) is reading.zone("tz", name)


@pytest.mark.req("TIM-3")
@pytest.mark.parametrize(
    ("value", "name"),
    [("+08:00", "+08:00"), ("-0330", "-03:30"), ("+05", "+05:00"), (timezone(timedelta(hours=8)), "+08:00")],
)
def test_fixed_offsets_are_taken_with_a_warning(value, name):
    with pytest.warns(UserWarning, match="fixed offset"):
        zone = reading.zone("tz", value)
    assert reading.zone_name(zone) == name


@pytest.mark.parametrize("value", ["UTC", "utc", "Z", "+00:00", UTC])
def test_utc_has_one_name_and_no_warning(value):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert reading.zone_name(reading.zone("tz", value)) == "UTC"


@pytest.mark.req("TIM-3")
def test_local_is_stored_by_its_own_name(monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert reading.zone_name(reading.zone("tz", "local")) == "Asia/Tokyo"
    monkeypatch.setenv("TZ", ":no/such/zone")
    monkeypatch.setattr(zones, "_linked_name", lambda: "")
    monkeypatch.setattr(zones, "_written_name", lambda: "")
    assert reading.zone("tz", "local") is UTC


@pytest.mark.req("REG-11")
@pytest.mark.parametrize(
    "value",
    [
        "",
        "Europe/Istambul",
        "America",
        "../etc/passwd",
        "a\0b",
        "+25:00",
        "+08:60",
        "right/UTC",
        5,
        None,
        True,
        object(),
    ],
)
def test_bad_zones_are_refused(value):
    with pytest.raises(InvalidValue, match="tz"):
        reading.zone("tz", value)


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        ("Europe/Istambul", "Europe/Istanbul"),
        ("istanbul", "Europe/Istanbul"),
        ("New York", "New_York"),
        ("UTC+8", "+08:00"),
    ],
)
def test_bad_zones_get_a_suggestion(value, meant):
    with pytest.raises(InvalidValue) as caught:
        reading.zone("tz", value)
    assert meant in caught.value.remedy


@pytest.mark.parametrize(
    "value",
    [
        datetime(2026, 1, 1, tzinfo=UTC),
        datetime(2026, 1, 1, 3, tzinfo=ZoneInfo("Europe/Istanbul")),
        "2026-01-01T00:00:00Z",
        "2026-01-01T03:00+03:00",
        1_767_225_600,
        1_767_225_600.0,
    ],
)
def test_instants(value):
    found = reading.instant("start_at", value)
    assert found == datetime(2026, 1, 1, tzinfo=UTC)
    assert found.tzinfo is UTC


@pytest.mark.parametrize("value", [datetime(2026, 1, 1), "2026-01-01T00:00:00", "2026-01-01"])
def test_naive_times_need_a_zone(value):
    with pytest.raises(InvalidValue, match="Add a time zone"):
        reading.instant("start_at", value)
    assert reading.instant("start_at", value, tz="Europe/Istanbul") == datetime(2025, 12, 31, 21, tzinfo=UTC)


def test_a_naive_time_in_a_gap_is_its_end_and_an_overlap_follows_fold():
    zone = "America/New_York"
    end_of_gap = datetime(2026, 3, 8, 7, tzinfo=UTC)
    for text in ("2026-03-08T02:00:00", "2026-03-08T02:30:00.5", "2026-03-08T02:59:59"):
        assert reading.instant("at", text, tz=zone) == end_of_gap
        assert reading.instant("at", datetime.fromisoformat(text).replace(fold=1), tz=zone) == end_of_gap
    assert reading.instant("at", datetime(2026, 11, 1, 1, 30), tz=zone) == datetime(2026, 11, 1, 5, 30, tzinfo=UTC)
    assert reading.instant("at", datetime(2026, 11, 1, 1, 30, fold=1), tz=zone) == datetime(
        2026, 11, 1, 6, 30, tzinfo=UTC
    )


@pytest.mark.parametrize("value", [True, None, "soon", math.nan, math.inf, 1e300, 10**400, [], "2026-13-01T00:00:00Z"])
def test_instants_refused(value):
    with pytest.raises(InvalidValue, match="start_at"):
        reading.instant("start_at", value)


EXTREME = st.one_of(st.datetimes(max_value=datetime(1969, 12, 30)), st.datetimes(min_value=datetime(5000, 1, 2)))
OFFSETS = st.none() | st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@pytest.mark.req("REG-11")
@given(EXTREME, OFFSETS, st.booleans(), st.sampled_from([None, "UTC", "Asia/Tokyo", "America/Los_Angeles"]))
@example(datetime.min, timezone(timedelta(hours=14)), False, None)  # before the year 1 in UTC
@example(datetime.max, timezone(timedelta(hours=-14)), True, None)
@example(datetime.max, None, True, "America/Los_Angeles")
@example(datetime.min, None, False, "Asia/Tokyo")
def test_extreme_instants_are_refused_wherever_one_is_read(at, offset, as_text, tz):
    given_ = at.replace(tzinfo=offset)
    value = given_.isoformat() if as_text else given_
    readers = [
        lambda: reading.instant("at", value, tz=tz),
        lambda: once(value),
        lambda: every(days=1, start=value),
        lambda: decode_trigger({"kind": "once", "at": given_.isoformat()}),
        lambda: trigger_of_text("schedule", f"@once {given_.isoformat()}"),
        lambda: custom_window(value, "2026-01-01", tz=tz or "UTC"),
        lambda: custom_window("2026-01-01", value, tz=tz or "UTC"),
        lambda: FakeClock(value),
    ]
    for read in readers:
        with pytest.raises(InvalidValue):
            read()


def test_the_first_and_the_last_instant():
    for text in ("1970-01-01T00:00:00Z", "4999-12-31T23:59:59.999999Z"):
        assert reading.instant("at", text).isoformat() == text.replace("Z", "+00:00")
    with pytest.raises(InvalidValue, match="allowed: an instant from the year 1970 to the year 4999"):
        reading.instant("at", "1970-01-01T08:59", tz="Asia/Tokyo")
    with pytest.raises(InvalidValue, match="from the year 1970"):
        once("1970-01-01").with_zone("Asia/Tokyo")


@pytest.mark.parametrize(
    ("value", "expected"),
    [("03:00", time(3)), ("3:05", time(3, 5)), ("23:59:30", time(23, 59, 30)), (time(1, 2, 3), time(1, 2, 3))],
)
def test_times_of_day(value, expected):
    assert reading.time_of_day("time", value) == expected


@pytest.mark.req("REG-11")
@pytest.mark.parametrize(
    "value", ["25:00", "24:00", "03:60", "3", "", None, 3, "03:00:00.5", time(3, tzinfo=UTC), time(3, 0, 0, 5), "٣:00"]
)
def test_times_of_day_refused(value):
    with pytest.raises(InvalidValue, match="time"):
        reading.time_of_day("time", value)


@pytest.mark.parametrize(("value", "day"), [(1, 1), (7, 7), ("mon", 1), ("Sunday", 7), ("THURS", 4), ("3", 3)])
def test_weekdays(value, day):
    assert reading.weekday("weekday", value) == day


@pytest.mark.req("REG-11")
@pytest.mark.parametrize("value", [0, 8, -1, True, 1.0, "0", "mo", "", "someday", None])
def test_weekdays_refused(value):
    with pytest.raises(InvalidValue, match="weekday"):
        reading.weekday("weekday", value)


@pytest.mark.req("REG-11")
@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (reading.minute, (0, 59), (-1, 60)),
        (reading.second, (0, 59), (-1, 60)),
        (reading.day_of_month, (1, 31), (0, 32)),
    ],
)
def test_ranges(check, good, bad):
    for value in good:
        assert check("field", value) == value
    for value in (*bad, True, 1.5, "1", None):
        with pytest.raises(InvalidValue, match="field"):
            check("field", value)


@pytest.mark.req("REG-5")
@pytest.mark.parametrize("value", ["a", "vpos-summary", "A.b_c-9", "x" * 100])
def test_identifiers(value):
    assert reading.identifier("id", value) == value


@pytest.mark.req("REG-5")
@pytest.mark.parametrize("value", ["", "x" * 101, "a b", "ümit", "a/b", "a\n", None, 5])
def test_identifiers_refused(value):
    with pytest.raises(InvalidValue, match="id"):
        reading.identifier("id", value)


def test_identifier_suggests_a_legal_one():
    with pytest.raises(InvalidValue, match="Try 'my-job'"):
        reading.identifier("id", "my job")


PARSERS = [reading.duration, reading.instant, reading.time_of_day, reading.weekday, reading.identifier, reading.minute]


@given(
    st.sampled_from(PARSERS),
    st.text() | st.floats() | st.integers() | st.none() | st.binary() | st.datetimes() | st.times() | st.timedeltas(),
)
@pytest.mark.req("REG-11")
def test_no_value_crashes_a_parser(parse, value):
    with contextlib.suppress(InvalidValue):
        parse("field", value)
