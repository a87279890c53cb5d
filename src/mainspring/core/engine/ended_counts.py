"""How many executions a worker has ended in the last five minutes, by queue. The rates of queues are computed from
these counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ...model.execution import ExecutionRow
from ...model.time.instants import SECOND, Micros
from ..ports import Clock

WINDOW: Micros = 300 * SECOND
_SLICE: Micros = 15 * SECOND


class _Recent:
    """Counts by queue in slices of time. Slices older than the window are dropped."""

    def __init__(self) -> None:
        self._slices: dict[int, Counter[str]] = {}

    def add(self, place: int, queue: str, count: int, now: Micros) -> None:
        counts = self._slices.get(place)
        if counts is None:
            oldest = (now - WINDOW) // _SLICE
            self._slices = {each: known for each, known in self._slices.items() if each > oldest}
            counts = self._slices[place] = Counter()
        counts[queue] += count

    def total(self, now: Micros) -> Counter[str]:
        oldest, total = (now - WINDOW) // _SLICE, Counter[str]()
        for place, counts in dict(self._slices).items():
            if place > oldest:
                total.update(dict(counts))
        return total


class EndedCounts:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ended, self._created = _Recent(), _Recent()

    def add(self, executions: Sequence[ExecutionRow]) -> None:
        """Those of one exchange, which are counted together: this runs for every execution."""
        now = self._clock.now()
        for queue, count in Counter([row.queue for row in executions]).items():
            self._ended.add(now // _SLICE, queue, count, now)
        young = [(row.created // _SLICE, row.queue) for row in executions if row.created > now - WINDOW]
        for (place, queue), count in Counter(young).items():
            self._created.add(place, queue, count, now)

    def by_queue(self) -> dict[str, tuple[int, int]]:
        """By queue: how many executions ended in the last five minutes, and how many of those were also created in
        them. Called in the thread of the heartbeat."""
        now = self._clock.now()
        created = self._created.total(now)
        return {queue: (count, created[queue]) for queue, count in self._ended.total(now).items()}
