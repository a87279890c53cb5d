"""Triggers that follow elapsed time, whatever the wall clock does: `every` and `once`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Literal, Never, TypeAlias, get_args

import msgspec

from ..errors import InvalidValue
from ..time.instants import PLAUSIBLE, Micros, is_plausible, to_micros
from ..values.reading import LONGEST_DURATION, choice, duration, duration_text, instant, instant_or_local, whole
from .base import REFERENCE, Trigger, instant_text, utc

IntervalType: TypeAlias = Literal["minutes", "hours", "days"]

SHORTEST_PERIOD = 0.001
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = {"weeks": 604_800, "days": 86_400, "hours": 3600, "minutes": 60, "seconds": 1}


class Every(Trigger, frozen=True, tag="every"):
    """A fixed rate (ticks at start, start + period, ...), or with `delay` a fixed pause after each run."""

    seconds: float
    start: datetime | None = None
    delay: bool = False

    def __post_init__(self) -> None:
        if not SHORTEST_PERIOD <= self.seconds <= LONGEST_DURATION:
            raise InvalidValue("every", self.seconds, "a period from 1 ms to 100 years", "Such as every(minutes=30)")
        if self.start is not None:
            _check_instant("every start", self.start)

    @property
    def fixed_delay(self) -> bool:
        return self.delay

    def with_zone(self, tz: str | tzinfo) -> Every:
        if self.start is None or self.start.tzinfo is not None:
            return self
        return msgspec.structs.replace(self, start=instant("every start", self.start, tz=tz))

    def anchored(self, at: datetime) -> Every:
        return self if self.start is not None else msgspec.structs.replace(self, start=utc(at))

    def about_ticks(self, begin: datetime, end: datetime) -> int:
        first = utc(begin) if self.start is None else max(utc(begin), utc(self.start))
        return 0 if self.delay else max(0, int((utc(end) - first).total_seconds() / self.seconds))

    def next_after(self, instant: datetime) -> datetime | None:
        """The next point of the grid; with `delay`, `instant` is the end of the last run, and a period is added."""
        after, step = utc(instant), self._step
        try:
            start = self._start
            if self.start is not None and after < start:
                return start
            if self.delay:
                return after + step
            return start + ((after - start) // step + 1) * step if after >= start else start
        except OverflowError:
            return None

    def previous(self, instant: datetime) -> datetime | None:
        """The last point of the grid; None with `delay`, whose ticks depend on when runs end."""
        until, start = utc(instant), self._start
        if self.delay or until < start:
            return None
        return start + (until - start) // self._step * self._step

    def period(self, at: datetime = REFERENCE) -> float | None:
        return float(self.seconds)

    def count_between(self, begin: datetime, end: datetime, limit: int = 1000) -> tuple[int, bool]:
        if self.delay:
            return max(0, (utc(end) - utc(begin)) // self._step), True
        return max(0, self._count_until(utc(end)) - self._count_until(utc(begin))), True

    def describe(self) -> str:
        return f"{in_words(self.seconds)} after each run ends" if self.delay else f"every {_period(self.seconds)}"

    def expression(self) -> str:
        return f"@every {duration_text(self.seconds)}"

    @property
    def _step(self) -> timedelta:
        return timedelta(seconds=self.seconds)

    @property
    def _start(self) -> datetime:
        return _EPOCH if self.start is None else _in_utc(self.start)

    def _count_until(self, until: datetime) -> int:
        return (until - self._start) // self._step + 1 if until >= self._start else 0


class Once(Trigger, frozen=True, tag="once"):
    """A single instant; one without an offset is read in the zone of the job."""

    at: datetime

    def __post_init__(self) -> None:
        _check_instant("once", self.at)

    def with_zone(self, tz: str | tzinfo) -> Once:
        return self if self.at.tzinfo is not None else Once(instant("once", self.at, tz=tz))

    def next_after(self, instant: datetime) -> datetime | None:
        at = _in_utc(self.at)
        return at if utc(instant) < at else None

    def previous(self, instant: datetime) -> datetime | None:
        at = _in_utc(self.at)
        return at if utc(instant) >= at else None

    def only_tick_micros(self) -> Micros | None:
        return to_micros(_in_utc(self.at))

    def describe(self) -> str:
        if self.at.tzinfo is None:
            return f"once at {self.at.isoformat(' ')}"
        return f"once at {utc(self.at).isoformat(' ').removesuffix('+00:00')} UTC"

    def expression(self) -> str:
        return f"@once {self.at.isoformat() if self.at.tzinfo is None else instant_text(self.at)}"


def every(
    *number: Never,
    seconds: float = 0,
    minutes: float = 0,
    hours: float = 0,
    days: float = 0,
    weeks: float = 0,
    start: datetime | str | None = None,
    delay: bool = False,
) -> Every:
    """A fixed period of elapsed time. It counts from `start` or, without one, from the first declaration of the job. A
    start without an offset is read in the zone of the job.

    With `delay=True`, the period is the time between the end of one run and the start of the next.

    >>> every(minutes=30).describe()
    'every 30 minutes'
    """
    if number:
        raise InvalidValue("every", number[0], "a number with its unit", f"Write {period_as_call(number[0])}")
    parts = {"seconds": seconds, "minutes": minutes, "hours": hours, "days": days, "weeks": weeks}
    total = sum(_part(unit, value) * _UNITS[unit] for unit, value in parts.items())
    begin = None if start is None else instant_or_local("start", start)
    return Every(int(total) if total == int(total) else total, begin, bool(delay))


def period_as_call(period: Any, unit: str = "seconds") -> str:
    """A period that was written otherwise, as the call of `every` that was meant; an example if it cannot be read.

    >>> period_as_call("90m"), period_as_call("2h"), period_as_call(5), period_as_call("often")
    ('every(minutes=90)', 'every(hours=2)', 'every(seconds=5)', 'every(minutes=5)')
    """
    try:
        seconds = duration(unit, period) * _UNITS[unit]
    except InvalidValue:
        return "every(minutes=5)"
    largest = next((name for name, size in _UNITS.items() if seconds % size == 0), "seconds")
    return f"every({largest}={seconds / _UNITS[largest]:g})"


def _part(unit: str, value: Any) -> float:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if number and 0 <= value <= LONGEST_DURATION / _UNITS[unit]:
        return value  # type: ignore[no-any-return]
    raise InvalidValue(unit, value, "a number of at least 0, in all at most 100 years", "Such as every(minutes=30)")


def interval(interval_minutes: int, interval_type: str = "minutes") -> Every:
    """The interval pair of the HTTP interface: a whole number, and the unit it counts (minutes, hours or days).

    >>> interval(6, "hours").describe()
    'every 6 hours'
    """
    unit = choice("interval_type", interval_type, get_args(IntervalType))
    count = whole("interval_minutes", interval_minutes, 1, int(LONGEST_DURATION // _UNITS[unit]))
    return Every(count * _UNITS[unit])


def interval_pair(trigger: Trigger | None, interval_type: IntervalType) -> tuple[int, IntervalType] | None:
    """A period as the interval pair: in this unit if it is a whole number of them, otherwise in minutes. None for other
    triggers, and for periods that are no whole minutes.

    >>> interval_pair(every(hours=6), "hours"), interval_pair(every(hours=6), "days")
    ((6, 'hours'), (360, 'minutes'))
    """
    if not isinstance(trigger, Every):
        return None
    units: tuple[IntervalType, ...] = (interval_type, "minutes")
    whole_units = [unit for unit in units if trigger.seconds % _UNITS[unit] == 0]
    return (int(trigger.seconds // _UNITS[whole_units[0]]), whole_units[0]) if whole_units else None


def once(at: datetime | str | float) -> Once:
    """A single tick: a datetime, ISO 8601 text, or seconds since 1970. A time without an offset is read in the zone of
    the job.

    >>> once("2026-01-01T00:00:00Z").expression()
    '@once 2026-01-01T00:00:00Z'
    """
    return Once(instant_or_local("once", at))


def _check_instant(field: str, at: datetime) -> None:
    if not is_plausible(at if at.tzinfo is not None else at.replace(tzinfo=UTC)):
        raise InvalidValue(field, at, PLAUSIBLE)


def _in_utc(at: datetime) -> datetime:
    """A trigger without a zone is read in UTC."""
    return at.replace(tzinfo=UTC) if at.tzinfo is None else utc(at)


def in_words(seconds: float) -> str:
    """1800 as "30 minutes", 3600 as "1 hour", 5400 as "1 hour 30 minutes"."""
    parts, left = [], seconds
    for unit, size in _UNITS.items():
        count = left if unit == "seconds" else left // size
        left -= count * size
        if count:
            parts.append((f"{count:.6f}".rstrip("0").rstrip("."), unit))
    return " ".join(f"{count} {unit[:-1] if count == '1' else unit}" for count, unit in parts)


def _period(seconds: float) -> str:
    """The same after "every": 3600 as "hour"."""
    words = in_words(seconds)
    return words[2:] if words.startswith("1 ") and words.count(" ") == 1 else words
