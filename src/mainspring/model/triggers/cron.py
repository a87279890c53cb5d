"""Cron expressions: grammar, errors that name the field, and walking of plain local time.

Five fields, or six with the seconds first: `[second] minute hour day-of-month month day-of-week`. What a field means
and which days match is cronsim's; this module checks each field beforehand so that an error says what is wrong, and
refuses to guess.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from calendar import monthrange
from datetime import MAXYEAR, MINYEAR, date, datetime
from functools import lru_cache
from typing import NamedTuple

from cronsim import CronSim, CronSimError

from ..errors import InvalidValue, nearest
from ..time.timeline import SECOND

ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
HORIZON_YEARS = 50
LONGEST = 1_000

_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_TERM = re.compile(r"(?P<first>\*|[A-Z]{3}|[0-9]+)(?:-(?P<last>[A-Z]{3}|[0-9]+))?(?:/(?P<step>[0-9]+))?")
_NTH_WEEKDAY = re.compile(r"(?P<day>[A-Z]{3}|[0-9])(?:L|#(?P<nth>[1-5]))")
_FIRST_DAY = datetime(2000, 1, 1)


class _Field(NamedTuple):
    name: str
    low: int
    high: int
    cycle: int
    names: tuple[str, ...] = ()
    extra: str = ""

    @property
    def allowed(self) -> str:
        names = f", {self.names[0]}-{self.names[-1]}" if self.names else ""
        return f"{self.low}-{self.high}{names}, *, lists, ranges and steps{self.extra}"


_FIELDS = (
    _Field("second", 0, 59, 60),
    _Field("minute", 0, 59, 60),
    _Field("hour", 0, 23, 24),
    _Field("day of month", 1, 31, 31, extra=", L (last day), LW (last working day)"),
    _Field("month", 1, 12, 12, _MONTHS),
    _Field("day of week", 0, 7, 7, _DAYS, extra=", 5L (last Friday), 1#2 (second Monday); 0 and 7 are Sunday"),
)


def normalise(expression: object) -> str:
    """The expression with aliases expanded and single spaces; refuses what has the wrong number of fields."""
    if not isinstance(expression, str) or not expression.strip():
        raise InvalidValue("cron", expression, "5 fields, or 6 with seconds first", 'Such as "0 2 * * *"')
    if len(expression) > LONGEST:
        raise InvalidValue("cron", expression, f"at most {LONGEST} characters")
    text = " ".join(expression.split())
    if text.startswith("@"):
        return _alias(text)
    if len(text.split(" ")) not in {5, 6}:
        raise InvalidValue("cron", expression, "5 fields, or 6 with seconds first", _count_remedy(text))
    return text


def _alias(text: str) -> str:
    if text.lower() in ALIASES:
        return ALIASES[text.lower()]
    every = text.lower().startswith("@every")
    near = nearest(text, ALIASES)
    guess = f"Did you mean {near!r}?" if near else ""
    remedy = "Use the trigger every(), such as every(minutes=30)" if every else guess
    raise InvalidValue("cron", text, ", ".join(ALIASES), remedy)


def _count_remedy(text: str) -> str:
    count = len(text.split(" "))
    if count == 7:
        return "The year as a seventh field is not supported: drop it, and use once() for a single date"
    return f"It has {count} field{'s' if count != 1 else ''}"


class CronRule:
    """A parsed expression that walks naive local time in both directions. Immutable, safe to share.

    cronsim reads the fields and says which days match; the days of a month are kept, and the time of day is looked up
    in tables, because a scheduler asks for the next match far more often than a month comes.
    """

    __slots__ = ("_day", "_hours", "_minutes", "_months", "_seconds", "_weekday", "text", "wildcard")

    def __init__(self, text: str) -> None:
        fields = checked_fields(text)
        self.text = text
        # Debian's distinction: such a job follows the wall clock of every real minute, whatever DST does.
        self.wildcard = fields[-5].startswith("*") or fields[-4].startswith("*")
        parsed = _simulator(text, fields)
        self._seconds = _values(frozenset(parsed.seconds), 60)
        self._minutes = _values(frozenset(parsed.minutes), 60)
        self._hours = _values(frozenset(parsed.hours), 24)
        self._months = _values(frozenset(parsed.months), 13)
        self._day, self._weekday = fields[-3], fields[-1]
        if self.after(_FIRST_DAY - SECOND) is None:
            raise InvalidValue("cron", text, "an expression that matches some date", "This one never fires")

    @property
    def every_day(self) -> int:
        """How often it matches on each day of the year; 0 if there are days on which it does not."""
        if (self._day, self._weekday, self._months.size) != ("*", "*", 12):
            return 0
        return self._hours.size * self._minutes.size * self._seconds.size

    def after(self, local: datetime) -> datetime | None:
        """The first match later than `local`, or None within the horizon."""
        start = local.replace(microsecond=0) + SECOND
        year, month, day = start.year, start.month, start.day
        days = self._days_of(year, month)
        place = bisect_left(days, day)
        if place < len(days) and days[place] == day:
            clock = self._clock_from(start.hour, start.minute, start.second)
            if clock is not None:
                return datetime(year, month, day, *clock)
            place += 1
        last_year = min(year + HORIZON_YEARS, MAXYEAR)
        while place >= len(days):
            following = self._months.next[month + 1]
            year, month = (year, following) if following is not None else (year + 1, self._months.first)
            if year > last_year:
                return None
            days, place = self._days_of(year, month), 0
        return datetime(year, month, days[place], self._hours.first, self._minutes.first, self._seconds.first)

    def until(self, local: datetime) -> datetime | None:
        """The last match not later than `local`, or None within the horizon."""
        year, month, day = local.year, local.month, local.day
        days = self._days_of(year, month)
        place = bisect_left(days, day)
        if place < len(days) and days[place] == day:
            clock = self._clock_until(local.hour, local.minute, local.second)
            if clock is not None:
                return datetime(year, month, day, *clock)
        first_year = max(year - HORIZON_YEARS, MINYEAR)
        while place == 0:
            preceding = self._months.previous[month - 1]
            year, month = (year, preceding) if preceding is not None else (year - 1, self._months.last)
            if year < first_year:
                return None
            days = self._days_of(year, month)
            place = len(days)
        return datetime(year, month, days[place - 1], self._hours.last, self._minutes.last, self._seconds.last)

    def _clock_from(self, hour: int, minute: int, second: int) -> tuple[int, int, int] | None:
        """The first matching time of day that is not earlier."""
        if self._hours.next[hour] == hour:
            if self._minutes.next[minute] == minute and (found := self._seconds.next[second]) is not None:
                return hour, minute, found
            if (found := self._minutes.next[minute + 1]) is not None:
                return hour, found, self._seconds.first
        if (found := self._hours.next[hour + 1]) is not None:
            return found, self._minutes.first, self._seconds.first
        return None

    def _clock_until(self, hour: int, minute: int, second: int) -> tuple[int, int, int] | None:
        """The last matching time of day that is not later. Index -1 of a table is its end, which holds None."""
        if self._hours.previous[hour] == hour:
            if self._minutes.previous[minute] == minute and (found := self._seconds.previous[second]) is not None:
                return hour, minute, found
            if (found := self._minutes.previous[minute - 1]) is not None:
                return hour, found, self._seconds.last
        if (found := self._hours.previous[hour - 1]) is not None:
            return found, self._minutes.last, self._seconds.last
        return None

    def _days_of(self, year: int, month: int) -> tuple[int, ...]:
        """The days of one month that match, in order."""
        return _days(self._day, self._weekday, year, month) if self._months.next[month] == month else ()


class _Values:
    """The values of a field, with the next and the previous one for every number of its range; None past the end."""

    __slots__ = ("first", "last", "next", "previous", "size")

    def __init__(self, values: frozenset[int], size: int) -> None:
        self.first, self.last, self.size = min(values), max(values), len(values)
        self.next: list[int | None] = [None] * (size + 1)
        self.previous: list[int | None] = [None] * (size + 1)
        for n in range(size):
            self.previous[n] = n if n in values else self.previous[n - 1]
        for n in reversed(range(size)):
            self.next[n] = n if n in values else self.next[n + 1]


@lru_cache(maxsize=1024)
def _values(values: frozenset[int], size: int) -> _Values:
    """Most expressions share most of their fields."""
    return _Values(values, size)


@lru_cache(maxsize=8192)
def _days(day: str, weekday: str, year: int, month: int) -> tuple[int, ...]:
    """The days of a month that match two fields. Expressions share them: most jobs run on all days, or on weekdays."""
    matches, length = _calendar(day, weekday).match_day, monthrange(year, month)[1]
    return tuple(n for n in range(1, length + 1) if matches(date(year, month, n)))


@lru_cache(maxsize=256)
def _calendar(day: str, weekday: str) -> CronSim:
    return CronSim(f"0 0 {day} * {weekday}", _FIRST_DAY)


@lru_cache(maxsize=8192)
def rule(text: str) -> CronRule:
    """The rule of a normalised expression, parsed once."""
    return CronRule(text)


def _simulator(text: str, fields: list[str]) -> CronSim:
    try:
        return CronSim(" ".join(fields), _FIRST_DAY)
    except CronSimError:  # each field is valid, so no month is long enough for the day
        month, day = text.split(" ")[-2], text.split(" ")[-3]
        raise InvalidValue(
            "cron day of month", day, f"a day that exists in month {month}", "This expression never fires"
        ) from None


def checked_fields(text: str) -> list[str]:
    """The fields of a normalised expression, in capitals and with numbers for names; refuses what is wrong."""
    parts = text.split(" ")
    return [_checked(field, part) for field, part in zip(_FIELDS[-len(parts) :], parts, strict=True)]


def _checked(field: _Field, part: str) -> str:
    if part == "?" and field.name.startswith("day"):
        return "*"
    return ",".join(_checked_term(field, term) for term in part.split(","))


def _checked_term(field: _Field, term: str) -> str:
    upper = term.upper()
    if field.name == "day of month" and upper in {"L", "LW"}:
        return upper
    if field.name == "day of week" and (nth := _NTH_WEEKDAY.fullmatch(upper)):
        suffix = f"#{nth['nth']}" if nth["nth"] else "L"
        return f"{_number(field, nth['day'], term)}{suffix}"
    match = _TERM.fullmatch(upper)
    if not match or (match["first"] == "*" and match["last"]):
        raise _refused(field, term)
    step = f"/{_step(field, match['step'], term)}" if match["step"] else ""
    if match["first"] == "*":
        return f"*{step}"
    return _span(field, match, term, step)


def _span(field: _Field, match: re.Match[str], term: str, step: str) -> str:
    first = _number(field, match["first"], term)
    if match["last"] is None:
        return f"{first}{step}"
    last = _number(field, match["last"], term)
    if field.name == "day of week" and last == 0 < first:
        last = 7  # MON-SUN
    if last < first:
        remedy = f"Write a range over the end as two: {first}-{field.high},{field.low}-{last}"
        raise _refused(field, term, remedy)
    return f"{first}-{last}{step}" if last > first else str(first)


def _number(field: _Field, text: str, term: str) -> int:
    if text in field.names:
        return field.names.index(text) + field.low
    if text.isdigit() and len(text) <= 2 and field.low <= int(text) <= field.high:
        return int(text)
    raise _refused(field, term)


def _step(field: _Field, text: str, term: str) -> int:
    if len(text) <= 2 and 1 <= int(text) <= field.cycle:
        return int(text)
    remedy = "For longer steps use every()" if int(text) else "A step is at least 1"
    raise _refused(field, term, remedy)


def _refused(field: _Field, term: str, remedy: str = "") -> InvalidValue:
    return InvalidValue(f"cron {field.name}", term, field.allowed, remedy)
