"""Measures how long an event loop is away from its selector: the longest run of callbacks between two looks at its
sockets. It counts the processor time of the loop's own thread, so a busy machine does not matter, while garbage
collection and imports count like everything else."""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Awaitable, Callable
from typing import Any


class WatchedSelector(selectors.DefaultSelector):
    """Takes the time between the return of one `select` and the call of the next."""

    def __init__(self) -> None:
        super().__init__()
        self.longest = 0.0
        self._since: float | None = None

    def select(self, timeout: float | None = None) -> Any:
        if self._since is not None:
            self.longest = max(self.longest, time.thread_time() - self._since)
        found = super().select(timeout)
        self._since = time.thread_time()
        return found


class LoopWatch:
    def __init__(self, selector: WatchedSelector) -> None:
        self._selector = selector

    async def longest_step(self, work: Callable[[], Awaitable[Any]]) -> float:
        """Seconds of the longest step while `work` is done, and just after it."""
        await asyncio.sleep(0)
        self._selector.longest = 0.0
        await work()
        await asyncio.sleep(0)
        return self._selector.longest


def run_watched(main: Callable[[LoopWatch], Awaitable[None]]) -> None:
    selector = WatchedSelector()

    async def watched() -> None:
        await main(LoopWatch(selector))

    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        runner.run(watched())
