"""From rules of local time to instants: the next and the previous real moment a rule stands for in a zone.

The rule of TIM-4. A rule that names its minute and hour runs once per match: in a gap at its end, shifted, or not at
all; in an overlap on the first pass, the second, or both. A wildcard rule follows the wall clock of every real
minute: no minute of a gap, both passes of an overlap. Different matches that fall on one instant are one tick.
"""

from __future__ import annotations

from datetime import MAXYEAR, MINYEAR, UTC, datetime, tzinfo

from ..time.timeline import SECOND, Band, Gap, Overlap, bands
from .cron import HORIZON_YEARS, CronRule


def next_instant(rule: CronRule, zone: tzinfo, gap: Gap, overlap: Overlap, after: datetime) -> datetime | None:
    """The first instant of the rule later than `after` (aware UTC)."""
    if rule.wildcard:
        gap, overlap = "skip", "both"
    start, ahead = after.replace(tzinfo=None), _Ahead(rule)
    year, last = start.year, min(start.year + HORIZON_YEARS, MAXYEAR - 1)
    try:
        while year <= last:
            for _, end, choices in bands(zone, year, gap, overlap):
                if end > start and (found := _earliest(ahead, choices, start)) is not None:
                    return found.replace(tzinfo=UTC)
            # A rare rule leaps over years; a match in January may still be in the old year by UTC.
            year = max(year + 1, ahead.match.year - (ahead.match.month == 1))
    except OverflowError:  # the end of the calendar
        pass
    return None


def previous_instant(rule: CronRule, zone: tzinfo, gap: Gap, overlap: Overlap, until: datetime) -> datetime | None:
    """The last instant of the rule not later than `until` (aware UTC)."""
    if rule.wildcard:
        gap, overlap = "skip", "both"
    start, behind = until.replace(tzinfo=None), _Behind(rule)
    year, first = min(start.year, MAXYEAR - 1), max(start.year - HORIZON_YEARS, MINYEAR + 1)
    try:
        while year >= first:
            for begin, _, choices in reversed(bands(zone, year, gap, overlap)):
                if begin <= start and (found := _latest(behind, choices, start)) is not None:
                    return found.replace(tzinfo=UTC)
            year = min(year - 1, behind.match.year + (behind.match.month == 12))
    except OverflowError:
        pass
    return None


def _earliest(ahead: _Ahead, choices: list[Band], after: datetime) -> datetime | None:
    if len(choices) == 1:
        return _first_in(ahead, choices[0], after)
    found = [moment for band in choices if (moment := _first_in(ahead, band, after)) is not None]
    return min(found, default=None)


def _first_in(ahead: _Ahead, band: Band, after: datetime) -> datetime | None:
    begin, end, offset, instant = band
    if instant is not None:
        return instant if instant > after and ahead.of(begin - SECOND) < end else None
    start = max(after + offset, begin - SECOND)
    if start >= end:
        return None
    local = ahead.of(start)
    return local - offset if local < end else None


def _latest(behind: _Behind, choices: list[Band], until: datetime) -> datetime | None:
    if len(choices) == 1:
        return _last_in(behind, choices[0], until)
    found = [moment for band in choices if (moment := _last_in(behind, band, until)) is not None]
    return max(found, default=None)


def _last_in(behind: _Behind, band: Band, until: datetime) -> datetime | None:
    begin, end, offset, instant = band
    if instant is not None:
        return instant if instant <= until and behind.of(end - SECOND) >= begin else None
    start = min(until + offset, end - SECOND)
    if start < begin:
        return None
    local = behind.of(start)
    return local - offset if local >= begin else None


class _Ahead:
    """`rule.after` that remembers its last answer, so that a rare rule is not walked again for each segment."""

    __slots__ = ("asked", "match", "rule")

    def __init__(self, rule: CronRule) -> None:
        self.rule, self.asked, self.match = rule, datetime.max, datetime.min

    def of(self, local: datetime) -> datetime:
        if not self.asked <= local < self.match:
            self.asked, self.match = local, self.rule.after(local) or datetime.max
        return self.match


class _Behind:
    """`rule.until` that remembers its last answer."""

    __slots__ = ("asked", "match", "rule")

    def __init__(self, rule: CronRule) -> None:
        self.rule, self.asked, self.match = rule, datetime.min, datetime.max

    def of(self, local: datetime) -> datetime:
        if not self.match <= local <= self.asked:
            self.asked, self.match = local, self.rule.until(local) or datetime.min
        return self.match
