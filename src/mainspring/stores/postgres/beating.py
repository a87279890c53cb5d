"""Heartbeats: a connection of their own, used from the thread that beats, whatever the event loop is doing."""

from __future__ import annotations

import os
import threading
from contextlib import suppress

import psycopg

from ...model.changes import Beat, BeatReply
from ...model.instants import seconds_to_micros
from .arrays import numbers
from .connections import Options, Row, Startup, connect_blocking
from .database import explained
from .rows import as_json, is_id
from .running import cancels_of
from .statements import sql

_PATIENCE = 5.0  # seconds the server has for one beat


class Beats:
    def __init__(self, options: Options, schema: str) -> None:
        self._startup = Startup(options, _PATIENCE)
        self._schema = schema
        self._lock = threading.Lock()
        self._connection: psycopg.Connection[Row] | None = None
        self._pid = os.getpid()

    def beat(self, beat: Beat) -> BeatReply:
        with self._lock:
            try:
                return self._beat(beat)
            except psycopg.Error as error:
                self._drop()
                raise explained(error) from error

    def close(self) -> None:
        with self._lock:
            self._drop()

    def _beat(self, beat: Beat) -> BeatReply:
        sent = [(id, token) for id, token in beat.leases if is_id(id)]
        cursor = self._connected().execute(sql("beat", self._schema), beat_values(beat, sent))
        return beat_reply(beat, cursor.fetchone() or ())

    def _connected(self) -> psycopg.Connection[Row]:
        if self._pid != os.getpid():  # made by the parent of this process, and used by it
            self._connection, self._pid = None, os.getpid()
        if self._connection is None:
            self._connection = self._connect()
        return self._connection

    def _connect(self) -> psycopg.Connection[Row]:
        try:
            return connect_blocking(self._startup.options())
        except psycopg.OperationalError as error:
            if not self._startup.gives_way(error):
                raise
        return connect_blocking(self._startup.options())

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and self._pid == os.getpid():
            with suppress(psycopg.Error):
                connection.close()


def beat_values(beat: Beat, leases: list[tuple[str, int]]) -> tuple[str, str, str, str, int]:
    """Parameters of beat.sql."""
    ids, tokens = [id for id, _ in leases], [token for _, token in leases]
    return beat.worker.id, as_json(beat.worker), numbers(ids), numbers(tokens), seconds_to_micros(beat.lease)


def beat_reply(beat: Beat, row: Row) -> BeatReply:
    kept, cancels, now = row
    held = frozenset(kept.split(",")) if kept else frozenset()
    return BeatReply(lost=frozenset(id for id, _ in beat.leases) - held, cancels=cancels_of(cancels), now=now)
