"""Named calendars: whole days and stretches of time under one name, such as holidays or a blackout.

A calendar is a list of blocks of wall-clock time, in the zone of the job that uses it unless they name one. A day of 23
or 25 hours is covered from its first instant to its last.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import msgspec

from ..errors import InvalidValue
from ..time.zones import known_zone
from ..values.reading import WEEKDAYS, weekday
from .recurrence import DAYS, begins, effort

MOST_BLOCKS = 10_000
MOST_EFFORT = 20_000
"""For the entries of a calendar together, see `Block.effort`: schedulers lay out a year of them at a time."""
LARGE = 1_000
YEARS = (1900, 9000)
LONGEST_REPEATED = timedelta(days=366)

_DAY = timedelta(days=1)
_YEARLY = re.compile(r"([0-9]{2})-([0-9]{2})")
_WEEKLY = "FREQ=WEEKLY;BYDAY="
_A_LEAP_YEAR, _A_MONDAY = 1972, datetime(1972, 1, 3)
ALLOWED = (
    'dates ("2026-12-25"), days of every year ("12-25"), weekdays ("sat-sun"), or ranges of dates or times '
    '("2026-12-24/2027-01-02", "2026-03-01T22:00/2026-03-02T06:00", with Z or an offset for instants)'
)


class Block(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Wall-clock time [begin, end), in the zone `tz` or that of the job; with `rule` it repeats."""

    begin: datetime
    end: datetime
    tz: str | None = None
    rule: str | None = None
    without: tuple[datetime, ...] = ()
    label: str = ""

    def text(self) -> str:
        """The entry as users write it in a list, or followed by its rule."""
        if self.rule == "FREQ=YEARLY" and self == _yearly("", "", self.begin.month, self.begin.day):
            return f"{self.begin:%m-%d}"
        if self.rule is not None and self.rule.startswith(_WEEKLY):
            names = ",".join(WEEKDAYS[DAYS.index(day)][:3] for day in self.rule.removeprefix(_WEEKLY).split(","))
            if self == _weekly("", names):
                return names
        whole = self.tz is None and self.begin.time() == self.end.time() == time()
        if whole:
            last = self.end.date() - _DAY
            plain = f"{self.begin.date()}" if last == self.begin.date() else f"{self.begin.date()}/{last}"
        else:
            mark = "Z" if self.tz == "UTC" else ""
            plain = f"{_short(self.begin)}{mark}/{_short(self.end)}{mark}"
            plain += "" if self.tz in (None, "UTC") else f" {self.tz}"
        return f"{plain} {self.rule}" if self.rule else plain

    def effort(self) -> int:
        """What it costs to lay it out for a year, in microseconds or so."""
        return 1 if self.rule is None else effort(self.rule) + len(self.without)


class CalendarSpan(NamedTuple):
    """Wall-clock time [begin, end) that is all inside the calendar or all outside, and by which entry."""

    inside: bool
    begin: datetime
    end: datetime
    label: str


class Calendar(msgspec.Struct, frozen=True, dict=True):
    """
    >>> holidays = calendar("holidays", ["12-25", "2026-04-03/2026-04-06"])
    >>> holidays.covers(datetime(2026, 4, 4, 12, tzinfo=UTC), UTC)
    True
    """

    blocks: tuple[Block, ...] = ()

    def covers(self, at: datetime, zone: tzinfo) -> bool:
        """Whether this instant lies in the calendar, for a job in this zone."""
        return any(self.stretch(tz, wall(at, tz or zone)).inside for tz in self.zones)

    @property
    def zones(self) -> tuple[tzinfo | None, ...]:
        """The zones of its blocks; None stands for the zone of the job."""
        return tuple(self._by_zone())

    def stretch(self, tz: tzinfo | None, local: datetime) -> CalendarSpan:
        """The stretch around this wall-clock time by the blocks of one zone, within its year."""
        year = local.year
        rows = self._of_year(tz, year)
        at = bisect_right(rows, local, key=lambda row: row[0]) - 1
        if at >= 0 and local < rows[at][1]:
            return CalendarSpan(True, *rows[at])
        since = rows[at][1] if at >= 0 else datetime(year, 1, 1)
        until = rows[at + 1][0] if at + 1 < len(rows) else datetime(year + 1, 1, 1)
        return CalendarSpan(False, since, until, "")

    @property
    def is_large(self) -> bool:
        """Whether laying out a year takes long enough to be done ahead of its use."""
        if "large" not in self.__dict__:
            self.__dict__["large"] = sum(block.effort() for block in self.blocks) > LARGE
        return bool(self.__dict__["large"])

    def lay_out(self, year: int) -> bool:
        """Work out its stretches in this year. False if that was done before."""
        kept = self.__dict__.setdefault("years", {})
        missing = [tz for tz in self.zones if (tz, year) not in kept]
        for tz in missing:
            self._of_year(tz, year)
        return bool(missing)

    def texts(self) -> list[str]:
        return [block.text() for block in self.blocks]

    def _by_zone(self) -> dict[tzinfo | None, list[Block]]:
        if "by_zone" not in self.__dict__:
            found: dict[tzinfo | None, list[Block]] = {}
            for block in self.blocks:
                found.setdefault(None if block.tz is None else known_zone(block.tz), []).append(block)
            self.__dict__["by_zone"] = found
        kept: dict[tzinfo | None, list[Block]] = self.__dict__["by_zone"]
        return kept

    def _of_year(self, tz: tzinfo | None, year: int) -> list[tuple[datetime, datetime, str]]:
        """Its stretches in one year, in order and disjoint; cached, because every tick needs them."""
        kept: dict[Any, list[tuple[datetime, datetime, str]]] = self.__dict__.setdefault("years", {})
        if (tz, year) not in kept:
            kept[tz, year] = _laid_out(self._by_zone()[tz], tz, year)
        return kept[tz, year]


