"""Calling async methods from blocking code: on an event loop in a background thread.

The thread starts when it is first needed, and a forked child starts its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, TypeVar, cast

from ..core.loops import inside_event_loop

T = TypeVar("T")


class BackgroundLoop:
    """An event loop on a daemon thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._run, name="mainspring-sync", daemon=True)
        self._closing = False
        self.thread.start()

    def _run(self) -> None:
        """A SystemExit in a task that a handler started stops the loop. It is that handler's error: go on."""
        while not self._closing:
            with contextlib.suppress(SystemExit, KeyboardInterrupt):
                self.loop.run_forever()

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    def close(self) -> None:
        self._closing = True
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


class Caller:
    """Runs coroutines to their end for blocking code."""

    def __init__(self) -> None:
        self._background: BackgroundLoop | None = None
        self._lock = threading.Lock()
        os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        self._lock = threading.Lock()
        self._background = None

    @property
    def started(self) -> bool:
        return self._background is not None

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if inside_event_loop():
            coroutine.close()
            raise RuntimeError("app.sync blocks and would stop this event loop: await the method of app itself instead")
        with self._lock:
            if self._background is None:
                self._background = BackgroundLoop()
        return self._background.call(coroutine)

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
            background, self._background = self._background, None
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
