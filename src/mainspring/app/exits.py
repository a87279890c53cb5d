"""How the background loop of `app.sync` ends with its process: after the drain, and never by surprise.

Whatever ends a process in good order (its last line, `sys.exit`, an exception, Ctrl-C, the server around it) leads
through the exit hook, which drains. SIGTERM would end a plain Python process at once: where nobody handles it, it
becomes a `SystemExit`. Where a server or the application handles it, the drain begins at the signal, and the handler
that was there decides the rest.
"""

from __future__ import annotations

import atexit
import concurrent.futures.thread  # noqa: F401  # hooks run in reverse order: its own must be registered before ours
import os
import signal
import threading
import time
from collections.abc import Callable, Container
from importlib import import_module
from types import FrameType
from typing import Any, Protocol

from ..model.errors import ConfigurationError
from .process import REPEATED_SIGNAL

UWSGI_WITH_THREADS = (2, 0, 30)
"""The first release that always lets threads run between requests."""


class Ending(Protocol):
    """What has to end before its process does."""

    def begin(self) -> None:
        """Begin to drain, and return at once. Called by a signal handler."""

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
            _register(self._finish)

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
        for ending in self._here():
            ending.begin()
        if callable(self._previous):
            self._previous(number, frame)
        elif not self._repeated():
            raise SystemExit(128 + number)

    def _repeated(self) -> bool:
        """Whether this signal is the one before, which was sent to the process and to its group."""
        now, before = time.monotonic(), self._terminated_at
        self._terminated_at = now
        return before is not None and now - before < REPEATED_SIGNAL

    def _here(self) -> list[Ending]:
        return [ending for ending, pid in list(self._endings.items()) if pid == os.getpid()]

    def _finish(self) -> None:
        """All begin before the first is waited for, so that their timeouts do not add up."""
        endings = self._here()
        for ending in endings:
            ending.begin()
        for ending in endings:
            ending.finish()


def _register(hook: Callable[[], None]) -> None:
    """Before the executors of `concurrent.futures` are shut down: handlers that still run may use them. `atexit` comes
    after that. `threading` has no public name for this; without it, `atexit` is the next best."""
    getattr(threading, "_register_atexit", atexit.register)(hook)


exits = Exits()
"""A process ends once."""


# --- uWSGI ----------------------------------------------------------------------------------------------------------


def uwsgi() -> Any:
    """The module that exists only inside a process of uWSGI; None elsewhere."""
    try:
        return import_module("uwsgi")
    except ImportError:
        return None


def refuse_without_threads() -> None:
    """Without threads, uWSGI stops the background thread between requests: leases would run out while jobs run."""
    server = uwsgi()
    if server is not None and not threads_enabled(server.version, server.opt):
        raise ConfigurationError(
            "uWSGI runs no threads between requests, so no job can run in its workers; set enable-threads = true in "
            "its configuration, or only enqueue here and run `mainspring worker` beside it"
        )


def threads_enabled(version: bytes | str, options: Container[str]) -> bool:
    """By the release of uWSGI and the options it was started with."""
    text = version.decode() if isinstance(version, bytes) else version
    numbers = tuple(int(part) for part in text.split("-")[0].split(".")[:3] if part.isdigit())
    return numbers >= UWSGI_WITH_THREADS or "enable-threads" in options or "threads" in options


def after_uwsgi_fork(start: Callable[[], None]) -> bool:
    """In the master of uWSGI, which loads the application and then forks its workers: let each worker call `start`, and
    return True. Threads of the master would never run again."""
    server = uwsgi()
    if server is None or server.worker_id() != 0 or server.masterpid() != os.getpid():
        return False
    import_module("uwsgidecorators").postfork(start)
    return True
