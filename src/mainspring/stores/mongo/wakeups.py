"""Wake-ups: sent at once inside this process, and to others through the collection `wakeups`, at most every 50 ms.

Each process has one small document there, with one counter per topic. On a replica set the others follow a change
stream of that collection alone, whose cost does not depend on other writes. After a broken connection it resumes where
it was; if it cannot, and after every (re)connect, listeners are woken for topic ANY. A standalone server has no change
streams: there the documents are read once a second. Polling never stops, so a lost wake-up only costs time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from ...core.ports import Topic
from ...model.errors import StoreError, StoreUnavailable
from ..common.event_loops import end_task
from .connection.database import CLOSING, Database
from .connection.errors import translating

INTERVAL = 0.05  # seconds between two announcements of one process
POLL = 1.0  # seconds between two reads where there is no change stream
_AWAIT_MS = 2_000
_PATIENCE = 8.0  # seconds in which the server has to answer, with events or without
_RETRY_AT_MOST = 2.0
_TOPICS = {topic.value: topic for topic in Topic}


class Announcer:
    """Wakes other processes. The first announcement is sent at once, later ones within the interval are sent together.

    A wake-up is a hint: one that cannot be sent is dropped, because the others poll.
    """

    def __init__(self, here: Callable[[], Database], origin: str) -> None:
        self._here, self._origin = here, origin
        self._unsent: set[Topic] = set()
        self._task: asyncio.Task[None] | None = None

    def announce(self, topics: Iterable[Topic]) -> None:
        self._unsent.update(topics)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._send(), name="mainspring-announce")

    async def close(self) -> None:
        """Sends what is unsent before the connections are closed, if the server answers at once."""
        await end_task(self._task)
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSING):
                await self._flush()

    async def _send(self) -> None:
        while self._unsent:
            await self._flush()
            await asyncio.sleep(INTERVAL)

    async def _flush(self) -> None:
        topics, self._unsent = self._unsent, set()
        try:
            if topics:
                counted = {"$inc": {topic.value: 1 for topic in sorted(topics)}, "$currentDate": {"at": True}}
                await self._here().wakeups.update_one({"_id": self._origin}, counted, upsert=True)
        except StoreError:
            pass
        except asyncio.CancelledError:
            self._unsent |= topics
            raise


def wakeup_document(*topics: Topic) -> dict[str, Any]:
    """For a caller's transaction, which has no document of its own."""
    return {**{topic.value: 1 for topic in topics}, "at": datetime.now(UTC)}


class WakeupListener:
    """Receives the announcements of other processes, for as long as it is open."""

    def __init__(self, here: Callable[[], Database], origin: str, wake: Callable[[Iterable[Topic]], None]) -> None:
        self._here, self._origin, self._wake = here, origin, wake
        self._task: asyncio.Task[None] | None = None
        self._resume: Any = None
        self.hears = False  # whether announcements are known to come in at the moment

    def start(self) -> None:
        if self._task is None or self._task.get_loop().is_closed():
            self._task = asyncio.create_task(self._run(), name="mainspring-listen")

    async def close(self) -> None:
        await end_task(self._task)

    async def _run(self) -> None:
        pause = 0.1
        while True:
            try:
                with translating(self._here().name):
                    await (self._follow() if await self._here().has_transactions() else self._poll())
            except (StoreError, OSError, TimeoutError) as error:
                pause = 0.1 if self.hears else min(pause * 2, _RETRY_AT_MOST)
                if isinstance(error, StoreError) and not isinstance(error, StoreUnavailable) and not self.hears:
                    self._resume = None  # the event to resume after is gone from the oplog
            self.hears = False
            await asyncio.sleep(pause)

    async def _follow(self) -> None:
        others = {"$match": {"documentKey._id": {"$ne": self._origin}, "operationType": {"$ne": "delete"}}}
        wakeups = self._here().wakeups
        async with asyncio.timeout(_PATIENCE):
            stream = await wakeups.watch([others], resume_after=self._resume, max_await_time_ms=_AWAIT_MS)
        async with stream:
            self._wake([Topic.ANY])
            while stream.alive:
                async with asyncio.timeout(_PATIENCE):
                    event = await stream.try_next()
                self._resume, self.hears = stream.resume_token, True
                if event is not None:
                    self._received(_changed(event))

    async def _poll(self) -> None:
        known: dict[Any, dict[str, Any]] | None = None
        while True:
            async with asyncio.timeout(_PATIENCE):
                found = {doc.pop("_id"): doc for doc in await self._here().wakeups.find()}
            if known is None:
                self._wake([Topic.ANY])
            else:
                for id, doc in found.items():
                    before = known.get(id, {})
                    if id != self._origin:
                        self._received([name for name, value in doc.items() if value != before.get(name)])
            known, self.hears = found, True
            await asyncio.sleep(POLL)

    def _received(self, names: Iterable[str]) -> None:
        topics = [_TOPICS[name] for name in names if name in _TOPICS]
        if topics:
            self._wake(topics)


def _changed(event: dict[str, Any]) -> list[str]:
    """The fields that a change event is about; ANY for events of other kinds, such as the drop of the collection."""
    if event["operationType"] == "update":
        return list(event["updateDescription"]["updatedFields"])
    if event["operationType"] in ("insert", "replace"):
        return list(event["fullDocument"])
    return [Topic.ANY.value]
