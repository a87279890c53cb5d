"""Single occurrences that are skipped or moved: pure functions on a job and the store's time."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring import Hours, InvalidValue, cron, every, once
from mainspring.core.rules import job_commands, occurrences, ticks
from mainspring.model.calendars.hours import encode_hours
from mainspring.model.execution import State
from mainspring.model.job import Job, JobSpec, encode_spec
from mainspring.model.time.instants import Micros, to_datetime, to_micros
from mainspring.model.triggers import Trigger, encode_trigger
from mainspring.model.values.ids import tick_id

START = datetime(2026, 1, 1, tzinfo=UTC)
CHANCE = random.Random(1)
HOUR = 3600


def at(seconds: float) -> Micros:
    return to_micros(START + timedelta(seconds=seconds))


def when(hours: float) -> datetime:
    return START + timedelta(hours=hours)


def job(trigger: Trigger | None = None, **fields: Any) -> Job:
    trigger = trigger or cron("0 * * * *")
    spec = JobSpec(handler="h", trigger=encode_trigger(trigger), **fields)
    made = Job(name="j", id="i", version=4, declared=encode_spec(spec), anchor=at(0))
    return job_commands._with_next_run(made, at(0))


def skipped(existing: Job, hour: float, now: float = 0) -> Job:
    return occurrences.skip(existing, when(hour), at(now), "ada").job


def moved(existing: Job, hour: float, to: float, now: float = 0) -> Job:
    return occurrences.move(existing, when(hour), when(to), at(now), "ada").job


def looked_at(existing: Job, hour: float) -> tuple[list[tuple[Any, ...]], Job]:
    """What a scheduler makes of the job at that time: (hour of the tick, hour it is due, state, reason)."""
    write = ticks.materialise(existing, at(hour * HOUR), CHANCE)
    found = [(_hour(e.tick), _hour(e.due), e.state.value, e.reason or e.trigger) for e in write.executions]
    return found, write.job.with_changes(version=write.job.version + 1)


def _hour(micros: Micros | None) -> float:
    assert micros is not None
    return (micros - at(0)) / (HOUR * 1_000_000)


@pytest.mark.req("WIN-8")
def test_a_skipped_occurrence_leaves_a_record_and_the_schedule_goes_on() -> None:
    hourly = skipped(job(), 2)
    assert [hourly.next_run, hourly.due] == [at(HOUR)] * 2
    made, hourly = looked_at(hourly, 1)
    assert made == [(1, 1, "pending", "schedule")]
    assert (hourly.next_run, hourly.due, hourly.next_run_at) == (at(3 * HOUR), at(2 * HOUR), when(3))
    write = ticks.materialise(hourly, at(2 * HOUR), CHANCE)
    [record] = write.executions
    assert (record.id, record.state, record.reason) == (tick_id("i", at(2 * HOUR)), State.SKIPPED, "occurrence")
    assert (record.triggered_by, record.metadata, record.overlap_key) == ("ada", {"by": "ada"}, None)
    assert (write.job.occurrences, write.job.overrides, write.job.next_run) == ((), "{}", at(3 * HOUR))
    assert not write.only_plan  # the exception is gone from the row, not only the plan moved on


@pytest.mark.req("WIN-8", "TIM-6")
def test_an_occurrence_moved_to_a_later_time_runs_there_while_others_go_on() -> None:
    hourly = moved(job(window="previous_hour"), 2, 4.5)
    runs = []
    for hour in (1, 3, 4, 4.5, 5):
        assert hourly.due == at(hour * HOUR)
        made, hourly = looked_at(hourly, hour)
        runs += [(tick, due) for tick, due, _, _ in made]
    assert runs == [(1, 1), (3, 3), (4, 4), (2, 4.5), (5, 5)]
    assert hourly.occurrences == ()


@pytest.mark.req("WIN-8", "TIM-6")
def test_an_occurrence_moved_to_an_earlier_time_runs_once() -> None:
    hourly = moved(job(window="previous_hour"), 3, 0.5)
    assert hourly.next_run_at == when(0.5)
    write = ticks.materialise(hourly, at(0.5 * HOUR), CHANCE)
    [run] = write.executions
    assert (run.id, run.tick, run.due) == (tick_id("i", at(3 * HOUR)), at(3 * HOUR), at(0.5 * HOUR))
    assert (run.window_begin, run.window_end) == (at(2 * HOUR), at(3 * HOUR))
    hourly, runs = write.job, []
    for hour in (1, 2, 4):
        assert hourly.due == at(hour * HOUR)
        made, hourly = looked_at(hourly, hour)
        runs += made
    assert [tick for tick, *_ in runs] == [1, 2, 4]
    assert hourly.occurrences == ()


@pytest.mark.req("WIN-8")
def test_restoring_brings_it_back() -> None:
    for changed in (skipped(job(), 1), moved(job(), 1, 0.5), moved(job(), 1, 7)):
        restored = occurrences.restore(changed, when(1), at(60)).job
        assert (restored.occurrences, restored.next_run, restored.due) == ((), at(HOUR), at(HOUR))
    again = moved(skipped(job(), 2), 2, 5)
    assert [(each.at, each.moved_to) for each in again.occurrences] == [(when(2), when(5))]
    by_new_time = moved(again, 5, 6)
    assert [(each.at, each.moved_to) for each in by_new_time.occurrences] == [(when(2), when(6))]


@pytest.mark.req("WIN-8")
def test_a_single_instant_can_be_moved() -> None:
    launch = moved(job(once(when(2))), 2, 30)
    assert (launch.next_run, launch.due) == (None, at(30 * HOUR))
    assert job_commands.job_state(launch, None, None) == "scheduled"
    made, launch = looked_at(launch, 30)
    assert (made, launch.due) == ([(2, 30, "pending", "schedule")], None)
    cancelled = skipped(job(once(when(2))), 2)
    made, cancelled = looked_at(cancelled, 2)
    assert (made, cancelled.due) == ([(2, 2, "skipped", "occurrence")], None)


@pytest.mark.req("WIN-8", "WIN-2")
@pytest.mark.parametrize(
    ("rule", "outcome"), [("skip", ("skipped", "missed")), ("latest", ("pending", "catch_up")), ("all", None)]
)
def test_a_moved_occurrence_found_too_late_is_missed_like_any_tick(rule: str, outcome: Any) -> None:
    made, _ = looked_at(moved(job(cron("0 0 * * *"), missed=rule), 24, 2), 5)
    assert [tuple(each[2:]) for each in made] == [outcome or ("pending", "catch_up")]
    assert made[0][0] == 24
    daily = moved(job(cron("0 0 * * *"), missed_while_paused=rule), 24, 2).with_changes(paused=at(60))
    paused = ticks.resume(daily, at(5 * HOUR), CHANCE)
    assert [(e.state.value, e.reason or e.trigger) for e in paused.executions] == [outcome or ("pending", "catch_up")]


@pytest.mark.req("WIN-8")
def test_a_gap_does_not_count_what_was_skipped_or_moved() -> None:
    hourly = moved(skipped(job(), 2), 3, 20)
    made, hourly = looked_at(hourly, 6.5)
    assert made[0][2:] == ("skipped", "missed")
    assert made[1:] == [(2, 2, "skipped", "occurrence")]
    write = ticks.materialise(moved(skipped(job(), 2), 3, 20), at(6.5 * HOUR), CHANCE)
    assert write.executions[0].metadata["count"] == 4  # 1, 4, 5 and 6
    assert [each.at for each in hourly.occurrences] == [when(3)]


@pytest.mark.req("WIN-8")
def test_edits_and_deploys_keep_what_was_said_of_single_occurrences() -> None:
    hourly = moved(skipped(job(), 2), 3, 20)
    edited = job_commands.override(hourly, {"queue": "slow"}, at(60)).job
    assert (edited.changed_fields, edited.occurrences) == ({"queue": "slow"}, hourly.occurrences)
    assert edited.spec.queue == "slow"
    assert job_commands.revert(edited, at(60)).job.occurrences == hourly.occurrences
    deployed = job_commands.declare(edited, job(queue="fast"), at(60))
    assert deployed is not None
    assert deployed.job.occurrences == hourly.occurrences


@pytest.mark.req("WIN-8")
def test_a_new_schedule_keeps_what_it_has_and_what_is_owed() -> None:
    hourly = moved(skipped(skipped(moved(job(), 1, 30), 4), 5), 6, 0.5)
    _, hourly = looked_at(hourly, 0.5)
    now = at(1.5 * HOUR)
    even = {"trigger": encode_trigger(cron("0 */2 * * *"))}
    changed = job_commands.close_old_schedule(hourly, job_commands.override(hourly, even, now), now, CHANCE).job
    kept = [(each.at, each.moved_to, each.done) for each in changed.occurrences]
    assert kept == [(when(1), when(30), False), (when(4), None, False), (when(6), when(0.5), True)]
    assert changed.next_run == at(2 * HOUR)
    on_demand = job_commands.override(hourly, {"trigger": None}, now).job
    assert on_demand.occurrences == ()


@pytest.mark.req("WIN-8")
def test_a_change_of_the_schedule_first_makes_what_has_come() -> None:
    hourly, now = moved(job(), 3, 0.5), at(0.5 * HOUR)
    even = {"trigger": encode_trigger(cron("0 */3 * * *"))}
    write = job_commands.close_old_schedule(hourly, job_commands.override(hourly, even, now), now, CHANCE)
    assert [e.tick for e in write.executions] == [at(3 * HOUR)]
    assert write.job.next_run == at(6 * HOUR)


@pytest.mark.req("WIN-8")
@pytest.mark.parametrize(
    ("do", "words"),
    [
        (lambda: skipped(job(), 1.5), "nearest are 2026-01-01T01:00:00Z, 2026-01-01T02:00:00Z, 2026-01-01T03:00:00Z"),
        (lambda: skipped(job(), 0), "nearest are 2026-01-01T01:00:00Z"),
        (lambda: moved(job(), 1, 1), "another time than its own"),
        (lambda: moved(job(), 1, -1), "an instant in the future"),
        (lambda: skipped(job(every(hours=1, delay=True)), 1), "counts from the end of each run"),
        (lambda: occurrences.restore(job(), when(1), at(0)), "skipped or moved: there is none"),
        (lambda: occurrences.restore(moved(job(), 1, 9), when(1), at(2 * HOUR)), "move it to another one, or skip it"),
        (lambda: skipped(looked_at(moved(job(), 3, 0.5), 0.5)[1], 3, now=HOUR), "has run"),
    ],
)
def test_what_cannot_be_done_is_refused_in_words(do: Any, words: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        do()
    assert words in str(refused.value)


@pytest.mark.req("WIN-8")
def test_no_job_has_more_exceptions_than_a_bounded_number() -> None:
    minutely = job(every(minutes=1))
    for number in range(occurrences.MOST):
        minutely = occurrences.skip(minutely, START + timedelta(minutes=number + 1), at(0), "ada").job
    with pytest.raises(InvalidValue, match="at most 100 exceptions"):
        skipped(minutely, 10)


def test_times_without_an_offset_are_those_of_the_job() -> None:
    berlin = job(cron("0 3 * * *"), tz="Europe/Berlin")
    assert [each.at for each in occurrences.skip(berlin, "2026-01-02T03:00", at(0), "ada").job.occurrences] == [
        datetime(2026, 1, 2, 2, tzinfo=UTC)
    ]
    spread = job(cron("0 3 * * *").spread("10m"))
    assert spread.next_run is not None
    shown = to_datetime(spread.next_run).replace(microsecond=0)
    assert occurrences.skip(spread, shown, at(0), "ada").job.occurrences[0].tick == spread.next_run


@pytest.mark.req("WIN-8")
def test_the_hours_of_a_job_do_not_hold_back_what_was_moved() -> None:
    office = job(hours=encode_hours(Hours("09:00-17:00")))
    office, runs = moved(skipped(office, 11), 10, 3.5), []
    for hour in (3.5, *range(1, 13)):
        if office.due is not None and office.due <= at(hour * HOUR):
            made, office = looked_at(office, hour)
            runs += made
    ran = [(tick, due) for tick, due, state, _ in runs if state == "pending"]
    assert ran == [(10, 3.5), (9, 9), (12, 12)]
    assert [(tick, reason) for tick, _, state, reason in runs if state == "skipped"] == [(11, "occurrence")]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("look"), st.integers(1, 90)),
        st.tuples(st.just("look"), st.integers(60, 400)),
        st.tuples(st.just("skip"), st.integers(1, 30)),
        st.tuples(st.just("restore"), st.integers(1, 30)),
        st.tuples(st.just("move"), st.integers(1, 30), st.integers(-1_000, -1)),
        st.tuples(st.just("move"), st.integers(1, 30), st.integers(-300, 900)),
        st.tuples(st.just("pause"), st.integers(0, 100)),
        st.tuples(st.just("jump back"), st.integers(1, 200)),
    ),
    min_size=10,
    max_size=40,
)


@pytest.mark.req("WIN-8", "TIM-6", "TIM-7")
@given(STEPS, st.sampled_from(["skip", "latest", "all"]), st.sampled_from([None, 0.0, 1_000.0]))
def test_each_tick_comes_to_exactly_one_end(steps: list[Any], rule: Any, grace: float | None) -> None:
    """Whatever is skipped, moved and restored, whenever schedulers look, and even when the store's clock is set back:
    every tick has one execution, one record of its own, or a place in one record of a gap."""
    current, now, ends = job(every(minutes=1), missed=rule, missed_while_paused=rule, grace=grace), 0, Counter[Micros]()

    def look(existing: Job) -> Job:
        if existing.due is None or existing.due > at(now):
            return existing
        write = ticks.materialise(existing, at(now), CHANCE)
        excepted = {each.tick for each in existing.occurrences}
        for each in write.executions:
            assert each.tick is not None
            if each.reason == "missed":
                first, last = (to_micros(datetime.fromisoformat(each.metadata[name])) for name in ("from", "to"))
                span = range(first, last + 1, 60_000_000)
                lone = first == last and first in excepted
                counted = [tick for tick in span if lone or tick not in excepted]
                assert each.metadata["count"] == len(counted)
                ends.update(counted)
            else:
                ends[each.tick] += 1
        return write.job

    for step, *values in [*steps, ("look", 40 * 60)]:
        try:
            match step:
                case "look":
                    now += values[0]
                    current = look(current)
                case "skip":
                    current = occurrences.skip(current, when(values[0] / 60), at(now), "ada").job
                case "restore":
                    current = occurrences.restore(current, when(values[0] / 60), at(now)).job
                case "move":
                    tick, to = when(values[0] / 60), when(values[0] / 60) + timedelta(seconds=values[1])
                    current = occurrences.move(current, tick, to, at(now), "ada").job
                case "pause" if current.paused is None:
                    current = job_commands.pause(current, at(now), by="ada", note=None, resume=at(now + values[0])).job
                case "jump back":
                    now = max(0, now - values[0])
        except InvalidValue:
            continue
    assert current.due is not None
    while current.due <= at(now):
        current = look(current)
    owed = {each.tick for each in current.occurrences if not each.done}
    for number in range(1, now // 60 + 1):
        tick = at(number * 60)
        if tick not in owed:
            assert ends[tick] == 1, (number, ends[tick])
    assert max(ends.values(), default=1) == 1
