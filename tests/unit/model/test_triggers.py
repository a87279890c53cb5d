"""What every trigger promises, and what each kind adds. Changing clocks have their own file, test_dst.py."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from datetime import UTC, date, datetime, time, timedelta, timezone
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.model.errors import InvalidValue
from mainspring.model.triggers import (
    Cron,
    any_of,
    cron,
    daily_at,
    decode_trigger,
    encode_trigger,
    every,
    hourly_at,
    interval,
    monthly_at,
    once,
    weekly_at,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
MICRO = timedelta(microseconds=1)
EXAMPLES = [
    cron("0 30 3 * * *", tz="Europe/Istanbul"),
    cron("*/5 9-17 * * mon-fri", gap="skip", overlap="both"),
    every(minutes=30),
    every(seconds=0.25, start=START),
    every(days=1, start="2026-01-01T03:00:00+03:00"),
    hourly_at(5, 30, tz="Asia/Kolkata"),
    daily_at("03:00"),
    weekly_at("sunday", time(3), tz="America/New_York"),
    monthly_at(31, "03:00", if_short="skip"),
    monthly_at(29, "03:00:10"),
    monthly_at(30, "03:00", "Pacific/Apia"),
    daily_at("02:30", tz="America/New_York", gap="shift", overlap="both"),
    weekly_at(7, "02:30", tz="America/New_York", gap="skip", overlap="second"),
    monthly_at(29, "02:30", tz="Australia/Lord_Howe", gap="skip"),
    daily_at("03:00").spread("10m").named("report"),
    any_of(daily_at("03:00"), every(hours=7)).jitter("1h"),
    any_of(daily_at("03:00"), every(hours=7), cron("0 4 * * *")),
    daily_at("03:00", tz="Asia/Tokyo").excluding("2026-12-25", date(2026, 1, 1)),
    any_of(hourly_at(0), hourly_at(30)).excluding(daily_at("12:00"), ["2026-05-05"]),
]
recurring = st.sampled_from(EXAMPLES)
moments = st.datetimes(datetime(1971, 1, 1), datetime(2099, 1, 1)).map(lambda at: at.replace(tzinfo=UTC))


def texts(trigger, count, start=START):
    tick, found = start, []
    for _ in range(count):
        tick = trigger.next_after(tick)
        found.append(tick.strftime("%Y-%m-%d %H:%M:%S"))
    return found


# ------------------------------------------------------------------ what all promise


@given(recurring, moments)
@pytest.mark.req("TIM-1")
def test_ticks_strictly_increase_and_are_found_again_from_behind(trigger, at):
    ticks = list(trigger.ticks(at, at + timedelta(days=400), limit=6))
    assert all(tick > at and tick.tzinfo is UTC for tick in ticks)
    for earlier, later in pairwise(ticks):
        assert earlier < later
        assert trigger.next_after(later - MICRO) == later
        assert trigger.previous(later) == later
        assert trigger.previous(later - MICRO) == earlier


@given(recurring, moments)
def test_nothing_lies_between_previous_and_next(trigger, at):
    before, after = trigger.previous(at), trigger.next_after(at)
    if before is not None:
        assert before <= at
        assert trigger.next_after(before) == after


@given(recurring, moments, st.integers(0, 30))
def test_count_agrees_with_the_ticks(trigger, at, limit):
    end = at + timedelta(days=3)
    count, exact = trigger.count_between(at, end, limit)
    ticks = list(trigger.ticks(at, end, limit=1000)) if trigger.period(at) > 60 else None
    if ticks is not None and exact:
        assert count == len(ticks)
    if not exact:
        assert count == limit
        assert ticks is None or len(ticks) > limit


@pytest.mark.parametrize("trigger", [*EXAMPLES, once(START), every(hours=1, delay=True)], ids=str)
@pytest.mark.req("TIM-1")
def test_triggers_round_trip_through_json(trigger):
    data = encode_trigger(trigger)
    assert decode_trigger(json.loads(json.dumps(data))) == trigger
    assert encode_trigger(decode_trigger(data)) == data
    assert json.loads(json.dumps(data)) == data
    assert hash(decode_trigger(data)) == hash(trigger)


@pytest.mark.parametrize("trigger", [*EXAMPLES, once(START)], ids=str)
@pytest.mark.req("TIM-1")
def test_triggers_explain_themselves(trigger):
    assert trigger.describe()
    assert trigger.expression()


@pytest.mark.parametrize("trigger", [*EXAMPLES, once(START)], ids=str)
def test_naive_instants_are_refused_and_zones_do_not_matter(trigger):
    with pytest.raises(InvalidValue, match="aware"):
        trigger.next_after(datetime(2026, 1, 1))
    elsewhere = START.astimezone(ZoneInfo("Asia/Tokyo"))
    assert trigger.next_after(elsewhere) == trigger.next_after(START)
    assert trigger.previous(elsewhere) == trigger.previous(START)


@pytest.mark.parametrize("trigger", EXAMPLES, ids=str)
@pytest.mark.parametrize("at", [datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC)])
def test_the_ends_of_the_calendar_do_not_crash(trigger, at):
    for found in (trigger.next_after(at), trigger.previous(at)):
        assert found is None or found.tzinfo is UTC


def test_the_same_trigger_gives_the_same_ticks_in_another_process():
    code = (
        "from mainspring.model.triggers import decode_trigger; from datetime import datetime, UTC; import json, sys;"
        "t = decode_trigger(json.loads(sys.argv[1])); print([str(x) for x in t.ticks(datetime(2026,1,1,tzinfo=UTC),"
        "datetime(2027,1,1,tzinfo=UTC), 50)])"
    )
    trigger = cron("30 2 * * *", tz="America/New_York")
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code, json.dumps(encode_trigger(trigger))],
            capture_output=True,
            text=True,
            check=True,
            env={"TZ": zone, "PYTHONPATH": ":".join(path for path in sys.path if path)},
        ).stdout
        for zone in ("UTC", "Asia/Tokyo")
    }
    expected = [str(tick) for tick in trigger.ticks(START, datetime(2027, 1, 1, tzinfo=UTC), 50)]
    assert outputs == {f"{expected}\n"}


# ------------------------------------------------------------------ zones and anchors


@pytest.mark.req("TIM-3")
def test_the_zone_of_the_job_fills_in_only_where_none_was_given():
    assert daily_at("03:00").with_zone("Europe/Istanbul") == daily_at("03:00", tz="Europe/Istanbul")
    assert daily_at("03:00", tz="UTC").with_zone("Europe/Istanbul") == daily_at("03:00", tz="UTC")
    both = any_of(daily_at("03:00"), daily_at("04:00", tz="Asia/Tokyo")).with_zone(ZoneInfo("Europe/Istanbul"))
    assert both == any_of(daily_at("03:00", tz="Europe/Istanbul"), daily_at("04:00", tz="Asia/Tokyo"))
    assert every(hours=1).with_zone("Asia/Tokyo") == every(hours=1)
    assert texts(cron("0 3 * * *").with_zone("Europe/Istanbul"), 1) == ["2026-01-02 00:00:00"]


@pytest.mark.req("TIM-3")
def test_a_fixed_offset_warns_once_when_declared_and_never_when_loaded():
    with pytest.warns(UserWarning, match=r"\+08:00"):
        trigger = daily_at("03:00", tz="+08:00")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert decode_trigger(encode_trigger(trigger)) == trigger
        assert daily_at("03:00").with_zone(timezone(timedelta(hours=8))) == trigger
    assert texts(trigger, 1) == ["2026-01-01 19:00:00"]


def test_anchoring_fills_in_only_where_none_was_given():
    at = START + timedelta(minutes=7)
    assert every(hours=1).anchored(at) == every(hours=1, start=at)
    assert every(hours=1, start=START).anchored(at) == every(hours=1, start=START)
    assert any_of(every(hours=1), daily_at("03:00")).anchored(at) == any_of(every(hours=1, start=at), daily_at("03:00"))
    excluding = every(hours=1).excluding("2026-01-01")
    assert excluding.anchored(at) == every(hours=1, start=at).excluding("2026-01-01")
    assert daily_at("03:00").anchored(at) == daily_at("03:00")


# ------------------------------------------------------------------ every, interval, once


@pytest.mark.req("TIM-1")
def test_a_fixed_rate_does_not_drift():
    trigger = every(minutes=30, start=START)
    assert texts(trigger, 2, START + timedelta(minutes=44, microseconds=1)) == [
        "2026-01-01 01:00:00",
        "2026-01-01 01:30:00",
    ]
    assert trigger.next_after(START - timedelta(days=9)) == START
    assert trigger.previous(START - MICRO) is None
    assert trigger.previous(START + timedelta(minutes=59)) == START + timedelta(minutes=30)


@pytest.mark.req("TIM-4")
def test_every_follows_elapsed_time_whatever_the_wall_clock_does():
    trigger = every(days=1, start=datetime(2026, 3, 7, 7, 30, tzinfo=UTC)).with_zone("America/New_York")
    ticks = list(trigger.ticks(START, datetime(2026, 3, 12, tzinfo=UTC)))
    assert {later - earlier for earlier, later in pairwise(ticks)} == {timedelta(days=1)}


def test_without_a_start_the_grid_is_that_of_the_epoch():
    assert texts(every(minutes=30), 2, START + timedelta(minutes=7)) == ["2026-01-01 00:30:00", "2026-01-01 01:00:00"]


@given(st.integers(1, 10**9), moments, st.integers(0, 10**15))
def test_counting_intervals_is_arithmetic(milliseconds, begin, span):
    trigger = every(seconds=milliseconds / 1000, start=START)
    end = min(begin + timedelta(microseconds=span), datetime(2100, 1, 1, tzinfo=UTC))
    count, exact = trigger.count_between(begin, end, 10)
    assert exact
    step = timedelta(seconds=milliseconds / 1000)
    first = trigger.next_after(begin)
    assert count == ((end - first) // step + 1 if first <= end else 0)


@pytest.mark.req("WIN-2")
def test_thirty_days_of_a_one_second_job_are_counted_at_once():
    assert every(seconds=1, start=START).count_between(START, START + timedelta(days=30)) == (2_592_000, True)
    assert cron("* * * * *").count_between(START, START + timedelta(days=30), 100) == (100, False)
    assert cron("* * * * *").previous(START + timedelta(days=30, seconds=30)) == START + timedelta(days=30)


@pytest.mark.req("TIM-1")
def test_a_fixed_delay_counts_from_the_end_of_the_run():
    trigger = every(minutes=10, delay=True)
    assert trigger.fixed_delay
    assert not every(minutes=10).fixed_delay
    finish = START + timedelta(seconds=12, microseconds=345)
    assert trigger.anchored(START).next_after(finish) == finish + timedelta(minutes=10)
    assert every(minutes=10, delay=True, start=START).next_after(START - timedelta(days=1)) == START
    assert trigger.previous(finish) is None
    assert trigger.period(START) == 600.0


@pytest.mark.req("TIM-10")
def test_interval_pairs():
    assert interval(30) == every(minutes=30)
    assert interval(6, "hours") == every(hours=6)
    assert interval(1, "days") == every(days=1)
    for count, unit in [(0, "minutes"), (-5, "minutes"), (1.5, "hours"), (True, "hours"), (5, "weeks"), (5, None)]:
        with pytest.raises(InvalidValue, match="interval_"):
            interval(count, unit)


@pytest.mark.req("REG-11")
@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({}, "every"),
        ({"minutes": -1}, "minutes"),
        ({"seconds": float("nan")}, "seconds"),
        ({"seconds": float("inf")}, "seconds"),
        ({"seconds": True}, "seconds"),
        ({"hours": "1"}, "hours"),
        ({"seconds": 0.0001}, "every"),
        ({"weeks": 10**9}, "weeks"),
        ({"minutes": 1, "start": datetime(1, 1, 1)}, "start"),
        ({"minutes": 1, "start": "noon"}, "start"),
    ],
)
def test_bad_periods(options, field):
    with pytest.raises(InvalidValue) as caught:
        every(**options)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("trigger", "words", "expression"),
    [
        (every(minutes=30), "every 30 minutes", "@every 30m"),
        (every(hours=1), "every hour", "@every 1h"),
        (every(seconds=5400), "every 1 hour 30 minutes", "@every 1h30m"),
        (every(hours=1, delay=True), "1 hour after each run ends", "@every 1h"),
        (every(seconds=0.5), "every 0.5 seconds", "@every 500ms"),
        (once(START), "once at 2026-01-01 00:00:00 UTC", "@once 2026-01-01T00:00:00Z"),
        (hourly_at(5), "hourly at minute 5", "0 5 * * * *"),
        (daily_at("02:00"), "daily at 02:00", "0 0 2 * * *"),
        (weekly_at(7, "02:30"), "weekly on Sunday at 02:30", "0 30 2 * * 7"),
        (monthly_at(5, "02:00"), "monthly on day 5 at 02:00", "0 0 2 5 * *"),
        (monthly_at(31, "02:00"), "monthly on day 31 at 02:00, the last day in shorter months", "0 0 2 L * *"),
        (cron("0 0 2 * * *"), "At 02:00", "0 0 2 * * *"),
        (
            daily_at("02:30", tz="Europe/Berlin", gap="skip", overlap="both"),
            "daily at 02:30 (Europe/Berlin, without times that the clocks skip, twice when the clocks repeat it)",
            "0 30 2 * * *",
        ),
        (cron("*/5 * * * *", gap="skip", overlap="both"), "Every 5 minutes", "*/5 * * * *"),
    ],
)
@pytest.mark.req("API-1")
def test_words_and_expressions(trigger, words, expression):
    assert trigger.describe() == words
    assert trigger.expression() == expression


@pytest.mark.req("TIM-1")
def test_once():
    trigger = once("2026-01-01T00:00:00Z")
    assert trigger.next_after(START - MICRO) == START
    assert trigger.next_after(START) is None
    assert trigger.previous(START) == START
    assert trigger.previous(START - MICRO) is None
    assert trigger.period() is None
    assert trigger.only_tick_micros() == 1_767_225_600_000_000
    assert daily_at("03:00").only_tick_micros() is None


@pytest.mark.req("TIM-1", "TIM-3")
@pytest.mark.parametrize("local", [datetime(2026, 1, 1, 3), "2026-01-01T03:00", date(2026, 1, 1)])
def test_a_time_without_an_offset_is_read_in_the_zone_of_the_job(local):
    """Until the zone is known it is read in UTC, as every trigger is."""
    wall = datetime.combine(local, time()) if type(local) is date else datetime(2026, 1, 1, 3)
    assert once(local).next_after(START - timedelta(days=1)) == wall.replace(tzinfo=UTC)
    there = wall.replace(tzinfo=ZoneInfo("Europe/Istanbul"))
    for trigger in (once(local), every(days=1, start=local)):
        known = decode_trigger(encode_trigger(trigger)).with_zone("Europe/Istanbul")
        assert known.next_after(START - timedelta(days=1)) == there
        assert any_of(trigger, daily_at("12:00")).with_zone("Europe/Istanbul").previous(there) == there
    assert once(local).expression() == f"@once {wall.isoformat()}"
    assert once(local).describe() == f"once at {wall}"
    assert once(local).with_zone("Europe/Istanbul").expression() == once(there).expression()


# ------------------------------------------------------------------ the calendar


@pytest.mark.req("TIM-1")
def test_calendar_triggers():
    assert texts(hourly_at(15), 2) == ["2026-01-01 00:15:00", "2026-01-01 01:15:00"]
    assert texts(daily_at("03:00:30"), 2) == ["2026-01-01 03:00:30", "2026-01-02 03:00:30"]
    assert texts(weekly_at("mon", "03:00"), 2) == ["2026-01-05 03:00:00", "2026-01-12 03:00:00"]
    assert texts(weekly_at(7, "03:00"), 2) == ["2026-01-04 03:00:00", "2026-01-11 03:00:00"]
    assert texts(monthly_at(15, "03:00"), 2) == ["2026-01-15 03:00:00", "2026-02-15 03:00:00"]


@pytest.mark.req("TIM-1")
@pytest.mark.parametrize(
    ("day", "if_short", "days"),
    [
        (31, "clamp", ["01-31", "02-28", "03-31", "04-30"]),
        (30, "clamp", ["01-30", "02-28", "03-30", "04-30"]),
        (29, "clamp", ["01-29", "02-28", "03-29", "04-29"]),
        (31, "skip", ["01-31", "03-31", "05-31", "07-31"]),
        (30, "skip", ["01-30", "03-30", "04-30", "05-30"]),
        (29, "skip", ["01-29", "03-29", "04-29", "05-29"]),
    ],
)
def test_short_months(day, if_short, days):
    assert [text[5:10] for text in texts(monthly_at(day, "03:00", if_short=if_short), 4)] == days


def test_a_leap_day_is_one_tick():
    found = texts(monthly_at(29, "03:00"), 3, datetime(2028, 1, 30, tzinfo=UTC))
    assert found == ["2028-02-29 03:00:00", "2028-03-29 03:00:00", "2028-04-29 03:00:00"]


@pytest.mark.req("REG-11")
@pytest.mark.parametrize(
    "make",
    [
        lambda: hourly_at(60),
        lambda: hourly_at(5, 60),
        lambda: hourly_at("5"),
        lambda: daily_at("25:00"),
        lambda: daily_at("03:00", tz="Europe/Nowhere"),
        lambda: weekly_at(8, "03:00"),
        lambda: weekly_at(0, "03:00"),
        lambda: monthly_at(0, "03:00"),
        lambda: monthly_at(32, "03:00"),
        lambda: monthly_at(31, "03:00", if_short="last"),
        lambda: any_of(),
        lambda: any_of("0 3 * * *"),
        lambda: any_of(every(hours=1, delay=True)),
        lambda: daily_at("03:00").excluding(),
        lambda: daily_at("03:00").excluding("christmas"),
        lambda: daily_at("03:00").excluding(5),
        lambda: decode_trigger({"kind": "cron", "expr": "0 25 * * *"}),
        lambda: decode_trigger({"kind": "weekly_at", "weekday": 9, "time": "03:00:00"}),
        lambda: decode_trigger({"kind": "daily_at", "time": "03:00:00", "tz": "Nowhere"}),
        lambda: decode_trigger({"kind": "sometimes"}),
        lambda: decode_trigger({}),
        lambda: decode_trigger({"kind": "any_of", "triggers": []}),
    ],
)
def test_invalid_triggers_fail_at_construction(make):
    with pytest.raises(InvalidValue):
        make()


@pytest.mark.req("TIM-4", "REG-11")
@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: daily_at("03:00", gap="later"), "gap"),
        (lambda: weekly_at(1, "03:00", overlap="third"), "overlap"),
        (lambda: monthly_at(1, "03:00", gap=None), "gap"),
    ],
)
def test_unknown_rules_for_changing_clocks_are_refused(make, field):
    with pytest.raises(InvalidValue) as caught:
        make()
    assert caught.value.field == field


def test_stored_errors_name_the_field():
    with pytest.raises(InvalidValue, match="cron hour: '25'"):
        decode_trigger({"kind": "cron", "expr": "0 25 * * *"})
    assert Cron("@daily").expr == "0 0 * * *"
