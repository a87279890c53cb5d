"""Missed ticks that are caught up: which of them, when they become due, and what is recorded of the others."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring import CatchUp, InvalidValue, any_of, cron, daily_at, every
from mainspring.core.declaring.job_specs import edited_fields, job_spec
from mainspring.core.rules import job_commands, ticks
from mainspring.model.execution import ExecutionRow, State
from mainspring.model.job import Job, JobSpec, effective_spec, encode_spec
from mainspring.model.policies import as_catch_up
from mainspring.model.store.messages import JobWrite
from mainspring.model.time.instants import SECOND, Micros, seconds_to_micros, to_micros
from mainspring.model.triggers import Trigger, encode_trigger

START = datetime(2026, 1, 1, tzinfo=UTC)
CHANCE = random.Random(1)
DAY = 86_400
ALL = CatchUp("all", max_runs=50, pace="10s")


def at(seconds: float) -> Micros:
    return to_micros(START + timedelta(seconds=seconds))


def job(trigger: Trigger, **fields: Any) -> Job:
    spec = JobSpec(handler="h", trigger=encode_trigger(trigger), **fields)
    made = Job(name="j", id="i", version=4, declared=encode_spec(spec), anchor=at(0))
    assert made.trigger is not None
    return made.with_changes(next_run=ticks.first_run(made.trigger, at(0)))


def caught_up(write: JobWrite) -> list[ExecutionRow]:
    return [each for each in write.executions if each.trigger == "catch_up"]


def gaps(write: JobWrite) -> list[ExecutionRow]:
    return [each for each in write.executions if each.reason == "missed"]


# --- which ticks -------------------------------------------------------------------------------------------------


@pytest.mark.req("WIN-2")
def test_all_runs_every_missed_tick_in_order_at_its_pace() -> None:
    hourly = job(cron("0 * * * *"), missed=CatchUp("all", pace="10s"), window="previous_hour")
    write = ticks.materialise(hourly, at(5 * 3600 + 100), CHANCE)
    runs = caught_up(write)
    assert [each.tick for each in runs] == [at(hour * 3600) for hour in range(1, 6)]
    assert [each.due for each in runs] == [at(5 * 3600 + 100 + 10 * place) for place in range(5)]
    assert [each.window_begin for each in runs] == [at(hour * 3600) for hour in range(5)]
    assert gaps(write) == []
    assert (write.job.last_tick, write.job.next_run) == (at(5 * 3600), at(6 * 3600))


@pytest.mark.req("WIN-2")
def test_the_newest_run_and_the_rest_is_one_record() -> None:
    hourly = job(cron("0 * * * *"), missed=CatchUp("all", max_runs=2))
    write = ticks.materialise(hourly, at(5 * 3600 + 100), CHANCE)
    assert [each.tick for each in caught_up(write)] == [at(4 * 3600), at(5 * 3600)]
    [gap] = gaps(write)
    words = {"from": "2026-01-01T01:00:00+00:00", "to": "2026-01-01T03:00:00+00:00", "count": 3, "exact": True}
    assert {name: gap.metadata[name] for name in words} == words


@pytest.mark.req("WIN-2")
@pytest.mark.parametrize(
    ("rule", "runs", "missed"),
    [
        (CatchUp("all", max_age="2h30m"), [3, 4, 5], 2),
        (CatchUp("all", max_age="1m"), [], 5),
        (CatchUp("latest", max_age="10m"), [5], 4),
        (CatchUp("latest", max_age="1m"), [], 5),
    ],
)
def test_what_is_too_old_is_not_caught_up(rule: CatchUp, runs: list[int], missed: int) -> None:
    write = ticks.materialise(job(cron("0 * * * *"), missed=rule), at(5 * 3600 + 100), CHANCE)
    assert [each.tick for each in caught_up(write)] == [at(hour * 3600) for hour in runs]
    assert [gap.metadata["count"] for gap in gaps(write)] == [missed]


@pytest.mark.req("WIN-2")
def test_a_tick_within_the_grace_runs_at_once_beside_those_caught_up() -> None:
    write = ticks.materialise(job(cron("0 * * * *"), missed="all"), at(3 * 3600 + 5), CHANCE)
    assert [(each.trigger, each.tick) for each in write.executions] == [
        ("catch_up", at(3600)),
        ("catch_up", at(7200)),
        ("schedule", at(10_800)),
    ]


@pytest.mark.req("WIN-2")
def test_a_pause_is_caught_up_by_its_own_rule() -> None:
    paused = job(cron("0 * * * *"), missed_while_paused=CatchUp("all", max_runs=2)).with_changes(paused=at(60))
    write = ticks.resume(paused, at(4 * 3600 + 10), CHANCE)
    assert [each.tick for each in caught_up(write)] == [at(3 * 3600), at(4 * 3600)]
    [gap] = gaps(write)
    assert (gap.metadata["count"], gap.metadata["because"]) == (2, "the job was paused")
    assert (write.job.last_tick, write.job.next_run) == (at(4 * 3600), at(5 * 3600))


@pytest.mark.req("WIN-2", "WIN-8")
def test_a_pause_found_over_late_ends_when_it_was_to_end() -> None:
    """What came in the pause follows one rule, what came after it the other."""
    fields = {"missed_while_paused": "skip", "missed": "all"}
    paused = job(cron("0 * * * *"), **fields).with_changes(paused=at(60), resume=at(2 * 3600 + 60))
    write = ticks.materialise(paused, at(5 * 3600 + 100), CHANCE)
    [gap] = gaps(write)
    assert (gap.metadata["count"], gap.metadata["because"]) == (2, "the job was paused")
    assert [each.tick for each in caught_up(write)] == [at(hour * 3600) for hour in (3, 4, 5)]
    assert (write.job.paused, write.job.resume, write.job.next_run) == (None, None, at(6 * 3600))
    assert write.seen_version == 4
    assert not write.only_plan


@pytest.mark.req("WIN-2", "TIM-6")
def test_whoever_catches_up_makes_the_same_executions_and_nothing_is_left_to_repeat() -> None:
    away = job(cron("*/10 * * * *"), missed=ALL)
    first, second = (ticks.materialise(away, at(3600 * 5 + n), random.Random(n)) for n in (1, 2))
    assert [each.id for each in first.executions] == [each.id for each in second.executions]
    assert first.seen_version == second.seen_version
    assert ticks.ticks_due(first.job, at(3600 * 5 + 5)) == ticks.Due()


# --- bounded work ------------------------------------------------------------------------------------------------


class Counted(Trigger, frozen=True):
    """A trigger that counts how often it is asked."""

    base: Any

    @cached_property
    def calls(self) -> list[str]:
        return []

    def next_after(self, instant: datetime) -> datetime | None:
        self.calls.append("next")
        found: datetime | None = self.base.next_after(instant)
        return found

    def previous(self, instant: datetime) -> datetime | None:
        self.calls.append("previous")
        found: datetime | None = self.base.previous(instant)
        return found


def asked_of(away: Job, now: Micros) -> tuple[JobWrite, int]:
    counted = Counted(away.trigger)
    away.__dict__["trigger"] = counted
    return ticks.materialise(away, now, CHANCE), len(counted.calls)


RULES = ["skip", "latest", "all", ALL, CatchUp("all", max_age="7d", max_runs=1000), CatchUp("latest", max_age="1h")]


@pytest.mark.req("WIN-2")
@pytest.mark.parametrize("rule", RULES, ids=str)
def test_thirty_days_away_with_a_job_every_minute(rule: Any) -> None:
    """43,200 ticks: one record, a bounded list of runs, and no more work than for three days."""
    limits = as_catch_up(rule)
    months, asked = asked_of(job(cron("* * * * *"), missed=rule, grace=0.0), at(30 * DAY + 30))
    _, asked_before = asked_of(job(cron("* * * * *"), missed=rule, grace=0.0), at(3 * DAY + 30))
    assert len(gaps(months)) == 1
    assert len(caught_up(months)) == {"skip": 0, "latest": 1, "all": limits.max_runs}[limits.rule]
    assert (months.job.last_tick, months.job.next_run) == (at(30 * DAY), at(30 * DAY + 60))
    assert asked <= asked_before + 1
    assert asked <= ticks.COUNT_LIMIT + limits.max_runs + 20


TRIGGERS = [
    every(seconds=7),
    every(minutes=1),
    cron("*/5 * * * *"),
    cron("0 30 2 * * *", tz="Europe/Berlin"),
    daily_at("00:00", tz="Asia/Tokyo"),
    any_of(every(minutes=13), cron("*/20 * * * *")),
    cron("*/10 * * * *").excluding(cron("0 * * * *")),
]
catch_ups = st.one_of(
    st.sampled_from(["skip", "latest", "all"]),
    st.builds(CatchUp, st.just("latest"), max_age=st.integers(1, 2 * DAY)),
    st.builds(
        CatchUp,
        st.just("all"),
        max_age=st.one_of(st.none(), st.integers(1, 2 * DAY)),
        max_runs=st.integers(1, 120),
        pace=st.integers(0, 100),
    ),
)


@pytest.mark.req("WIN-2", "TIM-6")
@given(
    st.sampled_from(TRIGGERS),
    catch_ups,
    st.lists(st.integers(0, 2 * DAY), min_size=1, max_size=6),
    st.sampled_from([None, 0.0, 90.0]),
    st.booleans(),
)
def test_runs_and_the_records_of_gaps_partition_the_ticks(
    trigger: Trigger, rule: Any, looks: list[int], grace: float | None, paused: bool
) -> None:
    """Whatever the rule and however long the gaps: each tick runs once, or lies in one record, which counts it."""
    current, limits = job(trigger, missed=rule, missed_while_paused=rule, grace=grace), as_catch_up(rule)
    ran, recorded = set[Micros](), list[tuple[Micros, Micros, int, bool]]()
    for now in sorted(looks):
        if paused:
            current = current.with_changes(paused=at(0))
        elif current.due is None or current.due > at(now):
            continue
        write = ticks.resume(current, at(now), CHANCE) if paused else ticks.materialise(current, at(now), CHANCE)
        check_spacing(write, limits, at(now))
        new = [each.tick for each in write.executions if not each.state.final]
        assert not ran & set(new)
        ran |= set(new)
        recorded += [span_of(gap) for gap in gaps(write)]
        assert len(gaps(write)) <= 1
        current = write.job
    zoned = job(trigger).trigger
    assert zoned is not None
    every_tick = [to_micros(each) for each in zoned.ticks(START, START + timedelta(seconds=max(looks)))]
    spans = [[tick for tick in every_tick if first <= tick <= last] for first, last, _, _ in recorded]
    missed = [tick for span in spans for tick in span]
    assert len(missed) == len(set(missed))
    assert not ran & set(missed)
    assert ran | set(missed) == set(every_tick)
    for (first, last, count, exact), span in zip(recorded, spans, strict=True):
        assert (first, last) == (span[0], span[-1])
        assert count == len(span) if exact else count < len(span)


def check_spacing(write: JobWrite, limits: CatchUp, now: Micros) -> None:
    runs, pace = caught_up(write), seconds_to_micros(limits.seconds_between)
    assert len(runs) <= {"skip": 0, "latest": 1, "all": limits.max_runs}[limits.rule]
    assert [each.due for each in runs] == [now + place * pace for place in range(len(runs))]
    assert [each.tick for each in runs] == sorted(each.tick or 0 for each in runs)
    assert limits.age_limit is None or all(now - (each.tick or 0) <= limits.age_limit * SECOND for each in runs)


def span_of(gap: ExecutionRow) -> tuple[Micros, Micros, int, bool]:
    assert gap.state is State.SKIPPED
    first, last = (to_micros(datetime.fromisoformat(gap.metadata[name])) for name in ("from", "to"))
    return first, last, gap.metadata["count"], gap.metadata["exact"]


@pytest.mark.req("WIN-2")
def test_a_fixed_delay_has_nothing_to_catch_up() -> None:
    delayed = job(every(minutes=5, delay=True), missed="all")
    write = ticks.materialise(delayed, at(30 * DAY), CHANCE)
    assert [(each.trigger, each.tick) for each in write.executions] == [("schedule", at(300))]


# --- overlap -----------------------------------------------------------------------------------------------------


@pytest.mark.req("WIN-1", "WIN-2")
@pytest.mark.parametrize(
    ("policy", "key"),
    [
        ({"overlap": "skip"}, "i"),
        ({"overlap": "queue"}, "i"),
        ({"overlap": "cancel_running"}, "i"),
        ({"overlap": "allow"}, None),
        ({"overlap": "allow", "overlap_limit": 1}, "i"),
        ({"overlap": "allow", "overlap_limit": 3}, "i#0"),
    ],
)
def test_ticks_caught_up_take_the_key_of_their_job_only_when_they_are_picked_up(
    policy: dict[str, Any], key: str | None
) -> None:
    write = ticks.materialise(job(cron("0 * * * *"), missed="all", **policy), at(9_999), CHANCE)
    assert [(each.overlap_key, each.running_overlap_key) for each in write.executions] == [(None, key)] * 2
    assert all(each.staged is (key is not None) for each in write.executions)
    assert all(each.rules.overlap != "cancel_running" for each in write.executions)


# --- saying it ---------------------------------------------------------------------------------------------------


@pytest.mark.req("WIN-2")
def test_a_rule_is_stored_with_its_limits_and_a_plain_one_as_its_name() -> None:
    limited = CatchUp("all", max_age="7d", max_runs=50, pace=timedelta(seconds=10))  # type: ignore[arg-type]
    spec = job_spec("h", None, {"cron": "@daily", "missed": limited, "missed_while_paused": CatchUp("latest")})
    text = encode_spec(spec)
    stored = msgspec.json.decode(text)
    assert stored["missed"] == {"rule": "all", "max_age": 604_800.0, "max_runs": 50, "pace": 10.0}
    assert stored["missed_while_paused"] == "latest"
    assert effective_spec(text, "{}") == spec
    newer = '{"missed":{"rule":"all","max_runs":7,"mood":"new"},"missed_while_paused":"latest"}'
    assert effective_spec(text, newer).missed == CatchUp("all", max_runs=7)


@pytest.mark.req("WIN-2")
def test_an_operator_may_edit_a_rule_and_take_it_back() -> None:
    declared = job_spec("h", None, {"cron": "@daily", "missed": CatchUp("all", max_runs=5)})
    existing = Job(name="j", id="i", version=1, declared=encode_spec(declared))
    for asked in ("latest", CatchUp("all", pace="1m"), {"rule": "all", "max_age": "2d"}):
        edited = job_commands.override(existing, edited_fields(existing.spec, None, {"missed": asked}), at(0)).job
        assert as_catch_up(edited.spec.missed) == (CatchUp(**asked) if isinstance(asked, dict) else as_catch_up(asked))
        same = edited_fields(edited.spec, None, {"missed": CatchUp("all", max_runs=5)})
        assert job_commands.override(edited, same, at(0)).job.changed_fields == {}


@pytest.mark.req("WIN-2")
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: job_spec("h", None, {"missed": "lates"}), "missed: 'lates'"),
        (lambda: job_spec("h", None, {"missed_while_paused": {"max_runs": 3}}), "rule is missing"),
        (lambda: job_spec("h", None, {"missed": {"rule": "all", "runs": 3}}), "there is no 'runs'"),
        (lambda: CatchUp("none"), "catch_up.rule: 'none'"),  # type: ignore[arg-type]
        (lambda: CatchUp("all", max_runs=0), "catch_up.max_runs: 0"),
        (lambda: CatchUp("all", max_age="soon"), "catch_up.max_age: 'soon'"),
        (lambda: CatchUp("all", pace=-1), "catch_up.pace: -1"),
        (lambda: CatchUp("latest", max_runs=3), "Use 'all', or leave it out"),
        (lambda: CatchUp("skip", max_age="1d"), "Use 'latest' or 'all', or leave it out"),
    ],
)
def test_a_wrong_rule_is_refused_in_words(make: Any, words: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        make()
    assert words in str(refused.value)
