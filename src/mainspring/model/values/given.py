"""The types of values that users write in code, for type checkers. `reading` checks the same values when code runs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from typing import Literal, Protocol, TypeAlias, TypeVar

T_co = TypeVar("T_co", covariant=True)


class Several(Protocol[T_co]):
    """Several values, as a list, a tuple, a set or the keys of a dict. A single text is not several texts, although it
    can be iterated over."""

    def __contains__(self, item: object, /) -> bool: ...

    def __iter__(self) -> Iterator[T_co]: ...


Duration: TypeAlias = float | str | timedelta
"""Seconds, text such as "250ms", "10m" or "1h30m", or a timedelta."""

Instant: TypeAlias = date | str | float
"""A datetime, a date for its midnight, ISO 8601 text, or seconds since 1970."""

When: TypeAlias = Instant | timedelta
"""An instant; or a duration, as text or timedelta, which counts from now: forward for a start, back for a search."""

Size: TypeAlias = int | str
"""Bytes, or text such as "512MB" or "1.5GiB"."""

Rate: TypeAlias = float | str
"""A number per second, or text such as "100/m"."""

Weekday: TypeAlias = (
    int
    | Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
    | Literal["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
    | Literal["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
    | Literal["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
)
"""A day of the week by its name, or by its ISO number: 1 is Monday, 7 is Sunday."""

LogLevel: TypeAlias = Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]
AnyCaseLogLevel: TypeAlias = LogLevel | Literal["debug", "info", "warning", "error", "critical"]
