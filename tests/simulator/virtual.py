"""An asyncio event loop on virtual time: nothing sleeps, and the same program runs the same way every time.

When no task can go on, time leaps to the next timer. Hours pass in milliseconds, in an order that depends on
nothing but the program and its own random numbers. Threads have no place here: a loop that would wait for one says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

PATIENCE = 200_000
"""Turns of the loop without any time passing, after which something must be spinning."""


class Deadlock(RuntimeError):
    """Every task waits for something that cannot happen any more."""


class Livelock(RuntimeError):
    """Tasks go round and round while no time passes."""


class VirtualLoop(asyncio.BaseEventLoop):
    """`time()` is virtual and begins at 0."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._turns = 0
        self._selector = self  # what the base class asks for events: there are none, only time
        self._clock_resolution = 1e-6

    def time(self) -> float:
        return self._now

    def select(self, timeout: float | None) -> list[Any]:
        """Called when the ready tasks have been run: `timeout` seconds to the next timer, 0 if a task is ready."""
        if timeout is None:
            raise Deadlock(f"nothing is ready and no timer is set; waiting: {_waiting(self)}")
        if timeout > 0:
            self._now += timeout
            self._turns = 0
            return []
        self._turns += 1
        if self._turns > PATIENCE:
            self._turns = 0
            raise Livelock(f"{PATIENCE} turns without any time passing; alive: {_waiting(self)}")
        return []

    def _process_events(self, event_list: list[Any]) -> None:
        """There are no files and no sockets."""

    def _write_to_self(self) -> None:
        """There is nobody to wake: this loop never sleeps."""


def run(main: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`, on virtual time.

    >>> async def a_day() -> float:
    ...     await asyncio.sleep(86_400)
    ...     return asyncio.get_running_loop().time()
    >>> run(a_day())
    86400.0
    """
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


def _waiting(loop: asyncio.AbstractEventLoop) -> str:
    names = sorted(task.get_name() for task in asyncio.all_tasks(loop))
    return ", ".join(names[:20]) or "nothing"
