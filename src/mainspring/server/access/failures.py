"""Failed logins are counted by address; after too many of them nobody logs in from there for a while.

Only wrong credentials count, not missing ones. The memory is bounded: of more addresses than `MOST_ADDRESSES` those
that failed longest ago are forgotten. A success forgives nothing, so one right token does not buy more guesses.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Callable

from .refusals import Refused

WINDOW = 60.0
MOST_ADDRESSES = 10_000


class FailedLogins:
    def __init__(self, limit: int, monotonic: Callable[[], float]) -> None:
        self._limit, self._monotonic = limit, monotonic
        self._times: OrderedDict[str, deque[float]] = OrderedDict()

    def check(self, key: str) -> None:
        """Refuse when this address has used up its failures for now."""
        times = self._times.get(key)
        if times is None or len(times) < self._limit:
            return
        wait = times[0] + WINDOW - self._monotonic()
        if wait > 0:
            seconds = math.ceil(wait)
            message = f"too many failed logins from this address; try again in {seconds} s"
            raise Refused(429, "too_many_failed_logins", message, {"Retry-After": str(seconds)})

    def add(self, key: str) -> None:
        times = self._times.setdefault(key, deque(maxlen=self._limit))
        times.append(self._monotonic())
        self._times.move_to_end(key)
        while len(self._times) > MOST_ADDRESSES:
            self._times.popitem(last=False)
