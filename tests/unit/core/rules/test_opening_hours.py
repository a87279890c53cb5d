"""Ticks of jobs with hours: what happens, what waits, what is missed. Pure functions, stepped through time."""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from mainspring import CatchUp, Hours, cron, daily_at, every, once
from mainspring.core.rules import job_commands, opening_hours, ticks
from mainspring.model.calendars.calendar import Calendar, calendar
from mainspring.model.calendars.hours import encode_hours
from mainspring.model.events import OutsideHours
from mainspring.model.execution import ExecutionRow, State
from mainspring.model.job import Job, JobSpec, encode_spec
from mainspring.model.time.instants import SECOND, Micros, to_datetime, to_micros
from mainspring.model.triggers import Trigger, encode_trigger
from mainspring.observe.logs.lines import LogLines

START = datetime(2026, 1, 5, tzinfo=UTC)  # a Monday
CHANCE = random.Random(1)
MINUTE, HOUR, DAY = 60, 3_600, 86_400
OFFICE = Hours("09:00-17:00", days="mon-fri")


def at(seconds: float) -> Micros:
    return to_micros(START + timedelta(seconds=seconds))


def job(trigger: Trigger, hours: Hours | None = OFFICE, next_run: Micros | None = None, **fields: Any) -> Job:
    plain = None if hours is None else encode_hours(hours)
    spec = JobSpec(handler="h", trigger=encode_trigger(trigger), hours=plain, **fields)
    made = Job(name="j", id="i", version=4, declared=encode_spec(spec), anchor=at(0))
    assert made.trigger is not None
    planned = ticks.first_run(made.trigger, at(-1)) if next_run is None else next_run
    return made.with_changes(next_run=planned)


class Walk:
    """A job under a scheduler that looks at these instants."""

    def __init__(self, made: Job, **calendars: Any) -> None:
        self.job = made
        self.calendars: dict[str, Calendar] = {name: calendar(name, given) for name, given in calendars.items()}
        self.made: list[ExecutionRow] = []
        self.told: list[OutsideHours] = []

    def look(self, *instants: float) -> Walk:
        for seconds in instants:
            while self.job.due is not None and self.job.due <= at(seconds):
                news = opening_hours.closed_event(self.job, self.calendars, at(seconds))
                self.told += [] if news is None else [news]
                write = ticks.materialise(self.job, at(seconds), CHANCE, self.calendars)
                assert write.job != self.job
                self.job = write.job
                self.made += write.executions
        return self

    def runs(self) -> list[tuple[float, float]]:
        """Tick and due time of each, in hours since the start."""
        made = [each for each in self.made if each.state is State.PENDING]
        return [(_hours(each.tick), _hours(each.due)) for each in made]

    def gaps(self) -> list[ExecutionRow]:
        return [each for each in self.made if each.state is not State.PENDING]


def _hours(instant: Micros | None) -> float:
    assert instant is not None
    return round((instant - at(0)) / SECOND / HOUR, 3)


def every_minute(days: float) -> Iterable[float]:
    return range(0, int(days * DAY), MINUTE)


# --- skip ---------------------------------------------------------------------------------------------------------


@pytest.mark.req("WIN-8")
def test_ticks_outside_the_hours_do_not_happen_and_leave_no_record() -> None:
    walk = Walk(job(cron("*/30 * * * *"))).look(*every_minute(7))
    expected = [day * 24 + 9 + half / 2 for day in range(5) for half in range(16)]
    assert walk.runs() == [(hour, hour) for hour in expected]
    assert walk.gaps() == []


@pytest.mark.req("WIN-8")
def test_each_closing_is_told_of_once() -> None:
    walk = Walk(job(cron("* * * * *"))).look(*every_minute(2))
    assert [(event.job, event.by, event.waits) for event in walk.told] == [("j", "its hours", False)] * 3
    assert [_hours(event.until) for event in walk.told] == [9.0, 33.0, 57.0]


