"""Who wants to be woken, and on which event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial

from ...core.ports import Topic, Unsubscribe
from .threads.calls import Post


class Listeners:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callbacks: dict[object, tuple[asyncio.AbstractEventLoop, Callable[[Topic], None]]] = {}

    def __bool__(self) -> bool:
        return bool(self._callbacks)

    def add(self, callback: Callable[[Topic], None]) -> Unsubscribe:
        key = object()
        with self._lock:
            self._callbacks[key] = (asyncio.get_running_loop(), callback)
        return partial(self._remove, key)

    def tell(self, post: Post, topics: set[Topic]) -> None:
        """Put the wake-ups into the post, for those who still listen when it arrives."""
        with self._lock:
            listening = list(self._callbacks.items())
        for key, (loop, _) in listening:
            if loop.is_closed():
                self._remove(key)
            else:
                post.add(loop, partial(self._wake, key, topics))

    def _wake(self, key: object, topics: set[Topic]) -> None:
        for topic in sorted(topics):
            entry = self._callbacks.get(key)
            if entry is not None:
                entry[1](topic)

    def _remove(self, key: object) -> None:
        with self._lock:
            self._callbacks.pop(key, None)
