"""Data windows: the half-open range of time [begin, end) that an execution covers.

Named windows lie between two boundaries of the calendar in the job's zone. The boundaries are ticks (every full hour,
every midnight, ...), so windows touch without gap or overlap, and a day has 23 or 25 hours when its clock says so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, time, timedelta, tzinfo
from functools import lru_cache
from typing import Any, Literal, TypeAlias, cast, get_args

import msgspec

from .errors import InvalidValue, nearest
from .time.instants import Micros, to_datetime
from .time.timeline import localise
from .time.zones import known_zone, local_instant, zone, zone_name
from .triggers import daily_at, hourly_at, monthly_at, weekly_at
from .triggers.base import Trigger, instant_text, utc
from .values.given import Duration
from .values.reading import choice, duration, duration_text, instant, whole

Unit = Literal["hour", "day", "week", "month"]

_INSTANT = timedelta(microseconds=1)
_UNITS: dict[Unit, Trigger] = {
    "hour": hourly_at(0),
    "day": daily_at("00:00"),
    "week": weekly_at("mon", "00:00"),
    "month": monthly_at(1, "00:00"),
}
_PREVIOUS: dict[str, Unit] = {
    "previous_hour": "hour",
    "previous_day": "day",
    "previous_week": "week",
    "previous_month": "month",
}
_ALIASES = {"yesterday": "previous_day"}
_DAYS_AGO = re.compile(r"([0-9]{1,4})_days_ago")
NAMES = (*_PREVIOUS, "yesterday", "today", "since_previous_tick")

WindowName: TypeAlias = Literal[
    "previous_hour", "previous_day", "previous_week", "previous_month", "yesterday", "today", "since_previous_tick",
    "2_days_ago", "3_days_ago", "4_days_ago", "5_days_ago", "6_days_ago", "7_days_ago", "14_days_ago", "30_days_ago",
    "none",
]  # fmt: skip
"""The windows by name, for type checkers. `days_ago` makes those of other days."""


class Window(msgspec.Struct, frozen=True, order=True):
    """The range [begin, end) in a time zone. Two windows with the same instants are equal, whatever their zones.

    >>> day = custom_window("2026-11-15", "2026-11-16", tz="Europe/Istanbul")
    >>> str(day.begin), str(day.begin.date()), day.span
    ('2026-11-15 00:00:00+03:00', '2026-11-15', datetime.timedelta(days=1))
    >>> day.key()
    '2026-11-14T21:00:00Z/2026-11-15T21:00:00Z'
    """

    begin: datetime
    """The first instant of the window."""
    end: datetime
    """The first instant after the window."""

    def __post_init__(self) -> None:
        begin, end = utc(self.begin), utc(self.end)
        if begin > end:
            raise InvalidValue("window", f"{begin} to {end}", "a begin that is not after the end")
        if self.begin.tzinfo is not UTC:
            msgspec.structs.force_setattr(self, "begin", _in_its_zone(self.begin))
        if self.end.tzinfo is not UTC:
            msgspec.structs.force_setattr(self, "end", _in_its_zone(self.end, end=True))

    def in_zone(self, tz: str | tzinfo | None) -> Window:
        """The same window in this zone; None is UTC."""
        where = UTC if tz is None else zone("tz", tz, warn=False)
        return Window(utc(self.begin).astimezone(where), utc(self.end).astimezone(where))

    @property
    def end_inclusive(self) -> datetime:
        """The last microsecond of the window, for queries with BETWEEN: 23:59:59.999999."""
        return _in_its_zone(max(utc(self.begin), utc(self.end) - _INSTANT).astimezone(self.end.tzinfo), end=True)

    @property
    def span(self) -> timedelta:
        """Elapsed time from begin to end."""
        return self.end - self.begin

    @property
    def empty(self) -> bool:
        """Whether it begins and ends at the same instant."""
        return self.begin == self.end

    def __contains__(self, moment: datetime) -> bool:
        return self.begin <= moment < self.end

    def key(self) -> str:
        """A stable text: equal windows have equal keys, on every machine."""
        return f"{instant_text(self.begin)}/{instant_text(self.end)}"


class Offset(msgspec.Struct, frozen=True):
    """A window given as elapsed seconds before the tick: from `begin` before it to `end` before it."""

    begin: float
    end: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.end < self.begin:
            span = f"{self.begin:g} to {self.end:g} s"
            raise InvalidValue("window offset", span, "a begin further back than the end")


class Limited(msgspec.Struct, frozen=True):
    """A window with limits for those a caller gives instead: how long they may be, and where they may begin and end."""

    window: str | Offset
    max_span: float | None = None
    align: Unit | None = None


WindowSpec = str | Offset | Limited


def offset(begin: Duration, end: Duration = 0) -> Offset:
    """The window from `begin` before the tick to `end` before it, in elapsed time.

    >>> offset("2h", "1h")
    Offset(begin=7200.0, end=3600.0)
    """
    return Offset(duration("window begin", begin), duration("window end", end, allow_zero=True))


def limited(
    window: WindowName | Offset | Mapping[str, Any], *, max_span: Duration | None = None, align: Unit | None = None
) -> Limited:
    """The same window, with limits on the windows that callers give: they are refused if they are longer than
    `max_span`, or do not begin and end at a whole hour, day, week or month (`align`) of the job's zone.

    >>> encode_window_spec(limited("yesterday", max_span="31d", align="day"))
    {'window': 'previous_day', 'max_span': '31d', 'align': 'day'}
    """
    inner = window_spec(window)
    if isinstance(inner, Limited):
        raise InvalidValue("window", "limited(limited(...))", "one set of limits")
    if align is not None:
        choice("window align", align, get_args(Unit))
    return Limited(inner, None if max_span is None else duration("window max_span", max_span), align)


def window_spec(value: Any, field: str = "window") -> WindowSpec:
    """The specification meant by a name, an `offset(...)`, a `limited(...)` or its stored form."""
    if isinstance(value, Offset | Limited):
        return value
    if isinstance(value, dict) and set(value) == {"offset"} and isinstance(value["offset"], (list, tuple)):
        return offset(*value["offset"]) if len(value["offset"]) in {1, 2} else _refuse(field, value)
    if isinstance(value, dict) and "window" in value and set(value) <= {"window", "max_span", "align"}:
        return limited(value["window"], max_span=value.get("max_span"), align=value.get("align"))
    if not isinstance(value, str):
        return _refuse(field, value)
    if (days := days_before(value)) is not None:
        return days_ago(days)
    name = _ALIASES.get(value, value)
    return name if name in NAMES else _refuse(field, value)


def days_ago(count: int) -> WindowName:
    """The window of a whole day, `count` days before the day of the tick: `window=days_ago(90)`.

    >>> days_ago(0), days_ago(1), days_ago(2)
    ('today', 'previous_day', '2_days_ago')
    """
    name = {0: "today", 1: "previous_day"}.get(whole("days_ago", count, 0, 9_999), f"{count}_days_ago")
    return cast(WindowName, name)


def days_before(name: str) -> int | None:
    """The number of days in such a name; None for any other window."""
    found = _DAYS_AGO.fullmatch(name)
    return None if found is None else int(found[1])


def encode_window_spec(spec: WindowSpec) -> str | dict[str, Any]:
    """The specification as plain JSON data, which `window_spec` reads back."""
    if isinstance(spec, Offset):
        return {"offset": [duration_text(spec.begin), duration_text(spec.end) if spec.end else 0]}
    if isinstance(spec, Limited):
        limits = {"max_span": duration_text(spec.max_span) if spec.max_span else None, "align": spec.align}
        return {"window": encode_window_spec(spec.window)} | {name: limit for name, limit in limits.items() if limit}
    return spec


def window_words(spec: WindowSpec | dict[str, Any]) -> str:
    """The specification in words.

    >>> window_words(limited(offset("2h", "1h"), max_span="1d", align="hour"))
    'from 2h to 1h before the tick; from callers at most 1d, whole hours'
    """
    known = window_spec(spec)
    if isinstance(known, Limited):
        longest = [f"at most {duration_text(known.max_span)}"] if known.max_span else []
        limits = ", ".join([*longest, *([f"whole {known.align}s"] if known.align else [])])
        return f"{window_words(known.window)}; from callers {limits}" if limits else window_words(known.window)
    if isinstance(known, Offset):
        end = f"{duration_text(known.end)} before" if known.end else ""
        return f"from {duration_text(known.begin)} " + (f"to {end} the tick" if end else "before the tick to it")
    return known


def resolve(
    spec: WindowSpec | dict[str, Any],
    tick: datetime,
    tz: str | tzinfo | None = None,
    previous_tick: datetime | None = None,
) -> Window:
    """The window of one tick, in that zone.

    Without a previous tick, "since_previous_tick" is empty: [tick, tick).

    >>> resolve("yesterday", instant("tick", "2026-01-02T03:00:00Z")).key()
    '2026-01-01T00:00:00Z/2026-01-02T00:00:00Z'
    """
    window = resolve_utc(spec, tick, tz, previous_tick)
    return window if tz is None else window.in_zone(tz)


def resolve_utc(
    spec: WindowSpec | dict[str, Any], tick: datetime, tz: str | tzinfo | None, previous_tick: datetime | None = None
) -> Window:
    """The same window, in UTC: the engine counts in instants."""
    known = window_spec(spec)
    if isinstance(known, Limited):
        known = known.window
    if isinstance(known, Offset):
        return Window(tick - timedelta(seconds=known.begin), tick - timedelta(seconds=known.end))
    if known == "since_previous_tick":
        return Window(previous_tick if previous_tick is not None else tick, tick)
    name = _zone_name(tz)
    if known == "today":
        days = _boundaries("day", name)
        return Window(_must(days.previous(tick), tick), _must(days.next_after(tick), tick))
    if (count := days_before(known)) is not None:
        return _day_before(_boundaries("day", name), tick, count, name)
    return _before(_boundaries(_PREVIOUS[known], name), tick)


def unit_of(spec: WindowSpec | dict[str, Any]) -> Unit | None:
    """The unit of the calendar that a window is one of; None for one that is counted from its tick.

    >>> unit_of("yesterday"), unit_of(offset("2h", "1h"))
    ('day', None)
    """
    known = window_spec(spec)
    name = known.window if isinstance(known, Limited) else known
    if not isinstance(name, str):
        return None
    return "day" if name == "today" or days_before(name) is not None else _PREVIOUS.get(name)


def boundaries(unit: Unit, tz: str | tzinfo | None = None) -> Trigger:
    """The instants at which one such unit ends and the next one begins, in that zone."""
    return _boundaries(unit, _zone_name(tz))


def window_between(begin: Micros, end: Micros, tz: str) -> Window:
    """A stored window, in the zone of its job."""
    return Window(to_datetime(begin), to_datetime(end)).in_zone(tz)


def custom_window(
    begin: Any,
    end: Any,
    *,
    tz: str | tzinfo | None = None,
    max_span: Any = None,
    align: Unit | None = None,
    field: str = "window",
) -> Window:
    """A caller's own window, checked: both instants valid, begin before end, within the limits.

    A day of 25 hours counts as the day that the wall clock shows: `max_span="1d"` allows it.
    """
    first, last = instant(f"{field}.begin", begin, tz=tz), instant(f"{field}.end", end, tz=tz)
    if first >= last:
        raise InvalidValue(f"{field}.end", end, f"an instant after {field}.begin ({instant_text(first)})")
    if max_span is not None and _span(first, last, tz) > duration("max_span", max_span):
        allowed = f"a span of at most {duration_text(duration('max_span', max_span))}"
        raise InvalidValue(field, f"{begin} to {end}", allowed, "Split the range into several windows")
    if align is not None:
        _check_aligned(f"{field}.begin", first, align, tz)
        _check_aligned(f"{field}.end", last, align, tz)
    return Window(first, last).in_zone(tz)


def caller_window(
    spec: WindowSpec | dict[str, Any] | None, begin: Any, end: Any, *, tz: str | tzinfo | None = None
) -> Window:
    """A caller's own window for a job with this specification: checked against its limits, if it has some."""
    known = None if spec is None else window_spec(spec)
    limits = known if isinstance(known, Limited) else None
    if limits is None:
        return custom_window(begin, end, tz=tz)
    return custom_window(begin, end, tz=tz, max_span=limits.max_span, align=limits.align)


