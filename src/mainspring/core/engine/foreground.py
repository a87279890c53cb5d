"""One execution in the foreground of this process, for a debugger: `mainspring exec`.

The caller calls the handler itself, in the thread it wants. Nothing is stored before the handler has ended, so a
process that dies in a debugger leaves nothing claimed. Afterwards the run is recorded as inline work is (`inline.py`):
it holds no keys, has one attempt, and no other job follows it.
"""

from __future__ import annotations

import asyncio
import bdb
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from ...model.defaults import LEASE
from ...model.events import Started
from ...model.execution import ExecutionRow, Outcome, encode_policy
from ...model.job import Job
from ...model.policies import RunPolicy
from ...model.time.instants import seconds_to_micros
from ...model.values.ids import Chance, random_id
from ..commands.enqueue import Enqueuer
from ..commands.trigger import window_of
from ..declaring.context import RunningContext, running_in
from ..declaring.handler import Handler
from ..declaring.registry import Registry
from ..declaring.tenant_options import check_tenant
from ..loops import Emit
from ..ports import Clock
from ..rules import new_execution, transitions
from ..tenants.context import handler_call
from ..tenants.fan_out import names_from
from .inline import TrackedWork, Tracker, ended_event
from .log_capture import capturing
from .outcomes import Attempt, Outcomes, finished
from .runner import report_of

INTERRUPTS = (KeyboardInterrupt, asyncio.CancelledError, bdb.BdbQuit)
"""How a user ends a handler in the foreground: Ctrl-C, or `quit` in the debugger."""
INTERRUPTED = "interrupted by its user"


class ForegroundContext(RunningContext):
    """A context that also calls `on_progress` when its handler reports progress."""

    __slots__ = ("on_progress",)

    on_progress: Callable[[float, float | None, str], None]

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        super().progress(done, total, message)
        self.on_progress(done, total, str(message))


class ForegroundRun(Attempt):
    """One execution from before its start to its ending."""

    __slots__ = ("call", "error", "value")

    def __init__(self, execution: ExecutionRow, context: ForegroundContext) -> None:
        super().__init__(execution, context, execution.created, context.began)
        self.call: Callable[[], Any] = lambda: None
        self.value: Any = None
        self.error: BaseException | None = None

    @property
    def interrupted(self) -> bool:
        return isinstance(self.error, INTERRUPTS)

    def run(self) -> None:
        """Call a plain handler in this thread. Whatever it raises is kept."""
        with self._entered():
            self.value = finished(self.call())

    async def run_async(self) -> None:
        """Await a handler that is `async def`, on this event loop."""
        with self._entered():
            self.value = await self.call()

    @contextmanager
    def _entered(self) -> Iterator[None]:
        self.entered = True
        try:
            with capturing(self.context), running_in(self.context):
                yield
        except BaseException as error:
            self.error = error
            if self.interrupted:
                self.stopped = "cancelled"


class Foreground:
    """Makes and records foreground runs. `tracker` records them, `context` is for the contexts of handlers."""

    def __init__(
        self,
        registry: Registry,
        enqueuer: Enqueuer,
        tracker: Tracker,
        clock: Clock,
        chance: Chance,
        emit: Emit,
        **context: Any,
    ) -> None:
        self._registry, self._enqueuer, self._tracker = registry, enqueuer, tracker
        self._clock, self._chance, self._emit, self._context = clock, chance, emit, context
        self._worker = random_id(clock.now(), chance)

    def handler_of(self, job: Job) -> Handler:
        return self._registry.get(job.spec.handler)

    def prepare(
        self,
        job: Job,
        params: Mapping[str, Any] | None,
        *,
        window: tuple[Any, Any] | None,
        tenant: str | None,
        by: str,
        on_progress: Callable[[float, float | None, str], None],
    ) -> ForegroundRun:
        """A run whose parameters, window and tenant are checked as those of a trigger are. Nothing is stored."""
        self._enqueuer.refuse_unknown_tenants(job, tenant)
        now = self._clock.now()
        pending = new_execution.new_execution(
            job,
            trigger="manual",
            triggered_by=by,
            now=now,
            chance=self._chance,
            params=self._enqueuer.encode_params(job, params),
            window=window_of(job, window, now),
            tenant=None if tenant is None else check_tenant("tenant", tenant),
        )
        policy = encode_policy(RunPolicy(max_attempts=1, tz=job.spec.tz, secret=job.spec.secret))
        free = msgspec.structs.replace(pending, limits=None, share=None)
        execution = new_execution.inline_execution(free, self._worker, now, seconds_to_micros(LEASE), policy)
        context = ForegroundContext(execution, clock=self._clock, **self._context)
        context.on_progress = on_progress
        return ForegroundRun(execution, context)

    async def tenants_of(self, job: Job, run: ForegroundRun) -> Sequence[str]:
        """The tenants of a job that has some; `run` is a run without a tenant, for a function that wants a context."""
        provider = self._registry.provider(job.name)
        if provider is None:
            return ()
        with running_in(run.context):
            return await names_from(provider, run.context, asyncio.to_thread, _awaited, self._registry.around)

    def begin(self, run: ForegroundRun) -> None:
        """Bind the parameters. `PayloadMismatch` if they do not fit."""
        execution, handler = run.execution, self._registry.get(run.execution.handler)
        run.call = handler_call(handler, run.context, execution, self._tenant_context)
        run.began = self._clock.monotonic()
        self._emit(Started(execution, execution.created))

    def _tenant_context(self, execution: ExecutionRow) -> Callable[..., Any] | None:
        return self._registry.context_of(execution.job, execution.handler)

    def end(self, run: ForegroundRun) -> TrackedWork:
        """What is to be recorded about a run that has ended."""
        run.ended = self._clock.monotonic()
        error = None if run.interrupted else run.error
        outcomes = Outcomes(self._clock, self._worker)
        if run.interrupted:
            outcome = outcomes.ended(run, "cancelled", None, reason=INTERRUPTED)
        else:
            outcome = _final(outcomes.of(run, run.value, error, None))
        change = transitions.after_attempt(run.execution, outcome)
        return TrackedWork(run.execution, False, outcome, change, report_of(run.execution, run.context, last=True))

    async def record(self, work: TrackedWork) -> None:
        """`StoreError` if the store cannot be reached; the ending is emitted all the same."""
        try:
            await self._tracker.write(work)
        except BaseException:
            self._emit(ended_event(work))
            raise


def _final(outcome: Outcome) -> Outcome:
    """A handler that asks for another try gets none here."""
    if outcome.end != "snoozed":
        return outcome
    reason = f"asked for another attempt in {outcome.delay:g} s, which exec does not make"
    return msgspec.structs.replace(outcome, end="cancelled", delay=0.0, reason=reason)


async def _awaited(call: Callable[[], Any]) -> Any:
    return await call()