def test_the_plan_stays_the_triggers_own() -> None:
    """So that a calendar that changes needs no planning anew: what is due is judged when it comes."""
    walk = Walk(job(cron("* * * * *"), Hours(closed="freeze")), freeze=["2026-01-05"]).look(60)
    assert (walk.job.next_run, walk.job.last_tick, walk.made) == (at(120), at(60), [])
    walk.calendars = {"freeze": calendar("freeze", [])}
    assert len(walk.look(120).made) == 1


def test_the_end_of_a_range_is_outside_and_its_begin_inside() -> None:
    assert Walk(job(daily_at("17:00"))).look(*every_minute(1)).runs() == []
    assert Walk(job(daily_at("09:00"))).look(*every_minute(1)).runs() == [(9.0, 9.0)]


def test_a_one_shot_outside_its_hours_is_over() -> None:
    walk = Walk(job(once("2026-01-05T03:00:00Z"), missed="latest")).look(3 * HOUR)
    assert (walk.made, walk.job.next_run) == ([], None)


def test_a_fixed_delay_outside_its_hours_goes_on() -> None:
    """Nothing ends that could plan its next run, so the next one is planned at once."""
    walk = Walk(job(every(minutes=10, delay=True), next_run=at(8 * HOUR + 55 * MINUTE)))
    walk.look(8 * HOUR + 55 * MINUTE)
    assert (walk.made, walk.job.next_run) == ([], at(9 * HOUR + 5 * MINUTE))
    walk.look(9 * HOUR + 5 * MINUTE)
    assert (len(walk.made), walk.job.next_run) == (1, None)


# --- wait ---------------------------------------------------------------------------------------------------------


@pytest.mark.req("WIN-8")
@pytest.mark.parametrize("overlap", ["skip", "queue", "allow", "cancel_running"])
def test_the_first_tick_of_a_closing_waits_and_the_others_do_not_happen(overlap: str) -> None:
    walk = Walk(job(cron("*/30 * * * *"), outside="wait", overlap=overlap)).look(*every_minute(7))
    waiting = [run for run in walk.runs() if run[0] != run[1]]
    assert waiting == [(0.0, 9.0), (17.0, 33.0), (41.0, 57.0), (65.0, 81.0), (89.0, 105.0), (113.0, 177.0)]
    assert len(walk.runs()) == 6 + 5 * 16
    (friday,) = [each for each in walk.made if each.tick == at(113 * HOUR)]
    assert (friday.overlap_key, friday.staged) == ("i:waiting", True)
    assert friday.running_overlap_key == (None if overlap == "allow" else "i")
    assert [event.waits for event in walk.told] == [True] * 6


def test_what_waits_keeps_the_id_and_the_window_of_its_tick() -> None:
    plain = Walk(job(daily_at("03:00"), None, window="yesterday")).look(3 * HOUR).made[0]
    held = Walk(job(daily_at("03:00"), window="yesterday", outside="wait")).look(3 * HOUR).made[0]
    assert (held.id, held.window_begin, held.window_end) == (plain.id, plain.window_begin, plain.window_end)
    assert (plain.due, held.due) == (at(3 * HOUR), at(9 * HOUR))


def test_a_tick_that_waits_is_not_late_however_long_nobody_looked() -> None:
    night = Walk(job(daily_at("03:00"), outside="wait")).look(8 * HOUR)
    assert (night.runs(), night.gaps()) == ([(3.0, 9.0)], [])
    just_opened = Walk(job(daily_at("03:00"), outside="wait")).look(9 * HOUR + 30)
    assert (just_opened.runs(), just_opened.gaps()) == ([(3.0, 9.0)], [])


def test_a_tick_whose_opening_was_missed_follows_the_rule_for_missed_ones() -> None:
    skipped = Walk(job(daily_at("03:00"), outside="wait")).look(11 * HOUR)
    assert (skipped.runs(), [each.reason for each in skipped.gaps()]) == ([], ["missed"])
    latest = Walk(job(daily_at("03:00"), outside="wait", missed="latest")).look(11 * HOUR)
    assert (latest.runs(), latest.gaps()) == ([(3.0, 11.0)], [])


