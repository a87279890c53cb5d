"""What needs attention, in all processes and in this one: gathers the facts that `core/rules/problems.py` judges.

Nothing here grows with the number of jobs or of finished executions: counts come along indexes, jobs are those that are
due, executions the oldest few. All callers of two seconds share one reading.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import msgspec

from ...model.backfill import BackfillRow
from ...model.bulk import BulkRow
from ...model.execution import ExecutionRow, State
from ...model.job import Job
from ...model.store.entries import EntryKind
from ...model.store.messages import DuePage, ExecutionQuery, LaneCounts
from ...model.time.instants import SECOND, Micros, to_micros
from ...model.values.ids import first_id
from ...model.values.reading import SYSTEM_PREFIX
from ..backfills.records import CLOSED as CLOSED_BACKFILLS
from ..bulk.records import CLOSED as CLOSED_BULKS
from ..deploys.processes import Processes
from ..engine.node import Node
from ..errors.commands import ErrorGroups, ErrorGroupView
from ..errors.open_failures import completed_since
from ..errors.records import OTHER
from ..jobs.calendars import Calendars
from ..ports import Store
from ..rules.fingerprint import readable
from ..rules.problem_facts import (
    ErrorFacts,
    Facts,
    HandlerFacts,
    Lane,
    LateFacts,
    LoopFacts,
    QueueFacts,
    RunFacts,
    WebhookFacts,
)
from ..rules.problems import NEW_FOR, ProblemList, noticed, problems
from ..store_clock import StoreClock
from ..webhooks.endpoints import KIND as WEBHOOK
from ..webhooks.endpoints import MOST_ENDPOINTS, Endpoint, endpoint_of
from .queues import Queues, Snapshot, queue_view, serves
from .single_flight import SingleFlight
from .watchdog import Late, missed_ticks, overdue

FRESH_FOR, SHARE = 2.0, 20
"""A reading is fresh for two seconds, or 20 times as long as it took: it takes at most 5 % of the time."""
STALE_FOR = 30.0
SLOW_FRESH_FOR = 30.0
"""Seconds, for what changes slowly: conflicts follow from the code of all jobs, and disks do not fill in a moment."""
DUE_JOBS = 200
"""The most due jobs that are judged, longest overdue first."""
ERRORS = 30
"""The most error groups whose failed executions are looked at, those seen last."""
RUNS = 200
"""The most running executions that are judged, those created first."""
WAITING, WAITING_LANES, WAITING_EACH = 200, 20, 50
"""The oldest waiting executions that are read to find the jobs that are late; those of jobs that are named like the
handlers that have waited longest."""
WAITS: Micros = 5 * SECOND
"""Nothing is late while the oldest ready execution is younger."""
ENDED = 1_000
ENDED_WITHIN: Micros = 2 * NEW_FOR
"""How far back the closed records of bulk actions and backfills are read, by the time they were created."""
LONGEST_TITLE = 200
T = TypeVar("T")
_PENDING, _RUNNING = frozenset({State.PENDING}), frozenset({State.RUNNING})


class Here(msgspec.Struct, frozen=True):
    """What only this process knows: its node, if it runs one, and whether each of its wake-up channels works."""

    node: Node | None = None
    channels: Mapping[str, bool] = {}


class Problems:
    def __init__(
        self,
        store: Store,
        queues: Queues,
        errors: ErrorGroups,
        calendars: Calendars,
        time: StoreClock,
        here: Callable[[], Here],
    ) -> None:
        self._store, self._queues, self._errors, self._calendars = store, queues, errors, calendars
        self._time, self._here = time, here
        self.cache = SingleFlight(self._read, time, FRESH_FOR, SHARE)
        """The facts behind the problems, which `core/doctor` looks at, too."""
        self._conflicts = SingleFlight(Processes(store).conflicts, time, SLOW_FRESH_FOR)
        self._size = SingleFlight(store.storage_size, time, SLOW_FRESH_FOR)

    async def all(self) -> ProblemList:
        """What needs attention now, the most urgent first."""
        return problems(await self.cache.get())

    async def recent(self) -> ProblemList:
        """As `all`, for pages that must not wait: it may be half a minute old while a new one is made."""
        return problems(await self.cache.get(stale_for=STALE_FOR))

    async def _read(self) -> Facts:
        seen = await self._queues.cache.get()
        page = await self._store.due_jobs(DUE_JOBS)
        now, here = page.now, self._here()
        size = await self._size.get()
        failures = [] if here.node is None else here.node.failures
        conflicts = await self._conflicts.get()
        return Facts(
            now=now,
            workers=seen.workers,
            alive=seen.alive,
            drains={name: control for (subject, name), control in seen.controls.items() if subject == "worker"},
            has_schedules=bool(page.jobs) or page.next_due is not None,
            late=[*await self._missed(page), *await self._waiting(seen, now)],
            more_late=len(page.jobs) == DUE_JOBS,
            errors=await self._error_groups(now),
            queues=[_queue(name, seen) for name in seen.names],
            handlers=_paused_handlers(seen),
            runs=await self._runs() if any(lane.running for lane in seen.lanes) else [],
            webhooks=await self._failing_webhooks(),
            bulks=await self._ended("bulk", CLOSED_BULKS, BulkRow, now),
            backfills=await self._ended("backfill", CLOSED_BACKFILLS, BackfillRow, now),
            conflicts={each.job: [one.application for one in each.declarers] for each in conflicts},
            node=None if here.node is None else here.node.id,
            channels=here.channels,
            skew=self._time.skew,
            loops=[LoopFacts(each.where, each.seconds, each.error) for each in failures],
            disk=None if size.free is None or size.disk is None else (size.free, size.disk),
        )

    # --- late jobs ----------------------------------------------------------------------------------------
    async def _missed(self, page: DuePage) -> list[LateFacts]:
        found = await missed_ticks(page, self._calendars, lambda event: None)
        return [_late(job, each) for job, each in found]

    async def _waiting(self, seen: Snapshot, now: Micros) -> list[LateFacts]:
        """The jobs whose work is overdue, among those with the oldest waiting executions and those named like the
        handlers that wait longest. This reads nothing while the oldest ready execution is young."""
        lanes = sorted((lane for lane in seen.lanes if _waits(lane, now)), key=lambda lane: lane.oldest or now)
        if not lanes:
            return []
        rows = await self._store.find(ExecutionQuery(states=_PENDING, oldest_first=True, limit=WAITING))
        handlers = dict.fromkeys(lane.handler for lane in lanes[:WAITING_LANES])
        for job in await self._store.jobs(list(handlers)):
            query = ExecutionQuery(job_id=job.id, states=_PENDING, oldest_first=True, limit=WAITING_EACH)
            rows += await self._store.find(query)
        oldest = _oldest_due(rows, now)
        if not oldest:
            return []
        jobs = await self._store.jobs(sorted({row.job for row in oldest.values()}))
        live = await self._store.live_counts(list(oldest))
        found = overdue(jobs, {id: row.due for id, row in oldest.items()}, live, now)
        return [_late(job, each, oldest[job.id]) for job, each in found]

    # --- errors -------------------------------------------------------------------------------------------
    async def _error_groups(self, now: Micros) -> list[ErrorFacts]:
        """The groups of the last day that need attention, the last seen first. What has become of their failures is
        looked up for the first few."""
        views = (await self._errors.find(muted=False, since="24h")).items
        groups = [(each, _error(each)) for each in views if each.id != OTHER]
        groups = [(view, facts) for view, facts in groups if noticed(facts, now) is not None]
        followed = await asyncio.gather(*(self._followed_up(*each) for each in groups[:ERRORS]))
        return [*followed, *(facts for _, facts in groups[ERRORS:])]

    async def _followed_up(self, group: ErrorGroupView, facts: ErrorFacts) -> ErrorFacts:
        left = (await self._errors.open_failures(group)).count
        if left:
            return msgspec.structs.replace(facts, closed=max(0, facts.failures - left))
        completed = await completed_since(self._store, facts.jobs, facts.last_seen)
        return msgspec.structs.replace(facts, closed=facts.failures, completed=completed)

    # --- the rest -----------------------------------------------------------------------------------------
    async def _runs(self) -> list[RunFacts]:
        rows = await self._store.find(ExecutionQuery(states=_RUNNING, oldest_first=True, limit=RUNS))
        stats = await self._store.stats(list({row.job_id for row in rows})) if rows else {}
        known = ((row, stats.get(row.job_id)) for row in rows)
        return [
            RunFacts(row) if each is None else RunFacts(row, each.average_duration_ms, each.timed)
            for row, each in known
        ]

    async def _failing_webhooks(self) -> list[WebhookFacts]:
        entries = await self._store.list_entries(WEBHOOK, "", limit=10 * MOST_ENDPOINTS)
        endpoints = [found for entry in entries if (found := endpoint_of(entry)) is not None]
        return [facts for each in endpoints if (facts := _webhook(each)) is not None]

    async def _ended(self, kind: EntryKind, scope: str, body: type[T], now: Micros) -> list[T]:
        """The closed records of this kind that were created lately. Ids are ordered by time."""
        entries = await self._store.list_entries(kind, scope, after=first_id(now - ENDED_WITHIN), limit=ENDED)
        return [found for entry in entries if (found := entry.read(body)) is not None]


def _webhook(endpoint: Endpoint) -> WebhookFacts | None:
    """None for one that works, and for one that an operator has disabled."""
    name = endpoint.description or endpoint.id
    if endpoint.enabled:
        since = endpoint.failing_since
        return None if since is None else WebhookFacts(endpoint.id, name, since)
    if not endpoint.gave_up:
        return None
    return WebhookFacts(endpoint.id, name, endpoint.disabled, endpoint.disabled_reason, gave_up=True)


def _late(job: Job, late: Late, oldest: ExecutionRow | None = None) -> LateFacts:
    spec = job.spec
    return LateFacts(
        job=job.name,
        queue=spec.queue if oldest is None else oldest.queue,
        handler=spec.handler if oldest is None else oldest.handler,
        tz=spec.tz,
        first=late.first,
        count=late.count,
        waiting=late.waiting,
        parked=None if oldest is None else oldest.parked,
    )


def _waits(lane: LaneCounts, now: Micros) -> bool:
    return lane.oldest is not None and now - lane.oldest > WAITS and not lane.queue.startswith(SYSTEM_PREFIX)


def _oldest_due(rows: Iterable[ExecutionRow], now: Micros) -> dict[str, ExecutionRow]:
    """The execution of each job that has been due for longest, by the id of the job."""
    oldest: dict[str, ExecutionRow] = {}
    for row in rows:
        if row.due <= now and (row.job_id not in oldest or row.due < oldest[row.job_id].due):
            oldest[row.job_id] = row
    return oldest


def _error(group: ErrorGroupView) -> ErrorFacts:
    return ErrorFacts(
        id=group.id,
        title=": ".join(part for part in (group.short_type, readable(group.message)) if part)[:LONGEST_TITLE],
        count=group.count,
        failures=group.failures,
        first_seen=to_micros(group.first_seen_at),
        last_seen=to_micros(group.last_seen_at),
        trend=group.trend,
        jobs=tuple(each.name for each in group.jobs),
        jobs_total=group.jobs_total,
        tenants_total=group.tenants_total,
        release=group.first_release,
    )


def _queue(name: str, seen: Snapshot) -> QueueFacts:
    view, control, lanes = queue_view(name, seen), seen.queue_control(name), seen.open_lanes(name)
    serving = [worker for worker in seen.workers if worker.id in seen.alive and serves(worker, name)]
    has = {handler for worker in serving if not worker.draining for handler in worker.handlers}
    return QueueFacts(
        name=name,
        ready=sum(lane.ready for lane in lanes),
        waiting=view.ready,
        oldest=min((lane.oldest for lane in lanes if lane.oldest is not None), default=None),
        rate_in=view.rate_in,
        rate_out=view.rate_out,
        workers=len(serving),
        drained=sum(worker.draining for worker in serving),
        paused=None if control.paused is None else control,
        missing=tuple(
            Lane(lane.handler, lane.ready, lane.oldest)
            for lane in lanes
            if lane.oldest is not None and lane.handler not in has
        ),
    )


def _paused_handlers(seen: Snapshot) -> list[HandlerFacts]:
    return [
        HandlerFacts(name, sum(lane.ready for lane in seen.by_handler.get(name, ())), control)
        for (subject, name), control in seen.controls.items()
        if subject == "handler" and control.paused is not None
    ]
