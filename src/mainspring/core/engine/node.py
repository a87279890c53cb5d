"""A node: the roles of one process, started and stopped together around one store."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from ...model import defaults
from ...model.errors import StoreError
from ...model.events import Running, Stopped, Stopping
from ...model.store.messages import HeartbeatReply, HeartbeatRequest, WorkerInfo
from ...model.values.ids import Chance, random_id
from ..backfills.driver import BackfillDriver
from ..bulk.driver import BulkDriver
from ..controls.watch import ControlWatch
from ..declaring.registry import Registry
from ..deploys.processes import ConflictWatch, Processes
from ..loops import Emit, Failure, Outage
from ..ports import ProcessPool, Store, Topic, Tracing
from ..rules.controls import NOTHING_SET
from ..store_clock import StoreClock
from ..tenants.fan_out import FanOuts
from ..webhooks import node_part
from ..webhooks.node_part import NodeWebhooks
from .activity import ActivityRecorder
from .heartbeat import Heartbeat, HeartbeatThread, Leases
from .janitor import Janitor
from .runner import Runner
from .scheduler import Scheduler
from .thread_pool import ThreadPool
from .worker import Worker, WorkerSettings

HeartbeatMaker = Callable[..., Heartbeat]
FIRST_BEAT = 2.0
SETTLING = 0.65
"""The share of the reserve of a stop in which handlers are stopped and their executions are handed back. The store is
given most of it: a disk that is busy with other work can hold up a commit for more than a second."""
CHILD_PATIENCE = 2.0
"""Seconds that idle child processes get to clean up at the end."""


class NodeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a node needs to know; durations in seconds."""

    roles: tuple[str, ...] = ("scheduler", "worker")
    queues: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    concurrency: int = defaults.CONCURRENCY
    poll_interval: float = defaults.POLL_INTERVAL
    lease: float = defaults.LEASE
    heartbeat: float = defaults.HEARTBEAT
    rescue_interval: float = defaults.RESCUE_INTERVAL
    sweep_interval: float = defaults.FOLD_INTERVAL
    retention_interval: float = defaults.RETENTION_INTERVAL
    audit_retention: float | None = None
    wakeups: bool = True
    stop_timeout: float = defaults.STOP_TIMEOUT
    stop_reserve: float = defaults.STOP_RESERVE
    identity: dict[str, Any] = {}
    version: str = ""
    application: str = ""
    release: str = ""


