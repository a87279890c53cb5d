"""The loop that every role runs on: do a step, sleep as long as it returned or until woken, survive its errors."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from ..model.events import Trouble

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 3.0
"""Seconds. A loop that only polls notices this late that a database is back; five are promised."""

Emit = Callable[[object], None]
Item = TypeVar("Item")
Result = TypeVar("Result")


def one_by_one(
    what: str, items: Iterable[Item], function: Callable[[Item], Result], emit: Emit
) -> list[tuple[Item, Result]]:
    """The items for which the function succeeded, with its results. The error of any other item is emitted: one bad row
    must not stop a whole batch."""
    done = []
    for item in items:
        try:
            done.append((item, function(item)))
        except Exception as error:
            emit(trouble(what, error))
    return done


def trouble(where: str, error: Exception, repeated: str | None = None) -> Trouble:
    """The event of an error, with its traceback unless the same text was emitted just before: while a server is away,
    the first of a hundred tries says where."""
    words = f"{type(error).__name__}: {error}"
    return Trouble(where, words, None if words == repeated else "".join(traceback.format_exception(error)))


def inside_event_loop() -> bool:
    """Whether an event loop runs in this thread: then nothing may block it."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def stop_all(loops: Sequence[Loop], timeout: float) -> None:
    """Stop after the steps under way, or in the middle of them when that takes too long."""
    try:
        async with asyncio.timeout(timeout):
            await asyncio.gather(*(loop.stop() for loop in loops))
    except TimeoutError:
        await asyncio.gather(*(loop.abort() for loop in loops))


class Loop:
    """Runs `step` until stopped. A step returns how many seconds to sleep; `wake` ends the sleep early."""

    def __init__(self, name: str, step: Callable[[], Awaitable[float]], emit: Emit) -> None:
        self.name = name
        self._step = step
        self._emit = emit
        self._woken = False
        self._asleep: asyncio.Future[None] | None = None
        self._stopping = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=f"mainspring-{self.name}")

    def wake(self) -> None:
        self._woken = True
        self._rouse()

    def _rouse(self) -> None:
        if self._asleep is not None and not self._asleep.done():
            self._asleep.set_result(None)

    async def stop(self) -> None:
        """End after the step under way."""
        self._stopping = True
        self.wake()
        if self._task is not None:
            await self._task

    async def abort(self) -> None:
        """End now, in the middle of a step."""
        self._stopping = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        pause, last_error = FIRST_PAUSE, None
        while not self._stopping:
            self._woken = False
            try:
                delay = await self._step()
                pause, last_error = FIRST_PAUSE, None
            except Exception as error:
                event = trouble(self.name, error, last_error)
                self._emit(event)
                last_error = event.error
                delay, pause = pause, min(pause * 2, LONGEST_PAUSE)
            await self._sleep(delay)

    async def _sleep(self, delay: float) -> None:
        if delay <= 0:
            await asyncio.sleep(0)
            return
        if self._woken:
            return
        loop = asyncio.get_running_loop()
        self._asleep = loop.create_future()
        alarm = loop.call_later(delay, self._rouse)
        try:
            await self._asleep
        finally:
            alarm.cancel()
            self._asleep = None
