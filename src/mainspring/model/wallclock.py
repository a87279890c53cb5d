"""From rules of local time to instants: the next and the previous real moment a rule stands for in a zone.

The rule of TIM-4. A rule that names its minute and hour runs once per match: in a gap at its end, shifted, or not at
all; in an overlap on the first pass, the second, or both. A wildcard rule follows the wall clock of every real
minute: no minute of a gap, both passes of an overlap. Different matches that fall on one instant are one tick.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, tzinfo

from .cron import HORIZON_YEARS, Rule
from .timeline import SECOND, Band, Gap, Overlap, bands


def next_instant(rule: Rule, zone: tzinfo, gap: Gap, overlap: Overlap, after: datetime) -> datetime | None:
    """The first instant of the rule later than `after` (aware UTC)."""
    gap, overlap = ("skip", "both") if rule.wildcard else (gap, overlap)
    start, ahead = after.replace(tzinfo=None), _Ahead(rule)
    try:
        for year in range(start.year, min(start.year + HORIZON_YEARS, 9998) + 1):
            for _, end, choices in bands(zone, year, gap, overlap):
                found = _earliest(ahead, choices, start) if end > start else None
                if found is not None:
                    return found.replace(tzinfo=UTC)
    except OverflowError:  # the end of the calendar
        pass
    return None


def previous_instant(rule: Rule, zone: tzinfo, gap: Gap, overlap: Overlap, until: datetime) -> datetime | None:
    """The last instant of the rule not later than `until` (aware UTC)."""
    gap, overlap = ("skip", "both") if rule.wildcard else (gap, overlap)
    start, behind = until.replace(tzinfo=None), _Behind(rule)
    try:
        for year in range(min(start.year, 9998), max(start.year - HORIZON_YEARS, 2) - 1, -1):
            for begin, _, choices in reversed(bands(zone, year, gap, overlap)):
                found = _latest(behind, choices, start) if begin <= start else None
                if found is not None:
                    return found.replace(tzinfo=UTC)
    except OverflowError:
        pass
    return None


def _earliest(ahead: _Ahead, choices: Iterable[Band], after: datetime) -> datetime | None:
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


def _latest(behind: _Behind, choices: Iterable[Band], until: datetime) -> datetime | None:
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

    def __init__(self, rule: Rule) -> None:
        self.rule, self.asked, self.match = rule, datetime.max, datetime.min

    def of(self, local: datetime) -> datetime:
        if not self.asked <= local < self.match:
            self.asked, self.match = local, self.rule.after(local) or datetime.max
        return self.match


class _Behind:
    """`rule.until` that remembers its last answer."""

    __slots__ = ("asked", "match", "rule")

    def __init__(self, rule: Rule) -> None:
        self.rule, self.asked, self.match = rule, datetime.min, datetime.max

    def of(self, local: datetime) -> datetime:
        if not self.match <= local <= self.asked:
            self.asked, self.match = local, self.rule.until(local) or datetime.min
        return self.match
