"""The next runs of a stored job, as its page lists them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainspring import daily_at, every
from mainspring.core.declaring.job_specs import job_spec
from mainspring.core.forecast.next_runs import clock_notes, next_runs
from mainspring.core.rules import job_commands, occurrences
from mainspring.model.job import Job, encode_spec
from mainspring.model.time.instants import to_micros

NOW = datetime(2026, 3, 27, 12, tzinfo=UTC)  # a Friday; clocks go forward on Sunday in Berlin
DAY = timedelta(days=1)


def _job(**options: Any) -> Job:
    spec = job_spec("work", None, options)
    at = to_micros(NOW)
    new = Job(name="work", id="0" * 36, declared=encode_spec(spec), anchor=at, created=at)
    write = job_commands.declare(None, new, at)
    assert write is not None
    return write.job


def _times(job: Job, count: int = 3) -> list[str]:
    return [f"{run.at:%d %H:%M}" if run.at else f"{run.tick:%d} skipped" for run in next_runs(job, count)]


@pytest.mark.req("DSH-1", "TIM-2")
def test_the_next_runs_are_those_of_the_schedule() -> None:
    assert _times(_job(trigger=daily_at("15:00"))) == ["27 15:00", "28 15:00", "29 15:00"]
    assert _times(_job(trigger=every(minutes=10, delay=True))) == ["27 12:10"]  # the next counts from its end
    assert _times(_job()) == []
    assert _times(_job(trigger=daily_at("15:00"), enabled=False)) == []


@pytest.mark.req("DSH-1", "TIM-4")
def test_runs_that_a_clock_change_moves_have_a_note() -> None:
    job = _job(cron="30 2 * * *", tz="Europe/Berlin")
    assert [(f"{run.at:%d %H:%M}", run.note) for run in next_runs(job, 3)] == [
        ("28 01:30", ""),
        ("29 01:00", "moved: 02:30 does not exist that day"),
        ("30 00:30", ""),
    ]
    spring, autumn = clock_notes(job, NOW)
    assert "clocks go forward" in spring.words
    assert (spring.affects, autumn.affects) == (True, True)
    assert [note.affects for note in clock_notes(_job(cron="0 12 * * *", tz="Europe/Berlin"), NOW)] == [False, False]
    assert clock_notes(_job(trigger=every(hours=1), tz="Europe/Berlin"), NOW) == []


@pytest.mark.req("DSH-1")
def test_runs_that_an_operator_skipped_or_moved_are_listed_with_who_did() -> None:
    job, now = _job(trigger=daily_at("15:00")), to_micros(NOW)
    job = occurrences.skip(job, "2026-03-28T15:00Z", now, "ada").job
    job = occurrences.move(job, "2026-03-29T15:00Z", "2026-04-20T06:00Z", now, "bob").job
    assert _times(job) == ["27 15:00", "28 skipped", "30 15:00", "31 15:00", "20 06:00"]
    assert [run.by for run in next_runs(job, 3)] == [None, "ada", None, None, "bob"]


@pytest.mark.req("DSH-1")
def test_a_paused_job_runs_again_after_the_end_of_its_pause() -> None:
    job, now = _job(trigger=daily_at("15:00")), to_micros(NOW)
    for_ever = job_commands.pause(job, now, by="ada", note=None, resume=None).job
    assert _times(for_ever) == []
    for_two_days = job_commands.pause(job, now, by="ada", note=None, resume=to_micros(NOW + 2 * DAY)).job
    assert _times(for_two_days, 2) == ["29 15:00", "30 15:00"]


@pytest.mark.req("DSH-1")
def test_hours_leave_out_runs_or_let_them_wait() -> None:
    skips = _job(cron="0 */6 * * *", hours="08:00-16:00")
    assert _times(skips) == ["28 12:00", "29 12:00", "30 12:00"]
    waits = _job(cron="0 */6 * * *", hours="08:00-16:00", outside="wait")
    assert [(f"{run.at:%d %H:%M}", f"{run.tick:%d %H:%M}", run.note) for run in next_runs(waits, 2)] == [
        ("28 08:00", "27 18:00", "waits for its hours"),
        ("28 12:00", "28 12:00", ""),
    ]
