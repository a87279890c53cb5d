"""Spreading jobs that are due at the same second: by the name of the job, in order, the same everywhere (TIM-8)."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.rules.ticks import first_run, materialise
from mainspring.model.errors import InvalidValue
from mainspring.model.job import Job, JobSpec, encode_spec
from mainspring.model.time.instants import to_datetime, to_micros
from mainspring.model.triggers import any_of, cron, daily_at, decode_trigger, encode_trigger, every, hourly_at, once

START = datetime(2026, 1, 1, tzinfo=UTC)
MICRO = timedelta(microseconds=1)
BASES = [
    daily_at("03:00", tz="Australia/Lord_Howe"),
    hourly_at(0, tz="America/New_York"),
    cron("*/5 * * * *"),
    every(seconds=1, start=START),
    any_of(daily_at("03:00"), every(hours=7)),
    daily_at("03:00").excluding("2026-01-05"),
]
names = st.text(max_size=20)
moments = st.datetimes(datetime(2026, 1, 2), datetime(2027, 1, 1)).map(lambda at: at.replace(tzinfo=UTC))


@given(st.sampled_from(BASES), names, st.floats(0.001, 200_000), st.booleans(), moments)
@pytest.mark.req("TIM-8")
def test_ticks_keep_their_order_and_never_reach_the_next(base, name, within, each_tick, at):
    trigger = (base.jitter(within) if each_tick else base.spread(within)).named(name)
    tick = base.next_after(at)
    for _ in range(5):
        following = base.next_after(tick)
        late = trigger.previous(following - MICRO)
        assert tick <= late < following
        assert late - tick <= timedelta(seconds=within)
        assert trigger.previous(late) == late
        assert trigger.next_after(late - MICRO) == late
        assert trigger.next_after(trigger.previous(late - MICRO)) == late
        tick = following


@given(st.sampled_from(BASES), names, st.floats(0.001, 200_000), st.booleans(), moments, st.integers(0, 10_000))
@pytest.mark.req("TIM-8")
def test_counting_agrees_with_the_ticks(base, name, within, each_tick, begin, seconds):
    trigger = (base.jitter(within) if each_tick else base.spread(within)).named(name)
    end = begin + timedelta(seconds=seconds)
    assert trigger.count_between(begin, end, 20_000) == (len(list(trigger.ticks(begin, end))), True)


@pytest.mark.req("TIM-8")
def test_the_place_follows_from_the_name_and_is_the_same_every_day():
    ticks = list(daily_at("03:00").spread("10m").named("report").ticks(START, START + timedelta(days=4)))
    assert {tick.time() for tick in ticks} == {ticks[0].time()}
    assert [str(tick.time()) for tick in ticks[:1]] == ["03:01:26.949000"]  # on every machine, in every release


@pytest.mark.req("TIM-8")
def test_jitter_is_another_place_each_time_and_the_same_when_asked_again():
    trigger = daily_at("03:00").jitter("10m").named("report")
    ticks = list(trigger.ticks(START, START + timedelta(days=20)))
    assert len({tick.time() for tick in ticks}) == 20
    assert ticks == list(trigger.ticks(START, START + timedelta(days=20)))


@pytest.mark.req("TIM-8")
def test_a_thousand_jobs_of_one_second_are_spread_evenly():
    trigger = cron("0 * * * *").spread("1m")
    ticks = sorted(trigger.named(f"job-{n}").next_after(START + timedelta(minutes=1)) for n in range(1_000))
    seconds = [tick.second for tick in ticks]
    assert max(seconds.count(second) for second in range(60)) < 40  # about 17 each
    assert all(START + timedelta(hours=1) <= tick < START + timedelta(hours=1, minutes=1) for tick in ticks)


@pytest.mark.req("TIM-8")
def test_a_job_fills_in_its_name():
    spec = JobSpec(handler="work", trigger=encode_trigger(daily_at("03:00").spread("1h")), tz="Europe/Istanbul")
    jobs = [Job(name=name, id=name, declared=encode_spec(spec)) for name in ("a", "b")]
    ticks = [job.trigger.next_after(START) for job in jobs]
    assert ticks[0] != ticks[1]
    assert jobs[0].trigger == daily_at("03:00", tz="Europe/Istanbul").spread("1h").named("a")


@pytest.mark.req("TIM-8")
def test_the_scheduler_makes_one_execution_at_the_late_tick():
    spec = JobSpec(handler="work", trigger=encode_trigger(daily_at("03:00").spread("1h")))
    job = Job(name="a", id="a", declared=encode_spec(spec))
    first = first_run(job.trigger, to_micros(START))
    assert START + timedelta(hours=3) < to_datetime(first) < START + timedelta(hours=4)
    write = materialise(job.with_changes(next_run=first), first + 1_000, Random(1))
    assert [execution.tick for execution in write.executions] == [first]
    assert to_datetime(write.job.next_run) == to_datetime(first) + timedelta(days=1)


@pytest.mark.req("TIM-8")
def test_it_is_part_of_the_stored_form():
    trigger = hourly_at(5).jitter("90s").named("x")
    data = json.loads(json.dumps(encode_trigger(trigger)))
    assert data == {
        "kind": "spread",
        "base": {"kind": "hourly_at", "minute": 5},
        "seconds": 90.0,
        "each_tick": True,
        "name": "x",
    }
    assert decode_trigger(data) == trigger
    assert decode_trigger(encode_trigger(daily_at("03:00").spread(60))) == daily_at("03:00").spread("1m")


def test_words():
    assert daily_at("03:00").spread("10m").describe() == "daily at 03:00, spread over 10 minutes"
    assert daily_at("03:00").jitter("1h").describe() == "daily at 03:00, each time up to 1 hour later"
    assert daily_at("03:00").spread("90s").expression() == "0 0 3 * * * spread 1m30s"


def test_zone_and_anchor_reach_the_base():
    assert daily_at("03:00").spread("1m").with_zone("Asia/Tokyo") == daily_at("03:00", tz="Asia/Tokyo").spread("1m")
    assert every(hours=1).spread("1m").anchored(START) == every(hours=1, start=START).spread("1m")
    assert daily_at("03:00").named("x") == daily_at("03:00")


def test_a_single_tick_is_put_off_too():
    trigger = once(START).spread("1h").named("x")
    tick = trigger.next_after(START - MICRO)
    assert START < tick < START + timedelta(hours=1)
    assert to_datetime(trigger.only_tick_micros()) == tick
    assert trigger.next_after(tick) is None
    assert daily_at("03:00").spread("1h").only_tick_micros() is None


@pytest.mark.req("REG-11")
@pytest.mark.parametrize(
    "make",
    [
        lambda: daily_at("03:00").spread(0),
        lambda: daily_at("03:00").spread("soon"),
        lambda: every(hours=1, delay=True).spread("1m"),
        lambda: daily_at("03:00").spread("1m").spread("1m"),
        lambda: any_of(daily_at("03:00").spread("1m")),
        lambda: daily_at("03:00").spread("1m").excluding("2026-01-01"),
        lambda: decode_trigger({"kind": "spread", "base": {"kind": "hourly_at", "minute": 5}, "seconds": -1}),
    ],
)
def test_what_cannot_be_spread_is_refused(make):
    with pytest.raises(InvalidValue):
        make()
