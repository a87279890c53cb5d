"""The states of a job, the command table, and what commands write."""

from __future__ import annotations

import random

import pytest

from mainspring.core.rules import job_commands
from mainspring.model.errors import CommandRefused, InvalidValue
from mainspring.model.execution import State
from mainspring.model.job import Job, JobSpec, JobState, JobStats, LiveCounts, encode_spec
from mainspring.model.time.instants import SECOND
from mainspring.model.triggers import cron, encode_trigger, every, once

NOW = 1_000 * SECOND


def job(trigger: object = None, **fields: object) -> Job:
    encoded = None if trigger is None else encode_trigger(trigger)
    declared = encode_spec(JobSpec(handler="h", trigger=encoded, **fields))
    write = job_commands.declare(None, Job(name="j", id="i", declared=declared, anchor=NOW, created=NOW), NOW)
    assert write is not None
    return write.job.with_changes(version=1)


def stats(last: State | None) -> JobStats | None:
    return None if last is None else JobStats(job_id="i", last_id="e", last_state=last)


RECURRING = job(every(minutes=5))
ON_DEMAND = job()
ONE_SHOT = ON_DEMAND.with_changes(origin="api")


@pytest.mark.req("EXE-1")
@pytest.mark.parametrize(
    ("made", "live", "last", "state"),
    [
        (ON_DEMAND, LiveCounts(), None, "pending"),
        (ON_DEMAND, LiveCounts(pending=1), State.COMPLETED, "pending"),
        (ON_DEMAND, LiveCounts(), State.COMPLETED, "completed"),
        (ON_DEMAND, LiveCounts(), State.PARTIAL, "completed"),
        (ON_DEMAND, LiveCounts(), State.FAILED, "failed"),
        (ON_DEMAND, LiveCounts(running=1), State.FAILED, "running"),
        (ON_DEMAND, LiveCounts(waiting=1), None, "running"),
        (RECURRING, LiveCounts(), State.FAILED, "scheduled"),
        (RECURRING, LiveCounts(running=1), None, "running"),
        (RECURRING.with_changes(paused=NOW), LiveCounts(running=1), None, "running"),
        (RECURRING.with_changes(paused=NOW), LiveCounts(), None, "paused"),
        (RECURRING.with_changes(cancelled=NOW), LiveCounts(running=1), None, "cancelled"),
        (job(every(minutes=5), enabled=False), LiveCounts(), None, "pending"),
    ],
)
def test_the_state_is_derived_first_match_wins(made: Job, live: LiveCounts, last: State | None, state: str) -> None:
    assert job_commands.job_state(made, live, stats(last)) == state


TABLE = {
    "pending": "pause trigger cancel",
    "scheduled": "pause trigger cancel retry",
    "running": "pause trigger cancel",
    "paused": "resume trigger cancel retry",
    "completed": "trigger",
    "failed": "trigger retry",
    "cancelled": "reactivate",
}


@pytest.mark.req("EXE-1", "API-4")
@pytest.mark.parametrize("state", list(JobState))
@pytest.mark.parametrize("command", ["pause", "resume", "trigger", "cancel", "retry", "reactivate"])
def test_the_command_table(state: JobState, command: str) -> None:
    if command in TABLE[state].split():
        job_commands.check(command, ONE_SHOT, state, State.FAILED)
    else:
        with pytest.raises(
            CommandRefused, match=f"cannot {command} job 'j': it is {state}; {command} is possible when"
        ):
            job_commands.check(command, ONE_SHOT, state, State.FAILED)


@pytest.mark.req("EXE-1", "QUE-1")
def test_a_job_of_code_that_runs_on_demand_can_be_paused_at_any_time() -> None:
    for state in ("pending", "running", "completed", "failed"):
        job_commands.check("pause", ON_DEMAND, JobState(state))
    assert job_commands.always_allowed("pause", ON_DEMAND)
    with pytest.raises(CommandRefused, match="it is paused"):
        job_commands.check("pause", ON_DEMAND.with_changes(paused=NOW), JobState.PAUSED)


@pytest.mark.req("EXE-1")
def test_a_retry_needs_a_failed_run() -> None:
    with pytest.raises(CommandRefused, match="last run completed"):
        job_commands.check("retry", RECURRING, JobState.SCHEDULED, State.COMPLETED)