class Node:
    """Made inside a running event loop, with a new id each time."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        settings: NodeSettings,
        time: StoreClock,
        chance: Chance,
        emit: Emit,
        *,
        declares: tuple[str, ...] = (),
        resources: Mapping[str, Any] | None = None,
        tracing: Tracing | None = None,
        logger: logging.Logger | None = None,
        heartbeat: HeartbeatMaker = HeartbeatThread,
        send: Callable[[HeartbeatRequest], Any] | None = None,
        webhooks: NodeWebhooks | None = None,
        bulk: BulkDriver | None = None,
        processes: Callable[[], ProcessPool] | None = None,
        isolates: bool = False,
        code: Mapping[str, str] | None = None,
        activity: ActivityRecorder | None = None,
    ) -> None:
        """`processes` makes the child processes of isolated jobs; with `isolates`, the first begins with the node.
        `code` names what stands behind each declared job; None: starts are not recorded."""
        self._store, self._settings, self._emit, self._time = store, settings, emit, time
        self._threads = ThreadPool(settings.concurrency)
        self.leases = Leases(_info(settings, registry, declares, time, chance), settings.lease)
        self.janitor = Janitor(
            store,
            time,
            chance,
            emit,
            heartbeat=settings.heartbeat,
            rescue_interval=settings.rescue_interval,
            sweep_interval=settings.sweep_interval,
            retention_interval=settings.retention_interval,
            audit_retention=settings.audit_retention,
            webhooks=webhooks,
            conflicts=None if code is None else ConflictWatch(store, time, emit, settings.application, code),
        )
        self._starts, self._code, self._activity = Processes(store), code, activity
        wanted = None if webhooks is None else webhooks.subscriptions
        self.scheduler = Scheduler(store, time, chance, emit, settings.poll_interval, time.observe, wanted)
        self.backfills, self.bulk = BackfillDriver(store, emit), bulk
        self._runner = runner = Runner(
            time,
            self._threads,
            self.id,
            tracing,
            FanOuts(store, registry, time, emit),
            emit=emit,
            resources=resources or {},
            logger=logger,
            processes=processes,
            **settings.identity,
        )
        self._isolates = isolates
        shared = (time, chance, emit, self.janitor)
        self.worker = Worker(store, registry, runner, self.leases, _worker_settings(settings), *shared)
        self.controls = ControlWatch(store, time, chance, emit, self.id, self._obey)
        self.worker.put_backs.look = self.controls.look
        self._deliveries: Worker | None = None
        self._webhooks = webhooks
        if webhooks is not None and delivers(settings, webhooks):
            self._deliveries = Worker(store, webhooks, runner, self.leases, _delivery_settings(settings), *shared)
        self.leases.ended = self._ended
        self._delivering = False
        self._outage = Outage("heartbeat", emit)
        self._event_loop = asyncio.get_running_loop()
        self._heartbeat = heartbeat(
            send or self._send_beat, self.leases, time, settings.heartbeat, self._on_beat, self._on_cut_off
        )
        self._unsubscribe: Callable[[], None] | None = None
        self._known = asyncio.Event()

    @property
    def id(self) -> str:
        return self.leases.info.id

    def runs_on(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether it was made on this event loop, the only one on which it can be stopped."""
        return self._event_loop is loop

    @property
    def is_scheduler(self) -> bool:
        return "scheduler" in self._settings.roles

    @property
    def failures(self) -> list[Failure]:
        """Those of its loops for scheduling and housekeeping that fail at present."""
        return [loop.failure for loop in (*self.janitor.loops, self.scheduler.loop) if loop.failure is not None]

    async def start(self) -> None:
        await self._time.ask(self._store)
        if self._settings.wakeups:
            self._unsubscribe = self._store.listen(self._woken)
        self._time.on_jump = self._on_clock_jump
        self._heartbeat.start()
        try:
            await self._until_known()
            await self._record_start()
            await self._know_controls()
            await self._start_processes()
            self._start_roles()
        except BaseException:
            await self.stop(0)
            raise

    async def _record_start(self) -> None:
        """A failing store does not delay the start."""
        if self._code is not None:
            with suppress(StoreError, TimeoutError):
                async with asyncio.timeout(FIRST_BEAT):
                    await self._starts.started(self.leases.info, self._code)

    async def _know_controls(self) -> None:
        """Before the first claim, so that nothing begins that is paused. A failing store does not delay the start, but
        the worker claims nothing until the controls have been read."""
        self._obey()
        with suppress(StoreError, TimeoutError):
            async with asyncio.timeout(FIRST_BEAT):
                await self.controls.look()

    async def _start_processes(self) -> None:
        if self._isolates and "worker" in self._settings.roles and self._runner.processes is not None:
            await self._runner.processes.start()

    def _start_roles(self) -> None:
        if self._webhooks is not None:
            subscriptions = self._webhooks.subscriptions
            subscriptions.on_marked = partial(self._soon, self.janitor.wake_follow_ups)
            subscriptions.on_exist = partial(self._soon, self._start_deliveries)
            subscriptions.on_handed_over = partial(self._soon, self._wake_deliveries)
        self.janitor.start()
        self.controls.start()
        if self._activity is not None:
            self._activity.start()
        if "worker" in self._settings.roles:
            self.worker.start()
        if "scheduler" in self._settings.roles:
            self.scheduler.start()
            self.backfills.start()
            if self.bulk is not None:
                self.bulk.start()
        self._emit(Running(self.id, self._settings.roles, msgspec.to_builtins(self._settings)))

    def _obey(self) -> None:
        """The controls have changed. Webhooks are delivered whatever is paused, but not by a node that is drained."""
        drained = self.controls.drained
        self.worker.obey(self.controls.in_force, suspended=drained or not self.controls.known)
        self.janitor.controls = self.controls.in_force
        if self._deliveries is not None and self._delivering:
            self._deliveries.obey(NOTHING_SET, suspended=drained)
        if self.leases.info.draining != drained:
            self.leases.info = msgspec.structs.replace(self.leases.info, draining=drained)
            self._heartbeat.wake()

    def wake_controls(self) -> None:
        """A control was changed in this process."""
        self._soon(self.controls.wake)

    def _soon(self, call: Callable[[], None]) -> None:
        """Call it on the event loop of this node: writes of the blocking facade come from another thread."""
        if not self._event_loop.is_closed():
            self._event_loop.call_soon_threadsafe(call)

    def _start_deliveries(self) -> None:
        """Webhooks have a worker of their own, so that neither they nor jobs take slots from each other. It starts with
        the first endpoint."""
        if self._deliveries is not None and self._webhooks is not None and not self._delivering:
            self._delivering = True
            handlers = {*self.leases.info.handlers, *self._webhooks.names}
            self.leases.info = msgspec.structs.replace(self.leases.info, handlers=tuple(sorted(handlers)))
            self._deliveries.obey(NOTHING_SET, suspended=self.controls.drained)
            self._deliveries.start()
            self._heartbeat.wake()  # others see at once that it has the handler

    def _ended(self) -> dict[str, tuple[int, int]]:
        """What both workers have ended lately, by queue: deliveries have a queue of their own. Called in the thread of
        the heartbeat."""
        deliveries = {} if self._deliveries is None else self._deliveries.ended.by_queue()
        return {**deliveries, **self.worker.ended.by_queue()}

    def _wake_deliveries(self) -> None:
        if self._deliveries is not None and self._delivering:
            self._deliveries.wake()

    async def _until_known(self) -> None:
        """Other nodes see this one, and what it declares, from its first heartbeat on. A failing store does not delay
        the start."""
        try:
            async with asyncio.timeout(FIRST_BEAT):
                await self._known.wait()
        except TimeoutError:
            return

    async def stop(self, timeout: float | None = None) -> int:
        """Leave in good order within `stop_timeout` in all: ticks first, then work, the heartbeat last. Of a shorter
        `timeout` at most half is left for what comes after the handlers. While the store is away all of it may be
        needed; the last third of the reserve is then left for closing connections.

        Returns how many endings the store has not accepted."""
        timeout = self._settings.stop_timeout if timeout is None else timeout
        reserve = reserve_of(self._settings, timeout)
        began = self._time.monotonic()
        self._emit(Stopping(self.id, self.worker.running, timeout))
        if self._unsubscribe is not None:
            self._unsubscribe()
        delivering = self._deliveries if self._delivering else None
        self._delivering = True  # a node that stops begins no deliveries
        for worker in (self.worker, delivering):
            if worker is not None:
                worker.drain()
        if "scheduler" in self._settings.roles:
            stops = [self.scheduler.stop(reserve * 0.1), self.backfills.stop(reserve * 0.1)]
            await asyncio.gather(*stops, *([] if self.bulk is None else [self.bulk.stop(reserve * 0.1)]))
        handed_back = unsettled = 0
        if "worker" in self._settings.roles:
            patience = timeout - reserve - (self._time.monotonic() - began)
            endings = [self.worker.stop(patience, reserve * SETTLING)]
            if delivering is not None:
                endings.append(delivering.stop(min(patience, node_part.PATIENCE), reserve * SETTLING))
            ended = await asyncio.gather(*endings)
            handed_back, unsettled = sum(each[0] for each in ended), sum(each[1] for each in ended)
        await self._leave(max(0.1, (timeout - reserve * 0.3 - (self._time.monotonic() - began)) / 2))
        self._emit(Stopped(self.id, handed_back, unsettled, self._settings.lease))
        return unsettled

    async def _leave(self, timeout: float) -> None:
        await asyncio.gather(
            self.janitor.stop(timeout),
            self.controls.stop(timeout),
            self._heartbeat.stop(timeout),
            self._runner.close(min(timeout, CHILD_PATIENCE)),
            *([] if self._activity is None else [self._activity.stop(timeout)]),
        )
        self._threads.close()
        try:
            async with asyncio.timeout(timeout):
                await self.controls.forget_drain()
                await self._store.remove_worker(self.id)
                if self._activity is not None:
                    await self._activity.flush()
                if self._code is not None:
                    await self._starts.stopped(self.leases.info, await self._store.now())
        except Exception:
            return  # the row expires

    def _send_beat(self, request: HeartbeatRequest) -> HeartbeatReply:
        """In the thread of the heartbeat. Its errors are emitted on the event loop, as all events are."""
        try:
            return self._store.heartbeat(request)
        except Exception as error:
            if not self._event_loop.is_closed():
                self._event_loop.call_soon_threadsafe(self._outage.failed, error, self._time.monotonic())
            raise

    def _on_beat(self, reply: HeartbeatReply) -> None:
        self._outage.worked(self._time.monotonic())
        self._time.observe(reply.now)
        self._known.set()
        self.worker.on_beat(reply)
        if self._deliveries is not None:
            self._deliveries.on_beat(reply)

    def _on_cut_off(self) -> None:
        self.worker.on_cut_off()
        if self._deliveries is not None:
            self._deliveries.on_cut_off()

    def _on_clock_jump(self) -> None:
        """The store's clock has jumped: end the sleeps that were planned by it."""
        self._woken(Topic.ANY)

    def _woken(self, topic: Topic) -> None:
        self.worker.wake(topic)
        self.scheduler.wake(topic)


