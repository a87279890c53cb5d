"""Wake-ups through a channel of a Redis or Valkey server: hints to the other processes that something changed.

Errors are ignored: the store's own wake-ups and polling find what was not announced.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ..core.ports import Topic, Unsubscribe
from .client import RedisServer, on_own_loops

if TYPE_CHECKING:
    from redis.asyncio import Redis

_TOPICS = frozenset(topic.value for topic in Topic)
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 3.0
SILENCE = 10.0
"""Seconds without a message after which the server is pinged."""
LAST_WORDS = 1.0
"""Seconds that unsent announcements get when the application closes."""


class RedisWakeups:
    def __init__(self, url: str) -> None:
        self._server = RedisServer(url)
        self._sender = secrets.token_hex(8)
        self._channels: dict[asyncio.AbstractEventLoop, _Channel] = {}

    def announce(self, topics: Iterable[Topic]) -> None:
        """Wake every other process; returns at once."""
        if topics := set(topics):
            self._channel().announce(topics)

    def listen(self, callback: Callable[[Topic], None]) -> Unsubscribe:
        """Call back on the running event loop when another process announces something."""
        return self._channel().listen(callback)

    @property
    def hears(self) -> bool:
        """Whether wake-ups of other processes are known to come in."""
        return any(channel.hears for channel in self._channels.values())

    async def close(self) -> None:
        channels, self._channels = self._channels, {}
        await on_own_loops({loop: channel.close for loop, channel in channels.items()})
        await self._server.close()

    def _channel(self) -> _Channel:
        loop = asyncio.get_running_loop()
        if loop not in self._channels:
            self._channels = {known: channel for known, channel in self._channels.items() if not known.is_closed()}
            self._channels[loop] = _Channel(self._server.client(), self._server.key("wakeups"), self._sender)
        return self._channels[loop]


class _Channel:
    """Publishing and subscribing on one event loop. Topics announced while a message is being sent go with the next."""

    def __init__(self, client: Redis, name: str, sender: str) -> None:
        self._client, self._name, self._sender = client, name, sender
        self._unsent: set[Topic] = set()
        self._callbacks: dict[object, Callable[[Topic], None]] = {}
        self._publisher: asyncio.Task[None] | None = None
        self._subscriber: asyncio.Task[None] | None = None
        self.hears = False

    def announce(self, topics: set[Topic]) -> None:
        self._unsent |= topics
        if self._publisher is None:
            self._publisher = asyncio.create_task(self._publish(), name="mainspring-announce")

    def listen(self, callback: Callable[[Topic], None]) -> Unsubscribe:
        if self._subscriber is None:
            self._subscriber = asyncio.create_task(self._subscribe(), name="mainspring-listen")
        key = object()
        self._callbacks[key] = callback

        def unsubscribe() -> None:
            self._callbacks.pop(key, None)

        return unsubscribe

    async def close(self) -> None:
        """What was announced before is sent first, unless the server takes too long."""
        if self._publisher is not None:
            await asyncio.wait([self._publisher], timeout=LAST_WORDS)
        for task in (self._publisher, self._subscriber):
            if task is not None:
                await _end(task)

    async def _publish(self) -> None:
        from redis import RedisError

        try:
            while self._unsent:
                topics, self._unsent = self._unsent, set()
                with suppress(RedisError, OSError):
                    await self._client.publish(self._name, " ".join([self._sender, *sorted(topics)]))
        finally:
            self._publisher = None

    async def _subscribe(self) -> None:
        from redis import RedisError

        pause = FIRST_PAUSE
        while True:
            with suppress(RedisError, OSError):
                async with self._client.pubsub() as subscription:
                    await subscription.subscribe(self._name)
                    self._wake([Topic.ANY])  # announcements may have been missed before
                    pause, self.hears = FIRST_PAUSE, True
                    await self._receive_until_silent(subscription)
            self.hears = False
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _receive_until_silent(self, subscription: Any) -> None:
        """A server that does not answer a ping is gone, even if the connection is still open."""
        pinged = False
        while True:
            message = await subscription.get_message(timeout=SILENCE)
            if message is None:
                if pinged:
                    return
                await subscription.ping()
            elif message["type"] == "message":
                self._received(message["data"])
            pinged = message is None

    def _received(self, text: str) -> None:
        sender, *topics = text.split(" ")
        if sender != self._sender:
            known = [Topic(topic) for topic in topics if topic in _TOPICS]
            self._wake(known or [Topic.ANY])  # topics of a newer release may mean anything

    def _wake(self, topics: Iterable[Topic]) -> None:
        for topic in topics:
            for callback in list(self._callbacks.values()):
                callback(topic)


async def _end(task: asyncio.Task[None]) -> None:
    """Cancel a task until it has ended: the driver swallows cancellations while it connects."""
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=0.1)
