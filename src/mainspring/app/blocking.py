"""Calling async methods from blocking code: on an event loop in a background thread.

The thread starts when it is first needed, ends with the process (`exits`), and a forked child starts its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
import time
from collections.abc import AsyncGenerator, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, Protocol, TypeVar, cast

from ..config.settings import Settings
from ..core.loops import inside_event_loop
from .exits import exits
from .process import LEFTOVER_PATIENCE, cancel_leftovers, end_at_once, end_process, wind_up

T = TypeVar("T")


class Application(Protocol):
    """The part of a `Runtime` that ends with the process."""

    settings: Settings

    @property
    def has_roles(self) -> bool: ...

    def runs_on(self, loop: asyncio.AbstractEventLoop) -> bool: ...

    async def stop(self, timeout: float | None = None) -> int: ...

    async def close(self) -> None: ...


class LoopEnded(RuntimeError):
    """The background loop has ended meanwhile."""


class BackgroundLoop:
    """An event loop on a daemon thread of its own. When the process ends it drains first, within the stop timeout."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self.loop = asyncio.new_event_loop()
        self.pid = os.getpid()
        self.thread = threading.Thread(target=self._run, name="mainspring-sync", daemon=True)
        self._lock, self.ended = threading.RLock(), False  # a signal handler may interrupt the thread that has it
        self._stopping: Future[int] | None = None
        self._timeout, self._deadline = 0.0, 0.0
        self.thread.start()
        exits.add(self)

    def _run(self) -> None:
        """A SystemExit in a task that a handler started stops the loop. It is that handler's error: go on."""
        while not self.ended:
            with contextlib.suppress(SystemExit, KeyboardInterrupt):
                self.loop.run_forever()
        with contextlib.suppress(SystemExit, KeyboardInterrupt):
            self.loop.run_until_complete(cancel_leftovers())  # nobody may wait for them for ever
        self.loop.close()

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.submit(coroutine).result()

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        with self._lock:
            if self.ended:
                raise LoopEnded
            return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def close(self, timeout: float | None = None) -> None:
        exits.discard(self)
        with self._lock:
            self.ended = True
            self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(timeout)

    # --- the end of the process ---------------------------------------------------------------------------
    def begin(self) -> bool:
        begun = self._stopping is not None and not self._stopping.done()
        if not begun and self._application.runs_on(self.loop):
            self._set_deadline()
            self._stopping = self.submit(self._application.stop())
        return self._stopping is not None

    def _set_deadline(self) -> None:
        self._timeout = self._application.settings.stop_timeout
        self._deadline = time.monotonic() + self._timeout

    def finish(self) -> None:
        """The main thread waits here, so that it can be interrupted: a second signal ends the process at once."""
        try:
            if self._stopping is not None:
                self._wait(self._stopping, self._left)
                self._disconnect()
            elif not self._application.has_roles:  # those on another event loop are for their own caller to stop
                self._set_deadline()
                self._disconnect()
        except TimeoutError:
            end_process(self._timeout)
        except (KeyboardInterrupt, SystemExit):
            end_at_once()
        self.close(LEFTOVER_PATIENCE)

    def _disconnect(self) -> None:
        self._wait(self.submit(self._application.close()), self._left - LEFTOVER_PATIENCE, essential=False)
        self._wait(self.submit(wind_up()), self._left)

    def _wait(self, future: Future[Any], timeout: float, essential: bool = True) -> None:
        """A server that does not answer cannot hold up the closing of connections, which is not essential."""
        try:
            future.result(max(0.0, timeout))
        except TimeoutError:
            future.cancel()
            if essential:
                raise
        except Exception as error:
            level = logging.WARNING if essential else logging.DEBUG
            logging.getLogger("mainspring").log(level, "the application could not be stopped", exc_info=error)

    @property
    def _left(self) -> float:
        return max(0.0, self._deadline - time.monotonic())


class Caller:
    """Runs coroutines to their end for blocking code."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._made: BackgroundLoop | None = None
        self._lock = threading.Lock()
        os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        self._lock = threading.Lock()

    @property
    def _background(self) -> BackgroundLoop | None:
        """None in a forked child, whose parent kept the thread. Some servers fork without calling Python's hooks. None
        as well when it has drained at the end of the process, which still runs exit hooks and threads."""
        made = self._made
        return made if made is not None and made.pid == os.getpid() and not made.ended else None

    @property
    def started(self) -> bool:
        return self._background is not None

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if inside_event_loop():
            coroutine.close()
            raise RuntimeError("app.sync blocks and would stop this event loop: await the method of app itself instead")
        return self._submit(coroutine).result()

    def _submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        with self._lock:
            if (background := self._background) is not None:
                with contextlib.suppress(LoopEnded):
                    return background.submit(coroutine)
            self._made = BackgroundLoop(self._application)
            return self._made.submit(coroutine)

    @contextmanager
    def entered(self, manager: AbstractAsyncContextManager[T]) -> Iterator[T]:
        """An asynchronous context manager, entered and left on the background loop, around blocking code."""
        value = self.call(_enter(manager))
        try:
            yield value
        except BaseException as error:
            if not self.call(_exit(manager, error)):
                raise
        else:
            self.call(_exit(manager, None))

    def iterated(self, items: AsyncGenerator[T, None]) -> Iterator[T]:
        """An asynchronous generator. Its steps run on the background loop, and block until there is an item."""
        try:
            while (item := self.call(_next(items))) is not _NO_MORE:
                yield cast(T, item)
        finally:
            with contextlib.suppress(RuntimeError):  # a step goes on: the caller was interrupted while it waited
                self.call(_close(items))

    def close(self) -> None:
        """End the background thread."""
        with self._lock:
            background, self._made = self._background, None
        if background is not None:
            background.close()


_NO_MORE = object()


async def _next(items: AsyncGenerator[T, None]) -> T | object:
    return await anext(items, _NO_MORE)


async def _close(items: AsyncGenerator[Any, None]) -> None:
    await items.aclose()


async def _enter(manager: AbstractAsyncContextManager[T]) -> T:
    return await manager.__aenter__()


async def _exit(manager: AbstractAsyncContextManager[Any], error: BaseException | None) -> bool:
    try:
        where = None if error is None else error.__traceback__
        return bool(await manager.__aexit__(None if error is None else type(error), error, where))
    except BaseException as raised:
        if raised is error:
            return False
        raise
