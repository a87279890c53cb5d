"""The effect of clock changes on the ticks of a job: which are moved, left out, or fall into a repeated hour."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from datetime import datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Literal

from ...model.time.instants import Micros, to_datetime, to_micros
from ...model.time.timeline import SECOND
from ...model.time.zones import known_zone
from ...model.triggers import AnyOf, Excluding, Trigger
from ...model.triggers.clock_changes import ClockChange, clock_changes
from ...model.triggers.cron import rule
from ...model.triggers.wall_clock import CalendarTrigger

_MICROSECOND = timedelta(microseconds=1)


@lru_cache(maxsize=4096)
def changes_between(zone: tzinfo, begin: Micros, end: Micros) -> list[ClockChange]:
    """The changes of a zone's clocks in [begin, end)."""
    return list(clock_changes(zone, to_datetime(begin) - _MICROSECOND, to_datetime(end)))


def describe(zone: str, change: ClockChange) -> str:
    way = "forward" if change.kind == "gap" else "back"
    return f"{zone}: clocks go {way} from {change.shown_before:%Y-%m-%d %H:%M} to {change.shown_after:%H:%M}"


def zone_of(trigger: Trigger, otherwise: str) -> str:
    """The zone in whose wall-clock time the trigger is read."""
    parts = {part.tz for part in _calendars(trigger) if part.tz is not None}
    return parts.pop() if len(parts) == 1 else otherwise


def notes_of(trigger: Trigger, zone: tzinfo, change: ClockChange, ticks: Sequence[Micros]) -> dict[Micros, str]:
    """The ticks that a change in this zone affects, and how."""
    parts = _read_in(zone, trigger)
    if not parts:
        return {}
    if change.kind == "overlap":
        first = dict.fromkeys(_around(ticks, change, -1), "first pass of the repeated time")
        second = dict.fromkeys(_around(ticks, change, 1), "second pass of the repeated time")
        return first | second
    missing = [] if _is_shifted(trigger) else _missing(parts, change)
    notes = {}
    for tick in _around(ticks, change, 1) if missing else ():
        if not any(_names(part, _naive(tick) + change.after) for part in parts):
            shifted = _naive(tick) + change.before
            skipped = shifted if shifted in missing else missing[0]
            notes[tick] = f"moved: {skipped:%H:%M} does not exist that day"
    return notes


def left_out(trigger: Trigger, zone: tzinfo, change: ClockChange, ticks: Sequence[Micros]) -> str | None:
    """A note if the clocks skip times of the trigger and no run takes their place."""
    if change.kind == "overlap" or _is_shifted(trigger):
        return None
    parts = _read_in(zone, trigger)
    missing = _missing([part for part in parts if not _follows_the_wall_clock(part)], change)
    if not missing or notes_of(trigger, zone, change, ticks):
        return None
    if any(part.changes[0] != "skip" for part in parts) and _around(ticks, change, 1):
        return None  # another time of the trigger is at the end of the gap: they are one tick
    return f"no run for {missing[0]:%H:%M}, which does not exist that day"


def _missing(parts: Sequence[CalendarTrigger], change: ClockChange) -> list[datetime]:
    """Wall-clock times of these triggers that the clocks skip; of each rule the first."""
    begin, end = change.skipped_or_repeated
    found = (rule(text).after(begin - SECOND) for part in parts for text in part.rules())
    return sorted(time for time in found if time is not None and time < end)


def _names(part: CalendarTrigger, local: datetime) -> bool:
    return any(rule(text).until(local) == local for text in part.rules())


def _follows_the_wall_clock(part: CalendarTrigger) -> bool:
    return all(rule(text).wildcard for text in part.rules())


def _is_shifted(trigger: Trigger) -> bool:
    """Whether it shifts the ticks of another trigger: then its own ticks say nothing about the clocks."""
    return hasattr(trigger, "base") and not isinstance(trigger, Excluding)


def _calendars(trigger: Trigger) -> list[CalendarTrigger]:
    if isinstance(trigger, AnyOf):
        return [each for part in trigger.triggers for each in _calendars(part)]
    if isinstance(trigger, CalendarTrigger):
        return [trigger]
    base = getattr(trigger, "base", None)  # a trigger with exclusions, or one that is spread
    return _calendars(base) if isinstance(base, Trigger) else []


def _read_in(zone: tzinfo, trigger: Trigger) -> list[CalendarTrigger]:
    return [part for part in _calendars(trigger) if known_zone(part.tz) == zone]


def _around(ticks: Sequence[Micros], change: ClockChange, side: Literal[-1, 1]) -> Sequence[Micros]:
    """The ticks right after the change, or right before it, for as long as the clocks are moved by."""
    at = to_micros(change.at)
    begin, end = sorted((at, at + side * (change.size // _MICROSECOND)))
    return ticks[bisect_left(ticks, begin) : bisect_left(ticks, end)]


def _naive(at: Micros) -> datetime:
    return to_datetime(at).replace(tzinfo=None)
