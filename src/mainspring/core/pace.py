"""How many executions a worker may fetch before it has room for them.

A claim costs about the same for one execution as for a hundred. While handlers end within milliseconds it pays to have
the next ones at hand; while they take long, whatever is fetched early waits here although another worker may be free.
So as much is fetched ahead as the slots will have begun a moment later, judged by what handlers took so far.
"""

from __future__ import annotations

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
