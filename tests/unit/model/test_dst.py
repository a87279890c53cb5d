"""The rule for changing clocks (TIM-4) at named changes, against an oracle that looks at every minute.

What holds for all zones and years is in tests/time.
"""

from __future__ import annotations

import struct
from datetime import UTC, date, datetime, time, timedelta
from importlib.resources import files
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.model.time import timeline
from mainspring.model.triggers import cron, daily_at, hourly_at, monthly_at, weekly_at

MINUTE = timedelta(minutes=1)
NAMED_CHANGES = {
    "America/New_York": [date(2026, 3, 8), date(2026, 11, 1)],
    "Europe/Istanbul": [date(2015, 3, 29), date(2015, 11, 8), date(2016, 9, 7)],
    "Australia/Lord_Howe": [date(2026, 4, 5), date(2026, 10, 4)],
    "Africa/Casablanca": [date(2026, 2, 15), date(2026, 3, 22)],
    "Pacific/Apia": [date(2011, 12, 30), date(2012, 4, 1)],
    "Antarctica/Troll": [date(2026, 3, 29), date(2026, 10, 25)],
    "America/Santiago": [date(2026, 4, 4), date(2026, 9, 6)],
    "America/Havana": [date(2026, 3, 8), date(2026, 11, 1)],
    "Antarctica/Vostok": [date(1994, 2, 1), date(1994, 11, 1)],
    "Asia/Kolkata": [date(2026, 1, 1)],
}
CHANGES = [(zone, day) for zone, days in NAMED_CHANGES.items() for day in days]


def local_text(tick, zone):
    return tick.astimezone(ZoneInfo(zone)).strftime("%m-%d %H:%M%z")


def ticks_on(trigger, zone, day, days=1):
    begin = datetime.combine(day, time(), ZoneInfo(zone)).astimezone(UTC)
    end = datetime.combine(day + timedelta(days=days), time(), ZoneInfo(zone)).astimezone(UTC)
    return list(trigger.ticks(begin - timedelta(microseconds=1), end - timedelta(microseconds=1)))


# ------------------------------------------------------------------ the documented cases

SPRING, AUTUMN = date(2026, 3, 8), date(2026, 11, 1)


@pytest.mark.req("TIM-4")
@pytest.mark.parametrize(
    ("gap", "expected"), [("at_end", ["03-08 03:00-0400"]), ("shift", ["03-08 03:30-0400"]), ("skip", [])]
)
def test_a_time_that_new_york_skips(gap, expected):
    zone = "America/New_York"
    found = ticks_on(cron("30 2 * * *", tz=zone, gap=gap), zone, SPRING)
    assert [local_text(tick, zone) for tick in found] == expected


@pytest.mark.req("TIM-4")
@pytest.mark.parametrize(
    ("overlap", "expected"),
    [
        ("first", ["11-01 01:30-0400"]),
        ("second", ["11-01 01:30-0500"]),
        ("both", ["11-01 01:30-0400", "11-01 01:30-0500"]),
    ],
)
def test_a_time_that_new_york_repeats(overlap, expected):
    zone = "America/New_York"
    found = ticks_on(cron("30 1 * * *", tz=zone, overlap=overlap), zone, AUTUMN)
    assert [local_text(tick, zone) for tick in found] == expected


@pytest.mark.req("TIM-4")
@pytest.mark.parametrize("expression", ["0,15,30 2 * * *", "0 2,3 * * *", "30 0 2 * * *", "* 30 2 * * *"])
def test_one_gap_is_one_tick(expression):
    """Several skipped times, and the tick that is due at the end of the gap anyway, fall on one instant."""
    zone = "America/New_York"
    found = ticks_on(cron(expression, tz=zone), zone, SPRING)
    assert [local_text(tick, zone) for tick in found] == ["03-08 03:00-0400"]


