"""Repeating entries of a calendar: rules of RFC 5545 (RRULE), expanded by python-dateutil.

A rule repeats by days, weeks, months or years. Rules that python-dateutil would read in its own way, and rules that
match no day at all, are refused: a blackout that is silently wrong is worse than one that has to be written out.
"""

from __future__ import annotations

import re
from calendar import isleap
from collections.abc import Iterator, Mapping
from datetime import MAXYEAR, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Any

from ..errors import InvalidValue, one_of

FREQUENCIES = ("DAILY", "WEEKLY", "MONTHLY", "YEARLY")
DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_NUMBERS = {
    "INTERVAL": (1, 1_000),
    "COUNT": (1, 10_000),
    "BYMONTH": (1, 12),
    "BYMONTHDAY": (-31, 31),
    "BYYEARDAY": (-366, 366),
    "BYWEEKNO": (-53, 53),
    "BYSETPOS": (-366, 366),
}
SEARCHED = 60
"""Years, each as long as the interval, in which a rule must match a day."""
WALK = 31
"""Steps in which python-dateutil comes to the year that is asked for; on average."""
_PARTS = ("FREQ", "UNTIL", "BYDAY", "WKST", *_NUMBERS)
_LONGEST_MONTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def check_rule(rule: str, first: datetime) -> str:
    """The rule as it is stored; `first` is the begin of the first entry. Refuses rules that cannot be followed."""
    parts = _parts(rule)
    if parts.get("FREQ") not in FREQUENCIES:
        raise _refused(rule, f"FREQ={one_of(FREQUENCIES)}")
    if "COUNT" in parts and "UNTIL" in parts:
        raise _refused(rule, "COUNT or UNTIL, not both")
    for name, (low, high) in _NUMBERS.items():
        numbers = parts[name].split(",") if name in parts else []
        if not all(re.fullmatch(r"[+-]?[0-9]{1,6}", each) and low <= int(each) <= high for each in numbers):
            raise _refused(rule, f"{name} from {low} to {high}")
    if parts["FREQ"] in ("DAILY", "WEEKLY") and re.search("[0-9]", parts.get("BYDAY", "")):
        raise _refused(rule, "weekdays without numbers: 2MO is the second Monday of a month or year")
    if parts["FREQ"] == "WEEKLY" and "BYMONTHDAY" in parts:
        raise _refused(rule, "no BYMONTHDAY together with FREQ=WEEKLY")
    text = ";".join(f"{name}={value}" for name, value in parts.items())
    try:
        matches = _some_day_exists(parts) and _matches(parts, first)
    except (ValueError, OverflowError) as error:
        raise _refused(rule, "a rule of RFC 5545", str(error)) from None
    if not matches:
        raise _refused(rule, "a rule that matches at least one day")
    return text


def _matches(parts: dict[str, str], first: datetime) -> bool:
    """Whether it matches a day soon enough: the rarest dates return after 40 years."""
    last = min(first.year + SEARCHED * int(parts.get("INTERVAL", 1)), MAXYEAR)
    until = first.replace(year=last, day=min(first.day, 28))
    if "UNTIL" in parts:
        until = min(until, _last(parts["UNTIL"], None))
    plain = ";".join(f"{name}={value}" for name, value in parts.items() if name not in ("UNTIL", "COUNT"))
    return next(iter(_series(plain, first, None).replace(until=until)), None) is not None


