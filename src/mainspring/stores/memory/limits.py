"""Limits: slots in use by key, token buckets, and when to check the wait lines of a key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ...model.execution import ExecutionRow
from ...model.limits import Limit, decode_limits
from ...model.time.instants import Micros
from ..common.limits import (
    Bucket,
    Wait,
    WaitKind,
    after_taking,
    anchored,
    is_full,
    is_look_due,
    keys_of,
    level_of,
    limits_before,
    next_slot_check,
    next_token_check,
    tokens_in,
    wait_of,
)
from .wait_lines import WaitLines

_KINDS: tuple[WaitKind, ...] = ("slot", "token")


class Limits:
    def __init__(self) -> None:
        self._slots: Counter[str] = Counter()
        self._buckets: dict[str, Bucket] = {}
        self._lines = WaitLines()
        self._looks: dict[Wait, Micros] = {}
        self._freed: Counter[str] = Counter()
        self._disturbed: set[str] = set()

    # --- slots and tokens ---------------------------------------------------------------------------------------

    def hold(self, limits: str) -> None:
        self._slots.update(keys_of(limits))

    def release(self, limits: str) -> None:
        for key in keys_of(limits):
            self._slots[key] -= 1
            if not self._slots[key]:
                del self._slots[key]

    def changed(self, row: ExecutionRow, *, ran: bool) -> None:
        """Called before a change is applied. A running row frees its slots, for as many parked rows. A parked row
        leaves its line, a woken row the room it was woken for, so its key is checked."""
        if ran and row.limits is not None:
            self._freed.update(keys_of(row.limits))
        elif (wait := self._lines.waited(row.id)) is not None:
            self._disturbed.add(wait.key)

    def full(self, limits: str, now: Micros) -> Limit | None:
        """The first limit that has no room."""
        return next((limit for limit in decode_limits(limits) if self._room(limit, now) < 1), None)

    def take(self, row: ExecutionRow, now: Micros) -> None:
        """Slots and tokens of a row that is claimed."""
        assert row.limits is not None
        self._lines.forget(row.id)
        for limit in decode_limits(row.limits):
            if limit.concurrency is None:
                self._buckets[limit.key] = after_taking(self._buckets.get(limit.key), limit, now)
        self.hold(row.limits)

    def forget_full_buckets(self, now: Micros) -> None:
        self._buckets = {key: bucket for key, bucket in self._buckets.items() if not is_full(bucket, now)}

    def _room(self, limit: Limit, now: Micros) -> int:
        if limit.concurrency is not None:
            return limit.concurrency - self._slots[limit.key]
        return tokens_in(level_of(self._buckets.get(limit.key), limit, now))

    # --- parking ------------------------------------------------------------------------------------------------

    def park(self, row: ExecutionRow, full: Limit, now: Micros) -> Iterator[str]:
        """Park the row. Returns the ids of the rows that get the room it had under the limits before."""
        assert row.limits is not None
        self._lines.enter(row, full)
        look = self._next_look(full, now, woken=0)
        self._looks[wait_of(full)] = min(look, self._looks.get(wait_of(full), look))
        for limit in limits_before(row.limits, full):
            yield from self._wake(wait_of(limit), now, 1)

    def pass_on(self, limits: str, now: Micros) -> Iterator[str]:
        """The ids of the rows that get the room which a row has under all its limits, but cannot use."""
        for limit in decode_limits(limits):
            yield from self._wake(wait_of(limit), now, 1)

    def leave_parking(self, id: str) -> bool:
        """Remove the row for good. False if it was not parked."""
        wait = self._lines.leave(id)
        self._lines.forget(id)
        if wait is not None and not self._lines.of(wait):
            del self._looks[wait]
        return wait is not None

    def woken(self, now: Micros) -> Iterator[str]:
        """The ids of the rows that get slots freed since the last call, and of those that a check finds room for."""
        freed, self._freed = self._freed, Counter()
        for key, count in sorted(freed.items()):
            yield from self._wake(Wait(key, "slot"), now, count)
        for wait in [Wait(key, kind) for key in self._disturbed for kind in _KINDS]:
            if wait in self._looks:
                self._looks[wait] = now
        self._disturbed.clear()
        for wait in sorted(wait for wait, look in self._looks.items() if is_look_due(look, now)):
            yield from self._recheck(wait, now)

    def next_look(self) -> Micros | None:
        return min(self._looks.values(), default=None)

    def _recheck(self, wait: Wait, now: Micros) -> list[str]:
        """As many of each line as there is room for, by its numbers."""
        if wait.kind == "token" and wait.key in self._buckets:
            self._buckets[wait.key] = anchored(self._buckets[wait.key], now)
        woken = self._wake(wait, now)
        lines = self._lines.of(wait)
        if lines:
            rooms = [(limit, max(0, self._room(limit, now))) for limit in lines.values()]
            self._looks[wait] = min(self._next_look(limit, now, room) for limit, room in rooms)
        return woken

    def _next_look(self, limit: Limit, now: Micros, woken: int) -> Micros:
        if limit.concurrency is not None:
            return next_slot_check(now)
        level = level_of(self._buckets.get(limit.key), limit, now)
        return next_token_check(level - woken, limit, now)

    def _wake(self, wait: Wait, now: Micros, count: int | None = None) -> list[str]:
        """Wake the first `count` rows of each line, as far as there is room; by default as many as fit."""
        woken: list[str] = []
        for line, limit in self._lines.of(wait).items():
            room = max(0, self._room(limit, now))
            woken += self._lines.first(line, room if count is None else min(count, room))
        for id in woken:
            self._lines.leave(id)
        if woken and not self._lines.of(wait):
            del self._looks[wait]
        return woken
