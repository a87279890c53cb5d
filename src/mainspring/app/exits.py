"""How the background loop of `app.sync` ends with its process: after the drain, and never by surprise.

Whatever ends a process in good order (its last line, `sys.exit`, an exception, Ctrl-C, the server around it) leads
through the exit hook, which drains. SIGTERM would end a plain Python process at once: where nobody handles it, it
becomes a `SystemExit`. Where a server or the application handles it, the drain begins at the signal, and the handler
that was there decides the rest. Without roles there is nothing to drain: threads that the process still waits for, and
other exit hooks, can enqueue to the end.
"""

from __future__ import annotations

import atexit
import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, Protocol

from .hosts import uwsgi
from .process import REPEATED_SIGNAL


class Ending(Protocol):
    """What has to end before its process does."""

    def begin(self) -> bool:
        """Begin to drain, if there is anything to drain, and return at once whether there is. Called by a signal
        handler."""

    def finish(self) -> None:
        """Drain and disconnect, within the stop timeout."""


class Exits:
    """The endings of this process. A forked child has none of its parent's."""

    def __init__(self) -> None:
        self._endings: dict[Ending, int] = {}
        self._registered = False
        self._previous: Any = None
        self._terminated_at: float | None = None

    def add(self, ending: Ending) -> None:
        """Finish it when the process ends."""
        self._endings[ending] = os.getpid()
        if not self._registered:
            self._registered = True
            _before_executors_end(self._drain)
            atexit.register(self._finish)

    def discard(self, ending: Ending) -> None:
        self._endings.pop(ending, None)

    def watch_sigterm(self) -> None:
        """Drain at SIGTERM. Only the main thread may set signal handlers, and handlers that are not Python's, such as
        those of uWSGI, are left alone."""
        previous = signal.getsignal(signal.SIGTERM)
        known = previous == signal.SIG_DFL or callable(previous)
        if previous == self._terminated or not known or uwsgi() is not None:
            return
        if threading.current_thread() is threading.main_thread():
            self._previous = previous
            signal.signal(signal.SIGTERM, self._terminated)

    def _terminated(self, number: int, frame: FrameType | None) -> None:
        draining = [ending for ending in self._here() if ending.begin()]
        if callable(self._previous):
            self._previous(number, frame)
        elif not draining:
            signal.signal(
                number, signal.SIG_DFL
            )  # as if nobody had ever handled it: in a forked child, and after a stop
            os.kill(os.getpid(), number)
        elif not self._repeated():
            raise SystemExit(128 + number)

    def _repeated(self) -> bool:
        """Whether this signal is the one before, which was sent to the process and to its group."""
        now, before = time.monotonic(), self._terminated_at
        self._terminated_at = now
        return before is not None and now - before < REPEATED_SIGNAL

    def _here(self) -> list[Ending]:
        return [ending for ending, pid in list(self._endings.items()) if pid == os.getpid()]

    def _drain(self) -> None:
        """All begin before the first is waited for, so that their timeouts do not add up."""
        for ending in [each for each in self._here() if each.begin()]:
            ending.finish()

    def _finish(self) -> None:
        """What had nothing to drain, or was made meanwhile. Nothing but exit hooks runs any longer."""
        self._drain()
        for ending in self._here():
            ending.finish()


def _before_executors_end(hook: Callable[[], None]) -> None:
    """Call it before the executors of `concurrent.futures` are shut down: handlers that still run may use them.
    `atexit` comes after that. `threading` has no public name for this; without it, `atexit` is the next best."""
    try:
        import concurrent.futures.thread  # noqa: F401  # hooks run in reverse order: its own must come before ours

        getattr(threading, "_register_atexit", atexit.register)(hook)
    except RuntimeError:
        return  # the process is ending: only what `atexit` has is still called


exits = Exits()
"""A process ends once."""
