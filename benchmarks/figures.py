"""The arithmetic of the report: medians, spreads, ratios."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that so many percent of all do not exceed.

    >>> percentile([4.0, 1.0, 3.0, 2.0], 50)
    2.0
    """
    if not values:
        raise ValueError("no values")
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]


def median(values: Sequence[float]) -> float:
    return float(statistics.median(values))


def spread(values: Sequence[float]) -> tuple[float, float]:
    return min(values), max(values)


def ratio(ours: float | None, theirs: float | None) -> float | None:
    """How many times theirs ours is; None when one of the two was not measured."""
    return None if ours is None or not theirs else ours / theirs


def number(value: float) -> str:
    """Three digits that mean something, and no more.

    >>> number(18368.58), number(1.934), number(0.0513), number(45.37)
    ('18,400', '1.93', '0.0513', '45.4')
    """
    if value == 0 or not math.isfinite(value):
        return str(value)
    digits = 2 - math.floor(math.log10(abs(value)))
    rounded = round(value, digits)
    return f"{rounded:,.{max(0, digits)}f}"
