"""Commands on jobs: the state of a job, which commands it allows, and the write that each command makes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ...model.calendars.calendar import Calendar
from ...model.errors import CommandRefused
from ...model.execution import State
from ...model.job import Job, JobSpec, JobState, JobStats, LiveCounts, Origin, effective_spec, encode_spec
from ...model.occurrences import write_overrides
from ...model.store.messages import JobFacts, JobWrite
from ...model.time.instants import Micros
from ...model.values.ids import Chance
from ...model.values.reading import SYSTEM_PREFIX
from . import ticks
from .occurrences import that_still_hold, with_occurrences
from .opening_hours import NONE
from .secret_params import mask_fields_pair, union

_PLAIN = JobSpec(handler="x")

ALLOWED: dict[str, frozenset[JobState]] = {
    "pause": frozenset({JobState.SCHEDULED, JobState.RUNNING}),
    "resume": frozenset({JobState.PAUSED}),
    "cancel": frozenset({JobState.PENDING, JobState.SCHEDULED, JobState.RUNNING, JobState.PAUSED}),
    "reactivate": frozenset({JobState.CANCELLED}),
    "trigger": frozenset(JobState) - {JobState.CANCELLED},
    "retry": frozenset({JobState.SCHEDULED, JobState.PAUSED, JobState.FAILED}),
    **dict.fromkeys(
        ("skip_occurrence", "move_occurrence", "restore_occurrence"),
        frozenset({JobState.SCHEDULED, JobState.RUNNING, JobState.PAUSED}),
    ),
}


def job_state(job: Job, live: LiveCounts | None, stats: JobStats | None) -> JobState:
    """The first match wins: cancelled, running, paused, scheduled; otherwise the newest execution decides."""
    live = live or LiveCounts()
    if job.cancelled is not None:
        return JobState.CANCELLED
    if live.running or live.waiting:
        return JobState.RUNNING
    if job.paused is not None:
        return JobState.PAUSED
    if job.due is not None:
        return JobState.SCHEDULED
    if live.pending or stats is None:
        return JobState.PENDING
    return _from_last(stats.last_state)


def _from_last(last: State | None) -> JobState:
    match last:
        case State.COMPLETED | State.PARTIAL:
            return JobState.COMPLETED
        case State.FAILED:
            return JobState.FAILED
        case _:
            return JobState.PENDING


_FOUND_COMPLETED = frozenset({State.COMPLETED, State.PARTIAL})
_FOUND_FAILED = frozenset({State.FAILED})
_FOUND_PENDING: frozenset[State | None] = frozenset({None, *State}) - _FOUND_COMPLETED - _FOUND_FAILED


def facts_of(state: JobState) -> tuple[JobFacts, ...]:
    """What a store searches for to find the jobs in this state: `job_state` gives it where one of these holds."""
    running = JobFacts(cancelled=False, active=True)
    idle = JobFacts(cancelled=False, active=False)
    on_demand = msgspec.structs.replace(idle, paused=False, planned=False)
    ended = msgspec.structs.replace(on_demand, pending=False)
    match state:
        case JobState.CANCELLED:
            return (JobFacts(cancelled=True),)
        case JobState.RUNNING:
            return (running,)
        case JobState.PAUSED:
            return (msgspec.structs.replace(idle, paused=True),)
        case JobState.SCHEDULED:
            return (msgspec.structs.replace(idle, paused=False, planned=True),)
        case JobState.PENDING:
            waits = msgspec.structs.replace(on_demand, pending=True)
            return waits, msgspec.structs.replace(ended, last=_FOUND_PENDING)
        case JobState.COMPLETED:
            return (msgspec.structs.replace(ended, last=_FOUND_COMPLETED),)
        case JobState.FAILED:
            return (msgspec.structs.replace(ended, last=_FOUND_FAILED),)


def tag_of(job: Job) -> str:
    """Names one version of one incarnation: every write gives another tag."""
    return f"{job.id[-12:]}-{job.version}"


def always_allowed(command: str, job: Job) -> bool:
    """Whether the row alone permits a command, whatever executions the job has."""
    return all(_seen_by(command, job, state) in ALLOWED[command] for state in _possible_states(job))


def _possible_states(job: Job) -> frozenset[JobState]:
    """What `job_state` can say of this row."""
    if job.cancelled is not None:
        return frozenset({JobState.CANCELLED})
    if job.paused is not None:
        return frozenset({JobState.RUNNING, JobState.PAUSED})
    if job.due is not None:
        return frozenset({JobState.RUNNING, JobState.SCHEDULED})
    return frozenset({JobState.RUNNING, JobState.PENDING, JobState.COMPLETED, JobState.FAILED})


def check(command: str, job: Job, state: JobState, last: State | None = None) -> None:
    """Refuse a command that the state of the job does not permit, naming both."""
    allowed, state = ALLOWED[command], _seen_by(command, job, state)
    if state not in allowed:
        raise CommandRefused(command, state, sorted(allowed), f"job {job.name!r}")
    if command == "retry" and last is not State.FAILED:
        subject = f"job {job.name!r}"
        raise CommandRefused("retry", f"{state} and its last run {last or 'has not ended'}", ["failed"], subject)


def _seen_by(command: str, job: Job, state: JobState) -> JobState:
    """The state that a command goes by. A job that is paused while it runs counts as paused; a job that comes after
    others is never over, because the other jobs are its schedule; neither is one that is enqueued on demand."""
    idle = state in (JobState.PENDING, JobState.COMPLETED, JobState.FAILED)
    if idle and (job.spec.after or (command == "pause" and _waits_when_paused(job, state))):
        return JobState.SCHEDULED
    if command in ("pause", "resume") and state is JobState.RUNNING and job.paused is not None:
        return JobState.PAUSED
    return state


def _waits_when_paused(job: Job, state: JobState) -> bool:
    """A job of code that runs on demand can be paused at any time, one created over HTTP until its only run is over."""
    return job.on_demand and (job.origin == "code" or state is JobState.PENDING)


def _refuse_own(command: str, job: Job) -> None:
    """Without its own jobs Mainspring would send nothing, and nobody would notice."""
    if job.name.startswith(SYSTEM_PREFIX):
        state = "Mainspring's own, and has nothing to do once every webhook is disabled"
        raise CommandRefused(command, state, (), f"job {job.name!r}")


def pause(job: Job, now: Micros, *, by: str, note: str | None, resume: Micros | None) -> JobWrite:
    _refuse_own("pause", job)
    paused = job.with_changes(paused=now, paused_by=by, pause_note=note, resume=resume, updated=now)
    return JobWrite(job=paused, seen_version=job.version)


def resume(job: Job, now: Micros, chance: Chance, calendars: Mapping[str, Calendar] = NONE) -> JobWrite:
    return ticks.resume(job, now, chance, calendars=calendars)


def cancel(job: Job, now: Micros) -> JobWrite:
    """The `sweep` mark stays until the live executions of the job are cancelled too."""
    _refuse_own("cancel", job)
    cancelled = job.with_changes(
        cancelled=now, paused=None, paused_by=None, pause_note=None, resume=None, sweep=True, updated=now
    )
    return JobWrite(job=cancelled, seen_version=job.version)


def reactivate(job: Job, now: Micros) -> JobWrite:
    """Refused for a job that cannot run again: it would be pending for ever."""
    active = _with_next_run(job.with_changes(cancelled=None, sweep=False, updated=now), now)
    if not _can_run(active):
        subject = f"job {job.name!r}, which runs once and has no further run"
        raise CommandRefused("reactivate", JobState.CANCELLED, ["it has a schedule with a run to come"], subject)
    return JobWrite(job=active, seen_version=job.version)


def _can_run(job: Job) -> bool:
    """A job of code without a schedule waits to be enqueued or triggered. One that was created over HTTP without a
    schedule has had its only run."""
    on_demand = job.origin == "code" and (job.trigger is None or not job.spec.enabled)
    return on_demand or bool(job.spec.after) or job.due is not None


def swept(job: Job) -> JobWrite:
    return JobWrite(job=job.with_changes(sweep=False), seen_version=job.version)


def declare(existing: Job | None, new: Job, now: Micros) -> JobWrite | None:
    """Bring the stored job in line with what code declares; None when nothing changed.

    What operators changed stays. A changed trigger counts from now.
    """
    if existing is None:
        return JobWrite(job=_with_next_run(new, now), seen_version=None)
    if not differs(existing, new.declared, new.origin):
        return None
    declared = existing.with_changes(declared=new.declared, origin=new.origin, release=new.release, updated=now)
    return JobWrite(job=_rescheduled(existing, declared, now), seen_version=existing.version)


def differs(existing: Job, declared: str, origin: Origin) -> bool:
    """Whether this declaration says something else than the stored one."""
    return existing.declared != declared or existing.origin != origin


def declared_difference(existing: Job, new: Job) -> tuple[str, str]:
    """The fields in which two declarations differ, as JSON, before and after, without secrets."""
    old, fresh = (msgspec.json.decode(each.declared) for each in (existing, new))
    names = sorted(name for name in old.keys() | fresh.keys() if old.get(name) != fresh.get(name))
    before, after = ({name: each[name] for name in names if name in each} for each in (old, fresh))
    before, after = mask_fields_pair(before, after, union(old.get("secret", ()), fresh.get("secret", ())))
    return msgspec.json.encode(before).decode(), msgspec.json.encode(after).decode()


def override(job: Job, changes: dict[str, Any], now: Micros) -> JobWrite:
    """An operator's edit, kept beside the declaration. A field set back to its declared value is no override."""
    declared = msgspec.json.decode(encode_spec(effective_spec(job.declared, "{}")))
    edits = {**job.changed_fields, **changes}
    kept = {field: value for field, value in edits.items() if declared.get(field, _default(field)) != value}
    edited = job.with_changes(overrides=write_overrides(kept, job.occurrences), updated=now)
    _ = edited.spec  # raises if the edit gives no valid specification
    return JobWrite(job=_rescheduled(job, edited, now), seen_version=job.version)


