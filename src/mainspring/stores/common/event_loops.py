"""One store, several event loops: the application's own, and the one behind its blocking facade.

Connections and tasks belong to the loop they were created on, so each loop has its own. What a closed loop left behind
is dropped when the next loop comes.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_PATIENCE = 5.0
_CANCEL_AGAIN = 0.1


class PerLoop(Generic[T]):
    """One object per event loop, created on first use."""

    def __init__(self, make: Callable[[], T], drop: Callable[[T], None] = lambda _: None) -> None:
        self._make, self._drop = make, drop
        self._objects: dict[asyncio.AbstractEventLoop, T] = {}

    def here(self) -> T:
        loop = asyncio.get_running_loop()
        found = self._objects.get(loop)
        if found is None:
            self._drop_closed()
            found = self._objects[loop] = self._make()
        return found

    def all(self) -> list[T]:
        return list(self._objects.values())

    async def close(self, end: Callable[[T], Coroutine[Any, Any, None]]) -> None:
        """End each object on its own loop."""
        self._drop_closed()
        await asyncio.gather(*(on_loop(loop, end(self._objects.pop(loop))) for loop in list(self._objects)))

    def _drop_closed(self) -> None:
        for loop in [loop for loop in self._objects if loop.is_closed()]:
            self._drop(self._objects.pop(loop))


class LoopThread:
    """An event loop on a daemon thread of its own, started on first use; a forked child starts its own."""

    def __init__(self, name: str) -> None:
        self._name, self._lock = name, threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pid = os.getpid()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._pid != os.getpid():
                self._loop, self._pid = asyncio.new_event_loop(), os.getpid()
                threading.Thread(target=self._run, args=(self._loop,), name=self._name, daemon=True).start()
            return self._loop

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            loop.run_forever()
        finally:
            loop.close()

    def stop(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None and self._pid == os.getpid():
            loop.call_soon_threadsafe(loop.stop)


async def on_loop(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, None]) -> None:
    """Await this work on its loop; give up on a loop that does not answer within a few seconds."""
    if loop is asyncio.get_running_loop():
        await work
        return
    elsewhere = asyncio.run_coroutine_threadsafe(work, loop)
    with suppress(TimeoutError):
        await asyncio.wait_for(asyncio.wrap_future(elsewhere), _PATIENCE)


async def end_task(task: asyncio.Task[Any] | None) -> None:
    """Cancel a task, on whichever loop it runs, and wait until it has ended."""
    if task is None or task.done() or task.get_loop().is_closed():
        return
    await on_loop(task.get_loop(), _end_here(task))


async def _end_here(task: asyncio.Task[Any]) -> None:
    """A driver that is connecting may swallow the cancellation, so cancel until the task has ended."""
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=_CANCEL_AGAIN)
    if not task.cancelled():
        task.exception()