def wall(at: datetime, zone: tzinfo) -> datetime:
    """The wall-clock time of this instant."""
    return at.astimezone(zone).replace(tzinfo=None, fold=0)


def _laid_out(blocks: Sequence[Block], tz: tzinfo | None, year: int) -> list[tuple[datetime, datetime, str]]:
    begin, end = datetime(year, 1, 1), datetime(year + 1, 1, 1)
    rows = sorted(row for block in blocks for row in _occurrences(block, tz, begin, end))
    apart: list[tuple[datetime, datetime, str]] = []
    for since, until, label in rows:
        since, until = max(since, begin), min(until, end)
        if since >= until:
            continue
        if apart and since <= apart[-1][1]:
            apart[-1] = (apart[-1][0], max(apart[-1][1], until), apart[-1][2])
        else:
            apart.append((since, until, label))
    return apart


def _occurrences(
    block: Block, tz: tzinfo | None, begin: datetime, end: datetime
) -> Iterable[tuple[datetime, datetime, str]]:
    if block.rule is None:
        return [(block.begin, block.end, block.label)]
    size = block.end - block.begin
    found, without = begins(block.begin, block.rule, tz, begin - size, end), frozenset(block.without)
    return [(at, at + size, block.label) for at in found if at not in without]


# --- reading --------------------------------------------------------------------------------------------------------


CalendarEntries: TypeAlias = Calendar | str | date | Iterable[Any]
"""Entries as dates, ranges and texts, one or several; or the text of an .ics file."""


def calendar(name: str, entries: CalendarEntries) -> Calendar:
    """A calendar from a list of dates and ranges, or from the text of an .ics file."""
    field = f"calendar {name!r}"
    if isinstance(entries, Calendar):
        return entries
    if isinstance(entries, str) and entries.lstrip("\ufeff \r\n").upper().startswith("BEGIN:VCALENDAR"):
        from .ics import calendar_from_ics  # it imports this module

        return calendar_from_ics(entries)
    given = (entries,) if isinstance(entries, str | date) or not isinstance(entries, Iterable) else entries
    blocks = tuple(_block(field, entry) for entry in given)
    return checked(field, Calendar(blocks))


def checked(field: str, found: Calendar) -> Calendar:
    """Refuse calendars that would be slow or cannot be stored."""
    if len(found.blocks) > MOST_BLOCKS:
        raise InvalidValue(field, f"{len(found.blocks):,} entries", f"at most {MOST_BLOCKS:,} entries")
    effort = 0
    for block in found.blocks:
        if (effort := effort + block.effort()) > MOST_EFFORT:
            allowed = f"entries that repeat at most {MOST_EFFORT:,} times a year together"
            remedy = "One with COUNT or BY... counts ten times and more: merge entries, or write their dates out"
            raise InvalidValue(field, block.text(), allowed, remedy)
        if not block.begin < block.end:
            raise InvalidValue(field, block.text(), "a begin before its end")
        if not YEARS[0] <= block.begin.year <= block.end.year <= YEARS[1]:
            raise InvalidValue(field, block.text(), f"years from {YEARS[0]} to {YEARS[1]}")
        if block.rule is not None and block.end - block.begin > LONGEST_REPEATED:
            raise InvalidValue(field, block.text(), f"at most {LONGEST_REPEATED.days} days for a repeating entry")
    return found


