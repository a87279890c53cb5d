"""How `app.run()` runs a process: on which event loop, and how it stops.

The first stop signal drains, the second stops at once. A watchdog ends the process even if a handler blocks the event
loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from importlib.util import find_spec
from types import FrameType
from typing import Any, TypeVar

from ..model.errors import ConfigurationError
from ..model.values.terminal_text import on_terminal

T = TypeVar("T")

SIGNALS = (signal.SIGTERM, signal.SIGINT)
LEFTOVER_PATIENCE = 0.5
"""Seconds that cancelled tasks and the default executor get to end."""
REPEATED_SIGNAL = 0.5
"""Seconds within which a second signal counts as the first: it was sent to the process and to its group."""
CANNOT_START = 2
"""The exit code, as for bad input on the command line."""
STOPPED_AT_ONCE = "mainspring: stopped at once; what was running is taken over when its lease ends\n"
MESSAGE_PATIENCE = 0.5
"""Seconds for writing the last message, which nothing may be reading."""


def uses_uvloop(wanted: bool | str) -> bool:
    """Whether the setting `uvloop` (true, false or "auto") means uvloop here: "auto" uses it where it is installed."""
    installed = find_spec("uvloop") is not None
    if wanted is True and not installed:
        raise ConfigurationError(
            'uvloop is set to true but is not installed; run: pip install "mainspring[uvloop]", or set it to auto'
        )
    return installed and wanted is not False


def new_event_loop(uvloop: bool | str) -> asyncio.AbstractEventLoop:
    if not uses_uvloop(uvloop):
        return asyncio.new_event_loop()
    from uvloop import new_event_loop as new_uvloop  # importing it costs memory and time

    return new_uvloop()


class StopSignals:
    """Counts stop signals while it is installed. Signal handlers of Python run even while a job blocks the loop."""

    def __init__(self, stop_timeout: float) -> None:
        self._stop_timeout = stop_timeout
        self._loop = asyncio.get_running_loop()
        self._previous: dict[int, Any] = {}
        self._first_at: float | None = None
        self.first, self.second = asyncio.Event(), asyncio.Event()

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            self._previous = {number: signal.signal(number, self._received) for number in SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    @property
    def left(self) -> float:
        """Seconds until the process has to have ended."""
        since = 0.0 if self._first_at is None else time.monotonic() - self._first_at
        return self._stop_timeout - since

    def _received(self, number: int, frame: FrameType | None) -> None:
        """A signal may interrupt this method: it reads and writes `_first_at` before anything else."""
        now = time.monotonic()
        if self._first_at is None:
            self._first_at = now
            self._loop.call_soon_threadsafe(self.first.set)
            start_watchdog(self._stop_timeout)
        elif now - self._first_at >= REPEATED_SIGNAL:
            self._loop.call_soon_threadsafe(self.second.set)


def start_watchdog(seconds: float) -> None:
    """End the process after so many seconds, whatever it is doing then."""
    timer = threading.Timer(seconds, end_process, (seconds,))
    timer.daemon = True
    timer.start()


def end_process(seconds: float) -> None:
    """Because it has not stopped within so many seconds."""
    _exit_with(f"mainspring: not stopped after {seconds:g} s (a handler blocks the event loop?); exiting now\n")


def end_at_once() -> None:
    """Because a second signal came."""
    _exit_with(STOPPED_AT_ONCE)


def _exit_with(message: str) -> None:
    try:
        writer = threading.Thread(target=_write_message, args=(message,), daemon=True)
        writer.start()
        writer.join(MESSAGE_PATIENCE)
    finally:
        os._exit(1)


def cannot_start(error: Exception) -> SystemExit:
    """The exit of a process that cannot start, after one line that says why."""
    logging.getLogger("mainspring").debug("cannot start", exc_info=error)
    _write_message(on_terminal(f"error: {' '.join(str(error).split())}\n"))
    return SystemExit(CANNOT_START)


def _write_message(message: str) -> None:
    """Flushes the log first."""
    for handler in logging.getLogger().handlers:
        handler.flush()
    sys.stderr.write(message)
    sys.stderr.flush()


async def serve(
    start: Callable[[], Coroutine[Any, Any, None]],
    stop: Callable[[], Coroutine[Any, Any, int]],
    close: Callable[[], Awaitable[None]],
    stop_timeout: float,
) -> bool:
    """Start, wait for a stop signal, drain, and return whether all work was recorded or handed back; when a second
    signal comes, return False at once. A stop signal also ends a start that waits for its database."""
    with StopSignals(stop_timeout) as signals:
        await _started(start, signals)
        _spare_the_collector()
        await signals.first.wait()
        stopping = asyncio.create_task(stop())
        at_once = asyncio.create_task(signals.second.wait())
        await asyncio.wait({stopping, at_once}, return_when=asyncio.FIRST_COMPLETED)
        at_once.cancel()
        if not stopping.done():
            stopping.cancel()
            sys.stderr.write(STOPPED_AT_ONCE)
            return False
        unsettled = await stopping
        with contextlib.suppress(TimeoutError):  # a server that does not answer: the process ends all the same
            async with asyncio.timeout(signals.left - LEFTOVER_PATIENCE):
                await close()
        return not unsettled


def _spare_the_collector() -> None:
    """What exists once the process has started lives as long as the process does. A full collection that looked at it
    again would stop everything for up to a tenth of a second."""
    gc.collect()
    gc.freeze()


async def _started(start: Callable[[], Coroutine[Any, Any, None]], signals: StopSignals) -> None:
    """Returns when the start is done or was given up because of a signal."""
    starting = asyncio.create_task(start())
    asked = asyncio.create_task(signals.first.wait())
    await asyncio.wait({starting, asked}, return_when=asyncio.FIRST_COMPLETED)
    asked.cancel()
    if not starting.done():
        starting.cancel()
        await asyncio.wait({starting})
    if not starting.cancelled():
        await starting


def refuse_inside_loop() -> None:
    """`app.run()` makes an event loop of its own, which cannot be done inside another one."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    remedy = "inside one, write await app.start(), or async with app.lifespan()"
    raise ConfigurationError(f"app.run() makes an event loop of its own, but one is running already; {remedy}")


def run_to_end(
    main: Callable[[], Coroutine[Any, Any, T]],
    new_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop,
) -> T:
    """As `asyncio.run`, but never waiting for tasks that refuse to be cancelled."""
    loop = new_loop()
    try:
        asyncio.set_event_loop(loop)
        result = _run_through(loop, loop.create_task(main()))
        loop.run_until_complete(wind_up())
        return result
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def _run_through(loop: asyncio.AbstractEventLoop, main: asyncio.Task[T]) -> T:
    """Run until it is done. A SystemExit in a task that a handler started stops the loop. It is that handler's error:
    go on."""
    while True:
        try:
            return loop.run_until_complete(main)
        except (SystemExit, KeyboardInterrupt):
            if main.done():
                raise


async def wind_up() -> None:
    """End what is left on this event loop: tasks, asynchronous generators, threads of the default executor."""
    loop = asyncio.get_running_loop()
    await cancel_leftovers()
    await loop.shutdown_asyncgens()
    with contextlib.suppress(TimeoutError, RuntimeError):  # at exit, Python 3.12.0 and 3.12.1 refuse new threads
        await asyncio.wait_for(loop.shutdown_default_executor(), LEFTOVER_PATIENCE)


async def cancel_leftovers() -> None:
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left, timeout=LEFTOVER_PATIENCE)
