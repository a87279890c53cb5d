"""Hand-over: an event becomes one delivery for each endpoint that wants it.

A delivery is an execution of the system job, so it is retried, listed, explained and cancelled like any other. Its
tenant is its endpoint: endpoints take turns, and each has its own limit. Its id follows from the event and the
endpoint, so an event that is handed over again after a crash creates nothing twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeAlias

import msgspec

from ...model.errors import JobNotFound
from ...model.execution import AttemptRecord, ExecutionRow, State
from ...model.job import Job, JobSpec
from ...model.limits import Limit
from ...model.policies import Retry
from ...model.time.instants import Micros
from ...model.values.ids import NO_CHANCE
from ...model.values.reading import SYSTEM_PREFIX
from ..errors.records import KIND as GROUP_KIND
from ..errors.records import MUTES, ErrorGroup, Mute
from ..jobs.job_cache import JobCache
from ..loops import Emit, one_by_one
from ..ports import Store
from ..rules.new_execution import new_execution
from . import payloads
from .endpoints import Endpoint
from .events import FAILED, RETRYING
from .payloads import WebhookEvent
from .subscriptions import Subscriptions

SYSTEM_JOB = f"{SYSTEM_PREFIX}webhooks"
AT_ONCE = 4
"""Deliveries to one endpoint that run at the same time, on all nodes together."""
DEADLINE = 15.0
"""Seconds for one request, from the resolution of the host's name to the end of the answer."""
DELAYS = ("5s", "5m", "30m", "2h", "5h", "10h", "14h", "20h", "24h")
BATCH = 500
"""Deliveries that one write adds."""
FAILED_ATTEMPTS = frozenset({"failed", "timeout", "worker_lost"})

SYSTEM_SPEC = JobSpec(
    handler=SYSTEM_JOB,
    queue=SYSTEM_JOB,
    description="Sends webhooks: one execution for each event and endpoint. Its tenant is the endpoint.",
    max_attempts=len(DELAYS) + 1,
    retry=Retry(delays=DELAYS, jitter=0.1),
    timeout=2 * DEADLINE,
    limits=(Limit("webhook:{tenant}", concurrency=AT_ONCE),),
    trigger_role="admin",
)


Mutes: TypeAlias = Mapping[str | None, Mute]
"""By error group."""


class Delivery(msgspec.Struct, frozen=True):
    """The parameters of a delivery. `id` is the `webhook-id`: a manual retry is another execution with the same one."""

    id: str
    event: str
    body: str


