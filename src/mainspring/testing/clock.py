"""Time under control of a test."""

from __future__ import annotations

from ..model.instants import Micros, seconds_to_micros

START: Micros = 1_767_225_600_000_000  # 2026-01-01T00:00:00Z


class FakeClock:
    """A clock that moves only when told to.

    >>> clock = FakeClock()
    >>> clock.advance(1.5)
    >>> clock.now() - START, clock.monotonic()
    (1500000, 1.5)
    """

    def __init__(self, start: Micros = START) -> None:
        self._now = start
        self._monotonic = 0.0

    def now(self) -> Micros:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Time passes."""
        if seconds < 0:
            raise ValueError(f"seconds: {seconds} is not valid; use jump to set the clock back")
        self._now += seconds_to_micros(seconds)
        self._monotonic += seconds

    def jump(self, seconds: float) -> None:
        """The wall clock is set forward or back; no time passes."""
        self._now += seconds_to_micros(seconds)
