"""The blocking facade: the same client for Flask, Django, scripts and threads. Delegates; holds no logic.

Calls run on an event loop in a background thread, made when first needed and made anew in a forked child.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from ..core.loops import inside_event_loop
from ..core.monitoring.why import Reason
from ..core.queries.job_view import JobView
from ..core.views.execution import Execution, executions_of
from ..core.views.records import AuditRecord, LockView, LogEntry, WorkerView
from ..model.backfill import Backfill, Windows
from .calendars import SyncCalendarMethods
from .occurrences import SyncOccurrenceMethods
from .templates import SyncFlowMethods
from .tenants import SyncTenantMethods

if TYPE_CHECKING:
    from ..core.declaring.context import JobContext
    from ..core.locks import Lock
    from .mainspring import Mainspring

T = TypeVar("T")


class BackgroundLoop:
    """An event loop on a daemon thread of its own."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._run, name="mainspring-sync", daemon=True)
        self._closing = False
        self.thread.start()

    def _run(self) -> None:
        """A SystemExit in a task that a handler started stops the loop: it is that handler's error; go on."""
        while not self._closing:
            with contextlib.suppress(SystemExit, KeyboardInterrupt):
                self.loop.run_forever()

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    def close(self) -> None:
        self._closing = True
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


class SyncMainspring(SyncCalendarMethods, SyncFlowMethods, SyncOccurrenceMethods, SyncTenantMethods):
    def __init__(self, app: Mainspring) -> None:
        self._app = app
        self._background: BackgroundLoop | None = None
        self._lock = threading.Lock()
        os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        self._lock = threading.Lock()
        self._background = None

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if inside_event_loop():
            coroutine.close()
            raise RuntimeError("app.sync blocks and would stop this event loop: await the method of app itself instead")
        with self._lock:
            if self._background is None:
                self._background = BackgroundLoop()
        return self._background.call(coroutine)

    # --- life ---------------------------------------------------------------------------------------------
    def start(self, **options: Any) -> None:
        """Start the roles of this process in the background (an embedded scheduler and worker)."""
        self._call(self._app.start(**options))

    def stop(self, timeout: float | None = None) -> None:
        self._call(self._app.stop(timeout))

    def open(self) -> None:
        self._call(self._app.open())

    def close(self) -> None:
        """Stop, disconnect and end the background thread."""
        if self._background is None:
            return
        self._call(self._app.close())
        with self._lock:
            background, self._background = self._background, None
        if background is not None:
            background.close()

    def __enter__(self) -> SyncMainspring:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- making executions --------------------------------------------------------------------------------
    def enqueue(
        self, handler: Any, params: Mapping[str, Any] | None = None, *, connection: Any = None, **options: Any
    ) -> Execution | None:
        """As `app.enqueue`. With `connection` the row is written here, in the caller's own thread."""
        if connection is None:
            return self._call(self._app.enqueue(handler, params, **options))
        return self.enqueue_many([(handler, params, options)], connection=connection)[0]

    def enqueue_many(
        self, items: Iterable[Sequence[Any]], *, connection: Any = None, **options: Any
    ) -> list[Execution | None]:
        if connection is None:
            return self._call(self._app.enqueue_many(items, **options))
        client, prepared = self._call(self._app.prepare_many(items, **options))
        return executions_of(client.enqueue_in(connection, prepared))

    def trigger(self, name: str, params: Mapping[str, Any] | None = None, **options: Any) -> Execution:
        return self._call(self._app.trigger(name, params, **options))

    @contextmanager
    def track(self, name: str, **options: Any) -> Iterator[JobContext]:
        """As `app.track`, around blocking work."""
        with self._entered(self._app.track(name, **options)) as context, context.here():
            yield context

    # --- steering -----------------------------------------------------------------------------------------
    def pause(self, name: str, **options: Any) -> JobView:
        return self._call(self._app.pause(name, **options))

    def resume(self, name: str, **options: Any) -> JobView:
        return self._call(self._app.resume(name, **options))

    def cancel(self, ref: str | Execution, **options: Any) -> Execution | JobView:
        return self._call(self._app.cancel(ref, **options))

    def cancel_execution(self, id: str, **options: Any) -> Execution:
        return self._call(self._app.cancel_execution(id, **options))

    def reactivate(self, name: str, **options: Any) -> JobView:
        return self._call(self._app.reactivate(name, **options))

    def retry(self, ref: str | Execution, **options: Any) -> Execution:
        return self._call(self._app.retry(ref, **options))

    def update_job(self, name: str, **changes: Any) -> JobView:
        return self._call(self._app.update_job(name, **changes))

    def revert_job(self, name: str, **options: Any) -> JobView:
        return self._call(self._app.revert_job(name, **options))

    def remove_job(self, name: str, **options: Any) -> None:
        return self._call(self._app.remove_job(name, **options))

    # --- reading ------------------------------------------------------------------------------------------
    def jobs(self) -> list[JobView]:
        return self._call(self._app.jobs())

    def job_view(self, name: str) -> JobView:
        return self._call(self._app.job_view(name))

    def why(self, name: str) -> tuple[JobView, list[Reason]]:
        return self._call(self._app.why(name))

    def why_waiting(self, execution: Execution) -> list[Reason]:
        return self._call(self._app.why_waiting(execution))

    def executions(self, job: str | None = None, **filters: Any) -> list[Execution]:
        return self._call(self._app.executions(job, **filters))

    def get(self, execution_id: str) -> Execution:
        return self._call(self._app.get(execution_id))

    def logs(self, execution_id: str, after: int = 0) -> list[tuple[int, LogEntry]]:
        return self._call(self._app.logs(execution_id, after))

    def wait(self, execution: Execution | str, timeout: float | None = None) -> Execution:
        return self._call(self._app.wait(execution, timeout))

    def workers(self) -> list[WorkerView]:
        return self._call(self._app.workers())

    def audits(self, target: str | None = None, limit: int = 100) -> list[AuditRecord]:
        return self._call(self._app.audits(target, limit))

    # --- windows ------------------------------------------------------------------------------------------
    def windows(self, name: str, begin: Any = None, end: Any = None) -> Windows:
        return self._call(self._app.windows(name, begin, end))

    def backfill(self, name: str, begin: Any = None, end: Any = None, **options: Any) -> Backfill:
        return self._call(self._app.backfill(name, begin, end, **options))

    def backfills(self, job: str | None = None, limit: int = 20) -> list[Backfill]:
        return self._call(self._app.backfills(job, limit))

    def get_backfill(self, id: str) -> Backfill:
        return self._call(self._app.get_backfill(id))

    def wait_backfill(self, id: str, timeout: float | None = None) -> Backfill:
        return self._call(self._app.wait_backfill(id, timeout))

    def pause_backfill(self, id: str, **options: Any) -> Backfill:
        return self._call(self._app.pause_backfill(id, **options))

    def resume_backfill(self, id: str, **options: Any) -> Backfill:
        return self._call(self._app.resume_backfill(id, **options))

    def cancel_backfill(self, id: str, **options: Any) -> Backfill:
        return self._call(self._app.cancel_backfill(id, **options))

    # --- locks --------------------------------------------------------------------------------------------
    @contextmanager
    def lock(self, name: str, ttl: Any = 30, **options: Any) -> Iterator[Lock]:
        with self._entered(self._app.lock(name, ttl, **options)) as lock:
            yield lock

    def try_lock(self, key: str, ttl: Any) -> bool:
        return self._call(self._app.try_lock(key, ttl))

    def suggested_ttl(self, expected: Any) -> float:
        return self._app.suggested_ttl(expected)

    def unlock(self, key: str) -> bool:
        return self._call(self._app.unlock(key))

    def locks(self) -> list[LockView]:
        return self._call(self._app.locks())

    def release_lock(self, name: str, **options: Any) -> bool:
        return self._call(self._app.release_lock(name, **options))

    @contextmanager
    def _entered(self, manager: Any) -> Iterator[Any]:
        """An asynchronous context manager, entered and left on the background loop, around blocking code."""
        entered = self._call(_enter(manager))
        try:
            yield entered
        except BaseException as error:
            if not self._call(_exit(manager, error)):
                raise
        else:
            self._call(_exit(manager, None))


async def _enter(manager: Any) -> Any:
    return await manager.__aenter__()


async def _exit(manager: Any, error: BaseException | None) -> bool:
    try:
        where = None if error is None else error.__traceback__
        return bool(await manager.__aexit__(None if error is None else type(error), error, where))
    except BaseException as raised:
        if raised is error:
            return False
        raise
