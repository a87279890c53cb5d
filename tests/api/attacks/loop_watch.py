"""Measures how long an event loop is away from its sockets.

A step is what runs between two looks at the sockets. It counts with the processor time of the loop's thread, and with
the time for which it waited: for a lock, for a file, for another thread that holds the interpreter. A look that returns
too late counts as well: another thread held the interpreter. Time for which the process waited for a processor does not
count, so a busy machine does not matter.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

TICK = 0.001
"""Seconds after which a look at the sockets ends, so that a late one shows."""
NOTABLE = 0.010


class WatchedSelector(selectors.DefaultSelector):
    """Takes the time between the return of one `select` and the call of the next, and that by which one is late."""

    def __init__(self) -> None:
        super().__init__()
        self.restart()

    def restart(self) -> None:
        """Begin to measure here, inside a step."""
        self.longest = 0.0
        self._since = time.monotonic(), time.thread_time()
        self._held_up = _held_up()

    def select(self, timeout: float | None = None) -> Any:
        self.longest = max(self.longest, time.thread_time() - self._since[1])
        self._waited(time.monotonic() - self._since[0])
        called = time.monotonic()
        found = super().select(timeout)
        if timeout is not None:
            self._waited(time.monotonic() - called - max(timeout, 0.0))
        self._since = time.monotonic(), time.thread_time()
        return found

    def _waited(self, seconds: float) -> None:
        if seconds > max(self.longest, NOTABLE):
            self.longest = max(self.longest, seconds - (_held_up() - self._held_up))


def _held_up() -> float:
    """Seconds for which threads of this process could have run and had no processor. 0 where nothing counts them."""
    found = 0
    for thread in Path("/proc/self/task").glob("*/schedstat"):
        with suppress(OSError, IndexError):  # it has ended since
            found += int(thread.read_text().split()[1])
    return found / 1e9


class LoopWatch:
    def __init__(self, selector: WatchedSelector) -> None:
        self._selector = selector

    async def longest_step(self, work: Callable[[], Awaitable[Any]]) -> float:
        """Seconds of the longest step while `work` is done, and just after it."""
        ticking = asyncio.create_task(_tick())
        await asyncio.sleep(0)
        self._selector.restart()
        await work()
        await asyncio.sleep(0)
        ticking.cancel()
        return self._selector.longest


async def _tick() -> None:
    while True:  # noqa: ASYNC110  # nothing is polled: this is the clock of the watch
        await asyncio.sleep(TICK)


def run_watched(main: Callable[[LoopWatch], Awaitable[None]]) -> None:
    selector = WatchedSelector()

    async def watched() -> None:
        await main(LoopWatch(selector))

    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        runner.run(watched())
