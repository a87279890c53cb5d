"""`Mainspring`, the object users hold."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, Unpack, overload

from ..config.settings import SettingsOptions
from ..core.declaring.context import JobContext
from ..core.declaring.handler_types import AnyHandler, NamedHandler, TenantContext
from ..core.declaring.options import JobOptions
from ..core.declaring.places import declaring
from ..core.declaring.registrar import Registrar
from ..core.filters.arguments import FiltersBesideJob, JobFilters
from ..core.filters.jobs import job_filter
from ..core.locks import Lock
from ..core.monitoring.why import Reason
from ..core.ports import Clock, Store
from ..core.queries.changes import DEFAULT_SINCE, RecordedChange
from ..core.queries.job_lists import JobSort
from ..core.rules.edited_params import read_edit
from ..core.views.events import Observer
from ..core.views.execution import Execution, executions_of, row_of
from ..core.views.job import JobView
from ..core.views.page import Page
from ..core.views.records import (
    AuditRecord,
    Backfill,
    LogEntry,
    WorkerView,
    audit_record,
    log_entries,
    log_entry,
    worker_view,
)
from ..model.backfill import Windows
from ..model.execution import TriggeredBy
from ..model.triggers import Trigger
from ..model.values.given import AnyCaseLogLevel, Duration, Instant, Several, When
from ..model.values.reading import identifier
from .bulk import AppBulk
from .errors import AppErrors
from .handles import BoundCall, EnqueueItem, EnqueueOptions, JobDecorator, refuse_bare
from .import_path import Origin
from .monitoring import AppMonitoring
from .namespaces import (
    AppBackfills,
    AppCalendars,
    AppHooks,
    AppLocks,
    AppTemplates,
    AppTenants,
    AppTokens,
    BackfillOptions,
)
from .queues import AppHandlers, AppQueues
from .runtime import Runtime
from .webhooks import AppWebhooks

if TYPE_CHECKING:
    from fastapi import FastAPI

    from ..config.settings import Settings
    from .sync import SyncMainspring

R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])


class Mainspring:
    """An application: its jobs, its database and its settings. Create one object and import it everywhere.

    >>> app = Mainspring("memory://")
    >>> @app.job("hello", cron="0 30 3 * * *")
    ... async def hello(ctx): ...
    """

    _runtime_class: ClassVar[type[Runtime]] = Runtime

    def __init__(
        self,
        database: str | os.PathLike[str] | Store | None = None,
        *,
        jobs: Several[str] = (),
        resources: Mapping[str, Any] | None = None,
        observers: Iterable[Observer] = (),
        tenant_context: TenantContext | None = None,
        logger: logging.Logger | None = None,
        tracer_provider: Any = None,
        clock: Clock | None = None,
        config_file: str | None = None,
        **settings: Unpack[SettingsOptions],
    ) -> None:
        """Nothing connects before it is needed, or before `start`.

        - `database`: an address (`sqlite:///file.db`, `memory://`), the path of a SQLite file, or a store
        - `jobs`: names of modules that declare jobs
        - `resources`: what handlers find in `ctx.resources`
        - `observers`: callables that receive every `Event` of this process
        - `tenant_context`: makes the context manager that is entered around the handler for a tenant
        - `logger`: receives the log lines instead of the logger `mainspring`
        - `tracer_provider`: an OpenTelemetry provider to use instead of the global one
        - `config_file`: the TOML file with settings

        Every other keyword is a setting: see docs/configuration.md.
        """
        self._runtime = runtime = self._runtime_class(
            database,
            settings,
            jobs=jobs,
            resources=resources,
            observers=observers,
            tenant_context=tenant_context,
            logger=logger,
            tracer_provider=tracer_provider,
            clock=clock,
            config_file=config_file,
            origin=Origin(self),
        )
        self.registrar = Registrar(runtime.registry)
        """Declares jobs for objects with `execute(ctx)`, with one method per kind of schedule."""
        self.backfills = AppBackfills(runtime)
        """Backfills: `app.backfills.start("revenue", "2026-03-01", "2026-04-01")`."""
        self.bulk = AppBulk(runtime)
        """Commands for many jobs or executions: `app.bulk.start("pause", "jobs", filter={"queue": "mail"})`."""
        self.calendars = AppCalendars(runtime)
        """Named calendars: `app.calendars.declare("holidays", ["12-25"])`."""
        self.handlers = AppHandlers(runtime)
        """Handlers of all processes: `app.handlers.pause("send")`."""
        self.locks = AppLocks(runtime)
        """Locks, for administrators: `app.locks.all()`, `app.locks.release(name)`."""
        self.monitoring = AppMonitoring(runtime)
        """Metrics, alert rules, missed runs: `app.monitoring.late()`."""
        self.errors = AppErrors(runtime)
        """Error groups: `app.errors.all()`, `app.errors.mute("5f0c8a3b9d21")`."""
        self.queues = AppQueues(runtime)
        """Queues: `app.queues.pause("mail")`, `app.queues.limit("mail", concurrency=5)`."""
        self.templates = AppTemplates(runtime)
        """Templates of jobs: `app.templates.apply("crawl-site", "crawl-news")`."""
        self.tenants = AppTenants(runtime)
        """The tenants of an execution: `app.tenants.runs(execution)`."""
        self.hooks = AppHooks(runtime)
        """Incoming hooks: `app.hooks.set("github", "deploy", style="github")`."""
        self.tokens = AppTokens(runtime)
        """API tokens: `app.tokens.create("ci", "operator")`."""
        self.webhooks = AppWebhooks(runtime)
        """Endpoints that receive events: `app.webhooks.create("https://example.com/hook")`."""

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self._runtime.settings

    # --- declaring ----------------------------------------------------------------------------------------
    def job(self, name: str, **options: Unpack[JobOptions]) -> JobDecorator:
        """Declare a function as a handler, and a job for it: `@app.job("report", cron="0 3 * * *", tz="Europe/Paris")`.

        You can still call the function, and you can enqueue and trigger it: see `JobHandle`.
        """
        with declaring(f"job {name!r}" if isinstance(name, str) else ""):
            refuse_bare(name)
            return JobDecorator(self, self._runtime.registry, identifier("name", name), options)

    def register(self, handler: NamedHandler, **options: Unpack[JobOptions]) -> None:
        """Declare a class or an object with `name` and `perform(data, execution)` as a handler, and a job for it."""
        self._runtime.registry.register(handler, **options)

    def schedule(
        self, name: str, handler: AnyHandler, trigger: Trigger | None = None, /, **options: Unpack[JobOptions]
    ) -> None:
        """Declare another job for a handler, with its own trigger, parameters and queue."""
        self._runtime.registry.schedule(name, handler, trigger, **options)

    def provide(self, name: str, resource: Any) -> None:
        """Give every handler a resource (a pool, an HTTP client) as `ctx.resources.name`."""
        self._runtime.resources[name] = resource

    def setup(self, hook: F) -> F:
        """Call this function in every process that runs handlers: in a worker when it starts, in a child process of
        `isolation="process"` before its first execution. The mapping that it returns or yields is added to
        `ctx.resources`. The code after a `yield` runs when the process ends.

        ```python
        @app.setup
        async def connect() -> AsyncIterator[dict[str, Any]]:
            async with httpx.AsyncClient() as client:
                yield {"http": client}
        ```
        """
        return self._runtime.setup.add(hook)

    def around(self, hook: F) -> F:
        """Run code around every handler, in the thread or process of the handler. The hook is a generator: its code
        before the `yield` runs before the handler, and its code after the `yield` runs after it. Plain generators run
        around plain functions, async generators around coroutines. Hooks also run around functions that list tenants.

        ```python
        @app.around
        def connections(ctx: JobContext) -> Iterator[None]:
            pool.close_old()
            yield
        ```
        """
        return self._runtime.registry.around.add(hook)

    def observe(self, observer: Observer) -> None:
        """Call the observer with every event of this process: see `Event` and docs/observability.md."""
        self._runtime.observe(observer)

    # --- lifecycle ----------------------------------------------------------------------------------------
    async def open(self) -> None:
        """Connect without starting a role, and create declared jobs that are not stored yet. This happens by itself
        when it is needed. Jobs that are stored already change only at `start`, so a client with old code changes
        none."""
        await self._runtime.ready()

    async def close(self) -> None:
        """Stop the roles of this process and disconnect."""
        await self._runtime.close()

    async def start(self, **settings: Unpack[SettingsOptions]) -> None:
        """Start the roles of this process. Settings given here, such as `roles=["worker"]` or `queues=["mail"]`,
        override those of the constructor. An application without jobs starts nothing unless you give it roles."""
        await self._runtime.start(settings)

    async def stop(self, timeout: float | None = None) -> None:
        """Drain and stop the roles of this process within `timeout` seconds, or the setting `stop_timeout`."""
        await self._runtime.stop(timeout)

    async def __aenter__(self) -> Mainspring:
        try:
            await self.start()
        except BaseException:
            await self.close()  # `async with` calls __aexit__ only after __aenter__ has succeeded
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        await self.close()

    def run(self, **settings: Unpack[SettingsOptions]) -> None:
        """Run the roles of this process until SIGTERM or SIGINT, and log to standard error unless logging is set up.

        The exit code is 2 if the process cannot start, because it cannot reach the database within `start_timeout` or
        the database refuses it. It is 1 if the process could not record or hand back all its work, and after a second
        signal, which stops the process at once."""
        if not self._runtime.run(settings):
            raise SystemExit(1)

    @asynccontextmanager
    async def lifespan(self, host: Any = None) -> AsyncIterator[None]:
        """Run the roles of this process inside FastAPI or Starlette: `FastAPI(lifespan=app.lifespan)`. In a lifespan of
        your own, use `async with app.lifespan(): ...`. Log lines go to standard error unless your code sets up
        logging: a web server sets up only its own."""
        with self._runtime.lines_shown():
            async with self:
                yield

    @property
    def token_source(self) -> Runtime:
        """The API tokens and failed logins, for a guard of your own: `Guard(app.settings.security, app)`."""
        return self._runtime

    def asgi(self) -> FastAPI:
        """The HTTP interface, to mount into an application of your own. It needs the extra `mainspring[server]`.

        ```python
        site = FastAPI(lifespan=app.lifespan)
        site.mount("/jobs-admin", app.asgi())
        ```
        """
        return self._runtime.api

    @cached_property
    def sync(self) -> SyncMainspring:
        """The same methods, blocking: for Flask, Django, scripts and threads."""
        from .sync import SyncMainspring

        return SyncMainspring(self)

    # --- making executions --------------------------------------------------------------------------------
    async def enqueue(
        self,
        handler: AnyHandler,
        params: Mapping[str, Any] | None = None,
        *,
        connection: Any = None,
        **options: Unpack[EnqueueOptions],
    ) -> Execution | None:
        """Enqueue one execution of a handler (function, class or name); None if its unique key is taken.

        With `connection`, Mainspring stores the execution in your own transaction, so it exists only if you commit.
        The executions of several tenants take turns in their queue. They take turns by `share` instead, if you give it.
        """
        parts = self._runtime.at_hand() or await self._runtime.ready(connection is not None)
        row = await parts.enqueuer.enqueue(handler, params, connection=connection, **options)
        return None if row is None else Execution(row)

    @overload
    async def enqueue_many(
        self, items: Iterable[BoundCall[R]], *, connection: Any = None, **options: Unpack[EnqueueOptions]
    ) -> list[Execution[R] | None]: ...
    @overload
    async def enqueue_many(
        self, items: Iterable[EnqueueItem], *, connection: Any = None, **options: Unpack[EnqueueOptions]
    ) -> list[Execution | None]: ...
    async def enqueue_many(
        self, items: Iterable[EnqueueItem], *, connection: Any = None, **options: Unpack[EnqueueOptions]
    ) -> list[Execution | None]:
        """Enqueue many at once: `[handle.bind(x=1), (handler, params), (handler, params, {"priority": 5})]`.

        Returns the executions in the same order. The options apply to every item that does not set its own;
        `connection` is as for `enqueue`.
        """
        parts = self._runtime.at_hand() or await self._runtime.ready(connection is not None)
        return executions_of(await parts.enqueuer.enqueue_many(items, connection=connection, **options))

    async def trigger(
        self,
        name: AnyHandler,
        params: Mapping[str, Any] | None = None,
        *,
        window: tuple[Instant, Instant] | None = None,
        by: str = "system",
        traceparent: str | None = None,
        tenant: str | None = None,
        tenants: Several[str] | None = None,
    ) -> Execution:
        """Run a job now, by its name or by its handler (function, class, object). Its next scheduled time does not
        change.

        `window` is the data window (begin, end) that the run covers. A job with tenants runs only for `tenants`, if
        given. With `tenant`, it runs for that one, without a parent execution.
        """
        row = await (await self._runtime.engine()).manual_runs.trigger(
            name, params, window=window, by=by, traceparent=traceparent, tenant=tenant, tenants=tenants
        )
        return Execution(row)

    @asynccontextmanager
    async def track(
        self,
        name: str,
        *,
        trigger: TriggeredBy = "manual",
        triggered_by: str = "system",
        params: Mapping[str, Any] | None = None,
        traceparent: str | None = None,
    ) -> AsyncIterator[JobContext]:
        """Record work that your own code does: `async with app.track("import", triggered_by="ada") as ctx: ...`. If the
        store cannot be reached, the work runs anyway, and is recorded when the store is back."""
        tracker = await self._runtime.tracker()
        async with tracker.track(
            name, trigger=trigger, triggered_by=triggered_by, params=params, traceparent=traceparent
        ) as context:
            yield context

    async def backfill(
        self, name: str, begin: Instant | None = None, end: Instant | None = None, **options: Unpack[BackfillOptions]
    ) -> Backfill:
        """Run the data windows of a job in the range [begin, end) that are missing or have failed. Without a range, run
        all of these. `app.backfills` has the other commands, and `BackfillOptions` the options."""
        return await self.backfills.start(name, begin, end, **options)

    # --- steering -----------------------------------------------------------------------------------------
    async def pause(
        self,
        name: str,
        *,
        by: str = "system",
        note: str | None = None,
        resume_at: Instant | None = None,
        resume_after: Duration | None = None,
        seen: str | None = None,
    ) -> JobView:
        """Pause a job: it has no ticks until it is resumed, and running executions complete. The pause ends by itself
        at `resume_at` or after `resume_after`. With `seen`, the `tag` of a view, the command is refused if the job has
        changed since."""
        return await (await self._runtime.engine()).steering.pause(
            name, by=by, note=note, resume_at=resume_at, resume_after=resume_after, seen=seen
        )

    async def resume(self, name: str, *, by: str = "system") -> JobView:
        """End the pause of a job."""
        return await (await self._runtime.engine()).steering.resume(name, by=by)

    async def cancel(
        self, ref: str | Execution, *, by: str = "system", reason: str | None = None
    ) -> Execution | JobView:
        """Cancel an execution, or a job by its name. Cancelling a job also cancels its executions, and stops its
        schedule until you reactivate it."""
        done = await (await self._runtime.engine()).steering.cancel(ref, by=by, reason=reason)
        return done if isinstance(done, JobView) else Execution(done)

    async def cancel_execution(self, id: str, *, by: str = "system", reason: str | None = None) -> Execution:
        """Cancel an execution by its id. A waiting execution ends at once; a running one is asked to stop."""
        return Execution(await (await self._runtime.engine()).steering.cancel_execution(id, by=by, reason=reason))

    async def reactivate(self, name: str, *, by: str = "system") -> JobView:
        """Let a cancelled job run again."""
        return await (await self._runtime.engine()).steering.reactivate(name, by=by)

    @overload
    async def retry(
        self,
        ref: Execution[R],
        *,
        params: Mapping[str, Any] | None = None,
        remove: Iterable[str] = (),
        by: str = "system",
    ) -> Execution[R]: ...
    @overload
    async def retry(
        self, ref: str, *, params: Mapping[str, Any] | None = None, remove: Iterable[str] = (), by: str = "system"
    ) -> Execution: ...
    async def retry(
        self,
        ref: str | Execution,
        *,
        params: Mapping[str, Any] | None = None,
        remove: Iterable[str] = (),
        by: str = "system",
    ) -> Execution:
        """Run an execution again that failed, was cancelled or ended as partial, or the last one of a job. Returns a
        new execution. `params` replaces single parameters and `remove` leaves some out; the others stay. `edited` of
        the new execution shows what changed."""
        edit = read_edit(params, remove)
        return Execution(await (await self._runtime.engine()).steering.retry(ref, by=by, edit=edit))

    async def update_job(
        self, name: str, *, by: str = "system", seen: str | None = None, **changes: Unpack[JobOptions]
    ) -> JobView:
        """Override options of a job. The change survives deploys until you revert it. With `seen`, the `tag` of a view,
        the command is refused if the job has changed since."""
        given: dict[str, Any] = {**changes}
        return await (await self._runtime.engine()).steering.update_job(name, given, by=by, seen=seen)

    async def revert_job(self, name: str, *, by: str = "system") -> JobView:
        """Remove every override of a job, so that it follows its declaration again."""
        return await (await self._runtime.engine()).steering.revert_job(name, by=by)

    async def remove_job(self, name: str, *, by: str = "system", force: bool = False, purge: bool = False) -> None:
        """Delete a job; with `purge`, also its executions. Unless `force` is true, the command is refused while an
        execution of the job is live, and if other jobs run after it."""
        await (await self._runtime.engine()).steering.remove_job(name, by=by, force=force, purge=purge)

    async def skip_occurrence(self, name: str, at: Instant, *, by: str = "system") -> JobView:
        """Skip the run that is due at `at`. A time without an offset is in the zone of the job."""
        return await (await self._runtime.engine()).steering.skip_occurrence(name, at, by=by)

    async def move_occurrence(self, name: str, at: Instant, to: Instant, *, by: str = "system") -> JobView:
        """Move the run that is due at `at` to another time. It keeps its window."""
        return await (await self._runtime.engine()).steering.move_occurrence(name, at, to, by=by)

    async def restore_occurrence(self, name: str, at: Instant, *, by: str = "system") -> JobView:
        """Undo a skip or a move."""
        return await (await self._runtime.engine()).steering.restore_occurrence(name, at, by=by)

    # --- reading ------------------------------------------------------------------------------------------
    async def jobs(
        self,
        *,
        sort: JobSort = "name",
        limit: int | None = None,
        offset: int = 0,
        after: str | None = None,
        system: bool = False,
        **filters: Unpack[JobFilters],
    ) -> Page[JobView]:
        """The jobs that match every given filter; all of these, unless there is a `limit`. `sort` is a field such as
        `next_run_at`; a `-` before it reverses the order. `after` is the name of the job to continue after.

        Mainspring's own jobs are left out unless `system` is true.
        """
        given: Mapping[str, Any] = filters
        lists = (await self._runtime.engine()).job_lists
        found = await lists.listed(job_filter(given, system=system), sort=sort, limit=limit, offset=offset, after=after)
        return Page(found.jobs, next=found.after, total=found.total)

    async def job_view(self, name: str) -> JobView:
        """One job: its options, state, next run and last executions; `JobNotFound` if there is none of this name."""
        return await (await self._runtime.engine()).queries.shown(name)

    async def windows(self, name: str, begin: Instant | None = None, end: Instant | None = None) -> Windows:
        """The data windows of a job in the range [begin, end), and whether each is done, failed, missing or running.
        Without a range, they begin with the first window known for the job and end now."""
        return await (await self._runtime.engine()).windows.windows(name, begin, end)

    async def why(self, name: str) -> tuple[JobView, list[Reason]]:
        """A job, and the reasons why it is not running; those that block it come first."""
        return await (await self._runtime.engine()).overview.why(name)

    async def why_waiting(self, execution: Execution) -> list[Reason]:
        """The reasons why this one execution has not begun."""
        return await (await self._runtime.engine()).overview.why_waiting(row_of(execution))

    async def executions(
        self,
        job: str | None = None,
        *,
        limit: int = 50,
        offset: int = 0,
        before: str | None = None,
        system: bool = False,
        **filters: Unpack[FiltersBesideJob],
    ) -> Page[Execution]:
        """The executions that match every given filter, live and ended, newest first. To continue, pass the `next` of a
        page as `before`. If a page is short because few of the newest 10,000 executions match, it has
        `searched_until`.

        Executions of Mainspring's own jobs are left out unless `system` is true or `job` names one.
        """
        given: Mapping[str, Any] = {"job": job, **filters}
        lists = (await self._runtime.engine()).queries.execution_lists
        wanted = await lists.filter(given, system=system)
        found = await lists.page(wanted, limit=limit, offset=offset, cursor=before)
        return Page(executions_of(found.rows), next=found.next, searched_until=found.searched_until)

    async def get(self, execution_id: str) -> Execution:
        """One execution; `ExecutionNotFound` if there is none of this id."""
        return Execution(await (await self._runtime.engine()).queries.get(execution_id))

    async def logs(
        self, execution: Execution | str, after: int = 0, level: AnyCaseLogLevel | None = None
    ) -> list[tuple[int, LogEntry]]:
        """The numbered log lines of an execution: with `after`, only those after that number; with `level`, only those
        of this level or above."""
        return log_entries(await (await self._runtime.engine()).queries.logs(execution, after, level))

    async def follow(
        self, execution: Execution | str, after: int = 0, level: AnyCaseLogLevel | None = None
    ) -> AsyncGenerator[LogEntry | Execution, None]:
        """Follow an execution live, wherever it runs: yields its log lines, and the execution itself whenever its state
        or progress changes. The last item is the ended execution. `after` and `level` are as for `logs`."""
        queries = (await self._runtime.engine()).queries
        async with aclosing(queries.follow(execution, after, level)) as items:
            async for item in items:
                yield log_entry(*item) if isinstance(item, tuple) else Execution(item)

    @overload
    async def wait(self, execution: Execution[R], timeout: float | None = None) -> Execution[R]: ...
    @overload
    async def wait(self, execution: str, timeout: float | None = None) -> Execution: ...
    async def wait(self, execution: Execution | str, timeout: float | None = None) -> Execution:
        """Wait until an execution has ended, and return it; `TimeoutError` after `timeout` seconds."""
        return Execution(await (await self._runtime.engine()).queries.wait(execution, timeout))

    async def workers(self) -> list[WorkerView]:
        """Every process that runs roles, with its host, roles, queues and last heartbeat."""
        return [worker_view(info) for info in await (await self._runtime.engine()).queries.workers()]

    async def drain_worker(self, id: str, *, note: str | None = None, by: str = "system") -> str:
        """Let one process start no more work and complete what it is running. The beginning or end of its id is
        enough."""
        return await (await self._runtime.engine()).controls.drain(id, by=by, note=note)

    async def undrain_worker(self, id: str, *, by: str = "system") -> str:
        """Let a drained process take work again."""
        return await (await self._runtime.engine()).controls.undrain(id, by=by)

    async def changes(
        self, since: When = DEFAULT_SINCE, *, until: When | None = None, job: str | None = None, limit: int = 100
    ) -> list[RecordedChange]:
        """What changed, newest first: deploys, starts and stops of processes, jobs that a deploy created or changed,
        and what people did. `since` and `until` are instants, or durations before now such as "2h"."""
        return await (await self._runtime.engine()).changes.newest(since, until=until, job=job, limit=limit)

    async def audits(self, target: str | None = None, limit: int = 100) -> list[AuditRecord]:
        """The audit trail, newest first: who did what. With `target`, only what was done to that job or execution."""
        return [audit_record(each) for each in await (await self._runtime.engine()).queries.audits(target, limit)]

    # --- locks --------------------------------------------------------------------------------------------
    @asynccontextmanager
    async def lock(
        self, name: str, ttl: Duration = 30, *, hold_at_least: Duration = 0, wait: Duration | None = 0
    ) -> AsyncIterator[Lock]:
        """Hold a named lock across processes. Mainspring renews the lock while you hold it, and releases it at the end.
        Raises `LockTaken` if another process still holds it after `wait`."""
        async with (await self._runtime.engine()).locks.lock(name, ttl, hold_at_least, wait) as lock:
            yield lock

    async def try_lock(self, key: str, ttl: Duration) -> bool:
        """Take a lock that expires after `ttl`. Returns True only to the first caller."""
        return await (await self._runtime.engine()).locks.try_lock(key, ttl)

    async def unlock(self, key: str) -> bool:
        """Release a lock that you took with `try_lock`, before it expires. Returns False if nobody held it."""
        return await (await self._runtime.engine()).locks.unlock(key)
