"""A clock that a test moves."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ..model.time.instants import Micros, seconds_to_micros, to_datetime, to_micros
from ..model.values.reading import duration, instant

START: Micros = 1_767_225_600_000_000  # 2026-01-01T00:00:00Z


class FakeClock:
    """A clock that moves only when a test moves it. It starts at microseconds since 1970, or at an instant.

    >>> clock = FakeClock()
    >>> clock.advance(1.5)
    >>> clock.now() - START, clock.monotonic()
    (1500000, 1.5)
    >>> clock = FakeClock("2026-03-29T00:30:00Z")
    >>> clock.advance("1h")
    >>> clock.datetime.isoformat()
    '2026-03-29T01:30:00+00:00'
    """

    def __init__(self, start: Micros | datetime | str = START) -> None:
        self._now = start if isinstance(start, int) else to_micros(instant("start", start, tz="UTC"))
        self._monotonic = 0.0

    def __repr__(self) -> str:
        return f"<FakeClock {self.datetime.isoformat()}>"

    def now(self) -> Micros:
        """The current time in microseconds since 1970."""
        return self._now

    def monotonic(self) -> float:
        """The seconds that have passed since the clock was created."""
        return self._monotonic

    @property
    def datetime(self) -> datetime:
        """The present instant, in UTC."""
        return to_datetime(self._now)

    def advance(self, seconds: Any) -> None:
        """Let time pass: seconds, a timedelta, or text such as "2h"."""
        if isinstance(seconds, int | float) and seconds < 0:
            raise ValueError(f"seconds: {seconds} is not valid; use jump to set the clock back")
        passed = duration("seconds", seconds, allow_zero=True)
        self._now += seconds_to_micros(passed)
        self._monotonic += passed

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward or back, without letting time pass."""
        self._now += seconds_to_micros(seconds)
