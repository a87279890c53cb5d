"""Reads values that users write. What cannot be read raises an error that names field, value, allowed and remedy.

>>> duration("timeout", "1h30m")
5400.0
>>> instant("start_at", "2026-01-01T03:00:00+03:00").isoformat()
'2026-01-01T00:00:00+00:00'
"""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from ..errors import InvalidValue, nearest, one_of
from ..time.instants import PLAUSIBLE, is_plausible
from ..time.timeline import localise
from ..time.zones import zone, zone_name

__all__ = [
    "OptionFields",
    "choice",
    "day_of_month",
    "duration",
    "duration_text",
    "identifier",
    "instant",
    "instant_or_local",
    "is_identifier",
    "minute",
    "second",
    "size",
    "size_text",
    "time_of_day",
    "weekday",
    "whole",
    "words",
    "zone",
    "zone_name",
]

LONGEST_DURATION = 36_500 * 86_400.0
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_UNIT_WORDS = {
    **dict.fromkeys(("sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), "m"),
    **dict.fromkeys(("hour", "hours"), "h"),
    **dict.fromkeys(("day", "days"), "d"),
    **dict.fromkeys(("week", "weeks"), "w"),
    **{unit: unit for unit in _UNITS},
}
_PART = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)")
DURATION_ALLOWED = 'seconds, a timedelta, or text such as "250ms", "10m", "1h30m", "2d", "1w"'
LEAST_SIZE = 16 * 1024**2
LARGEST_SIZE = 1024**5
_SIZE_UNITS: dict[str, int] = {
    **{"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12},
    **{"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40},
}
_SIZE = re.compile(r"\s*([0-9]{1,18}(?:\.[0-9]{1,9})?)\s*([a-z]*)\s*", re.IGNORECASE)
_SIZE_ALLOWED = 'bytes, or text such as "512MB", "1.5GiB"'
IDENTIFIER = "[A-Za-z0-9_.-]{1,100}"
_IDENTIFIER = re.compile(IDENTIFIER)
_TIME = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?")
_TIME_ALLOWED = '"HH:MM" or "HH:MM:SS" with hour 0 to 23, minute and second 0 to 59, or datetime.time'
_LOST_PLUS = re.compile(r"(:[0-9]{2}(?:\.[0-9]+)?) ([0-9]{2}:[0-9]{2})$")
"""The `+` of an offset is a blank where a URL was not encoded."""
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
INSTANT_ALLOWED = "an aware datetime, an ISO 8601 text with offset, or seconds since 1970"


def duration(field: str, value: Any, *, allow_zero: bool = False) -> float:
    """Seconds from a number, a timedelta or text.

    >>> duration("grace", "250ms"), duration("grace", timedelta(minutes=1)), duration("grace", 5)
    (0.25, 60.0, 5.0)
    """
    seconds = _seconds(field, value)
    if not math.isfinite(seconds) or seconds < 0 or seconds > LONGEST_DURATION:
        raise InvalidValue(field, value, "a positive, finite duration of at most 100 years")
    if seconds == 0 and not allow_zero:
        raise InvalidValue(field, value, "a duration above zero")
    return seconds


def _seconds(field: str, value: Any) -> float:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value) if abs(value) <= LONGEST_DURATION else math.inf
    if isinstance(value, str):
        return _seconds_of_text(field, value)
    raise InvalidValue(field, value, DURATION_ALLOWED)


@lru_cache(maxsize=512)  # windows and grace are read again for every tick
def _seconds_of_text(field: str, text: str) -> float:
    parts, end = [], 0
    while match := _PART.match(text, end):
        parts.append(match.groups())
        end = match.end()
    if len(parts) == 1 and not parts[0][1] and not text[end:].strip():
        return float(parts[0][0])
    units = [_UNIT_WORDS.get(word) for _, word in parts]
    if not parts or text[end:].strip() or None in units or len(set(units)) < len(units):
        raise InvalidValue(field, text, DURATION_ALLOWED)
    return math.fsum(float(number) * _UNITS[unit] for (number, _), unit in zip(parts, units, strict=True) if unit)


def duration_text(seconds: float) -> str:
    """Text that `duration` reads back, in days and smaller units.

    >>> duration_text(5_400), duration_text(400 * 86_400)
    ('1h30m', '400d')
    """
    milliseconds = round(seconds * 1000)
    if milliseconds < 1 or abs(seconds * 1000 - milliseconds) > 1e-6:
        return f"{seconds:.6f}".rstrip("0").rstrip(".") + "s"
    text = ""
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        count, milliseconds = divmod(milliseconds, size)
        text += f"{count}{unit}" if count else ""
    return text


def size(field: str, value: Any) -> int:
    """Bytes from a number or text. MB and GB count by 1000, MiB and GiB by 1024.

    >>> size("max_memory", "512MB"), size("max_memory", "1.5 GiB")
    (512000000, 1610612736)
    """
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if match is not None and (unit := _SIZE_UNITS.get(match[2].lower() or "b")) is not None:
        found = round(float(match[1]) * unit)
    elif isinstance(value, int) and not isinstance(value, bool):
        found = value
    else:
        raise InvalidValue(field, value, _SIZE_ALLOWED)
    if not LEAST_SIZE <= found <= LARGEST_SIZE:
        remedy = 'A number without a unit counts bytes: write "512MB"' if found < LEAST_SIZE else ""
        raise InvalidValue(field, value, f"{_SIZE_ALLOWED}, from 16MiB to 1024TiB", remedy)
    return found


def size_text(count: int) -> str:
    """The shortest text that `size` reads back: 536870912 is "512MiB"."""
    names = {unit: name for name, unit in _SIZE_UNITS.items()}
    unit = max(each for each in names if count % each == 0)
    return f"{count // unit}{names[unit].upper().replace('IB', 'iB')}"


def instant(field: str, value: Any, *, tz: str | tzinfo | None = None) -> datetime:
    """An aware UTC datetime. A naive time, or a date for its midnight, is refused unless `tz` says which zone it is in.

    >>> instant("at", "2026-07-01T12:00:00", tz="Europe/Istanbul").isoformat()
    '2026-07-01T09:00:00+00:00'
    """
    moment = instant_or_local(field, value)
    if moment.tzinfo is not None:
        return moment
    if tz is None:
        remedy = "Add a time zone, such as datetime(..., tzinfo=UTC) or a trailing Z"
        raise InvalidValue(field, value, INSTANT_ALLOWED, remedy)
    if not is_plausible(moment := localise(moment, zone("tz", tz))):
        raise InvalidValue(field, value, PLAUSIBLE)
    return moment


def instant_or_local(field: str, value: Any) -> datetime:
    """An aware UTC datetime, or a naive one for a time without offset, whose zone is not known yet."""
    try:
        moment = _datetime(field, value)
        if moment.utcoffset() is not None:
            if is_plausible(moment := moment.astimezone(UTC)):
                return moment
        elif is_plausible((moment := moment.replace(tzinfo=None)).replace(tzinfo=UTC)):
            return moment
    except OverflowError:
        pass
    raise InvalidValue(field, value, PLAUSIBLE)


def _datetime(field: str, value: Any) -> datetime:
    if isinstance(value, datetime):
        return value
    if isinstance(value, date):
        return datetime.combine(value, time())
    try:
        if isinstance(value, str):
            return datetime.fromisoformat(_LOST_PLUS.sub(r"\1+\2", value.strip()))
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=value)
    except ValueError:
        pass
    raise InvalidValue(field, value, INSTANT_ALLOWED)


def time_of_day(field: str, value: Any) -> time:
    """A wall-clock time in whole seconds.

    >>> time_of_day("time", "03:00:30")
    datetime.time(3, 0, 30)
    """
    if isinstance(value, time):
        if value.tzinfo is not None or value.microsecond:
            raise InvalidValue(field, value, "a time in whole seconds without a zone", "Pass the zone as tz=")
        return value.replace(fold=0)
    match = _TIME.fullmatch(value.strip()) if isinstance(value, str) else None
    if not match:
        raise InvalidValue(field, value, _TIME_ALLOWED)
    try:
        return time(int(match[1]), int(match[2]), int(match[3] or 0))
    except ValueError:
        remedy = 'Midnight is "00:00"' if match[1] == "24" else ""
        raise InvalidValue(field, value, _TIME_ALLOWED, remedy) from None


def weekday(field: str, value: Any) -> int:
    """An ISO weekday: 1 is Monday, 7 is Sunday; names from three letters on ("mon", "Thurs", "sunday").

    Zero is refused because it means Sunday to cron and Monday to Python.
    """
    name = value.strip().lower() if isinstance(value, str) else ""
    named = [n for n, day in enumerate(WEEKDAYS, 1) if len(name) >= 3 and day.startswith(name)]
    if named:
        return named[0]
    if name in {"1", "2", "3", "4", "5", "6", "7"}:
        return int(name)
    return whole(field, value, 1, 7, "1 (Monday) to 7 (Sunday), or a name such as mon or monday")


def whole(field: str, value: Any, low: int, high: int, allowed: str = "") -> int:
    """A whole number from `low` to `high`, both included."""
    if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
        return int(value)
    raise InvalidValue(field, value, allowed or f"a whole number from {low} to {high}")


def second(field: str, value: Any) -> int:
    return whole(field, value, 0, 59)


def minute(field: str, value: Any) -> int:
    return whole(field, value, 0, 59)


def day_of_month(field: str, value: Any) -> int:
    return whole(field, value, 1, 31)


def choice(field: str, value: Any, options: tuple[str, ...]) -> str:
    """One of a few words."""
    if isinstance(value, str) and value in options:
        return value
    guess = nearest(value, options) if isinstance(value, str) else None
    remedy = f"Did you mean {guess!r}?" if guess else ""
    raise InvalidValue(field, value, one_of(repr(option) for option in options), remedy)


def words(field: str, value: Any, most: int = 200) -> str:
    """Free text that every store can hold: a user's name, a note, a reason."""
    if isinstance(value, str) and 1 <= len(value) <= most and not _UNSTORABLE.search(value):
        return value
    raise InvalidValue(field, value, f"text of 1 to {most} characters, without NUL")


def identifier(field: str, value: Any) -> str:
    """The id of a job, handler, queue or lock: case-sensitive, 1 to 100 of letters, digits, `_`, `.` and `-`. Clients
    take `.` and `..` out of a path before they ask, so nobody could reach a thing that is called so."""
    if value in (".", ".."):
        raise InvalidValue(field, value, "a name other than . and .., which paths cannot contain")
    if is_identifier(value):
        return str(value)
    raise InvalidValue(field, value, "1 to 100 characters from A-Z a-z 0-9 _ . -", _identifier_remedy(value))


SYSTEM_PREFIX = "mainspring."
"""The names of Mainspring's own jobs and handlers begin so."""
SYSTEM_JOBS = (f"{SYSTEM_PREFIX}webhooks",)
"""Mainspring's own jobs."""


def own_name(field: str, value: Any) -> str:
    """The name of a job or handler of the application."""
    if identifier(field, value).startswith(SYSTEM_PREFIX):
        raise InvalidValue(field, value, f"a name that does not begin with {SYSTEM_PREFIX!r}", "Mainspring uses those")
    return str(value)


def is_identifier(value: Any) -> bool:
    return isinstance(value, str) and _IDENTIFIER.fullmatch(value) is not None


def _identifier_remedy(value: Any) -> str:
    suggestion = re.sub(r"[^A-Za-z0-9_.-]+", "-", value)[:100].strip("-") if isinstance(value, str) else ""
    return f"Try {suggestion!r}" if suggestion else ""


class OptionFields(msgspec.StructMeta):
    """The metaclass of options that users write in code, such as `Limit(...)`: a misspelt or missing field is refused
    by name. Decoding from JSON does not call it."""

    def _checked_call(cls, *values: Any, **named: Any) -> Any:
        fields = cls.__struct_fields__
        for name in named:
            if name not in fields:
                guess = nearest(name, fields)
                remedy = f"Did you mean {guess!r}?" if guess else ""
                raise InvalidValue(cls.__name__, name, f"the fields {', '.join(fields)}", remedy)
        given = {*fields[: len(values)], *named}
        for name in fields[: len(fields) - len(cls.__struct_defaults__)]:
            if name not in given:
                raise InvalidValue(cls.__name__, f"{cls.__name__} without {name}", f"one that names its {name}")
        return super().__call__(*values, **named)

    if not TYPE_CHECKING:  # a type checker reads the fields of each class, unless its metaclass has a `__call__`
        __call__ = _checked_call
