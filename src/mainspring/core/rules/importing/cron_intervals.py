"""Which cron expressions are plain intervals: pure, for imports from schedulers that only know cron.

`0 * * * *` fires every 60 minutes, `0 */6 * * *` every 360. `*/7 * * * *` does not fire every 7 minutes: the last run
of an hour and the first of the next are 4 minutes apart. What no interval can say stays cron, with the reason.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec

from ....model.time.zones import known_zone
from ....model.triggers import Trigger
from ....model.triggers.interval import Every, in_words
from ....model.triggers.wall_clock import Cron, cron

DAY = timedelta(days=1)
FAR = timedelta(days=2 * 366)
"""How far ahead changes of the clocks are looked for."""
AROUND_A_CHANGE = timedelta(hours=3)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_A_DAY = datetime(2026, 1, 5, tzinfo=UTC)
_ALL = frozenset({"*", "?", "*/1"})


class Conversion(msgspec.Struct, frozen=True):
    """The trigger that fires at the same instants: an interval, or the cron expression and why it is none."""

    trigger: Trigger
    reason: str | None = None

    @property
    def minutes(self) -> float | None:
        """The period of an interval, in minutes."""
        return self.trigger.seconds / 60 if isinstance(self.trigger, Every) else None


def converted(expression: str, tz: str, now: datetime) -> Conversion:
    """The interval of a cron expression, which is read in this zone. Its grid keeps the phase: `15 * * * *` becomes
    every 60 minutes at a quarter past.

    >>> converted("0 */6 * * *", "UTC", datetime(2026, 3, 1, tzinfo=UTC)).minutes
    360.0
    >>> converted("*/7 * * * *", "UTC", datetime(2026, 3, 1, tzinfo=UTC)).reason
    'runs are 7 minutes apart, but 4 minutes from 00:56 to 01:00'
    """
    given = cron(expression)
    fields = given.expr.split(" ")
    if not _ALL.issuperset(fields[-3:]):
        return Conversion(given, "an interval cannot name days or months")
    step = _even_step(given)
    if isinstance(step, str):
        return Conversion(given, step)
    local = cron(expression, tz=tz)
    tick = _next(local, now)
    interval = Every(int(step.total_seconds()), _EPOCH + (tick - _EPOCH) % step)
    for change in clock_changes(tz, now):
        if not _fire_together(local, interval, change - AROUND_A_CHANGE, change + AROUND_A_CHANGE):
            when = change.astimezone(known_zone(tz)).date()
            return Conversion(given, f"the clocks of {tz} change, next on {when}: an interval would run an hour off")
    return Conversion(interval)


def _even_step(given: Cron) -> timedelta | str:
    """The step between all runs of a day and the first of the next; if they differ, which do."""
    before = first = _next(given, _A_DAY - timedelta(microseconds=1))
    step: timedelta | None = None
    while before < first + DAY:
        after = _next(given, before)
        if step is not None and after - before != step:
            apart, other = in_words(step.total_seconds()), in_words((after - before).total_seconds())
            return f"runs are {apart} apart, but {other} from {before:%H:%M} to {after:%H:%M}"
        step, before = after - before, after
    assert step is not None, "there is one run a day at least"
    return step


def _next(trigger: Trigger, after: datetime) -> datetime:
    found = trigger.next_after(after)
    assert found is not None, "it fires every day"
    return found


def clock_changes(tz: str, now: datetime) -> list[datetime]:
    """The instants at which this zone changes its offset in the years ahead, to the minute."""
    zone = known_zone(tz)
    found = []
    day = now.astimezone(UTC)
    while day < now + FAR:
        low, high = day, day + DAY
        if low.astimezone(zone).utcoffset() != high.astimezone(zone).utcoffset():
            while high - low > timedelta(minutes=1):
                middle = low + (high - low) / 2
                if middle.astimezone(zone).utcoffset() == low.astimezone(zone).utcoffset():
                    low = middle
                else:
                    high = middle
            found.append(high)
        day += DAY
    return found


def _fire_together(one: Trigger, other: Trigger, begin: datetime, end: datetime) -> bool:
    """Whether both fire at the same instants from `begin` to `end`, and at the same one next."""
    at: datetime | None = begin
    while at is not None and at < end:
        if (after := one.next_after(at)) != other.next_after(at):
            return False
        at = after
    return True
