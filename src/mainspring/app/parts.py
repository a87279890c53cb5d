"""The parts of the engine around one store in one process, wired together, and the jobs that code declares."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
import threading
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from ..config.settings import SETTINGS, Settings
from ..core.access.api_tokens import Tokens
from ..core.access.login_failures import LoginFailures
from ..core.auditing import audit_record
from ..core.backfills.commands import Backfills
from ..core.backfills.windows import WindowQueries
from ..core.bulk.actions import Actions
from ..core.bulk.commands import BulkActions
from ..core.bulk.driver import BulkDriver
from ..core.commands.bulk import Bulk
from ..core.commands.enqueue import Enqueuer
from ..core.commands.hooks import Hooks
from ..core.commands.idempotency import Idempotency
from ..core.commands.imports import Imports
from ..core.commands.job_creation import Creation
from ..core.commands.steering import Steering
from ..core.commands.templates import Templates
from ..core.commands.tenant_retries import TenantRuns
from ..core.commands.trigger import ManualRuns
from ..core.controls.commands import Controls
from ..core.declaring.registry import Registry
from ..core.deploys.processes import Processes
from ..core.engine.activity import ActivityCounts, ActivityRecorder
from ..core.engine.heartbeat import HeartbeatThread, Leases
from ..core.engine.inline import LateRecords, Tracker
from ..core.engine.node import Node, NodeSettings
from ..core.errors.commands import ErrorGroups
from ..core.forecast.simulation import Simulations
from ..core.forecast.timeline import Timelines
from ..core.jobs.calendars import Calendars
from ..core.jobs.job_cache import JobCache
from ..core.jobs.own_jobs import OwnJobs
from ..core.locks import Locks
from ..core.loops import Emit
from ..core.monitoring.activity import Activity
from ..core.monitoring.busy_tenants import BusyTenants
from ..core.monitoring.metrics import Readings
from ..core.monitoring.problems import Here, Problems
from ..core.monitoring.queues import Queues
from ..core.monitoring.totals import Overview
from ..core.monitoring.watchdog import Watchdog
from ..core.ports import Clock, Store
from ..core.queries.audit_lists import AuditLists
from ..core.queries.changes import Changes
from ..core.queries.job_lists import JobLists
from ..core.queries.queries import Queries
from ..core.store_clock import StoreClock
from ..core.webhooks.commands import Webhooks
from ..core.webhooks.delivering import Deliverer
from ..core.webhooks.hand_over import EventHandOver
from ..core.webhooks.marking_store import MarkingStore
from ..core.webhooks.node_part import NodeWebhooks
from ..core.webhooks.subscriptions import Subscriptions
from ..model.errors import StoreError, StoreUnavailable
from ..model.job import JobSpec
from ..model.store.messages import Audit, WorkerInfo
from ..model.values.database_url import without_password
from ..model.values.ids import random_id
from ..version import VERSION
from .adapters import (
    announcing,
    check_redis,
    make_locks,
    make_mailer,
    make_outgoing,
    make_tracing,
    make_wakeups,
    traced,
)
from .start_wait import StartWait

if TYPE_CHECKING:
    from ..observe.metrics.server import MetricsServer
    from ..server.serving import HttpServer

OPEN_PATIENCE = 5.0
LAST_COUNTS = 1.0
"""Seconds that the last counts of activity, and the removal of a worker's record, may take."""


