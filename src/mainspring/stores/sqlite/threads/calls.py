"""Calls into a connection's thread: how they get there, and how the answers get back to the caller's event loop."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Generic, TypeAlias, TypeVar

from ....core.ports import Topic
from ....model.errors import StoreError
from ...common.listeners import Listeners
from ..transaction import Transaction

T = TypeVar("T")
Work: TypeAlias = Callable[[Transaction], T]


class ThreadCall(Generic[T]):
    """A call, answered on the caller's event loop or to the thread that waits for it."""

    __slots__ = ("error", "future", "loop", "result", "waiter", "work")

    def __init__(self, work: Work[T], loop: asyncio.AbstractEventLoop | None) -> None:
        self.work = work
        self.loop = loop
        self.future: asyncio.Future[T] | None = None if loop is None else loop.create_future()
        self.waiter: Future[T] | None = Future() if loop is None else None
        self.result: Any = None
        self.error: BaseException | None = None

    @property
    def abandoned(self) -> bool:
        """The caller no longer waits for the answer."""
        return self.future is not None and self.future.cancelled()

    def answer(self) -> None:
        """Runs on the caller's loop, or on our thread if a thread waits."""
        if self.waiter is not None:
            if self.error is None:
                self.waiter.set_result(self.result)
            else:
                self.waiter.set_exception(self.error)
        elif self.future is not None and not self.future.done():
            if self.error is None:
                self.future.set_result(self.result)
            else:
                self.future.set_exception(self.error)


class Post:
    """Answers and wake-ups, handed to each event loop in one call, however many there are."""

    def __init__(self) -> None:
        self._by_loop: dict[asyncio.AbstractEventLoop, list[Callable[[], None]]] = {}

    def answer(self, call: ThreadCall[Any]) -> None:
        if call.loop is None:
            call.answer()
        else:
            self._add(call.loop, call.answer)

    def wake(self, listeners: Listeners, topics: set[Topic]) -> None:
        for loop, deliver in listeners.deliveries(topics):
            self._add(loop, deliver)

    def _add(self, loop: asyncio.AbstractEventLoop, step: Callable[[], None]) -> None:
        self._by_loop.setdefault(loop, []).append(step)

    def send(self) -> None:
        for loop, steps in self._by_loop.items():
            with suppress(RuntimeError):  # the loop is closed: nobody waits there any more
                loop.call_soon_threadsafe(_run_all, steps)


def _run_all(steps: list[Callable[[], None]]) -> None:
    """On the loop."""
    for step in steps:
        step()


class Mailbox:
    """Calls in the order of arrival, urgent ones first. Once it is closed, the calls inside are still served."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._arrived = threading.Condition(self._lock)
        self._calls: deque[ThreadCall[Any]] = deque()
        self._urgent: deque[ThreadCall[Any]] = deque()
        self._nudged = False
        self._closed: float | None = None  # when

    def put(self, call: ThreadCall[Any], *, urgent: bool = False) -> None:
        with self._lock:
            if self._closed is not None:
                raise StoreError("the store is closed; open it first")
            (self._urgent if urgent else self._calls).append(call)
            self._arrived.notify()

    def nudge(self) -> None:
        """End a wait although no call arrived."""
        with self._lock:
            self._nudged = True
            self._arrived.notify()

    def close(self) -> None:
        with self._lock:
            self._closed = time.monotonic() if self._closed is None else self._closed
            self._arrived.notify()

    @property
    def closed_for(self) -> float:
        """Seconds since it was closed; 0 while it is open."""
        return 0.0 if self._closed is None else time.monotonic() - self._closed

    def wait(self, seconds: float | None) -> bool:
        """Wait until a call arrives, at most so long. False when the mailbox is closed and empty."""
        deadline = None if seconds is None else time.monotonic() + seconds
        with self._lock:
            while not (self._calls or self._urgent or self._closed is not None or self._nudged):
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    break
                self._arrived.wait(left)
            self._nudged = False
            return bool(self._calls or self._urgent) or self._closed is None

    def take(self, most: int) -> list[ThreadCall[Any]]:
        """The calls that have arrived, without waiting and without those that were abandoned."""
        with self._lock:
            taken = [*self._urgent]
            self._urgent.clear()
            while self._calls and len(taken) < most:
                taken.append(self._calls.popleft())
        return [call for call in taken if not call.abandoned]

    def __len__(self) -> int:
        return len(self._calls) + len(self._urgent)
