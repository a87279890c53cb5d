"""What is due: pure functions from a job and the store's time to the tick it makes, and to its next one.

A tick found late by no more than the grace runs. What is later is missed: the job's rule says how many of the newest
missed ones are caught up, one after another, and one record tells of all the others. The work does not grow with the
length of the gap.
"""

from __future__ import annotations

from datetime import timedelta
from functools import lru_cache

import msgspec

from ..model.calendar_triggers import CalendarTrigger
from ..model.changes import JobWrite
from ..model.execution import Execution, State
from ..model.ids import Chance, tick_id
from ..model.instants import SECOND, Micros, seconds_to_micros, to_datetime, to_micros
from ..model.job import Job
from ..model.policies import CatchUp, as_catch_up
from ..model.triggers import Trigger
from ..model.windows import resolve
from .plan import CATCH_UP, new_execution

DEFAULT_GRACE = 60.0
MAX_DUE_TICKS = 100
COUNT_LIMIT = 1_000
_INSTANT = timedelta(microseconds=1)


class Due(msgspec.Struct, frozen=True):
    """Ticks to run, missed ones to catch up, and the gap of those that are not: first, last, how many, and whether that
    count is exact."""

    ticks: tuple[Micros, ...] = ()
    catch_up: tuple[Micros, ...] = ()
    gap: tuple[Micros, Micros, int, bool] | None = None


def materialise(job: Job, now: Micros, chance: Chance) -> JobWrite:
    """The write that makes every tick of this job up to now happen, exactly once whoever else tries."""
    if job.paused is not None:
        return _resume_by_itself(job, now, chance)
    due, upcoming = _due_and_next(job, now)
    executions = _executions(job, due, now, chance, as_catch_up(job.spec.missed))
    changed = job.with_changes(next_run=upcoming, last_tick=_last(job, due))
    return JobWrite(job=changed, seen_version=job.version, executions=executions, only_plan=True)


def resume(job: Job, now: Micros, chance: Chance, at: Micros | None = None) -> JobWrite:
    """The end of a pause, now or at that instant before: ticks missed meanwhile follow their own rule."""
    running = job.with_changes(paused=None, paused_by=None, pause_note=None, resume=None, updated=now)
    trigger = running.trigger
    if trigger is None or not running.spec.enabled:
        return JobWrite(job=running, seen_version=job.version)
    if trigger.fixed_delay or job.next_run is None:
        planned = running.with_changes(next_run=first_run(trigger, now, job.last_tick))
        return JobWrite(job=planned, seen_version=job.version)
    at = now if at is None else at
    if job.next_run > at:
        return JobWrite(job=running, seen_version=job.version)
    rule = as_catch_up(running.spec.missed_while_paused)
    due = _missed(trigger, job.next_run, at, now, rule)
    executions = _executions(running, due, now, chance, rule, reason="paused")
    last = _last(job, due)
    changed = running.with_changes(next_run=first_run(trigger, at, last), last_tick=last)
    return JobWrite(job=changed, seen_version=job.version, executions=executions)


def _resume_by_itself(job: Job, now: Micros, chance: Chance) -> JobWrite:
    """A pause ends when it was to end, also if that is found late: what came after is judged as without a pause."""
    ended = resume(job, now, chance, now if job.resume is None else min(now, job.resume))
    if ended.job.due is None or ended.job.due > now:
        return ended
    made = materialise(ended.job, now, chance)
    return JobWrite(job=made.job, seen_version=job.version, executions=ended.executions + made.executions)


def _due_and_next(job: Job, now: Micros) -> tuple[Due, Micros | None]:
    """The ticks up to now, and the one that comes after. Nearly always a single tick has just come, and that is seen by
    the one walk along the calendar that finds the next."""
    trigger, first = _trigger(job), job.next_run
    if trigger.fixed_delay:
        return ticks_due(job, now), None
    if first is None or first > now or not in_time(job, trigger, first, now):
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


def ticks_due(job: Job, now: Micros) -> Due:
    """Sort the ticks from `next_run` up to now into due and missed."""
    trigger, first = _trigger(job), job.next_run
    if first is None or first > now:
        return Due()
    if trigger.fixed_delay:
        return Due(ticks=(first,))
    oldest_due = now - grace(job, trigger, first)
    ticks = _newest_ticks(trigger, max(first, oldest_due), now)
    if first >= oldest_due and first not in ticks and len(ticks) < MAX_DUE_TICKS:
        ticks = (first, *ticks)  # planned by hand, or by a trigger of the past
    rule = as_catch_up(job.spec.missed)
    if ticks and rule.rule == "latest":
        rule = as_catch_up("skip")  # the latest one is not missed: it runs
    missed = _missed(trigger, first, (ticks[0] if ticks else oldest_due) - 1, now, rule)
    return Due(ticks=ticks, catch_up=missed.catch_up, gap=missed.gap)


