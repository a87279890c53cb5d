"""How long a job usually takes, from its newest runs: what pages shade, and forecasts draw."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median, quantiles

import msgspec

ENOUGH = 5
"""Runs below which the middle says something, but not how far it spreads."""


class UsualDuration(msgspec.Struct, frozen=True):
    """In milliseconds. Four of five runs take from `low` to `high`; half of them no longer than `middle`."""

    low: float
    middle: float
    high: float


def usual_duration(durations: Iterable[float | None]) -> UsualDuration | None:
    """Of the completed runs; None before the first one.

    >>> usual_duration([100.0, 110.0, 90.0, 105.0, 95.0, None])
    UsualDuration(low=92.0, middle=100.0, high=108.0)
    """
    known = [each for each in durations if each is not None]
    if not known:
        return None
    if len(known) < ENOUGH:
        return UsualDuration(min(known), median(known), max(known))
    tenths = quantiles(known, n=10, method="inclusive")
    return UsualDuration(tenths[0], median(known), tenths[-1])
