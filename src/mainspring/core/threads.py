"""Threads for handlers that are plain functions.

Daemon threads, made when needed and kept: the interpreter never waits at exit for a handler that does not end.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Any

_Job = tuple[Callable[[], Any], "asyncio.Future[Any]", asyncio.AbstractEventLoop]

END_OF_AN_IDLE_THREAD = 1.0


class Threads:
    def __init__(self, most: int) -> None:
        self._most = most
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._idle: set[threading.Thread] = set()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()

    def run(self, function: Callable[[], Any]) -> asyncio.Future[Any]:
        """Run in a thread, in a copy of this context. The function must not raise: it returns what happened."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        context = contextvars.copy_context()
        self._jobs.put((lambda: context.run(function), future, loop))
        self._grow()
        return future

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
            function, future, loop = job
            _deliver(loop, future, function())


def _deliver(loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any], value: Any) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits for this any more
        loop.call_soon_threadsafe(_resolve, future, value)


def _resolve(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():
        future.set_result(value)
