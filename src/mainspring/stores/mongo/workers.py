"""Workers and their heartbeats."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pymongo
from msgspec import to_builtins
from pymongo import ReturnDocument

from ...model.errors import StoreUnavailable
from ...model.store.messages import HeartbeatReply, HeartbeatRequest, WorkerInfo
from ...model.time.instants import Micros, seconds_to_micros
from ..common.event_loops import LoopThread
from .connection.database import Database, StorePart, later
from .connection.errors import repeated
from .documents import under_tokens, worker_of
from .limits.parking import delete_unused_limits

_TIMEOUT = 5.0  # seconds for one heartbeat; an election may take longer, and the next heartbeat follows soon
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


class Heartbeats:
    """Sends heartbeats on an event loop of their own, whatever the loop of the application is doing.

    A client that the application handed in belongs to the application's loop, and sends them there: a handler that
    blocks that loop for a whole lease loses the lease. A store made from an address does not have this problem.
    """

    def __init__(self, here: Callable[[], Database], name: str, *, handed_in: bool) -> None:
        self._here, self._name = here, name
        self._loop = asyncio.get_running_loop() if handed_in else None
        self._own = LoopThread("mainspring-heartbeat-loop")
        self._stored: dict[str, dict[str, Any]] = {}

    def heartbeat(self, beat: HeartbeatRequest) -> HeartbeatReply:
        """Called from the thread of the heartbeat."""
        waiting = asyncio.run_coroutine_threadsafe(self._beat(beat), self._loop or self._own.loop)
        try:
            return waiting.result(_TIMEOUT * 1.1)
        except TimeoutError:
            waiting.cancel()
            raise StoreUnavailable(f"{self._name}: a heartbeat had no answer within {_TIMEOUT:g} s") from None

    async def _beat(self, beat: HeartbeatRequest) -> HeartbeatReply:
        with pymongo.timeout(_TIMEOUT):
            db = self._here()
            return await _renew(db, beat, await self._seen(db, beat.worker))

    async def _seen(self, db: Database, worker: WorkerInfo) -> Micros:
        """Sends what differs from what was stored last, because the names of the jobs that a process declares may be
        many. All of it is sent again if the document has gone."""
        info = {name: value for name, value in to_builtins(worker).items() if name not in ("id", "seen")}
        stored = self._stored.pop(worker.id, None)
        found = None
        if stored is not None:
            differing = {name: value for name, value in info.items() if name not in stored or stored[name] != value}
            found = await _write(db, worker.id, differing, upsert=False)
        if found is None:
            found = await _write(db, worker.id, info, upsert=True)
        assert found is not None  # the upsert creates it
        self._stored[worker.id] = info
        return int(found["seen"])

    def close(self) -> None:
        self._own.stop()


async def _write(db: Database, id: str, info: Mapping[str, Any], *, upsert: bool) -> dict[str, Any] | None:
    return await db.workers.find_one_and_update(
        {"_id": id},
        [{"$set": {**{name: {"$literal": value} for name, value in info.items()}, "seen": db.time.now()}}],
        projection={"seen": 1},
        upsert=upsert,
        return_document=ReturnDocument.AFTER,
    )


async def _renew(db: Database, beat: HeartbeatRequest, now: Micros) -> HeartbeatReply:
    held = {"live": True, "state": "running", "owner": beat.worker.id}
    if beat.leases:
        renew = [{"$set": {"lease": later(db.time, beat.lease)}}]
        await db.executions.update_many(held | under_tokens(beat.leases), renew)
    rows = await db.executions.find({**held, "_id": {"$in": [id for id, _ in beat.leases]}}, _FIELDS)
    cancelled = await db.executions.find({**held, "cancel_requested": {"$exists": True}}, _FIELDS)
    kept = {(row["_id"], row["token"]) for row in rows}
    cancels = {row["_id"]: row.get("cancel_reason", "") for row in (*rows, *cancelled) if "cancel_requested" in row}
    lost = frozenset(id for id, token in beat.leases if (id, token) not in kept)
    return HeartbeatReply(lost=lost, cancels=cancels, now=now)
