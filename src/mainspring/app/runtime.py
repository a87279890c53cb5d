"""The inside of an application: what was declared and set, the parts around its store, and the roles that run here.

`Mainspring` and its namespaces reach everything through one `Runtime`; so do the HTTP interface, the command line and
the testing kit.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import ChainMap
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from ..config.load import load
from ..core.access.api_tokens import Token
from ..core.declaring.registry import Registry, module_names
from ..core.engine.activity import ActivityCounts
from ..core.engine.inline import PATIENCE, LateRecords, TrackedWork, Tracker
from ..core.engine.node import Node
from ..core.ports import Clock, ProcessPool, Store
from ..core.views.events import Observer
from ..model.errors import ConfigurationError, StoreError
from ..model.job import JobSpec
from ..model.values.database_url import without_password
from ..model.values.given import Several
from ..observe.dispatch import Dispatcher
from ..observe.logs.lines import LogLines
from ..observe.logs.setup import already_configured, configure_logging, lines_shown
from ..observe.metrics.access import LogIn, MetricsAccess, Refusal, RequestHeaders
from ..observe.metrics.process_counters import ProcessCounts
from ..observe.metrics.prometheus import page
from ..observe.metrics.server import MetricsServer
from ..observe.pings.pings import Pings
from ..version import VERSION
from .adapters import (
    SystemClock,
    database_of,
    logger_of,
    make_outgoing,
    make_processes,
    make_store,
    observers_of,
    provider_of,
    resources_of,
)
from .import_path import Origin, application_name, check_importable, refuse_while_loading
from .memory import give_back_memory
from .parts import Declarations, Parts, node_settings
from .process import cannot_start, new_event_loop, refuse_inside_loop, run_to_end, serve
from .setup_hooks import SetupHooks
from .start_wait import StartWait

if TYPE_CHECKING:
    from fastapi import FastAPI

    from ..core.engine.foreground import Foreground

PING_FLUSH = 2.0
"""Seconds that unsent pings get when the application closes."""


class Runtime:
    """One application in one process. Nothing connects before it is needed."""

    def __init__(
        self,
        database: str | os.PathLike[str] | Store | None,
        settings: Mapping[str, Any],
        *,
        jobs: Several[str],
        resources: Mapping[str, Any] | None,
        observers: Iterable[Observer],
        tenant_context: Callable[..., Any] | None,
        logger: logging.Logger | None,
        tracer_provider: Any,
        clock: Clock | None,
        config_file: str | None,
        origin: Origin,
    ) -> None:
        url, self.given_store = database_of(database)
        self.arguments = dict(settings) if url is None else {"database_url": url, **settings}
        self._config_file = config_file
        self.settings = load(self.arguments, None, config_file)
        self.clock: Clock = clock or SystemClock()
        self.origin = origin
        self.registry = Registry(tenant_context, self.settings.default_isolation, self._check_importable)
        self.resources = resources_of(resources)
        self.setup = SetupHooks()
        self._made: Mapping[str, Any] = {}
        self._cleanup = AsyncExitStack()
        self.logger, self.tracer_provider = logger_of(logger), provider_of(tracer_provider)
        self.activity_counts = ActivityCounts(self.clock)
        self.emit = Dispatcher(LogLines(logger), self.activity_counts, *observers_of(observers))
        self.late_records = LateRecords(self._write_late, self.emit)
        self.parts: Parts | None = None
        self._modules = module_names(jobs)
        self._declarations = Declarations(self.registry)

    # --- declarations -------------------------------------------------------------------------------------
    @property
    def idle(self) -> bool:
        """No job is declared, and no module is left to declare one."""
        return not self.registry.names and not self._modules

    @property
    def declares(self) -> tuple[str, ...]:
        """The names of the jobs that code declares; imports the modules that declare them first."""
        self.import_modules()
        return tuple(name for name, _ in self._declarations.jobs(self.settings))

    def declared_spec(self, name: str) -> JobSpec | None:
        """The job of this name as code declares it; None if it does not."""
        self.import_modules()
        return next((spec for each, spec in self._declarations.jobs(self.settings) if each == name), None)

    async def foreground(self) -> Foreground:
        """For runs in the foreground of this process."""
        from ..core.engine.foreground import Foreground  # only `mainspring exec` needs it, and the debugger with it

        parts, tracker = await self.engine(), await self.tracker()
        identity = {"username": self.settings.username, "channel": self.settings.channel, "logger": self.logger}
        return Foreground(
            self.registry,
            parts.enqueuer,
            tracker,
            parts.time,
            parts.chance,
            self.emit,
            resources=self._resources(),
            **identity,
        )

    @property
    def import_path(self) -> str | None:
        """`MODULE:APP` of this application, for a child process that imports it; None if no name leads to it."""
        return self.settings.import_path or self.origin.import_path

    @property
    def application(self) -> str:
        """The name by which other applications on the same database know this one."""
        return self.settings.application or application_name(self.import_path)

    def _check_importable(self, final: bool) -> None:
        check_importable(self.origin, self.settings.import_path, final=final)

    def _processes(self, clock: Clock) -> ProcessPool:
        self._check_importable(final=True)
        return make_processes(self.settings, self.import_path or "", self.registry.modules, clock)

    def observe(self, observer: Observer) -> None:
        self.emit.add(*observers_of([observer]))

    def import_modules(self) -> None:
        """Import the modules that declare jobs. In a child process, before its first execution."""
        self.registry.import_modules(self._modules)
        self._modules = ()

    # --- connecting ---------------------------------------------------------------------------------------
    def at_hand(self) -> Parts | None:
        """The parts if they are open and know every declaration, which is nearly always."""
        parts = self.parts
        if parts is None or not parts.opened or parts.declared != self.registry.revision or not parts.here:
            return None
        return parts

    async def engine(self) -> Parts:
        """The parts, open; the first caller opens them, and a forked child opens its own."""
        return self.at_hand() or await self.ready()

    async def ready(self, in_transaction: bool = False, declare: bool = True) -> Parts:
        parts = self.parts
        if parts is None or not parts.here:
            parts = self.parts = Parts(
                self._make_store(),
                self.registry,
                self.settings,
                self.clock,
                self.emit,
                self.activity_counts,
                self.tracer_provider,
            )
        if not parts.opened or (declare and parts.declared != self.registry.revision):
            async with parts.short_turn() if in_transaction else parts.turn():
                await self._open(parts, declare)
        return parts

    async def tracker(self) -> Tracker:
        """Also while the store cannot be reached: the work is recorded later."""
        try:
            async with asyncio.timeout(PATIENCE):
                parts = await self.engine()
        except (StoreError, TimeoutError) as error:
            if self.parts is None:
                raise
            parts = self.parts
            self.late_records.failed(error)
        return parts.tracker(self.emit, self.late_records, self._resources(), self.logger)

    async def _write_late(self, work: TrackedWork) -> None:
        parts = await self.engine()
        await parts.tracker(self.emit, self.late_records, self._resources(), self.logger).write(work)

    async def _open(self, parts: Parts, declare: bool) -> None:
        """Connect once, and store the jobs that code has declared since this was last done."""
        self.import_modules()
        revision, declared = self.registry.revision, self._declarations.jobs(self.settings)
        if not parts.opened:
            await parts.store.open()
            parts.time.observe(await parts.store.now())
            parts.opened = True
        if declare and parts.declared != revision:
            await parts.job_cache.declare(declared, update=parts.node is not None)
            parts.declared = revision

    @property
    def address(self) -> str:
        """Where the database is, safe to show."""
        if self.given_store is None:
            return without_password(self.settings.database_url)
        return str(getattr(self.given_store, "name", type(self.given_store).__name__))

    def _make_store(self) -> Store:
        """The store that this process connects to, when it first needs one."""
        return make_store(self.settings, self.clock) if self.given_store is None else self.given_store

    async def close(self) -> None:
        """Stop the roles and disconnect."""
        await self.stop()
        await self._flush_pings()
        await self.late_records.close()
        parts, self.parts = self.parts, None
        if parts is None or not parts.here:
            return
        await parts.stop_inline()
        if parts.opened:
            await parts.add_activity()
            await parts.close_links()
            if self.given_store is None:
                await parts.store.close()

    # --- resources ----------------------------------------------------------------------------------------
    @asynccontextmanager
    async def handler_resources(self) -> AsyncIterator[Mapping[str, Any]]:
        """What handlers find in `ctx.resources` in this process: the application's resources and what its setup hooks
        make. Entered once in each process that runs handlers, around all of them: by a worker, and by a child process
        before its first execution."""
        async with self.setup.resources() as made:
            self._made = made
            try:
                yield self._resources()
            finally:
                self._made = {}

    def _resources(self) -> Mapping[str, Any]:
        return ChainMap(dict(self._made), self.resources) if self._made else self.resources

    # --- roles --------------------------------------------------------------------------------------------
    async def start(self, options: Mapping[str, Any]) -> None:
        """Start the roles of this process. An application without jobs starts only roles it is asked for."""
        refuse_while_loading()
        self._configure(options)
        self.import_modules()
        self._attach_observers()
        if not self.settings.enabled or (not self.registry.names and options.get("roles") is None):
            return
        wait = StartWait(self.settings.start_timeout, self.emit)
        parts = await wait.reach(self.address, lambda: self.ready(declare=False))
        await parts.reach_redis(wait)
        async with parts.turn():
            if parts.node is None:
                try:
                    await self._start(parts)
                except BaseException:
                    await self._stop(parts, 0)
                    raise

    async def _start(self, parts: Parts) -> None:
        """Listen first: a process whose port is taken starts no role."""
        self._bind_http(parts)
        await self._serve_metrics(parts)
        with parts.outside():
            if "worker" in self.settings.roles and self.setup:
                await self._cleanup.enter_async_context(self.handler_resources())
            parts.node = await self._started_node(parts)
            parts.memory = asyncio.create_task(give_back_memory(), name="mainspring-memory")
            if parts.http is not None:
                await parts.http.start()

    def _configure(self, options: Mapping[str, Any]) -> None:
        chosen = {name: value for name, value in options.items() if value is not None}
        self.settings = load(self.arguments | chosen, None, self._config_file)

    async def _started_node(self, parts: Parts) -> Node:
        """A start is a deploy: from here on the stored jobs follow the code of this process."""
        revision, declared = self.registry.revision, self._declarations.jobs(self.settings)
        await parts.job_cache.declare(declared)
        parts.declared = revision
        names = tuple(name for name, _ in declared)
        if self.settings.prune:
            await parts.steering.retire_orphans(frozenset(names))
        node = Node(
            parts.store,
            self.registry,
            node_settings(self.settings, self.application),
            parts.time,
            parts.chance,
            self.emit,
            declares=names,
            resources=self._resources(),
            tracing=parts.tracing,
            logger=self.logger,
            webhooks=parts.node_webhooks(self.settings, self.emit),
            bulk=parts.bulk_actions.driver,
            processes=partial(self._processes, parts.time),
            isolates=any(spec.isolation == "process" for _, spec in declared),
            code={name: self.registry.code_of(spec) for name, spec in declared},
            activity=parts.activity_recorder,
        )
        await node.start()
        return node

    @property
    def has_roles(self) -> bool:
        """Whether roles run in this process."""
        return self.parts is not None and self.parts.node is not None

    def runs_on(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether roles run on this event loop, the only one on which they can be stopped."""
        node = None if self.parts is None else self.parts.node
        return node is not None and node.runs_on(loop)

    async def stop(self, timeout: float | None = None) -> int:
        """Returns how many endings the store has not accepted."""
        if self.parts is not None and self.parts.here:
            return await self._stop(self.parts, timeout)
        return 0

    async def _stop(self, parts: Parts, timeout: float | None) -> int:
        try:
            return await parts.stop(timeout)
        finally:
            await self._cleanup.aclose()

    def lines_shown(self) -> AbstractContextManager[None]:
        """While a web server runs this process. A logger that was given is the application's own."""
        if self.logger is not None:
            return nullcontext()
        return lines_shown(self.settings.log_format, self.settings.log_level)

    def run(self, options: Mapping[str, Any]) -> bool:
        """Start the roles and run until a stop signal; False when a second signal ended it at once, or when work could
        not be recorded or handed back."""
        refuse_while_loading()
        refuse_inside_loop()
        self._configure(options)
        if not already_configured():
            configure_logging(self.settings.log_format, self.settings.log_level)
        timeout = self.settings.stop_timeout
        new_loop = partial(new_event_loop, self.settings.uvloop)
        try:
            return run_to_end(lambda: serve(lambda: self.start(options), self.stop, self.close, timeout), new_loop)
        except (StoreError, ConfigurationError) as error:
            raise cannot_start(error) from error

    # --- the HTTP interface -------------------------------------------------------------------------------
    @cached_property
    def api(self) -> FastAPI:
        try:
            from ..server.api import create_api
        except ImportError as error:
            remedy = 'run: pip install "mainspring[server]"'
            raise ConfigurationError(f"the HTTP interface needs {error.name}; {remedy}") from error
        _ = self._counts  # it counts from now on
        return create_api(self)

    def _bind_http(self, parts: Parts) -> None:
        """Take the port if this process has the role api. The imports that this needs take a while: they are done
        before any role starts, so that they delay no tick."""
        if "api" in self.settings.roles:
            api = self.api
            from ..server.serving import HttpServer

            http = HttpServer(api, self.settings)
            http.bind()
            parts.http = http

    async def find_token(self, id: str) -> Token | None:
        return await (await self.engine()).tokens.find(id)

    async def note_token_use(self, token: Token) -> Token:
        return await (await self.engine()).tokens.used(token)

    async def note_failed_login(self, address: str, limit: int) -> float:
        """Count a failed login over all processes. Returns the seconds to wait if there were too many."""
        return await (await self.engine()).login_failures.add(address, limit)

    # --- metrics and pings --------------------------------------------------------------------------------
    async def metrics_page(self) -> bytes:
        """What `/metrics` answers, in the text format of Prometheus."""
        parts, counts = await self.engine(), self._counts
        reading = await parts.readings.read()
        counts.know([each.job.name for each in reading.jobs])
        return await page(reading, counts, VERSION, parts.channels(), await parts.queues.series())

    @cached_property
    def _counts(self) -> ProcessCounts:
        """Counts from its first use on."""
        counts = ProcessCounts(self.settings.metrics_jobs)
        self.emit.add(counts)
        return counts

    @cached_property
    def _pings(self) -> Pings:
        pings = Pings(make_outgoing(self.settings))
        self.emit.add(pings)
        return pings

    def _attach_observers(self) -> None:
        """Done before the roles start, so that no event is missed."""
        self._pings.http = make_outgoing(self.settings)
        if self.settings.metrics_port is not None or "api" in self.settings.roles:
            self._counts.know(self.declares)

    async def _serve_metrics(self, parts: Parts) -> None:
        settings = self.settings
        if settings.metrics_port is None:
            return
        access = MetricsAccess(settings.security, self._metrics_login() if settings.security.authenticates else None)

        async def troubles() -> list[str]:
            return ["start"] if parts.node is None else await parts.overview.troubles(parts.node)

        server = MetricsServer(settings.host, settings.metrics_port or 0, access, self.metrics_page, troubles)
        await server.start()
        parts.metrics = server

    def _metrics_login(self) -> LogIn:
        """Credentials on `metrics_port` are judged as those of the HTTP interface."""
        try:
            from ..server.access import Guard
        except ImportError as error:
            remedy = 'run: pip install "mainspring[server]"'
            raise ConfigurationError(f"metrics_port with authentication needs {error.name}; {remedy}") from error
        self.settings.check_http()
        guard = Guard(self.settings.security, self)

        async def log_in(peer: str | None, method: str, headers: RequestHeaders) -> Refusal | None:
            refused = await guard.refusal(peer, method, headers)
            return None if refused is None else Refusal(refused.status, refused.message, refused.headers)

        return log_in

    async def _flush_pings(self) -> None:
        """Send what waits; what is not sent in time is logged and given up. Without anything to send no thread is
        started, which would outlive the application."""
        if "_pings" in self.__dict__ and self._pings.waiting:
            try:
                await asyncio.to_thread(self._pings.close, PING_FLUSH)
            except RuntimeError:  # an ending process starts no more threads
                self._pings.close(PING_FLUSH)
