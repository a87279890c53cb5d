"""Repeating entries of a calendar: the part of RFC 5545's RRULE that holidays and maintenance windows use.

By days, weeks, months and years, with INTERVAL, COUNT, UNTIL, BYMONTH, BYMONTHDAY and BYDAY. What is not understood is
refused: a blackout that is silently wrong is worse than one that has to be written out.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterator
from datetime import date, datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import count
from typing import Any

import msgspec

from ..errors import InvalidValue, one_of

FREQUENCIES = ("DAILY", "WEEKLY", "MONTHLY", "YEARLY")
DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
PARTS = ("FREQ", "INTERVAL", "COUNT", "UNTIL", "BYMONTH", "BYMONTHDAY", "BYDAY", "WKST")
MOST_INTERVAL, MOST_COUNT = 1_000, 10_000

_BYDAY = re.compile(r"([+-]?[0-9]{1,2})?(MO|TU|WE|TH|FR|SA|SU)")


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """`by_day` has pairs: which one of its month or year (0: each of them, -1: the last), and the weekday from 0."""

    freq: str
    interval: int = 1
    count: int | None = None
    until: str | None = None
    by_month: tuple[int, ...] = ()
    by_month_day: tuple[int, ...] = ()
    by_day: tuple[tuple[int, int], ...] = ()
    week_start: int = 0


@lru_cache(maxsize=1024)
def parse_rule(text: str) -> Rule:
    """
    >>> parse_rule("FREQ=YEARLY;BYMONTH=11;BYDAY=4TH").by_day
    ((4, 3),)
    """
    parts = dict(_part(text, part) for part in text.strip().upper().split(";") if part)
    freq = parts.get("FREQ", "")
    if freq not in FREQUENCIES:
        raise _refused(text, f"FREQ={one_of(FREQUENCIES)}")
    if "COUNT" in parts and "UNTIL" in parts:
        raise _refused(text, "COUNT or UNTIL, not both")
    rule = Rule(
        freq=freq,
        interval=_number(text, parts.get("INTERVAL", "1"), 1, MOST_INTERVAL, "INTERVAL"),
        count=_number(text, parts["COUNT"], 1, MOST_COUNT, "COUNT") if "COUNT" in parts else None,
        until=_until(text, parts["UNTIL"]) if "UNTIL" in parts else None,
        by_month=tuple(sorted(_numbers(text, parts, "BYMONTH", 1, 12))),
        by_month_day=tuple(_numbers(text, parts, "BYMONTHDAY", -31, 31)),
        by_day=tuple(_weekday(text, item) for item in _items(parts, "BYDAY")),
        week_start=_week_start(text, parts.get("WKST", "MO")),
    )
    if rule.freq in ("DAILY", "WEEKLY") and any(nth for nth, _ in rule.by_day):
        raise _refused(text, "weekdays without numbers: 2MO is the second Monday of a month or year")
    if rule.freq == "WEEKLY" and rule.by_month_day:
        raise _refused(text, "no BYMONTHDAY together with FREQ=WEEKLY")
    return rule


def begins(first: datetime, rule: Rule, zone: tzinfo | None, since: datetime, until: datetime) -> Iterator[datetime]:
    """When the entry that first begins at `first` begins in [since, until]: all wall-clock time, in order."""
    last, found = _last(rule, zone), 0
    for period in count(0 if rule.count is not None else _periods_before(first, rule, since)):
        try:
            if _period_begins(first.date(), rule, period) > until.date():
                return
            days = sorted(set(_days(first.date(), rule, period)))
        except (OverflowError, ValueError):  # the end of the calendar
            return
        for day in days:
            at = datetime.combine(day, first.time())
            if at < first:
                continue
            if at > until or (last is not None and at > last) or (rule.count is not None and found >= rule.count):
                return
            found += 1
            if at >= since:
                yield at


def _periods_before(first: datetime, rule: Rule, since: datetime) -> int:
    """A number of periods that surely lie before `since`, so that a rule of long ago is not walked from its start."""
    shortest = {"DAILY": 1, "WEEKLY": 7, "MONTHLY": 31, "YEARLY": 366}[rule.freq] * rule.interval
    return max(0, (since - first).days // shortest - 2)


def _period_begins(first: date, rule: Rule, period: int) -> date:
    """The first day of a period: a day, week, month or year."""
    match rule.freq:
        case "DAILY":
            return first + timedelta(days=period * rule.interval)
        case "WEEKLY":
            start = first - timedelta(days=(first.weekday() - rule.week_start) % 7)
            return start + timedelta(weeks=period * rule.interval)
        case "MONTHLY":
            year, month = divmod(first.year * 12 + first.month - 1 + period * rule.interval, 12)
            return date(year, month + 1, 1)
        case _:
            return date(first.year + period * rule.interval, 1, 1)


def _days(first: date, rule: Rule, period: int) -> Iterator[date]:
    begin = _period_begins(first, rule, period)
    match rule.freq:
        case "DAILY":
            return _plain_days(begin, 1, rule, None)
        case "WEEKLY":
            return _plain_days(begin, 7, rule, first.weekday())
        case "MONTHLY":
            months = [begin.month] if not rule.by_month or begin.month in rule.by_month else []
            return _days_of_months(first, rule, begin.year, months)
        case _:
            return _days_of_year(first, rule, begin.year)


def _plain_days(start: date, size: int, rule: Rule, weekday: int | None) -> Iterator[date]:
    wanted = {day for _, day in rule.by_day} or ({weekday} if weekday is not None else set(range(7)))
    for day in (start + timedelta(days=n) for n in range(size)):
        month = not rule.by_month or day.month in rule.by_month
        if day.weekday() in wanted and month and (not rule.by_month_day or _day_of_month_fits(day, rule)):
            yield day


def _days_of_year(first: date, rule: Rule, year: int) -> Iterator[date]:
    if rule.by_day and not rule.by_month and not rule.by_month_day:
        return _weekdays(date(year, 1, 1), date(year, 12, 31), rule)
    months = rule.by_month or (tuple(range(1, 13)) if rule.by_month_day else (first.month,))
    return _days_of_months(first, rule, year, months)


def _days_of_months(first: date, rule: Rule, year: int, months: Any) -> Iterator[date]:
    for month in months:
        begin, end = date(year, month, 1), date(year, month, monthrange(year, month)[1])
        if rule.by_day:
            days = _weekdays(begin, end, rule)
            yield from (day for day in days if not rule.by_month_day or _day_of_month_fits(day, rule))
            continue
        for number in rule.by_month_day or (first.day,):
            day = number if number > 0 else end.day + 1 + number
            if 1 <= day <= end.day:
                yield date(year, month, day)


def _weekdays(begin: date, end: date, rule: Rule) -> Iterator[date]:
    for nth, weekday in rule.by_day:
        one = begin + timedelta(days=(weekday - begin.weekday()) % 7)
        every = [one + timedelta(weeks=n) for n in range((end - one).days // 7 + 1)]
        if nth == 0:
            yield from every
        elif abs(nth) <= len(every):
            yield every[nth - 1 if nth > 0 else nth]


def _day_of_month_fits(day: date, rule: Rule) -> bool:
    from_end = day.day - monthrange(day.year, day.month)[1] - 1
    return day.day in rule.by_month_day or from_end in rule.by_month_day


def _last(rule: Rule, zone: tzinfo | None) -> datetime | None:
    """UNTIL as wall-clock time of the entry; a whole day is included to its end."""
    if rule.until is None:
        return None
    if len(rule.until) == 8:
        return datetime.strptime(rule.until, "%Y%m%d") + timedelta(days=1) - timedelta(microseconds=1)
    at = datetime.strptime(rule.until[:15], "%Y%m%dT%H%M%S")
    if not rule.until.endswith("Z") or zone is None:
        return at
    return zone.fromutc(at.replace(tzinfo=zone)).replace(tzinfo=None)


# --- reading --------------------------------------------------------------------------------------------------------


def _part(text: str, part: str) -> tuple[str, str]:
    name, equals, value = part.partition("=")
    if name not in PARTS or not equals or not value:
        raise _refused(text, f"the parts {', '.join(PARTS)}", f"{name} is not supported: write its dates out")
    return name, value


def _items(parts: dict[str, str], name: str) -> list[str]:
    return parts[name].split(",") if name in parts else []


def _numbers(text: str, parts: dict[str, str], name: str, low: int, high: int) -> list[int]:
    numbers = [_number(text, item, low, high, name) for item in _items(parts, name)]
    if 0 in numbers:
        raise _refused(text, f"{name} other than 0")
    return numbers


def _number(text: str, value: str, low: int, high: int, name: str) -> int:
    if re.fullmatch(r"[+-]?[0-9]{1,6}", value) and low <= int(value) <= high:
        return int(value)
    raise _refused(text, f"{name} from {low} to {high}")


def _weekday(text: str, item: str) -> tuple[int, int]:
    found = _BYDAY.fullmatch(item)
    if not found or (found[1] is not None and not 1 <= abs(int(found[1])) <= 53):
        raise _refused(text, "BYDAY such as MO, 4TH or -1MO")
    return int(found[1] or 0), DAYS.index(found[2])


def _week_start(text: str, value: str) -> int:
    if value not in DAYS:
        raise _refused(text, f"WKST={one_of(DAYS)}")
    return DAYS.index(value)


def _until(text: str, value: str) -> str:
    try:
        if re.fullmatch(r"[0-9]{8}(T[0-9]{6}Z?)?", value):
            datetime.strptime(value[:8], "%Y%m%d")
            return value
    except ValueError:
        pass
    raise _refused(text, "UNTIL as 20301231 or 20301231T235959Z")


def _refused(text: str, allowed: str, remedy: str = "") -> InvalidValue:
    return InvalidValue("RRULE", text, allowed, remedy)
