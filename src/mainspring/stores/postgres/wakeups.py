"""Wake-ups: told at once inside this process, and to others by NOTIFY, under load at most every 50 ms.

NOTIFY takes a lock that all commits with a notification share; it therefore travels in a transaction of its own, and
seldom. The listener has its own connection, direct where the rest goes through a pooler. It is pinged through that
very session: what it hears of its own ping proves both the line and the LISTEN. Whenever it has (re)connected,
everybody is told that anything may have happened. Polling goes on all the time, so losing all this costs only time.
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
from .connection.pool import Options, connect
from .connection.wire import Line
from .database import Database
from .statements import sql

SHORTEST, LONGEST = 0.01, 0.05  # seconds between two notifications of one process
PING_AFTER = 5.0  # seconds of silence
PING_PATIENCE = 4.0
PING_LOOK = 0.1
_RETRY_AT_MOST = 2.0
_TOPICS = {topic.value: topic for topic in Topic}


class Announcer:
    """Tells other processes. The first news goes out at once, what follows soon after goes out together.

    The pause between two notifications grows while there is news all the time. Work that comes now and then is
    announced at once each time; a steady stream of it twenty times a second.
    """

    def __init__(self, db: Database, channel: str, origin: str) -> None:
        self._db, self._channel, self._origin = db, channel, origin
        self._news: set[Topic] = set()
        self._task: asyncio.Task[None] | None = None
        self._quiet_until = 0.0  # by the monotonic clock: something was said just now

    def announce(self, topics: set[Topic]) -> None:
        self._news |= topics
        if self._task is None or self._task.done():
            wait = self._quiet_until - time.monotonic()
            self._task = asyncio.create_task(self._send(wait), name="mainspring-notify")

    def leading(self, topic: Topic) -> str | None:
        """What to say in a statement that makes news itself, if nothing was said for a while: that saves whoever is
        idle a round trip. None: `announce` it afterwards."""
        now = time.monotonic()
        if now < self._quiet_until or (self._task is not None and not self._task.done()):
            return None
        self._quiet_until = now + SHORTEST
        return f"{self._origin} {topic}"

    async def close(self) -> None:
        """What is left is sent before the connections go."""
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
            pass  # a hint: whoever misses it polls
        except asyncio.CancelledError:
            self._news |= news
            raise


class Ear:
    """Hears other processes, for as long as it is open."""

    def __init__(
        self, options: Options | None, channel: str, origin: str, tell: Callable[[Iterable[Topic]], None]
    ) -> None:
        """Without options there is no line to listen on."""
        self._options, self._channel, self._origin, self._tell = options, channel, origin, tell
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
        line = Line(await connect(options), PING_PATIENCE, prepares=False)
        try:
            line.hear(self._heard)
            await line.fetch(f"LISTEN {self._channel}", ())
            self._tell([Topic.ANY])
            while True:
                await line.until_cut(PING_AFTER)
                await self._ping(line)
                self.hears = True
        finally:
            line.close()

    async def _ping(self, line: Line) -> None:
        """The server has a few seconds to send our own words back to us."""
        self._awaited = f"{self._origin} ping {secrets.token_hex(4)}"
        await line.fetch(sql("notify", self._channel), (self._channel, self._awaited))
        for _ in range(round(PING_PATIENCE / PING_LOOK)):
            if self._awaited is None:  # as a rule it comes before the answer
                return
            await line.until_cut(PING_LOOK)
        raise TimeoutError

    def _heard(self, payload: str) -> None:
        if payload == self._awaited:
            self._awaited = None
        topics = _topics_of(payload, self._origin)
        if topics:
            self._tell(topics)


@lru_cache(maxsize=256)
def _topics_of(payload: str, own: str) -> tuple[Topic, ...]:
    """`ORIGIN topic,topic`; from the SQL function, or a trigger, only the topics. Pings are for who sent them. Whoever
    sends says the same again and again, and whoever hears is in a hurry."""
    origin, _, words = payload.rpartition(" ")
    if origin.partition(" ")[0] == own or origin.endswith(" ping"):
        return ()
    return tuple(_TOPICS.get(word, Topic.ANY) for word in words.split(","))
