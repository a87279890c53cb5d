"""Room for requests that stay open: streams, and requests that wait for the end of an execution.

Each of them holds a connection for minutes, so there is a limit in all, and a lower one for each principal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.exceptions import HTTPException

from .access import Refused


class Room:
    """`noun` names what is counted, as in "100 streams". Principals are counted by name; where nobody logs in,
    addresses are."""

    def __init__(self, noun: str, most: int, most_of_one: int) -> None:
        self._noun, self.most, self.most_of_one = noun, most, most_of_one
        self.open = 0
        self._held: Counter[str] = Counter()

    def has_room(self, who: str) -> bool:
        return self.open < self.most and self._held[who] < self.most_of_one

    def check(self, who: str) -> None:
        """Refuse one more if there is no room for it."""
        if self._held[who] >= self.most_of_one:
            limit = f"{self.most_of_one} {self._noun} open, which is the most for one"
            message = f"{who} has {limit}; close some, or ask without one"
            raise Refused(429, f"too_many_{self._noun}", message, {"Retry-After": "30"})
        if self.open >= self.most:
            raise HTTPException(503, f"too many {self._noun} are open; try again later", {"Retry-After": "5"})

    @contextmanager
    def holding(self, who: str) -> Iterator[None]:
        """Count one more of this principal or address while it is open."""
        self.open += 1
        self._held[who] += 1
        try:
            yield
        finally:
            self.open -= 1
            self._held[who] -= 1
            if not self._held[who]:
                del self._held[who]
