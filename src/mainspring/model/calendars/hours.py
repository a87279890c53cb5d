"""When a job may run: times of day, weekdays and named calendars, in the job's own zone.

Hours follow the wall clock: a range that a clock change repeats is open on both passes, and one that it leaves
out is skipped that day. The end of a range is outside. `timetable.py` computes the open hours in real time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Literal

import msgspec

from ..errors import InvalidValue, nearest, one_of
from ..values.reading import WEEKDAYS, OptionFields, identifier
from .calendar import weekdays

Outside = Literal["skip", "wait"]

DAY_SECONDS = 86_400
WEEK_SECONDS = 7 * DAY_SECONDS
EVERY_DAY = (1, 2, 3, 4, 5, 6, 7)
ALLOWED = 'ranges such as "09:00-17:00", "22:00-06:00" or "sat 10:00-14:00"'

_RANGE = re.compile(r"(?:([A-Za-z][A-Za-z -]*?)\s+)?([0-9]{1,2}:[0-9]{2})\s*-\s*([0-9]{1,2}:[0-9]{2})")


class Hours(msgspec.Struct, metaclass=OptionFields, frozen=True):
    """`Hours("09:00-17:00", days="mon-fri", closed="holidays")`.

    `times` are ranges, as one text with commas or as several texts. A range that crosses midnight belongs to the day on
    which it begins. A range may name its own days ("sat 10:00-14:00"); `days` are those of all others. With `only`, the
    job may run only on what these calendars cover. It never runs on what one of the calendars in `closed` covers.

    >>> Hours("09:00-12:00, 13:00-17:00", days="mon-fri", closed=("holidays",)).describe()
    '09:00-12:00 and 13:00-17:00 from Monday to Friday, but not in holidays'
    """

    times: str | tuple[str, ...] = ()
    """The open ranges: `"09:00-12:00, 13:00-17:00"`. A range may name its own days: `"sat 10:00-14:00"`."""
    days: str | tuple[int, ...] = EVERY_DAY
    """The weekdays of the ranges that name none: `"mon-fri"`."""
    only: str | tuple[str, ...] = ()
    """The calendars that alone are open."""
    closed: str | tuple[str, ...] = ()
    """The calendars that are closed."""

    def __post_init__(self) -> None:
        times = tuple(_range_text(text) for text in _texts("hours.times", self.times))
        days = weekdays("hours.days", self.days)
        only, closed = _names("hours.only", self.only), _names("hours.closed", self.closed)
        if both := set(only) & set(closed):
            remedy = "Name it in one of them"
            raise InvalidValue("hours.closed", min(both), f"calendars that are not in only={only!r}", remedy)
        if not times and days == EVERY_DAY and not only and not closed:
            remedy = 'Say when it may run: Hours("09:00-17:00", days="mon-fri")'
            raise InvalidValue("hours", "Hours()", "times, days or calendars", remedy)
        for field, value in (("times", times), ("days", days), ("only", only), ("closed", closed)):
            msgspec.structs.force_setattr(self, field, value)

    @property
    def calendars(self) -> tuple[str, ...]:
        """The names of all its calendars."""
        return (*self.only, *self.closed)

    def week(self) -> list[tuple[int, int]]:
        """The open ranges of a week, in seconds since Monday's midnight. They are in order and do not touch."""
        return _week(self)

    def describe(self) -> str:
        """The hours in words."""
        parts = [_range_words(text, tuple(self.days)) for text in self.times]  # type: ignore[arg-type]
        words = _joined(parts) if parts else day_words(self.days)  # type: ignore[arg-type]
        if self.only:
            words += f", only in {one_of(self.only)}"
        return words + (f", but not in {one_of(self.closed)}" if self.closed else "")


def hours_of(value: Any) -> Hours:
    """The hours meant by an option: `Hours(...)`, the text of its times, or the plain data that is stored."""
    if isinstance(value, Hours):
        return value
    if isinstance(value, str):
        return Hours(value)
    if not isinstance(value, Mapping):
        raise InvalidValue("hours", value, 'Hours(...), or times such as "09:00-17:00"')
    for name in value:
        if name not in Hours.__struct_fields__:
            guess = nearest(str(name), Hours.__struct_fields__)
            hint = f"Did you mean {guess!r}?" if guess else ""
            raise InvalidValue("hours", name, ", ".join(Hours.__struct_fields__), hint)
    return Hours(**value)


