"""`Mainspring`, the object users hold. The composition root: the only file that picks adapters."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cached_property, partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from ..config import settings as config
from ..core.declaring.options import JobOptions
from ..core.declaring.registrar import Registrar
from ..core.declaring.registry import Registry, module_names
from ..core.engine.node import Node
from ..core.locks import Lock, suggested_ttl
from ..core.monitoring.why import Reason
from ..core.ports import Clock, Store
from ..core.queries.job_view import JobView
from ..core.views.execution import Execution, executions_of, row_of
from ..core.views.records import (
    AuditRecord,
    LockView,
    LogEntry,
    WorkerView,
    audit_record,
    lock_view,
    log_entries,
    worker_view,
)
from ..model.triggers.combined import Trigger
from ..model.values.reading import duration, identifier
from ..observe.dispatch import Dispatcher
from ..observe.logs.lines import LogLines
from ..observe.logs.setup import already_configured, configure_logging
from . import parts as assembly
from .backfills import WindowMethods
from .calendars import CalendarMethods
from .enqueue_methods import EnqueueMethods
from .event_loops import new_event_loop
from .http import ServerMethods
from .monitoring import MonitoringMethods
from .occurrences import OccurrenceMethods
from .parts import Parts, SystemClock
from .signals import run_to_end, serve
from .templates import FlowMethods
from .tenants import TenantMethods
from .tokens import TokenMethods

if TYPE_CHECKING:
    from .sync import SyncMainspring

F = TypeVar("F", bound=Callable[..., Any])


class Mainspring(
    CalendarMethods,
    EnqueueMethods,
    FlowMethods,
    MonitoringMethods,
    OccurrenceMethods,
    ServerMethods,
    TenantMethods,
    TokenMethods,
    WindowMethods,
):
    """A job scheduler and background-job platform around one database.

    >>> app = Mainspring("memory://")
    >>> @app.job("hello", cron="0 30 3 * * *")
    ... async def hello(ctx): ...
    """

    def __init__(
        self,
        database: str | os.PathLike[str] | Store | None = None,
        *,
        jobs: Sequence[str] = (),
        resources: Mapping[str, Any] | None = None,
        observers: Iterable[Callable[[Any], None]] = (),
        tenant_context: Callable[..., Any] | None = None,
        logger: logging.Logger | None = None,
        tracer_provider: Any = None,
        clock: Clock | None = None,
        config_file: str | None = None,
        **settings: Any,
    ) -> None:
        """`database` is an address (`sqlite:///file.db`, `memory://`), the path of a SQLite file, or a store. `jobs`
        names modules that declare jobs; `tenant_context` gives what is entered around the handler for a tenant; lines
        go to `logger` instead of the one called `mainspring`, spans to an OpenTelemetry `tracer_provider` instead of
        the one that is set for the process. Every other keyword is a setting (docs/configuration.md)."""
        url, given_store = assembly.database_of(database)
        if url is not None:
            settings = {"database_url": url, **settings}
        self._arguments, self._config_file = settings, config_file
        self.settings = config.load(settings, None, config_file)
        self.clock: Clock = clock or SystemClock()
        self.registry = Registry(tenant_context)
        self.registrar = Registrar(self.registry)
        self.resources = assembly.resources_of(resources)
        self.logger, self.tracer_provider = assembly.logger_of(logger), assembly.provider_of(tracer_provider)
        self.emit = Dispatcher(LogLines(logger), *assembly.observers_of(observers))
        self._modules = module_names(jobs)
        self._given_store = given_store
        self._parts: Parts | None = None
        self._declarations = assembly.Declarations(self.registry)

    # --- declaring ----------------------------------------------------------------------------------------
    def job(self, name: str, **options: Unpack[JobOptions]) -> Callable[[F], F]:
        """Declare a handler and its job on a function: `@app.job("report", cron="0 3 * * *", tz="Europe/Paris")`."""
        identifier("name", name)

        def declared(function: F) -> F:
            self.registry.declare(name, function, **options)
            return function

        return declared

    def register(self, handler: Any, **options: Unpack[JobOptions]) -> None:
        """Declare a class or instance with `name` and `perform(data, execution)`."""
        self.registry.register(handler, **options)

    def schedule(
        self, name: str, handler: Any, trigger: Trigger | None = None, /, **options: Unpack[JobOptions]
    ) -> None:
        """Declare one more job for a handler, with its own trigger, parameters and queue."""
        self.registry.schedule(name, handler, trigger, **options)

    def provide(self, name: str, resource: Any) -> None:
        """Hand a resource (a pool, an HTTP client) to every handler as `ctx.resources.name`."""
        self.resources[name] = resource

    def observe(self, observer: Callable[[Any], None]) -> None:
        """Call this with every event of this process."""
        self.emit.add(*assembly.observers_of([observer]))

    @property
    def idle(self) -> bool:
        """No job is declared, and no module is left to declare one."""
        return not self.registry.names and not self._modules

    @property
    def declares(self) -> tuple[str, ...]:
        """The names of the jobs that code declares; modules that are to be imported are."""
        self._import_modules()
        return tuple(name for name, _ in self._declarations.jobs(self.settings))

    # --- life ---------------------------------------------------------------------------------------------
    async def open(self) -> None:
        """Connect, without starting any role; declared jobs that are not known yet are created. Done by itself when
        needed. What is known already changes only at `start`, so that a look from an old checkout alters nothing."""
        await self._ready()

    async def close(self) -> None:
        """Stop what runs and disconnect."""
        await self.stop()
        await self._end_pings()
        parts, self._parts = self._parts, None
        if parts is not None and parts.opened and parts.here:
            await parts.stop_inline()
            await parts.close_links()
            if self._given_store is None:
                await parts.store.close()

    async def start(
        self,
        roles: Sequence[str] | None = None,
        queues: Sequence[str] | None = None,
        exclude: Sequence[str] | None = None,
        **settings: Any,
    ) -> None:
        """Start the roles of this process. An application without jobs starts nothing."""
        self._configure({"roles": roles, "queues": queues, "exclude": exclude, **settings})
        self._import_modules()
        self._observe()
        if not self.settings.enabled or (not self.registry.names and roles is None):
            return
        parts = await self._ready(declare=False)
        async with parts.turn():
            if parts.node is None:
                try:
                    await self._start(parts)
                except BaseException:
                    await parts.stop(0)
                    raise

    async def _start(self, parts: Parts) -> None:
        self._take_port(parts)
        await self._serve_metrics(parts)
        with parts.outside():
            parts.node = await self._started_node(parts)
            if parts.http is not None:
                await parts.http.start()

    def _configure(self, options: Mapping[str, Any]) -> None:
        chosen = {name: value for name, value in options.items() if value is not None}
        self.settings = config.load(self._arguments | chosen, None, self._config_file)

    async def _started_node(self, parts: Parts) -> Node:
        """A start is a deploy: jobs follow the code from here on."""
        revision, declared = self.registry.revision, self._declarations.jobs(self.settings)
        await parts.job_cache.declare(declared)
        parts.declared = revision
        names = tuple(name for name, _ in declared)
        if self.settings.prune:
            await parts.steering.retire_orphans(frozenset(names))
        node = Node(
            parts.store,
            self.registry,
            assembly.node_settings(self.settings),
            parts.time,
            parts.chance,
            self.emit,
            declares=names,
            resources=self.resources,
            tracing=parts.tracing,
            logger=self.logger,
        )
        await node.start()
        return node

    async def stop(self, timeout: float | None = None) -> None:
        """Drain and stop the roles within `stop_timeout`. Ends before any connection closes."""
        if self._parts is not None and self._parts.here:
            await self._parts.stop(timeout)

    async def __aenter__(self) -> Mainspring:
        try:
            await self.start()
        except BaseException:
            await self.close()  # nobody else will: `async with` leaves only what it entered
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        await self.close()

    def run(self, **options: Any) -> None:
        """Run the roles of this process until SIGTERM or SIGINT, with its log on standard error unless you set up
        logging yourself. A second signal stops at once, and exits with 1."""
        self._configure(options)
        if not already_configured():
            configure_logging(self.settings.log_format, self.settings.log_level)
        timeout = self.settings.stop_timeout
        new_loop = partial(new_event_loop, self.settings.uvloop)
        if not run_to_end(lambda: serve(lambda: self.start(**options), self.stop, self.close, timeout), new_loop):
            raise SystemExit(1)

    # --- steering -----------------------------------------------------------------------------------------
    async def pause(self, name: str, *, by: str = "system", **options: Any) -> JobView:
        """No new ticks; what runs finishes. Options: `note`, and `resume_at` or `resume_after` to end by itself."""
        return await (await self._ready()).steering.pause(name, by=by, **options)

    async def resume(self, name: str, *, by: str = "system") -> JobView:
        return await (await self._ready()).steering.resume(name, by=by)

    async def cancel(
        self, ref: str | Execution, *, by: str = "system", reason: str | None = None
    ) -> Execution | JobView:
        """Cancel a job by name, or an execution."""
        done = await (await self._ready()).steering.cancel(ref, by=by, reason=reason)
        return done if isinstance(done, JobView) else Execution(done)

    async def cancel_execution(self, id: str, *, by: str = "system", reason: str | None = None) -> Execution:
        return Execution(await (await self._ready()).steering.cancel_execution(id, by=by, reason=reason))

    async def reactivate(self, name: str, *, by: str = "system") -> JobView:
        return await (await self._ready()).steering.reactivate(name, by=by)

    async def retry(self, ref: str | Execution, *, by: str = "system") -> Execution:
        """Run a failed execution, or a job's last one, again as a new execution."""
        return Execution(await (await self._ready()).steering.retry(ref, by=by))

    async def update_job(self, name: str, *, by: str = "system", seen: str | None = None, **changes: Any) -> JobView:
        """Override fields of a job; the change survives deploys until it is reverted. With `seen`, the `tag` of a view,
        only if the job is still as it was."""
        return await (await self._ready()).steering.update_job(name, changes, by=by, seen=seen)

    async def revert_job(self, name: str, *, by: str = "system") -> JobView:
        return await (await self._ready()).steering.revert_job(name, by=by)

    async def remove_job(self, name: str, *, by: str = "system", force: bool = False, purge: bool = False) -> None:
        await (await self._ready()).steering.remove_job(name, by=by, force=force, purge=purge)

    # --- reading ------------------------------------------------------------------------------------------
    async def jobs(self) -> list[JobView]:
        return await (await self._ready()).queries.jobs()

    async def job_view(self, name: str) -> JobView:
        return await (await self._ready()).queries.job(name)

    async def why(self, name: str) -> tuple[JobView, list[Reason]]:
        """Why it is not running: what stands in its way comes first."""
        return await (await self._ready()).overview.why(name)

    async def why_waiting(self, execution: Execution) -> list[Reason]:
        """Why this one execution has not begun."""
        return await (await self._ready()).overview.why_waiting(row_of(execution))

    async def waiting_for_code(self) -> dict[str, int]:
        """Jobs whose code no running process has, and how many of their executions wait for it."""
        return await (await self._ready()).queries.waiting_for_code()

    async def executions(self, job: str | None = None, **filters: Any) -> list[Execution]:
        """Newest first; filters: status, running, tenant, trace_id, trigger, since, until, limit, offset, before."""
        return executions_of(await (await self._ready()).queries.executions(job, **filters))

    async def get(self, execution_id: str) -> Execution:
        return Execution(await (await self._ready()).queries.get(execution_id))

    async def logs(self, execution_id: str, after: int = 0) -> list[tuple[int, LogEntry]]:
        return log_entries(await (await self._ready()).queries.logs(execution_id, after))

    async def wait(self, execution: Execution | str, timeout: float | None = None) -> Execution:
        """The execution once it has ended; `TimeoutError` when it has not by then."""
        return Execution(await (await self._ready()).queries.wait(execution, timeout))

    async def workers(self) -> list[WorkerView]:
        return [worker_view(info) for info in await (await self._ready()).queries.workers()]

    async def audits(self, target: str | None = None, limit: int = 100) -> list[AuditRecord]:
        return [audit_record(each) for each in await (await self._ready()).queries.audits(target, limit)]

    # --- locks --------------------------------------------------------------------------------------------
    @asynccontextmanager
    async def lock(self, name: str, ttl: Any = 30, *, hold_at_least: Any = 0, wait: Any = 0) -> AsyncIterator[Lock]:
        """Hold a named lock across processes: renewed while held, released at the end."""
        async with (await self._ready()).locks.lock(name, ttl, hold_at_least, wait) as lock:
            yield lock

    async def try_lock(self, key: str, ttl: Any) -> bool:
        """Take a lock that is not released but runs out: once per window, whoever comes first."""
        return await (await self._ready()).locks.try_lock(key, ttl)

    @staticmethod
    def suggested_ttl(expected: Any) -> float:
        """Seconds a lock of `try_lock` should last for work that takes about this long."""
        return suggested_ttl(duration("expected", expected, allow_zero=True))

    async def unlock(self, key: str) -> bool:
        return await (await self._ready()).locks.unlock(key)

    async def locks(self) -> list[LockView]:
        return [lock_view(row) for row in await (await self._ready()).locks.backend.locks()]

    async def release_lock(self, name: str, *, by: str = "system") -> bool:
        return await (await self._ready()).locks.release(name, by)

    # --- blocking facade ----------------------------------------------------------------------------------
    @cached_property
    def sync(self) -> SyncMainspring:
        """The same client, blocking: for Flask, Django, scripts and threads."""
        from .sync import SyncMainspring

        return SyncMainspring(self)

    # --- inside -------------------------------------------------------------------------------------------
    def _at_hand(self) -> Parts | None:
        """The parts, if nothing has to be done first: nearly always."""
        parts = self._parts
        if parts is None or not parts.opened or parts.declared != self.registry.revision or not parts.here:
            return None
        return parts

    async def _ready(self, in_transaction: bool = False, declare: bool = True) -> Parts:
        """The parts around an open store; opened by whoever needs it first, anew in a forked child."""
        parts = self._parts
        if parts is None or not parts.here:
            parts = self._parts = Parts(
                self._make_store(), self.registry, self.settings, self.clock, self.emit, self.tracer_provider
            )
        if not parts.opened or (declare and parts.declared != self.registry.revision):
            async with parts.short_turn() if in_transaction else parts.turn():
                await self._open(parts, declare)
        return parts

    async def _open(self, parts: Parts, declare: bool) -> None:
        """Connect once, and bring to the store what code has declared since it was last brought there."""
        self._import_modules()
        revision, declared = self.registry.revision, self._declarations.jobs(self.settings)
        if not parts.opened:
            await parts.store.open()
            parts.time.observe(await parts.store.now())
            parts.opened = True
        if declare and parts.declared != revision:
            await parts.job_cache.declare(declared, update=parts.node is not None)
            parts.declared = revision

    def _import_modules(self) -> None:
        self.registry.import_modules(self._modules)
        self._modules = ()

    def _make_store(self) -> Store:
        if self._given_store is not None:
            return self._given_store
        return assembly.make_store(self.settings, self.clock)
