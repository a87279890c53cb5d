"""Zones whose clocks do odd things, with answers worked out by hand."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest

from mainspring.model.triggers import cron, daily_at, hourly_at
from mainspring.model.windows import resolve

SECOND = timedelta(seconds=1)


def ticks_on(trigger, zone: str, day: date, days: int = 1) -> list[str]:
    """The ticks of some local dates, as the clock on the wall shows them."""
    where = ZoneInfo(zone)
    begin = datetime.combine(day, time(), where).astimezone(UTC)
    end = datetime.combine(day + timedelta(days=days), time(), where).astimezone(UTC)
    return [f"{tick.astimezone(where):%d %H:%M%z}" for tick in trigger.ticks(begin - SECOND, end - SECOND)]


@pytest.mark.req("TIM-4")
@pytest.mark.parametrize(
    ("options", "spring", "autumn"),
    [
        ({}, ["29 03:00+0200"], ["25 02:30+0200"]),
        ({"gap": "shift", "overlap": "second"}, ["29 04:30+0200"], ["25 02:30+0000"]),
        ({"gap": "skip", "overlap": "both"}, [], ["25 02:30+0200", "25 02:30+0000"]),
    ],
)
def test_troll_changes_by_two_hours(options, spring, autumn):
    """Norwegian summer time on UTC: at 01:00 UTC the clock goes from 01:00 to 03:00, and from 03:00 back to 01:00."""
    zone = "Antarctica/Troll"
    trigger = cron("30 2 * * *", tz=zone, **options)
    assert ticks_on(trigger, zone, date(2026, 3, 29)) == spring
    assert ticks_on(trigger, zone, date(2026, 10, 25)) == autumn
    assert len(ticks_on(hourly_at(0, tz=zone), zone, date(2026, 3, 29))) == 22
    assert len(ticks_on(hourly_at(0, tz=zone), zone, date(2026, 10, 25))) == 26
    assert resolve("yesterday", datetime(2026, 10, 26, 12, tzinfo=UTC), zone).span == timedelta(hours=26)


@pytest.mark.req("TIM-4")
def test_casablanca_goes_back_for_ramadan_and_forward_after_it():
    """In 2026 from 03:00 to 02:00 on 15 February, and from 02:00 to 03:00 on 22 March."""
    zone = "Africa/Casablanca"
    assert ticks_on(daily_at("02:30", zone), zone, date(2026, 2, 15)) == ["15 02:30+0100"]
    assert ticks_on(daily_at("02:30", zone, overlap="both"), zone, date(2026, 2, 15)) == [
        "15 02:30+0100",
        "15 02:30+0000",
    ]
    assert ticks_on(daily_at("02:30", zone), zone, date(2026, 3, 22)) == ["22 03:00+0100"]
    assert ticks_on(daily_at("02:30", zone, gap="skip"), zone, date(2026, 3, 21), 3) == [
        "21 02:30+0000",
        "23 02:30+0100",
    ]
    assert len(ticks_on(hourly_at(0, tz=zone), zone, date(2026, 3, 22))) == 23


@pytest.mark.req("TIM-4")
def test_santiago_changes_at_midnight():
    """Saturday 4 April ends with a second 23:00; Sunday 6 September begins at 01:00."""
    zone = "America/Santiago"
    assert ticks_on(daily_at("23:30", zone), zone, date(2026, 4, 4)) == ["04 23:30-0300"]
    assert ticks_on(daily_at("23:30", zone, overlap="second"), zone, date(2026, 4, 4)) == ["04 23:30-0400"]
    assert ticks_on(daily_at("00:00", zone), zone, date(2026, 4, 5)) == ["05 00:00-0400"]
    assert ticks_on(daily_at("00:30", zone), zone, date(2026, 9, 6)) == ["06 01:00-0300"]
    assert ticks_on(daily_at("00:30", zone, gap="shift"), zone, date(2026, 9, 6)) == ["06 01:30-0300"]
    assert ticks_on(daily_at("01:00", zone), zone, date(2026, 9, 6)) == ["06 01:00-0300"]


@pytest.mark.req("TIM-4")
def test_lord_howe_changes_by_half_an_hour():
    zone = "Australia/Lord_Howe"
    assert ticks_on(daily_at("02:15", zone), zone, date(2026, 10, 4)) == ["04 02:30+1100"]
    assert ticks_on(daily_at("02:15", zone, gap="shift"), zone, date(2026, 10, 4)) == ["04 02:45+1100"]
    assert ticks_on(daily_at("01:45", zone, overlap="both"), zone, date(2026, 4, 5)) == [
        "05 01:45+1100",
        "05 01:45+1030",
    ]
    assert ticks_on(cron("*/30 1-2 * * *", tz=zone), zone, date(2026, 4, 5)) == [
        "05 01:00+1100",
        "05 01:30+1100",
        "05 01:30+1030",
        "05 02:00+1030",
        "05 02:30+1030",
    ]


@pytest.mark.req("TIM-4")
def test_apia_had_no_30_december_in_2011():
    zone = "Pacific/Apia"
    assert ticks_on(daily_at("09:00", zone), zone, date(2011, 12, 29), 4) == [
        "29 09:00-1000",
        "31 00:00+1400",  # for the 30th
        "31 09:00+1400",
        "01 09:00+1400",
    ]
    assert ticks_on(daily_at("09:00", zone, gap="shift"), zone, date(2011, 12, 30), 2) == ["31 09:00+1400"]
    assert ticks_on(daily_at("09:00", zone, gap="skip"), zone, date(2011, 12, 30), 2) == ["31 09:00+1400"]
    assert ticks_on(cron("0 9 30 12 *", tz=zone), zone, date(2011, 12, 29), 4) == ["31 00:00+1400"]
    assert len(ticks_on(hourly_at(0, tz=zone), zone, date(2011, 12, 29), 3)) == 48
