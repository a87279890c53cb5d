"""Queues: what waits and runs in each, how fast, which workers serve it, and how many processes it needs.

Counts come from the store along its indexes, rates from the heartbeats of workers. The store is read at most once a
second, however many callers there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property

import msgspec

from ...model import defaults
from ...model.controls import Control, Subject
from ...model.execution import HELD, State
from ...model.store.messages import ExecutionQuery, LaneCounts, WorkerInfo
from ...model.time.instants import SECOND, Micros, maybe_datetime, to_datetime
from ...model.values.reading import SYSTEM_PREFIX, identifier, whole
from ..controls.commands import read_controls
from ..ports import Clock, Store
from ..queries.queries import Queries
from ..rules.controls import set_now, wanted_processes
from ..views.queues import HandlerView, PauseView, QueueHandler, QueueView, ScaleView
from ..views.records import WorkerView
from ..webhooks.node_part import CONCURRENCY as DELIVERIES
from .single_flight import SingleFlight

WINDOW: Micros = 300 * SECOND
MINUTES = 5
SAMPLE = 1_000
"""How many of the newest live executions are read for `rate_in`. If more are younger than five minutes, the rate is
estimated from these."""
MOST_PROCESSES = 10_000
_LIVE = frozenset({State.PENDING, State.RUNNING, State.WAITING})


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """All queues at one moment. `of_jobs` are the queues that jobs name, `arrived` counts the live executions of the
    last five minutes by queue."""

    now: Micros
    lanes: Sequence[LaneCounts]
    workers: Sequence[WorkerInfo]
    alive: frozenset[str]
    controls: Mapping[tuple[Subject, str], Control]
    arrived: Mapping[str, float]
    of_jobs: Sequence[str] = ()

    @cached_property
    def names(self) -> Sequence[str]:
        found = {name for name in self.of_jobs if not is_own(name)} | {*self.by_queue}
        found |= {name for worker in self.workers for name in (*(worker.queues or ()), *worker.ended)}
        return sorted(found | {name for subject, name in self.controls if subject == "queue"})

    @cached_property
    def by_queue(self) -> Mapping[str, Sequence[LaneCounts]]:
        return _grouped(self.lanes, lambda lane: lane.queue)

    @cached_property
    def by_handler(self) -> Mapping[str, Sequence[LaneCounts]]:
        return _grouped(self.lanes, lambda lane: lane.handler)

    @cached_property
    def paused_handlers(self) -> frozenset[str]:
        paused = (key for key, control in self.controls.items() if control.paused is not None)
        return frozenset(name for subject, name in paused if subject == "handler")

    def queue_control(self, queue: str) -> Control:
        return self.controls.get(("queue", queue), Control())

    def open_lanes(self, queue: str) -> Sequence[LaneCounts]:
        """The lanes of a queue from which work may begin: neither the queue nor the handler is paused."""
        if self.queue_control(queue).paused is not None:
            return ()
        return [lane for lane in self.by_queue.get(queue, ()) if lane.handler not in self.paused_handlers]


def _grouped(lanes: Sequence[LaneCounts], name_of: Callable[[LaneCounts], str]) -> dict[str, list[LaneCounts]]:
    found: dict[str, list[LaneCounts]] = {}
    for lane in lanes:
        found.setdefault(name_of(lane), []).append(lane)
    return found


class Queues:
    def __init__(self, store: Store, queries: Queries, clock: Clock) -> None:
        self._store, self._queries = store, queries
        self.cache = SingleFlight(self._read, clock)

    async def all(self) -> list[QueueView]:
        """Every queue that a job or a worker names, in which executions wait or run, or which has a control."""
        seen = await self.cache.get()
        return [queue_view(name, seen) for name in seen.names]

    async def get(self, name: str) -> QueueView:
        """One queue. A queue exists as soon as it is named: one that nobody has used is empty."""
        identifier("queue", name)
        return queue_view(name, await self.cache.get())

    async def handlers(self) -> list[HandlerView]:
        seen = await self.cache.get()
        names = {name for worker in seen.workers if worker.id in seen.alive for name in worker.handlers}
        names |= {name for subject, name in seen.controls if subject == "handler"}
        return [handler_view(name, seen) for name in sorted(names)]

    async def handler(self, name: str) -> HandlerView:
        identifier("handler", name)
        return handler_view(name, await self.cache.get())

    async def drains(self) -> dict[str, PauseView]:
        """The workers that operators drain, by id: since when, by whom, and why."""
        controls = (await self.cache.get()).controls
        found = {name: pause_view(control) for (subject, name), control in controls.items() if subject == "worker"}
        return {name: drain for name, drain in found.items() if drain is not None}

    async def scale(self, queue: str | None = None, *, low: int = 0, high: int = MOST_PROCESSES) -> ScaleView:
        """How many processes this queue needs, or all queues together."""
        if queue is not None:
            identifier("queue", queue)
        whole("min", low, 0, MOST_PROCESSES)
        whole("max", high, low, MOST_PROCESSES)
        seen = await self.cache.get()
        names = seen.names if queue is None else [queue]
        return scale_view(queue, [name for name in names if not is_own(name)], seen, low, high)

    async def series(self) -> list[tuple[QueueView, int]]:
        """Every queue with the number of processes that it needs, for metrics."""
        seen = await self.cache.get()
        return [
            (queue_view(name, seen), scale_view(name, [name], seen, 0, MOST_PROCESSES).wanted) for name in seen.names
        ]

    async def _read(self) -> Snapshot:
        lanes = await self._store.lane_counts()
        workers, now = await self._store.workers(), await self._store.now()
        controls = await read_controls(self._store)
        return Snapshot(
            now=now,
            lanes=lanes,
            workers=workers,
            alive=frozenset(worker.id for worker in workers if not self._queries.is_silent(worker, now)),
            controls=set_now(controls, now),
            arrived=await self._arrived(now) if lanes else {},
            of_jobs=await self._store.job_queues(),
        )

    async def _arrived(self, now: Micros) -> dict[str, float]:
        newest = await self._store.find(ExecutionQuery(states=_LIVE, created_from=now - WINDOW, limit=SAMPLE))
        counts = Counter(each.queue for each in newest)
        if len(newest) < SAMPLE:
            return dict(counts)
        span = max(now - newest[-1].created, 1)
        return {queue: count * WINDOW / span for queue, count in counts.items()}


# --- one queue


def queue_view(name: str, seen: Snapshot) -> QueueView:
    lanes = seen.by_queue.get(name, ())
    serving = [worker for worker in seen.workers if serves(worker, name)]
    alive = [worker for worker in serving if worker.id in seen.alive]
    ended = [worker.ended[name] for worker in seen.workers if worker.id in seen.alive and name in worker.ended]
    control, oldest = seen.queue_control(name), _earliest(lane.oldest for lane in lanes)
    young = sum(each[1] for each in ended)
    return QueueView(
        name=name,
        own=is_own(name),
        ready=sum(lane.ready for lane in lanes),
        planned=sum(lane.planned for lane in lanes),
        parked=sum(lane.parked for lane in lanes),
        running=sum(lane.running for lane in lanes),
        oldest=None if oldest is None else max(0.0, (seen.now - oldest) / SECOND),
        next_due_at=maybe_datetime(_next_due(lanes, seen.now)),
        rate_in=(seen.arrived.get(name, 0.0) + young) / MINUTES,
        rate_out=sum(each[0] for each in ended) / MINUTES,
        workers=len(serving),
        workers_alive=len(alive),
        slots=sum(DELIVERIES if is_own(name) else worker.concurrency for worker in alive if not worker.draining),
        pause=pause_view(control),
        concurrency=control.concurrency,
        rate=control.rate,
        handlers=_handlers(lanes, seen),
    )


def _handlers(lanes: Sequence[LaneCounts], seen: Snapshot) -> tuple[QueueHandler, ...]:
    return tuple(
        QueueHandler(
            name=lane.handler,
            ready=lane.ready,
            planned=lane.planned,
            parked=lane.parked,
            running=lane.running,
            paused=lane.handler in seen.paused_handlers,
        )
        for lane in lanes
    )


def _earliest(instants: Iterable[Micros | None]) -> Micros | None:
    return min((each for each in instants if each is not None), default=None)


def _next_due(lanes: Sequence[LaneCounts], now: Micros) -> Micros | None:
    """When the next planned execution is due. None if all planned ones are held because their jobs are paused."""
    found = _earliest(lane.next_due for lane in lanes)
    return None if found is None or found >= now + HELD // 2 else found


def handler_view(name: str, seen: Snapshot) -> HandlerView:
    lanes = seen.by_handler.get(name, ())
    return HandlerView(
        name=name,
        workers=sum(worker.id in seen.alive and name in worker.handlers for worker in seen.workers),
        ready=sum(lane.ready for lane in lanes),
        running=sum(lane.running for lane in lanes),
        pause=pause_view(seen.controls.get(("handler", name), Control())),
    )


def pause_view(control: Control) -> PauseView | None:
    if control.paused is None:
        return None
    since, until = to_datetime(control.paused), maybe_datetime(control.until)
    return PauseView(since=since, by=control.by, note=control.note, resume_at=until)


def is_own(queue: str) -> bool:
    """Whether Mainspring keeps this queue for itself."""
    return queue.startswith(SYSTEM_PREFIX)


def serves(worker: WorkerInfo | WorkerView, queue: str) -> bool:
    """A queue of Mainspring's own has the name of its handler, and every process serves it that has this handler."""
    if is_own(queue):
        return queue in worker.handlers
    return "worker" in worker.roles and (worker.queues is None or queue in worker.queues)