def _in_its_zone(at: datetime, end: bool = False) -> datetime:
    assert at.tzinfo is not None
    return local_instant(at, at.tzinfo, end=end)


def _span(begin: datetime, end: datetime, tz: str | tzinfo | None) -> float:
    """Seconds between the two, elapsed or by the wall clock, whichever is less."""
    where = UTC if tz is None else zone("tz", tz, warn=False)
    by_clock = end.astimezone(where).replace(tzinfo=None) - begin.astimezone(where).replace(tzinfo=None)
    return min(end - begin, by_clock).total_seconds()


def _check_aligned(field: str, moment: datetime, unit: Unit, tz: str | tzinfo | None) -> None:
    boundaries = _boundaries(unit, _zone_name(tz))
    before = _must(boundaries.previous(moment), moment)
    if before != moment:
        after = _must(boundaries.next_after(moment), moment)
        nearest_ones = f"Nearest are {instant_text(before)} and {instant_text(after)}"
        raise InvalidValue(field, instant_text(moment), f"the beginning of a whole {unit}", nearest_ones)


def _zone_name(tz: str | tzinfo | None) -> str | None:
    return None if tz is None else zone_name(zone("tz", tz, warn=False))


def _day_before(days: Trigger, tick: datetime, count: int, tz: str | None) -> Window:
    """The whole day so many days before that of the tick. Its noon is looked up: midnights may be missing."""
    where = known_zone(tz)
    date = (_must(days.previous(tick), tick).astimezone(where)).date() - timedelta(days=count)
    noon = localise(datetime.combine(date, time(12)), where)
    return Window(_must(days.previous(noon), tick), _must(days.next_after(noon), tick))


def _before(boundaries: Trigger, tick: datetime) -> Window:
    """The last whole stretch between two boundaries that had ended by the tick."""
    end = _must(boundaries.previous(tick), tick)
    return Window(_must(boundaries.previous(end - _INSTANT), tick), end)


@lru_cache(maxsize=1024)
def _boundaries(unit: Unit, tz: str | None) -> Trigger:
    trigger = _UNITS[unit]
    return trigger if tz is None else trigger.with_zone(tz)


def _must(boundary: datetime | None, tick: datetime) -> datetime:
    if boundary is None:
        raise InvalidValue("tick", tick, "an instant well inside the calendar")
    return boundary


def _refuse(field: str, value: Any) -> WindowSpec:
    guess = nearest(value, NAMES) if isinstance(value, str) else None
    remedy = f"Did you mean {guess!r}?" if guess else ""
    raise InvalidValue(field, value, f'{", ".join(NAMES)}, 2_days_ago, or offset("2h", "1h")', remedy)
