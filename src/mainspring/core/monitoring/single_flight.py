"""A single-flight cache for numbers that are slow to compute: concurrent callers share one computation.

An application may be used on its own event loop and through its blocking facade at once. A waiting task belongs to its
loop, so each loop has its own lock; the computation, which keeps state for the next time, runs on one loop at a time.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from ..ports import Clock

T = TypeVar("T")

FRESH_FOR = 1.0
SHARE = 10
"""Unless a cache says otherwise, a result is fresh for a second or ten times as long as it took: computing takes at
most a tenth of the time."""
POLL = 0.02


class SingleFlight(Generic[T]):
    def __init__(
        self, compute: Callable[[], Awaitable[T]], clock: Clock, fresh_for: float = FRESH_FOR, share: int = SHARE
    ) -> None:
        self._compute, self._clock, self._fresh_for, self._share = compute, clock, fresh_for, share
        self._cached: tuple[T, float] | None = None
        self._refreshing: asyncio.Task[T] | None = None
        self._gate = threading.Lock()  # held for a moment only, never across an await
        self._locks: dict[asyncio.AbstractEventLoop, asyncio.Lock] = {}
        self._busy_loop: asyncio.AbstractEventLoop | None = None

    def forget(self) -> None:
        self._cached = None

    async def get(self, stale_for: float = 0.0) -> T:
        """The cached result, or a new one if it is too old; the old one while another loop computes. With `stale_for`
        nobody waits for a new one before the old one has been out of date for so many seconds: the caller gets the old
        one, and a new one is computed meanwhile."""
        cached = self._cached
        if cached is not None and 0 <= self._clock.monotonic() - cached[1] < stale_for:
            self._refresh_later()
            return cached[0]
        loop = asyncio.get_running_loop()
        async with self._lock_of(loop):
            while True:
                cached, began = self._cached, self._clock.monotonic()
                if cached is not None and began < cached[1]:
                    return cached[0]
                if self._may_begin(loop):
                    return await self._refresh(began)
                if cached is not None:
                    return cached[0]
                await asyncio.sleep(POLL)

    def _refresh_later(self) -> None:
        running = self._refreshing
        if running is None or running.done() or running.get_loop().is_closed():
            self._refreshing = asyncio.create_task(self.get(), name="refresh")
            self._refreshing.add_done_callback(_ignore)

    async def _refresh(self, began: float) -> T:
        try:
            result = await self._compute()
        finally:
            self._busy_loop = None
        done = self._clock.monotonic()
        self._cached = (result, done + max(self._fresh_for, self._share * (done - began)))
        return result

    def _may_begin(self, loop: asyncio.AbstractEventLoop) -> bool:
        """A loop that was closed in the middle of its computation does not count."""
        with self._gate:
            if self._busy_loop is not None and not self._busy_loop.is_closed():
                return False
            self._busy_loop = loop
            return True

    def _lock_of(self, loop: asyncio.AbstractEventLoop) -> asyncio.Lock:
        with self._gate:
            self._locks = {each: lock for each, lock in self._locks.items() if not each.is_closed()}
            return self._locks.setdefault(loop, asyncio.Lock())


def _ignore(task: asyncio.Task[T]) -> None:
    """An error of a computation that nobody waits for: the next caller who has to wait gets one of its own."""
    if not task.cancelled():
        task.exception()
