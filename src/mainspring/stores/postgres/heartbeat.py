"""Heartbeats: on a connection of their own, used from the heartbeat thread, so that a blocked event loop cannot delay
them.

What a worker says of itself names all jobs that its process declares. It is sent, and written, only when it differs
from what was stored last; the few fields that change from one heartbeat to the next are a small text of their own.
"""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import suppress
from typing import Protocol

import psycopg
from msgspec.structs import replace
from psycopg.rows import tuple_row

from ...model.store.messages import HeartbeatReply, HeartbeatRequest, WorkerInfo
from ...model.time.instants import seconds_to_micros
from .connection.pool import Options, Row, Startup, hang_up_after_blocking
from .database import Database, explained
from .executions.literals import numbers
from .executions.live import WorkerStatus, cancels_of, with_status, worker_status
from .executions.rows import as_json, is_id
from .statements import sql

PATIENCE = 5.0  # seconds the server has for one heartbeat


class Heartbeats(Protocol):
    def heartbeat(self, beat: HeartbeatRequest) -> HeartbeatReply: ...
    def close(self) -> None: ...


class SentInfo:
    """What each worker of this process has said of itself, as far as the server has stored it."""

    def __init__(self) -> None:
        self._stored: dict[str, str] = {}

    def values(self, beat: HeartbeatRequest) -> tuple[str, str | None, str, str, str, int]:
        """Parameters of heartbeat.sql."""
        worker = beat.worker
        leases = [(id, token) for id, token in beat.leases if is_id(id)]
        ids, tokens = [id for id, _ in leases], [token for _, token in leases]
        info, status = _lasting(worker), as_json(worker_status(worker))
        sent = None if self._stored.get(worker.id) == info else info
        return worker.id, sent, status, numbers(ids), numbers(tokens), seconds_to_micros(beat.lease)

    def reply(self, beat: HeartbeatRequest, row: Row) -> HeartbeatReply | None:
        """None: the server does not know the worker any more, and the heartbeat has to be sent again."""
        kept, cancels, now, unknown = row
        if unknown:
            self._stored.pop(beat.worker.id, None)
            return None
        self._stored[beat.worker.id] = _lasting(beat.worker)
        held = frozenset(kept.split(",")) if kept else frozenset()
        return HeartbeatReply(lost=frozenset(id for id, _ in beat.leases) - held, cancels=cancels_of(cancels), now=now)


def _lasting(worker: WorkerInfo) -> str:
    return as_json(with_status(replace(worker, seen=0), WorkerStatus()))


class OwnHeartbeats:
    def __init__(self, options: Options, schema: str, name: str) -> None:
        self._sent = SentInfo()
        self._startup = Startup(options, PATIENCE)
        self._schema, self._name = schema, name
        self._lock = threading.Lock()
        self._connection: psycopg.Connection[Row] | None = None
        self._pid = os.getpid()

    def heartbeat(self, beat: HeartbeatRequest) -> HeartbeatReply:
        with self._lock:
            try:
                return self._beat(beat)
            except psycopg.Error as error:
                self._drop()
                raise explained(error, self._name) from error

    def close(self) -> None:
        with self._lock:
            self._drop()

    def _beat(self, beat: HeartbeatRequest) -> HeartbeatReply:
        connection = self._connected()
        with (
            hang_up_after_blocking(PATIENCE, connection),
            psycopg.RawCursor(connection, row_factory=tuple_row) as cursor,
        ):
            while True:
                cursor.execute(sql("heartbeat", self._schema), self._sent.values(beat))
                if (reply := self._sent.reply(beat, cursor.fetchone() or ())) is not None:
                    return reply

    def _connected(self) -> psycopg.Connection[Row]:
        if self._pid != os.getpid():  # the parent of this process made it, and uses it
            self._connection, self._pid = None, os.getpid()
        if self._connection is None:
            self._connection = self._startup.connect_blocking()
        return self._connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and self._pid == os.getpid():
            with suppress(psycopg.Error):
                connection.close()


class PooledHeartbeats:
    """For a pool that does not give its address: on its connections, from the event loop. A handler that blocks the
    loop for a whole lease then loses it; a `listen_url` gives heartbeats a connection of their own."""

    def __init__(self, db: Database) -> None:
        self._db, self._sent = db, SentInfo()
        self._loop = asyncio.get_running_loop()

    def heartbeat(self, beat: HeartbeatRequest) -> HeartbeatReply:
        return asyncio.run_coroutine_threadsafe(self._beat(beat), self._loop).result(PATIENCE)

    async def _beat(self, beat: HeartbeatRequest) -> HeartbeatReply:
        while True:
            row = await self._db.row("heartbeat", *self._sent.values(beat))
            if (reply := self._sent.reply(beat, row)) is not None:
                return reply

    def close(self) -> None:
        pass
