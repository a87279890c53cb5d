"""Django's database connections in the threads and processes that run handlers.

Django closes connections that are lost or older than CONN_MAX_AGE at both ends of a request. A worker has no requests,
so the same is done around every handler: a lost connection costs at most the attempt that was using it. Django
never looks at the connections of a thread that has nothing to do; here a thread of its own closes those that got too
old, and whatever is left when the worker stops.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.db import connections

from ...app.mainspring import Mainspring
from ...core.declaring.context import JobContext

logger = logging.getLogger("mainspring")

SWEEP_EVERY = 5.0
"""Seconds between two looks at the connections of idle threads."""
CLOSE_PATIENCE = 2.0
"""Seconds that closing all of them may take when the process stops."""


class ThreadConnections:
    """The connections of one thread that runs handlers. Others close them only while the thread is idle."""

    def __init__(self) -> None:
        self.thread = threading.current_thread()
        self.busy = threading.RLock()  # a handler may run another one in its own thread
        self._connections: list[Any] = []

    def keep(self, found: list[Any]) -> None:
        for connection in found:
            if not any(each is connection for each in self._connections):
                connection.inc_thread_sharing()  # so that another thread may close it
                self._connections.append(connection)

    def close_old(self) -> None:
        for connection in self._connections:
            if self.thread.is_alive():
                connection.close_if_unusable_or_obsolete()
            else:
                connection.close()

    def close(self) -> None:
        for connection in self._connections:
            connection.close()


class HandlerConnections:
    """The connections of all threads of this process that run handlers."""

    def __init__(self) -> None:
        self._local = threading.local()
        self._threads: list[ThreadConnections] = []
        self._lock = threading.Lock()

    def of_this_thread(self) -> ThreadConnections:
        found: ThreadConnections | None = getattr(self._local, "connections", None)
        if found is None:
            found = self._local.connections = ThreadConnections()
            with self._lock:
                self._threads.append(found)
        return found

    def sweep(self) -> None:
        """Close what got too old in idle threads, and everything of threads that have ended."""
        self._in_idle_threads(ThreadConnections.close_old)
        with self._lock:
            self._threads = [each for each in self._threads if each.thread.is_alive()]

    def close(self) -> None:
        self._in_idle_threads(ThreadConnections.close)

    def _in_idle_threads(self, act: Any) -> None:
        with self._lock:
            threads = list(self._threads)
        for each in threads:
            if each.busy.acquire(blocking=False):
                try:
                    act(each)
                except Exception:
                    logger.warning("a database connection of %s could not be closed", each.thread.name, exc_info=True)
                finally:
                    each.busy.release()


def keep_connections_fresh(app: Mainspring) -> None:
    held = HandlerConnections()

    @app.around
    def around_functions(ctx: JobContext) -> Iterator[None]:
        mine = held.of_this_thread()
        with mine.busy:
            _close_old()
            try:
                yield
            finally:
                _close_old()
                mine.keep(connections.all(initialized_only=True))

    @app.around
    async def around_coroutines(ctx: JobContext) -> AsyncIterator[None]:
        """Each execution has a thread of its own for the ORM, as each request has under ASGI: executions do not wait
        for one another's queries. The thread ends with the execution, and so do its connections."""
        async with ThreadSensitiveContext():
            try:
                yield
            finally:
                await sync_to_async(_close_all)()

    @app.setup
    def sweeping() -> Iterator[None]:
        stopping = threading.Event()
        sweeper = threading.Thread(target=_sweep, args=(held, stopping), name="mainspring-django", daemon=True)
        sweeper.start()
        yield
        stopping.set()
        sweeper.join(CLOSE_PATIENCE)


def _sweep(held: HandlerConnections, stopping: threading.Event) -> None:
    """In a thread of its own: Django refuses to close a connection on an event loop."""
    while not stopping.wait(SWEEP_EVERY):
        held.sweep()
    held.close()


def _close_old() -> None:
    """What is kept is checked before its next query, whatever CONN_HEALTH_CHECKS says: after a restart of the server,
    the connections of idle threads are all lost, and would cost one attempt each."""
    for connection in _outside_transactions():
        connection.close_if_unusable_or_obsolete()
        connection.health_check_enabled = True


def _close_all() -> None:
    for connection in _outside_transactions():
        connection.close()


def _outside_transactions() -> list[Any]:
    """The connections of this thread, without those of a test that runs handlers inside its own transaction."""
    return [each for each in connections.all(initialized_only=True) if not each.in_atomic_block]
