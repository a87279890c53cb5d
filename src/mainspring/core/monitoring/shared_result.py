"""Numbers that take a while to work out: shared by all who ask meanwhile, on whichever event loop they wait.

An application may be used on its own loop and through its blocking facade at once. What waits belongs to its loop, so
each has a lock of its own; the work itself, which keeps things for the next time, is done by one of them at a time.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from ..ports import Clock

T = TypeVar("T")

LAST = 1.0
SHARE = 10
"""They are worked out anew at most every second, and so that it takes a tenth of the time at most."""
LOOK_AGAIN = 0.02


class WorkedOut(Generic[T]):
    def __init__(self, work: Callable[[], Awaitable[T]], clock: Clock) -> None:
        self._work, self._clock = work, clock
        self._known: tuple[T, float] | None = None
        self._gate = threading.Lock()  # held for a moment only, never while something is awaited
        self._locks: dict[asyncio.AbstractEventLoop, asyncio.Lock] = {}
        self._at_work: asyncio.AbstractEventLoop | None = None

    def forget(self) -> None:
        self._known = None

    async def get(self) -> T:
        """As worked out last, or anew if that is too old; what was known before, while another loop is at it."""
        loop = asyncio.get_running_loop()
        async with self._lock_of(loop):
            while True:
                known, began = self._known, self._clock.monotonic()
                if known is not None and began < known[1]:
                    return known[0]
                if self._may_begin(loop):
                    return await self._anew(began)
                if known is not None:
                    return known[0]
                await asyncio.sleep(LOOK_AGAIN)

    async def _anew(self, began: float) -> T:
        try:
            made = await self._work()
        finally:
            self._at_work = None
        done = self._clock.monotonic()
        self._known = (made, done + max(LAST, SHARE * (done - began)))
        return made

    def _may_begin(self, loop: asyncio.AbstractEventLoop) -> bool:
        """A loop that ended in the middle of its work is at it no more."""
        with self._gate:
            if self._at_work is not None and not self._at_work.is_closed():
                return False
            self._at_work = loop
            return True

    def _lock_of(self, loop: asyncio.AbstractEventLoop) -> asyncio.Lock:
        with self._gate:
            self._locks = {each: lock for each, lock in self._locks.items() if not each.is_closed()}
            return self._locks.setdefault(loop, asyncio.Lock())
