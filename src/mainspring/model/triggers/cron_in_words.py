"""A cron expression in plain English, on a 24-hour clock.

cron-descriptor makes the phrases. It gets fields that it describes exactly: where its words would be vague (the minutes
`*/7` are not "every 7 minutes") the values are written out, and the two day fields are joined here.
"""

from __future__ import annotations

import re
from functools import lru_cache

from .cron import checked_fields

_CYCLES = {"second": 60, "minute": 60, "hour": 24, "day": 31, "month": 12, "weekday": 7}
_FIRST = {"day": 1, "month": 1}
_NAMES = tuple(_CYCLES)
_LONG_LIST = 12  # more days than this are not written out
_ANY_TIME = "0 0"


@lru_cache(maxsize=16_384)
def words(text: str) -> str:
    """The expression in words, or unchanged if no phrase can be formed.

    >>> words("0 0 13 * 5"), words("0 0 */2 * 1")
    ('At 00:00, on day 13 of the month or on Friday', 'At 00:00, every 2 days, but only on Monday')
    """
    fields = ["0", *checked_fields(text)][-6:]
    second, minute, hour, day, month, weekday = (
        _exact(name, field) for name, field in zip(_NAMES, fields, strict=True)
    )
    clock = f"{minute} {hour}" if second == "0" else f"{second} {minute} {hour}"
    try:
        if (day == "*" and _is_simple(weekday)) or (weekday == "*" and _is_simple(day)):
            return _during(_describe(f"{clock} {day} {month} {weekday}"))
        either = not (fields[3].startswith("*") or fields[5].startswith("*"))
        parts = [_during(_describe(f"{clock} * * *")), _days(day, weekday, either)]
        return ", ".join(parts if month == "*" else [*parts, _part(f"* {month} *")])
    except Exception:  # words are an extra: a phrase the library cannot form must not break a listing
        return f"Cron {text}"


def _days(day: str, weekday: str, either: bool) -> str:
    """Both day fields in words. A day must match one of them, or both if one starts with `*`."""
    by_date = " or ".join(_part(f"{terms} * *") for terms in _groups(day))
    by_name = " or ".join(_part(f"* * {terms}").removeprefix("only ") for terms in _groups(weekday))
    if day == "*" or weekday == "*":
        return by_name if day == "*" else by_date
    return f"{by_date} or {by_name}" if either else f"{by_date}, but only {by_name}"


def _is_simple(field: str) -> bool:
    return len(_groups(field)) == 1


def _groups(field: str) -> list[str]:
    """The plain values of a field together, and each special one (L, 5L, 1#2) for itself."""
    terms = field.split(",")
    plain = [term for term in terms if not _is_special(term)]
    return ([",".join(plain)] if plain else []) + [term for term in terms if _is_special(term)]


def _is_special(term: str) -> bool:
    return "L" in term or "#" in term


def _part(date_fields: str) -> str:
    return _describe(f"{_ANY_TIME} {date_fields}").removeprefix("At 00:00, ")


def _during(description: str) -> str:
    """Hours are said like times of day, also where the minutes are not: "every minute, at 02:00 and 03:00"."""
    return re.sub(r", at (\d\d:00(?:(?:, | and |, and )\d\d:00)*)", _in_the_hours, description)


def _in_the_hours(match: re.Match[str]) -> str:
    return f", in the hour{'s' if match[1].count(':') > 1 else ''} of {match[1]}"


def _exact(name: str, field: str) -> str:
    """The field in a form whose words are exact."""
    terms = field.split(",")
    if any(_is_special(term) for term in terms):
        return field
    if "/" not in field and not (name == "weekday" and "-" in field):
        return field
    values = sorted({n for term in terms for n in _values(name, term)})
    if len(values) == 1:
        return str(values[0])
    steady = len(terms) == 1 and ("/" not in field or _is_steady(name, field, len(values)))
    return field if steady else ",".join(map(str, values))


def _is_steady(name: str, term: str, count: int) -> bool:
    """Whether "every n" is true of a step."""
    span, _, step = term.partition("/")
    if name == "day":
        return span == "*" and count > _LONG_LIST
    if name in {"month", "weekday"}:
        return False
    return span not in {"*", "0"} or _CYCLES[name] % int(step) == 0


def _values(name: str, term: str) -> range:
    span, _, step = term.partition("/")
    low = _FIRST.get(name, 0)
    high = low + _CYCLES[name] - 1 + (name == "weekday" and span != "*")
    first, _, last = (f"{low}-{high}" if span == "*" else span).partition("-")
    return range(int(first), int(last or (high if step else first)) + 1, int(step or 1))


def _describe(expression: str) -> str:
    from cron_descriptor import CasingTypeEnum, ExpressionDescriptor, Options

    # Named here, because the library warns about a machine without a language, as containers are.
    options = Options(CasingTypeEnum.Sentence, use_24hour_time_format=True, locale_code="en_US")
    return str(ExpressionDescriptor(expression, options).get_description())
