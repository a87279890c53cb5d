"""Names of time zones: text to zone and back.

A zone is a `ZoneInfo` or, for UTC and fixed offsets, a `datetime.timezone`; its name is what gets stored.
"""

from __future__ import annotations

import os
import re
import warnings
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from ..errors import InvalidValue, nearest

ALLOWED = '"UTC", an IANA name such as "Europe/Istanbul", "local", or an offset such as "+08:00"'
_OFFSET = re.compile(r"([+-])([0-9]{2})(?::?([0-9]{2}))?")
_UTC_PLUS = re.compile(r"(?:UTC|GMT)([+-])([0-9]{1,2})(?::?00)?")
_WIDEST = timedelta(hours=14)
_MINUTE = timedelta(minutes=1)


def zone(field: str, value: Any, *, warn: bool = True) -> tzinfo:
    """The zone meant by a name or a tzinfo; "local" is the zone of this machine, by its own name.

    >>> zone_name(zone("tz", "Europe/Istanbul"))
    'Europe/Istanbul'
    """
    name = _name_of(value)
    found = _load(name) if name else None
    if found is None:
        raise InvalidValue(field, value, ALLOWED, _remedy(name or ""))
    if warn and isinstance(found, timezone) and found is not UTC:
        _warn_of_offset(field, utc_offset_name(found))
    return found


def zone_name(value: tzinfo) -> str:
    """The inverse of `zone`: the text to store."""
    name = _name_of(value)
    if not name:
        raise InvalidValue("tz", value, ALLOWED)
    return name


def known_zone(name: str | None) -> tzinfo:
    """The zone of a name that was checked before; None is UTC."""
    found = UTC if name is None else _load(name)
    if found is None:
        raise InvalidValue("tz", name, ALLOWED, _remedy(name or ""))
    return found


class EndZone(ZoneInfo):
    """The zone of the end of a range. Python subtracts and compares two datetimes by their wall clocks if they share a
    zone object, which is wrong across a clock change. Begin and end have an object each: then it goes by instants."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ZoneInfo) and other.key == self.key

    def __hash__(self) -> int:
        return hash(self.key)


def local_instant(at: datetime, tz: tzinfo, *, end: bool = False) -> datetime:
    """The same instant by the clock of this zone, equal to what it is in UTC. `end` is for the end of a range.

    Where the clock shows a time twice, Python takes it for unequal to the same instant in any other zone: there it is
    given with its plain offset. Offsets with seconds, which clocks had long ago, have no place in JSON: UTC instead.

    >>> str(local_instant(datetime(2026, 11, 14, 21, tzinfo=UTC), ZoneInfo("Europe/Istanbul")))
    '2026-11-15 00:00:00+03:00'
    """
    if isinstance(tz, timezone):
        return at.astimezone(tz)
    name = _name_of(tz)
    known = _load(name) if name else None
    if not isinstance(known, ZoneInfo):
        return at.astimezone(UTC)
    local = at.astimezone(UTC).astimezone(EndZone(known.key) if end else known)
    offset = local.utcoffset() or timedelta(0)
    if offset % _MINUTE:
        return at.astimezone(UTC)
    if local.replace(fold=1 - local.fold).utcoffset() != offset:
        return local.replace(tzinfo=timezone(offset), fold=0)
    return local


def utc_offset_name(value: tzinfo) -> str:
    """The name of a fixed offset: "UTC" or "+08:00"."""
    offset = value.utcoffset(None) or timedelta(0)
    minutes, sign = abs(offset) // timedelta(minutes=1), "-" if offset < timedelta(0) else "+"
    return f"{sign}{minutes // 60:02}:{minutes % 60:02}" if offset else "UTC"


def _name_of(value: Any) -> str | None:
    if isinstance(value, str):
        return _local_name() if value.strip().lower() == "local" else value.strip()
    if isinstance(value, timezone):
        return utc_offset_name(value)
    if isinstance(value, tzinfo):
        name = getattr(value, "key", None) or getattr(value, "zone", None)
        return name if isinstance(name, str) else None
    return None


@lru_cache(maxsize=1024)
def _load(name: str) -> tzinfo | None:
    if name.upper() in {"UTC", "Z"}:
        return UTC
    if match := _OFFSET.fullmatch(name):
        return _fixed(match)
    if name.startswith("right/"):  # counts leap seconds, which no datetime can hold
        return None
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return None


def _fixed(match: re.Match[str]) -> tzinfo | None:
    sign, hours, minutes = match.groups()
    offset = timedelta(hours=int(hours), minutes=int(minutes or 0))
    if offset > _WIDEST or int(minutes or 0) > 59:
        return None
    return timezone(-offset if sign == "-" else offset) if offset else UTC


def _local_name() -> str:
    """The IANA name of this machine's zone if it can be found; otherwise UTC."""
    candidates = [os.environ.get("TZ", "").lstrip(":"), _linked_name(), _written_name()]
    return next((name for name in candidates if name and _load(name)), "UTC")


def _linked_name() -> str:
    return os.path.realpath("/etc/localtime").partition("/zoneinfo/")[2]


def _written_name() -> str:
    try:
        return Path("/etc/timezone").read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return ""


def _warn_of_offset(field: str, name: str) -> None:
    warnings.warn(
        f"{field}: {name} is a fixed offset and never follows daylight saving time; prefer an IANA name",
        UserWarning,
        stacklevel=4,
    )


def _remedy(name: str) -> str:
    if match := _UTC_PLUS.fullmatch(name):
        return f'Write the offset as "{match[1]}{int(match[2]):02}:00"'
    known = available_timezones()
    cities = {zone.rpartition("/")[2]: zone for zone in sorted(known)}
    city = nearest(name.rpartition("/")[2].replace(" ", "_"), cities, 0.8)
    found = nearest(name, known, 0.8) or (cities[city] if city else None)
    return f"Did you mean {found!r}?" if found else ""
