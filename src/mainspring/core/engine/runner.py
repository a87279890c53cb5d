"""One attempt at one execution: call the handler with its context, and turn whatever happens into an `Outcome`.

Nothing a handler raises gets past this file, `SystemExit` and `RecursionError` included. Whatever goes wrong while an
ending is described is a failed attempt as well, with what could be found out about it.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import math
import threading
import time
import types
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

import msgspec

from ...model.defaults import USERNAME
from ...model.errors import MainspringError, RetryAfter, StoreError
from ...model.events import Overran
from ...model.execution import ExecutionRow, Outcome
from ...model.store.messages import LogLine, ProgressReport
from ...model.time.instants import Micros
from ..declaring.context import RunningContext, current_context
from ..declaring.registry import Handler
from ..loops import Emit
from ..ports import Clock, Isolated, ProcessDied, ProcessPool, StopKind, TracedAttempt, Tracing
from ..tenants.context import handler_call
from ..tenants.fan_out import FanOuts, ListingThreads, TenantsUnknown
from .descriptions import describe_error
from .outcomes import DESCRIBING, Attempt, FannedOut, Outcomes, finished, is_plain_ending
from .thread_pool import Threads

STOP_GRACE = 0.1
"""Seconds in which a handler that was asked to stop should do so. After that it is reported as overrunning."""
STORE_PAUSE = 1.0
LONGEST_UNKNOWN_PAUSE = 60.0
"""Seconds until a parent that could not fan out here, through no fault of its own, is tried again."""

_Measured: TypeAlias = tuple[Any, BaseException | None, float]


class Run(Attempt):
    """An execution while it runs in this process, or in a child of it."""

    __slots__ = ("abandoned", "alarm", "handler", "leased_until", "process", "task", "trace")

    def __init__(
        self, execution: ExecutionRow, handler: Handler, context: RunningContext, started: Micros, began: float
    ) -> None:
        super().__init__(execution, context, started, began)
        self.handler = handler
        self.abandoned = False
        self.alarm: asyncio.TimerHandle | None = None
        self.leased_until = math.inf
        """On the monotonic clock: a handler that has not begun by then does not begin."""
        self.task: asyncio.Task[Any] | None = None
        self.process: Isolated | None = None
        self.trace: TracedAttempt | None = None

    def stop(self, kind: StopKind, reason: str, within: float | None = None) -> None:
        """Ask the handler to stop: a coroutine at its next await, a thread when it checks; a process is ended if it
        does not, after its grace periods and `within` so many seconds. The first request counts.

        A task that has not taken its first step checks this when it does: cancelled now, it would end silently.
        """
        if self.stopped is not None:
            return
        self.stopped = kind
        self.context.cancel(reason)
        if self.task is not None and self.entered:
            self.task.cancel()
        if self.process is not None:
            self.process.stop(kind, reason, within)

    def abandon(self) -> None:
        """Nobody waits for its outcome any more. A process is ended now; a thread cannot be."""
        self.abandoned = True
        if self.process is not None:
            self.process.kill()

    def end_trace(self, outcome: Outcome | None, error: BaseException | None) -> None:
        """The first call counts: a handler may return after its execution was handed back without it."""
        trace, self.trace = self.trace, None
        if trace is not None:
            trace.ended(outcome, error)

    def drain_report(self) -> ProgressReport | None:
        """What the handler reported since the last call; None if there is nothing."""
        return report_of(self.execution, self.context, last=self.ended is not None)

    def cancel(self, reason: str, now: Micros) -> None:
        self.execution = msgspec.structs.replace(self.execution, cancel_requested=now, cancel_reason=reason)
        self.stop("cancelled", reason)


def report_of(execution: ExecutionRow, context: RunningContext, last: bool = False) -> ProgressReport | None:
    """Progress, counters, log lines and search keys since the last call; None if there are none. With the last report,
    search keys go with the ending."""
    drained, labels = context.drain(last), () if last else context.drain_tags()
    if drained is None and not labels:
        return None
    progress, counters, logs = drained or (None, None, ())
    return ProgressReport(
        id=execution.id,
        token=execution.token,
        owner=execution.owner or "",
        progress_json=progress,
        counters_json=counters,
        logs=logs,
        labels=labels,
    )


Done: TypeAlias = Callable[[Run, Outcome | None], None]


class _InProcess:
    """A run that takes place in a child process, as the pool of processes sees it."""

    __slots__ = ("_done", "_run", "_runner")

    def __init__(self, runner: Runner, run: Run, done: Done) -> None:
        self._runner, self._run, self._done = runner, run, done

    @property
    def execution(self) -> ExecutionRow:
        return self._run.execution

    @property
    def worker(self) -> str:
        return self._runner.worker

    @property
    def started(self) -> Micros:
        return self._run.started

    @property
    def began(self) -> float:
        return self._run.began

    @property
    def limit(self) -> float | None:
        return self._run.limit

    @property
    def trace_headers(self) -> dict[str, str]:
        return {} if self._run.trace is None else self._run.trace.headers()

    def begins(self) -> bool:
        return self._runner.process_begins(self._run, self._done)

    def reported(
        self, progress: str | None, counters: str | None, lines: tuple[LogLine, ...], labels: tuple[str, ...] = ()
    ) -> None:
        self._run.context.receive(progress, counters, lines)
        self._run.context.receive_tags(labels)

    def ended(self, how: Outcome | ProcessDied) -> None:
        self._runner.process_ended(self._run, self._done, how)


class Runner:
    """Made inside a running event loop."""

    def __init__(
        self,
        clock: Clock,
        threads: Threads,
        worker: str,
        tracing: Tracing | None = None,
        fan_outs: FanOuts | None = None,
        resources: Mapping[str, Any] | None = None,
        username: str = USERNAME,
        channel: str | None = None,
        logger: logging.Logger | None = None,
        emit: Emit | None = None,
        processes: Callable[[], ProcessPool] | None = None,
    ) -> None:
        """`fan_outs` is for jobs that have tenants; the arguments after it are for the contexts of handlers.
        `processes` makes the pool for handlers that are isolated; without it they run like the others."""
        self._make_processes = processes
        self._processes: ProcessPool | None = None
        self._tracing, self._fan_outs, self._emit = tracing, fan_outs, emit
        self._fanning_out: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._clock = clock
        self._threads = threads
        self.worker = worker
        self._outcomes = Outcomes(clock, worker)
        self._for_contexts = (clock, resources, username, channel, logger)
        self._home = contextvars.copy_context()  # endings run in this context, not in what a handler left behind

    @property
    def processes(self) -> ProcessPool | None:
        """The child processes of this worker; made when they are first needed."""
        if self._processes is None and self._make_processes is not None:
            self._processes = self._make_processes()
        return self._processes

    async def close(self, patience: float) -> None:
        if self._processes is not None:
            await self._processes.close(patience)

    def prepare(self, execution: ExecutionRow, handler: Handler) -> Run:
        context = RunningContext(execution, *self._for_contexts)
        started, claimed = self._clock.now(), execution.claimed
        if claimed is not None and claimed > started:
            started = claimed
        return Run(execution, handler, context, started, context.began)

    def begin(self, run: Run, done: Done) -> None:
        """Start the attempt. `done` gets its outcome later, or None when the handler was stopped before its first
        step."""
        if self._tracing is not None:
            run.trace = self._tracing.begin(run.execution, self.worker)
        execution = run.execution
        run.limit = execution.time_limit(run.started)
        if run.limit == 0.0:  # its run_timeout was up before it began
            self._loop.call_soon(self._finish, run, done, None, self._outcomes.ended(run, "timeout", None, begun=False))
            return
        if self._fan_outs is not None and execution.fans_out:
            self._begin_fan_out(run, self._fan_outs, done)
            return
        if execution.rules.isolation == "process" and self._make_processes is not None:
            self._begin_in_process(run, done)
            return
        try:
            call = handler_call(run.handler, run.context, execution, self._tenant_context)
        except BaseException as error:
            self._loop.call_soon(self._conclude, run, done, None, error, None)
        else:
            (self._begin_task if run.handler.is_async else self._begin_in_thread)(run, call, done)

    def _tenant_context(self, execution: ExecutionRow) -> Callable[..., Any] | None:
        return None if self._fan_outs is None else self._fan_outs.context_of(execution)

    def _is_late(self, run: Run) -> bool:
        """Whether the lease ran out before the handler's first step: this process was stopped since its claim."""
        return self._clock.monotonic() >= run.leased_until

    def _leave_out(self, run: Run, done: Done) -> None:
        """The handler does not begin."""
        if run.alarm is not None:
            run.alarm.cancel()
        run.end_trace(None, None)
        done(run, None)

    # --- handlers that are coroutines ---------------------------------------------------------------------
    def _begin_task(self, run: Run, call: Callable[[], Awaitable[Any]], done: Done) -> None:
        run.task = self._loop.create_task(self._try(run, call, done), name=run.execution.id)

    async def _try(self, run: Run, call: Callable[[], Awaitable[Any]], done: Done) -> None:
        """Never raises. It calls `done` itself: a callback of the task would take another turn of the event loop."""
        if run.stopped is not None or self._clock.monotonic() >= run.leased_until:
            self._home.run(self._leave_out, run, done)
            return
        error: BaseException | None = None
        try:
            _enter(run)
            if run.limit is not None:
                self._set_alarm(run, run.limit)
            value = await call()
            if type(value) is types.CoroutineType:
                value = finished(value)
        except BaseException as raised:
            value, error = None, raised
        run.task = None  # its memory is freed now, not when the ending is settled, which is much later
        self._home.run(self._conclude, run, done, value, error, None)

    # --- parents ------------------------------------------------------------------------------------------
    def _begin_fan_out(self, run: Run, fan_outs: FanOuts, done: Done) -> None:
        """In a task that nobody cancels: it is mostly inside the store, and stops by itself between two store calls."""
        task = self._loop.create_task(self._fan_out(run, fan_outs, done), name=run.execution.id)
        self._fanning_out.add(task)
        task.add_done_callback(self._fanning_out.discard)

    async def _fan_out(self, run: Run, fan_outs: FanOuts, done: Done) -> None:
        """Never raises. An error of the store, or a provider that this process lacks, is not the parent's failure."""
        if self._is_late(run):
            self._home.run(self._leave_out, run, done)
            return
        _enter(run)
        value: FannedOut | None = None
        error: BaseException | None = None
        try:
            in_thread, in_task = partial(self._listing_in_thread, run, fan_outs.threads), partial(self._listing, run)
            value = FannedOut(await fan_outs.spread(run.context, in_thread, in_task))
        except (StoreError, TenantsUnknown) as raised:
            delay = STORE_PAUSE if isinstance(raised, StoreError) else unknown_pause(run.execution.claims)
            error = RetryAfter(delay, describe_error(raised))
        except BaseException as raised:
            error = raised
        self._home.run(self._conclude, run, done, value, error, None)

    async def _listing(self, run: Run, call: Callable[[], Awaitable[Any]]) -> Any:
        """Call the application's own list of tenants, which can be stopped and can time out."""
        scope = asyncio.timeout(run.limit)
        run.task = task = asyncio.ensure_future(_caught(call))
        try:
            async with scope:
                value, error = await task
        finally:
            run.task = None
            if scope.expired() and run.stopped is None:
                run.stopped = "timeout"
        if error is not None:
            raise error
        return value

    async def _listing_in_thread(self, run: Run, threads: ListingThreads, call: Callable[[], Any]) -> Any:
        """A thread cannot be stopped, but nobody has to wait for it: a late result is dropped."""
        return await self._listing(run, partial(threads.call, run.execution.job, call))

    # --- handlers that are plain functions ----------------------------------------------------------------
    def _begin_in_thread(self, run: Run, call: Callable[[], Any], done: Done) -> None:
        if run.limit is not None:
            self._set_alarm(run, run.limit)
        context = contextvars.copy_context()
        context.run(_enter, run)
        in_time = partial(_measured, call, partial(self._is_late, run))
        self._threads.run(partial(context.run, in_time), partial(self._back, run, done))

    def _back(self, run: Run, done: Done, result: _Measured | None) -> None:
        if result is not None:
            self._conclude(run, done, *result)
        else:
            self._leave_out(run, done)

    # --- handlers that run in a child process ---------------------------------------------------------------
    def _begin_in_process(self, run: Run, done: Done) -> None:
        try:
            processes = self.processes
            assert processes is not None
        except MainspringError as error:  # an operator has isolated a job of an application that cannot have such jobs
            self._loop.call_soon(self._conclude, run, done, None, error, None)
        else:
            run.process = processes.run(_InProcess(self, run, done))

    def process_begins(self, run: Run, done: Done) -> bool:
        """A child is free: False if the handler must not begin any more."""
        if run.stopped is not None or self._is_late(run):
            self._loop.call_soon(self._leave_out, run, done)
            return False
        run.entered = True
        if run.limit is not None:
            self._set_alarm(run, run.limit)
        return True

    def process_ended(self, run: Run, done: Done, how: Outcome | ProcessDied) -> None:
        run.ended = self._clock.monotonic()
        if run.alarm is not None:
            run.alarm.cancel()
        outcomes = self._outcomes
        outcome = outcomes.died(run, how) if isinstance(how, ProcessDied) else outcomes.returned(run, how)
        self._finish(run, done, None, outcome)

    # --- asked to stop ------------------------------------------------------------------------------------
    def cancel(self, run: Run, reason: str, now: Micros) -> None:
        run.cancel(reason, now)
        self._watch(run)

    def _set_alarm(self, run: Run, limit: float) -> None:
        run.alarm = self._loop.call_later(limit, self._time_is_up, run, limit)

    def _time_is_up(self, run: Run, timeout: float) -> None:
        run.stop("timeout", f"timeout after {timeout:g} s")
        self._watch(run)

    def _watch(self, run: Run) -> None:
        """A process is ended if it goes on; for others, all that is left is to say so."""
        if run.alarm is not None:
            run.alarm.cancel()
        if run.process is not None:
            return
        run.alarm = self._loop.call_later(STOP_GRACE, self._report_overrun, run)

    def _report_overrun(self, run: Run) -> None:
        """Nothing but the handler itself can end it. While it goes on, the log and the execution's own log say so."""
        asked_by = run.asked_by
        if asked_by is None or run.ended is not None or run.abandoned:
            return
        run.overran = True
        took = self._clock.monotonic() - run.began
        why = f"past its timeout of {run.limit:g} s" if asked_by == "timeout" else "cancelled"
        how = "the handler has swallowed its CancelledError" if run.handler.is_async else "it ends at ctx.check()"
        run.context.note(logging.WARNING, f"{why}, and still running: {how}")
        if self._emit is not None:
            self._emit(Overran(run.execution, asked_by, took * 1000))

    # --- how it ended -------------------------------------------------------------------------------------
    def _conclude(self, run: Run, done: Done, value: Any, error: BaseException | None, cpu_ms: float | None) -> None:
        """The handler has returned: call `done` with the outcome, now or within a few seconds."""
        run.ended = self._clock.monotonic()
        if run.alarm is not None:
            run.alarm.cancel()
        quick = self._outcomes.quick(run, value, cpu_ms) if error is None else None
        if quick is not None:
            self._finish(run, done, None, quick)
        elif is_plain_ending(run, value, error):
            self._finish(run, done, error, self._outcomes.of(run, value, error, cpu_ms))
        else:
            self._describe_aside(run, done, value, error, cpu_ms)

    def _finish(self, run: Run, done: Done, error: BaseException | None, outcome: Outcome) -> None:
        if run.trace is not None:
            run.end_trace(outcome, error)
        done(run, outcome)

    def _describe_aside(
        self, run: Run, done: Done, value: Any, error: BaseException | None, cpu_ms: float | None
    ) -> None:
        """Describe it in a thread, which may never end: code of the application has to run for it."""
        waiting = [done]

        def finish(outcome: Outcome) -> None:
            if waiting:
                alarm.cancel()
                self._finish(run, waiting.pop(), error, outcome)

        def describe() -> None:
            outcome = self._outcomes.of(run, value, error, cpu_ms)
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits for the outcome
                self._loop.call_soon_threadsafe(finish, outcome)

        def give_up(reason: str) -> None:
            finish(self._outcomes.undescribed(run, value, error, reason))

        alarm = self._loop.call_later(DESCRIBING, give_up, f"that took more than {DESCRIBING:g} s")
        try:
            threading.Thread(target=describe, name="mainspring-describe", daemon=True).start()
        except RuntimeError as refused:
            give_up(str(refused))


