"""Wake-ups through a channel of a Redis or Valkey server: a hint to every other process that something changed.

Whatever goes wrong is passed over in silence: the store's own wake-ups and polling find what nobody was told of.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ..core.ports import Topic, Unsubscribe
from .client import Place, on_its_own_loop

if TYPE_CHECKING:
    from redis.asyncio import Redis

_TOPICS = frozenset(topic.value for topic in Topic)
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 3.0
SILENCE = 10.0
"""Seconds without a word after which the server is asked whether it is still there."""


class RedisWakeups:
    def __init__(self, url: str) -> None:
        self._place = Place(url)
        self._sender = secrets.token_hex(8)
        self._lines: dict[asyncio.AbstractEventLoop, _Line] = {}

    def announce(self, topics: Iterable[Topic]) -> None:
        """Tell every other process; returns at once."""
        if topics := set(topics):
            self._line().announce(topics)

    def listen(self, callback: Callable[[Topic], None]) -> Unsubscribe:
        """Call back on the running event loop when another process announces something."""
        return self._line().listen(callback)

    @property
    def hears(self) -> bool:
        """Whether wake-ups of other processes are known to come in."""
        return any(line.hears for line in self._lines.values())

    async def close(self) -> None:
        lines, self._lines = self._lines, {}
        await on_its_own_loop({loop: line.close for loop, line in lines.items()})
        await self._place.close()

    def _line(self) -> _Line:
        loop = asyncio.get_running_loop()
        if loop not in self._lines:
            self._lines = {known: line for known, line in self._lines.items() if not known.is_closed()}
            self._lines[loop] = _Line(self._place.client(), self._place.key("wakeups"), self._sender)
        return self._lines[loop]


class _Line:
    """Both ends of the channel on one event loop. What is announced while a message is under way goes with the next."""

    def __init__(self, client: Redis, channel: str, sender: str) -> None:
        self._client, self._channel, self._sender = client, channel, sender
        self._unsaid: set[Topic] = set()
        self._callbacks: dict[object, Callable[[Topic], None]] = {}
        self._mouth: asyncio.Task[None] | None = None
        self._ear: asyncio.Task[None] | None = None
        self.hears = False

    def announce(self, topics: set[Topic]) -> None:
        self._unsaid |= topics
        if self._mouth is None:
            self._mouth = asyncio.create_task(self._speak(), name="mainspring-announce")

    def listen(self, callback: Callable[[Topic], None]) -> Unsubscribe:
        if self._ear is None:
            self._ear = asyncio.create_task(self._hear(), name="mainspring-hear")
        me = object()
        self._callbacks[me] = callback

        def unsubscribe() -> None:
            self._callbacks.pop(me, None)

        return unsubscribe

    async def close(self) -> None:
        for task in (self._mouth, self._ear):
            if task is not None:
                await _ended(task)

    async def _speak(self) -> None:
        from redis import RedisError

        try:
            while self._unsaid:
                topics, self._unsaid = self._unsaid, set()
                with suppress(RedisError, OSError):
                    await self._client.publish(self._channel, " ".join([self._sender, *sorted(topics)]))
        finally:
            self._mouth = None

    async def _hear(self) -> None:
        from redis import RedisError

        pause = FIRST_PAUSE
        while True:
            with suppress(RedisError, OSError):
                async with self._client.pubsub() as channel:
                    await channel.subscribe(self._channel)
                    self._tell([Topic.ANY])  # whatever was said while we did not listen
                    pause, self.hears = FIRST_PAUSE, True
                    await self._hear_until_silent(channel)
            self.hears = False
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _hear_until_silent(self, channel: Any) -> None:
        """A server that does not answer even when asked is gone, though nobody has hung up."""
        asked = False
        while True:
            message = await channel.get_message(timeout=SILENCE)
            if message is None:
                if asked:
                    return
                await channel.ping()
            elif message["type"] == "message":
                self._heard(message["data"])
            asked = message is None

    def _heard(self, text: str) -> None:
        sender, *topics = text.split(" ")
        if sender != self._sender:
            known = [Topic(topic) for topic in topics if topic in _TOPICS]
            self._tell(known or [Topic.ANY])  # a newer release may know more

    def _tell(self, topics: Iterable[Topic]) -> None:
        for topic in topics:
            for callback in list(self._callbacks.values()):
                callback(topic)


async def _ended(task: asyncio.Task[None]) -> None:
    """While the driver connects it swallows a cancellation: it is asked until it hears."""
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=0.1)
