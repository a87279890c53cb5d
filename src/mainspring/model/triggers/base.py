"""What every trigger can do. The kinds are in `interval`, `wall_clock` and `combined`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, tzinfo
from typing import TYPE_CHECKING, Any, Self

import msgspec

from ..errors import InvalidValue
from ..time.instants import Micros

if TYPE_CHECKING:
    from .combined import Excluding, Spread

REFERENCE = datetime(2001, 1, 1, tzinfo=UTC)


class Trigger(msgspec.Struct, frozen=True, tag_field="kind", omit_defaults=True, dict=True):
    """When a job is due: a strictly increasing series of instants, the ticks.

    Pure and deterministic: the same trigger gives the same ticks on every machine. A trigger without a zone is read
    in UTC until `with_zone` fills in the zone of its job.
    """

    def next_after(self, instant: datetime) -> datetime | None:
        """The first tick strictly later than `instant`, in UTC; None when there is none within 50 years."""
        raise NotImplementedError

    def previous(self, instant: datetime) -> datetime | None:
        """The last tick not later than `instant`, in UTC; None when there is none."""
        raise NotImplementedError

    def about_ticks(self, begin: datetime, end: datetime) -> int:
        """A quick estimate of how many ticks lie between two instants, never far above the truth; 0 where only
        counting tells."""
        return 0

    def describe(self) -> str:
        """The trigger in plain words."""
        raise NotImplementedError

    def expression(self) -> str:
        """The trigger as a cron-style schedule: `0 0 2 * * *`, `@every 30m`, `@once 2026-01-01T00:00:00Z`."""
        raise NotImplementedError

    @property
    def fixed_delay(self) -> bool:
        """Whether the next tick counts from the end of the last run, and not from the tick before."""
        return False

    def with_zone(self, tz: str | tzinfo) -> Self:
        """A copy in this zone, unless the trigger has its own."""
        return self

    def anchored(self, at: datetime) -> Self:
        """A copy whose intervals count from this instant, unless they have their own start."""
        return self

    def named(self, job: str) -> Self:
        """A copy whose spread or jitter is derived from the name of this job."""
        return self

    def only_tick_micros(self) -> Micros | None:
        """The instant of a trigger that has exactly one tick, in microseconds since 1970."""
        return None

    def period(self, at: datetime = REFERENCE) -> float | None:
        """Seconds between the next two ticks after `at`."""
        first = self.next_after(at)
        second = self.next_after(first) if first else None
        return (second - first).total_seconds() if first and second else None

    def ticks(self, begin: datetime, end: datetime, limit: int | None = None) -> Iterator[datetime]:
        """The ticks in (begin, end], oldest first, at most `limit` of them."""
        tick, left = self.next_after(begin), limit
        while tick is not None and tick <= end and (left is None or left > 0):
            yield tick
            left = None if left is None else left - 1
            tick = self.next_after(tick)

    def count_between(self, begin: datetime, end: datetime, limit: int = 1000) -> tuple[int, bool]:
        """How many ticks lie in (begin, end], and whether that is exact or cut at `limit`."""
        count = sum(1 for _ in self.ticks(begin, end, limit + 1))
        return min(count, limit), count <= limit

    def excluding(self, *excluded: date | str | Trigger | Iterable[date | str | Trigger]) -> Excluding:
        """The same trigger without its ticks on some dates, or at the ticks of another trigger.

        >>> from mainspring import daily_at
        >>> daily_at("03:00").excluding("2026-12-25").describe()
        'daily at 03:00, except on 2026-12-25'
        """
        from .combined import exclude  # that module knows all kinds, this one none

        return exclude(self, excluded)

    def spread(self, within: Any) -> Spread:
        """The same trigger with a delay of up to `within`, which is derived from the name of the job and always the
        same.

        This spreads jobs that would be due in the same second. A delayed tick never reaches the tick after it.

        >>> from mainspring import daily_at
        >>> daily_at("03:00").spread("10m").describe()
        'daily at 03:00, spread over 10 minutes'
        """
        from .combined import spread

        return spread(self, within, each_tick=False)

    def jitter(self, within: Any) -> Spread:
        """Like `spread`, but with another delay for each tick. It looks random, and is the same on every machine."""
        from .combined import spread

        return spread(self, within, each_tick=True)


def utc(instant: datetime) -> datetime:
    """The instant in UTC; a naive one is refused."""
    if instant.tzinfo is UTC:
        return instant
    if instant.tzinfo is None:
        raise InvalidValue("instant", instant, "an aware datetime", "Add a time zone, such as tzinfo=UTC")
    return instant.astimezone(UTC)


def instant_text(instant: datetime) -> str:
    """ISO 8601 in UTC with a Z, with microseconds only where there are some."""
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")
