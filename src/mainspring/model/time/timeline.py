"""How wall-clock time maps to real time in one zone.

A zone cuts real time into segments of constant UTC offset. Where the offset grows, a piece of wall-clock time is
missing (a gap); where it shrinks, a piece happens twice (an overlap). `bands` says which wall-clock times count in a
segment and which instants they stand for under the chosen rule, so that triggers only ever walk plain local time.

Datetimes inside this module are naive: UTC for instants, wall clock for local ones.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Literal, NamedTuple

Gap = Literal["at_end", "shift", "skip"]
Overlap = Literal["first", "second", "both"]

SECOND = timedelta(seconds=1)
_NOTHING = timedelta(0)
# Offset changes of one zone are never closer than 167 hours in the whole time zone database (a test checks this).
_STEP = timedelta(hours=166)


class Segment(NamedTuple):
    """A stretch of real time with one UTC offset. Segments also end with each year, which changes no offset."""

    begin: datetime
    end: datetime
    offset: timedelta
    before: timedelta
    after: timedelta


class Band(NamedTuple):
    """Wall-clock times [begin, end) that count, and their offset, or the instant that all of them stand for."""

    begin: datetime
    end: datetime
    offset: timedelta
    instant: datetime | None = None


def offset_at(zone: tzinfo, instant: datetime) -> timedelta:
    return zone.fromutc(instant.replace(tzinfo=zone)).utcoffset() or _NOTHING


@lru_cache(maxsize=8192)
def segments(zone: tzinfo, year: int) -> tuple[Segment, ...]:
    """The segments of one UTC year, in order."""
    begin, end = datetime(year, 1, 1), datetime(year + 1, 1, 1)
    edges = [begin, *(change for change in _changes(zone, begin, end) if change > begin), end]
    offsets = [offset_at(zone, edge) for edge in edges]
    befores = [offset_at(zone, begin - SECOND), *offsets[:-1]]
    return tuple(Segment(edges[n], edges[n + 1], offsets[n], befores[n], offsets[n + 1]) for n in range(len(edges) - 1))


def _changes(zone: tzinfo, begin: datetime, end: datetime) -> list[datetime]:
    """The instants in [begin, end) at which the offset changes."""
    if isinstance(zone, timezone):  # a fixed offset
        return []
    found, low = [], begin - SECOND
    offset = offset_at(zone, low)
    while low < end - SECOND:
        high = min(low + _STEP, end - SECOND)
        before, offset = offset, offset_at(zone, high)
        if offset != before:
            found.append(_change_between(zone, low, high))
        low = high
    return found


def _change_between(zone: tzinfo, low: datetime, high: datetime) -> datetime:
    """The first instant with another offset than `low`, by bisection; `high` has another one."""
    old, size = offset_at(zone, low), (high - low) // SECOND
    while size > 1:
        half = size // 2
        middle = low + timedelta(seconds=half)
        if offset_at(zone, middle) == old:
            low, size = middle, size - half
        else:
            size = half
    return low + timedelta(seconds=size)


@lru_cache(maxsize=8192)
def bands(zone: tzinfo, year: int, gap: Gap, overlap: Overlap) -> tuple[tuple[datetime, datetime, list[Band]], ...]:
    """For each segment of the year its first instant, its end and the bands of wall-clock time that count in it."""
    return tuple((s.begin, s.end, _bands_of(s, gap, overlap)) for s in segments(zone, year))


def _bands_of(segment: Segment, gap: Gap, overlap: Overlap) -> list[Band]:
    begin, end, offset, before, after = segment
    repeated_from = begin + (max(offset, before) if overlap == "first" else offset)
    repeated_until = end + (min(offset, after) if overlap == "second" else offset)
    plain = Band(repeated_from, repeated_until, offset)
    if offset <= before or gap == "skip":
        return [plain]
    instant = begin if gap == "at_end" else None
    return [Band(begin + before, begin + offset, before, instant), plain]


def localise(local: datetime, zone: tzinfo) -> datetime:
    """The UTC instant of a naive wall-clock time: in an overlap as its `fold` says, in a gap the end of the gap."""
    aware = local.replace(tzinfo=zone)
    instant = aware.astimezone(UTC)
    if instant.astimezone(zone).replace(tzinfo=None) == local.replace(fold=0):
        return instant
    low, high = (aware.replace(fold=fold).astimezone(UTC).replace(tzinfo=None) for fold in (1, 0))
    return _change_between(zone, low.replace(microsecond=0), high + SECOND).replace(tzinfo=UTC)
