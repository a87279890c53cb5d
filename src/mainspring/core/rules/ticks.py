"""Ticks: pure functions from a job and the store's time to the executions that are due, and to the next tick.

A tick that is found late by no more than the grace runs. A later one is missed: the job's rule says how many of the
newest missed ticks are caught up, one after another, and a single record stands for all the others. The work does not
grow with the length of the gap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import lru_cache
from typing import Any

import msgspec

from ...model.calendars.calendar import Calendar
from ...model.execution import ExecutionRow, State
from ...model.job import Job
from ...model.occurrences import Occurrence
from ...model.policies import CatchUp, as_catch_up
from ...model.store.messages import JobWrite
from ...model.time.instants import SECOND, Micros, seconds_to_micros, to_datetime, to_micros
from ...model.triggers import Trigger
from ...model.triggers.wall_clock import CalendarTrigger
from ...model.values.ids import Chance, tick_id
from ...model.windows import resolve_utc
from .new_execution import CATCH_UP, new_execution
from .occurrences import with_occurrences
from .opening_hours import NONE, OpenTicks, open_ticks, waiting_keys

DEFAULT_GRACE = 60.0
MAX_DUE_TICKS = 100
COUNT_LIMIT = 1_000
_INSTANT = timedelta(microseconds=1)


class Due(msgspec.Struct, frozen=True):
    """Ticks to run, missed ticks to catch up, and the gap of all other missed ticks: first, last, how many, and whether
    that count is exact."""

    ticks: tuple[Micros, ...] = ()
    catch_up: tuple[Micros, ...] = ()
    gap: tuple[Micros, Micros, int, bool] | None = None


def materialise(job: Job, now: Micros, chance: Chance, calendars: Mapping[str, Calendar] = NONE) -> JobWrite:
    """The write that makes every tick of this job up to now, exactly once however many schedulers try.

    `calendars` are those that the hours of the job name.
    """
    if job.paused is not None:
        return _resume_by_itself(job, now, chance, calendars)
    due, upcoming = _due_and_next(job, now, calendars)
    rule = as_catch_up(job.spec.missed)
    executions = _executions(job, due, now, chance, rule, calendars)
    changed = job.with_changes(next_run=upcoming, last_tick=_last(job, due, now))
    write = JobWrite(job=changed, seen_version=job.version, executions=executions, only_plan=True)
    return settle_occurrences(write, now, now, chance, rule, _is_in_time(job, now)) if job.occurrences else write


def resume(
    job: Job, now: Micros, chance: Chance, at: Micros | None = None, calendars: Mapping[str, Calendar] = NONE
) -> JobWrite:
    """The end of a pause, now or at that instant before: ticks missed meanwhile follow their own rule."""
    running = job.with_changes(paused=None, paused_by=None, pause_note=None, resume=None, updated=now)
    until, rule = now if at is None else at, as_catch_up(running.spec.missed_while_paused)
    write = _resumed(running, until, now, chance, rule, calendars)
    if running.occurrences and running.ticking:
        return settle_occurrences(write, until, now, chance, rule, lambda due: False, reason="paused")
    return write


def _resumed(
    job: Job, until: Micros, now: Micros, chance: Chance, rule: CatchUp, calendars: Mapping[str, Calendar]
) -> JobWrite:
    trigger = job.plan
    if trigger is None or not job.spec.enabled:
        return JobWrite(job=job, seen_version=job.version)
    if trigger.fixed_delay or job.next_run is None:
        planned = job.with_changes(next_run=first_run(trigger, now, job.last_tick))
        return JobWrite(job=planned, seen_version=job.version)
    if job.next_run > until:
        return JobWrite(job=job, seen_version=job.version)
    due = _missed(open_ticks(job, trigger, calendars) or trigger, job.next_run, until, now, rule)
    executions = _executions(job, due, now, chance, rule, calendars, reason="paused")
    last = _last(job, due, until)
    changed = job.with_changes(next_run=first_run(trigger, until, last), last_tick=last)
    return JobWrite(job=changed, seen_version=job.version, executions=executions)


def _resume_by_itself(job: Job, now: Micros, chance: Chance, calendars: Mapping[str, Calendar]) -> JobWrite:
    """A pause ends at its planned end, even if that is noticed late: later ticks are judged as without a pause."""
    ended = resume(job, now, chance, now if job.resume is None else min(now, job.resume), calendars)
    if ended.job.due is None or ended.job.due > now:
        return ended
    made = materialise(ended.job, now, chance, calendars)
    return JobWrite(job=made.job, seen_version=job.version, executions=ended.executions + made.executions)


def _due_and_next(job: Job, now: Micros, calendars: Mapping[str, Calendar] = NONE) -> tuple[Due, Micros | None]:
    """The ticks up to now, and the next one. Nearly always a single tick is due, and the search for the next tick
    shows that."""
    trigger, first = _trigger(job), job.next_run
    if first is None or first > now:
        return Due(), first
    if job.hours is not None:  # the end of a run plans the next of a fixed delay: one that does not happen has no end
        due = ticks_due(job, now, calendars)
        return due, None if trigger.fixed_delay and due.ticks else _next(trigger, now)
    if trigger.fixed_delay:
        return ticks_due(job, now), None
    if not in_time(job, trigger, first, now):
        return ticks_due(job, now), _next(trigger, now)
    upcoming = _next(trigger, first)
    if upcoming is None or upcoming > now:
        return Due(ticks=(first,)), upcoming
    return ticks_due(job, now), _next(trigger, now)


def in_time(job: Job, trigger: Trigger, tick: Micros, now: Micros) -> bool:
    """Whether a tick found now is late by no more than the grace. The ticks of a calendar are at least a second apart:
    within that, their distance need not be known."""
    if now - tick <= SECOND and job.spec.grace is None and isinstance(trigger, CalendarTrigger):
        return True
    return now - tick <= grace(job, trigger, tick)


def ticks_due(job: Job, now: Micros, calendars: Mapping[str, Calendar] = NONE) -> Due:
    """Sort the ticks from `next_run` up to now into due and missed."""
    trigger, first = _trigger(job), job.next_run
    if first is None or first > now:
        return Due()
    hours = open_ticks(job, trigger, calendars)
    happens = hours is None or hours.keeps(first)
    if trigger.fixed_delay:
        return Due(ticks=(first,)) if happens else Due()
    oldest_due = now - grace(job, trigger, first)
    ticks = _newest_ticks(hours or trigger, max(first, oldest_due), now)
    if first >= oldest_due and first not in ticks and len(ticks) < MAX_DUE_TICKS and happens:
        ticks = (first, *ticks)  # planned by hand, or by a trigger of the past
    held = None if hours is None else hours.held(now, oldest_due)
    if held is not None and held not in ticks:
        ticks = (held, *ticks)
    rule = as_catch_up(job.spec.missed)
    if ticks and rule.rule == "latest":
        rule = as_catch_up("skip")  # the latest one is not missed: it runs
    missed = _missed(hours or trigger, first, (ticks[0] if ticks else oldest_due) - 1, now, rule)
    return Due(ticks=ticks, catch_up=missed.catch_up, gap=missed.gap)


def grace(job: Job, trigger: Trigger, at: Micros) -> Micros:
    """How late a tick may be found and still run: the smaller of one period and 60 s, unless the job says more."""
    if job.spec.grace is not None:
        return seconds_to_micros(job.spec.grace)
    period = trigger.period(to_datetime(at))
    return seconds_to_micros(DEFAULT_GRACE if period is None else min(period, DEFAULT_GRACE))


def first_run(trigger: Trigger, now: Micros, last: Micros | None = None) -> Micros | None:
    """The first tick of a job that is planned now, after its last one at `last`: the caller may have read the clock
    some time ago.

    A `once` in the past is due at once, and judged by the grace; but never again when the job is past it.
    """
    upcoming = _next(trigger, now if last is None else max(now, last))
    only = trigger.only_tick_micros()
    if upcoming is not None or only is None:
        return upcoming
    return only if last is None or only > last else None


def is_last_tick(job: Job, execution: ExecutionRow) -> bool:
    """Whether this is the newest tick of its job. Only that one plans the next: a repeated older follow-up
    would plan a tick that has happened already."""
    return job.last_tick is not None and execution.id == tick_id(job.id, job.last_tick)


def after_delay(job: Job, finished: Micros) -> JobWrite | None:
    """The next tick of a fixed-delay job, counted from the end of its run; None if it is planned already.

    The end comes from a process whose idea of the store's time may be old: it is never before the last tick.
    """
    trigger = job.trigger
    if trigger is None or not trigger.fixed_delay or job.next_run is not None:
        return None
    ended = finished if job.last_tick is None else max(finished, job.last_tick)
    planned = job.with_changes(next_run=_next(trigger, ended))
    return JobWrite(job=planned, seen_version=job.version, only_plan=True)


def _last(job: Job, due: Due, until: Micros) -> Micros | None:
    """Up to when the job's ticks are handled: run, caught up, recorded as missed, or outside its hours."""
    gap = () if due.gap is None else (due.gap[1],)
    return max((*gap, *due.catch_up, *due.ticks, *_outside(job, until)), default=job.last_tick)


