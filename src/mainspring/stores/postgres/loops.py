"""One store, several event loops: the application's own, and the one behind its blocking facade.

Whatever waits belongs to the loop it waits on. Each loop therefore has its own connections and its own tasks; what a
loop that has ended left behind is cleared away when the next one comes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_PATIENCE = 5.0


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

    def _clear_away(self) -> None:
        for loop in [loop for loop in self._things if loop.is_closed()]:
            self._drop(self._things.pop(loop))


async def end(task: asyncio.Task[Any] | None) -> None:
    """Cancel a task and wait until it has ended, on whichever loop it runs."""
    if task is None or task.done() or task.get_loop().is_closed():
        return
    if task.get_loop() is asyncio.get_running_loop():
        await _end_here(task)
        return
    elsewhere = asyncio.run_coroutine_threadsafe(_end_here(task), task.get_loop())
    with suppress(TimeoutError):
        await asyncio.wait_for(asyncio.wrap_future(elsewhere), _PATIENCE)


async def _end_here(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
