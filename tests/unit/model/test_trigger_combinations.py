"""Triggers made of triggers: any of several, and with exclusions."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from mainspring.model.errors import InvalidValue
from mainspring.model.triggers import any_of, cron, daily_at, every, hourly_at, weekly_at

START = datetime(2026, 1, 1, tzinfo=UTC)


def texts(trigger, count, start=START):
    tick, found = start, []
    for _ in range(count):
        tick = trigger.next_after(tick)
        found.append(tick.strftime("%Y-%m-%d %H:%M:%S"))
    return found


@pytest.mark.req("TIM-1")
def test_any_of_merges_and_shares():
    trigger = any_of(daily_at("03:00"), cron("0 3 * * *"), daily_at("04:00"))
    assert texts(trigger, 3) == ["2026-01-01 03:00:00", "2026-01-01 04:00:00", "2026-01-02 03:00:00"]


@pytest.mark.req("TIM-1")
def test_excluded_dates_are_dates_of_the_zone():
    trigger = daily_at("03:00", tz="Asia/Tokyo").excluding("2026-01-02", date(2026, 1, 3))
    assert texts(trigger, 2) == ["2026-01-03 18:00:00", "2026-01-04 18:00:00"]
    assert trigger.previous(datetime(2026, 1, 3, tzinfo=UTC)) == datetime(2025, 12, 31, 18, tzinfo=UTC)
    later = daily_at("03:00").excluding("2026-01-02").with_zone("Asia/Tokyo")
    assert texts(later, 1) == ["2026-01-02 18:00:00"]


@pytest.mark.req("TIM-1")
def test_excluded_triggers_take_away_shared_ticks():
    trigger = hourly_at(0).excluding(cron("0 0-8,18-23 * * *"))
    assert texts(trigger, 10)[0] == "2026-01-01 09:00:00"
    assert texts(trigger, 10)[-1] == "2026-01-02 09:00:00"
    assert daily_at("03:00").excluding(weekly_at("sat", "04:00")).next_after(START) == START + timedelta(hours=3)


def test_a_second_by_second_job_leaps_over_excluded_days():
    trigger = every(seconds=1, start=START).excluding([date(2026, 1, 1) + timedelta(days=n) for n in range(1, 59)])
    assert trigger.next_after(START + timedelta(hours=23, minutes=59, seconds=59)) == datetime(2026, 3, 1, tzinfo=UTC)
    assert trigger.previous(datetime(2026, 2, 28, 12, tzinfo=UTC)) == datetime(2026, 1, 1, 23, 59, 59, tzinfo=UTC)


def test_excluding_everything_ends():
    nothing = weekly_at("mon", "03:00").excluding(daily_at("03:00"))
    assert nothing.next_after(START) is None
    assert nothing.previous(START) is None
    with pytest.raises(InvalidValue, match="leaves something"):
        daily_at("03:00").excluding(daily_at("03:00"))


def test_many_excluded_dates_are_counted_in_words():
    days = [date(2026, 5, 1) + timedelta(days=n) for n in range(8)]
    assert daily_at("03:00").excluding(days).describe() == (
        "daily at 03:00, except on 2026-05-01, on 2026-05-02, on 2026-05-03, on 2026-05-04, on 2026-05-05 "
        "and on 3 more dates"
    )