def _outside(job: Job, until: Micros) -> tuple[Micros, ...]:
    """The newest tick of a job with hours: it is handled, whether it happened or not."""
    if job.hours is None or job.next_run is None or job.next_run > until:
        return ()
    newest = None if _trigger(job).fixed_delay else _trigger(job).previous(to_datetime(until))
    return (job.next_run,) if newest is None else (max(job.next_run, to_micros(newest)),)


def _missed(trigger: Trigger | OpenTicks, first: Micros, until: Micros, now: Micros, rule: CatchUp) -> Due:
    """The ticks in [first, until]: the newest ones are caught up, as the rule says, and the rest is one gap."""
    caught_up: tuple[Micros, ...] = ()
    if rule.rule != "skip":
        oldest = first if rule.age_limit is None else max(first, now - seconds_to_micros(rule.age_limit))
        caught_up = _newest_ticks(trigger, oldest, until, 1 if rule.rule == "latest" else rule.max_runs)
    end = to_datetime(caught_up[0] - 1 if caught_up else until)
    last = trigger.previous(end)
    if last is None or to_micros(last) < first:
        return Due(catch_up=caught_up)
    count, exact = trigger.count_between(to_datetime(first) - _INSTANT, end, COUNT_LIMIT)
    return Due(catch_up=caught_up, gap=(first, to_micros(last), count, exact))


