"""What hangs together around one store in one process, and which adapters an application gets."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

from ..config import settings as config
from ..core.access.api_tokens import Tokens
from ..core.access.login_failures import LoginFailures
from ..core.backfills.commands import Backfills
from ..core.backfills.windows import WindowQueries
from ..core.commands.bulk import Bulk
from ..core.commands.enqueue import Enqueuer
from ..core.commands.idempotency import Idempotency
from ..core.commands.job_creation import Creation
from ..core.commands.steering import Steering
from ..core.commands.templates import Templates
from ..core.commands.tenant_retries import TenantRuns
from ..core.declaring.registry import Registry
from ..core.engine.heartbeat import HeartbeatThread, Leases
from ..core.engine.inline import Tracker
from ..core.engine.node import Node, NodeSettings
from ..core.jobs.calendars import Calendars
from ..core.jobs.job_cache import JobCache
from ..core.locks import Locks
from ..core.loops import Emit
from ..core.monitoring.metrics import Readings
from ..core.monitoring.totals import Overview
from ..core.monitoring.watchdog import Watch
from ..core.ports import Clock, LockBackend, Store
from ..core.queries.audit_lists import AuditLists
from ..core.queries.job_lists import JobLists
from ..core.queries.queries import Queries
from ..core.store_clock import StoreClock
from ..model.errors import ConfigurationError, InvalidValue, StoreError
from ..model.job import JobSpec
from ..model.store.messages import Audit, WorkerInfo
from ..model.time.instants import Micros
from ..model.values.ids import random_id
from ..model.values.payload import presentable
from ..version import VERSION

if TYPE_CHECKING:
    from ..observe.metrics.server import MetricsServer
    from ..observe.tracing.tracing import Tracing
    from ..redis.wakeups import RedisWakeups
    from ..server.serving import HttpServer

OPEN_PATIENCE = 5.0


class SystemClock:
    """The machine's clock."""

    monotonic = staticmethod(time.monotonic)

    def now(self) -> Micros:
        return time.time_ns() // 1000