def encode_hours(hours: Hours) -> dict[str, Any]:
    """Plain JSON data, without defaults.

    >>> encode_hours(Hours("9:00-17:00", days="mon-fri"))
    {'times': ['09:00-17:00'], 'days': [1, 2, 3, 4, 5]}
    """
    fields = {name: list(getattr(hours, name)) for name in hours.__struct_fields__}
    return {name: value for name, value in fields.items() if value and value != list(EVERY_DAY)}


def day_words(days: tuple[int, ...]) -> str:
    if days == EVERY_DAY:
        return "every day"
    names = [WEEKDAYS[day - 1].capitalize() for day in days]
    if len(days) > 2 and days[-1] - days[0] == len(days) - 1:
        return f"from {names[0]} to {names[-1]}"
    return f"on {_joined(names)}"


@lru_cache(maxsize=1024)
def _week(hours: Hours) -> list[tuple[int, int]]:
    rows: list[tuple[int, int]] = []
    for text in hours.times or ("00:00-24:00",):
        own, begin, end = _split(text)
        size = (end - begin) % DAY_SECONDS or DAY_SECONDS
        for day in own or hours.days:
            since = (int(day) - 1) * DAY_SECONDS + begin
            rows.append((since, min(since + size, WEEK_SECONDS)))
            if since + size > WEEK_SECONDS:  # from Sunday into Monday
                rows.append((0, since + size - WEEK_SECONDS))
    apart: list[tuple[int, int]] = []
    for since, until in sorted(rows):
        if apart and since <= apart[-1][1]:
            apart[-1] = (apart[-1][0], max(apart[-1][1], until))
        else:
            apart.append((since, until))
    return apart


def _texts(field: str, value: Any) -> list[str]:
    items = [value] if isinstance(value, str) else list(value) if isinstance(value, Iterable) else [value]
    if not all(isinstance(item, str) for item in items):
        raise InvalidValue(field, value, ALLOWED)
    return [part.strip() for item in items for part in item.split(",")]


def _range_text(text: str) -> str:
    """The range, checked, in its one spelling."""
    days, begin, end = _split(text)
    if begin == end:
        raise InvalidValue("hours.times", text, ALLOWED, "For whole days leave the times out, or write 00:00-24:00")
    plain = f"{_clock(begin)}-{_clock(end)}"
    return f"{_day_text(days)} {plain}" if days else plain


@lru_cache(maxsize=1024)
def _split(text: str) -> tuple[tuple[int, ...], int, int]:
    found = _RANGE.fullmatch(text.strip())
    if found is None:
        raise InvalidValue("hours.times", text, ALLOWED)
    days = weekdays("hours.times", found[1].replace(" ", "")) if found[1] else ()
    return days, _seconds(text, found[2], DAY_SECONDS - 60), _seconds(text, found[3], DAY_SECONDS)


def _seconds(text: str, clock: str, most: int) -> int:
    hour, minute = map(int, clock.split(":"))
    seconds = hour * 3600 + minute * 60
    if minute > 59 or seconds > most:
        remedy = "The day begins at 00:00" if seconds == DAY_SECONDS else ""
        raise InvalidValue("hours.times", text, "times from 00:00 to 23:59, and 24:00 as an end", remedy)
    return seconds


def _clock(seconds: int) -> str:
    return f"{seconds // 3600:02}:{seconds % 3600 // 60:02}"


def _day_text(days: tuple[int, ...]) -> str:
    """Days without a comma, which would end the range."""
    first, last = WEEKDAYS[days[0] - 1][:3], WEEKDAYS[days[-1] - 1][:3]
    if len(days) == 1:
        return first
    if days[-1] - days[0] == len(days) - 1:
        return f"{first}-{last}"
    gap = next(n for n in range(1, len(days)) if days[n] - days[n - 1] > 1)  # over Sunday: fri-mon
    return f"{WEEKDAYS[days[gap] - 1][:3]}-{WEEKDAYS[days[gap - 1] - 1][:3]}"


def _range_words(text: str, days: tuple[int, ...]) -> str:
    own, begin, end = _split(text)
    return f"{_clock(begin)}-{_clock(end)} {day_words(own or days)}"


def _names(field: str, value: Any) -> tuple[str, ...]:
    items = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Iterable) else (value,)
    return tuple(dict.fromkeys(identifier(field, item) for item in items))


def _joined(parts: list[str]) -> str:
    """Parts for the same days say them once, at the end."""
    split = [part.partition(" ") for part in parts]
    if len(parts) > 1 and len({days for _, _, days in split}) == 1 and split[0][2]:
        return f"{_joined([times for times, _, _ in split])} {split[0][2]}"
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
