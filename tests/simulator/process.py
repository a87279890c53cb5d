"""A simulated operating-system process: what runs in it, its clock, and the ways it can stop.

Tasks belong to the process that started them, through a context variable that every task inherits. A killed
process is gone between two instructions: its tasks are cancelled, and nothing it does afterwards reaches anybody.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Coroutine
from random import Random
from typing import Any

from mainspring.model.time.instants import Micros, seconds_to_micros
from mainspring.testing.clock import START
from tests.simulator.journal import Journal

current: contextvars.ContextVar[Process] = contextvars.ContextVar("mainspring_simulated_process")
"""The process whose code runs now."""


class StoreClock:
    """The reference: virtual time, which a suspended machine, or an administrator, may set forward or a little back."""

    def __init__(self, start: Micros = START) -> None:
        self._loop = asyncio.get_running_loop()
        self._start = start
        self.last_jump = float("-inf")
        self._highest = start

    def now(self) -> Micros:
        return self._start + seconds_to_micros(self._loop.time())

    def monotonic(self) -> float:
        return self._loop.time()

    def latest(self) -> Micros:
        """The latest time it ever told: what was due then stays so."""
        return max(self.now(), self._highest)

    def jump(self, seconds: float) -> None:
        self._highest = self.latest()
        self._start += seconds_to_micros(seconds)
        self.last_jump = self._loop.time()


class NodeClock:
    """The clock of one machine: its wall clock is wrong by an amount that changes, its monotonic clock is right."""

    def __init__(self, start: Micros, chance: Random) -> None:
        self._loop = asyncio.get_running_loop()
        self._start = start
        self._boot = chance.uniform(0, 1_000_000)
        self._skew = chance.choice([0.0, chance.uniform(-2, 2), chance.uniform(-3_600, 3_600)])

    def now(self) -> Micros:
        return self._start + seconds_to_micros(self._loop.time() + self._skew)

    def monotonic(self) -> float:
        return self._boot + self._loop.time()

    def jump(self, seconds: float) -> None:
        self._skew += seconds


class Process:
    def __init__(self, name: str, journal: Journal, clock: NodeClock, chance: Random) -> None:
        self.name, self.journal, self.clock, self.chance = name, journal, clock, chance
        self.judge = journal.judge
        self.alive = True
        self.leaving = False
        self.resumed_at = float("-inf")
        self.delivered: set[tuple[str, int]] = set()
        """Claims (execution, token) that this process has been told of."""
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._resumed: asyncio.Event | None = None
        self._cut_off_until = float("-inf")
        self.born = self._troubled = self._loop.time()

    @property
    def paused(self) -> bool:
        return self._resumed is not None

    def start(self, main: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        context = contextvars.copy_context()
        context.run(current.set, self)
        return self._loop.create_task(main, name=self.name, context=context)

    def adopt(self, task: asyncio.Task[Any]) -> None:
        if not self.alive:
            task.cancel()  # callbacks of a dead process may still be called: what they start never begins
        self._tasks[task] = None
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if self.alive and not task.cancelled() and (error := task.exception()) is not None:
            self.judge.fail("no task dies", f"{self.name}: {task.get_name()}: {type(error).__name__}: {error}")

    def kill(self) -> None:
        """kill -9. If a task of its own does it, that task ends at its next await."""
        self.alive = False
        self.resume()
        for task in list(self._tasks):
            task.cancel()
        self._tasks.clear()

    def pause(self, seconds: float) -> None:
        """SIGSTOP, and SIGCONT after so many seconds."""
        if self._resumed is None and self.alive:
            self._resumed = asyncio.Event()
            self._loop.call_later(seconds, self.resume)

    def resume(self) -> None:
        if self._resumed is not None:
            self._resumed.set()
            self._resumed = None
            self.resumed_at = self._loop.time()
            self.troubled()

    @property
    def cut_off(self) -> bool:
        return self._loop.time() < self._cut_off_until

    def cut(self, seconds: float) -> None:
        """The network between it and the store is gone for so many seconds."""
        self._cut_off_until = self._loop.time() + seconds

    def troubled(self) -> None:
        """A beat may have come too late: what it held may be taken from it, rightly."""
        self._troubled = self._loop.time()

    def sound_since(self, at: float) -> bool:
        """Whether every beat got through since then: neither killed nor stopped nor cut off nor leaving."""
        return self.alive and not self.paused and not self.leaving and self._troubled < at

    async def running(self) -> None:
        """Wait while the process is stopped; a killed one never goes on."""
        while self._resumed is not None:
            await self._resumed.wait()
        if not self.alive:
            raise asyncio.CancelledError

    def tasks(self) -> list[str]:
        """What still runs in it."""
        return [task.get_name() for task in self._tasks]


def own_tasks(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> asyncio.Task[Any]:
    """A task factory that gives every task to the process it was started in."""
    context = options.get("context")
    process = context.get(current) if context is not None else current.get(None)
    task: asyncio.Task[Any] = asyncio.Task(coro, loop=loop, **options)
    if process is not None:
        process.adopt(task)
    return task