class Parts:
    """Everything that hangs on one store in one process. A forked child needs parts of its own."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        settings: config.Settings,
        clock: Clock,
        emit: Emit,
        tracer_provider: Any = None,
    ) -> None:
        self.wakeups = make_wakeups(settings)
        self.tracing = make_tracing(settings, tracer_provider)
        self.store = store = traced(announcing(store, self.wakeups), self.tracing)
        self.pid = os.getpid()
        self._settings = settings
        self.chance = random.Random(int.from_bytes(os.urandom(16)))
        self.time = StoreClock(clock, emit)
        self.calendars = Calendars(store, self.time, self.chance, registry.calendars)
        self.job_cache = JobCache(store, self.time, self.chance, settings.release, self.calendars)
        self.queries = Queries(store, self.job_cache, self.time, settings.lease)
        self.enqueuer = Enqueuer(
            store,
            registry,
            self.job_cache,
            self.queries,
            self.time,
            self.chance,
            emit,
            settings.payload_limit,
        )
        self.steering = Steering(store, self.enqueuer, self.job_cache, self.queries, self.chance, emit)
        self.tenants = TenantRuns(store, self.enqueuer, self.queries)
        self.windows = WindowQueries(store, self.job_cache, self.calendars)
        self.backfills = Backfills(store, self.enqueuer, self.job_cache, self.windows, self.chance, emit)
        self.locks = Locks(make_locks(settings, store), self.time, emit, lock_owner(), self._release_record)
        self.job_lists = JobLists(store, self.queries)
        self.audit_lists = AuditLists(store)
        self.tokens = Tokens(store, self.chance)
        self.login_failures = LoginFailures(store)
        self.overview = Overview(store, self.queries, self.time, settings.poll_interval)
        self.idempotency = Idempotency(store, self.time)
        self.creation = Creation(
            store,
            registry,
            self.enqueuer,
            self.job_cache,
            self.calendars,
            self.queries,
            self.chance,
            settings.timezone,
            settings.job_defaults,
        )
        self.templates = Templates(store, self.enqueuer, self.creation)
        self.bulk = Bulk(self.steering, self.queries, self.job_lists)
        self.readings = Readings(store, self.calendars, self.time, settings.metrics_jobs)
        self.watch = Watch(store, self.queries, self.calendars, self.time, emit)
        self.metrics: MetricsServer | None = None
        self.node: Node | None = None
        self.http: HttpServer | None = None
        self.inline: HeartbeatThread | None = None
        self.opened = False
        self.declared = 0
        self._gate = threading.Lock()
        self._turn: Future[None] | None = None

    @property
    def here(self) -> bool:
        """False in a child forked since: threads and connections stayed with the parent."""
        return self.pid == os.getpid()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """One task at a time, whichever thread's event loop it is on."""
        mine: Future[None] = Future()
        while (other := self._begin_turn(mine)) is not None:
            await asyncio.shield(asyncio.wrap_future(other))
        try:
            yield
        finally:
            self._turn = None
            mine.set_result(None)

    @asynccontextmanager
    async def short_turn(self) -> AsyncIterator[None]:
        """As `turn`, for a caller inside a transaction of their own: what it locks cannot be waited for."""
        try:
            async with asyncio.timeout(OPEN_PATIENCE), self.turn():
                yield
        except TimeoutError:
            raise StoreError(
                "the store cannot be opened while the caller's transaction is open; "
                "open it before: await app.open(), or app.sync.open(), when the process starts"
            ) from None

    def _begin_turn(self, mine: Future[None]) -> Future[None] | None:
        """Take the turn if it is free; otherwise say whose end to wait for."""
        with self._gate:
            if self._turn is None:
                self._turn = mine
                return None
            return self._turn

    def inline_leases(self) -> Leases:
        """The leases of the running node, or of a heart that only inline work needs."""
        if self.node is not None:
            return self.node.leases
        if self.inline is None:
            leases = Leases(inline_info(self), self._settings.lease)
            beat, ignore = self.store.heartbeat, lambda *_: None
            self.inline = HeartbeatThread(beat, leases, self.time, self._settings.heartbeat, ignore, ignore)
            self.inline.start()
        return self.inline.leases

    def tracker(self, emit: Emit, resources: Mapping[str, Any], logger: logging.Logger | None) -> Tracker:
        context = {"username": self._settings.username, "channel": self._settings.channel, "logger": logger}
        return Tracker(
            self.store,
            self.job_cache,
            self.time,
            self.chance,
            emit,
            self.inline_leases,
            self.tracing,
            resources=resources,
            **context,
        )

    def outside(self) -> AbstractContextManager[None]:
        """What is started in here belongs to no trace of whoever starts it."""
        return nullcontext() if self.tracing is None else self.tracing.outside()

    async def stop(self, timeout: float | None = None) -> None:
        """At the same time: the stop is to take no longer than it may, and neither needs the other to end."""
        servers = [server for server in (self.http, self.metrics) if server is not None]
        node, self.http, self.metrics, self.node = self.node, None, None, None
        parts = [server.stop() for server in servers]
        if node is not None:
            parts.append(node.stop(timeout))
        await asyncio.gather(*parts)

    def channels(self) -> dict[str, bool]:
        """The ways by which this process is woken up by others, and whether each works; none if it does not listen."""
        if self.node is None or not self._settings.wakeups:
            return {}
        store = {"store": bool(getattr(self.store, "hears", True))}
        return store if self.wakeups is None else store | {"redis": self.wakeups.hears}

    async def stop_inline(self) -> None:
        heart, self.inline = self.inline, None
        if heart is not None:
            await heart.stop()

    async def close_links(self) -> None:
        """Whatever is connected beside the store."""
        if self.wakeups is not None:
            await self.wakeups.close()
        if self.locks.backend is not self.store:
            await self.locks.backend.close()

    def _release_record(self, target: str, by: str) -> Audit:
        return self.enqueuer.audit("release", target, by, self.time.now())


