"""What happened, and the first thing that must not have."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from zlib import crc32

TAIL = 400
"""Lines of the trace that are kept for a report."""


class Violation(AssertionError):
    """An invariant that did not hold: its name, and what was seen."""

    def __init__(self, rule: str, seen: str) -> None:
        super().__init__(rule, seen)
        self.rule, self.seen = rule, seen

    def __str__(self) -> str:
        return f"{self.rule}: {self.seen}"


class Judge:
    """Keeps the trace and the counters of one run, and the first violation. Later ones are mostly its consequences."""

    def __init__(self, keep: int | None = TAIL) -> None:
        self.violation: Violation | None = None
        self.counters: Counter[str] = Counter()
        self.stopped = asyncio.Event()
        self.lines: deque[str] = deque(maxlen=keep)
        self.digest = 0
        self._loop = asyncio.get_running_loop()

    @property
    def elapsed(self) -> float:
        return self._loop.time()

    def note(self, who: str, what: str) -> None:
        """One line of the trace. The digest covers all of them, kept or not."""
        line = f"{self._loop.time():10.4f} {who:<9} {what}"
        self.lines.append(line)
        self.digest = crc32(line.encode(), self.digest)

    def count(self, what: str, times: int = 1) -> None:
        self.counters[what] += times

    def fail(self, rule: str, seen: str) -> None:
        self.note("CHECKER", f"{rule}: {seen}")
        if self.violation is None:
            self.violation = Violation(rule, seen)
        self.stopped.set()

    def check(self, holds: bool, rule: str, seen: str) -> None:
        if not holds:
            self.fail(rule, seen)


def short(id: str | None) -> str:
    """Enough of an id to follow it through a trace."""
    return "-" if id is None else id[-6:]
