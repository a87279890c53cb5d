"""The kit of a test: move its time, run what is due, and say what is expected to have happened.

Questions and assertions are plain functions in both kits, so that a forgotten `await` cannot make one pass. Only what
runs handlers differs: it is awaited in a `Kit`, and blocks in a `BlockingKit`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from datetime import datetime
from random import Random
from typing import TYPE_CHECKING, Any, cast

import msgspec

from ..core.declaring.handler_types import AnyHandler
from ..core.engine.thread_pool import ThreadPool, Threads
from ..core.views.execution import Execution, executions_of
from ..model.errors import InvalidValue, JobNotFound
from ..model.execution import ExecutionRow, State, Status
from ..model.policies import Unique
from ..model.time.instants import Micros, seconds_to_micros, to_micros
from ..model.triggers.base import instant_text
from ..model.values.given import Duration, Instant, When
from ..model.values.reading import choice, duration, instant
from .clock import FakeClock
from .expectations import UNSET, Expected, expected_times, how_often, mismatch, plain, times
from .one_by_one import Ran
from .recording import RecordingStore, immediately
from .stepping import Stepper

if TYPE_CHECKING:
    from ..app.mainspring import Mainspring

_STATES = tuple(state.value for state in State)


class KitBase:
    """What both kits share: everything but running handlers."""

    def __init__(
        self, app: Mainspring, store: RecordingStore, clock: FakeClock, raise_errors: bool, patience: float, seed: int
    ) -> None:
        self.app = app
        """The application under test: your own object."""
        self.clock = clock
        """The clock of the test, which `advance` moves."""
        self.raise_errors = raise_errors
        """Whether the exceptions of handlers are raised in the test. May be changed at any time."""
        self._store, self._patience, self._chance = store, patience, Random(seed)

    @property
    def now(self) -> datetime:
        """The current time of the test, in UTC."""
        return self.clock.datetime

    # --- looking ------------------------------------------------------------------------------------------
    def executions(self, what: AnyHandler | None = None, *, state: Status | None = None) -> list[Execution]:
        """The executions as they are now, oldest first; if given, only those of one job or handler, or in one state."""
        return executions_of(self._rows(what, state))

    def _rows(self, what: Any = None, state: str | None = None) -> list[ExecutionRow]:
        name = None if what is None else self._name(what)
        if state is not None:
            choice("state", state, _STATES)
        rows = [self._store.latest(row) for row in self._store.recorded if name in (None, row.job, row.handler)]
        return [row for row in rows if state in (None, row.state.value)]

    def enqueued(self, what: AnyHandler | None = None) -> list[Execution]:
        """The executions that were enqueued, as they were at the enqueue, whether or not they have run since."""
        return executions_of(self._enqueued_rows(what))

    def _enqueued_rows(self, what: Any = None) -> list[ExecutionRow]:
        name = None if what is None else self._name(what)
        made = (row for row in self._store.recorded if row.trigger == "enqueue")
        return [row for row in made if name in (None, row.job, row.handler)]

    def next_run(self, job: AnyHandler) -> datetime | None:
        """When the job is due next; None if it has no trigger, is paused or has had its last tick."""
        found = immediately(self._store.jobs([self._name(job)]))
        return found[0].next_run_at if found else None

    # --- expecting ----------------------------------------------------------------------------------------
    def assert_enqueued(
        self,
        what: AnyHandler,
        params: Mapping[str, Any] | None = None,
        *,
        start_at: When | None = None,
        unique: str | Unique | None = None,
        queue: str | None = None,
        priority: int | None = None,
        count: int | None = None,
    ) -> list[Execution]:
        """Check that it was enqueued like this `count` times, or at least once. Returns these executions as they were
        at the enqueue.

        `params` may name some of the parameters; `start_at` is an instant, or a delay from the enqueue such as "10m".
        """
        __tracebackhide__ = True
        expected = self._expected(what, params=params, start_at=start_at, unique=unique, queue=queue, priority=priority)
        found = [row for row in self._enqueued_rows() if expected.fits(row)]
        if not how_often(len(found), count):
            wanted = expected_times(count)
            claim = f"{expected} was {times(len(found), 'enqueued')}{wanted}"
            raise mismatch(claim, "enqueued were", [self._now_in_its_state(row) for row in self._enqueued_rows()])
        return executions_of(found)

    def assert_not_enqueued(self, what: AnyHandler, params: Mapping[str, Any] | None = None, **expected: Any) -> None:
        """Check that nothing like this was enqueued."""
        __tracebackhide__ = True
        if "count" in expected:
            raise InvalidValue("count", expected["count"], "nothing here", "Use assert_enqueued(..., count=0)")
        self.assert_enqueued(what, params, **expected, count=0)

    def assert_ran(
        self,
        what: AnyHandler,
        params: Mapping[str, Any] | None = None,
        *,
        count: int | None = None,
        at: Instant | None = None,
        result: Any = UNSET,
    ) -> list[Execution]:
        """Check that it ran and completed `count` times, or at least once. `at` is when it was due."""
        __tracebackhide__ = True
        expected, due = self._expected(what, params=params), self._instant(at)
        completed = [row for row in self._rows(state="completed") if expected.fits(row)]
        found = [row for row in completed if due in (None, _due(row)) and _same(row.result, result)]
        if not how_often(len(found), count):
            details = [] if due is None else [f"at {instant_text(instant('at', at, tz=self._tz))}"]
            details += [] if result is UNSET else [f"with result {result!r}"]
            wanted = expected_times(count)
            claim = " ".join([f"{expected} has {times(len(found), 'completed')}", *details])
            asked = result is not UNSET
            raise mismatch(f"{claim}{wanted}", "executions are", self._shown(what), results=asked)
        return executions_of(found)

    def assert_failed(
        self,
        what: AnyHandler,
        params: Mapping[str, Any] | None = None,
        *,
        error: str | None = None,
        count: int | None = None,
    ) -> list[Execution]:
        """Check that it failed for good, with no attempt left. `error` is a part of the error message."""
        __tracebackhide__ = True
        expected = self._expected(what, params=params)
        failed = [row for row in self._rows(state="failed") if expected.fits(row)]
        found = [row for row in failed if error is None or error in (row.error or "")]
        if not how_often(len(found), count):
            why = "" if error is None else f" with an error that says {error!r}"
            wanted = expected_times(count)
            claim = f"{expected} has {times(len(found), 'failed for good')}{why}{wanted}"
            raise mismatch(claim, "executions are", self._shown(what))
        return executions_of(found)

    # --- inside -------------------------------------------------------------------------------------------
    def _expected(self, what: Any, **given: Any) -> Expected:
        return Expected(name=self._name(what), tz=self._tz, **given)

    def _name(self, what: Any) -> str:
        """The name of a job or handler that exists: an assertion about a misspelt one must not pass."""
        if not isinstance(what, str):
            return self.app._runtime.registry.resolve(what).name
        jobs = [job.name for job in immediately(self._store.jobs())]
        if what not in jobs and what not in self.app._runtime.registry.names and what not in self.app._runtime.declares:
            raise JobNotFound(what, [*jobs, *self.app._runtime.declares])
        return what

    def _shown(self, what: Any) -> list[ExecutionRow]:
        """The executions of this job; all executions if it has none."""
        return self._rows(what) or self._rows()

    def _now_in_its_state(self, enqueued: ExecutionRow) -> ExecutionRow:
        """The execution as it was enqueued, but in its present state."""
        return msgspec.structs.replace(enqueued, state=self._store.latest(enqueued).state)

    @property
    def _tz(self) -> str:
        return self.app.settings.process.timezone

    def _instant(self, at: Any) -> Micros | None:
        return None if at is None else to_micros(instant("at", at, tz=self._tz))

    def _until(self, to: Any) -> Micros:
        until = to_micros(instant("to", to, tz=self._tz))
        if until < self.clock.now():
            raise InvalidValue("to", to, f"an instant from {self.now.isoformat()} on", "Time moves forward only")
        return until

    def _later(self, delay: Any) -> Micros:
        return self.clock.now() + seconds_to_micros(duration("advance", delay, allow_zero=True))

    def _on_run(self, ran: Ran) -> None:
        failure = ran.failure if self.raise_errors else None
        if failure is None:
            return
        execution = ran.execution
        failure.add_note(
            f"raised by the handler of job {execution.job!r} with params {execution.arguments} "
            f"at {instant_text(self.now)}, attempt {execution.attempt} of {execution.rules.max_attempts} "
            f"(harness(app, raise_errors=False) lets handlers fail and be tried again)"
        )
        raise failure

    def _threads(self) -> Threads:
        """Where handlers that are plain functions run."""
        return ThreadPool(1)

    async def _stepping(self, work: Callable[[Stepper], Coroutine[Any, Any, None]]) -> None:
        await self.app.open()  # what code has declared since is brought to the store
        runtime = self.app._runtime
        settings, parts = runtime.settings, runtime.parts
        assert parts is not None, "it was opened"
        context = {
            "resources": runtime.resources,
            "username": settings.username,
            "channel": settings.channel,
            "logger": runtime.logger,
            "tracing": parts.tracing,
        }
        stepper = Stepper(
            cast(RecordingStore, parts.store),
            runtime.registry,
            self.clock,
            self._chance,
            runtime.emit,
            self._patience,
            self._on_run,
            self._threads(),
            context,
        )
        try:
            await work(stepper)
        finally:
            stepper.close()


class Kit(KitBase):
    """For tests that are coroutines."""

    async def advance(self, delay: Duration) -> None:
        """Let time pass. Every tick comes at its time, and everything that is due runs in order, including retries.

        `delay` is text such as "2h" or "1h30m", seconds, or a timedelta; 0 runs what is due now.
        """
        until = self._later(delay)
        await self._stepping(lambda stepper: stepper.pass_time(until))

    async def advance_to(self, to: Instant) -> None:
        """As `advance`, up to an instant. Without an offset, it is read in the zone of the application."""
        until = self._until(to)
        await self._stepping(lambda stepper: stepper.pass_time(until))

    async def run_until_idle(self) -> None:
        """Run everything that is due now, and everything that handlers enqueue for now, to its end. With
        `raise_errors=False` this includes retries, for which the clock moves on. What is due later stays."""
        await self._stepping(lambda stepper: stepper.settle())


class BlockingKit(KitBase):
    """For tests that are plain functions. Handlers run as in a `Kit`, including coroutines."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._runner = asyncio.Runner()

    def advance(self, delay: Duration) -> None:
        """Let time pass. Every tick comes at its time, and everything that is due runs in order, including retries.

        `delay` is text such as "2h" or "1h30m", seconds, or a timedelta; 0 runs what is due now.
        """
        until = self._later(delay)
        self._run(lambda stepper: stepper.pass_time(until))

    def advance_to(self, to: Instant) -> None:
        """As `advance`, up to an instant. Without an offset, it is read in the zone of the application."""
        until = self._until(to)
        self._run(lambda stepper: stepper.pass_time(until))

    def run_until_idle(self) -> None:
        """Run everything that is due now, and everything that handlers enqueue for now, to its end. With
        `raise_errors=False` this includes retries, for which the clock moves on. What is due later stays."""
        self._run(lambda stepper: stepper.settle())

    def close(self) -> None:
        """Close the event loop of the kit. Leaving `harness` does this for you."""
        self._runner.close()

    def _run(self, work: Callable[[Stepper], Coroutine[Any, Any, None]]) -> None:
        self._runner.run(self._stepping(work))


def _due(execution: ExecutionRow) -> Micros:
    return execution.tick if execution.tick is not None else execution.due


def _same(actual: Any, wanted: Any) -> bool:
    return wanted is UNSET or actual == plain(wanted)
