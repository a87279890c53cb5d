"""Heartbeats: on a connection of their own, used from the heartbeat thread, so that a blocked event loop cannot delay
them."""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import suppress
from typing import Protocol

import psycopg
from psycopg.rows import tuple_row

from ...model.store.messages import HeartbeatReply, HeartbeatRequest
from ...model.time.instants import seconds_to_micros
from .connection.pool import Options, Row, Startup, hang_up_after_blocking
from .database import Database, explained
from .executions.literals import numbers
from .executions.live import cancels_of
from .executions.rows import as_json, is_id
from .statements import sql

PATIENCE = 5.0  # seconds the server has for one heartbeat


class Heartbeats(Protocol):
    def heartbeat(self, beat: HeartbeatRequest) -> HeartbeatReply: ...
    def close(self) -> None: ...


class OwnHeartbeats:
    def __init__(self, options: Options, schema: str, name: str) -> None:
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
            cursor.execute(sql("heartbeat", self._schema), beat_values(beat))
            return beat_reply(beat, cursor.fetchone() or ())

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
        self._db = db
        self._loop = asyncio.get_running_loop()

    def heartbeat(self, beat: HeartbeatRequest) -> HeartbeatReply:
        reply = asyncio.run_coroutine_threadsafe(self._db.row("heartbeat", *beat_values(beat)), self._loop)
        return beat_reply(beat, reply.result(PATIENCE))

    def close(self) -> None:
        pass


def beat_values(beat: HeartbeatRequest) -> tuple[str, str, str, str, int]:
    """Parameters of heartbeat.sql."""
    leases = [(id, token) for id, token in beat.leases if is_id(id)]
    ids, tokens = [id for id, _ in leases], [token for _, token in leases]
    return beat.worker.id, as_json(beat.worker), numbers(ids), numbers(tokens), seconds_to_micros(beat.lease)


def beat_reply(beat: HeartbeatRequest, row: Row) -> HeartbeatReply:
    kept, cancels, now = row
    held = frozenset(kept.split(",")) if kept else frozenset()
    return HeartbeatReply(lost=frozenset(id for id, _ in beat.leases) - held, cancels=cancels_of(cancels), now=now)
