"""Looks after busy child processes four times a second: what they hold, what they have used, whether they are alive.

In a thread of its own: reading the memory of a large process takes milliseconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Protocol

from .resources import cpu_seconds, family, held
from .rules import Killed, cpu_limit, out_of_memory

EVERY = 0.25
TICKS_UNTIL_ASLEEP = 20


class Watched(Protocol):
    """A busy child. What is read here belongs to the attempt of this number."""

    pid: int
    number: int
    max_memory: int | None
    max_cpu: float | None
    cpu_before: float
    peak: int | None

    def has_exited(self) -> bool: ...
    def on_exit(self) -> None: ...
    def over_memory(self, number: int, why: Killed) -> None: ...
    def over_cpu(self, number: int, why: Killed) -> None: ...


class Watch:
    """Made inside a running event loop, on which it calls back."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._busy: set[Watched] = set()
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()
        self._asleep = False
        self._closed = threading.Event()

    def add(self, child: Watched) -> None:
        self._busy.add(child)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="mainspring-watch", daemon=True)
            self._thread.start()
        elif self._asleep:
            self._wake.set()

    def discard(self, child: Watched) -> None:
        self._busy.discard(child)

    def close(self) -> None:
        self._closed.set()
        self._wake.set()

    def _run(self) -> None:
        idle = 0
        while not self._closed.wait(EVERY):
            busy = list(self._busy)
            for child in busy:
                with contextlib.suppress(Exception):  # the next tick looks again
                    self._look(child)
            idle = 0 if busy else idle + 1
            if idle > TICKS_UNTIL_ASLEEP:
                self._sleep()

    def _sleep(self) -> None:
        """Until there is work: an idle worker does not wake up four times a second."""
        self._wake.clear()
        self._asleep = True
        if not self._busy and not self._closed.is_set():
            self._wake.wait()
        self._asleep = False

    def _look(self, child: Watched) -> None:
        number, limit, max_cpu, before = child.number, child.max_memory, child.max_cpu, child.cpu_before
        if child.has_exited():
            self._call(child.on_exit)
            return
        pids = family(child.pid)
        size = held(pids, limit)
        used = None if max_cpu is None else cpu_seconds(pids)
        if child.number != number:
            return
        if size is not None:
            child.peak = max(size, child.peak or 0)
            if limit is not None and size > limit:
                self._call(child.over_memory, number, out_of_memory(size, limit))
        if used is not None and max_cpu is not None and used - before > max_cpu:
            self._call(child.over_cpu, number, cpu_limit(used - before, max_cpu))

    def _call(self, function: Callable[..., None], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(function, *arguments)
