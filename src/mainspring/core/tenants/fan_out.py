"""A parent's attempt: list the tenants, and add one execution for each of them.

The list is stored before the first execution, and the id of a tenant's execution follows from the parent and the
tenant's place in the list. So an attempt may stop anywhere: the next one finds the list, adds what is missing, and adds
nothing twice. Two attempts at once, one of which has lost its lease, do no harm either.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeAlias

import msgspec

from ...model.errors import MainspringError, NonRetryable
from ...model.events import Trouble
from ...model.execution import ExecutionRow, State
from ...model.job import Job
from ...model.limits import Limit
from ...model.time.instants import Micros
from ...model.values.ids import tenant_id
from ..declaring.around import Around
from ..declaring.context import JobContext
from ..declaring.handler_types import TenantProvider
from ..declaring.parameters import is_async
from ..declaring.registry import Registry
from ..declaring.tenant_options import context_wanted, tenant_names
from ..emitting import emit_enqueued
from ..loops import Emit
from ..ports import Clock, Store
from ..rules.limits import added_limit, fan_out_key
from ..rules.new_execution import tenant_policy, with_limits
from ..rules.search_keys import search_labels
from ..views.execution import row_of
from . import rosters

BATCH = 500

Apart: TypeAlias = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs a function of the application, plain or async, where it blocks nothing else and can be stopped."""


class TenantsUnknown(MainspringError):
    """There is no list yet, and this process does not have the code that makes it."""

    def __init__(self, job: str) -> None:
        super().__init__(job)
        self.job = job

    def __str__(self) -> str:
        return f"this process has the handler, but not the declaration of job {self.job!r}, which lists its tenants"


class FanOuts:
    """Adds the executions of tenants, for a worker that runs their parents."""

    def __init__(self, store: Store, registry: Registry, clock: Clock, emit: Emit = lambda _: None) -> None:
        self._store, self._registry, self._clock, self._emit = store, registry, clock, emit
        self.threads = ListingThreads(emit)

    def context_of(self, execution: ExecutionRow) -> Callable[..., Any] | None:
        """The application's context manager for the handler of a tenant's execution."""
        return self._registry.context_of(execution.job, execution.handler)

    async def spread(self, context: JobContext, in_thread: Apart, in_task: Apart) -> int:
        """Add an execution for each tenant; returns how many there are. Stops between two calls of the store if the
        parent is to be cancelled."""
        parent = row_of(context.execution)
        known = await rosters.stored(self._store, parent.id)
        if known is None:
            context.check()
            names = await self._names(context, in_thread, in_task)
            context.check()
            known = await rosters.create(
                self._store, parent, names, f"{parent.token:016d}-{parent.owner}", self._clock.now()
            )
        tenants = Tenants(parent, await self._job(parent))
        async for batch in rosters.batches_of(self._store, parent.id, known, BATCH):
            context.check()
            now = self._clock.now()
            children = [tenants.child(position, name, now) for position, name in batch]
            emit_enqueued(self._emit, children, await self._store.add(children))
        return known.total

    async def _names(self, context: JobContext, in_thread: Apart, in_task: Apart) -> list[str]:
        provider = self._registry.provider(context.job)
        if provider is None:
            if self._registry.declares(context.job):
                raise NonRetryable(f"job {context.job!r} is no longer declared with tenants=")
            raise TenantsUnknown(context.job)
        return await names_from(provider, context, in_thread, in_task, self._registry.around)

    async def _job(self, parent: ExecutionRow) -> Job | None:
        """The job, for limits and weights; None if it was deleted meanwhile."""
        found = await self._store.jobs([parent.job])
        return found[0] if found and found[0].id == parent.job_id else None


async def names_from(
    provider: TenantProvider, context: JobContext, in_thread: Apart, in_task: Apart, around: Around
) -> list[str]:
    """The names that a provider gives. A plain function runs in a thread, and so does a generator to its last name.
    What surrounds handlers surrounds a provider, too: both may use the database of the application."""
    if not callable(provider):
        return tenant_names(provider)
    function: Callable[..., Any] = provider
    call = partial(function, context) if context_wanted(provider) else function
    if is_async(provider) or inspect.isasyncgenfunction(provider):
        return await in_task(around.surround(partial(_awaited_names, call), context, True))  # type: ignore[no-any-return]
    return await in_thread(around.surround(partial(_names, call), context, False))  # type: ignore[no-any-return]


