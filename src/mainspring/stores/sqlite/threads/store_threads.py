"""The threads of one store: one writes, one reads for the engine, one reads for people.

The engine's reads are small and go along an index; the lists people ask for may take their time. With a thread for
each, no list delays a tick.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from concurrent.futures import Future
from typing import NamedTuple

from ....core.ports import Clock
from ....model.errors import StoreError
from ...common.listeners import Listeners
from .. import migrate
from .connect import Hurry, checked_path, checked_synchronous, connect
from .connection_thread import ConnectionThread, close_before_forks
from .reader_writer import Reader, Writer


class OpenThreads(NamedTuple):
    writer: Writer
    reader: Reader
    lists: Reader


class StoreThreads:
    """Opens, closes and finds the threads. A forked child has none until it opens its own."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        clock: Clock,
        *,
        synchronous: str,
        busy_timeout: float,
        watch_interval: float,
        auto_migrate: bool,
    ) -> None:
        self.path = checked_path(path)
        self.listeners = Listeners()
        self.opened: OpenThreads | None = None
        self._clock = clock
        self._synchronous = checked_synchronous(synchronous)
        self._busy_timeout, self._watch_interval = busy_timeout, watch_interval
        self._auto_migrate = auto_migrate
        self._pid = os.getpid()
        self._opening = threading.Lock()

    async def open(self) -> None:
        threads = self._start()
        try:
            for thread in threads:
                await _done(thread.ready)
        except BaseException:  # also if the caller no longer waits
            await self._stop(threads)
            raise

    async def close(self) -> None:
        self._forget_inherited()
        if self.opened is not None:
            await self._stop(self.opened)

    def writer(self) -> Writer:
        return self._current().writer

    def reader(self) -> Reader:
        return self._current().reader

    def lists(self) -> Reader:
        return self._current().lists

    def _current(self) -> OpenThreads:
        opened = self.opened
        if opened is None:
            raise StoreError(f"{self.path}: the store is not open; open it first")
        if self._pid != os.getpid():
            raise StoreError(f"{self.path}: the store was opened before this process was forked; open a new one")
        return opened

    def _start(self) -> OpenThreads:
        self._forget_inherited()
        with self._opening:
            if self.opened is None:
                self.opened = self._new_threads()
                close_before_forks(self.opened)
                for thread in self.opened:
                    thread.start()
            return self.opened

    def _new_threads(self) -> OpenThreads:
        writer = Writer(
            "mainspring-writer",
            self.path,
            self._connect_writer,
            self._clock,
            patience=self._busy_timeout,
            watch_interval=self._watch_interval,
            listeners=self.listeners,
        )
        reader, lists = (
            Reader(name, self.path, self._connect_reader, self._clock, after=writer.ready)
            for name in ("mainspring-reader", "mainspring-lists")
        )
        return OpenThreads(writer, reader, lists)

    def _connect_writer(self, hurry: Hurry) -> sqlite3.Connection:
        """The writer creates the schema; the readers wait for it."""
        connection = connect(self.path, self._synchronous, self._busy_timeout, hurry)
        try:
            prepare = migrate.migrate if self._auto_migrate else migrate.check
            prepare(connection, self.path, self._busy_timeout, hurry)
        except BaseException:
            connection.close()
            raise
        return connection

    def _connect_reader(self, hurry: Hurry) -> sqlite3.Connection:
        connection = connect(self.path, self._synchronous, self._busy_timeout, hurry)
        connection.execute("PRAGMA query_only = ON")
        connection.execute("PRAGMA busy_timeout = 5000")
        return connection

    async def _stop(self, threads: OpenThreads) -> None:
        with self._opening:
            if self.opened is threads:
                self.opened = None
        for thread in threads:
            await _stopped(thread)

    def _forget_inherited(self) -> None:
        """In a forked child: the threads stayed with the parent, and so does everything that belongs to them."""
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self.opened = None
            self._opening = threading.Lock()
            self.listeners = Listeners()


async def _stopped(thread: ConnectionThread) -> None:
    thread.mailbox.close()
    await _done(thread.ended)
    thread.join()


async def _done(future: Future[None]) -> None:
    """A caller that is cancelled leaves the future alone, and its error to those who still wait for it."""
    here = asyncio.wrap_future(future)
    here.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    await asyncio.shield(here)
