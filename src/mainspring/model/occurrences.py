"""Single occurrences of a job that an operator skipped or moved: exceptions to what its trigger says.

They are kept in the text of the job's overrides, under a name that is no field of a specification: a release that does
not know them passes over it.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

import msgspec

from .time.instants import Micros, maybe_datetime, to_datetime, to_micros
from .triggers.base import REFERENCE, Trigger

FIELD = "@occurrences"
_INSTANT = timedelta(microseconds=1)


class Occurrence(msgspec.Struct, frozen=True, omit_defaults=True):
    """One tick that is skipped, or moved `to` another instant. It keeps the identity of its tick either way.

    `done` are those moved to an earlier time that have run: they are remembered until their own tick is past.
    """

    tick: Micros
    to: Micros | None = None
    by: str = "system"
    done: bool = False

    @property
    def due(self) -> Micros:
        """When a scheduler has to deal with it."""
        return self.tick if self.to is None else self.to

    @property
    def at(self) -> datetime:
        return to_datetime(self.tick)

    @property
    def moved_to(self) -> datetime | None:
        """None for a skipped occurrence."""
        return maybe_datetime(self.to)


def read_occurrences(overrides: str) -> tuple[Occurrence, ...]:
    """The occurrences in the text of a job's overrides, by tick. Nearly every job has none."""
    return _read(overrides) if FIELD in overrides else ()


@lru_cache(maxsize=256)
def _read(overrides: str) -> tuple[Occurrence, ...]:
    return msgspec.convert(msgspec.json.decode(overrides).get(FIELD, []), tuple[Occurrence, ...])


def write_overrides(fields: dict[str, Any], occurrences: tuple[Occurrence, ...]) -> str:
    """The text of both; equal values give equal text."""
    kept = {name: value for name, value in fields.items() if name != FIELD}
    if occurrences:
        kept[FIELD] = sorted(occurrences, key=lambda each: each.tick)
    return msgspec.json.encode(kept, order="deterministic").decode()


class Without(Trigger, frozen=True):
    """A trigger without some of its ticks, for planning; it is never stored."""

    base: Any
    left_out: frozenset[Micros]

    def next_after(self, instant: datetime) -> datetime | None:
        tick: datetime | None = self.base.next_after(instant)
        while tick is not None and to_micros(tick) in self.left_out:
            tick = self.base.next_after(tick)
        return tick

    def previous(self, instant: datetime) -> datetime | None:
        tick: datetime | None = self.base.previous(instant)
        while tick is not None and to_micros(tick) in self.left_out:
            tick = self.base.previous(tick - _INSTANT)
        return tick

    @property
    def fixed_delay(self) -> bool:
        return bool(self.base.fixed_delay)

    def only_tick_micros(self) -> Micros | None:
        only: Micros | None = self.base.only_tick_micros()
        return None if only in self.left_out else only

    def period(self, at: datetime = REFERENCE) -> float | None:
        found: float | None = self.base.period(at)
        return found

    def count_between(self, begin: datetime, end: datetime, limit: int = 1000) -> tuple[int, bool]:
        count, exact = self.base.count_between(begin, end, limit)
        gone = [tick for tick in self.left_out if begin < to_datetime(tick) <= end and is_tick(self.base, tick)]
        return count - len(gone), exact


def is_tick(trigger: Trigger, at: Micros) -> bool:
    """Whether the trigger has a tick at exactly this instant."""
    return not trigger.fixed_delay and trigger.previous(to_datetime(at)) == to_datetime(at)