@pytest.mark.req("TIM-4")
@pytest.mark.parametrize("gap", ["at_end", "shift", "skip"])
@pytest.mark.parametrize("overlap", ["first", "second", "both"])
@pytest.mark.parametrize("expression", ["*/30 * * * *", "0 * * * *", "*/30 1-3 * * *", "0,30 * * * *"])
def test_wildcards_follow_the_wall_clock_whatever_the_options(expression, gap, overlap):
    zone = "America/New_York"
    plain, chosen = cron(expression, tz=zone), cron(expression, tz=zone, gap=gap, overlap=overlap)
    for day in (SPRING, AUTUMN):
        assert ticks_on(chosen, zone, day) == ticks_on(plain, zone, day)
    assert all(b - a <= timedelta(hours=1) for a, b in pairwise(ticks_on(cron("0 * * * *", tz=zone), zone, AUTUMN)))
    assert len(ticks_on(cron("0 * * * *", tz=zone), zone, AUTUMN)) == 25
    assert len(ticks_on(cron("0 * * * *", tz=zone), zone, SPRING)) == 23


@pytest.mark.req("TIM-4")
def test_half_hour_shift_of_lord_howe():
    zone = "Australia/Lord_Howe"
    assert [local_text(t, zone) for t in ticks_on(daily_at("02:15", zone), zone, date(2026, 10, 4))] == [
        "10-04 02:30+1100"
    ]
    assert [local_text(t, zone) for t in ticks_on(daily_at("01:45", zone), zone, date(2026, 4, 5))] == [
        "04-05 01:45+1100"
    ]
    hourly = [local_text(t, zone) for t in ticks_on(hourly_at(45, tz=zone), zone, date(2026, 4, 5))][:4]
    assert hourly == ["04-05 00:45+1100", "04-05 01:45+1100", "04-05 01:45+1030", "04-05 02:45+1030"]


@pytest.mark.req("TIM-4")
def test_the_day_that_apia_skipped():
    zone = "Pacific/Apia"
    found = [local_text(t, zone) for t in ticks_on(daily_at("09:00", zone), zone, date(2011, 12, 29), days=4)]
    assert found == ["12-29 09:00-1000", "12-31 00:00+1400", "12-31 09:00+1400", "01-01 09:00+1400"]
    skipped = cron("0 9 * * *", tz=zone, gap="skip")
    assert len(ticks_on(skipped, zone, date(2011, 12, 29), days=4)) == 3
    assert len(ticks_on(daily_at("00:00", zone), zone, date(2011, 12, 29), days=4)) == 3


@pytest.mark.req("TIM-4")
def test_midnight_that_does_not_exist():
    zone = "America/Santiago"
    found = [local_text(t, zone) for t in ticks_on(daily_at("00:00", zone), zone, date(2026, 9, 6))]
    assert found == ["09-06 01:00-0300"]


@pytest.mark.req("TIM-4", "TIM-1")
def test_weekly_and_monthly_share_the_rule():
    zone = "America/New_York"
    assert [local_text(t, zone) for t in ticks_on(weekly_at("sun", "02:30", zone), zone, SPRING)] == [
        "03-08 03:00-0400"
    ]
    assert [local_text(t, zone) for t in ticks_on(monthly_at(8, "02:30", zone), zone, SPRING)] == ["03-08 03:00-0400"]
    assert [local_text(t, zone) for t in ticks_on(monthly_at(1, "01:30", zone), zone, AUTUMN)] == ["11-01 01:30-0400"]


# ------------------------------------------------------------------ the oracle


def real_minutes(zone, day, days):
    """Every real minute from a day before to a day after, with its wall-clock time."""
    at = datetime.combine(day, time(), UTC) - timedelta(days=2)
    for _ in range((days + 4) * 1440):
        yield at, at.astimezone(zone).replace(tzinfo=None, fold=0)
        at += MINUTE


def expected_ticks(zone, day, minutes, hours, gap, overlap, wildcard):
    """The instants of a rule, found by looking: each wall-clock minute with all real minutes that show it."""
    shown: dict[datetime, list[datetime]] = {}
    for at, local in real_minutes(zone, day, 2):
        shown.setdefault(local, []).append(at)
    found = set()
    local, end = (
        datetime.combine(day, time()) - timedelta(hours=30),
        datetime.combine(day, time()) + timedelta(hours=54),
    )
    while local < end:
        if local.minute in minutes and local.hour in hours:
            found.update(_standing_for(local, zone, shown, gap, overlap, wildcard))
        local += MINUTE
    return found


