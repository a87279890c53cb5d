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
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from ...model.defaults import PAYLOAD_LIMIT, USERNAME
from ...model.errors import NonRetryable, RetryAfter, Skip, StoreError
from ...model.events import Overran
from ...model.execution import AskedBy, AttemptEnd, ExecutionRow, Outcome
from ...model.store.messages import ProgressReport
from ...model.time.instants import SECOND, Micros
from ...model.values.payload import class_name, plainly, safe_json, safe_text
from ..declaring.context import ExecutionCancelled, RunningContext, current_context
from ..declaring.registry import Handler
from ..declaring.signature import PayloadMismatch
from ..loops import Emit
from ..ports import Clock, TracedAttempt, Tracing
from ..rules.transitions import MISMATCH
from ..tenants.context import in_tenant
from ..tenants.fan_out import FanOuts, ListingThreads, TenantsUnknown
from .descriptions import describe_error, describe_traceback, is_plain, is_plain_error, is_retryable
from .thread_pool import ThreadPool

STOP_GRACE = 0.1
"""Seconds in which a handler that was asked to stop should do so. After that it is reported as overrunning."""
DESCRIBING = 5.0
"""Seconds that an exception or a result of the application's own gets to describe itself."""

REASON_LIMIT = 1_000

STORE_PAUSE = 1.0
LONGEST_UNKNOWN_PAUSE = 60.0
"""Seconds until a parent that could not fan out here, through no fault of its own, is tried again."""

StopKind = Literal["timeout", "cancelled", "handed_back", "lost"]
_Measured: TypeAlias = tuple[Any, BaseException | None, float]
_ASKED_BY: dict[StopKind | None, AskedBy] = {"timeout": "timeout", "cancelled": "cancel"}
_INTERRUPTIONS = (asyncio.CancelledError, ExecutionCancelled, TimeoutError)


class Run:
    """An execution while it runs in this process."""

    __slots__ = (
        "abandoned",
        "alarm",
        "began",
        "context",
        "ended",
        "entered",
        "execution",
        "handler",
        "leased_until",
        "limit",
        "overran",
        "started",
        "stopped",
        "task",
        "trace",
    )

    def __init__(
        self, execution: ExecutionRow, handler: Handler, context: RunningContext, started: Micros, began: float
    ) -> None:
        self.execution = execution
        self.handler = handler
        self.context = context
        self.started = started
        self.began = began
        self.ended: float | None = None
        self.stopped: StopKind | None = None
        self.entered = False
        self.abandoned = False
        self.alarm: asyncio.TimerHandle | None = None
        self.leased_until = math.inf
        """On the monotonic clock: a handler that has not begun by then does not begin."""
        self.overran = False
        self.limit: float | None = None
        self.task: asyncio.Task[Any] | None = None
        self.trace: TracedAttempt | None = None

    def stop(self, kind: StopKind, reason: str) -> None:
        """Ask the handler to stop: a coroutine at its next await, a thread when it checks. The first request counts.

        A task that has not taken its first step checks this when it does: cancelled now, it would end silently.
        """
        if self.stopped is not None:
            return
        self.stopped = kind
        self.context.cancel(reason)
        if self.task is not None and self.entered:
            self.task.cancel()

    def end_trace(self, outcome: Outcome | None, error: BaseException | None) -> None:
        """The first call counts: a handler may return after its execution was handed back without it."""
        trace, self.trace = self.trace, None
        if trace is not None:
            trace.ended(outcome, error)

    def drain_report(self) -> ProgressReport | None:
        """What the handler reported since the last call; None if there is nothing."""
        return report_of(self.execution, self.context)

    def cancel(self, reason: str, now: Micros) -> None:
        self.execution = msgspec.structs.replace(self.execution, cancel_requested=now, cancel_reason=reason)
        self.stop("cancelled", reason)


def report_of(execution: ExecutionRow, context: RunningContext) -> ProgressReport | None:
    """Progress, counters and log lines since the last call; None if there are none."""
    drained = context.drain()
    if drained is None:
        return None
    progress, counters, logs = drained
    return ProgressReport(
        id=execution.id,
        token=execution.token,
        owner=execution.owner or "",
        progress_json=progress,
        counters_json=counters,
        logs=logs,
    )


