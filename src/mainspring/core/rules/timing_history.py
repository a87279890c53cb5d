"""Timing history: which windows a job's schedule asks for, also in times when it had another schedule.

When the timing of a job changes, the old timing is stored as an entry that says until when it was in force, before the
job is written. If the job's write is lost to a crash, the entry repeats the timing that stays in force, which changes
nothing; if it is lost to another edit, the entry is wrong by the moment between the two. Pure functions from revisions
and the present job to periods, and from periods to windows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

import msgspec

from ...model.calendars.calendar import Calendar
from ...model.calendars.hours import hours_of
from ...model.calendars.timetable import OpenHours
from ...model.job import Job
from ...model.store.entries import Entry, EntryWrite
from ...model.time.instants import Micros, seconds_to_micros, to_datetime, to_micros
from ...model.triggers import decode_trigger
from ...model.triggers.base import Trigger
from ...model.triggers.interval import Every
from ...model.values.reading import zone
from ...model.windows import Limited, Offset, boundaries, days_before, resolve_utc, unit_of, window_spec
from .window_ledger import Stretch

_INSTANT = timedelta(microseconds=1)
_LONGEST_UNIT = timedelta(days=40)


class Timing(msgspec.Struct, frozen=True, omit_defaults=True):
    """All that windows depend on. `since` is when a job of this name was first created, as far as is known; `hours` are
    those outside which its ticks do not happen."""

    trigger: dict[str, Any] | None
    tz: str
    window: str | dict[str, Any] | None
    anchor: Micros
    since: Micros = 0
    hours: dict[str, Any] | None = None


class TimingPeriod(msgspec.Struct, frozen=True, dict=True):
    """The time from `after`, which does not belong to it, to `until`, in which a job was timed like this. `calendars`
    are those that its hours name, as they are now."""

    job: str
    timing: Timing
    after: Micros | None = None
    until: Micros | None = None
    calendars: Mapping[str, Calendar] = {}

    @cached_property
    def rule(self) -> str | Offset | None:
        """How a window follows from a tick; None when this timing gives no windows."""
        if self.timing.window is None:
            return None
        spec = window_spec(self.timing.window)
        rule = spec.window if isinstance(spec, Limited) else spec
        if self._own_trigger is not None:
            return rule
        unit = unit_of(rule)
        return None if unit is None else f"previous_{unit}"

    @cached_property
    def trigger(self) -> Trigger | None:
        """The ticks that windows hang on. Where the job has no grid of its own, the calendar is one: a window of a
        day is due when the day is over."""
        unit = None if self.timing.window is None else unit_of(self.timing.window)
        return self._own_trigger or (None if unit is None else boundaries(unit, self.timing.tz))

    @cached_property
    def hours(self) -> OpenHours | None:
        """When ticks happen; None if always. Windows that hang on the calendar alone have no hours."""
        if self.timing.hours is None or self._own_trigger is None:
            return None
        return OpenHours(hours_of(self.timing.hours), zone("tz", self.timing.tz), self.calendars)

    @property
    def calendar_names(self) -> tuple[str, ...]:
        return () if self.timing.hours is None else hours_of(self.timing.hours).calendars

    @cached_property
    def _own_trigger(self) -> Trigger | None:
        """Ticks counted from the end of the last run lie on no grid."""
        if self.timing.trigger is None:
            return None
        trigger = decode_trigger(self.timing.trigger)
        if trigger.fixed_delay:
            return None
        zoned = trigger.with_zone(zone("tz", self.timing.tz))
        return zoned.anchored(to_datetime(self._anchor(trigger))).named(self.job)

    def _anchor(self, trigger: Trigger) -> Micros:
        """In the first period the grid of an interval reaches back beyond the creation of the job."""
        if self.after is None and isinstance(trigger, Every):
            return self.timing.anchor % max(1, seconds_to_micros(trigger.seconds))
        return self.timing.anchor


# --- revisions


def timing_of(job: Job) -> Timing:
    spec = job.spec
    return Timing(spec.trigger, spec.tz, spec.window, job.anchor, job.created, _hours(job))


def _hours(job: Job) -> dict[str, Any] | None:
    """Only under `skip`: a tick that waits for its hours still happens."""
    return job.spec.hours if job.spec.outside == "skip" else None


def revision(before: Job | None, after: Job | None, now: Micros) -> EntryWrite | None:
    """The entry to write before a job is changed so, or removed; None when its windows stay the same.

    A timing without windows is not kept: windows that are declared later hold for the time before as well.
    """
    if before is None or before.spec.window is None:
        return None
    if after is not None and _window_timing(before) == _window_timing(after):
        return None
    body = msgspec.json.encode(timing_of(before)).decode()
    return EntryWrite(entry=Entry(kind="revision", scope=before.name, key=f"{now:017d}", body=body), seen_version=0)


def _window_timing(job: Job) -> tuple[Any, ...]:
    """The anchor counts only for triggers that are counted from it."""
    return job.trigger, job.spec.tz, job.spec.window, _hours(job)


def timing_periods(job: Job, revisions: Sequence[Entry]) -> list[TimingPeriod]:
    """The timing periods of a job, oldest first. The first one reaches back for ever, the last one is the present."""
    found: list[TimingPeriod] = []
    after: Micros | None = None
    for entry in sorted(revisions, key=lambda entry: entry.key):
        timing = msgspec.json.decode(entry.body, type=Timing)
        found.append(TimingPeriod(job.name, timing, after, int(entry.key)))
        after = int(entry.key)
    return [*found, TimingPeriod(job.name, timing_of(job), after)]


# --- windows


def expected(periods: Iterable[TimingPeriod], begin: Micros, end: Micros, now: Micros) -> Iterator[Stretch | None]:
    """The windows inside [begin, end) whose tick has come, each once, in the order of their ticks. None for a tick
    that asks for none: there may be many in a row, and the caller can do something else in between."""
    seen: set[Stretch] = set()
    for period in periods:
        for window in _windows(period, to_datetime(begin), to_datetime(end), now):
            if window is None or window in seen:
                yield None
            else:
                seen.add(window)
                yield window


def about_expected(periods: Iterable[TimingPeriod], begin: Micros, end: Micros, now: Micros) -> int:
    """A quick estimate of how many windows `expected` finds, never far above the truth: of schedules with a window for
    each tick, and without hours."""
    found = 0
    for period in periods:
        if period.rule is None or period.trigger is None or period.hours is not None or unit_of(period.rule):
            continue
        first = begin if period.after is None else max(begin, period.after)
        last = min(end, now if period.until is None else min(now, period.until))
        found += period.trigger.about_ticks(to_datetime(first), to_datetime(last)) if first < last else 0
    return found


def _windows(period: TimingPeriod, begin: datetime, end: datetime, now: Micros) -> Iterator[Stretch | None]:
    rule, trigger = period.rule, period.trigger
    if rule is None or trigger is None:
        return
    unit = unit_of(rule)
    calendar = None if unit is None else boundaries(unit, period.timing.tz)
    first, last = _ticks_of_interest(rule, begin, end)
    first = first if period.after is None else max(first, to_datetime(period.after) + _INSTANT)
    last = min(last, to_datetime(now if period.until is None else min(now, period.until)))
    tick = trigger.next_after(first - _INSTANT)
    while tick is not None and tick <= last:
        if period.hours is not None and (opened := period.hours.next_open(tick)) != tick:
            tick = None if opened is None else trigger.next_after(opened - _INSTANT)
            yield None
            continue
        previous = trigger.previous(tick - _INSTANT) if rule == "since_previous_tick" else None
        window = resolve_utc(rule, tick, period.timing.tz, previous)
        if window.begin >= end:
            return
        if begin <= window.begin < window.end <= end:
            yield to_micros(window.begin), to_micros(window.end)
        tick = trigger.next_after(_last_with_this_window(calendar, tick))


def _ticks_of_interest(rule: str | Offset, begin: datetime, end: datetime) -> tuple[datetime, datetime]:
    """No other tick has a window inside the range. A window of the calendar may belong to a tick some time after it."""
    if isinstance(rule, Offset):
        return begin + timedelta(seconds=rule.begin), end + timedelta(seconds=rule.end)
    return begin, end + _LONGEST_UNIT + timedelta(days=days_before(rule) or 0)


def _last_with_this_window(calendar: Trigger | None, tick: datetime) -> datetime:
    """An hourly job whose window is the previous day asks for each day 24 times: the other ticks are skipped."""
    following = None if calendar is None else calendar.next_after(tick)
    return tick if following is None else following - _INSTANT
