"""Hand-over: an event becomes one delivery for each endpoint that wants it.

A delivery is an execution of the system job, so it is retried, listed, explained and cancelled like any other. Its
tenant is its endpoint: endpoints take turns, and each has its own limit. Its id follows from the event and the
endpoint, so an event that is handed over again after a crash creates nothing twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import msgspec

from ...model.errors import JobNotFound
from ...model.execution import AttemptRecord, ExecutionRow
from ...model.job import Job, JobSpec
from ...model.limits import Limit
from ...model.policies import Retry
from ...model.time.instants import Micros
from ...model.values.ids import NO_CHANCE
from ...model.values.reading import SYSTEM_PREFIX
from ..jobs.job_cache import JobCache
from ..loops import Emit, one_by_one
from ..ports import Store
from ..rules.new_execution import new_execution
from . import payloads
from .endpoints import Endpoint
from .events import RETRYING
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
        found = one_by_one("webhooks", executions, lambda each: list(self._of(each)), self._emit)
        wanted = [event for _, events in found for event in events]
        if wanted:
            await self._add(wanted)

    def _of(self, execution: ExecutionRow) -> Iterable[tuple[WebhookEvent, tuple[Endpoint, ...]]]:
        if execution.failures and (endpoints := self._subscriptions.wanting(RETRYING, execution)):
            for attempt in execution.attempts:
                if attempt.end in FAILED_ATTEMPTS and attempt.ended != execution.finished:  # another one followed
                    yield payloads.retrying(execution, attempt), endpoints
        event = payloads.ended(execution)
        if endpoints := self._subscriptions.wanting(event.type, execution):
            yield event, endpoints

    async def retrying(self, attempts: Sequence[tuple[ExecutionRow, AttemptRecord]]) -> None:
        """Hand over attempts that failed, after each of which another one follows."""
        wanted = [
            (payloads.retrying(execution, attempt), endpoints)
            for execution, attempt in attempts
            if (endpoints := self._subscriptions.wanting(RETRYING, execution))
        ]
        if wanted:
            await self._add(wanted)

    async def steered(self, job: Job) -> None:
        """Hand over that this job was paused, or runs again."""
        await self._subscriptions.read()
        event = payloads.steered(job)
        if endpoints := self._subscriptions.wanting_job(event.type, job.name, job.spec.queue):
            await self._add([(event, endpoints)])

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