def _executions(
    job: Job,
    due: Due,
    now: Micros,
    chance: Chance,
    rule: CatchUp,
    calendars: Mapping[str, Calendar],
    reason: str = "missed",
) -> tuple[ExecutionRow, ...]:
    """Ticks to catch up become due one by one, spaced by the rule, so that they flood nobody; like ticks that wait for
    the opening, not before the job opens."""
    hours = open_ticks(job, _trigger(job), calendars)
    made = [] if due.gap is None else [gap_record(job, due.gap, now, chance, reason)]
    begin = now if hours is None or not due.catch_up else hours.run_at(now)
    for place, tick in enumerate(due.catch_up):
        turn = begin + place * seconds_to_micros(rule.seconds_between)
        made.append(tick_execution(job, tick, CATCH_UP, now, chance, due=turn))
    for tick in due.ticks:
        run_at = tick if hours is None else hours.run_at(tick)
        execution = tick_execution(job, tick, "schedule", now, chance, due=run_at)
        made.append(execution if run_at == tick else msgspec.structs.replace(execution, **waiting_keys(job)))
    return tuple(made)


def _newest_ticks(
    trigger: Trigger | OpenTicks, begin: Micros, end: Micros, most: int = MAX_DUE_TICKS
) -> tuple[Micros, ...]:
    """The newest ticks in [begin, end], at most so many of them, oldest first."""
    ticks: list[Micros] = []
    at = trigger.previous(to_datetime(end))
    while at is not None and to_micros(at) >= begin and len(ticks) < most:
        ticks.append(to_micros(at))
        at = trigger.previous(at - _INSTANT) if len(ticks) < most else None
    return tuple(reversed(ticks))


@lru_cache(maxsize=1024)
def _next(trigger: Trigger, after: Micros) -> Micros | None:
    """Cached, because jobs that are due at one instant often share their trigger."""
    upcoming = trigger.next_after(to_datetime(after))
    return None if upcoming is None else to_micros(upcoming)


def _is_in_time(job: Job, now: Micros) -> Callable[[Micros], bool]:
    return lambda due: now - due <= grace(job, _trigger(job), due)


def _trigger(job: Job) -> Trigger:
    if job.plan is None:
        raise AssertionError(f"job {job.name} has no trigger and is never due")
    return job.plan


# --- single occurrences ---------------------------------------------------------------------------------------------