class Parts:
    """Everything that works on one store in one process. A forked child needs parts of its own."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        settings: Settings,
        clock: Clock,
        emit: Emit,
        counts: ActivityCounts,
        tracer_provider: Any = None,
    ) -> None:
        self.wakeups = make_wakeups(settings)
        self.tracing = make_tracing(settings, tracer_provider)
        self.pid = os.getpid()
        self._settings = settings
        self.chance = random.Random(int.from_bytes(os.urandom(16)))
        self.time = StoreClock(clock, emit)
        plain = traced(announcing(store, self.wakeups), self.tracing)
        self.subscriptions = Subscriptions(plain, self.time)
        own_cache = JobCache(plain, self.time, self.chance, settings.release)
        self.hand_over = EventHandOver(plain, self.subscriptions, own_cache, emit)
        self.store = store = cast(Store, MarkingStore(plain, self.subscriptions, self.hand_over, emit))
        own_jobs = OwnJobs(store)
        self.calendars = Calendars(store, self.time, self.chance, registry.calendars, own_jobs)
        self.job_cache = JobCache(store, self.time, self.chance, settings.release, self.calendars, own_jobs)
        self.queries = Queries(store, self.job_cache, self.time, settings.lease)
        self.enqueuer = Enqueuer(store, registry, self.job_cache, self.time, self.chance, emit, settings.payload_limit)
        self.manual_runs = ManualRuns(store, self.enqueuer, self.job_cache, self.time, self.chance, emit)
        self.steering = Steering(
            store, self.manual_runs, self.job_cache, self.queries, self.chance, emit, events=self.subscriptions
        )
        self.controls = Controls(store, self.queries, self.chance)
        self.controls.on_change = self._controls_changed
        self.queues = Queues(store, self.queries, self.time)
        self.tenants = TenantRuns(store, self.manual_runs, self.queries)
        self.windows = WindowQueries(store, self.job_cache, self.calendars)
        self.backfills = Backfills(store, self.enqueuer, self.job_cache, self.windows, self.chance, emit)
        self.locks = Locks(make_locks(settings, store), store, self.time, emit, lock_owner(), self._release_record)
        self.job_lists = JobLists(store, self.queries)
        self.timelines = Timelines(self.queries, self.job_lists, self.calendars, self.time)
        self.simulations = Simulations(self.queries, self.job_lists, self.calendars)
        self.audit_lists = AuditLists(store)
        self.changes = Changes(store)
        self.processes = Processes(store)
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
        self.templates = Templates(store, self.chance, self.creation)
        self.hooks = Hooks(store, self.time, self.chance, self.creation, self.job_cache, self.manual_runs)
        self.errors = ErrorGroups(store, self.chance)
        self.activity = Activity(store, self.time)
        counts.restart(self.time)
        self.activity_recorder = ActivityRecorder(store, counts, self.time, self.chance, emit)
        self.busy_tenants = BusyTenants(store, self.errors, self.time)
        self.imports = Imports(store, self.creation, self.steering, self.job_cache, self.chance, settings.timezone)
        self.webhooks = Webhooks(
            store,
            self.subscriptions,
            self.hand_over,
            self.queries,
            self.chance,
            emit,
            mails=settings.smtp_url is not None,
            private=settings.private_urls,
        )
        self.bulk = Bulk(self.steering)
        actions = Actions(store, self.steering, self.manual_runs, self.errors, self.chance, emit)
        driver = BulkDriver(store, actions, self.job_lists, self.chance, emit)
        self.bulk_actions = BulkActions(store, driver, actions, self.queries, self.job_lists, self.chance, emit)
        self.readings = Readings(store, self.calendars, self.time, settings.metrics_jobs)
        self.watch = Watchdog(store, self.queries, self.calendars, self.time, emit)
        self.problems = Problems(store, self.queues, self.errors, self.calendars, self.time, self._here)
        self.metrics: MetricsServer | None = None
        self.node: Node | None = None
        self.memory: asyncio.Task[None] | None = None
        self.http: HttpServer | None = None
        self.inline: HeartbeatThread | None = None
        self.opened = False
        self.declared = 0
        self._gate = threading.Lock()
        self._turn: Future[None] | None = None

    @property
    def here(self) -> bool:
        """False in a forked child: threads and connections stayed with its parent."""
        return self.pid == os.getpid()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Admits one task at a time, from the event loops of all threads."""
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
        """As `turn`, for a caller inside an open transaction: it must not wait for what that transaction locks."""
        try:
            async with asyncio.timeout(OPEN_PATIENCE), self.turn():
                yield
        except TimeoutError:
            raise StoreError(
                "the store cannot be opened while the caller's transaction is open; "
                "open it before: await app.open(), or app.sync.open(), when the process starts"
            ) from None

    def _begin_turn(self, mine: Future[None]) -> Future[None] | None:
        """Take the turn if it is free; otherwise return the turn to wait for."""
        with self._gate:
            if self._turn is None:
                self._turn = mine
                return None
            return self._turn

    def inline_leases(self) -> Leases:
        """The leases of the running node; without a node, those of a heartbeat for inline work only."""
        if self.node is not None:
            return self.node.leases
        if self.inline is None:
            leases = Leases(inline_info(self), self._settings.lease)
            beat, ignore = self.store.heartbeat, lambda *_: None
            self.inline = HeartbeatThread(beat, leases, self.time, self._settings.heartbeat, ignore, ignore)
            self.inline.start()
        return self.inline.leases

    def tracker(
        self, emit: Emit, late: LateRecords, resources: Mapping[str, Any], logger: logging.Logger | None
    ) -> Tracker:
        context = {"username": self._settings.username, "channel": self._settings.channel, "logger": logger}
        return Tracker(
            self.store,
            self.job_cache,
            self.time,
            self.chance,
            emit,
            self.inline_leases,
            late,
            self.opened,
            self.tracing,
            resources=resources,
            **context,
        )

    def node_webhooks(self, settings: Settings, emit: Emit) -> NodeWebhooks:
        """For a node with these settings."""
        deliverer = Deliverer(
            self.store, self.hand_over, make_outgoing(settings), make_mailer(settings), self.chance, emit
        )
        return NodeWebhooks(self.subscriptions, self.hand_over, deliverer.handler())

    def outside(self) -> AbstractContextManager[None]:
        """Tasks started in this block do not belong to the caller's trace."""
        return nullcontext() if self.tracing is None else self.tracing.outside()

    async def stop(self, timeout: float | None = None) -> int:
        """Stop servers and node at the same time: they are independent, and the timeout covers all of them. Returns how
        many endings the store has not accepted."""
        servers = [server for server in (self.http, self.metrics) if server is not None]
        node, self.http, self.metrics, self.node = self.node, None, None, None
        if self.memory is not None:
            self.memory.cancel()
        stopped = asyncio.gather(*(server.stop() for server in servers))
        unsettled = 0 if node is None else await node.stop(timeout)
        await stopped
        return unsettled

    def channels(self) -> dict[str, bool]:
        """The channels by which other processes wake this one, and whether each works; none if it does not listen."""
        if self.node is None or not self._settings.wakeups:
            return {}
        store = {"store": bool(getattr(self.store, "hears", True))}
        return store if self.wakeups is None else store | {"redis": self.wakeups.hears}

    def _here(self) -> Here:
        return Here(self.node, self.channels())

    async def stop_inline(self) -> None:
        """End the heartbeat of inline work, and remove its record: it would look like a process that fell silent."""
        heart, self.inline = self.inline, None
        if heart is None:
            return
        await heart.stop()
        with suppress(StoreError, TimeoutError):
            async with asyncio.timeout(LAST_COUNTS):
                await self.store.remove_worker(heart.leases.info.id)

    async def reach_redis(self, wait: StartWait) -> None:
        """Wait for the server that keeps the locks. Wake-ups are hints: a start does not wait for them, but a server
        that refuses us is an error."""
        check = partial(check_redis, self._settings)
        if self._settings.locks == "redis":
            await wait.reach(without_password(self._settings.redis_url), check)
        elif self._settings.redis_wakeups:
            with suppress(StoreUnavailable):
                await check()

    async def add_activity(self) -> None:
        """What this process has counted since its node stopped, or at all if it had none. A store that is away does not
        hold up the end."""
        with suppress(StoreError, TimeoutError):
            async with asyncio.timeout(LAST_COUNTS):
                await self.activity_recorder.flush()

    async def close_links(self) -> None:
        """Close the connections to anything but the store."""
        if self.wakeups is not None:
            await self.wakeups.close()
        if self.locks.backend is not self.store:
            await self.locks.backend.close()

    def _controls_changed(self) -> None:
        self.queues.cache.forget()
        if self.node is not None:
            self.node.wake_controls()

    def _release_record(self, target: str, by: str) -> Audit:
        return audit_record(self.chance, "release", target, by, self.time.now())


class Declarations:
    """The jobs that code declares, as they are under given settings. Cached: a start reads them several times, and
    there may be ten thousand."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._made: tuple[int, Settings, list[tuple[str, JobSpec]]] | None = None

    def jobs(self, settings: Settings) -> list[tuple[str, JobSpec]]:
        revision = self._registry.revision
        if self._made is None or self._made[:2] != (revision, settings):
            found = self._registry.declared_jobs(settings.lookup, settings.timezone, settings.job_defaults)
            self._made = (revision, settings, found)
        return self._made[2]


def node_settings(settings: Settings, application: str) -> NodeSettings:
    fields = {name: getattr(settings, name) for name in NodeSettings.__struct_fields__ if name in SETTINGS}
    identity = {"username": settings.username, "channel": settings.channel}
    fields["application"] = application
    return NodeSettings(**fields, sweep_interval=settings.fold_interval, identity=identity, version=VERSION)


def inline_info(parts: Parts) -> WorkerInfo:
    """The worker record of inline work in a process that runs no role."""
    now = parts.time.now()
    id = random_id(now, parts.chance)
    return WorkerInfo(id=id, host=socket.gethostname(), pid=os.getpid(), version=VERSION, started=now, seen=now)


def lock_owner() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"
