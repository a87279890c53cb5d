"""Opening hours: which ticks of a job they let through. Pure functions: the calendars are arguments.

Under `skip`, a tick outside the hours does not happen. Under `wait`, the first tick of a closing waits for the opening
and the others of that closing do not happen: a job that ticks every minute and is closed for the night waits once.
Ticks that do not happen leave no record, and are not missed.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from ...model.calendars.calendar import Calendar
from ...model.calendars.timetable import HORIZON, OpenHours
from ...model.events import OutsideHours
from ...model.job import Job
from ...model.time.instants import Micros, to_datetime, to_micros
from ...model.time.zones import known_zone
from ...model.triggers import Trigger

MOST_CLOSINGS = 400
"""Closings that are searched for a tick, more than a year of nights. Past them, the search finds none."""

NONE: Mapping[str, Calendar] = {}
_INSTANT = timedelta(microseconds=1)


class Closing(msgspec.Struct, frozen=True):
    """A time in which the hours of a job keep it from running."""

    since: datetime
    """When it was closed."""
    until: datetime | None
    """When it opens; None if it does not open within years."""
    by: str
    """What closes it: its hours, or a calendar."""

    def words(self) -> str:
        """
        >>> Closing(datetime(2026, 1, 1), None, "calendar holidays").words()
        'closed for years to come, by calendar holidays'
        """
        until = "for years to come" if self.until is None else f"until {self.until:%Y-%m-%d %H:%M} UTC"
        return f"closed {until}, by {self.by}"


class OpenTicks:
    """The ticks of a job that its hours let through, in place of the job's trigger when ticks are sorted."""

    def __init__(self, job: Job, hours: OpenHours, trigger: Trigger) -> None:
        self._trigger, self._hours = trigger, hours
        self._waits = job.spec.outside == "wait"
        self._first, self._last = job.next_run, job.last_tick

    def previous(self, until: datetime) -> datetime | None:
        """The last tick not later than `until`; None if there is none since the job's next run."""
        at = self._trigger.previous(until)
        for _ in range(MOST_CLOSINGS):
            if at is None or self._first is None or to_micros(at) < self._first:
                return None
            if self._hours.is_open(at):
                return at
            since = self._hours.stretch(at).begin
            waiting = self._waiting(since, at)
            if waiting is not None and waiting <= until:
                return waiting
            at = self._trigger.previous(since - _INSTANT)
        return None

    def count_between(self, begin: datetime, end: datetime, limit: int) -> tuple[int, bool]:
        """How many lie in (begin, end], and whether that is exact."""
        count = 0
        for number, stretch in enumerate(self._hours.stretches(begin + _INSTANT, end + _INSTANT)):
            if count > limit or number > MOST_CLOSINGS:
                return min(count, limit), False
            if stretch.open:
                count += self._trigger.count_between(stretch.begin - _INSTANT, stretch.end - _INSTANT, limit)[0]
            elif self._waits:
                first = self._trigger.next_after(stretch.begin - _INSTANT)
                count += first is not None and first < stretch.end
        return min(count, limit), count < limit

    def keeps(self, tick: Micros) -> bool:
        """Whether this tick happens: at once, or waiting for the opening."""
        at = to_datetime(tick)
        return self._hours.is_open(at) or self._waiting(self._hours.stretch(at).begin, at) == at

    def held(self, now: Micros, oldest: Micros) -> Micros | None:
        """The tick before `oldest` that waits for the end of the present closing, or of one that has ended since. It is
        not late, however long ago it was. Closings that began later have younger ticks."""
        if not self._waits:
            return None
        since = self._hours.stretches(to_datetime(oldest), to_datetime(now) + _INSTANT)
        closed = next((stretch.begin for stretch in since if not stretch.open), None)
        if closed is None:
            return None
        closing = self._hours.stretch(closed)
        at = self._waiting(closing.begin, closing.end - _INSTANT)
        return None if at is None or at >= closing.end or to_micros(at) > now else to_micros(at)

    def run_at(self, tick: Micros) -> Micros:
        """When a tick that happens is due: at its time, or when the job opens next."""
        opening = self._hours.next_open(to_datetime(tick))
        return tick if opening is None else to_micros(opening)

    def _waiting(self, since: datetime, inside: datetime) -> datetime | None:
        """The tick that waits in the closing that began at `since` and is not over at `inside`: the first one,
        unless an earlier one was handled, or the job never opens."""
        if not self._waits or self._first is None or self._hours.next_open(inside) is None:
            return None
        if self._last is not None and self._last >= to_micros(since):
            return None
        first = to_datetime(self._first)
        return first if first >= since else self._trigger.next_after(since - _INSTANT)


def has_hours(job: Job) -> bool:
    return job.readable and job.hours is not None


def named_by(job: Job) -> tuple[str, ...]:
    """The calendars that the hours of a job name."""
    return job.hours.calendars if job.readable and job.hours is not None else ()


def open_hours(job: Job, calendars: Mapping[str, Calendar]) -> OpenHours | None:
    hours = job.hours
    return None if hours is None else OpenHours(hours, known_zone(job.spec.tz), calendars)


def open_ticks(job: Job, trigger: Trigger, calendars: Mapping[str, Calendar]) -> OpenTicks | None:
    """The ticks of this trigger, which is the job's, inside its hours; None for a job without hours."""
    hours = open_hours(job, calendars)
    return None if hours is None else OpenTicks(job, hours, trigger)


def waiting_keys(job: Job) -> dict[str, Any]:
    """An execution that waits for the opening does not block a manual run: it takes the job's key when it is claimed.
    Its own key keeps a second one from waiting."""
    running: str | None = job.id
    if job.spec.overlap == "allow":
        limit = job.spec.overlap_limit
        running = None if limit is None else job.id if limit == 1 else f"{job.id}#0"
    return {"overlap_key": f"{job.id}:waiting", "overlap_slots": 1, "running_overlap_key": running, "staged": True}


def closing(job: Job, calendars: Mapping[str, Calendar], at: Micros) -> Closing | None:
    """The closing that keeps a job from running at this instant; None while it is open."""
    hours = open_hours(job, calendars)
    if hours is None or hours.is_open(to_datetime(at)):
        return None
    stretch = hours.stretch(to_datetime(at))
    return Closing(stretch.begin, hours.next_open(to_datetime(at)), stretch.by)


def closed_event(job: Job, calendars: Mapping[str, Calendar], now: Micros) -> OutsideHours | None:
    """The event of a job that is due but closed: once in each closing, at its first tick."""
    found = closing(job, calendars, now) if job.hours is not None and job.paused is None else None
    if found is None or (job.last_tick is not None and job.last_tick >= to_micros(found.since)):
        return None
    until = None if found.until is None else to_micros(found.until)
    return OutsideHours(job.name, until, found.by, job.spec.outside == "wait" and until is not None)


def next_open_run(job: Job, calendars: Mapping[str, Calendar]) -> datetime | None:
    """When the next tick inside the hours will run; None if there is none within five years."""
    hours, trigger = open_hours(job, calendars), job.plan
    if hours is None or trigger is None or job.next_run is None:
        return job.next_run_at
    at: datetime | None = to_datetime(job.next_run)
    latest = to_datetime(job.next_run) + HORIZON
    for _ in range(MOST_CLOSINGS):
        opening = None if at is None or at > latest else hours.next_open(at)
        if at is None or opening is None or opening == at or job.spec.outside == "wait":
            return opening
        at = trigger.next_after(opening - _INSTANT)
    return None