# --- scale


def scale_view(queue: str | None, names: Sequence[str], seen: Snapshot, low: int, high: int) -> ScaleView:
    """A paused queue needs processes only for what runs, and a queue with a ceiling only for what the ceiling
    permits."""
    serving = [
        worker
        for worker in seen.workers
        if worker.id in seen.alive and not worker.draining and any(serves(worker, name) for name in names)
    ]
    due = {name: count for name in names if (count := _due(name, seen))}
    running = sum(lane.running for name in names for lane in seen.by_queue.get(name, ()))
    open_lanes = [lane for name in names for lane in seen.open_lanes(name)]
    oldest = _earliest(lane.oldest for lane in open_lanes if lane.queue in due)
    next_due, parked = _next_due(open_lanes, seen.now), sum(lane.parked for lane in open_lanes)
    slots = max((worker.concurrency for worker in serving), default=defaults.CONCURRENCY)
    return ScaleView(
        queue=queue,
        due=sum(due.values()),
        running=running,
        oldest=0.0 if oldest is None else max(0.0, (seen.now - oldest) / SECOND),
        next_due=None if next_due is None else max(0.0, (next_due - seen.now) / SECOND),
        capacity=sum(worker.concurrency for worker in serving),
        processes=len(serving),
        wanted=wanted_processes(sum(due.values()), running, parked, slots, next_due, seen.now, low, high),
    )


def _due(queue: str, seen: Snapshot) -> int:
    ready = sum(lane.ready for lane in seen.open_lanes(queue))
    ceiling = seen.queue_control(queue).concurrency
    if ceiling is None:
        return ready
    return max(0, min(ready, ceiling - sum(lane.running for lane in seen.by_queue.get(queue, ()))))