def _standing_for(local, zone, shown, gap, overlap, wildcard):
    real = shown.get(local, [])
    if real:
        return real if wildcard or overlap == "both" else [real[0] if overlap == "first" else real[-1]]
    if wildcard or gap == "skip":
        return []
    if gap == "shift":
        return [local.replace(tzinfo=zone, fold=0).astimezone(UTC)]
    while local not in shown:
        local += MINUTE
    return [shown[local][0]]


@given(
    st.sampled_from(CHANGES),
    st.sets(st.integers(0, 59), min_size=1, max_size=4),
    st.sets(st.integers(0, 23), min_size=1, max_size=6),
    st.sampled_from(["", "minute", "hour"]),
    st.sampled_from(["at_end", "shift", "skip"]),
    st.sampled_from(["first", "second", "both"]),
)
@settings(max_examples=150)
@pytest.mark.req("TIM-4")
def test_every_rule_agrees_with_the_oracle(change, minutes, hours, star, gap, overlap):
    name, day = change
    zone = ZoneInfo(name)
    minutes, hours = (set(range(60)) if star == "minute" else minutes), (set(range(24)) if star == "hour" else hours)
    fields = ("*" if star == "minute" else ",".join(map(str, sorted(minutes)))) + " "
    fields += "*" if star == "hour" else ",".join(map(str, sorted(hours)))
    trigger = cron(f"{fields} * * *", tz=name, gap=gap, overlap=overlap)
    begin = datetime.combine(day, time(), UTC) - timedelta(hours=12)
    end = begin + timedelta(hours=48)
    expected = expected_ticks(zone, day, minutes, hours, gap, overlap, bool(star))
    expected = sorted(tick for tick in expected if begin < tick <= end)
    assert list(trigger.ticks(begin, end)) == expected
    assert backwards(trigger, begin, end) == expected


def backwards(trigger, begin, end):
    tick, found = trigger.previous(end), []
    while tick > begin:
        found.append(tick)
        tick = trigger.previous(tick - timedelta(microseconds=1))
    return found[::-1]


# ------------------------------------------------------------------ what the timeline relies on


def zone_names_of_package():
    text = files("tzdata").joinpath("zones").read_text(encoding="utf-8")
    return text.split()


def offset_changes(data):
    """The instants at which the offset changes, from the second block of a TZif file."""
    counts = struct.unpack(">6l", data[20:44])
    start = 44 + counts[3] * 5 + counts[4] * 6 + counts[5] + counts[2] * 8 + counts[1] + counts[0]
    _, _, _, times, types, _ = struct.unpack(">6l", data[start + 20 : start + 44])
    start += 44
    instants = struct.unpack(f">{times}q", data[start : start + 8 * times])
    kinds = data[start + 8 * times : start + 9 * times]
    table = start + 9 * times
    offsets = [struct.unpack(">l", data[table + 6 * n : table + 6 * n + 4])[0] for n in range(types)]
    befores = [offsets[0], *(offsets[kind] for kind in kinds[:-1])] if times else []
    return [at for at, kind, before in zip(instants, kinds, befores, strict=True) if offsets[kind] != before]


def zone_file(name):
    return files("tzdata").joinpath("zoneinfo", *name.split("/"))


def test_offset_changes_are_further_apart_than_the_search_step():
    for name in zone_names_of_package():
        changes = offset_changes(zone_file(name).read_bytes())
        assert all(b - a > timeline._STEP.total_seconds() for a, b in pairwise(changes)), name


@pytest.mark.parametrize("name", sorted(NAMED_CHANGES))
def test_segments_find_every_change(name):
    with zone_file(name).open("rb") as file:
        zone = ZoneInfo.from_file(file, key=name)
    changes = offset_changes(zone_file(name).read_bytes())
    begin, last = int(datetime(1970, 1, 1, tzinfo=UTC).timestamp()), max(changes, default=0)
    found = {
        int(segment.begin.replace(tzinfo=UTC).timestamp())
        for year in range(1970, 2038)
        for segment in timeline.segments(zone, year)
        if segment.before != segment.offset
    }
    expected = {at for at in changes if begin <= at < datetime(2038, 1, 1, tzinfo=UTC).timestamp()}
    found = {at for at in found if at <= last}  # later ones follow from a rule at the end of the file
    assert found == expected
