"""Work that runs inline in its caller and is recorded like any execution: `async with app.track("import"): ...`.

The work runs even if the store does not answer. What the store does not take, `LateRecords` keeps in memory and writes
when the store is back, with the id and the times that the work had.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, get_args

import msgspec

from ...model.errors import InvalidValue, Skip, StoreError, StoreUnavailable
from ...model.events import AttemptEnded, Fenced, Started, Trouble
from ...model.execution import AttemptEnd, ExecutionRow, Outcome, TriggeredBy, encode_policy
from ...model.job import Job, JobSpec
from ...model.policies import RunPolicy
from ...model.store.messages import Change, ProgressReport
from ...model.time.instants import SECOND, seconds_to_micros
from ...model.values.ids import Chance
from ...model.values.payload import encode_payload, presentable, safe_text
from ...model.values.reading import choice, own_name, words
from ..declaring.context import JobContext, RunningContext, running_in
from ..jobs.job_cache import JobCache
from ..loops import FIRST_PAUSE, LONGEST_PAUSE, Emit, Outage, trouble
from ..ports import Clock, Store, Tracing
from ..rules import new_execution, ticks, transitions
from .descriptions import describe_error, describe_traceback, fingerprint_of
from .heartbeat import Leases
from .log_capture import capturing
from .outcomes import REASON_LIMIT
from .runner import report_of

PATIENCE = 5.0
"""Seconds that the tracked work waits for the store before it begins, and after it has ended."""
MOST_LATE = 1_000
"""Records that wait in memory for the store."""
CLOSE_PATIENCE = 2.0
"""Seconds that they get when the application closes."""


class TrackedWork(NamedTuple):
    """What is written about work that has ended. `stored` is false if the store may not know the execution yet."""

    execution: ExecutionRow
    stored: bool
    outcome: Outcome
    change: Change
    report: ProgressReport | None


class Tracker:
    """Records inline work. `leases` gives the leases that a heartbeat renews while anything is tracked; `reachable` is
    false if the store could not even be opened."""

    def __init__(
        self,
        store: Store,
        job_cache: JobCache,
        clock: Clock,
        chance: Chance,
        emit: Emit,
        leases: Callable[[], Leases],
        late: LateRecords,
        reachable: bool,
        tracing: Tracing | None = None,
        **context: Any,
    ) -> None:
        self._store, self._job_cache, self._clock, self._chance, self._emit = store, job_cache, clock, chance, emit
        self._leases, self._late, self._reachable, self._tracing = leases, late, reachable, tracing
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
        if params is not None and not isinstance(params, Mapping):
            raise InvalidValue("params", presentable(params), "a mapping of parameter names to values")
        fields: dict[str, Any] = {
            "trigger": choice("trigger", trigger, get_args(TriggeredBy)),
            "triggered_by": words("triggered_by", triggered_by),
            "params": encode_payload("params", dict(params or {})),
            "traceparent": traceparent,
        }
        leases = self._leases()
        name = own_name("name", name)
        execution, stored = await self._begin(name, leases, fields) if self._reachable else (None, False)
        if execution is None:
            now = self._clock.now()
            unknown = self._job_cache.new_job(name, JobSpec(handler=name, max_attempts=1), "api", now)
            execution = self._running(unknown, now, leases, fields)
        leases.held[execution.id] = execution.token
        context = RunningContext(execution, clock=self._clock, **self._context)
        context.trace = None if self._tracing is None else self._tracing.begin(execution, leases.info.id)
        self._emit(Started(execution, execution.created))
        try:
            with capturing(context), running_in(context):
                yield context
        except BaseException as error:
            await self._end(execution, stored, context, leases, error)
            raise
        await self._end(execution, stored, context, leases, None)

    async def _begin(self, name: str, leases: Leases, fields: dict[str, Any]) -> tuple[ExecutionRow | None, bool]:
        """The execution, as far as it could be made, and whether the store has surely taken it."""
        execution: ExecutionRow | None = None
        try:
            async with asyncio.timeout(PATIENCE):
                job, now = await self._job(name), await self._store.now()
                execution = self._running(job, now, leases, fields)
                (added,) = await self._store.add([execution])
                return added.execution or execution, True
        except (StoreError, TimeoutError) as error:
            self._late.failed(error)
            return execution, False

    async def _job(self, name: str) -> Job:
        await self._job_cache.ensure(name, JobSpec(handler=name, max_attempts=1))
        return await self._job_cache.get(name)

    def _running(self, job: Job, now: int, leases: Leases, fields: dict[str, Any]) -> ExecutionRow:
        window = ticks.window_at(job, now)
        policy = encode_policy(RunPolicy(max_attempts=1, tz=job.spec.tz, secret=job.spec.secret))
        pending = new_execution.new_execution(job, now=now, chance=self._chance, window=window, **fields)
        return new_execution.inline_execution(pending, leases.info.id, now, seconds_to_micros(leases.lease), policy)

    async def _end(
        self,
        execution: ExecutionRow,
        stored: bool,
        context: RunningContext,
        leases: Leases,
        error: BaseException | None,
    ) -> None:
        took = self._clock.monotonic() - context.began
        outcome = Outcome(
            started=execution.created,
            ended=execution.created + round(took * SECOND),
            worker=leases.info.id,
            counters_json=context.counters_json(),
            metadata_json=context.metadata_json(),
            labels=context.tags,
            release=leases.info.release,
            **_ending(error),
        )
        if context.trace is not None:
            context.trace.ended(outcome, error)
        change = transitions.after_attempt(execution, outcome)
        work = TrackedWork(execution, stored, outcome, change, report_of(execution, context, last=True))
        if not stored:
            self._late.add(work)
            return
        try:
            async with asyncio.timeout(PATIENCE):
                await asyncio.shield(self._late.write(work))
        except (StoreError, TimeoutError) as away:
            self._late.failed(away)
            self._late.add(work)

    async def write(self, work: TrackedWork) -> None:
        """The execution if it is new, its reports, then its ending: the store takes reports of running ones only. All
        of it can be repeated."""
        execution, leases = work.execution, self._leases()
        if not work.stored:
            job, now = await self._job(execution.job), await self._store.now()
            lease = now + seconds_to_micros(leases.lease)
            await self._store.add([msgspec.structs.replace(execution, job_id=job.id, lease=lease)])
        if work.report is not None:
            await self._store.report([work.report])
        accepted = (await self._store.exchange([work.change], None)).applied[0]
        leases.give_up(execution)
        if accepted:
            self._emit(ended_event(work))
        elif (found := await self._store.execution(execution.id)) is None or found.state is not work.change.to:
            self._emit(Fenced(execution, "ending"))


class LateRecords:
    """Tracked work that the store has not taken yet. `write` records one, on the store of the moment."""

    def __init__(self, write: Callable[[TrackedWork], Awaitable[None]], emit: Emit) -> None:
        self.write, self._emit = write, emit
        self._outage = Outage("tracked work", emit)
        self._waiting: deque[TrackedWork] = deque()
        self._task: asyncio.Task[None] | None = None

    def failed(self, error: Exception) -> None:
        away = error if isinstance(error, StoreError) else StoreUnavailable(f"no answer within {PATIENCE:g} s")
        self._outage.failed(away, asyncio.get_running_loop().time())

    def add(self, work: TrackedWork) -> None:
        if len(self._waiting) >= MOST_LATE:
            self._lose([self._waiting.popleft()])
        self._waiting.append(work)
        if self._task is None or self._task.done() or self._task.get_loop().is_closed():
            self._task = asyncio.get_running_loop().create_task(self._retry(), name="mainspring-late-records")

    async def close(self) -> None:
        """One more try; what the store does not take now is lost, and the log says so."""
        task, self._task = self._task, None
        if task is not None and task.get_loop() is asyncio.get_running_loop():
            task.cancel()
        if not self._waiting:
            return
        try:
            async with asyncio.timeout(CLOSE_PATIENCE):
                while self._waiting:
                    await self._write_next()
        except (StoreError, TimeoutError):
            self._lose(list(self._waiting))
            self._waiting.clear()

    async def _retry(self) -> None:
        pause, clock = FIRST_PAUSE, asyncio.get_running_loop().time
        while self._waiting:
            try:
                await self._write_next()
                pause = FIRST_PAUSE
                self._outage.worked(clock())
            except StoreError as error:
                self._outage.failed(error, clock())
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)

    async def _write_next(self) -> None:
        try:
            await self.write(self._waiting[0])
        except StoreError:
            raise
        except Exception as error:  # it will never be taken
            self._emit(trouble(f"record of {self._waiting[0].execution.id}", error))
        self._waiting.popleft()

    def _lose(self, lost: list[TrackedWork]) -> None:
        for work in lost:
            words = f"{work.change.to.value} execution {work.execution.id} of job {work.execution.job!r}"
            self._emit(Trouble("tracked work", f"the store took no record of the {words}"))


def _ending(error: BaseException | None) -> dict[str, Any]:
    """How the work ended, as fields of an outcome."""
    if error is None:
        return {"end": "completed"}
    kind = type(error)
    if issubclass(kind, Skip):
        return {"end": "skipped", "reason": safe_text(error, REASON_LIMIT)}
    end: AttemptEnd = "cancelled" if issubclass(kind, asyncio.CancelledError) else "failed"
    reason, described = "cancelled" if end == "cancelled" else "error", describe_error(error)
    ending = {"end": end, "reason": reason, "error": described, "traceback": describe_traceback(error)}
    return ending if end == "cancelled" else {**ending, "fingerprint": fingerprint_of(error, described)}


def ended_event(work: TrackedWork) -> AttemptEnded[ExecutionRow]:
    outcome, change = work.outcome, work.change
    duration = (outcome.ended - outcome.started) / 1000
    ended = msgspec.structs.replace(work.execution, finished=outcome.ended)
    group = None if change.attempt is None else change.attempt.error_group
    return AttemptEnded(
        ended, change.to, 1, duration, outcome.error, outcome.traceback, None, change.reason, error_group=group
    )