def revert(job: Job, now: Micros) -> JobWrite:
    """Drop every override. Single occurrences that were skipped or moved stay so."""
    return restore(job, {}, now)


def restore(job: Job, fields: dict[str, Any], now: Micros) -> JobWrite:
    """These overrides in the place of all present ones."""
    restored = job.with_changes(overrides=write_overrides(fields, job.occurrences), updated=now)
    _ = restored.spec  # raises if they give no valid specification
    return JobWrite(job=_rescheduled(job, restored, now), seen_version=job.version)


def close_old_schedule(
    before: Job, write: JobWrite, now: Micros, chance: Chance, calendars: Mapping[str, Calendar] = NONE
) -> JobWrite:
    """A write that changes the schedule also makes the ticks that were due under the old one, or records them as
    missed."""
    if _schedule(before) == _schedule(write.job) or before.trigger is None or not before.spec.enabled:
        return write
    if before.cancelled is not None or not _has_due_ticks(before, now):
        return write
    made = ticks.materialise(before, now, chance, calendars)
    after = with_occurrences(write.job.with_changes(last_tick=made.job.last_tick), made.job.occurrences)
    planned = _with_next_run(after, now)
    return msgspec.structs.replace(write, job=planned, executions=made.executions)


def close_ticks(
    before: Job, write: JobWrite, now: Micros, chance: Chance, calendars: Mapping[str, Calendar] = NONE
) -> JobWrite:
    """A pause also makes the ticks that were due before it: they run, or are missed, by the rules for any tick."""
    if not before.ticking or not _has_due_ticks(before, now):
        return write
    made = ticks.materialise(before, now, chance, calendars)
    job = write.job.with_changes(next_run=made.job.next_run, last_tick=made.job.last_tick, overrides=made.job.overrides)
    return msgspec.structs.replace(write, job=job, executions=made.executions)


def _has_due_ticks(job: Job, now: Micros) -> bool:
    due = [job.next_run, *(each.due for each in job.occurrences if not each.done)]
    return any(at is not None and at <= now for at in due)


def _rescheduled(before: Job, after: Job, now: Micros) -> Job:
    return after if _schedule(before) == _schedule(after) else _with_next_run(after.with_changes(anchor=now), now)


def _schedule(job: Job) -> tuple[Any, ...]:
    return job.spec.trigger, job.spec.tz, job.spec.enabled


def _with_next_run(job: Job, now: Micros) -> Job:
    if job.occurrences:
        job = with_occurrences(job, that_still_hold(job, now))
    trigger = job.plan
    return job.with_changes(next_run=None if trigger is None else ticks.first_run(trigger, now, job.last_tick))


def _default(field: str) -> Any:
    return msgspec.json.decode(msgspec.json.encode(getattr(_PLAIN, field, None)))
