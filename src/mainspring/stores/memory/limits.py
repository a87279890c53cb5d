"""What limits need: slots in use by key, token buckets, and the rows parked under a key in the order of claiming."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from ...model.execution import Execution
from ...model.instants import Micros
from ...model.limits import Limit, decode_limits
from ..flow import (
    Bucket,
    Wait,
    after_taking,
    is_full,
    keys_of,
    level_of,
    limit_of,
    limits_before,
    look_at_slots,
    look_at_tokens,
    tokens_in,
    wait_of,
)
from .sorted_queue import SortedQueue

Place: TypeAlias = tuple[int, int, str]
"""Of a row among those that wait for the same: priority, tag and id, so that plain sorting gives the order."""


class Limits:
    def __init__(self, limits_of: Callable[[str], str]) -> None:
        """`limits_of` tells the limits of a parked row by its id."""
        self._limits_of = limits_of
        self._slots: Counter[str] = Counter()
        self._buckets: dict[str, Bucket] = {}
        self._parked: dict[Wait, SortedQueue[Place]] = {}
        self._looks: dict[Wait, Micros] = {}
        self._waits: dict[str, tuple[Wait, Place]] = {}
        self._freed: Counter[str] = Counter()

    # --- slots and tokens ---------------------------------------------------------------------------------------

    def hold(self, limits: str) -> None:
        self._slots.update(keys_of(limits))

    def release(self, limits: str) -> None:
        for key in keys_of(limits):
            self._slots[key] -= 1
            if not self._slots[key]:
                del self._slots[key]

    def leave(self, row: Execution) -> None:
        """A running row has left its slots: as many parked rows may be woken."""
        if row.limits is not None:
            self._freed.update(keys_of(row.limits))

    def full(self, limits: str, now: Micros) -> Limit | None:
        """The first limit that has no room."""
        return next((limit for limit in decode_limits(limits) if self._room(limit, now) < 1), None)

    def take_tokens(self, limits: str, now: Micros) -> None:
        for limit in decode_limits(limits):
            if limit.concurrency is None:
                self._buckets[limit.key] = after_taking(self._buckets.get(limit.key), limit, now)

    def forget_full_buckets(self, now: Micros) -> None:
        self._buckets = {key: bucket for key, bucket in self._buckets.items() if not is_full(bucket, now)}

    def _room(self, limit: Limit, now: Micros) -> int:
        if limit.concurrency is not None:
            return limit.concurrency - self._slots[limit.key]
        return tokens_in(level_of(self._buckets.get(limit.key), limit, now))

    # --- parking ------------------------------------------------------------------------------------------------

    def park(self, place: Place, limits: str, full: Limit, now: Micros) -> Iterator[str]:
        """Ids of the rows that get the room this one had under the limits before."""
        self._wait(place, wait_of(full), full, now)
        for limit in limits_before(limits, full):
            yield from self._wake(wait_of(limit), 1)

    def leave_parking(self, id: str) -> bool:
        """False when it is not parked."""
        found = self._waits.pop(id, None)
        if found is None:
            return False
        wait, place = found
        self._parked[wait].remove(place)
        self._forget_if_empty(wait)
        return True

    def woken(self, now: Micros) -> Iterator[str]:
        """Ids of the rows that get the slots freed since, and of those that a look finds room for."""
        freed, self._freed = self._freed, Counter()
        for key, count in sorted(freed.items()):
            yield from self._wake(Wait(key, "slot"), count)
        for wait in sorted(wait for wait, look in self._looks.items() if look <= now):
            yield from self._look(wait, now)

    def next_look(self) -> Micros | None:
        return min(self._looks.values(), default=None)

    def _wait(self, place: Place, wait: Wait, limit: Limit, now: Micros) -> None:
        self._parked.setdefault(wait, SortedQueue()).add(place)
        self._waits[place[2]] = wait, place
        look = self._next_look(limit, now, woken=0)
        self._looks[wait] = min(look, self._looks.get(wait, look))

    def _look(self, wait: Wait, now: Micros) -> Iterable[str]:
        """As many as there is room for, by the numbers of the first one."""
        [(_, _, first)] = self._parked[wait].first(1)
        limit = limit_of(self._limits_of(first), wait)
        assert limit is not None
        room = max(0, self._room(limit, now))
        self._looks[wait] = self._next_look(limit, now, room)
        return self._wake(wait, room)

    def _next_look(self, limit: Limit, now: Micros, woken: int) -> Micros:
        if limit.concurrency is not None:
            return look_at_slots(now)
        level = level_of(self._buckets.get(limit.key), limit, now)
        return look_at_tokens(level - woken, limit, now)

    def _wake(self, wait: Wait, count: int) -> list[str]:
        queue = self._parked.get(wait)
        ids = [] if queue is None else [id for _, _, id in queue.first(count)]
        for id in ids:
            self.leave_parking(id)
        return ids

    def _forget_if_empty(self, wait: Wait) -> None:
        if not self._parked[wait]:
            del self._parked[wait], self._looks[wait]