def encode_calendar(found: Calendar) -> list[dict[str, Any]]:
    """Plain JSON data that `decode_calendar` reads back."""
    blocks: list[dict[str, Any]] = msgspec.to_builtins(found.blocks)
    return blocks


def decode_calendar(data: Any) -> Calendar:
    return _decoded(msgspec.json.encode(data))


@lru_cache(maxsize=256)
def _decoded(text: bytes) -> Calendar:
    return Calendar(msgspec.json.decode(text, type=tuple[Block, ...]))


def _block(field: str, entry: Any) -> Block:
    if isinstance(entry, Block):
        return entry
    if isinstance(entry, datetime):
        raise InvalidValue(field, entry, ALLOWED, "A single instant has no length: give a range")
    if isinstance(entry, date):
        return _days(entry, entry)
    if isinstance(entry, Sequence) and not isinstance(entry, str) and len(entry) == 2:
        return _range(field, entry, *(_side(field, entry, side) for side in entry))
    if not isinstance(entry, str):
        raise InvalidValue(field, entry, ALLOWED)
    text = entry.strip()
    first, slash, last = text.partition("/")
    if slash:
        return _range(field, entry, _side(field, entry, first), _side(field, entry, last))
    if found := _YEARLY.fullmatch(text):
        return _yearly(field, entry, int(found[1]), int(found[2]))
    if text[:1].isalpha():
        return _weekly(field, text)
    only = _side(field, entry, text)
    if isinstance(only, datetime):
        raise InvalidValue(field, entry, ALLOWED, "A single instant has no length: give a range, begin/end")
    return _days(only, only)


def _side(field: str, entry: Any, side: Any) -> date | datetime:
    if isinstance(side, date):
        return side
    text = side.strip() if isinstance(side, str) else ""
    try:
        if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
            return date.fromisoformat(text)
        if re.match(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}", text):
            return datetime.fromisoformat(text)
    except ValueError:
        pass
    raise InvalidValue(field, entry, ALLOWED)


def _range(field: str, entry: Any, first: date | datetime, last: date | datetime) -> Block:
    """Two dates are both included; a time is not."""
    if not isinstance(first, datetime) and not isinstance(last, datetime):
        if last < first:
            raise InvalidValue(field, entry, "a first date that is not after the last")
        return _days(first, last)
    begin = first if isinstance(first, datetime) else datetime.combine(first, time())
    end = last if isinstance(last, datetime) else datetime.combine(last, time())
    if (begin.tzinfo is None) != (end.tzinfo is None):
        raise InvalidValue(field, entry, "both sides with an offset, or neither", "Without one it is the job's time")
    if begin.tzinfo is None:
        return Block(begin=begin.replace(fold=0), end=end.replace(fold=0))
    return Block(begin=wall(begin, UTC), end=wall(end, UTC), tz="UTC")


def _days(first: date, last: date) -> Block:
    end = datetime.combine(last, time()) + _DAY if last < date(YEARS[1] + 1, 1, 1) else datetime.max
    return Block(begin=datetime.combine(first, time()), end=end)


def _yearly(field: str, entry: str, month: int, day: int) -> Block:
    try:
        first = datetime(_A_LEAP_YEAR, month, day)
    except ValueError:
        raise InvalidValue(field, entry, 'a month and a day such as "12-25"') from None
    return Block(begin=first, end=first + _DAY, rule="FREQ=YEARLY")


def _weekly(field: str, text: str) -> Block:
    numbers = weekdays(field, text)
    first = _A_MONDAY + timedelta(days=numbers[0] - 1)
    return Block(begin=first, end=first + _DAY, rule=_WEEKLY + ",".join(DAYS[day - 1] for day in numbers))


def weekdays(field: str, value: Any) -> tuple[int, ...]:
    """ISO weekdays from "mon-fri", "mon,wed", names, numbers or lists of these; a range may run over Sunday.

    >>> weekdays("days", "fri-mon"), weekdays("days", ["sat", 7])
    ((1, 5, 6, 7), (6, 7))
    """
    items = value.split(",") if isinstance(value, str) else value if isinstance(value, Iterable) else (value,)
    found: set[int] = set()
    for item in items:
        first, dash, last = item.partition("-") if isinstance(item, str) else (item, "", "")
        begin = weekday(field, first)
        size = (weekday(field, last) - begin) % 7 if dash else 0
        found |= {(begin - 1 + step) % 7 + 1 for step in range(size + 1)}
    if not found:
        raise InvalidValue(field, value, 'weekdays such as "mon-fri" or "sat,sun"')
    return tuple(sorted(found))


def _short(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%S}" if at.second else f"{at:%Y-%m-%dT%H:%M}"