@lru_cache(maxsize=1024)
def effort(rule: str) -> int:
    """What a year of the rule costs, in microseconds or so. python-dateutil takes far longer than plain arithmetic.

    >>> effort("FREQ=YEARLY"), effort("FREQ=DAILY"), effort("FREQ=DAILY;COUNT=10000")
    (2, 368, 100310)
    """
    parts = _parts(rule)
    days = len(parts.get("BYDAY", "").split(","))
    each = {"DAILY": 366, "WEEKLY": 53 * days, "MONTHLY": 366, "YEARLY": 366}[parts["FREQ"]]
    if _is_plain(parts):
        return 2 + (0 if parts["FREQ"] == "YEARLY" else each // int(parts.get("INTERVAL", 1)))
    walked = int(parts["COUNT"]) if "COUNT" in parts else each
    return 10 * (walked + WALK)


def _is_plain(parts: Mapping[str, str]) -> bool:
    """A rule that plain arithmetic can follow."""
    if parts["FREQ"] == "WEEKLY" and parts.keys() <= {"FREQ", "BYDAY", "UNTIL"}:
        return True
    return parts["FREQ"] != "MONTHLY" and parts.keys() <= {"FREQ", "INTERVAL", "UNTIL"}


def _plain_begins(
    parts: Mapping[str, str], first: datetime, zone: tzinfo | None, since: datetime, until: datetime
) -> list[datetime]:
    last = until if "UNTIL" not in parts else min(until, _last(parts["UNTIL"], zone))
    interval = int(parts.get("INTERVAL", 1))
    if parts["FREQ"] == "YEARLY":
        years = range(first.year, last.year + 1, interval)[max(0, (since.year - first.year) // interval) :]
        found = [first.replace(year=year) for year in years if (first.month, first.day) != (2, 29) or isleap(year)]
    elif "BYDAY" in parts:
        ahead = {(DAYS.index(day) - first.weekday()) % 7 for day in parts["BYDAY"].split(",")}
        found = sorted(at for days in ahead for at in _every(7, first + timedelta(days=days), since, last))
    else:
        found = list(_every(interval * (7 if parts["FREQ"] == "WEEKLY" else 1), first, since, last))
    return [at for at in found if since <= at <= last]


def _every(days: int, first: datetime, since: datetime, last: datetime) -> Iterator[datetime]:
    at, step = first + timedelta(days=days * max(0, (since - first).days // days)), timedelta(days=days)
    while at <= last:
        yield at
        at += step


def begins(first: datetime, rule: str, zone: tzinfo | None, since: datetime, until: datetime) -> list[datetime]:
    """When the entry that first begins at `first` begins in [since, until]: all wall-clock time, in order."""
    parts = _parts(rule)
    if _is_plain(parts):
        return _plain_begins(parts, first, zone, since, until)
    found: list[datetime] = _series(rule, _advanced(first, rule, since), zone).between(since, until, inc=True)
    return found


@lru_cache(maxsize=1024)
def _series(rule: str, first: datetime, zone: tzinfo | None) -> Any:
    from dateutil.rrule import rrulestr  # only calendars with repeating entries need it

    parts = _parts(rule)
    until = parts.pop("UNTIL", None)
    series = rrulestr(";".join(f"{name}={value}" for name, value in parts.items()), dtstart=first)
    return series if until is None else series.replace(until=_last(until, zone))


def _advanced(first: datetime, rule: str, since: datetime) -> datetime:
    """A later start that gives the same dates from `since` on, so that a rule of long ago is not walked from its
    start."""
    parts = _parts(rule)
    interval = int(parts.get("INTERVAL", 1))
    if parts["FREQ"] in ("MONTHLY", "YEARLY") and "COUNT" not in parts and first.day <= 28:
        years = interval * max(0, (since.year - first.year) // interval - 1)  # months: a multiple of the interval too
        return first.replace(year=first.year + years)
    days = {"DAILY": 1, "WEEKLY": 7}.get(parts["FREQ"], 0) * int(parts.get("INTERVAL", 1))
    if not days or "COUNT" in parts or "BYSETPOS" in parts:
        return first
    return first + timedelta(days=days * max(0, (since - first).days // days - 1))


def _last(until: str, zone: tzinfo | None) -> datetime:
    """UNTIL as wall-clock time of the entry; a whole day is included to its end."""
    if len(until) == 8:
        return datetime.strptime(until, "%Y%m%d") + timedelta(days=1) - timedelta(microseconds=1)
    at = datetime.strptime(until[:15], "%Y%m%dT%H%M%S")
    if not until.endswith("Z") or zone is None:
        return at
    return zone.fromutc(at.replace(tzinfo=zone)).replace(tzinfo=None)


def _parts(rule: str) -> dict[str, str]:
    parts = {}
    for part in filter(None, rule.strip().upper().split(";")):
        name, _, value = part.partition("=")
        if name not in _PARTS or not value:
            raise _refused(rule, f"the parts {', '.join(_PARTS)}", f"{name} is not supported: write its dates out")
        parts[name] = value
    return parts


def _some_day_exists(parts: dict[str, str]) -> bool:
    """Whether one of the months has one of the days. Without one, python-dateutil would search up to the year 9999."""
    if "BYMONTH" not in parts or "BYMONTHDAY" not in parts:
        return True
    longest = max(_LONGEST_MONTHS[int(month) - 1] for month in parts["BYMONTH"].split(","))
    return any(1 <= abs(int(day)) <= longest for day in parts["BYMONTHDAY"].split(","))


def _refused(rule: str, allowed: str, remedy: str = "") -> InvalidValue:
    return InvalidValue("RRULE", rule, allowed, remedy)