class Declarations:
    """The jobs of the code under given settings. Made once for the same of both: a start asks for them several times,
    and there may be ten thousand."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._made: tuple[int, config.Settings, list[tuple[str, JobSpec]]] | None = None

    def jobs(self, settings: config.Settings) -> list[tuple[str, JobSpec]]:
        revision = self._registry.revision
        if self._made is None or self._made[:2] != (revision, settings):
            found = self._registry.declared_jobs(settings.lookup, settings.timezone, settings.job_defaults)
            self._made = (revision, settings, found)
        return self._made[2]


def database_of(given: Any) -> tuple[str | None, Store | None]:
    """The address or the store meant by what an application was given; neither: the settings say."""
    if given is None or isinstance(given, str):
        return given, None
    if isinstance(given, os.PathLike):
        return f"sqlite:///{quote(os.fspath(given))}", None
    client = type(given).__module__.startswith("pymongo.")  # it has every name, as that of a database
    if callable(getattr(given, "exchange", None)) and not client:
        return None, given
    raise InvalidValue("database", presentable(given), "an address such as sqlite:///jobs.db, a path, or a store")


def observers_of(given: Any) -> tuple[Callable[[Any], None], ...]:
    """Observers as an application was given them, checked."""
    observers = tuple(given) if isinstance(given, Iterable) else (given,)
    for observer in observers:
        if not callable(observer):
            raise InvalidValue("observers", presentable(observer), "callables that take an event")
    return observers


def logger_of(given: Any) -> logging.Logger | None:
    if given is not None and not isinstance(given, logging.Logger):
        raise InvalidValue("logger", presentable(given), "a logging.Logger")
    return given


def provider_of(given: Any) -> Any:
    if given is not None and not hasattr(given, "get_tracer"):
        raise InvalidValue("tracer_provider", presentable(given), "an OpenTelemetry TracerProvider")
    return given


def resources_of(given: Any) -> dict[str, Any]:
    """Resources by name, as an application was given them, checked."""
    if given is not None and not isinstance(given, Mapping):
        raise InvalidValue("resources", presentable(given), "a mapping of names to resources")
    return dict(given or {})


def make_store(settings: config.Settings, clock: Clock) -> Store:
    """The store behind an address. Drivers are imported only here."""
    url = config.parse_url(settings.database_url)
    if url.scheme == "memory":
        from ..stores.memory import MemoryStore

        return MemoryStore(clock)
    if url.scheme == "sqlite":
        from ..stores.sqlite import SqliteStore

        return SqliteStore(url.path, clock)
    if url.scheme == "postgresql":
        from ..stores.postgres import PostgresStore

        return PostgresStore(url.url)
    if url.scheme == "mongodb":
        from ..stores.mongo import MongoStore

        return MongoStore(url.url)
    known = "use sqlite, postgresql or mongodb"
    raise ConfigurationError(f"database {url.scheme}:// is not supported by this release; {known}")


def make_locks(settings: config.Settings, store: Store) -> LockBackend:
    """Where locks are kept. Who releases one is recorded in the store, wherever the lock was."""
    if settings.locks == "store":
        return store
    from ..redis.locks import RedisLocks

    async def record(audit: Audit) -> None:
        await store.copy_in("audits", [audit])

    return RedisLocks(settings.redis_url or "", record)


def make_wakeups(settings: config.Settings) -> RedisWakeups | None:
    if not settings.redis_wakeups:
        return None
    from ..redis.wakeups import RedisWakeups

    return RedisWakeups(settings.redis_url or "")


def announcing(store: Store, wakeups: RedisWakeups | None) -> Store:
    if wakeups is None:
        return store
    from ..redis.announcing_store import AnnouncingStore

    return cast(Store, AnnouncingStore(store, wakeups))


def make_tracing(settings: config.Settings, provider: Any = None) -> Tracing | None:
    """Spans, if the settings say so; by themselves where the application has set up OpenTelemetry before. Where nobody
    has even imported it, nothing of it is loaded."""
    wanted = settings.tracing
    if wanted == "auto" and provider is None:
        if "opentelemetry.trace" not in sys.modules and "OTEL_PYTHON_TRACER_PROVIDER" not in os.environ:
            return None
        from opentelemetry import trace

        wanted = not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider | trace.NoOpTracerProvider)
    if not wanted:
        return None
    try:
        from ..observe.tracing.tracing import Tracing
    except ImportError:
        raise ConfigurationError("tracing needs opentelemetry-api: pip install 'mainspring[otel]'") from None
    return Tracing(provider)


def traced(store: Store, tracing: Tracing | None) -> Store:
    if tracing is None:
        return store
    from ..observe.tracing.traced_store import TracedStore

    return cast(Store, TracedStore(store, tracing))


def node_settings(settings: config.Settings) -> NodeSettings:
    fields = {
        name: getattr(settings, name) for name in settings.__struct_fields__ if name in NodeSettings.__struct_fields__
    }
    identity = {"username": settings.username, "channel": settings.channel}
    return NodeSettings(**fields, sweep_interval=settings.fold_interval, identity=identity, version=VERSION)


def inline_info(parts: Parts) -> WorkerInfo:
    """Who records inline work in a process that runs no role."""
    now = parts.time.now()
    id = random_id(now, parts.chance)
    return WorkerInfo(id=id, host=socket.gethostname(), pid=os.getpid(), version=VERSION, started=now, seen=now)


def lock_owner() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"
