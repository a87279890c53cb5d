"""Triggers that follow the wall clock of a zone: cron and the plain calendar ones. All share the rule of TIM-4."""

from __future__ import annotations

from datetime import datetime, time, tzinfo
from functools import cached_property
from typing import Literal, Self, get_args

import msgspec

from ..time.timeline import Gap, Overlap
from ..time.zones import known_zone, zone_name
from ..values.given import Weekday
from ..values.reading import WEEKDAYS, choice, day_of_month, minute, second, time_of_day, weekday, whole, zone
from .base import Trigger, utc
from .cron import CronRule, normalise, rule
from .cron_in_words import words
from .local_time import next_instant, previous_instant

Short = Literal["clamp", "skip"]
_GAP_WORDS: dict[Gap, str] = {
    "at_end": "",
    "shift": "times that the clocks skip shifted by as much",
    "skip": "without times that the clocks skip",
}
_OVERLAP_WORDS: dict[Overlap, str] = {
    "first": "",
    "second": "the second time when the clocks repeat it",
    "both": "twice when the clocks repeat it",
}


class CalendarTrigger(Trigger, frozen=True, kw_only=True):
    """The common base: cron rules in local time of a zone, UTC by default. Subclasses name their rules."""

    tz: str | None = None

    def rules(self) -> tuple[str, ...]:
        """The cron expressions whose ticks, taken together, are the ticks of this trigger."""
        raise NotImplementedError

    @property
    def changes(self) -> tuple[Gap, Overlap]:
        """What happens when the clocks change."""
        return "at_end", "first"

    def next_after(self, instant: datetime) -> datetime | None:
        after = utc(instant)
        if len(self._walks) == 1:
            return next_instant(*self._walks[0], after)
        found = [next_instant(*walk, after) for walk in self._walks]
        return min((tick for tick in found if tick is not None), default=None)

    def previous(self, instant: datetime) -> datetime | None:
        until = utc(instant)
        if len(self._walks) == 1:
            return previous_instant(*self._walks[0], until)
        found = [previous_instant(*walk, until) for walk in self._walks]
        return max((tick for tick in found if tick is not None), default=None)

    def about_ticks(self, begin: datetime, end: datetime) -> int:
        return max(rule.every_day for rule, *_ in self._walks) * (end - begin).days

    @cached_property
    def _walks(self) -> list[tuple[CronRule, tzinfo, Gap, Overlap]]:
        """The parsed rules, the zone and the choices at clock changes, cached."""
        gap, overlap = self.changes
        return [(rule(text), known_zone(self.tz), gap, overlap) for text in self.rules()]

    def with_zone(self, tz: str | tzinfo) -> Self:
        return self if self.tz is not None else msgspec.structs.replace(self, tz=_zone(tz, warn=False))

    def expression(self) -> str:
        return " | ".join(self.rules())

    def check(self) -> None:
        """Refuse rules and zones that do not exist, also when the trigger comes from storage."""
        for text in self.rules():
            rule(text)
        if self.tz is not None:
            zone("tz", self.tz, warn=False)

    def in_zone(self, text: str) -> str:
        """The words for the times, with the zone and any unusual choice at clock changes."""
        notes = [self.tz if self.tz != "UTC" else None]
        if not rule(self.rules()[0]).wildcard:
            gap, overlap = self.changes
            notes += [_GAP_WORDS[gap], _OVERLAP_WORDS[overlap]]
        said = ", ".join(note for note in notes if note)
        return f"{text} ({said})" if said else text


class FixedTime(CalendarTrigger, frozen=True, kw_only=True):
    """A calendar trigger that may name times which the clocks skip or repeat."""

    gap: Gap = "at_end"
    overlap: Overlap = "first"

    @property
    def changes(self) -> tuple[Gap, Overlap]:
        return self.gap, self.overlap


class Cron(FixedTime, frozen=True, tag="cron"):
    expr: str

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "expr", normalise(self.expr))
        self.check()

    def rules(self) -> tuple[str, ...]:
        return (self.expr,)

    @property
    def follows_the_wall_clock(self) -> bool:
        """Whether `gap` and `overlap` mean nothing to it, because its minute or hour starts with `*`."""
        return rule(self.expr).wildcard

    def describe(self) -> str:
        return self.in_zone(words(self.expr))


class HourlyAt(CalendarTrigger, frozen=True, tag="hourly_at"):
    minute: int
    second: int = 0

    def __post_init__(self) -> None:
        minute("minute", self.minute)
        second("second", self.second)
        self.check()

    def rules(self) -> tuple[str, ...]:
        return (f"{self.second} {self.minute} * * * *",)

    def describe(self) -> str:
        seconds = f" and {self.second} s" if self.second else ""
        return self.in_zone(f"hourly at minute {self.minute}{seconds}")


class DailyAt(FixedTime, frozen=True, tag="daily_at"):
    time: time

    def __post_init__(self) -> None:
        time_of_day("time", self.time)
        self.check()

    def rules(self) -> tuple[str, ...]:
        return (f"{_clock(self.time)} * * *",)

    def describe(self) -> str:
        return self.in_zone(f"daily at {_time_text(self.time)}")


