"""Making room for an execution that must run alone: one that was running whenever its worker died.

A busy worker holds its claims back until it is idle, for a while; then it goes on, and tries again later and longer,
so that one sick execution neither idles a worker for long nor waits for ever. Having run one alone, a worker takes
other work first.
"""

from __future__ import annotations

FIRST_DRAIN = 10.0
LONGEST_DRAIN = 600.0
REST = 5  # drains a worker works between two of them


class Solitude:
    def __init__(self) -> None:
        self.waiting = False
        self._had_its_turn = False
        self._drain = FIRST_DRAIN
        self._since = 0.0

    def learned(self, waiting: bool, took_one: bool, now: float) -> None:
        """What the last claim said: whether such an execution waits, and whether it was given to us."""
        if not waiting or took_one:
            self._drain = FIRST_DRAIN
        if waiting and not self.waiting:
            self._since = now
        elif waiting and now - self._since > self._drain * (1 + REST):
            self._since, self._drain = now, min(self._drain * 2, LONGEST_DRAIN)
        self.waiting = waiting
        self._had_its_turn = took_one

    def wants(self, running: int) -> bool:
        """Whether to claim one of them now: nothing else runs here, and the last claim was not one already."""
        return self.waiting and running == 0 and not self._had_its_turn

    def holds_back(self, running: int, now: float) -> bool:
        """Whether to claim nothing now, so that what runs can end."""
        return self.waiting and running > 0 and now - self._since < self._drain
