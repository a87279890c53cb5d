"""The next runs of one stored job, with what operators and clock changes do to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from itertools import islice

import msgspec

from ...model.calendars.calendar import Calendar
from ...model.job import Job
from ...model.time.instants import Micros, to_datetime, to_micros
from ...model.time.zones import known_zone
from ...model.triggers.clock_changes import clock_changes, effect
from ...model.triggers.wall_clock import CalendarTrigger
from ..rules.opening_hours import NONE, next_open_run
from .clock_changes import changes_between, describe, notes_of, zone_of
from .ticks import DAY

CHANGES = 2
AHEAD = timedelta(days=366)
"""How far ahead clock changes are worth a note."""


class NextRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run to come. `tick` is the time that the schedule gives it, `at` when it runs: None if it was skipped. `by`
    is the operator who skipped or moved it."""

    tick: datetime
    at: datetime | None
    note: str = ""
    by: str | None = None


class ClockNote(msgspec.Struct, frozen=True):
    """A change of the clocks to come, and its effect on the schedule; `affects` says that there is one."""

    at: datetime
    words: str
    affects: bool


def next_runs(job: Job, count: int, calendars: Mapping[str, Calendar] = NONE) -> list[NextRun]:
    """The next `count` runs, and every occurrence that was skipped or moved. A job that is paused runs again from the
    automatic end of its pause; without one, or cancelled or disabled, it has no next run."""
    awake = _resumed(job)
    if not awake.ticking:
        return []
    regular = list(islice(_regular(awake, calendars), count))
    notes = _clock_notes(awake, regular)
    found = [msgspec.structs.replace(run, note=notes.get(to_micros(run.tick), run.note)) for run in regular]
    found += [
        NextRun(tick=each.at, at=each.moved_to, note="skipped" if each.to is None else "moved", by=each.by)
        for each in awake.occurrences
        if not each.done
    ]
    found.sort(key=lambda run: run.at or run.tick)
    return _first(found, count)


def clock_notes(job: Job, after: datetime) -> list[ClockNote]:
    """The next changes of the clocks that the schedule of the job is read by; none for a job without such a clock."""
    trigger = job.trigger
    if not isinstance(trigger, CalendarTrigger):
        return []
    zone = zone_of(trigger, job.spec.tz)
    found = []
    for change in islice(clock_changes(known_zone(zone), after, after + AHEAD), CHANGES):
        caused = effect(trigger, change)
        found.append(ClockNote(change.at, f"{describe(zone, change)}: {caused.words}", bool(caused.times)))
    return found


def _resumed(job: Job) -> Job:
    if job.paused is None or job.resume is None or job.plan is None:
        return job
    planned = job.plan.next_after(to_datetime(job.resume))
    return job.with_changes(paused=None, next_run=None if planned is None else to_micros(planned))


def _regular(job: Job, calendars: Mapping[str, Calendar]) -> Iterator[NextRun]:
    """The runs at the ticks of the trigger; of a fixed delay only the next one is known."""
    plan = job.plan
    while plan is not None and job.next_run is not None:
        tick = to_datetime(job.next_run)
        at = tick if job.hours is None else next_open_run(job, calendars)
        if at is None:
            return
        waits = at != tick and job.spec.outside == "wait"
        yield NextRun(tick=tick if waits else at, at=at, note="waits for its hours" if waits else "")
        following = None if plan.fixed_delay else plan.next_after(at)
        job = job.with_changes(next_run=None if following is None else to_micros(following))


def _clock_notes(job: Job, runs: list[NextRun]) -> dict[Micros, str]:
    trigger = job.trigger
    if trigger is None or not runs:
        return {}
    zone, ticks = known_zone(zone_of(trigger, job.spec.tz)), [to_micros(run.tick) for run in runs]
    notes: dict[Micros, str] = {}
    for change in changes_between(zone, ticks[0] - DAY, ticks[-1] + DAY):
        notes |= notes_of(trigger, zone, change, ticks)
    return notes


def _first(runs: list[NextRun], count: int) -> list[NextRun]:
    """Up to the run of this number, and every later one that an operator skipped or moved."""
    found: list[NextRun] = []
    for run in runs:
        if count > 0 or run.by is not None:
            found.append(run)
            count -= run.at is not None
    return found
