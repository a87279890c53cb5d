"""Workers and their heartbeats. Heartbeats use a blocking client of their own from the thread that sends them, whatever
the event loop is doing."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from typing import Any, Protocol

from msgspec import to_builtins
from pymongo import MongoClient, ReturnDocument, WriteConcern
from pymongo.database import Database as BlockingDatabase

from ...model.errors import StoreUnavailable
from ...model.store.messages import HeartbeatReply, HeartbeatRequest, WorkerInfo
from ...model.time.instants import seconds_to_micros
from .connection.bulk import CollectionCall, Steps, made, run_async, run_blocking
from .connection.database import Database, StorePart, Time, later
from .connection.errors import repeated
from .connection.source import Address
from .documents import under_tokens, worker_of
from .limits.parking import delete_unused_limits

_TIMEOUT_MS = 5_000  # for one heartbeat; an election may take longer, and the next heartbeat follows soon
_CONFIRMED = WriteConcern(w="majority", wtimeout=_TIMEOUT_MS)
"""A lease renewed by a primary without followers is not renewed."""
_FIELDS = {"token": 1, "cancel_requested": 1, "cancel_reason": 1}


class Workers(StorePart):
    async def workers(self) -> list[WorkerInfo]:
        return [worker_of(doc) for doc in await self.db.workers.find(sort={"_id": 1})]

    async def remove_worker(self, id: str) -> None:
        db = self.db
        await repeated(lambda: db.workers.delete_one({"_id": id}))

    async def prune_workers(self, silent_for: float) -> int:
        """Also deletes expired locks, unless they still carry an audit record, and unused documents of limits."""
        db, now = self.db, await self.db.now()
        await db.locks.delete_many({"expires": {"$lte": now}, "audits": {"$exists": False}})
        await delete_unused_limits(db, now)
        silent = {"seen": {"$lt": now - seconds_to_micros(silent_for)}}
        return int((await db.workers.delete_many(silent)).deleted_count)


# --- heartbeats -----------------------------------------------------------------------------------------------------


class Heartbeats(Protocol):
    def heartbeat(self, beat: HeartbeatRequest) -> HeartbeatReply: ...
    def close(self) -> None: ...


class OwnHeartbeats:
    """With a client of their own, made from the address of the store."""

    def __init__(self, address: Address, time: Time) -> None:
        self._address, self._time = address, time
        self._lock = threading.Lock()
        self._client: MongoClient[dict[str, Any]] | None = None
        self._pid = os.getpid()

    def heartbeat(self, beat: HeartbeatRequest) -> HeartbeatReply:
        prefix = self._address.collections
        with self._lock:
            database = self._database()
            return run_blocking(_steps(beat, self._time), lambda call: made(call, database, prefix), self._address.name)

    def close(self) -> None:
        with self._lock:
            client, self._client = self._client, None
            if client is not None and self._pid == os.getpid():
                client.close()

    def _database(self) -> BlockingDatabase[dict[str, Any]]:
        if self._pid != os.getpid():  # the client belongs to the process that forked this one
            self._client, self._pid = None, os.getpid()
        if self._client is None:
            options = self._address.options | {
                "serverSelectionTimeoutMS": _TIMEOUT_MS,
                "socketTimeoutMS": _TIMEOUT_MS,
                "maxPoolSize": 1,
            }
            self._client = MongoClient(self._address.url, **options)
        return self._client.get_database(self._address.database, write_concern=_CONFIRMED)


class SharedHeartbeats:
    """With a client that the application handed in, on the event loop that the client belongs to. A handler that blocks
    this loop for a whole lease loses the lease; a store made from an address does not have this problem."""

    def __init__(self, here: Callable[[], Database]) -> None:
        self._here = here
        self._loop = asyncio.get_running_loop()

    def heartbeat(self, beat: HeartbeatRequest) -> HeartbeatReply:
        waiting = asyncio.run_coroutine_threadsafe(self._beat(beat), self._loop)
        try:
            return waiting.result(_TIMEOUT_MS / 1000)
        except TimeoutError:
            waiting.cancel()
            raise StoreUnavailable(f"the heartbeat had no answer within {_TIMEOUT_MS / 1000:g} s") from None

    async def _beat(self, beat: HeartbeatRequest) -> HeartbeatReply:
        db = self._here()
        return await run_async(_steps(beat, db.time), lambda call: made(call, db.plain, db.prefix), db.name)

    def close(self) -> None:
        """The client is the application's."""


def _steps(beat: HeartbeatRequest, time: Time) -> Steps[HeartbeatReply]:
    info = {name: {"$literal": value} for name, value in to_builtins(beat.worker).items() if name not in ("id", "seen")}
    worker = yield CollectionCall(
        "workers",
        "find_one_and_update",
        ({"_id": beat.worker.id}, [{"$set": {**info, "seen": time.now()}}]),
        {"projection": {"seen": 1}, "upsert": True, "return_document": ReturnDocument.AFTER},
    )
    held = {"live": True, "state": "running", "owner": beat.worker.id}
    if beat.leases:
        renew = [{"$set": {"lease": later(time, beat.lease)}}]
        yield CollectionCall("executions", "update_many", (held | under_tokens(beat.leases), renew))
    leased = {**held, "_id": {"$in": [id for id, _ in beat.leases]}}
    rows = yield CollectionCall("executions", "find", (leased, _FIELDS))
    cancelled = yield CollectionCall("executions", "find", ({**held, "cancel_requested": {"$exists": True}}, _FIELDS))
    kept = {(row["_id"], row["token"]) for row in rows}
    cancels = {row["_id"]: row.get("cancel_reason", "") for row in (*rows, *cancelled) if "cancel_requested" in row}
    lost = frozenset(id for id, token in beat.leases if (id, token) not in kept)
    return HeartbeatReply(lost=lost, cancels=cancels, now=int(worker["seen"]))