def _names(call: Callable[[], Any]) -> list[str]:
    given = call()
    if inspect.iscoroutine(given):
        given.close()
        raise NonRetryable("tenants= returned a coroutine that is never awaited: declare it with async def")
    return tenant_names(given)


async def _awaited_names(call: Callable[[], Any]) -> list[str]:
    given = call()
    return tenant_names([name async for name in given] if inspect.isasyncgen(given) else await given)


class Tenants:
    """Makes the executions of one parent's tenants, which differ in nothing but the tenant."""

    def __init__(self, parent: ExecutionRow, job: Job | None) -> None:
        self._parent, self._job = parent, job
        fan_out = parent.rules.fan_out
        own = None if fan_out is None else fan_out.concurrency
        self._limit = None if own is None else Limit(fan_out_key(parent.id), concurrency=own)
        self._template = ExecutionRow(
            id="",
            job=parent.job,
            job_id=parent.job_id,
            handler=parent.handler,
            queue=parent.queue,
            trigger=parent.trigger,
            triggered_by=parent.triggered_by,
            trace_id=parent.trace_id,
            traceparent=parent.traceparent,
            params=parent.params,
            policy=tenant_policy(parent.policy, with_parent=True),
            tick=parent.tick,
            window_begin=parent.window_begin,
            window_end=parent.window_end,
            parent_id=parent.id,
            priority=parent.priority,
            flow=parent.flow,
            metadata_json=parent.metadata_json,
            labels=() if job is None else search_labels(job.spec.search, parent.params),
        )

    def child(self, position: int, tenant: str, now: Micros) -> ExecutionRow:
        """A pending execution. Its share is its tenant, and it has the limits of its job."""
        id = tenant_id(self._parent.id, tenant, position)
        made = msgspec.structs.replace(self._template, id=id, tenant=tenant, share=tenant, created=now, due=now)
        if self._job is not None:
            made = with_limits(self._job, made)
        if self._limit is not None:
            made = msgspec.structs.replace(made, limits=added_limit(made.limits, self._limit))
        return made

    def never_started(self, position: int, tenant: str, reason: str, now: Micros) -> ExecutionRow:
        """A cancelled execution, which takes the id that a pending one would have."""
        return msgspec.structs.replace(
            self._template,
            id=tenant_id(self._parent.id, tenant, position),
            tenant=tenant,
            share=tenant,
            created=now,
            due=now,
            state=State.CANCELLED,
            reason=reason,
            finished=now,
            todo=self._parent.rules.feeds,
        )


MOST_HANGING = 3


class TenantsHang(MainspringError):
    """The function that lists the tenants hangs in too many threads to be called again."""

    def __init__(self, job: str, threads: str) -> None:
        super().__init__(job, threads)
        self.job, self.threads = job, threads

    def __str__(self) -> str:
        return f"the function that lists the tenants of job {self.job!r} hangs in this process: {self.threads}"


class ListingThreads:
    """Calls functions that list tenants, each in a thread of its own: one that hangs can be given up, and does not take
    a thread from handlers."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._hanging: dict[str, list[threading.Thread]] = {}
        self._made = 0

    async def call(self, job: str, function: Callable[[], Any]) -> Any:
        """Returns or raises what the function does."""
        hanging = [thread for thread in self._hanging.pop(job, ()) if thread.is_alive()]
        if hanging:
            self._hanging[job] = hanging
        if len(hanging) >= MOST_HANGING:
            raise TenantsHang(job, ", ".join(thread.name for thread in hanging))
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
        context = contextvars.copy_context()

        def work() -> None:
            outcome = context.run(_outcome, function)
            with contextlib.suppress(RuntimeError):  # the loop is closed: the call was given up
                loop.call_soon_threadsafe(lambda: None if answer.done() else answer.set_result(outcome))

        self._made += 1
        thread = threading.Thread(target=work, name=f"mainspring-tenants-{job}-{self._made}", daemon=True)
        thread.start()
        try:
            value, error = await answer
        except asyncio.CancelledError:
            self._give_up(job, thread)
            raise
        if error is not None:
            raise error
        return value

    def _give_up(self, job: str, thread: threading.Thread) -> None:
        if thread.is_alive():
            self._hanging.setdefault(job, []).append(thread)
            error = f"the function that lists them was given up and has not ended: thread {thread.name} still runs it"
            self._emit(Trouble(f"tenants of job {job}", error))


def _outcome(function: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    try:
        return function(), None
    except BaseException as error:
        return None, error
