"""Work that runs inline in its caller and is recorded like any execution: `async with app.track("import"): ...`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, get_args

import msgspec

from ...model.errors import InvalidValue, StoreError
from ...model.events import AttemptEnded, Fenced, Started
from ...model.execution import ExecutionRow, Outcome, TriggeredBy, encode_policy
from ...model.job import Job, JobSpec
from ...model.policies import RunPolicy
from ...model.store.messages import Change
from ...model.time.instants import seconds_to_micros
from ...model.values.ids import Chance
from ...model.values.payload import encode_payload, presentable
from ...model.values.reading import choice, words
from ..declaring.context import JobContext, RunningContext, running_in
from ..jobs.job_cache import JobCache
from ..loops import Emit
from ..ports import Clock, Store, Tracing
from ..rules import new_execution, ticks, transitions
from .descriptions import describe_error, describe_traceback
from .heartbeat import Leases
from .runner import report_of


class Tracker:
    """Records inline work. `leases` gives the leases that a heartbeat renews while anything is tracked."""

    def __init__(
        self,
        store: Store,
        job_cache: JobCache,
        clock: Clock,
        chance: Chance,
        emit: Emit,
        leases: Callable[[], Leases],
        tracing: Tracing | None = None,
        **context: Any,
    ) -> None:
        self._store, self._job_cache, self._clock, self._chance, self._emit = store, job_cache, clock, chance, emit
        self._leases, self._tracing = leases, tracing
        self._context = context

    @asynccontextmanager
    async def track(
        self,
        name: str,
        *,
        trigger: str = "manual",
        triggered_by: str = "system",
        params: Mapping[str, Any] | None = None,
        traceparent: str | None = None,
    ) -> AsyncIterator[JobContext]:
        job = await self._job(name)
        leases = self._leases()
        execution = await self._begin(job, leases, trigger, triggered_by, params, traceparent)
        context = RunningContext(execution, clock=self._clock, **self._context)
        context.trace = None if self._tracing is None else self._tracing.begin(execution, leases.info.id)
        self._emit(Started(execution, execution.created))
        try:
            with running_in(context):
                yield context
        except BaseException as error:
            await self._end(execution, context, leases, error)
            raise
        await self._end(execution, context, leases, None)

    async def _job(self, name: str) -> Job:
        await self._job_cache.ensure(name, JobSpec(handler=name, max_attempts=1))
        return await self._job_cache.get(name)

    async def _begin(
        self,
        job: Job,
        leases: Leases,
        trigger: str,
        triggered_by: str,
        params: Mapping[str, Any] | None,
        traceparent: str | None,
    ) -> ExecutionRow:
        now = await self._store.now()
        if params is not None and not isinstance(params, Mapping):
            raise InvalidValue("params", presentable(params), "a mapping of parameter names to values")
        text = encode_payload("params", dict(params or {}))
        pending = new_execution.new_execution(
            job,
            trigger=choice("trigger", trigger, get_args(TriggeredBy)),
            triggered_by=words("triggered_by", triggered_by),
            now=now,
            chance=self._chance,
            params=text,
            traceparent=traceparent,
            window=ticks.window_at(job, now),
        )
        execution = new_execution.inline_execution(
            pending,
            leases.info.id,
            now,
            seconds_to_micros(leases.lease),
            encode_policy(RunPolicy(max_attempts=1, tz=job.spec.tz)),
        )
        (added,) = await self._store.add([execution])
        leases.held[execution.id] = execution.token
        return added.execution or execution

    async def _end(
        self, execution: ExecutionRow, context: RunningContext, leases: Leases, error: BaseException | None
    ) -> None:
        cancelled = isinstance(error, asyncio.CancelledError)
        outcome = Outcome(
            end="completed" if error is None else "cancelled" if cancelled else "failed",
            started=execution.created,
            ended=max(self._clock.now(), execution.created),
            worker=leases.info.id,
            error=None if error is None else describe_error(error),
            traceback=None if error is None else describe_traceback(error),
            reason=None if error is None else "cancelled" if cancelled else "error",
            counters_json=context.counters_json(),
            metadata_json=context.metadata_json(),
        )
        if context.trace is not None:
            context.trace.ended(outcome, error)
        change = transitions.after_attempt(execution, outcome)
        try:
            accepted = await asyncio.shield(self._settle(execution, change, context))
        except StoreError:
            return  # the lease runs out and the record ends as worker_lost: tracking never breaks the tracked work
        finally:
            leases.give_up(execution)
        if not accepted:
            self._emit(Fenced(execution, "ending"))
            return
        duration = (outcome.ended - outcome.started) / 1000
        ended = msgspec.structs.replace(execution, finished=outcome.ended)
        self._emit(AttemptEnded(ended, change.to, 1, duration, outcome.error, outcome.traceback, None, change.reason))

    async def _settle(self, execution: ExecutionRow, change: Change, context: RunningContext) -> bool:
        """The reports, then the ending: the store takes reports only of running executions."""
        if (report := report_of(execution, context)) is not None:
            await self._store.report([report])
        return (await self._store.exchange([change], None)).applied[0]
