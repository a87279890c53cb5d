"""Heartbeats: a blocking client of their own, used from the thread that beats, whatever the event loop is doing."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from typing import Any, Protocol

from msgspec import to_builtins
from pymongo import MongoClient, ReturnDocument, WriteConcern
from pymongo.collection import Collection
from pymongo.errors import PyMongoError

from ...model.store.messages import HeartbeatReply, HeartbeatRequest
from .connection.address import Address
from .connection.clock import Time, later
from .connection.database import Database, collection_name, explained

PATIENCE_MS = 5_000  # the server has so long for one beat; an election may take longer, and the next beat comes soon
CONFIRMED = WriteConcern(w="majority", wtimeout=PATIENCE_MS)
"""A lease that a primary without followers has renewed is not renewed."""
_FIELDS = {"token": 1, "cancel_requested": 1, "cancel_reason": 1}


class Beats(Protocol):
    def heartbeat(self, beat: HeartbeatRequest) -> HeartbeatReply: ...
    def close(self) -> None: ...


class OwnBeats:
    def __init__(self, address: Address, time: Time) -> None:
        self._address, self._time = address, time
        self._lock = threading.Lock()
        self._client: MongoClient[dict[str, Any]] | None = None
        self._pid = os.getpid()

    def heartbeat(self, beat: HeartbeatRequest) -> HeartbeatReply:
        with self._lock:
            try:
                return self._beat(beat)
            except PyMongoError as error:
                raise explained(error, self._address.name) from error

    def close(self) -> None:
        with self._lock:
            client, self._client = self._client, None
            if client is not None and self._pid == os.getpid():
                client.close()

    def _beat(self, beat: HeartbeatRequest) -> HeartbeatReply:
        workers, executions = self._collection("workers"), self._collection("executions")
        worker = workers.find_one_and_update(
            {"_id": beat.worker.id},
            worker_update(beat, self._time),
            projection={"seen": 1},
            upsert=True,
            return_document=ReturnDocument.AFTER,
        )
        assert worker is not None  # it was made, if need be
        for held, change in renewals(beat, self._time):
            executions.update_many(held, change)
        rows = [*executions.find(owned(beat), _FIELDS), *executions.find(asked(beat), _FIELDS)]
        return reply(beat, rows, int(worker["seen"]))

    def _collection(self, name: str) -> Collection[dict[str, Any]]:
        if self._pid != os.getpid():  # made by the parent of this process, and used by it
            self._client, self._pid = None, os.getpid()
        if self._client is None:
            options = self._address.options | {
                "serverSelectionTimeoutMS": PATIENCE_MS,
                "socketTimeoutMS": PATIENCE_MS,
                "maxPoolSize": 1,
            }
            self._client = MongoClient(self._address.url, **options)
        database = self._client.get_database(self._address.database, write_concern=CONFIRMED)
        return database.get_collection(collection_name(self._address.collections, name))


class BorrowedBeats:
    """With a client that the application handed in, which belongs to its event loop. A handler that blocks that loop
    for a whole lease loses it; an address gives the beats a line of their own."""

    def __init__(self, here: Callable[[], Database]) -> None:
        self._here = here
        self._loop = asyncio.get_running_loop()

    def heartbeat(self, beat: HeartbeatRequest) -> HeartbeatReply:
        waiting = asyncio.run_coroutine_threadsafe(self._beat(beat), self._loop)
        try:
            return waiting.result(PATIENCE_MS / 1000)
        except TimeoutError:
            waiting.cancel()
            raise

    async def _beat(self, beat: HeartbeatRequest) -> HeartbeatReply:
        db = self._here()
        try:
            worker = await db.workers.find_one_and_update(
                {"_id": beat.worker.id},
                worker_update(beat, db.time),
                projection={"seen": 1},
                upsert=True,
                return_document=ReturnDocument.AFTER,
            )
            assert worker is not None  # it was made, if need be
            for held, change in renewals(beat, db.time):
                await db.executions.update_many(held, change)
            rows = [doc for wanted in (owned(beat), asked(beat)) async for doc in db.executions.find(wanted, _FIELDS)]
        except PyMongoError as error:
            raise explained(error, db.name) from error
        return reply(beat, rows, int(worker["seen"]))

    def close(self) -> None:
        pass


def worker_update(beat: HeartbeatRequest, time: Time) -> list[dict[str, Any]]:
    info = {name: {"$literal": value} for name, value in to_builtins(beat.worker).items() if name not in ("id", "seen")}
    return [{"$set": {**info, "seen": time.now()}}]


def renewals(beat: HeartbeatRequest, time: Time) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """One update for each token; there are hardly ever more than two."""
    by_token: dict[int, list[str]] = {}
    for id, token in beat.leases:
        by_token.setdefault(token, []).append(id)
    change = [{"$set": {"lease": later(time, beat.lease)}}]
    return [({**_held(beat), "_id": {"$in": ids}, "token": token}, change) for token, ids in by_token.items()]


def owned(beat: HeartbeatRequest) -> dict[str, Any]:
    return {**_held(beat), "_id": {"$in": [id for id, _ in beat.leases]}}


def asked(beat: HeartbeatRequest) -> dict[str, Any]:
    return {**_held(beat), "cancel_requested": {"$exists": True}}


def _held(beat: HeartbeatRequest) -> dict[str, Any]:
    return {"live": True, "state": "running", "owner": beat.worker.id}


def reply(beat: HeartbeatRequest, rows: list[dict[str, Any]], now: int) -> HeartbeatReply:
    kept = {(row["_id"], row["token"]) for row in rows}
    cancels = {row["_id"]: row.get("cancel_reason", "") for row in rows if "cancel_requested" in row}
    return HeartbeatReply(
        lost=frozenset(id for id, token in beat.leases if (id, token) not in kept), cancels=cancels, now=now
    )
