"""The pieces of a timeline: runs to come of a stored job, and bars that become one."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest

from mainspring.core.forecast import ticks
from mainspring.core.forecast.forecast import change_forecasts
from mainspring.core.forecast.ticks import ticks_of
from mainspring.core.forecast.timeline import (
    HOUR,
    LAID_OUT,
    MOST_BARS,
    OVERLAPS,
    PLANNED,
    Bar,
    Future,
    TimelineRow,
    coarser,
    forecast_of,
    goes_on,
    merged,
)
from mainspring.model.job import Job, JobSpec, encode_spec
from mainspring.model.time.instants import SECOND, Micros, to_micros
from mainspring.model.triggers import Trigger, any_of, cron, daily_at, every
from mainspring.model.triggers.codec import encode_trigger

NOW = to_micros(datetime(2026, 3, 28, 12, tzinfo=UTC))
END = NOW + 24 * HOUR


def _job(trigger: Trigger, next_run: Micros = NOW, name: str = "report", **fields: Any) -> Job:
    spec = JobSpec(handler="report", trigger=encode_trigger(trigger), **fields)
    return Job(name=name, id=name, declared=encode_spec(spec), anchor=next_run, created=NOW, next_run=next_run)


def _future(*jobs: Job, takes: float | None = None) -> Future:
    future = Future(NOW, END)
    for job in jobs:
        future.add(forecast_of(job, NOW, END, takes, {}))
    return future


@pytest.mark.req("DSH-1")
def test_runs_to_come_begin_with_the_stored_next_run() -> None:
    later = NOW + 17 * 60 * SECOND  # an interval counts from its anchor, not from now
    [*bars] = _future(_job(every(hours=1), later), takes=60.0).bars["report"]
    assert len(bars) == 24
    assert (bars[0].begin, bars[0].end) == (later, later + 60 * SECOND)
    assert bars[1].begin == later + HOUR
    assert {bar.outcome for bar in bars} == {PLANNED}


@pytest.mark.req("SEC-2")
@pytest.mark.parametrize(
    "trigger",
    [
        cron("0-15 * * * * *"),
        cron("0-15 * * * * mon"),
        cron("*/4 * * * * *").jitter("3s"),
        cron("* * * * * *").excluding("2026-03-29", cron("7 * * * * *")),
        any_of(*(daily_at(f"{number:02}:30") for number in range(24)), every(minutes=7)),
        every(seconds=0.5),
        daily_at("02:30"),
    ],
    ids=["seconds", "mondays", "jitter", "excluding", "any_of", "interval", "daily"],
)
def test_the_first_ticks_of_a_month_are_laid_out_without_the_others(
    trigger: Trigger, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, end = _job(trigger, tz="Europe/Berlin", params={"a": 1}), NOW + 31 * 24 * HOUR
    every_tick = ticks_of(job, NOW, end, 0, Random(0))
    laid_out: list[int] = []
    lay_out = ticks._in_steady_time

    def counted(trigger: Trigger, begin: Micros, end: Micros) -> Any:
        laid_out.append(len(found := lay_out(trigger, begin, end) or ()))
        return found

    monkeypatch.setattr(ticks, "_in_steady_time", counted)
    assert ticks_of(job, NOW, end, 0, Random(0), most=LAID_OUT) == every_tick[:LAID_OUT]
    assert max(laid_out, default=0) < 10 * LAID_OUT


@pytest.mark.req("DSH-1")
def test_a_job_that_ticks_all_the_time_becomes_one_band_to_the_end() -> None:
    found = forecast_of(_job(every(seconds=1)), NOW, NOW + 72 * HOUR, 0.1, {})
    assert len(found.ticks) == LAID_OUT
    assert goes_on(found)
    future = Future(NOW, NOW + 72 * HOUR)
    future.add(found)
    [band] = future.bars["report"]
    assert (band.begin, band.end, band.count) == (NOW, NOW + 72 * HOUR, LAID_OUT)
    each_second = forecast_of(_job(cron("* * * * * *")), NOW, END, None, {})
    assert len(each_second.ticks) == LAID_OUT
    assert not goes_on(forecast_of(_job(cron("*/5 * * * *")), NOW, END, None, {}))


@pytest.mark.req("DSH-1")
def test_runs_that_would_overlap_are_bars_of_their_own() -> None:
    future = _future(_job(cron("*/30 * * * *"), overlap="skip"), takes=2_000.0)
    assert future.forecasts["report"].overlaps.count("skipped") == 24
    assert {bar.outcome for bar in future.bars["report"]} == {PLANNED, OVERLAPS}


@pytest.mark.req("DSH-1")
def test_minutes_in_which_many_jobs_begin_are_found() -> None:
    three = NOW + 15 * HOUR
    nightly = [_job(cron("0 3 * * *"), three, f"nightly-{n}") for n in range(5)]
    dense = _job(every(seconds=2), NOW, "dense")  # alone, it is no crowd
    [crowd] = _future(*nightly, dense).crowds()
    assert (crowd.at, len(crowd.jobs)) == (three, 5)
    assert _future(*nightly[:4], dense).crowds() == ()


@pytest.mark.req("DSH-1")
def test_clock_changes_say_what_they_do_to_which_job() -> None:
    berlin = _job(cron("30 2 * * *", tz="Europe/Berlin"), NOW + 13 * HOUR, "prices", tz="Europe/Berlin")
    found = list(_future(berlin, _job(cron("0 3 * * *"), NOW + 15 * HOUR)).forecasts.values())
    [change] = change_forecasts(found, NOW, END)
    assert change.zone == "Europe/Berlin"
    assert list(change.jobs) == ["prices"]
    assert "02:30" in change.jobs["prices"]


@pytest.mark.req("DSH-1")
def test_bars_join_their_neighbours_until_they_are_few() -> None:
    bars = [Bar(n * 100, n * 100 + 10, "failed" if n % 10 == 0 else "completed", 1, str(n)) for n in range(200)]
    apart = merged(bars, 1, most=1_000)
    assert [bar.id for bar in apart] == [bar.id for bar in bars]
    few = merged(bars, 1)
    assert len(few) <= MOST_BARS
    fewer = coarser(TimelineRow(name="report", past=few)).past
    assert len(fewer) <= len(few) // 2
    for outcome, count in (("failed", 20), ("completed", 180)):
        assert sum(bar.count for bar in few if bar.outcome == outcome) == count
        assert sum(bar.count for bar in fewer if bar.outcome == outcome) == count