def reserve_of(settings: NodeSettings, timeout: float) -> float:
    """Seconds for the last part of a stop: as configured, but at most half of a shorter timeout."""
    return settings.stop_reserve if timeout >= settings.stop_timeout else min(settings.stop_reserve, timeout / 2)


def _info(
    settings: NodeSettings, registry: Registry, declares: tuple[str, ...], time: StoreClock, chance: Chance
) -> WorkerInfo:
    now = time.now()
    return WorkerInfo(
        id=random_id(now, chance),
        host=socket.gethostname(),
        pid=os.getpid(),
        version=settings.version,
        roles=settings.roles,
        queues=settings.queues,
        handlers=tuple(sorted(registry.names - frozenset(settings.exclude))),
        declares=declares,
        concurrency=settings.concurrency,
        application=settings.application,
        release=settings.release,
        lease=settings.lease,
        started=now,
        seen=now,
    )


def _worker_settings(settings: NodeSettings) -> WorkerSettings:
    return WorkerSettings(
        concurrency=settings.concurrency,
        queues=None if settings.queues is None else frozenset(settings.queues),
        exclude=frozenset(settings.exclude),
        lease=settings.lease,
        poll_interval=settings.poll_interval,
    )


def delivers(settings: NodeSettings, webhooks: NodeWebhooks) -> bool:
    """Every worker delivers webhooks, whatever queues it serves, unless their handler is excluded."""
    return "worker" in settings.roles and not webhooks.names <= frozenset(settings.exclude)


def _delivery_settings(settings: NodeSettings) -> WorkerSettings:
    return WorkerSettings(
        name="webhooks",
        concurrency=node_part.CONCURRENCY,
        queues=None,
        exclude=frozenset(),
        lease=settings.lease,
        poll_interval=node_part.POLL_INTERVAL,
        steady=True,
        first_stamp=1 << 31,
    )
