"""Subscriptions: the endpoints of the store as this process knows them, and what they want.

While there are none, an ending costs one comparison. The janitor of a node reads them again with each of its sweeps;
a process without a node reads them before a write, when what it knows is too old.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection

import msgspec

from ...model.execution import ExecutionRow
from ...model.job import Job
from ...model.store.messages import JobWrite
from ...model.values.reading import SYSTEM_PREFIX
from ..ports import Clock, Store
from .endpoints import KIND, MOST_ENDPOINTS, Endpoint, endpoint_of
from .events import EVENTS, PAUSED, RESUMED

FRESH_FOR = 2.5
"""Seconds: a little longer than a janitor takes from sweep to sweep."""


def _nobody() -> None: ...


async def _nothing_to_hand_over(job: Job) -> None: ...


class Subscriptions:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._read_at = float("-inf")
        self._by_event: dict[str, tuple[Endpoint, ...]] = {}
        self.on_marked: Callable[[], None] = _nobody
        """Called after a write that left follow-ups for this process or another."""
        self.on_handed_over: Callable[[], None] = _nobody
        """Called after deliveries were added."""
        self.hand_over_pause: Callable[[Job], Awaitable[None]] = _nothing_to_hand_over
        """Hands over that a job was paused or resumed."""
        self.on_exist: Callable[[], None] = _nobody
        """Called after each read that found endpoints."""

    @property
    def absent(self) -> bool:
        """Nobody wants anything, and that was read a moment ago."""
        return not self._by_event and self.fresh

    @property
    def fresh(self) -> bool:
        """The endpoints were read a moment ago."""
        return self._clock.monotonic() - self._read_at < FRESH_FOR

    async def read(self) -> None:
        """Read the endpoints unless that was done a moment ago."""
        if not self.fresh:
            await self.read_now()

    async def read_now(self) -> None:
        began = self._clock.monotonic()
        entries = await self._store.list_entries(KIND, "", limit=10 * MOST_ENDPOINTS)
        endpoints = [found for entry in entries if (found := endpoint_of(entry)) is not None and found.enabled]
        wanted = {name: tuple(each for each in endpoints if each.wants_event(name)) for name in EVENTS}
        self._by_event = {name: found for name, found in wanted.items() if found}
        self._read_at = began
        if entries:
            self.on_exist()

    def wanting(self, event: str, execution: ExecutionRow) -> tuple[Endpoint, ...]:
        """The endpoints to send this event of an execution to. Mainspring's own executions cause no events."""
        found = self._by_event.get(event, ())
        if not found or execution.job.startswith(SYSTEM_PREFIX):
            return ()
        return self._let_through(found, execution.job, execution.queue, execution.tenant)

    def wanting_job(self, event: str, job: str, queue: str) -> tuple[Endpoint, ...]:
        """The same for an event of a job."""
        found = self._by_event.get(event, ())
        return () if job.startswith(SYSTEM_PREFIX) else self._let_through(found, job, queue, None)

    def wanting_group(self, event: str, jobs: Collection[str], tenants: Collection[str]) -> tuple[Endpoint, ...]:
        """The same for an event of an error group, which occurred in these jobs and for these tenants. It has no
        queue, so no filter on queues lets it through."""
        return tuple(
            each
            for each in self._by_event.get(event, ())
            if not each.queues
            and (not each.jobs or not set(each.jobs).isdisjoint(jobs))
            and (not each.tenants or not set(each.tenants).isdisjoint(tenants))
        )

    async def steering(self, before: Job, write: JobWrite) -> JobWrite:
        """The write of a command, marked if an endpoint wants to hear of it. An event that still waits is handed over
        first: after the write nothing would remember it."""
        if before.sweep and before.cancelled is None:
            await self.hand_over_pause(before)
            if write.job.cancelled is None:
                write = msgspec.structs.replace(write, job=write.job.with_changes(sweep=False))
        if (before.paused is None) != (write.job.paused is None):
            await self.read()
        return self.marked(before, write)

    def marked(self, before: Job, write: JobWrite) -> JobWrite:
        """The write that pauses or resumes a job, marked if an endpoint wants to hear of it. The mark `sweep` of a job
        that is not cancelled says that an event about it has to be handed over, which a janitor does."""
        after = write.job
        if (before.paused is None) == (after.paused is None) or after.cancelled is not None:
            return write
        if not self.wanting_job(RESUMED if after.paused is None else PAUSED, after.name, after.spec.queue):
            return write
        return msgspec.structs.replace(write, job=after.with_changes(sweep=True), only_plan=False)

    def wanting_other(self, event: str, but: str) -> tuple[Endpoint, ...]:
        """The same for an event about an endpoint, which does not hear of itself."""
        return tuple(each for each in self._by_event.get(event, ()) if each.id != but)

    def _let_through(
        self, endpoints: tuple[Endpoint, ...], job: str, queue: str, tenant: str | None
    ) -> tuple[Endpoint, ...]:
        return tuple(each for each in endpoints if each.lets_through(job, queue, tenant))