@pytest.mark.req("EXE-1", "API-4")
def test_resume_replans_the_next_run() -> None:
    paused = job_commands.pause(RECURRING, NOW, by="ada", note="deploy", resume=None).job
    assert (paused.paused_by, paused.pause_note, paused.due, paused.next_run_at) == ("ada", "deploy", None, None)
    resumed = job_commands.resume(paused, NOW + 1_000 * SECOND, random.Random(1)).job
    assert (resumed.paused, resumed.next_run) == (None, NOW + 1_200 * SECOND)


@pytest.mark.req("EXE-1")
def test_cancel_and_reactivate() -> None:
    cancelled = job_commands.cancel(RECURRING, NOW).job
    assert (cancelled.due, cancelled.sweep) == (None, True)
    active = job_commands.reactivate(cancelled, NOW + 60 * SECOND).job
    assert (active.cancelled, active.due) == (None, NOW + 300 * SECOND)


@pytest.mark.req("EXE-1")
@pytest.mark.parametrize(
    ("made", "runs_again"),
    [
        (ON_DEMAND, True),  # a job of code that waits to be enqueued
        (job(every(minutes=5), enabled=False), True),
        (job(None, after=("other",)).with_changes(origin="api"), True),
        (ON_DEMAND.with_changes(origin="api"), False),  # created over HTTP to run once
        (job(every(minutes=5), enabled=False).with_changes(origin="api"), False),
        (job(once(1_500)).with_changes(last_tick=1_500 * SECOND), False),
    ],
)
def test_a_one_shot_that_cannot_run_again_is_not_reactivated(made: Job, runs_again: bool) -> None:
    cancelled = job_commands.cancel(made, NOW).job
    if runs_again:
        assert job_commands.reactivate(cancelled, NOW).job.cancelled is None
    else:
        with pytest.raises(CommandRefused, match="runs once and has no further run: it is cancelled"):
            job_commands.reactivate(cancelled, NOW)


@pytest.mark.req("REG-8")
def test_an_unchanged_declaration_touches_nothing() -> None:
    assert job_commands.declare(RECURRING, RECURRING.with_changes(anchor=NOW + 99), NOW + 99) is None


@pytest.mark.req("REG-8")
def test_a_changed_trigger_is_planned_anew_and_other_changes_keep_the_plan() -> None:
    later = NOW + 60 * SECOND
    faster = job_commands.declare(RECURRING, job(every(minutes=1)), later)
    assert faster is not None
    assert (faster.seen_version, faster.job.next_run, faster.job.id) == (1, later + 60 * SECOND, RECURRING.id)
    queued = job_commands.declare(RECURRING, job(every(minutes=5), queue="slow"), later)
    assert queued is not None
    assert (queued.job.next_run, queued.job.anchor) == (RECURRING.next_run, RECURRING.anchor)


@pytest.mark.req("REG-10")
def test_an_operators_edit_survives_a_deploy_and_can_be_reverted() -> None:
    edited = job_commands.override(RECURRING, {"trigger": encode_trigger(cron("0 3 * * *")), "queue": "slow"}, NOW).job
    assert edited.changed_fields.keys() == {"trigger", "queue"}
    deployed = job_commands.declare(edited, job(every(minutes=7), queue="default"), NOW)
    assert deployed is not None
    assert deployed.job.spec.queue == "slow"
    assert deployed.job.trigger.expression() == cron("0 3 * * *").expression()
    reverted = job_commands.revert(deployed.job, NOW).job
    assert (reverted.changed_fields, reverted.spec.queue) == ({}, "default")
    assert reverted.next_run == NOW + 420 * SECOND


@pytest.mark.req("REG-10")
def test_an_edit_back_to_the_declared_value_is_no_override() -> None:
    edited = job_commands.override(RECURRING, {"queue": "slow", "priority": 5}, NOW).job
    assert job_commands.override(edited, {"queue": "default"}, NOW).job.changed_fields == {"priority": 5}


def test_an_edit_that_gives_no_valid_job_is_refused() -> None:
    with pytest.raises(InvalidValue, match="priority"):
        job_commands.override(RECURRING, {"priority": "high"}, NOW)
