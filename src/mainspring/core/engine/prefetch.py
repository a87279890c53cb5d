"""What a worker holds beyond its slots, and what it holds its slots free for: data structures of the worker."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable

from ...model.execution import ExecutionRow

HORIZON = 0.02
"""Seconds until the last prefetched execution should have begun."""
PER_SLOT = 40
MOST = 400
MOST_CHARACTERS = 4 * 1024 * 1024
"""Of the parameters of prefetched executions, together."""
STALE = 0.25
"""Seconds after which a prefetched execution that has not begun is handed back: the estimate was wrong."""
_FORGET = 0.9

FIRST_DRAIN = 10.0
LONGEST_DRAIN = 600.0
REST = 5  # drains' worth of time that a worker works between two of them


class Prefetched:
    """Claimed executions that wait for a free slot. They begin in the order in which they came, but shares take turns:
    a tenant whose backlog was prefetched does not make the others wait."""

    def __init__(self) -> None:
        self._rows: OrderedDict[str, tuple[ExecutionRow, float, float]] = OrderedDict()
        self._turns: OrderedDict[str | None, deque[str]] = OrderedDict()
        """Ids by share, the share whose turn is next first; empty as long as no row has a share."""

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, id: str) -> bool:
        return id in self._rows

    @property
    def since(self) -> float:
        """When the row that waits longest came."""
        return next(iter(self._rows.values()))[1]

    def add(self, execution: ExecutionRow, now: float, leased: float) -> None:
        """`leased` is the monotonic time from which its lease runs."""
        if execution.share is not None and not self._turns and self._rows:
            self._turns[None] = deque(self._rows)
        self._rows[execution.id] = (execution, now, leased)
        if execution.share is not None or self._turns:
            self._turns.setdefault(execution.share, deque()).append(execution.id)

    def next(self) -> tuple[ExecutionRow, float]:
        """Take the row whose turn it is, with the time from which its lease runs."""
        while self._turns:
            share, ids = self._turns.popitem(last=False)
            found = None
            while ids and found is None:
                found = self._rows.pop(ids.popleft(), None)  # it may have been taken out meanwhile
            if ids:
                self._turns[share] = ids
            if found is not None:
                return found[0], found[2]
        row, _, leased = self._rows.popitem(last=False)[1]
        return row, leased

    def pop(self, id: str) -> ExecutionRow | None:
        found = self._rows.pop(id, None)
        return None if found is None else found[0]

    def rows(self) -> list[ExecutionRow]:
        return [execution for execution, _, _ in self._rows.values()]

    def pop_all(self) -> list[ExecutionRow]:
        """All of them, in the order in which they came."""
        executions = [execution for execution, _, _ in self._rows.values()]
        self._rows.clear()
        self._turns.clear()
        return executions


class DurationEstimate:
    """How long a handler takes here, and so how many executions to prefetch. The estimate follows a slow handler at
    once, and forgets it slowly. Of executions with large parameters few are prefetched.

    >>> estimate = DurationEstimate()
    >>> estimate.prefetch(slots=10)
    0
    >>> estimate.add(0.0001)
    >>> estimate.prefetch(slots=10)
    400
    >>> estimate.claimed([262_144])
    >>> estimate.prefetch(slots=10)
    16
    >>> estimate.add(5.0)
    >>> estimate.prefetch(slots=10)
    0
    """

    def __init__(self) -> None:
        self._typical = HORIZON * MOST
        self._known = False
        self._size = 1.0

    def claimed(self, sizes: Iterable[int]) -> None:
        """The lengths of the parameters of some executions."""
        self._size = max(self._size * _FORGET, *sizes, 1.0)

    def add(self, seconds: float) -> None:
        """A handler took this long."""
        if seconds >= self._typical or not self._known:
            self._typical = seconds
            self._known = True
        else:
            self._typical = seconds + (self._typical - seconds) * _FORGET

    def prefetch(self, slots: int) -> int:
        """How many executions to hold beyond the slots."""
        most = min(slots * PER_SLOT, MOST, int(MOST_CHARACTERS / self._size))
        soon = HORIZON * slots
        return most if self._typical * most <= soon else int(soon / self._typical)


class ExclusiveTurns:
    """When a worker makes room for an exclusive execution: one that was running whenever its worker died, and now runs
    with nothing beside it.

    A busy worker claims nothing until it is idle, for a while; then it goes on, and tries again later and longer, so
    that one sick execution neither idles a worker for long nor waits for ever. After an exclusive execution a worker
    takes other work first.
    """

    def __init__(self) -> None:
        self.waiting = False
        self._had_its_turn = False
        self._drain = FIRST_DRAIN
        self._since = 0.0

    def learn(self, waiting: bool, took_one: bool, now: float) -> None:
        """What the last claim said: whether an exclusive execution waits, and whether this worker got one."""
        if not waiting or took_one:
            self._drain = FIRST_DRAIN
        if waiting and not self.waiting:
            self._since = now
        elif waiting and now - self._since > self._drain * (1 + REST):
            self._since, self._drain = now, min(self._drain * 2, LONGEST_DRAIN)
        self.waiting = waiting
        self._had_its_turn = took_one

    def wants(self, running: int) -> bool:
        """Whether to claim one now: nothing else runs here, and the last claim was not exclusive already."""
        return self.waiting and running == 0 and not self._had_its_turn

    def holds_back(self, running: int, now: float) -> bool:
        """Whether to claim nothing now, so that what runs can end."""
        return self.waiting and running > 0 and now - self._since < self._drain
