"""What the clock of a zone shows, by `zoneinfo` alone. Imports nothing of Mainspring."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

SECOND, DAY = timedelta(seconds=1), timedelta(days=1)


def near_changes(zone: str, at: datetime) -> datetime:
    """The instant, or a day before the next change of the clock: that is where things go wrong."""
    where = ZoneInfo(zone)
    for _ in range(60):
        if at.astimezone(where).utcoffset() != (at + 7 * DAY).astimezone(where).utcoffset():
            return at + 5 * DAY
        at += 7 * DAY
    return at


def shift_between(zone: str, earlier: datetime, later: datetime) -> timedelta:
    where = ZoneInfo(zone)
    return abs(later.astimezone(where).utcoffset() - earlier.astimezone(where).utcoffset())


def change_between(where: ZoneInfo, low: datetime, high: datetime) -> datetime:
    """The first second with another offset than `low`."""
    while high - low > SECOND:
        middle = low + (high - low) // 2 // SECOND * SECOND
        if middle.astimezone(where).utcoffset() == low.astimezone(where).utcoffset():
            low = middle
        else:
            high = middle
    return high


def instant_of(where: ZoneInfo, wall: datetime) -> datetime:
    """When a daily job runs for this wall-clock time: the first time it is shown, or the end of the gap it fell in."""
    readings = [wall.replace(tzinfo=where, fold=fold).astimezone(UTC) for fold in (0, 1)]
    shown = [at for at in readings if at.astimezone(where).replace(tzinfo=None, fold=0) == wall]
    return min(shown) if shown else change_between(where, min(readings), max(readings))
