"""What the changes of the clocks do to the ticks of a job: which are moved, left out, or fall into a repeated hour."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from datetime import datetime, timedelta, tzinfo

import msgspec

from ..model.calendar_triggers import CalendarTrigger
from ..model.cron import rule
from ..model.instants import Micros, to_datetime
from ..model.timeline import SECOND, offset_at
from ..model.triggers import AnyOf, Excluding, Trigger
from ..model.zones import known_zone, zone_name

_MICROSECOND = timedelta(microseconds=1)


class ClockChange(msgspec.Struct, frozen=True):
    """One change of one zone's clocks. Wall-clock times are naive."""

    at: Micros
    zone: str
    before: timedelta
    after: timedelta

    @property
    def forward(self) -> bool:
        return self.after > self.before

    @property
    def size(self) -> timedelta:
        return abs(self.after - self.before)

    @property
    def shown_before(self) -> datetime:
        """What the clocks show when the change comes."""
        return _naive(self.at) + self.before

    @property
    def shown_after(self) -> datetime:
        return _naive(self.at) + self.after

    def describe(self) -> str:
        way = "forward" if self.forward else "back"
        return f"{self.zone}: clocks go {way} from {self.shown_before:%Y-%m-%d %H:%M} to {self.shown_after:%H:%M}"


def change_at(zone: tzinfo, at: Micros) -> ClockChange:
    naive = _naive(at)
    return ClockChange(at, zone_name(zone), offset_at(zone, naive - SECOND), offset_at(zone, naive))


def zone_of(trigger: Trigger, otherwise: str) -> str:
    """The zone in whose wall-clock time the trigger is read."""
    parts = {part.tz for part in _calendars(trigger) if part.tz is not None}
    return parts.pop() if len(parts) == 1 else otherwise


def notes_of(trigger: Trigger, change: ClockChange, ticks: Sequence[Micros]) -> dict[Micros, str]:
    """Which of the ticks the change has touched, and how."""
    parts = [part for part in _calendars(trigger) if known_zone(part.tz) == known_zone(change.zone)]
    if not parts:
        return {}
    size = change.size // _MICROSECOND
    if not change.forward:
        first = dict.fromkeys(_between(ticks, change.at - size, change.at), "first pass of the repeated time")
        second = dict.fromkeys(_between(ticks, change.at, change.at + size), "second pass of the repeated time")
        return first | second
    missing = [] if _is_shifted(trigger) else _missing(parts, change)
    notes = {}
    for tick in _between(ticks, change.at, change.at + size) if missing else ():
        if not any(_names(part, _naive(tick) + change.after) for part in parts):
            shifted = _naive(tick) + change.before
            skipped = shifted if shifted in missing else missing[0]
            notes[tick] = f"moved: {skipped:%H:%M} does not exist that day"
    return notes


def left_out(trigger: Trigger, change: ClockChange, ticks: Sequence[Micros]) -> str | None:
    """Says so when times of the trigger are skipped by the clocks and no run takes their place."""
    if not change.forward or _is_shifted(trigger):
        return None
    parts = [part for part in _calendars(trigger) if known_zone(part.tz) == known_zone(change.zone)]
    missing = _missing([part for part in parts if not _follows_the_wall_clock(part)], change)
    if not missing or notes_of(trigger, change, ticks):
        return None
    end = change.at + change.size // _MICROSECOND
    if any(part.changes[0] != "skip" for part in parts) and _between(ticks, change.at, end):
        return None  # another time of the trigger is at the end of the gap: they are one tick
    return f"no run for {missing[0]:%H:%M}, which does not exist that day"


def _missing(parts: Sequence[CalendarTrigger], change: ClockChange) -> list[datetime]:
    """Wall-clock times of these triggers that the clocks skip; of each rule the first."""
    begin, end = change.shown_before, change.shown_after
    found = (rule(text).after(begin - SECOND) for part in parts for text in part.rules())
    return sorted(time for time in found if time is not None and time < end)


def _names(part: CalendarTrigger, local: datetime) -> bool:
    return any(rule(text).until(local) == local for text in part.rules())


def _follows_the_wall_clock(part: CalendarTrigger) -> bool:
    return all(rule(text).wildcard for text in part.rules())


def _is_shifted(trigger: Trigger) -> bool:
    """Whether it lays its ticks beside the times of another trigger: then its own say nothing about the clocks."""
    return hasattr(trigger, "base") and not isinstance(trigger, Excluding)


def _calendars(trigger: Trigger) -> list[CalendarTrigger]:
    if isinstance(trigger, AnyOf):
        return [each for part in trigger.triggers for each in _calendars(part)]
    if isinstance(trigger, CalendarTrigger):
        return [trigger]
    base = getattr(trigger, "base", None)  # a trigger with exclusions, or one that is spread
    return _calendars(base) if isinstance(base, Trigger) else []


def _between(ticks: Sequence[Micros], begin: Micros, end: Micros) -> Sequence[Micros]:
    return ticks[bisect_left(ticks, begin) : bisect_left(ticks, end)]


def _naive(at: Micros) -> datetime:
    return to_datetime(at).replace(tzinfo=None)
