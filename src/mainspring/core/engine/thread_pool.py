"""Threads for handlers that are plain functions.

Daemon threads, started when needed and kept: the interpreter never waits at exit for a handler that does not return.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

_Done: TypeAlias = Callable[[Any], None]

JOIN_TIMEOUT = 1.0


class Threads(Protocol):
    """What a runner needs of the threads that it calls plain functions in."""

    def run(self, function: Callable[[], Any], done: _Done) -> None:
        """Run in a thread; `done` is called with the result on the event loop. The function must not raise."""

    def close(self) -> None:
        """End the threads that nothing runs in."""


class ThreadPool:
    """Made inside a running event loop, on which results are delivered."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.SimpleQueue[tuple[Callable[[], Any], _Done] | None] = queue.SimpleQueue()
        self._results: deque[tuple[_Done, Any]] = deque()
        self._woken = False
        self._idle: set[threading.Thread] = set()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()

    def run(self, function: Callable[[], Any], done: _Done) -> None:
        """Run in a thread; `done` is called with the result on the event loop. The function must not raise."""
        self._jobs.put((function, done))
        self._grow()

    def close(self) -> None:
        """End idle threads. A thread that runs a handler ends after it, and nobody waits for that."""
        with self._lock:
            idle = list(self._idle)
        for _ in self._threads:
            self._jobs.put(None)
        for thread in idle:
            thread.join(JOIN_TIMEOUT)

    def _grow(self) -> None:
        with self._lock:
            if len(self._idle) >= self._jobs.qsize() or len(self._threads) >= self._most:
                return
            thread = threading.Thread(target=self._work, name=f"mainspring-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
        thread.start()

    def _work(self) -> None:
        me = threading.current_thread()
        while True:
            with self._lock:
                self._idle.add(me)
            job = self._jobs.get()
            with self._lock:
                self._idle.discard(me)
            if job is None:
                return
            function, done = job
            self._results.append((done, function()))
            self._wake()

    def _wake(self) -> None:
        """Wake the event loop once for many results: waking it costs more than a small handler."""
        if not self._woken:
            self._woken = True
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits for the result
                self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._woken = False
        try:
            while self._results:
                done, result = self._results.popleft()
                done(result)
        finally:
            if self._results:
                self._wake()
