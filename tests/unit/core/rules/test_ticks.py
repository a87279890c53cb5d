"""What is due, what is missed, what comes next: pure functions on a job and the store's time."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring import any_of, cron, daily_at, every, once
from mainspring.core.rules import ticks
from mainspring.model.execution import State
from mainspring.model.job import Job, JobSpec, encode_spec
from mainspring.model.time.instants import SECOND, Micros, to_micros
from mainspring.model.triggers import Trigger, encode_trigger

START = datetime(2026, 1, 1, tzinfo=UTC)
CHANCE = random.Random(1)


def at(seconds: float) -> Micros:
    return to_micros(START + timedelta(seconds=seconds))


def job(trigger: Trigger | None, next_run: Micros | None = None, **fields: object) -> Job:
    spec = JobSpec(handler="h", trigger=None if trigger is None else encode_trigger(trigger), **fields)
    made = Job(name="j", id="i", version=4, declared=encode_spec(spec), anchor=at(0))
    planned = ticks.first_run(made.trigger, at(0)) if made.trigger else None
    return made.with_changes(next_run=planned if next_run is None else next_run)


@pytest.mark.req("TIM-6")
def test_a_tick_is_one_compare_and_set_with_an_id_of_its_own() -> None:
    minutely = job(every(minutes=1))
    first, second = (ticks.materialise(minutely, at(60.5), random.Random(n)) for n in (1, 2))
    assert first.seen_version == 4
    assert [e.id for e in first.executions] == [e.id for e in second.executions]
    assert (first.executions[0].tick, first.job.next_run, first.job.last_tick) == (at(60), at(120), at(60))


@pytest.mark.req("WIN-2")
def test_late_within_the_grace_runs_and_beyond_it_is_missed() -> None:
    hourly = job(cron("0 * * * *"))
    within = ticks.materialise(hourly, at(3660), CHANCE)
    beyond = ticks.materialise(hourly, at(3661), CHANCE)
    assert [e.state for e in within.executions] == [State.PENDING]
    assert [(e.state, e.reason) for e in beyond.executions] == [(State.SKIPPED, "missed")]
    assert beyond.job.next_run == at(7200)


@pytest.mark.req("WIN-2")
@pytest.mark.parametrize("rule", ["skip", "latest"])
def test_thirty_days_away_with_a_job_every_minute(rule: str) -> None:
    """One record for the gap, one run for the tick that is still within the grace, and no walk over 43,200 ticks."""
    away = 30 * 86_400 + 70
    gap, run = ticks.materialise(job(cron("* * * * *"), missed=rule), at(away), CHANCE).executions
    assert (gap.state, gap.reason, run.state, run.tick) == (State.SKIPPED, "missed", State.PENDING, at(away - 10))
    assert (gap.metadata["from"], gap.metadata["exact"]) == ("2026-01-01T00:01:00+00:00", False)
    assert gap.metadata["count"] >= ticks.COUNT_LIMIT


@pytest.mark.req("WIN-2")
def test_latest_runs_the_last_missed_tick_once() -> None:
    daily = job(daily_at("00:00"), missed="latest")
    write = ticks.materialise(daily, at(3 * 86_400 + 7200), CHANCE)
    gap, run = write.executions
    assert (gap.state, gap.metadata["count"], gap.metadata["exact"]) == (State.SKIPPED, 2, True)
    assert (run.state, run.trigger, run.tick) == (State.PENDING, "catch_up", at(3 * 86_400))


@pytest.mark.req("WIN-2")
def test_a_grace_longer_than_the_period_runs_every_tick_in_it() -> None:
    write = ticks.materialise(job(every(seconds=10), grace=60.0), at(45), CHANCE)
    assert [e.tick for e in write.executions] == [at(10), at(20), at(30), at(40)]


@pytest.mark.req("TIM-1")
def test_once_in_the_past_is_judged_by_the_grace() -> None:
    past = job(once(START - timedelta(seconds=30)))
    assert past.next_run == at(-30)
    write = ticks.materialise(past, at(0), CHANCE)
    assert ([e.state for e in write.executions], write.job.next_run) == ([State.PENDING], None)


@pytest.mark.req("TIM-1")
def test_fixed_delay_waits_for_the_end_of_its_run() -> None:
    delayed = job(every(minutes=5, delay=True))
    write = ticks.materialise(delayed, at(9_999), CHANCE)
    assert ([e.state for e in write.executions], write.job.next_run) == ([State.PENDING], None)
    planned = ticks.after_delay(write.job, at(10_500))
    assert planned is not None
    assert planned.job.next_run == at(10_800)
    assert ticks.after_delay(planned.job, at(10_500)) is None


@pytest.mark.req("WIN-2", "EXE-1")
def test_a_pause_has_its_own_rule_for_missed_ticks() -> None:
    paused = job(cron("0 * * * *")).with_changes(paused=at(60), resume=at(7000))
    skipped = ticks.materialise(paused, at(7190), CHANCE)
    assert (skipped.job.paused, skipped.job.next_run) == (None, at(7200))
    assert [e.metadata["because"] for e in skipped.executions] == ["the job was paused"]
    latest = job(cron("0 * * * *"), missed_while_paused="latest").with_changes(paused=at(60))
    caught = ticks.resume(latest, at(7300), CHANCE)
    assert [(e.trigger, e.tick) for e in caught.executions if not e.state.final] == [("catch_up", at(7200))]


@pytest.mark.req("WIN-3")
def test_a_tick_carries_its_window() -> None:
    hourly = job(cron("5 * * * *"), window="previous_hour")
    (run,) = ticks.materialise(hourly.with_changes(next_run=at(7500)), at(7500), CHANCE).executions
    assert (run.window_begin, run.window_end) == (at(3600), at(7200))


@pytest.mark.req("TIM-6", "WIN-2")
@given(
    st.integers(1, 120),
    st.lists(st.integers(0, 900), min_size=1, max_size=20),
    st.sampled_from(["skip", "latest"]),
    st.sampled_from([None, 0.0, 7.0, 300.0]),
)
def test_runs_and_gaps_partition_the_ticks(period: int, looks: list[int], rule: str, grace: float | None) -> None:
    """However late and irregular the looks, each tick is run or missed exactly once."""
    current = job(every(seconds=period), missed=rule, grace=grace)
    ran: list[Micros] = []
    missed = 0
    for now in sorted(looks):
        if current.due is None or current.due > at(now):
            continue
        write = ticks.materialise(current, at(now), CHANCE)
        ran += [e.tick for e in write.executions if not e.state.final]
        missed += sum(e.metadata["count"] for e in write.executions if e.state is State.SKIPPED)
        current = write.job
    assert len(ran) == len(set(ran))
    assert all((tick - at(0)) % (period * SECOND) == 0 for tick in ran)
    assert len(ran) + missed == max(looks) // period


def test_a_gap_record_holds_no_key() -> None:
    write = ticks.materialise(job(cron("0 * * * *"), overlap="skip"), at(9_999), CHANCE)
    assert [(e.overlap_key, e.staged) for e in write.executions] == [(None, False)]
    assert msgspec.json.decode(write.executions[0].metadata_json or "{}")["count"] == 2


TRIGGERS = [
    cron("* * * * *"),
    cron("0,1 * * * * *"),
    cron("*/7 * * * * *", tz="America/New_York"),
    cron("0 30 2 * * *", tz="Europe/Berlin"),
    daily_at("00:00", tz="Asia/Tokyo"),
    every(seconds=1),
    every(seconds=0.25),
    every(hours=5),
    once(START + timedelta(seconds=7)),
    any_of(every(seconds=0.4), cron("* * * * *")),
    cron("*/5 * * * * *").excluding(cron("0 * * * * *")),
]


@pytest.mark.req("WIN-2", "TIM-5")
@given(
    st.sampled_from(TRIGGERS),
    st.one_of(st.integers(0, 2 * SECOND), st.integers(0, 90 * SECOND), st.integers(0, 3 * 86_400 * SECOND)),
    st.sampled_from([None, 0.0, 0.5, 30.0]),
    st.sampled_from([0, 1, 250_000]),
)
def test_the_short_way_to_a_tick_that_has_just_come_gives_what_the_long_way_gives(
    trigger: Trigger, late: Micros, grace: float | None, off: Micros
) -> None:
    planned = job(trigger, grace=grace)
    assert planned.next_run is not None
    due = planned.with_changes(next_run=planned.next_run + off)  # off the grid, as after a change of the trigger
    now = due.next_run + late
    assert ticks._due_and_next(due, now) == (ticks.ticks_due(due, now), ticks._next(due.trigger, now))