def _enter(run: Run) -> None:
    """Called in the handler's own task or thread, so nothing has to be restored."""
    run.entered = True
    current_context.set(run.context)
    if run.trace is not None:
        run.trace.enter()


def _measured(call: Callable[[], Any], is_late: Callable[[], bool]) -> _Measured | None:
    """Call in this thread, and measure the CPU time of the thread; None if it is too late to begin."""
    if is_late():
        return None
    began = time.thread_time()
    try:
        value, error = finished(call()), None
    except BaseException as raised:
        value, error = None, raised
    return value, error, (time.thread_time() - began) * 1000


def unknown_pause(claims: int) -> float:
    """Seconds until another process may take a parent whose tenants this process does not know. Short at first, since
    a process that knows them may run beside this one; longer each time, since there may be none.

    >>> [unknown_pause(claims) for claims in (1, 2, 3, 7, 1000)]
    [1.0, 2.0, 4.0, 60.0, 60.0]
    """
    return min(LONGEST_UNKNOWN_PAUSE, 2.0 ** min(claims - 1, 10))


async def _caught(call: Callable[[], Awaitable[Any]]) -> tuple[Any, BaseException | None]:
    """The value, or the error. A task that raises `SystemExit` would end the event loop and the process."""
    try:
        return await call(), None
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        return None, error
