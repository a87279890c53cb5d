"""Time inside Mainspring: whole microseconds since the Unix epoch, UTC.

Integers compare, add and store exactly on every database. Fields that hold them have plain names (`created`,
`finished`); what users read as `datetime` ends in `_at` (`created_at`, `finished_at`).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TypeAlias

Micros: TypeAlias = int

SECOND: Micros = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST = datetime(5000, 1, 1, tzinfo=UTC)
PLAUSIBLE = "an instant from the year 1970 to the year 4999"
"""What users may name: before 1970 microseconds are negative, and from the year 5138 on they have more digits than the
keys that are sorted by them. Far inside what `datetime` can show in every zone."""
_TICK = timedelta(microseconds=1)


def is_plausible(at: datetime) -> bool:
    """Whether this aware datetime is an instant that users may name."""
    return _EPOCH <= at < _LATEST


def to_micros(at: datetime) -> Micros:
    return (at - _EPOCH) // _TICK


def to_datetime(at: Micros) -> datetime:
    return _EPOCH + timedelta(microseconds=at)


def maybe_datetime(at: Micros | None) -> datetime | None:
    return None if at is None else to_datetime(at)


def seconds_to_micros(seconds: float) -> Micros:
    return round(seconds * SECOND)
