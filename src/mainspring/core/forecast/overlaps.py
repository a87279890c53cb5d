"""What happens to ticks that come while an earlier run is still running, if every run takes equally long.

The overlap policy is the engine's own: `core.rules.new_execution.overlap_keys` gives the keys of an execution. Here
those keys are held and freed as a store does it, with a worker always at hand.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from operator import sub

import msgspec

from ...model.job import Job
from ...model.time.instants import Micros
from ..rules.new_execution import overlap_keys

SKIPPED, WAITS, CANCELS, BESIDE = "skipped", "waits", "cancels", "beside"


class Overlaps(msgspec.Struct):
    """The ticks at which an earlier run is still running, and the outcome of each."""

    outcomes: dict[Micros, str] = {}
    most_at_once: int = 0

    def count(self, outcome: str) -> int:
        return sum(1 for each in self.outcomes.values() if each == outcome)


def overlaps(job: Job, ticks: Sequence[Micros], duration: Micros) -> Overlaps:
    if not ticks:
        return Overlaps()
    delayed = job.trigger is not None and job.trigger.fixed_delay  # each tick is counted from the end of a run
    if not duration or delayed or len(ticks) < 2 or duration <= min(map(sub, ticks[1:], ticks)):
        return Overlaps(most_at_once=1)
    keys = overlap_keys(job, "schedule")
    if "running_overlap_key" in keys:
        return _in_stages(ticks, duration, cancels=job.spec.overlap == "cancel_running")
    return _at_once(ticks, duration, keys.get("overlap_slots", 1) if "overlap_key" in keys else None)


def _at_once(ticks: Sequence[Micros], duration: Micros, slots: int | None) -> Overlaps:
    """A run holds one of the slots of its key from its tick to its end; without a free one it is skipped."""
    found, ends = Overlaps(most_at_once=1), list[Micros]()
    for tick in ticks:
        while ends and ends[0] <= tick:
            heapq.heappop(ends)
        if slots is not None and len(ends) >= slots:
            found.outcomes[tick] = SKIPPED
            continue
        if ends:
            found.outcomes[tick] = BESIDE
        heapq.heappush(ends, tick + duration)
        found.most_at_once = max(found.most_at_once, len(ends))
    return found


def _in_stages(ticks: Sequence[Micros], duration: Micros, cancels: bool) -> Overlaps:
    """One run holds the running key and one the key of the next; further ones are skipped. With `cancels` the next
    run ends the current one and begins at once."""
    found, running_until, waits = Overlaps(most_at_once=1), ticks[0], False
    for tick in ticks:
        if waits and running_until <= tick:
            running_until, waits = running_until + duration, False
        if running_until <= tick:
            running_until = tick + duration
        elif cancels:
            found.outcomes[tick], running_until = CANCELS, tick + duration
        elif waits:
            found.outcomes[tick] = SKIPPED
        else:
            found.outcomes[tick], waits = WAITS, True
    return found