def grace(job: Job, trigger: Trigger, at: Micros) -> Micros:
    """How late a tick may be found and still run: the smaller of one period and 60 s, unless the job says more."""
    if job.spec.grace is not None:
        return seconds_to_micros(job.spec.grace)
    period = trigger.period(to_datetime(at))
    return seconds_to_micros(DEFAULT_GRACE if period is None else min(period, DEFAULT_GRACE))


def first_run(trigger: Trigger, now: Micros, last: Micros | None = None) -> Micros | None:
    """The first tick of a job planned now, after its last one, at `last`: who plans may have looked at the clock
    some time ago.

    A `once` in the past is due at once, and judged by the grace; but never again when the job is past it.
    """
    upcoming = _next(trigger, now if last is None else max(now, last))
    only = trigger.only_tick_micros()
    if upcoming is not None or only is None:
        return upcoming
    return only if last is None or only > last else None


def is_last_tick(job: Job, execution: Execution) -> bool:
    """Whether this is the newest tick of its job. Only that one plans the next: whoever repeats an older follow-up
    would plan a tick that has happened already."""
    return job.last_tick is not None and execution.id == tick_id(job.id, job.last_tick)


def after_delay(job: Job, finished: Micros) -> JobWrite | None:
    """The next tick of a fixed-delay job, counted from the end of its run; None if it is planned already.

    The end was told by a process whose idea of the store's time may be old: it is never before the last tick.
    """
    trigger = job.trigger
    if trigger is None or not trigger.fixed_delay or job.next_run is not None:
        return None
    ended = finished if job.last_tick is None else max(finished, job.last_tick)
    planned = job.with_changes(next_run=_next(trigger, ended))
    return JobWrite(job=planned, seen_version=job.version, only_plan=True)


def _last(job: Job, due: Due) -> Micros | None:
    """How far the job's ticks are dealt with: run, caught up or noted as missed."""
    gap = () if due.gap is None else (due.gap[1],)
    return max((*gap, *due.catch_up, *due.ticks), default=job.last_tick)


def _missed(trigger: Trigger, first: Micros, until: Micros, now: Micros, rule: CatchUp) -> Due:
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
    job: Job, due: Due, now: Micros, chance: Chance, rule: CatchUp, reason: str = "missed"
) -> tuple[Execution, ...]:
    """What is caught up becomes due one by one, at the pace of the rule, so that it floods nobody."""
    made = [] if due.gap is None else [_gap_record(job, due.gap, now, chance, reason)]
    for place, tick in enumerate(due.catch_up):
        turn = now + place * seconds_to_micros(rule.seconds_between)
        made.append(_tick_execution(job, tick, CATCH_UP, now, chance, due=turn))
    made += [_tick_execution(job, tick, "schedule", now, chance, due=tick) for tick in due.ticks]
    return tuple(made)


def _tick_execution(job: Job, tick: Micros, trigger: str, now: Micros, chance: Chance, due: Micros) -> Execution:
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
        todo=_trigger(job).fixed_delay,
    )


def window_at(job: Job, at: Micros) -> tuple[Micros, Micros] | None:
    """The data window that a run of this job at that instant covers, in the job's own zone."""
    if job.spec.window is None:
        return None
    instant = to_datetime(at)
    previous = job.trigger.previous(instant - _INSTANT) if job.trigger is not None else None
    window = resolve(job.spec.window, instant, job.spec.tz, previous)
    return to_micros(window.begin), to_micros(window.end)


def _gap_record(job: Job, gap: tuple[Micros, Micros, int, bool], now: Micros, chance: Chance, why: str) -> Execution:
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
    return msgspec.structs.replace(
        record,
        state=State.SKIPPED,
        reason="missed",
        finished=now,
        overlap_key=None,
        running_overlap_key=None,
        staged=False,
        metadata_json=msgspec.json.encode(words).decode(),
    )


def _newest_ticks(trigger: Trigger, begin: Micros, end: Micros, most: int = MAX_DUE_TICKS) -> tuple[Micros, ...]:
    """The newest ticks in [begin, end], at most so many of them, oldest first."""
    ticks: list[Micros] = []
    at = trigger.previous(to_datetime(end))
    while at is not None and to_micros(at) >= begin and len(ticks) < most:
        ticks.append(to_micros(at))
        at = trigger.previous(at - _INSTANT) if len(ticks) < most else None
    return tuple(reversed(ticks))


@lru_cache(maxsize=1024)
def _next(trigger: Trigger, after: Micros) -> Micros | None:
    """Kept for a while: jobs that are due at one instant often share their trigger."""
    upcoming = trigger.next_after(to_datetime(after))
    return None if upcoming is None else to_micros(upcoming)


def _trigger(job: Job) -> Trigger:
    if job.trigger is None:
        raise AssertionError(f"job {job.name} has no trigger and is never due")
    return job.trigger