class WeeklyAt(FixedTime, frozen=True, tag="weekly_at"):
    weekday: int
    time: time

    def __post_init__(self) -> None:
        whole("weekday", self.weekday, 1, 7)
        time_of_day("time", self.time)
        self.check()

    def rules(self) -> tuple[str, ...]:
        return (f"{_clock(self.time)} * * {self.weekday}",)

    def describe(self) -> str:
        return self.in_zone(f"weekly on {WEEKDAYS[self.weekday - 1].capitalize()} at {_time_text(self.time)}")


class MonthlyAt(FixedTime, frozen=True, tag="monthly_at"):
    day: int
    time: time
    if_short: Short = "clamp"

    def __post_init__(self) -> None:
        day_of_month("day", self.day)
        time_of_day("time", self.time)
        self.check()

    def rules(self) -> tuple[str, ...]:
        clock = _clock(self.time)
        if self.if_short == "skip" or self.day <= 28:
            return (f"{clock} {self.day} * *",)
        if self.day == 31:
            return (f"{clock} L * *",)
        return (f"{clock} {self.day} * *", f"{clock} L 2 *")

    def describe(self) -> str:
        short = {"clamp": ", the last day in shorter months", "skip": ", not in shorter months"}
        note = short[self.if_short] if self.day > 28 else ""
        return self.in_zone(f"monthly on day {self.day} at {_time_text(self.time)}{note}")


def cron(expr: str, *, tz: str | tzinfo | None = None, gap: Gap = "at_end", overlap: Overlap = "first") -> Cron:
    """A cron expression of 5 fields, or of 6 with the seconds first; `tz=None` means the zone of the job.

    `gap` says what happens to a time that the clocks skip (`at_end`, `shift`, `skip`), `overlap` of one that they
    repeat (`first`, `second`, `both`). An expression whose minute or hour starts with `*` follows the wall clock.

    >>> cron("0 30 3 * * *").describe()
    'At 03:30'
    """
    return Cron(expr=expr, tz=_zone(tz), gap=_gap(gap), overlap=_overlap(overlap))


def hourly_at(minute: int, second: int = 0, tz: str | tzinfo | None = None) -> HourlyAt:
    """Every hour at this minute, as the wall clock shows it.

    >>> hourly_at(5).expression()
    '0 5 * * * *'
    """
    return HourlyAt(minute, second, tz=_zone(tz))


def daily_at(
    time: str | time, tz: str | tzinfo | None = None, *, gap: Gap = "at_end", overlap: Overlap = "first"
) -> DailyAt:
    """Every day at this time of day; `gap` and `overlap` as for `cron`.

    >>> daily_at("03:00", tz="Europe/Istanbul").describe()
    'daily at 03:00 (Europe/Istanbul)'
    """
    return DailyAt(time_of_day("time", time), tz=_zone(tz), gap=_gap(gap), overlap=_overlap(overlap))


def weekly_at(
    weekday: Weekday,
    time: str | time,
    tz: str | tzinfo | None = None,
    *,
    gap: Gap = "at_end",
    overlap: Overlap = "first",
) -> WeeklyAt:
    """Every week on this day, a name or an ISO number: 1 is Monday, 7 is Sunday; `gap` and `overlap` as for `cron`.

    >>> weekly_at("mon", "03:00").describe()
    'weekly on Monday at 03:00'
    """
    day, clock = _weekday(weekday), time_of_day("time", time)
    return WeeklyAt(day, clock, tz=_zone(tz), gap=_gap(gap), overlap=_overlap(overlap))


def monthly_at(
    day: int,
    time: str | time,
    tz: str | tzinfo | None = None,
    if_short: Short = "clamp",
    *,
    gap: Gap = "at_end",
    overlap: Overlap = "first",
) -> MonthlyAt:
    """Every month on this day; months without it use their last day (`clamp`) or are left out (`skip`).

    `gap` and `overlap` as for `cron`.

    >>> monthly_at(31, "03:00").expression()
    '0 0 3 L * *'
    """
    choice("if_short", if_short, get_args(Short))
    day, clock = day_of_month("day", day), time_of_day("time", time)
    return MonthlyAt(day, clock, if_short, tz=_zone(tz), gap=_gap(gap), overlap=_overlap(overlap))


def _gap(value: Gap) -> Gap:
    choice("gap", value, get_args(Gap))
    return value


def _overlap(value: Overlap) -> Overlap:
    choice("overlap", value, get_args(Overlap))
    return value


def _weekday(value: int | str) -> int:
    return weekday("weekday", value)


def _zone(value: str | tzinfo | None, *, warn: bool = True) -> str | None:
    return None if value is None else zone_name(zone("tz", value, warn=warn))


def _clock(at: time) -> str:
    return f"{at.second} {at.minute} {at.hour}"


def _time_text(at: time) -> str:
    return at.isoformat() if at.second else at.isoformat("minutes")
