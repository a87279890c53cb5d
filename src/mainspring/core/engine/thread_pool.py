"""Threads for handlers that are plain functions.

Daemon threads, made when needed and kept: the interpreter never waits at exit for a handler that does not end.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias

_Done: TypeAlias = Callable[[Any], None]

END_OF_AN_IDLE_THREAD = 1.0


class ThreadPool:
    """Made inside a running event loop, which hears of what the threads have done."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.SimpleQueue[tuple[Callable[[], Any], _Done] | None] = queue.SimpleQueue()
        self._results: deque[tuple[_Done, Any]] = deque()
        self._told = False
        self._idle: set[threading.Thread] = set()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()

    def run(self, function: Callable[[], Any], done: _Done) -> None:
        """Run in a thread; `done` is called with the result on the event loop. The function must not raise."""
        self._jobs.put((function, done))
        self._grow()

    def close(self) -> None:
        """End idle threads; a thread in a handler ends after it, and nobody waits for that."""
        with self._lock:
            idle = list(self._idle)
        for _ in self._threads:
            self._jobs.put(None)
        for thread in idle:
            thread.join(END_OF_AN_IDLE_THREAD)

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
            self._tell()

    def _tell(self) -> None:
        """Waking the event loop costs more than a small function: whatever ends until it looks goes along."""
        if not self._told:
            self._told = True
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits for this any more
                self._loop.call_soon_threadsafe(self._hand_over)

    def _hand_over(self) -> None:
        self._told = False
        try:
            while self._results:
                done, result = self._results.popleft()
                done(result)
        finally:
            if self._results:
                self._tell()
