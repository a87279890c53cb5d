"""What the integration and acceptance tests share: applications on one store, recorded events, waiting with a deadline.

No test sleeps to wait. What has an end is awaited with `app.wait`; what is only observable is polled with `until`.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from mainspring import Execution, Mainspring
from mainspring.app.adapters import SystemClock
from mainspring.core.ports import Clock
from mainspring.stores.memory import MemoryStore

T = TypeVar("T")

DEADLINE = 60.0
"""Seconds after which a test gives up. Never an expectation: what is expected happens within milliseconds."""

NEVER = 600.0
"""An interval longer than any test: whatever happens sooner did not happen because of it."""

FAST = 0.01

ON_A_FAKE_CLOCK: dict[str, Any] = {"poll_interval": FAST, "wakeups": False, "lease": "1d"}
"""Settings for applications whose clock the test moves: roles look at it every few milliseconds, and a leap of it is
not taken for a lease that ran out, or for beats that failed."""


async def until(
    condition: Callable[[], T | Awaitable[T]], what: str = "", deadline: float = DEADLINE, every: float = FAST
) -> T:
    """The first true value of a condition (plain or async), polled until the deadline."""
    end = time.monotonic() + deadline
    while True:
        value = condition()
        if inspect.isawaitable(value):
            value = await value
        if value:
            return value
        assert time.monotonic() < end, f"never became true: {what or inspect.getsource(condition).strip()}"
        await asyncio.sleep(every)


def until_blocking(condition: Callable[[], T], what: str = "", deadline: float = DEADLINE) -> T:
    end = time.monotonic() + deadline
    while not (value := condition()):
        assert time.monotonic() < end, f"never became true: {what or inspect.getsource(condition).strip()}"
        time.sleep(FAST)
    return value


def held_up(pid: int | None = None) -> float:
    """Seconds for which the first thread of a process (this one unless told) could have run and had no processor: what
    a busy machine has cost it so far. Bars on elapsed time leave it out. 0 on systems that do not count it."""
    try:
        counters = Path("/proc", "self" if pid is None else str(pid), "schedstat").read_text()
        return int(counters.split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


def own_time() -> float:
    """A clock for bars on elapsed time: seconds, without those for which this process waited for a processor."""
    return time.monotonic() - held_up()


class Seen:
    """An observer that keeps every event of its application."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def __call__(self, event: Any) -> None:
        self.events.append(event)

    def of(self, kind: type[T]) -> list[T]:
        return [event for event in self.events if isinstance(event, kind)]


class Nodes:
    """Makes applications that share one store, as the processes of one deployment do. `server` is the address of a
    database on a server; without one it is a file in the folder, or memory."""

    def __init__(self, kind: str, folder: Path, server: str | None = None) -> None:
        self.kind = kind
        self._server = server
        self.folder = folder
        self.file = folder / "mainspring.db"
        self._memory: MemoryStore | None = None

    @property
    def url(self) -> str:
        if self._server is not None:
            return self._server
        return f"sqlite:///{self.file}" if self.kind == "sqlite" else "memory://"

    def app(self, *, clock: Clock | None = None, **options: Any) -> Mainspring:
        """An application that is not started. Polling is too slow to hide a missing wake-up."""
        chosen: dict[str, Any] = {"poll_interval": NEVER, "stop_timeout": 5, **options}
        if self.kind != "memory":
            return Mainspring(self.url, clock=clock, **chosen)
        if self._memory is None:
            self._memory = MemoryStore(clock or SystemClock())
        return Mainspring(self._memory, clock=clock, **chosen)

    @asynccontextmanager
    async def client(self, **options: Any) -> AsyncIterator[Mainspring]:
        """An application without handlers, that runs no role: a web process, or an operator's terminal."""
        app = self.app(**options)
        try:
            yield app
        finally:
            await app.close()


_OTHERS: set[threading.Thread] = set()


def count_threads_from_here() -> None:
    """At the beginning of a test: what others have left, such as a handler that nothing could stop, is not its own."""
    _OTHERS.clear()
    _OTHERS.update(threading.enumerate())


def own_threads(prefix: str = "mainspring") -> list[str]:
    """The names of Mainspring's threads that were started in this test and are still there."""
    new = (thread for thread in threading.enumerate() if thread not in _OTHERS)
    return [thread.name for thread in new if thread.name.startswith(prefix)]


def new_threads(before: Collection[threading.Thread]) -> list[str]:
    """The names of threads started since that are still there, but for those of a MongoDB client some other test of
    this process left to its garbage: they come and go by themselves."""
    new = (thread for thread in threading.enumerate() if thread not in before)
    return sorted(thread.name for thread in new if not thread.name.startswith("pymongo"))


async def ended(app: Mainspring, execution: Execution | None, timeout: float = DEADLINE) -> Execution:
    """The execution once it has ended."""
    assert execution is not None, "its unique key was taken"
    return await app.wait(execution, timeout=timeout)


async def run_once(app: Mainspring, handler: Any, params: dict[str, Any] | None = None, **options: Any) -> Execution:
    """Enqueue and wait for the end."""
    return await ended(app, await app.enqueue(handler, params, **options))