def test_a_job_that_never_opens_waits_for_nothing() -> None:
    walk = Walk(job(daily_at("03:00"), Hours(only="days"), outside="wait"), days=["2020-01-01"]).look(3 * HOUR)
    assert (walk.made, walk.told[0].until, walk.told[0].waits) == ([], None, False)


def test_a_fixed_delay_waits_once_and_its_end_plans_the_next() -> None:
    walk = Walk(job(every(minutes=10, delay=True), next_run=at(HOUR), outside="wait")).look(HOUR)
    assert (walk.runs(), walk.job.next_run) == ([(1.0, 9.0)], None)
    following = ticks.after_delay(walk.job, at(9 * HOUR + 5))
    assert following is not None
    assert following.job.next_run == at(9 * HOUR + 5 + 600)


def test_a_job_made_while_closed_waits_with_its_own_first_tick() -> None:
    sunday = 6 * DAY
    walk = Walk(job(daily_at("03:00"), next_run=at(sunday + 3 * HOUR), outside="wait")).look(sunday + 3 * HOUR)
    assert walk.runs() == [(147.0, 177.0)]


# --- missed ticks -------------------------------------------------------------------------------------------------


@pytest.mark.req("WIN-8", "WIN-2")
def test_ticks_outside_the_hours_are_not_missed() -> None:
    nobody = Walk(job(cron("0 * * * *"), missed="latest")).look(8 * HOUR + 1_800)
    assert nobody.made == []
    two_days = Walk(job(cron("0 * * * *"), missed="skip")).look(48 * HOUR + 1_800)
    (gap,) = two_days.gaps()
    assert (gap.metadata["count"], gap.metadata["exact"], gap.metadata["to"]) == (16, True, "2026-01-06T16:00:00+00:00")


def test_what_is_caught_up_while_closed_waits_for_the_opening() -> None:
    walk = Walk(job(cron("0 * * * *"), missed="latest")).look(20 * HOUR + 1_800)
    assert walk.runs() == [(16.0, 33.0)]
    paced = Walk(job(cron("0 * * * *"), missed=CatchUp("all", max_runs=3, pace="1h"))).look(20 * HOUR + 1_800)
    assert paced.runs() == [(14.0, 33.0), (15.0, 34.0), (16.0, 35.0)]


def test_thirty_days_away_cost_little_and_leave_one_record() -> None:
    walk = Walk(job(cron("* * * * *"), missed="latest")).look(30 * DAY + 10 * HOUR)
    (gap,) = walk.gaps()
    assert (gap.metadata["count"], gap.metadata["exact"]) == (1_000, False)
    assert walk.runs()[-1] == (30 * 24 + 10.0, 30 * 24 + 10.0)


def test_a_pause_counts_only_what_would_have_happened() -> None:
    paused = job(cron("0 * * * *"), missed_while_paused="latest").with_changes(paused=at(0))
    write = job_commands.resume(paused, at(20 * HOUR + 1), CHANCE)
    gap, run = write.executions
    assert (gap.metadata["count"], run.tick, run.due) == (7, at(16 * HOUR), at(33 * HOUR))
    assert write.job.next_run == at(21 * HOUR)


def test_an_edit_of_the_plan_makes_nothing_outside_the_hours() -> None:
    before = job(cron("0 * * * *"))
    edited = job_commands.override(before, {"trigger": encode_trigger(cron("5 * * * *"))}, at(3 * HOUR + 1))
    closed = job_commands.close_old_schedule(before, edited, at(3 * HOUR + 1), CHANCE)
    assert (closed.executions, closed.job.next_run) == ((), at(3 * HOUR + 300))


