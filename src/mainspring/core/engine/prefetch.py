"""What a worker has fetched ahead of a free slot. It begins in the order in which it came, but shares take turns: a
tenant whose backlog was fetched does not make the others wait here.
"""

from __future__ import annotations

from collections import OrderedDict, deque

from ...model.execution import ExecutionRow


class Ahead:
    def __init__(self) -> None:
        self._rows: OrderedDict[str, tuple[ExecutionRow, float]] = OrderedDict()
        self._turns: OrderedDict[str | None, deque[str]] = OrderedDict()
        """Ids by share, the share whose turn is next first; empty as long as nothing here has a share."""

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, id: str) -> bool:
        return id in self._rows

    @property
    def since(self) -> float:
        """When the one that waits longest came."""
        return next(iter(self._rows.values()))[1]

    def add(self, execution: ExecutionRow, now: float) -> None:
        if execution.share is not None and not self._turns and self._rows:
            self._turns[None] = deque(self._rows)
        self._rows[execution.id] = (execution, now)
        if execution.share is not None or self._turns:
            self._turns.setdefault(execution.share, deque()).append(execution.id)

    def next(self) -> ExecutionRow:
        """Take the one whose turn it is."""
        while self._turns:
            share, ids = self._turns.popitem(last=False)
            found = None
            while ids and found is None:
                found = self._rows.pop(ids.popleft(), None)  # it may have been let go of meanwhile
            if ids:
                self._turns[share] = ids
            if found is not None:
                return found[0]
        return self._rows.popitem(last=False)[1][0]

    def pop(self, id: str) -> ExecutionRow | None:
        found = self._rows.pop(id, None)
        return None if found is None else found[0]

    def let_go(self) -> list[ExecutionRow]:
        """All of them, in the order in which they came."""
        executions = [execution for execution, _ in self._rows.values()]
        self._rows.clear()
        self._turns.clear()
        return executions


HORIZON = 0.02
"""Seconds until the last of those fetched ahead should have begun."""
PER_SLOT = 40
MOST = 400
STALE = 0.25
"""Seconds after which what was fetched ahead and has not begun is handed back: the guess was wrong."""
_FORGET = 0.9


class Pace:
    """A guess of how long a handler takes here: it follows a slow one at once, and forgets it slowly.

    >>> pace = Pace()
    >>> pace.ahead(slots=10)
    0
    >>> pace.ended(0.0001)
    >>> pace.ahead(slots=10)
    400
    >>> pace.ended(5.0)
    >>> pace.ahead(slots=10)
    0
    """

    def __init__(self) -> None:
        self._typical = HORIZON * MOST
        self._known = False

    def ended(self, seconds: float) -> None:
        """A handler took this long."""
        if seconds >= self._typical or not self._known:
            self._typical = seconds
            self._known = True
        else:
            self._typical = seconds + (self._typical - seconds) * _FORGET

    def ahead(self, slots: int) -> int:
        """How many to have at hand beyond the slots."""
        most = min(slots * PER_SLOT, MOST)
        soon = HORIZON * slots
        return most if self._typical * most <= soon else int(soon / self._typical)