class FannedOut(NamedTuple):
    """What the attempt of a parent returns: how many tenants have executions now."""

    total: int


Done: TypeAlias = Callable[[Run, Outcome | None], None]


class Runner:
    """Made inside a running event loop."""

    def __init__(
        self,
        clock: Clock,
        threads: ThreadPool,
        worker: str,
        tracing: Tracing | None = None,
        fan_outs: FanOuts | None = None,
        resources: Mapping[str, Any] | None = None,
        username: str = USERNAME,
        channel: str | None = None,
        logger: logging.Logger | None = None,
        emit: Emit | None = None,
    ) -> None:
        """`fan_outs` is for jobs that have tenants; the arguments after it are for the contexts of handlers."""
        self._tracing, self._fan_outs, self._emit = tracing, fan_outs, emit
        self._fanning_out: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._clock = clock
        self._threads = threads
        self._worker = worker
        self._for_contexts = (clock, resources, username, channel, logger)
        self._home = contextvars.copy_context()  # endings run in this context, not in what a handler left behind

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
            run.trace = self._tracing.begin(run.execution, self._worker)
        execution = run.execution
        run.limit = execution.time_limit(run.started)
        if run.limit == 0.0:  # its run_timeout was up before it began
            self._loop.call_soon(self._finish, run, done, None, self._ended(run, "timeout", None, begun=False))
            return
        if self._fan_outs is not None and execution.fans_out:
            self._begin_fan_out(run, self._fan_outs, done)
            return
        try:
            call = run.handler.call(run.context, execution.params)
            if execution.tenant is not None:
                factory = None if self._fan_outs is None else self._fan_outs.context_of(execution)
                call = in_tenant(call, run.context, factory, run.handler.is_async)
        except BaseException as error:
            self._loop.call_soon(self._conclude, run, done, None, error, None)
        else:
            (self._begin_task if run.handler.is_async else self._begin_in_thread)(run, call, done)

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
                value = _finished(value)
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
        if run.alarm is not None:
            run.alarm.cancel()
        run.alarm = self._loop.call_later(STOP_GRACE, self._report_overrun, run)

    def _report_overrun(self, run: Run) -> None:
        """Nothing but the handler itself can end it. While it goes on, the log and the execution's own log say so."""
        asked_by = _ASKED_BY.get(run.stopped)
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
        text: str | None = None
        if error is None and not run.context.own_metadata and (value is None or (text := _quick_json(value))):
            self._finish(run, done, None, self._ended(run, "completed", cpu_ms, result_json=text))  # nearly always
        elif _is_plain(run, value, error):
            self._finish(run, done, error, self._outcome(run, value, error, cpu_ms))
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
            outcome = self._outcome(run, value, error, cpu_ms)
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits for the outcome
                self._loop.call_soon_threadsafe(finish, outcome)

        def give_up(reason: str) -> None:
            finish(self._undescribed(run, value, error, reason))

        alarm = self._loop.call_later(DESCRIBING, give_up, f"that took more than {DESCRIBING:g} s")
        try:
            threading.Thread(target=describe, name="mainspring-describe", daemon=True).start()
        except RuntimeError as refused:
            give_up(str(refused))

    def _outcome(self, run: Run, value: Any, error: BaseException | None, cpu_ms: float | None) -> Outcome:
        """Never raises: this is the last net under a handler."""
        try:
            return self._classify(run, value, error, cpu_ms)
        except BaseException as broken:
            return self._undescribed(run, value, error, f"{class_name(type(broken))} was raised")

    def _undescribed(self, run: Run, value: Any, error: BaseException | None, reason: str) -> Outcome:
        """What can be said without looking any closer. A result that cannot be described does not undo the work."""
        text = f"{class_name(type(value if error is None else error))} could not be described: {reason}"
        if error is None:
            return self._ended(run, "completed", None, keep=False, result_json=safe_json(f"<{text}>", PAYLOAD_LIMIT))
        return self._ended(run, "failed", None, keep=False, error=text, traceback=text, reason="error")

    def _classify(self, run: Run, value: Any, error: BaseException | None, cpu_ms: float | None) -> Outcome:
        if type(value) is FannedOut:
            return self._fanned_out(run, value.total)
        if error is None:
            result = None if value is None else safe_json(value, PAYLOAD_LIMIT)
            return self._ended(run, "completed", cpu_ms, result_json=result)
        kind = type(error)
        interrupted = issubclass(kind, _INTERRUPTIONS)
        if run.stopped == "handed_back" or (run.stopped == "lost" and interrupted):
            return self._ended(run, "handed_back", cpu_ms)
        if run.stopped == "cancelled" and interrupted:
            return self._ended(run, "cancelled", cpu_ms, reason=run.execution.cancel_reason)
        if run.stopped == "timeout" and interrupted:
            message = f"timed out after {run.limit:g} s"
            return self._ended(run, "timeout", cpu_ms, error=message, traceback=describe_traceback(error))
        if issubclass(kind, Skip):
            return self._ended(run, "skipped", cpu_ms, reason=safe_text(error, REASON_LIMIT))
        if issubclass(kind, RetryAfter):
            assert isinstance(error, RetryAfter)
            return self._ended(run, "snoozed", cpu_ms, delay=error.delay, error=describe_error(error))
        mismatch = not run.entered and issubclass(kind, PayloadMismatch)
        return self._failed(run, error, MISMATCH if mismatch else "error", cpu_ms)

    def _fanned_out(self, run: Run, total: int) -> Outcome:
        """The parent waits for its tenants from now on; without tenants it is complete."""
        if total:
            run.context.count(total=total)
            return self._ended(run, "fanned_out", None)
        counts = {"total": 0, "success": 0, "failed": 0}
        run.context.count(**counts)
        return self._ended(run, "completed", None, result_json=safe_json(counts, PAYLOAD_LIMIT))

    def _failed(self, run: Run, error: BaseException, reason: str, cpu_ms: float | None = None) -> Outcome:
        return self._ended(
            run,
            "failed",
            cpu_ms,
            error=describe_error(error),
            traceback=describe_traceback(error),
            reason=reason,
            retryable=is_retryable(error, run.execution.rules.non_retryable),
        )

    def _ended(self, run: Run, end: AttemptEnd, cpu_ms: float | None, *, keep: bool = True, **details: Any) -> Outcome:
        """`keep` is false if the handler's counters and metadata must not be looked at."""
        if run.stopped is not None and (end == "completed" or run.overran):
            details["overran"] = _ASKED_BY.get(run.stopped)
        kept = run.context.kept() if keep else None
        if kept is not None:
            details["counters_json"], details["metadata_json"] = kept
        return Outcome(
            end=end,
            started=run.started,
            ended=run.started + round(((run.ended or self._clock.monotonic()) - run.began) * SECOND),
            worker=self._worker,
            cpu_ms=cpu_ms,
            **details,
        )


def _quick_json(value: Any) -> str | None:
    """The JSON text of an object of plain scalars; None for everything else."""
    if type(value) is not dict:
        return None
    try:
        text = plainly(value)
    except BaseException:
        return None
    return None if text is None or len(text) > PAYLOAD_LIMIT else text.decode()


def _is_plain(run: Run, value: Any, error: BaseException | None) -> bool:
    """Whether the attempt can be described without running code of the application."""
    try:
        if type(value) is FannedOut:
            return True
        return is_plain(value) and (error is None or is_plain_error(error)) and is_plain(run.context.own_metadata)
    except BaseException:
        return False


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
        value, error = _finished(call()), None
    except BaseException as raised:
        value, error = None, raised
    return value, error, (time.thread_time() - began) * 1000


def _finished(value: Any) -> Any:
    """Refuse a coroutine that a handler returns: nobody would run it, and the attempt would count as done."""
    if type(value) is types.CoroutineType:
        value.close()
        raise NonRetryable(
            "the handler returned a coroutine that nobody awaits: await it, or declare it with async def"
        )
    return value


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
