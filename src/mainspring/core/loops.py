"""The loop that every role runs on: do a step, sleep as long as it returned or until woken, survive its errors."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

import msgspec

from ..model.errors import LockUnavailable, StoreUnavailable
from ..model.events import Recovered, StoreLost, Trouble

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 3.0
"""Seconds. A loop that only polls notices this late that a database is back; five are promised."""
ABORT_PATIENCE = 0.5
"""Seconds that a step gets to end after it was cancelled: a driver may wait for an answer that does not come."""
MOST_KINDS = 20
"""Different errors that are emitted while something fails all the time."""

Emit = Callable[[object], None]


class Failure(msgspec.Struct, frozen=True):
    """What fails at present: for how many seconds, and the newest error."""

    where: str
    seconds: float
    error: str


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


def trouble(where: str, error: Exception) -> Trouble | StoreLost:
    """The event of an error, with its traceback."""
    if isinstance(error, StoreUnavailable):
        return StoreLost(where, str(error), "".join(traceback.format_exception(error)))
    return Trouble(where, f"{type(error).__name__}: {error}", "".join(traceback.format_exception(error)))


class Outage:
    """The errors of something that is tried again and again. One event says that it fails, and one that it works again,
    however many tries there are in between. Other errors meanwhile are emitted once each."""

    def __init__(self, where: str, emit: Emit) -> None:
        self._where, self._emit = where, emit
        self._since: float | None = None
        self._emitted: set[str] = set()
        self.failure: Failure | None = None

    def failed(self, error: Exception, now: float) -> None:
        """`now` is a monotonic time."""
        if self._since is None:
            self._since = now
        away = isinstance(error, StoreUnavailable | LockUnavailable)  # whatever words they use
        kind = "away" if away else f"{type(error).__name__}: {error}"
        self.failure = Failure(self._where, now - self._since, f"{type(error).__name__}: {error}")
        if kind not in self._emitted and len(self._emitted) < MOST_KINDS:
            self._emitted.add(kind)
            self._emit(trouble(self._where, error))

    def worked(self, now: float) -> None:
        if self._since is not None:
            self._emit(Recovered(self._where, now - self._since))
            self._since, self._emitted, self.failure = None, set(), None


class NothingAsked(float):
    """The delay that a step returns which did not ask the store for what it is there for: whether it works again is not
    known then."""


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
    """Runs `step` until stopped. A step returns how many seconds to sleep; `wake` ends the sleep early. Loops that do
    the same work share an `outage`."""

    def __init__(
        self, name: str, step: Callable[[], Awaitable[float]], emit: Emit, outage: Outage | None = None
    ) -> None:
        self.name = name
        self._step = step
        self._outage = outage or Outage(name, emit)
        self._woken = False
        self._asleep: asyncio.Future[None] | None = None
        self._stopping = False
        self._task: asyncio.Task[None] | None = None

    @property
    def failure(self) -> Failure | None:
        """Set while its steps fail."""
        return self._outage.failure

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
            await asyncio.wait({self._task}, timeout=ABORT_PATIENCE)

    async def _run(self) -> None:
        pause = FIRST_PAUSE
        clock = asyncio.get_running_loop().time
        while not self._stopping:
            self._woken = False
            try:
                delay = await self._step()
                pause = FIRST_PAUSE
                if not isinstance(delay, NothingAsked):
                    self._outage.worked(clock())
            except Exception as error:
                self._outage.failed(error, clock())
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
