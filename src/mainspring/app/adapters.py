"""Which adapters an application gets for its arguments and settings. Drivers are imported only when they are needed."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

from ..config.settings import Settings
from ..core.ports import Clock, LockBackend, ProcessPool, Store
from ..core.views.events import adapted
from ..core.webhooks.delivering import Mailer
from ..model.errors import ConfigurationError, InvalidValue
from ..model.store.messages import Audit
from ..model.time.instants import Micros
from ..model.values.database_url import parse_url
from ..model.values.payload import presentable
from .import_path import places_of

CHILD = "mainspring.app.child"
"""The module that a child process runs."""

if TYPE_CHECKING:
    from ..observe.outgoing.http import OutgoingHttp
    from ..observe.tracing.tracing import Tracing
    from ..redis.wakeups import RedisWakeups


class SystemClock:
    """The machine's clock."""

    monotonic = staticmethod(time.monotonic)

    def now(self) -> Micros:
        return time.time_ns() // 1000


# --- arguments of the application, checked ------------------------------------------------------------------


def database_of(given: Any) -> tuple[str | None, Store | None]:
    """The address or the store that the argument `database` stands for; neither if the settings decide."""
    if given is None or isinstance(given, str):
        return given, None
    if isinstance(given, os.PathLike):
        return f"sqlite:///{quote(os.fspath(given))}", None
    is_client = type(given).__module__.startswith("pymongo.")  # any attribute of it is a database
    if callable(getattr(given, "exchange", None)) and not is_client:
        return None, given
    raise InvalidValue("database", presentable(given), "an address such as sqlite:///jobs.db, a path, or a store")


def observers_of(given: Any) -> tuple[Callable[[Any], None], ...]:
    observers = tuple(given) if isinstance(given, Iterable) else (given,)
    for observer in observers:
        if not callable(observer):
            raise InvalidValue("observers", presentable(observer), "callables that take an event")
    return tuple(adapted(observer) for observer in observers)


def logger_of(given: Any) -> logging.Logger | None:
    if given is not None and not isinstance(given, logging.Logger):
        raise InvalidValue("logger", presentable(given), "a logging.Logger")
    return given


def provider_of(given: Any) -> Any:
    if given is not None and not hasattr(given, "get_tracer"):
        raise InvalidValue("tracer_provider", presentable(given), "an OpenTelemetry TracerProvider")
    return given


def resources_of(given: Any) -> dict[str, Any]:
    if given is not None and not isinstance(given, Mapping):
        raise InvalidValue("resources", presentable(given), "a mapping of names to resources")
    return dict(given or {})


# --- adapters for the settings ------------------------------------------------------------------------------


def make_store(settings: Settings, clock: Clock) -> Store:
    """The store behind the address of the database."""
    url = parse_url(settings.database_url)
    if url.scheme == "memory":
        from ..stores.memory import MemoryStore

        return MemoryStore(clock)
    if url.scheme == "sqlite":
        from ..stores.sqlite import SqliteStore

        return SqliteStore(url.path, clock, auto_migrate=settings.auto_migrate)
    if url.scheme == "postgresql":
        from ..stores.postgres import PostgresStore

        return PostgresStore(url.url, auto_migrate=settings.auto_migrate)
    if url.scheme == "mongodb":
        from ..stores.mongo import MongoStore

        return MongoStore(url.url, auto_migrate=settings.auto_migrate)
    known = "use sqlite, postgresql or mongodb"
    raise ConfigurationError(f"database {url.scheme}:// is not supported by this release; {known}")


def make_processes(settings: Settings, import_path: str, modules: Mapping[str, str], clock: Clock) -> ProcessPool:
    """The child processes of this worker, for isolated jobs."""
    if os.name != "posix":
        raise ConfigurationError('isolation="process" needs a POSIX system; use isolation="thread" on Windows')
    from ..processes.child_output import log_levels
    from ..processes.frames import Setup
    from ..processes.pool import ProcessPool
    from ..processes.rules import PoolSettings

    python_path = [str(each) for each in sys.path]
    places, levels = places_of(modules), log_levels()
    setup = Setup(import_path, places, python_path, settings.username, settings.channel, levels)
    limits = PoolSettings(
        most=settings.concurrency,
        cancel_grace=settings.isolation_cancel_grace,
        term_grace=settings.isolation_term_grace,
        recycle_executions=settings.isolation_recycle_executions,
        recycle_age=settings.isolation_recycle_age,
        recycle_growth=settings.isolation_recycle_growth,
    )
    return ProcessPool((sys.executable, "-m", CHILD), setup, limits, clock)


def make_locks(settings: Settings, store: Store) -> LockBackend:
    """Where locks are kept. Releases by hand are recorded in the store, wherever the lock was."""
    if settings.locks == "store":
        return store
    from ..redis.locks import RedisLocks

    async def record(audit: Audit) -> None:
        await store.copy_in("audits", [audit])

    return RedisLocks(settings.redis_url or "", record)


async def check_redis(settings: Settings) -> None:
    """Raise an error if the Redis server of the settings does not answer, or refuses us."""
    from ..redis.client import RedisServer

    server = RedisServer(settings.redis_url or "")
    try:
        await server.check()
    finally:
        await server.close()


def make_wakeups(settings: Settings) -> RedisWakeups | None:
    if not settings.redis_wakeups:
        return None
    from ..redis.wakeups import RedisWakeups

    return RedisWakeups(settings.redis_url or "")


def announcing(store: Store, wakeups: RedisWakeups | None) -> Store:
    if wakeups is None:
        return store
    from ..redis.announcing_store import AnnouncingStore

    return cast(Store, AnnouncingStore(store, wakeups))


def make_outgoing(settings: Settings) -> OutgoingHttp:
    """Sends webhooks and pings."""
    from ..observe.outgoing.egress_proxy import EgressProxy
    from ..observe.outgoing.http import OutgoingHttp

    proxy = None if settings.egress_proxy is None else EgressProxy(settings.egress_proxy)
    return OutgoingHttp(settings.private_urls, proxy=proxy)


def make_mailer(settings: Settings) -> Mailer | None:
    """Sends e-mails, if the settings name a server."""
    if settings.smtp_url is None:
        return None
    from ..observe.outgoing.mail import SmtpMailer

    return SmtpMailer(settings.smtp_url)


def make_tracing(settings: Settings, provider: Any = None) -> Tracing | None:
    """Spans, if the settings ask for them. `auto` means: if the application has set up OpenTelemetry. OpenTelemetry is
    not loaded if nothing else has imported it."""
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
