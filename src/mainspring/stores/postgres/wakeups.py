"""Wake-ups between processes by NOTIFY, under load at most every 50 ms.

All commits with a notification share a lock, so NOTIFY runs in a transaction of its own, and seldom. The listener has
its own connection, a direct one where the others go through a pooler. It pings itself through that session: its own
ping coming back proves both the connection and the LISTEN. Behind a pooler in transaction mode that proves nothing,
because the ping may run in the session that was left listening; a ping from a second connection does not come back
then. So the first ping on a connection that is not direct is sent from a second one. Whenever it has connected, all
listeners of this process are woken, because anything may have happened meanwhile. Polling never stops, so a lost
notification costs only time.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Iterable
from functools import lru_cache

import psycopg

from ...core.ports import Topic
from ...model.errors import StoreError
from ..common.event_loops import end_task
from .connection.pool import Options, connect, is_direct
from .connection.wire import Wire
from .database import Database
from .statements import sql

SHORTEST, LONGEST = 0.01, 0.05  # seconds between two notifications of one process
PING_AFTER = 5.0  # seconds of silence
PING_PATIENCE = 4.0
PING_LOOK = 0.1
_RETRY_AT_MOST = 2.0
_TOPICS = {topic.value: topic for topic in Topic}


class Announcer:
    """Notifies other processes. The first topic is sent at once, those that follow soon after are sent together.

    The pause between two notifications grows while there is something to announce all the time: work that comes now
    and then is announced at once, a steady stream twenty times a second.
    """

    def __init__(self, db: Database, channel: str, origin: str) -> None:
        self._db, self._channel, self._origin = db, channel, origin
        self._news: set[Topic] = set()
        self._task: asyncio.Task[None] | None = None
        self._quiet_until = 0.0  # by the monotonic clock: something was announced just now

    def announce(self, topics: set[Topic]) -> None:
        self._news |= topics
        if self._task is None or self._task.done():
            wait = self._quiet_until - time.monotonic()
            self._task = asyncio.create_task(self._send(wait), name="mainspring-notify")

    def leading(self, topic: Topic) -> str | None:
        """The payload for a statement that announces the topic itself, if nothing was announced for a while: that saves
        a round trip. None: call `announce` afterwards."""
        now = time.monotonic()
        if now < self._quiet_until or (self._task is not None and not self._task.done()):
            return None
        self._quiet_until = now + SHORTEST
        return f"{self._origin} {topic}"

    async def close(self) -> None:
        """Sends what is left before the connections are closed."""
        await end_task(self._task)
        await self._flush()

    async def _send(self, wait: float) -> None:
        pause = 0.0
        if wait > 0:
            pause = SHORTEST
            await asyncio.sleep(wait)
        while self._news:
            await self._flush()
            pause = min(max(pause * 2, SHORTEST), LONGEST)
            await asyncio.sleep(pause)

    async def _flush(self) -> None:
        news, self._news = self._news, set()
        try:
            if news:
                await self._db.value("notify", self._channel, f"{self._origin} {','.join(sorted(news))}")
        except StoreError:
            pass  # only a hint: other processes poll
        except asyncio.CancelledError:
            self._news |= news
            raise


class NotificationListener:
    """Receives the notifications of other processes while it is open."""

    def __init__(
        self, options: Options | None, channel: str, origin: str, wake: Callable[[Iterable[Topic]], None]
    ) -> None:
        """Without options there is no connection to listen on."""
        self._options, self._channel, self._origin, self._wake = options, channel, origin, wake
        self._task: asyncio.Task[None] | None = None
        self._awaited: str | None = None  # our own ping that has not come back yet
        self.hears = False  # whether LISTEN is known to work at the moment

    def start(self) -> None:
        stopped = self._task is None or self._task.get_loop().is_closed()
        if stopped and self._options is not None:
            self._task = asyncio.create_task(self._run(self._options), name="mainspring-listen")

    async def close(self) -> None:
        await end_task(self._task)

    async def _run(self, options: Options) -> None:
        pause = 0.1
        while True:
            try:
                await self._listen(options)
            except (psycopg.Error, OSError, TimeoutError):
                pause = 0.1 if self.hears else min(pause * 2, _RETRY_AT_MOST)
            self.hears = False
            await asyncio.sleep(pause)

    async def _listen(self, options: Options) -> None:
        connection = await connect(options)
        wire = Wire(connection, PING_PATIENCE, prepares=False)
        try:
            wire.on_notification(self._notified)
            await wire.fetch(f"LISTEN {self._channel}", ())
            self._wake([Topic.ANY])
            if not is_direct(connection):
                await self._ping_from_outside(options, wire)
            while True:
                await wire.wait_unless_cut(PING_AFTER)
                await self._ping(wire, wire)
                self.hears = True
        finally:
            wire.close()

    async def _ping_from_outside(self, options: Options, wire: Wire) -> None:
        other = Wire(await connect(options), PING_PATIENCE, prepares=False)
        try:
            await self._ping(other, wire)
        finally:
            other.close()

    async def _ping(self, sender: Wire, wire: Wire) -> None:
        """The server has a few seconds to send our own notification back."""
        self._awaited = f"{self._origin} ping {secrets.token_hex(4)}"
        await sender.fetch(sql("notify", self._channel), (self._channel, self._awaited))
        for _ in range(round(PING_PATIENCE / PING_LOOK)):
            if self._awaited is None:  # it usually arrives before the answer
                return
            await wire.wait_unless_cut(PING_LOOK)
        raise TimeoutError

    def _notified(self, payload: str) -> None:
        if payload == self._awaited:
            self._awaited = None
        topics = _topics_of(payload, self._origin)
        if topics:
            self._wake(topics)


@lru_cache(maxsize=256)
def _topics_of(payload: str, own: str) -> tuple[Topic, ...]:
    """The payload is `ORIGIN topic,topic`; from the SQL function only the topics. A process ignores its own
    notifications and the pings of others. Cached, because payloads repeat."""
    origin, _, words = payload.rpartition(" ")
    if origin.partition(" ")[0] == own or origin.endswith(" ping"):
        return ()
    return tuple(_TOPICS.get(word, Topic.ANY) for word in words.split(","))
