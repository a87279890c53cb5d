"""Wake-ups inside one process: each listener is called on the event loop it registered from."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import Lock

from ...core.ports import Topic, Unsubscribe


class Listeners:
    def __init__(self) -> None:
        self._listeners: set[_Listener] = set()

    def add(self, callback: Callable[[Topic], None]) -> Unsubscribe:
        listener = _Listener(callback, asyncio.get_running_loop())
        self._listeners.add(listener)
        return lambda: self._remove(listener)

    def tell(self, *topics: Topic) -> None:
        for listener in tuple(self._listeners):
            try:
                listener.wake(topics)
            except RuntimeError:  # its loop is closed: nobody listens any more
                self._remove(listener)

    def _remove(self, listener: _Listener) -> None:
        listener.stopped = True
        self._listeners.discard(listener)


class _Listener:
    """One callback. Wake-ups about the same topic that have not been delivered yet become one."""

    def __init__(self, callback: Callable[[Topic], None], loop: asyncio.AbstractEventLoop) -> None:
        self.stopped = False
        self._callback = callback
        self._loop = loop
        self._pending: dict[Topic, None] = {}
        self._lock = Lock()

    def wake(self, topics: tuple[Topic, ...]) -> None:
        with self._lock:
            scheduled = bool(self._pending)
            self._pending.update(dict.fromkeys(topics))
        if not scheduled:
            here = _running_loop() is self._loop
            schedule = self._loop.call_soon if here else self._loop.call_soon_threadsafe
            schedule(self._deliver)

    def _deliver(self) -> None:
        with self._lock:
            topics, self._pending = self._pending, {}
        for topic in topics:
            if not self.stopped:
                self._callback(topic)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
