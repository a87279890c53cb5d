"""One store, several event loops: the application's own, and the one behind its blocking facade.

Whatever waits belongs to the loop it waits on. Each loop therefore has its own connections and its own tasks; what a
loop that has ended left behind is cleared away when the next one comes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_PATIENCE = 5.0
_ASK_AGAIN = 0.1


class PerLoop(Generic[T]):
    """A thing of its own for each running loop, made when first asked for."""

    def __init__(self, make: Callable[[], T], drop: Callable[[T], None] = lambda _: None) -> None:
        self._make, self._drop = make, drop
        self._things: dict[asyncio.AbstractEventLoop, T] = {}

    def here(self) -> T:
        loop = asyncio.get_running_loop()
        thing = self._things.get(loop)
        if thing is None:
            self._clear_away()
            thing = self._things[loop] = self._make()
        return thing

    def all(self) -> list[T]:
        return list(self._things.values())

    async def close(self, end: Callable[[T], Coroutine[Any, Any, None]]) -> None:
        """End each thing on the loop it belongs to."""
        self._clear_away()
        for loop in list(self._things):
            await on_loop(loop, end(self._things.pop(loop)))

    def _clear_away(self) -> None:
        for loop in [loop for loop in self._things if loop.is_closed()]:
            self._drop(self._things.pop(loop))


async def on_loop(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, None]) -> None:
    """Await it where it belongs; a loop that does not answer is given up after a few seconds."""
    if loop is asyncio.get_running_loop():
        await work
        return
    elsewhere = asyncio.run_coroutine_threadsafe(work, loop)
    with suppress(TimeoutError):
        await asyncio.wait_for(asyncio.wrap_future(elsewhere), _PATIENCE)


async def end_task(task: asyncio.Task[Any] | None) -> None:
    """Cancel a task and wait until it has ended, on whichever loop it runs."""
    if task is None or task.done() or task.get_loop().is_closed():
        return
    await on_loop(task.get_loop(), _end_here(task))


async def _end_here(task: asyncio.Task[Any]) -> None:
    """A driver in the middle of connecting may swallow the request to stop: it is asked until it has."""
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=_ASK_AGAIN)
    if not task.cancelled():
        task.exception()