@settings(max_examples=15, deadline=None, phases=[phase for phase in Phase if phase is not Phase.shrink])
@given(
    st.sampled_from(["skip", "wait"]),
    st.sampled_from(["*/20 * * * *", "7 * * * *", "0 3,12,18 * * *", "0 0 * * *"]),
    st.lists(st.integers(1, 6 * 24 * 12), min_size=1, max_size=12, unique=True),
    st.sampled_from(
        [OFFICE, Hours("22:00-06:00", days="fri-sun"), Hours(closed="some"), Hours("08:00-12:00", only="some")]
    ),
    st.sampled_from([None, 7_200.0, 86_400.0]),
)
def test_whenever_schedulers_look_every_open_tick_is_made_or_told_as_missed_once(
    outside: str, expression: str, gone: list[int], hours: Hours, grace: float | None
) -> None:
    """Nobody looks for random stretches. Against a plain walk over all ticks and minutes of six days."""
    walk = Walk(
        job(cron(expression), hours, outside=outside, grace=grace, missed=CatchUp("all", max_runs=1_000)),
        some=["2026-01-06/2026-01-07", "2026-01-09T10:00/2026-01-09T20:00"],
    )
    away = {number for start in gone for number in range(start, start + 40)}
    walk.look(*[number * 300 for number in range(6 * 24 * 12) if number not in away], 6 * DAY)
    trigger = walk.job.trigger
    assert trigger is not None
    door = opening_hours.open_hours(walk.job, walk.calendars)
    assert door is not None
    expected, closing_seen = [], False
    minute_open = {n: door.is_open(to_datetime(at(n * MINUTE))) for n in range(6 * 24 * 60 + 1)}
    all_ticks = {to_micros(tick) for tick in trigger.ticks(to_datetime(at(-1)), to_datetime(at(6 * DAY)), 10_000)}
    for n, is_open in minute_open.items():
        closing_seen = closing_seen and not is_open
        waits = outside == "wait" and not closing_seen
        if at(n * MINUTE) not in all_ticks or not (is_open or waits):
            continue
        if door.next_open(to_datetime(at(n * MINUTE))) is not None:
            expected.append(at(n * MINUTE))
            closing_seen = not is_open
    made = [each.tick for each in walk.made]
    assert walk.gaps() == []
    assert sorted(tick for tick in made if tick is not None) == expected
    assert all(door.is_open(to_datetime(each.due)) for each in walk.made if each.trigger == "schedule")


# --- words --------------------------------------------------------------------------------------------------------


def test_why_a_job_is_closed_and_when_it_runs_next() -> None:
    closed = job(cron("0 * * * *"), Hours("09:00-17:00", closed="freeze"), next_run=at(HOUR))
    calendars = {"freeze": calendar("freeze", ["2026-01-05"])}
    found = opening_hours.closing(closed, calendars, at(10 * HOUR))
    assert found is not None
    assert found.words() == "closed until 2026-01-06 09:00 UTC, by calendar freeze"
    assert opening_hours.closing(closed, {"freeze": calendar("freeze", [])}, at(10 * HOUR)) is None
    assert opening_hours.closing(job(cron("0 * * * *"), None), {}, at(0)) is None
    assert opening_hours.next_open_run(closed, calendars) == to_datetime(at(33 * HOUR))
    waits = job(daily_at("03:00"), outside="wait")
    assert opening_hours.next_open_run(waits, {}) == to_datetime(at(9 * HOUR))
    assert opening_hours.next_open_run(job(daily_at("03:00")), {}) is None


def test_the_first_tick_of_a_closing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "mainspring"):
        LogLines()(OutsideHours("mail", at(9 * HOUR), "calendar holidays", False))
        LogLines()(OutsideHours("mail", None, "its hours", True))
    assert [record.getMessage() for record in caplog.records] == [
        'job_outside_hours job=mail until=2026-01-05T09:00:00+00:00 closed_by="calendar holidays"',
        'job_waits_for_hours job=mail closed_by="its hours"',
    ]
