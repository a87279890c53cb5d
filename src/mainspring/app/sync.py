"""`app.sync`, the blocking facade: the same methods for Flask, Django, scripts and threads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from ..config.settings import SettingsOptions
from ..core.commands.enqueue import Enqueuer
from ..core.declaring.context import JobContext, running_in
from ..core.declaring.handler_types import AnyHandler
from ..core.views.execution import Execution, executions_of
from ..model.execution import ExecutionRow, TriggeredBy
from .blocking import Caller
from .exits import exits
from .handles import BoundCall, EnqueueItem, EnqueueOptions
from .hosts import after_uwsgi_fork, refuse_without_threads, restarts_on_change
from .sync_methods import (
    SyncBackfills,
    SyncBulk,
    SyncCalendars,
    SyncErrors,
    SyncHandlers,
    SyncHooks,
    SyncLocks,
    SyncMethods,
    SyncMonitoring,
    SyncQueues,
    SyncTemplates,
    SyncTenants,
    SyncTokens,
    SyncWebhooks,
)

if TYPE_CHECKING:
    from .mainspring import Mainspring

R = TypeVar("R")


class SyncMainspring(SyncMethods):
    """Every async method of the application and of its namespaces, blocking.

    ```python
    with app.sync as sync:  # starts the roles of this process in the background
        execution = sync.enqueue("greet", {"name": "ada"})
        sync.wait(execution)
    ```
    """

    def __init__(self, app: Mainspring) -> None:
        super().__init__(app, Caller(app._runtime))
        self.backfills = SyncBackfills(app.backfills, self._caller)
        """Backfills: `app.sync.backfills.start("revenue", "2026-03-01", "2026-04-01")`."""
        self.bulk = SyncBulk(app.bulk, self._caller)
        """Commands for many jobs or executions."""
        self.calendars = SyncCalendars(app.calendars, self._caller)
        """Named calendars."""
        self.handlers = SyncHandlers(app.handlers, self._caller)
        """Handlers of all processes."""
        self.locks = SyncLocks(app.locks, self._caller)
        """Locks, for administrators."""
        self.monitoring = SyncMonitoring(app.monitoring, self._caller)
        """Metrics, alert rules, missed runs."""
        self.errors = SyncErrors(app.errors, self._caller)
        """Error groups."""
        self.queues = SyncQueues(app.queues, self._caller)
        """Queues."""
        self.templates = SyncTemplates(app.templates, self._caller)
        """Templates of jobs."""
        self.tenants = SyncTenants(app.tenants, self._caller)
        """The tenants of an execution."""
        self.hooks = SyncHooks(app.hooks, self._caller)
        """Incoming hooks."""
        self.tokens = SyncTokens(app.tokens, self._caller)
        """API tokens."""
        self.webhooks = SyncWebhooks(app.webhooks, self._caller)
        """Endpoints that receive events."""

    def start(self, **settings: Unpack[SettingsOptions]) -> None:
        """Start the roles of this process. Settings given here, such as `roles=["worker"]` or `queues=["mail"]`,
        override those of the constructor. An application without jobs starts nothing unless you give it roles.

        When the process ends by itself, by SIGTERM or by the server that runs it, Mainspring drains the roles first.
        Each forked process must call `start` itself: see docs/frameworks.md."""
        refuse_without_threads()
        if not after_uwsgi_fork(lambda: self.start(**settings)) and not restarts_on_change():
            exits.watch_sigterm()
            self._caller.call(self._target.start(**settings))

    def close(self) -> None:
        """Stop the roles of this process, disconnect, and end the background thread."""
        if self._caller.started:
            self._caller.call(self._target.close())
            self._caller.close()

    def __enter__(self) -> SyncMainspring:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def enqueue(
        self,
        handler: AnyHandler,
        params: Mapping[str, Any] | None = None,
        *,
        connection: Any = None,
        **options: Unpack[EnqueueOptions],
    ) -> Execution | None:
        """Enqueue one execution of a handler (function, class or name); None if its unique key is taken.

        With `connection`, Mainspring stores the execution in your own transaction, in the calling thread, so it exists
        only if you commit.
        """
        if connection is None:
            return self._caller.call(self._target.enqueue(handler, params, **options))
        return self.enqueue_many([(handler, params, options)], connection=connection)[0]

    @overload
    def enqueue_many(
        self, items: Iterable[BoundCall[R]], *, connection: Any = None, **options: Unpack[EnqueueOptions]
    ) -> list[Execution[R] | None]: ...
    @overload
    def enqueue_many(
        self, items: Iterable[EnqueueItem], *, connection: Any = None, **options: Unpack[EnqueueOptions]
    ) -> list[Execution | None]: ...
    def enqueue_many(
        self, items: Iterable[EnqueueItem], *, connection: Any = None, **options: Unpack[EnqueueOptions]
    ) -> list[Execution | None]:
        """Enqueue many at once: `[handle.bind(x=1), (handler, params), (handler, params, {"priority": 5})]`.

        Returns the executions in the same order. The options apply to every item that does not set its own;
        `connection` is as for `enqueue`.
        """
        if connection is None:
            return self._caller.call(self._target.enqueue_many(items, **options))
        enqueuer, prepared = self._caller.call(self._prepared(items, options))
        return executions_of(enqueuer.enqueue_in(connection, prepared))

    async def _prepared(
        self, items: Iterable[EnqueueItem], options: EnqueueOptions
    ) -> tuple[Enqueuer, list[ExecutionRow]]:
        enqueuer = (await self._target._runtime.ready(in_transaction=True)).enqueuer
        return enqueuer, await enqueuer.prepare_many(items, **options)

    @contextmanager
    def track(
        self,
        name: str,
        *,
        trigger: TriggeredBy = "manual",
        triggered_by: str = "system",
        params: Mapping[str, Any] | None = None,
        traceparent: str | None = None,
    ) -> Iterator[JobContext]:
        """Record work that your own code does: `with app.sync.track("import", triggered_by="ada") as ctx: ...`."""
        manager = self._target.track(
            name, trigger=trigger, triggered_by=triggered_by, params=params, traceparent=traceparent
        )
        with self._caller.entered(manager) as context, running_in(context):
            yield context
