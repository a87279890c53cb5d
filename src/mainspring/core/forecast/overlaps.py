"""What the overlap policy makes of ticks that come while an earlier run still goes on, if every run takes as long.

The policies are those of `core.rules.new_execution.overlap_keys`: what is held from insert to end, and what may wait.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from operator import sub

import msgspec

from ...model.job import JobSpec
from ...model.time.instants import Micros

SKIPPED, WAITS, CANCELS, BESIDE = "skipped", "waits", "cancels", "beside"


class Overlaps(msgspec.Struct):
    """The ticks at which an earlier run still goes on, and what becomes of each of them."""

    outcomes: dict[Micros, str] = {}
    most_at_once: int = 0

    def count(self, outcome: str) -> int:
        return sum(1 for each in self.outcomes.values() if each == outcome)


def overlaps(spec: JobSpec, ticks: Sequence[Micros], duration: Micros, delayed: bool) -> Overlaps:
    """`delayed`: each tick is counted from the end of the run before it, so that none can meet it."""
    if not ticks:
        return Overlaps()
    if not duration or delayed or len(ticks) < 2 or duration <= min(map(sub, ticks[1:], ticks)):
        return Overlaps(most_at_once=1)
    match spec.overlap:
        case "skip":
            return _limited(ticks, duration, 1)
        case "queue":
            return _queued(ticks, duration)
        case "cancel_running":
            return _cancelling(ticks, duration)
        case _:
            return _limited(ticks, duration, spec.overlap_limit)


def _limited(ticks: Sequence[Micros], duration: Micros, limit: int | None) -> Overlaps:
    """As many at once as the limit says; the rest is skipped."""
    found, ends = Overlaps(most_at_once=1), list[Micros]()
    for tick in ticks:
        while ends and ends[0] <= tick:
            heapq.heappop(ends)
        if limit is not None and len(ends) >= limit:
            found.outcomes[tick] = SKIPPED
            continue
        if ends:
            found.outcomes[tick] = BESIDE
        heapq.heappush(ends, tick + duration)
        found.most_at_once = max(found.most_at_once, len(ends))
    return found


def _queued(ticks: Sequence[Micros], duration: Micros) -> Overlaps:
    """One runs, one may wait; whatever comes meanwhile is skipped."""
    found, running_until, waits = Overlaps(most_at_once=1), ticks[0], False
    for tick in ticks:
        if waits and running_until <= tick:
            running_until, waits = running_until + duration, False
        if running_until <= tick:
            running_until = tick + duration
        elif waits:
            found.outcomes[tick] = SKIPPED
        else:
            found.outcomes[tick], waits = WAITS, True
    return found


def _cancelling(ticks: Sequence[Micros], duration: Micros) -> Overlaps:
    found, running_until = Overlaps(most_at_once=1), ticks[0]
    for tick in ticks:
        if running_until > tick:
            found.outcomes[tick] = CANCELS
        running_until = tick + duration
    return found
