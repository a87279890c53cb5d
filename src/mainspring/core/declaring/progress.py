"""The progress of a running execution: its rate, the time that is left, and the JSON that is stored."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import msgspec

from ...model.time.instants import Micros, to_datetime

MEMORY = 15.0
"""Seconds: what happened longer ago counts less than a third of what happens now."""
SHORTEST = 0.1
"""The shortest time, in seconds, over which a rate is computed."""
LONGEST = 10 * 365 * 86_400
"""Seconds: an estimate beyond it says nothing."""

Progress: TypeAlias = tuple[float, float | None, str, float]
"""Done, total, message, and when on the monotonic clock."""


class ProgressRate:
    """Done per second, over a recent window: sums of work and of time that both fade, so that a burst or a slow start
    is forgotten at the same pace. Counting that starts again from a smaller number starts the rate again."""

    __slots__ = ("_at", "_done", "_seconds", "_work")

    def __init__(self, done: float, at: float) -> None:
        self._restart(done, at)

    def _restart(self, done: float, at: float) -> None:
        self._done, self._at, self._work, self._seconds = done, at, 0.0, 0.0

    def add(self, done: float, at: float) -> float | None:
        """The rate after this report; None until there is enough to compute one."""
        passed = at - self._at
        if done < self._done:
            self._restart(done, at)
        elif passed >= SHORTEST:
            fading = math.exp(-passed / MEMORY)
            self._work = self._work * fading + (done - self._done)
            self._seconds = self._seconds * fading + passed
            self._done, self._at = done, at
        return self._work / self._seconds if self._seconds else None


def progress_json(done: float, total: float | None, message: str, rate: float | None, updated: Micros) -> str:
    """What is stored, and shown by every interface. Fields that are not known are left out.

    >>> progress_json(30, 40, "", 2.0, 0)
    '{"done":30,"total":40,"percent":75.0,"rate":2.0,"eta_seconds":5.0,"updated_at":"1970-01-01T00:00:00Z"}'
    """
    fields: dict[str, Any] = {"done": done}
    if total is not None:
        fields["total"] = total
    if message:
        fields["message"] = message
    if total is not None and total > 0:
        fields["percent"] = round(min(max(done / total, 0.0), 1.0) * 100, 1)
    if rate is not None and math.isfinite(rate):
        fields["rate"] = float(f"{rate:.4g}")
        left = None if total is None or rate <= 0 else max(total - done, 0) / rate
        if left is not None and left < LONGEST:
            fields["eta_seconds"] = round(left, 1)
    fields["updated_at"] = to_datetime(updated)
    return msgspec.json.encode(fields).decode()
