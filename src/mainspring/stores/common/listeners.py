"""Wake-ups inside one process: each listener is called on the event loop it subscribed from."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeAlias

from ...core.ports import Topic, Unsubscribe

Delivery: TypeAlias = tuple[asyncio.AbstractEventLoop, Callable[[], None]]
"""An event loop, and the call that wakes one listener there."""


class Listeners:
    """Subscribers to wake-ups. Every method may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callbacks: dict[object, tuple[asyncio.AbstractEventLoop, Callable[[Topic], None]]] = {}

    def __bool__(self) -> bool:
        return bool(self._callbacks)

    def add(self, callback: Callable[[Topic], None]) -> Unsubscribe:
        """Call back on the running event loop until unsubscribed."""
        key = object()
        with self._lock:
            self._callbacks[key] = (asyncio.get_running_loop(), callback)
        return partial(self._remove, key)

    def wake(self, topics: Iterable[Topic]) -> None:
        """Call the listeners of the running loop at once, and schedule the calls of all others on their own loops."""
        if not self._callbacks:
            return
        here = _running_loop()
        for loop, deliver in self.deliveries(topics):
            if loop is here:
                deliver()
                continue
            try:
                loop.call_soon_threadsafe(deliver)
            except RuntimeError:  # the loop was closed: `deliveries` drops its listeners next time
                continue

    def deliveries(self, topics: Iterable[Topic]) -> list[Delivery]:
        """The calls that wake everybody, for a store that sends them to each loop along with something else."""
        wanted = sorted(set(topics))
        with self._lock:
            closed = [key for key, (loop, _) in self._callbacks.items() if loop.is_closed()]
            for key in closed:
                del self._callbacks[key]
            return [(loop, partial(self._deliver, key, wanted)) for key, (loop, _) in self._callbacks.items()]

    def _deliver(self, key: object, topics: list[Topic]) -> None:
        """A failing listener must not fail the operation that woke it: the loop's exception handler gets the error."""
        for topic in topics:
            subscribed = self._callbacks.get(key)
            if subscribed is None:
                return
            loop, callback = subscribed
            try:
                callback(topic)
            except Exception as error:
                loop.call_exception_handler({"message": f"a listener failed on wake-up {topic!r}", "exception": error})

    def _remove(self, key: object) -> None:
        with self._lock:
            self._callbacks.pop(key, None)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