def settle_occurrences(
    write: JobWrite,
    until: Micros,
    now: Micros,
    chance: Chance,
    rule: CatchUp,
    in_time: Callable[[Micros], bool],
    reason: str = "missed",
) -> JobWrite:
    """The same write, with every single occurrence whose time has come by `until`."""
    job = write.job
    come = [each for each in job.occurrences if not each.done and each.due <= until]
    made = tuple(_occurrence(job, each, now, chance, rule, in_time, reason) for each in come)
    left = [msgspec.structs.replace(each, done=True) if each in come else each for each in job.occurrences]
    kept = tuple(each for each in left if not each.done or each.tick > until)
    changed = with_occurrences(job, kept)
    if not (job.trigger is None or job.trigger.fixed_delay):  # the last tick of a fixed delay plans the next: no other
        passed = [each.tick for each in left if each not in kept]
        known = passed if job.last_tick is None else [job.last_tick, *passed]
        changed = changed.with_changes(last_tick=max(known, default=None))
    return msgspec.structs.replace(
        write,
        job=changed,
        executions=write.executions + made,
        only_plan=write.only_plan and changed.overrides == job.overrides,
    )


def _occurrence(
    job: Job,
    occurrence: Occurrence,
    now: Micros,
    chance: Chance,
    rule: CatchUp,
    in_time: Callable[[Micros], bool],
    reason: str,
) -> ExecutionRow:
    """A moved occurrence that is found too late is missed like any tick, counted from its new time."""
    if occurrence.to is None:
        return skip_record(job, occurrence, now, chance)
    if in_time(occurrence.to):
        return tick_execution(job, occurrence.tick, "schedule", now, chance, due=occurrence.to)
    young = rule.age_limit is None or now - occurrence.to <= seconds_to_micros(rule.age_limit)
    if rule.rule != "skip" and young:
        return tick_execution(job, occurrence.tick, CATCH_UP, now, chance, due=now)
    return gap_record(job, (occurrence.tick, occurrence.tick, 1, True), now, chance, reason)


# --- what a tick leaves in the store --------------------------------------------------------------------------------


def tick_execution(job: Job, tick: Micros, trigger: str, now: Micros, chance: Chance, due: Micros) -> ExecutionRow:
    """A tick of a fixed delay is marked from the start: if it is skipped, the next one still has to be planned."""
    return new_execution(
        job,
        id=tick_id(job.id, tick),
        trigger=trigger,
        now=now,
        chance=chance,
        tick=tick,
        due=due,
        window=window_at(job, tick),
        todo=job.trigger is not None and job.trigger.fixed_delay,
    )


def window_at(job: Job, at: Micros) -> tuple[Micros, Micros] | None:
    """The data window that a run of this job at that instant covers, in the job's own zone."""
    if job.spec.window is None:
        return None
    instant = to_datetime(at)
    previous = job.trigger.previous(instant - _INSTANT) if job.trigger is not None else None
    window = resolve_utc(job.spec.window, instant, job.spec.tz, previous)
    return to_micros(window.begin), to_micros(window.end)


def gap_record(job: Job, gap: tuple[Micros, Micros, int, bool], now: Micros, chance: Chance, why: str) -> ExecutionRow:
    first, last, count, exact = gap
    words = {
        "from": to_datetime(first).isoformat(),
        "to": to_datetime(last).isoformat(),
        "count": count,
        "exact": exact,
        "because": "the job was paused" if why == "paused" else "no scheduler was running",
    }
    record = new_execution(
        job, id=tick_id(job.id, first, "missed"), trigger="schedule", now=now, chance=chance, tick=first, due=first
    )
    return _skipped(record, now, "missed", words)


def skip_record(job: Job, skipped: Occurrence, now: Micros, chance: Chance) -> ExecutionRow:
    """The record of an occurrence that was skipped by a command, with the id that its run would have had."""
    record = tick_execution(job, skipped.tick, "schedule", now, chance, due=skipped.tick)
    by = msgspec.structs.replace(record, triggered_by=skipped.by, todo=False)
    return _skipped(by, now, "occurrence", {"by": skipped.by})


def _skipped(execution: ExecutionRow, now: Micros, reason: str, words: dict[str, Any]) -> ExecutionRow:
    return msgspec.structs.replace(
        execution,
        state=State.SKIPPED,
        reason=reason,
        finished=now,
        overlap_key=None,
        running_overlap_key=None,
        staged=False,
        metadata_json=msgspec.json.encode(words).decode(),
    )
