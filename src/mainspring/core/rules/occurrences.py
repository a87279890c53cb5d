"""Single occurrences: one tick of a job that an operator skips, or moves to another time. Pure functions on the row.

The trigger goes on as if that tick did not exist (`Job.plan`). The occurrence itself happens at its own time
(`ticks.settle_occurrences`), in the same compare-and-set as any tick and under the id of its tick: so it happens once,
wherever it was moved to.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from ...model.errors import InvalidValue
from ...model.job import Job
from ...model.occurrences import Occurrence, is_tick, write_overrides
from ...model.store.messages import JobWrite
from ...model.time.instants import SECOND, Micros, to_datetime, to_micros
from ...model.triggers.base import Trigger
from ...model.values.reading import instant

MOST = 100
"""Exceptions that a job may have at once. A job that needs more needs another schedule, or a calendar."""
_INSTANT = timedelta(microseconds=1)


def skip(job: Job, at: Any, now: Micros, by: str) -> JobWrite:
    return _with_exception(job, Occurrence(_tick(job, at, now), by=by), now)


def move(job: Job, at: Any, to: Any, now: Micros, by: str) -> JobWrite:
    tick, target = _tick(job, at, now), to_micros(instant("to", to, tz=job.spec.tz))
    if target <= now:
        raise InvalidValue("to", _text(target), "an instant in the future", "To run it at once, trigger the job")
    if target == tick:
        raise InvalidValue("to", _text(target), "another time than its own", "To undo a change, restore the occurrence")
    return _with_exception(job, Occurrence(tick, target, by), now)


def restore(job: Job, at: Any, now: Micros) -> JobWrite:
    """Back to what the schedule says."""
    wanted, known = _instant(job, at), [each for each in job.occurrences if not each.done]
    found = next((each for each in known if wanted in (each.tick, each.to)), None) or _near(known, wanted)
    if found is None:
        texts = ", ".join(_text(each.tick) for each in known) or "there is none"
        raise InvalidValue("at", _text(wanted), f"an occurrence that was skipped or moved: {texts}")
    if found.tick <= _past(job, now):
        remedy = "Its own time is past: move it to another one, or skip it"
        raise InvalidValue("at", _text(found.tick), "an occurrence in the future", remedy)
    return _rescheduled(job, tuple(each for each in job.occurrences if each is not found), found.tick, now)


def with_occurrences(job: Job, occurrences: tuple[Occurrence, ...]) -> Job:
    return job.with_changes(overrides=write_overrides(job.changed_fields, occurrences))


def that_still_hold(job: Job, now: Micros) -> tuple[Occurrence, ...]:
    """For a job with a new schedule: occurrences whose tick is in the future and in the new schedule too, and those
    moved to a later time whose own tick is past already: their run is still owed."""
    trigger = job.trigger
    if trigger is None:
        return ()
    return tuple(
        each
        for each in job.occurrences
        if (each.due > now and each.tick <= now) or (each.tick > now and is_tick(trigger, each.tick))
    )


def _with_exception(job: Job, occurrence: Occurrence, now: Micros) -> JobWrite:
    others = tuple(each for each in job.occurrences if each.tick != occurrence.tick)
    if len(others) >= MOST:
        remedy = "Restore some, or change the schedule of the job"
        raise InvalidValue("at", _text(occurrence.tick), f"at most {MOST} exceptions of a job at once", remedy)
    return _rescheduled(job, (*others, occurrence), occurrence.tick, now)


def _rescheduled(job: Job, occurrences: tuple[Occurrence, ...], tick: Micros, now: Micros) -> JobWrite:
    """The next tick changes only if this one is, or was, the next. What is overdue stays so."""
    changed = with_occurrences(job, occurrences).with_changes(updated=now)
    if tick > _past(job, now) and changed.plan is not None:
        first = tick if job.next_run is None else min(job.next_run, tick)
        upcoming = changed.plan.next_after(to_datetime(first) - _INSTANT)
        changed = changed.with_changes(next_run=None if upcoming is None else to_micros(upcoming))
    return JobWrite(job=changed, seen_version=job.version)


def _tick(job: Job, at: Any, now: Micros) -> Micros:
    """The occurrence that `at` names: a future one, or one that was moved and has not run yet."""
    trigger, wanted = job.trigger, _instant(job, at)
    if trigger is None or trigger.fixed_delay:
        why = "runs on demand" if trigger is None else "counts from the end of each run"
        raise InvalidValue("at", _text(wanted), f"an occurrence of a schedule; job {job.name!r} {why}")
    for each in job.occurrences:
        if wanted in (each.tick, each.to) or _near([each], wanted):
            if each.done:
                remedy = "It was moved to an earlier time and has run"
                raise InvalidValue("at", _text(wanted), "an occurrence that is yet to come", remedy)
            return each.tick
    found = trigger.next_after(to_datetime(wanted) - _INSTANT)
    if found is None or not _is_meant(to_micros(found), wanted) or to_micros(found) <= _past(job, now):
        nearest = _nearest(job, wanted, _past(job, now))
        raise InvalidValue("at", _text(wanted), f"an occurrence in the future; nearest are {nearest}")
    return to_micros(found)


def _past(job: Job, now: Micros) -> Micros:
    """Ticks up to this instant have been handled: the store's clock may have been set back since."""
    return now if job.last_tick is None else max(now, job.last_tick)


def _instant(job: Job, at: Any) -> Micros:
    return to_micros(instant("at", at, tz=job.spec.tz))


def _is_meant(tick: Micros, wanted: Micros) -> bool:
    """Ticks of a spread job are shown, and named, in whole seconds."""
    return tick == wanted or (wanted % SECOND == 0 and 0 <= tick - wanted < SECOND)


def _near(known: list[Occurrence], wanted: Micros) -> Occurrence | None:
    return next((each for each in known if _is_meant(each.tick, wanted)), None)


def _nearest(job: Job, wanted: Micros, past: Micros) -> str:
    assert job.trigger is not None
    around = max(wanted, past)
    before = job.trigger.previous(to_datetime(around))
    ticks = ([before] if before is not None and to_micros(before) > past else []) + _following(job.trigger, around)
    return ", ".join(_text(to_micros(tick)) for tick in ticks[:3]) or "none: the schedule is over"


def _following(trigger: Trigger, after: Micros) -> list[Any]:
    first = trigger.next_after(to_datetime(after))
    second = None if first is None else trigger.next_after(first)
    return [tick for tick in (first, second) if tick is not None]


def _text(at: Micros) -> str:
    return to_datetime(at).isoformat().replace("+00:00", "Z")
