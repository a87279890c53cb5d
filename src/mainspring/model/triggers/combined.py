"""Triggers made of others: several together (`AnyOf`), without some ticks (`Excluding`), or spread (`Spread`)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime, timedelta, tzinfo
from hashlib import blake2b
from typing import Any

import msgspec

from ..errors import InvalidValue
from ..time.instants import Micros, to_datetime, to_micros
from ..time.timeline import localise
from ..time.zones import known_zone, zone_name
from ..values.reading import duration, duration_text, zone
from .base import Trigger
from .cron import HORIZON_YEARS
from .interval import Every, Once, in_words
from .wall_clock import Cron, DailyAt, HourlyAt, MonthlyAt, WeeklyAt

_INSTANT = timedelta(microseconds=1)
_HORIZON = timedelta(days=366 * HORIZON_YEARS)
_MOST_NAMED = 5  # dates, in words
_MOST_EXCLUDED = 100_000  # more than one day of a job that ticks every second


class AnyOf(Trigger, frozen=True, tag="any_of"):
    """The ticks of several triggers together; a tick they share is one tick."""

    triggers: tuple[AnyTrigger, ...]

    def __post_init__(self) -> None:
        if not self.triggers:
            raise InvalidValue("any_of", self.triggers, "at least one trigger")
        for trigger in self.triggers:
            _refuse_as_part("any_of", trigger)

    def next_after(self, instant: datetime) -> datetime | None:
        ticks = (trigger.next_after(instant) for trigger in self.triggers)
        return min((tick for tick in ticks if tick is not None), default=None)

    def previous(self, instant: datetime) -> datetime | None:
        ticks = (trigger.previous(instant) for trigger in self.triggers)
        return max((tick for tick in ticks if tick is not None), default=None)

    def with_zone(self, tz: str | tzinfo) -> AnyOf:
        return AnyOf(tuple(trigger.with_zone(tz) for trigger in self.triggers))

    def anchored(self, at: datetime) -> AnyOf:
        return AnyOf(tuple(trigger.anchored(at) for trigger in self.triggers))

    def describe(self) -> str:
        return ", or ".join(trigger.describe() for trigger in self.triggers)

    def expression(self) -> str:
        return " | ".join(trigger.expression() for trigger in self.triggers)


class Excluding(Trigger, frozen=True, tag="excluding"):
    """A trigger without its ticks on some local dates and without those it shares with other triggers."""

    base: AnyTrigger
    dates: tuple[date, ...] = ()
    triggers: tuple[AnyTrigger, ...] = ()
    tz: str | None = None

    def __post_init__(self) -> None:
        for trigger in (self.base, *self.triggers):
            _refuse_as_part("excluding", trigger)
        if self.base in self.triggers:
            raise InvalidValue("excluding", self.base.expression(), "an exclusion that leaves something")
        if self.tz is not None:
            zone("tz", self.tz, warn=False)

    def next_after(self, instant: datetime) -> datetime | None:
        tick = self.base.next_after(instant)
        for _ in range(_MOST_EXCLUDED):
            if tick is None or tick - instant > _HORIZON:
                return None
            if not self._excludes(tick):
                return tick
            tick = self.base.next_after(max(tick, self._day(tick, 1) - _INSTANT) if self._on_date(tick) else tick)
        return None

    def previous(self, instant: datetime) -> datetime | None:
        tick = self.base.previous(instant)
        for _ in range(_MOST_EXCLUDED):
            if tick is None or instant - tick > _HORIZON:
                return None
            if not self._excludes(tick):
                return tick
            tick = self.base.previous((min(tick, self._day(tick, 0)) if self._on_date(tick) else tick) - _INSTANT)
        return None

    def with_zone(self, tz: str | tzinfo) -> Excluding:
        parts = tuple(trigger.with_zone(tz) for trigger in self.triggers)
        name = self.tz if self.tz is not None else zone_name(zone("tz", tz, warn=False))
        return Excluding(self.base.with_zone(tz), self.dates, parts, name)

    def anchored(self, at: datetime) -> Excluding:
        parts = tuple(trigger.anchored(at) for trigger in self.triggers)
        return Excluding(self.base.anchored(at), self.dates, parts, self.tz)

    def describe(self) -> str:
        parts = [f"on {day}" for day in self.dates[:_MOST_NAMED]] + [trigger.describe() for trigger in self.triggers]
        more = len(self.dates) - _MOST_NAMED
        note = f" and on {more} more date{'s' if more > 1 else ''}" if more > 0 else ""
        return f"{self.base.describe()}, except {', '.join(parts)}{note}"

    def expression(self) -> str:
        parts = [str(day) for day in self.dates] + [trigger.expression() for trigger in self.triggers]
        return f"{self.base.expression()} except {', '.join(parts)}"

    def _excludes(self, tick: datetime) -> bool:
        return self._on_date(tick) or any(trigger.previous(tick) == tick for trigger in self.triggers)

    def _on_date(self, tick: datetime) -> bool:
        return tick.astimezone(known_zone(self.tz)).date() in self.dates

    def _day(self, tick: datetime, later: int) -> datetime:
        """The beginning of the local day of the tick, or of a later one, so that excluded days are skipped whole."""
        day = tick.astimezone(known_zone(self.tz)).date() + timedelta(days=later)
        return localise(datetime(day.year, day.month, day.day), known_zone(self.tz))


class Spread(Trigger, frozen=True, tag="spread"):
    """The ticks of another trigger, each later by a part of `seconds`, or of the time to the next tick if that is less.

    The part is a share between 0 and 1 that is computed from the name of the job, or from the name and the tick. So
    ticks keep their order and are the same on every machine.
    """

    base: AnyTrigger
    seconds: float
    each_tick: bool = False
    name: str = ""

    def __post_init__(self) -> None:
        _refuse_as_part("spread", self.base)
        duration("spread", self.seconds)

    def next_after(self, instant: datetime) -> datetime | None:
        before = self.base.previous(instant)
        if before is not None and (late := self._later(before)) > instant:
            return late
        upcoming = self.base.next_after(instant)
        return None if upcoming is None else self._later(upcoming)

    def previous(self, instant: datetime) -> datetime | None:
        before = self.base.previous(instant)
        if before is None or (late := self._later(before)) <= instant:
            return None if before is None else late
        earlier = self.base.previous(before - _INSTANT)
        return None if earlier is None else self._later(earlier)

    def count_between(self, begin: datetime, end: datetime, limit: int = 1000) -> tuple[int, bool]:
        """The count of the base, corrected for ticks that are shifted across the ends of the interval."""
        count, exact = self.base.count_between(begin, end, limit)
        return (max(0, count + self._shifts_across(begin) - self._shifts_across(end)) if exact else count), exact

    def only_tick_micros(self) -> Micros | None:
        only = self.base.only_tick_micros()
        return None if only is None else to_micros(self._later(to_datetime(only)))

    def with_zone(self, tz: str | tzinfo) -> Spread:
        return msgspec.structs.replace(self, base=self.base.with_zone(tz))

    def anchored(self, at: datetime) -> Spread:
        return msgspec.structs.replace(self, base=self.base.anchored(at))

    def named(self, job: str) -> Spread:
        return msgspec.structs.replace(self, name=job)

    def describe(self) -> str:
        time = in_words(self.seconds)
        how = f"each time up to {time} later" if self.each_tick else f"spread over {time}"
        return f"{self.base.describe()}, {how}"

    def expression(self) -> str:
        return f"{self.base.expression()} {'jitter' if self.each_tick else 'spread'} {duration_text(self.seconds)}"

    def _later(self, tick: datetime) -> datetime:
        following = self.base.next_after(tick)
        room = self.seconds if following is None else min(self.seconds, (following - tick).total_seconds())
        return tick + timedelta(milliseconds=int(self._share(tick) * room * 1000))

    def _share(self, tick: datetime) -> float:
        text = f"{self.name} {to_micros(tick)}" if self.each_tick else self.name
        return int.from_bytes(blake2b(text.encode(), digest_size=6).digest()) / 2**48

    def _shifts_across(self, instant: datetime) -> int:
        before = self.base.previous(instant)
        return int(before is not None and self._later(before) > instant)


AnyTrigger = Cron | Every | HourlyAt | DailyAt | WeeklyAt | MonthlyAt | Once | AnyOf | Excluding | Spread
"""Every kind of trigger. A new kind is added here; the annotations above refer to it."""


def any_of(*triggers: Trigger) -> AnyOf:
    """Due whenever at least one of the triggers is due.

    >>> from mainspring import daily_at, weekly_at
    >>> any_of(daily_at("03:00"), weekly_at("sun", "12:00")).describe()
    'daily at 03:00, or weekly on Sunday at 12:00'
    """
    return AnyOf(tuple(_known("any_of", trigger) for trigger in triggers))


def exclude(base: Trigger, excluded: Iterable[Any]) -> Excluding:
    """See `Trigger.excluding`."""
    items = list(_flat(excluded))
    if not items:
        raise InvalidValue("excluding", items, "at least one date or trigger")
    dates = sorted({_date(item) for item in items if not isinstance(item, Trigger)})
    triggers = tuple(_known("excluding", item) for item in items if isinstance(item, Trigger))
    return Excluding(_known("excluding", base), tuple(dates), triggers, getattr(base, "tz", None))


def spread(base: Trigger, within: Any, *, each_tick: bool) -> Spread:
    """See `Trigger.spread` and `Trigger.jitter`."""
    return Spread(_known("spread", base), duration("spread", within), each_tick)


def _flat(items: Iterable[Any]) -> Iterable[Any]:
    for item in items:
        if isinstance(item, Iterable) and not isinstance(item, str):
            yield from _flat(item)
        else:
            yield item


def _date(item: Any) -> date:
    if isinstance(item, date) and not isinstance(item, datetime):
        return item
    try:
        return date.fromisoformat(item)
    except (TypeError, ValueError):
        raise InvalidValue("excluding", item, 'a date, "YYYY-MM-DD", or a trigger') from None


def _known(field: str, trigger: Any) -> AnyTrigger:
    if isinstance(trigger, AnyTrigger):
        return trigger
    raise InvalidValue(field, trigger, "a trigger, such as daily_at(...) or cron(...)")


def _refuse_as_part(field: str, trigger: Trigger) -> None:
    if trigger.fixed_delay:
        raise InvalidValue(
            field, trigger.expression(), "triggers with ticks of their own", "every(delay=True) cannot be combined"
        )
    if isinstance(trigger, Spread):
        raise InvalidValue(
            field, trigger.expression(), "triggers that are not spread", "Spread the whole: any_of(...).spread(...)"
        )
