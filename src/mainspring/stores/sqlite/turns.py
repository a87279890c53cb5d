"""How the event loop and the writer's thread take turns with the lock of the interpreter.

A thread that comes back from SQLite needs that lock. An event loop that is busy gives it away only for moments, too
short for another thread to wake up, so the writer would stand still until the loop has nothing left to do. Here the
loop makes way on purpose: when it has handed over an exchange, and when the step of SQLite under way should be over.
It waits until the writer is inside SQLite again, or has nothing to do. That takes well below a millisecond, most of
which the writer would keep the interpreter busy anyway.
"""

from __future__ import annotations

import asyncio
import threading
import time

GLANCE = 0.0003  # seconds in which the writer should come, if it is about to
BRIEFLY = 0.005  # seconds in which it should be ready to go, once it has come
_SOONER = 0.97  # the step may have been over before the loop made way: next time a little earlier


class Turns:
    def __init__(self) -> None:
        self._gate: threading.Lock | None = None  # the loop waits at it
        self._awake = False  # the writer is at work outside SQLite
        self._inside = False  # the writer is in its long step, or waits to be let out of it
        self._began, self._rows = 0.0, 1
        self._again = 0.0  # when the loop is going to make way once more
        self._per_row = 1.0  # seconds that a step takes for each of its rows

    # --- the writer ---------------------------------------------------------------------------------------------

    def came(self) -> None:
        self._awake = True

    def steps_in(self, rows: int) -> None:
        """The next thing is the long step of SQLite."""
        self._inside, self._rows, self._began = True, rows, time.monotonic()
        self._open()

    def stepped_out(self) -> None:
        took = (time.monotonic() - self._began) / self._rows
        expected = self._gate is not None
        self._per_row = took * _SOONER if expected else min(took, self._per_row)
        self._inside, self._awake = False, True

    def goes(self) -> None:
        """There is nothing to do."""
        self._open()

    def _open(self) -> None:
        self._awake = False
        gate, self._gate = self._gate, None
        if gate is not None:
            gate.release()

    # --- the event loop -----------------------------------------------------------------------------------------

    def make_way(self) -> None:
        """Now, and again when the step which the writer then is in should be over."""
        self._wait()
        if self._inside and self._again <= time.monotonic():
            self._later(0.0)

    def _later(self, pause: float) -> None:
        now = time.monotonic()
        delay = max(self._began + self._per_row * self._rows - now, pause)
        self._again = now + delay
        asyncio.get_running_loop().call_later(delay, self._let_out, max(pause, GLANCE) * 2)

    def _let_out(self, pause: float) -> None:
        if self._inside:
            self._wait()
        if self._inside:
            self._later(pause)

    def _wait(self) -> None:
        gate = self._gate = threading.Lock()
        gate.acquire()
        if not gate.acquire(timeout=GLANCE) and self._awake:
            gate.acquire(timeout=BRIEFLY)
        self._gate = None
