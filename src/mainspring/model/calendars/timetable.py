"""The timetable of a job: when it is open and closed in real time.

Everything that can close a job is a gate: the week, the calendars of `only`, each calendar of `closed`. A gate says
whether it is open at an instant and how far around it that surely stays so; a job is open while all its gates are. A
stretch never reaches over a change of the zone's offset, so within it wall-clock time and real time run in parallel.

Datetimes inside this module are naive UTC, as in `timeline.py`; at its edge they are aware.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import NamedTuple

from ..errors import one_of
from ..time.timeline import SECOND, offset_at, segments
from .calendar import Calendar
from .hours import WEEK_SECONDS, Hours

HORIZON = timedelta(days=5 * 366)
"""How far to search for an opening, in both directions."""

_INSTANT = timedelta(microseconds=1)


class OpenSpan(NamedTuple):
    """Real time [begin, end) that is open, or closed by what `by` names."""

    open: bool
    begin: datetime
    end: datetime
    by: str = ""


class OpenHours:
    """The hours of a job in its zone, with the current calendars. A missing calendar keeps it closed.

    >>> from zoneinfo import ZoneInfo
    >>> nights = OpenHours(Hours("22:00-06:00", days="fri"), ZoneInfo("Europe/Berlin"), {})
    >>> nights.next_open(datetime(2026, 1, 1, tzinfo=UTC)).isoformat()
    '2026-01-02T21:00:00+00:00'
    """

    def __init__(self, hours: Hours, zone: tzinfo, calendars: Mapping[str, Calendar]) -> None:
        self.hours, self._zone = hours, zone
        self._only = [calendars[name] for name in hours.only if name in calendars]
        self._closed = [(name, calendars[name]) for name in hours.closed if name in calendars]
        self.missing = [name for name in hours.calendars if name not in calendars]

    def is_open(self, at: datetime) -> bool:
        return self._at(_naive(at)).open

    def next_open(self, at: datetime) -> datetime | None:
        """This instant if it is open, else the next that is; None if there is none within five years."""
        limit = at + HORIZON
        found = self.stretch_from(at, limit)
        if found.open:
            return at
        return found.end if found.end < limit else None

    def stretch(self, at: datetime) -> OpenSpan:
        """The whole open or closed stretch around this instant, within the search limit."""
        start = _naive(at)
        found = self._at(start)
        begin, end, earliest, latest = found.begin, found.end, start - HORIZON, start + HORIZON
        while end < latest and (after := self._at(end)).open == found.open:
            end = after.end
        while begin > earliest and (before := self._at(begin - _INSTANT)).open == found.open:
            begin = before.begin
        return OpenSpan(found.open, begin.replace(tzinfo=UTC), end.replace(tzinfo=UTC), self._by(start))

    def stretches(self, begin: datetime, end: datetime) -> Iterator[OpenSpan]:
        """The open and closed stretches from one instant to another, cut off there."""
        at = begin
        while at < end:
            found = self.stretch_from(at, end)
            yield found
            at = found.end

    def stretch_from(self, at: datetime, limit: datetime) -> OpenSpan:
        """The stretch from this instant on, up to `limit`."""
        start, latest = _naive(at), _naive(limit)
        found = self._at(start)
        end = found.end
        while end < latest and (after := self._at(end)).open == found.open:
            end = after.end
        return OpenSpan(found.open, at, min(end, latest).replace(tzinfo=UTC))

    # --- gates ----------------------------------------------------------------------------------------------------
    def _at(self, at: datetime) -> OpenSpan:
        """Closed as long as any closed gate is, open as long as every gate is."""
        gates = list(self._gates(at))
        shut = [gate for gate in gates if not gate.open]
        if shut:
            return OpenSpan(False, min(gate.begin for gate in shut), max(gate.end for gate in shut))
        return OpenSpan(True, max(gate.begin for gate in gates), min(gate.end for gate in gates))

    def _by(self, at: datetime) -> str:
        """What closes the job, in words. Of several closed gates, this names the last to open."""
        shut = [gate for gate in self._gates(at) if not gate.open]
        return max(shut, key=lambda gate: gate.end).by if shut else ""

    def _gates(self, at: datetime) -> Iterator[OpenSpan]:
        around = self._around(at)
        if any(name in self.missing for name in self.hours.closed):
            names = one_of([name for name in self.hours.closed if name in self.missing])
            yield OpenSpan(False, *around, f"calendar {names}, which does not exist")
        yield self._week_gate(at)
        if self.hours.only:
            yield self._only_gate(at)
        for name, calendar in self._closed:
            inside = _covered(calendar, self._zone, at, around)
            label = f" ({inside.by})" if inside.by else ""
            yield OpenSpan(not inside.open, inside.begin, inside.end, f"calendar {name}{label}")

    def _around(self, at: datetime) -> tuple[datetime, datetime]:
        return _steady(self._zone, at)

    def _week_gate(self, at: datetime) -> OpenSpan:
        around = self._around(at)
        local = at + offset_at(self._zone, at)
        monday = datetime(local.year, local.month, local.day) - timedelta(days=local.weekday())
        second = (local - monday) // SECOND
        week = self.hours.week()
        row = bisect_right(week, second, key=lambda item: item[0]) - 1
        if row >= 0 and second < week[row][1]:
            return _placed(True, monday, week[row], local, at, around, "its hours")
        since = week[row][1] if row >= 0 else 0
        until = week[row + 1][0] if row + 1 < len(week) else WEEK_SECONDS
        return _placed(False, monday, (since, until), local, at, around, "its hours")

    def _only_gate(self, at: datetime) -> OpenSpan:
        around, names = self._around(at), one_of(self.hours.only)
        why = f"being outside calendar {names}"
        if len(self._only) < len(self.hours.only):
            why += f", of which {one_of([name for name in self.hours.only if name in self.missing])} does not exist"
        found = [_covered(calendar, self._zone, at, around) for calendar in self._only]
        inside = [each for each in found if each.open]
        if inside:
            return OpenSpan(True, min(each.begin for each in inside), max(each.end for each in inside))
        begin = max((each.begin for each in found), default=around[0])
        return OpenSpan(False, begin, min((each.end for each in found), default=around[1]), why)


def _covered(calendar: Calendar, zone: tzinfo, at: datetime, around: tuple[datetime, datetime]) -> OpenSpan:
    """Whether the calendar covers this instant (`open`), how far around it that holds, and by which entry."""
    found = []
    for tz in calendar.zones:
        steady = around if tz is None else _steady(tz, at)
        offset = offset_at(zone if tz is None else tz, at)
        inside, begin, end, label = calendar.stretch(tz, at + offset)
        found.append(OpenSpan(inside, max(begin - offset, steady[0]), min(end - offset, steady[1]), label))
    inside_ones = [each for each in found if each.open]
    if inside_ones:
        begin, end = min(each.begin for each in inside_ones), max(each.end for each in inside_ones)
        return OpenSpan(True, begin, end, next((each.by for each in inside_ones if each.by), ""))
    if not found:
        return OpenSpan(False, *around)
    return OpenSpan(False, max(each.begin for each in found), min(each.end for each in found))


def _steady(zone: tzinfo, at: datetime) -> tuple[datetime, datetime]:
    """The stretch around an instant, within its year, in which the zone's offset stays the same."""
    for segment in segments(zone, at.year):
        if at < segment.end:
            return segment.begin, segment.end
    raise AssertionError("a year has a segment for each of its instants")


def _placed(
    is_open: bool,
    monday: datetime,
    seconds: tuple[int, int],
    local: datetime,
    at: datetime,
    around: tuple[datetime, datetime],
    by: str,
) -> OpenSpan:
    begin, end = (at + (monday + timedelta(seconds=each) - local) for each in seconds)
    return OpenSpan(is_open, max(begin, around[0]), min(end, around[1]), by)


def _naive(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(tzinfo=None)
