"""Wake-ups: told at once inside this process, and to others through the collection `news`, at most every 50 ms.

Each process has one small document there, and counts up what it has news of. On a replica set others follow a change
stream of that collection alone: it costs the same whatever else is written. It goes on where it was when the line
broke; when it cannot, and whenever it has (re)connected, everybody is told that anything may have happened. A server
that stands alone has no change streams: there the documents are read once a second. Polling goes on all the time, so
losing all this costs only time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from pymongo.errors import OperationFailure, PyMongoError

from ...core.ports import Topic
from ..common.event_loops import end_task
from .connection.database import Database

INTERVAL = 0.05  # seconds between two announcements of one process
POLL = 1.0  # seconds between two looks where there is no change stream
_AWAIT_MS = 2_000
_PATIENCE = 8.0  # seconds in which the server has to answer, news or not
_RETRY_AT_MOST = 2.0
_TOPICS = {topic.value: topic for topic in Topic}


class Announcer:
    """Tells other processes. The first news goes out at once, what follows within the interval goes out together."""

    def __init__(self, here: Callable[[], Database], origin: str) -> None:
        self._here, self._origin = here, origin
        self._news: set[Topic] = set()
        self._task: asyncio.Task[None] | None = None

    def announce(self, topics: set[Topic]) -> None:
        self._news |= topics
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._send(), name="mainspring-news")

    async def close(self) -> None:
        """What is left is sent before the connections go."""
        await end_task(self._task)
        await self._flush()

    async def _send(self) -> None:
        while self._news:
            await self._flush()
            await asyncio.sleep(INTERVAL)

    async def _flush(self) -> None:
        news, self._news = self._news, set()
        try:
            if news:
                counted = {"$inc": {topic.value: 1 for topic in sorted(news)}, "$currentDate": {"at": True}}
                await self._here().news.update_one({"_id": self._origin}, counted, upsert=True)
        except PyMongoError:
            pass  # a hint: whoever misses it polls
        except asyncio.CancelledError:
            self._news |= news
            raise


def news_document(*topics: Topic) -> dict[str, Any]:
    """News of somebody who has no document of their own: a caller's transaction."""
    return {**{topic.value: 1 for topic in topics}, "at": datetime.now(UTC)}


class Ear:
    """Hears other processes, for as long as it is open."""

    def __init__(self, here: Callable[[], Database], origin: str, tell: Callable[[Iterable[Topic]], None]) -> None:
        self._here, self._origin, self._tell = here, origin, tell
        self._task: asyncio.Task[None] | None = None
        self._resume: Any = None
        self.hears = False  # whether news are known to come in at the moment

    def start(self) -> None:
        if self._task is None or self._task.get_loop().is_closed():
            self._task = asyncio.create_task(self._run(), name="mainspring-listen")

    async def close(self) -> None:
        await end_task(self._task)

    async def _run(self) -> None:
        pause = 0.1
        while True:
            try:
                await (self._follow() if await has_transactions(self._here()) else self._poll())
            except (PyMongoError, OSError, TimeoutError) as error:
                pause = 0.1 if self.hears else min(pause * 2, _RETRY_AT_MOST)
                if isinstance(error, OperationFailure) and not self.hears:
                    self._resume = None  # the place it wanted to go on from is gone
            self.hears = False
            await asyncio.sleep(pause)

    async def _follow(self) -> None:
        others = {"$match": {"documentKey._id": {"$ne": self._origin}, "operationType": {"$ne": "delete"}}}
        news = self._here().news
        async with asyncio.timeout(_PATIENCE):
            stream = await news.watch([others], resume_after=self._resume, max_await_time_ms=_AWAIT_MS)
        async with stream:
            self._tell([Topic.ANY])
            while stream.alive:
                async with asyncio.timeout(_PATIENCE):
                    event = await stream.try_next()
                self._resume, self.hears = stream.resume_token, True
                if event is not None:
                    self._heard(_changed(event))

    async def _poll(self) -> None:
        known: dict[Any, dict[str, Any]] | None = None
        while True:
            async with asyncio.timeout(_PATIENCE):
                found = {doc.pop("_id"): doc for doc in await self._here().news.find().to_list()}
            if known is None:
                self._tell([Topic.ANY])
            else:
                for id, doc in found.items():
                    before = known.get(id, {})
                    if id != self._origin:
                        self._heard([name for name, value in doc.items() if value != before.get(name)])
            known, self.hears = found, True
            await asyncio.sleep(POLL)

    def _heard(self, names: Iterable[str]) -> None:
        topics = [_TOPICS[name] for name in names if name in _TOPICS]
        if topics:
            self._tell(topics)


def _changed(event: dict[str, Any]) -> list[str]:
    """What a change was about; one of a kind we do not know (the collection dropped, for instance) about anything."""
    if event["operationType"] == "update":
        return list(event["updateDescription"]["updatedFields"])
    if event["operationType"] in ("insert", "replace"):
        return list(event["fullDocument"])
    return [Topic.ANY.value]


async def has_transactions(db: Database) -> bool:
    """Replica sets and sharded clusters have transactions and change streams, a single server has neither."""
    hello = await db.plain.command("hello")
    return "setName" in hello or hello.get("msg") == "isdbgrid"
