"""Waiting for the servers that a starting process needs.

A server that cannot be reached yet is tried again until `start_timeout` is over: one event says that this process
waits, and one that the server has answered. A server that refuses (a wrong password, a database that does not exist, a
schema of a newer release) is never waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ..core.loops import FIRST_PAUSE, LONGEST_PAUSE, Emit
from ..model.errors import StoreUnavailable
from ..model.events import StoreReached, WaitingForStore

T = TypeVar("T")

SILENT_FOR = 3.0
"""Seconds after which a server that has not answered yet is waited for, even if no try has failed."""


class StartWait:
    """Made when the start begins, inside the event loop: all servers together may take `seconds`."""

    def __init__(self, seconds: float, emit: Emit) -> None:
        self._seconds, self._emit = seconds, emit
        self._clock = asyncio.get_running_loop().time
        self._began = self._clock()

    async def reach(self, address: str, connect: Callable[[], Awaitable[T]]) -> T:
        """`connect`, again and again while it raises `StoreUnavailable` and there is time."""
        if self._seconds <= 0:
            return await connect()
        wait = _Wait(self._emit, address, self._seconds)
        unanswered = asyncio.get_running_loop().call_later(SILENT_FOR, wait.begin)
        try:
            async with asyncio.timeout_at(self._began + self._seconds):
                found = await self._try(connect, wait)
        except TimeoutError:
            error = wait.error or f"{address} has not answered: is it running, or does another process hold its lock?"
            raise StoreUnavailable(f"{error}; gave up after {self._seconds:g} s (start_timeout)") from wait.error
        finally:
            unanswered.cancel()
        wait.end(self._clock() - self._began)
        return found

    async def _try(self, connect: Callable[[], Awaitable[T]], wait: _Wait) -> T:
        pause = FIRST_PAUSE
        while True:
            try:
                return await connect()
            except StoreUnavailable as error:
                wait.begin(error)
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)


class _Wait:
    def __init__(self, emit: Emit, address: str, seconds: float) -> None:
        self._emit, self._address, self._seconds = emit, address, seconds
        self._begun = False
        self.error: StoreUnavailable | None = None

    def begin(self, error: StoreUnavailable | None = None) -> None:
        self.error = error
        if not self._begun:
            self._begun = True
            self._emit(WaitingForStore(self._address, self._seconds, None if error is None else str(error)))

    def end(self, seconds: float) -> None:
        if self._begun:
            self._emit(StoreReached(self._address, seconds))