class EventHandOver:
    def __init__(self, store: Store, subscriptions: Subscriptions, job_cache: JobCache, emit: Emit) -> None:
        self._store, self._subscriptions, self._job_cache, self._emit = store, subscriptions, job_cache, emit
        subscriptions.hand_over_pause = self.steered

    async def ended(self, executions: Sequence[ExecutionRow]) -> None:
        """Hand over the endings of these executions, and those of their attempts that failed before. Retries are handed
        over when they are settled; this adds what a crash has left out. An execution whose event cannot be rendered
        holds nothing up."""
        await self._subscriptions.read()
        if self._subscriptions.absent:
            return
        mutes = await self._mutes(group for each in executions for group in self._failed_with(each))
        found = one_by_one("webhooks", executions, lambda each: list(self._of(each, mutes)), self._emit)
        wanted = [event for _, events in found for event in events]
        if wanted:
            await self._add(wanted)

    def _failed_with(self, execution: ExecutionRow) -> Iterator[str | None]:
        """The error groups of those failures of which endpoints want to hear."""
        if execution.state is State.FAILED and self._subscriptions.wanting(FAILED, execution):
            yield execution.error_group
        if execution.failures and self._subscriptions.wanting(RETRYING, execution):
            yield from (attempt.error_group for attempt in execution.attempts)

    async def _mutes(self, groups: Iterable[str | None]) -> Mutes:
        """Of those of these error groups that are muted."""
        wanted = sorted({group for group in groups if group is not None})
        if not wanted:
            return {}
        now, entries = await self._store.now(), await self._store.entries(GROUP_KIND, MUTES, wanted)
        found = {each.key: each.read(Mute) for each in entries}
        return {key: mute for key, mute in found.items() if mute is not None and mute.lasts(now)}

    def _of(self, execution: ExecutionRow, mutes: Mutes) -> Iterable[tuple[WebhookEvent, tuple[Endpoint, ...]]]:
        if execution.failures and (endpoints := self._subscriptions.wanting(RETRYING, execution)):
            for attempt in execution.attempts:
                if attempt.end in FAILED_ATTEMPTS and attempt.ended != execution.finished:  # another one followed
                    quiet = _is_muted(mutes, execution, attempt.error_group)
                    if hearing := _hearing(endpoints, quiet):
                        yield payloads.retrying(execution, attempt, muted=quiet), hearing
        is_muted = bool(mutes) and _is_muted(mutes, execution, execution.error_group)
        event = payloads.ended(execution, muted=is_muted)
        if endpoints := _hearing(self._subscriptions.wanting(event.type, execution), is_muted):
            yield event, endpoints

    async def retrying(self, attempts: Sequence[tuple[ExecutionRow, AttemptRecord]]) -> None:
        """Hand over attempts that failed, after each of which another one follows."""
        found = [
            (execution, attempt, endpoints)
            for execution, attempt in attempts
            if (endpoints := self._subscriptions.wanting(RETRYING, execution))
        ]
        mutes = await self._mutes(attempt.error_group for _, attempt, _ in found)
        wanted = [
            (payloads.retrying(execution, attempt, muted=quiet), hearing)
            for execution, attempt, endpoints in found
            if (hearing := _hearing(endpoints, quiet := _is_muted(mutes, execution, attempt.error_group)))
        ]
        if wanted:
            await self._add(wanted)

    async def steered(self, job: Job) -> None:
        """Hand over that this job was paused, or runs again."""
        await self._subscriptions.read()
        event = payloads.steered(job)
        if endpoints := self._subscriptions.wanting_job(event.type, job.name, job.spec.queue):
            await self._add([(event, endpoints)])

    async def error_group(self, group: ErrorGroup) -> None:
        """Hand over that an error is new, or that it has changed while it was muted."""
        await self._subscriptions.read()
        type = payloads.group_event(group)
        if endpoints := self._subscriptions.wanting_group(type, group.jobs, group.tenants):
            await self._add([(payloads.error_group(group, each), (each,)) for each in endpoints])

    async def disabled(self, endpoint: Endpoint) -> None:
        """Hand over to the other endpoints that this one was disabled."""
        await self._subscriptions.read_now()
        event = payloads.disabled(endpoint)
        if endpoints := self._subscriptions.wanting_other(event.type, endpoint.id):
            await self._add([(event, endpoints)])

    async def _add(self, wanted: Sequence[tuple[WebhookEvent, tuple[Endpoint, ...]]]) -> None:
        """In batches: a hundred endings that a hundred endpoints want are ten thousand deliveries."""
        job, now = await self.system_job(), await self._store.now()
        rows = (row for event, endpoints in wanted for row in new_deliveries(job, event, endpoints, now))
        while batch := list(islice(rows, BATCH)):
            await self._store.add(batch)
        self._subscriptions.on_handed_over()

    async def system_job(self) -> Job:
        """The job of all deliveries; created with the first endpoint, and again if somebody has removed it."""
        try:
            return await self._job_cache.get(SYSTEM_JOB)
        except JobNotFound:
            await self._job_cache.ensure(SYSTEM_JOB, SYSTEM_SPEC)
            return await self._job_cache.read(SYSTEM_JOB)


def _is_muted(mutes: Mutes, execution: ExecutionRow, group: str | None) -> bool:
    """A failure in a job that had not shown the error is heard, although its mute ends only when it is counted."""
    return group in mutes and mutes[group].covers(execution.job)


def _hearing(endpoints: tuple[Endpoint, ...], muted: bool) -> tuple[Endpoint, ...]:
    return tuple(each for each in endpoints if not each.is_for_people) if muted else endpoints


def new_deliveries(job: Job, event: WebhookEvent, endpoints: Iterable[Endpoint], now: Micros) -> Iterator[ExecutionRow]:
    """One for each endpoint, all with the same body."""
    body = event.body()
    return (_delivery(job, event, body, each.id, now) for each in endpoints)


def _delivery(job: Job, event: WebhookEvent, body: str, endpoint: str, now: Micros) -> ExecutionRow:
    id = event.id_for(endpoint)
    params = msgspec.json.encode(Delivery(id, event.type, body)).decode()
    return new_execution(
        job,
        id=id,
        trigger="enqueue",
        triggered_by="webhooks",
        now=now,
        chance=NO_CHANCE,
        params=params,
        tenant=endpoint,
        traceparent=event.traceparent,
    )
