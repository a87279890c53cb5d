"""What goes wrong, and how often: drawn from the seed before and after every call to the store."""

from __future__ import annotations

from enum import Enum
from random import Random


class Fault(Enum):
    CRASH = "crash"
    PAUSE = "pause"
    ERROR = "error"


class Faults:
    """Each seed has its own mixture; some seeds spare a kind altogether, so that its absence is tested too."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self.on = True
        self._crash = chance.choice([0.0, 0.0005, 0.002])
        self._pause = chance.choice([0.0, 0.0005, 0.001])
        self._error = chance.choice([0.0, 0.005, 0.02])
        self._slow = chance.choice([0.05, 0.15, 0.3])
        self._deaf = chance.choice([0.0, 0.1, 1.0])

    def draw(self) -> Fault | None:
        if not self.on:
            return None
        roll = self._chance.random() - self._crash
        if roll < 0:
            return Fault.CRASH
        if roll < self._pause:
            return Fault.PAUSE
        return Fault.ERROR if roll < self._pause + self._error else None

    def delay(self, longest: float) -> float:
        """Seconds a message is under way. 0: so fast that nothing comes between."""
        roll = self._chance.random()
        if roll < 0.5:
            return 0.0
        slow = self.on and roll > 1 - self._slow
        return self._chance.random() * (longest if slow else 0.02)

    def wake_up_delay(self) -> float | None:
        """Seconds until a wake-up arrives; None when it never does."""
        if self.on and self._chance.random() < self._deaf:
            return None
        return self._chance.random() * 0.05

    def worst_moment(self) -> bool:
        """Whether what would be most awkward just now happens."""
        return self.on and self._chance.random() < 0.1

    def pause_length(self, lease: float) -> float:
        return lease * self._chance.choice([0.3, self._chance.uniform(0.9, 1.4), 2.0])
