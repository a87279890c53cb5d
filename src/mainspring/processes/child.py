"""The child's side: import the application once, then run one handler after another until the worker is gone.

The main thread waits for attempts and runs the handlers, so that signals reach them. While a handler runs for more than
a moment, a second thread listens to the worker: it asks the handler to stop, sends its reports, and ends the process
when the worker is gone. Short handlers do not pay for it.

A handler that was interrupted by a signal may have been anywhere, so the child is replaced afterwards; so is that of a
handler that has changed the working folder or what signals do. One that stopped when it was asked to leaves a child
that can be used again.
"""

from __future__ import annotations

import asyncio
import contextvars
import ctypes
import faulthandler
import logging
import os
import resource
import select
import signal
import socket
import sys
import threading
import time
from _signal import getsignal as _getsignal  # type: ignore[import-not-found]  # that of `signal` makes enums: slow
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager, suppress
from functools import partial
from types import FrameType
from typing import Any, NamedTuple, NoReturn

import msgspec

from ..core.declaring.context import RunningContext, current_context
from ..core.declaring.registry import Registry
from ..core.engine.descriptions import describe_error
from ..core.engine.log_capture import start_capture
from ..core.engine.outcomes import DESCRIBING, Attempt, CpuLimitExceeded, Outcomes, finished, is_plain_ending
from ..core.tenants.context import handler_call
from ..model.execution import ExecutionRow, Outcome
from ..model.time.instants import SECOND, Micros
from ..model.values.reading import duration_text
from .child_output import ChildOutput
from .frames import (
    CHUNK,
    BrokenChannel,
    Cancel,
    FromChild,
    Leave,
    Ready,
    Refused,
    Report,
    Result,
    Setup,
    Start,
    encode,
    from_worker,
)
from .resources import Peak, megabytes, own_cpu
from .rules import CHANNEL_LOST

FLUSH_EVERY = 0.25
BEAT_EVERY = 1.0
"""Seconds between the reports of a handler, and between those of one that has nothing to report."""
AT_ONCE = 20
"""Lines in `FLUSH_EVERY` that are sent as they come, so that a handler that crashes has them in its log."""
LISTEN_AFTER = 0.02
"""Seconds after which the second thread begins to listen."""

_PR_SET_PDEATHSIG = 1
_CHANGEABLE = tuple(map(int, (signal.SIGTERM, signal.SIGXCPU, signal.SIGINT, signal.SIGCHLD)))
_MASKING = signal.SIG_BLOCK, signal.SIG_UNBLOCK


class Application(NamedTuple):
    """What a child needs of the application that it has imported."""

    registry: Registry
    resources: AbstractAsyncContextManager[Mapping[str, Any]]
    """Entered once, around all attempts."""
    logger: logging.Logger | None


Load = Callable[[Setup], Application]


class WorkersClock:
    """The store's time, as the worker knows it."""

    monotonic = staticmethod(time.monotonic)

    def __init__(self) -> None:
        self.offset = time.time_ns() // 1000 - round(time.monotonic() * SECOND)

    def now(self) -> Micros:
        return self.offset + round(time.monotonic() * SECOND)


class _Job(NamedTuple):
    start: Start
    attempt: Attempt
    since: float


def serve(channel: int, stack: int, parent: int, load: Load) -> NoReturn:
    """The whole life of a child. `channel` is the descriptor of its end of the socket pair, `stack` that of a file for
    the stack of a handler that crashes, or that SIGTERM reaches: even if it hangs outside of Python."""
    _die_with(parent)
    os.set_inheritable(stack, False)
    faulthandler.enable(stack, all_threads=False)
    connection = socket.socket(fileno=channel)
    os.set_inheritable(channel, False)
    Child(connection, stack).serve(load)


def _die_with(parent: int) -> None:
    """On Linux, the kernel kills this process when the thread that started it ends. Other systems have no such thing:
    there the end of the channel does it, unless a handler holds the interpreter's lock for good."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before that
        os._exit(1)


class Child:
    def __init__(self, connection: socket.socket, stack: int) -> None:
        self._connection, self._stack, self._pid = connection, stack, os.getpid()
        self._decoder = from_worker()
        self._clock = WorkersClock()
        self._sending, self._receiving = threading.Lock(), threading.Lock()
        self._begun = threading.Event()
        self._current: _Job | None = None
        self._last_beat = 0.0
        self._burst_began, self._burst = 0.0, 0
        self._writable = select.poll()
        self._writable.register(connection, select.POLLOUT)
        self._interruptible = self._interrupted = False
        self._actions: dict[signal.Signals, Callable[[int, FrameType | None], None]] = {
            signal.SIGTERM: self._on_term,
            signal.SIGXCPU: self._on_cpu_limit,
            signal.SIGINT: _do_nothing,
        }
        self._hold_signals, self._let_signals_through = (
            partial(signal.pthread_sigmask, how, [*self._actions]) for how in _MASKING
        )
        self._left_by_the_import: tuple[object, ...] = ()
        self._loop_runner = asyncio.Runner()
        self._cleanup = AsyncExitStack()
        self._task: asyncio.Task[Any] | None = None
        self._peak = Peak()
        self._output = ChildOutput()
        self._setup: Setup
        self._application: Application
        self._resources: Mapping[str, Any] = {}

    # --- beginning ----------------------------------------------------------------------------------------
    def serve(self, load: Load) -> NoReturn:
        for number, action in self._actions.items():
            signal.signal(number, action)
        faulthandler.register(signal.SIGTERM, self._stack, all_threads=False, chain=True)
        os.register_at_fork(
            before=self._hold_signals, after_in_parent=self._let_signals_through, after_in_child=self._after_fork
        )
        self._setup = self._first_message()
        sys.path[:] = self._setup.python_path
        self._output.begin()
        imported = False
        try:
            self._application = application = load(self._setup)
            imported = True
            self._resources = self._loop_runner.run(self._cleanup.enter_async_context(application.resources))
        except BaseException as error:
            self._send(Refused(imported, describe_error(error)))
            self._leave(1)
        self._output.take_over(self._setup.log_levels)
        self._left_by_the_import = self._changeable()
        start_capture(self)
        self._peak.begin()
        self._send(Ready(own_cpu(), self._peak.resident()))
        threading.Thread(target=self._listen, name="mainspring-channel", daemon=True).start()
        for start, cancels in self._starts():
            self._run(start, cancels)
        self._loop_runner.run(self._cleanup.aclose())
        self._loop_runner.close()
        sys.exit(0)

    def _first_message(self) -> Setup:
        while data := self._connection.recv(CHUNK):
            for message in self._decoder.feed(data):
                assert isinstance(message, Setup)
                return message
        self._leave(1)

    def _starts(self) -> Iterator[tuple[Start, list[Cancel]]]:
        """The attempts that the worker sends, until it lets this process go, each with the requests to stop that came
        at the same moment. It sends one after the other has ended: other requests that come here are too late."""
        while True:
            with _ending_with_the_channel():
                data = self._connection.recv(CHUNK)
            if not data:
                _end_group()
            messages = list(self._decoder.feed(data))
            for at, message in enumerate(messages):
                if isinstance(message, Start):
                    yield message, [each for each in messages[at:] if isinstance(each, Cancel)]
                elif isinstance(message, Leave):
                    return

    # --- the thread that listens to the worker while a handler runs ---------------------------------------
    def _listen(self) -> None:
        poll = select.poll()
        poll.register(self._connection, select.POLLIN)
        while True:
            with _ending_with_the_channel():
                self._begun.wait()
                time.sleep(LISTEN_AFTER)
                self._listen_while_it_runs(poll)

    def _listen_while_it_runs(self, poll: select.poll) -> None:
        self._begun.clear()  # whatever begins from here on is seen below, or wakes this thread again
        while (job := self._current) is not None:
            if time.monotonic() - job.since < LISTEN_AFTER:
                self._begun.set()  # another one: wait again
                return
            if poll.poll(FLUSH_EVERY * 1000):
                self._receive(job)
            else:
                self._flush(job)

    def _receive(self, job: _Job) -> None:
        """Nothing is taken from the channel that could be meant for the main thread."""
        with self._receiving:
            if self._current is job:
                self._take_cancel(job)

    def _take_cancel(self, job: _Job) -> None:
        try:
            data = self._connection.recv(CHUNK, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        if not data:
            _end_group()
        for message in list(self._decoder.feed(data)):
            if isinstance(message, Cancel):
                self._cancel(job, message)

    def _attempt(self, start: Start) -> Attempt:
        self._clock.offset = start.offset
        setup, logger = self._setup, self._application.logger
        context = RunningContext(start.execution, self._clock, self._resources, setup.username, setup.channel, logger)
        context.call_on_lines(self._on_line)
        attempt = Attempt(start.execution, context, start.started, start.began)
        attempt.limit = start.limit
        return attempt

    def _cancel(self, job: _Job, message: Cancel) -> None:
        if job.start.number != message.number:
            return
        attempt = job.attempt
        if message.kind == "cancelled":
            asked: dict[str, Any] = {"cancel_requested": self._clock.now(), "cancel_reason": message.reason}
            attempt.execution = msgspec.structs.replace(attempt.execution, **asked)
        attempt.stopped = message.kind
        attempt.context.cancel(message.reason)
        task = self._task
        if task is not None:
            with suppress(RuntimeError):
                task.get_loop().call_soon_threadsafe(task.cancel)

    def _flush(self, job: _Job) -> None:
        with self._sending:
            if self._current is not job:
                return
            report, now = self._report(job), time.monotonic()
            if report is None and now - self._last_beat >= BEAT_EVERY:
                report = Report(job.start.number)
            if report is not None:
                self._last_beat = now
                report.size, report.cpu = self._peak.resident(), own_cpu()
                self._connection.sendall(encode(report))

    def _on_line(self) -> None:
        """In the thread that logs. A signal that came in the middle of a message would break the channel; and a worker
        that does not read must not hold up the handler."""
        job, now = self._current, time.monotonic()
        if now - self._burst_began >= FLUSH_EVERY:
            self._burst_began, self._burst = now, 0
        self._burst += 1
        if job is None or self._burst > AT_ONCE or not self._writable.poll(0):
            return
        self._hold_signals()
        try:
            with _ending_with_the_channel():
                self._flush(job)
        finally:
            self._let_signals_through()

    def _report(self, job: _Job, last: bool = False) -> Report | None:
        context = job.attempt.context
        drained, labels, records = context.drain(last), context.drain_tags(), self._output.drain()
        if drained is None and not records and not labels:
            return None
        progress, counters, lines = drained or (None, None, ())
        return Report(job.start.number, progress, counters, lines, records, labels=labels)

    def _send(self, message: FromChild) -> None:
        with self._sending:
            self._connection.sendall(encode(message))

    def _leave(self, code: int) -> NoReturn:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)

    # --- the main thread ----------------------------------------------------------------------------------
    def _run(self, start: Start, cancels: list[Cancel]) -> None:
        attempt = self._attempt(start)
        job = _Job(start, attempt, time.monotonic())
        self._interrupted = False
        self._last_beat = job.since
        self._output.attempt = attempt
        self._current = job
        for cancel in cancels:
            self._cancel(job, cancel)
        if not self._begun.is_set():
            self._begun.set()
        cpu = own_cpu()
        with _limits(attempt.execution):
            value, error = contextvars.copy_context().run(self._call, job)
        if os.getpid() != self._pid:
            os._exit(0)  # a process that the handler forked, and that has returned from the handler
        attempt.ended = time.monotonic()
        used = own_cpu()
        cpu_ms = (used - cpu) * 1000
        self._output.end_line()
        outcome, described = self._describe(job, value, error, cpu_ms)
        peak, size = self._peak.read()
        outcome = msgspec.structs.replace(outcome, cpu_ms=cpu_ms, memory_mb=megabytes(peak))
        del value, error
        reusable = described and not self._interrupted and self._changeable() == self._left_by_the_import
        with self._receiving, self._sending:
            self._current = self._output.attempt = None
            report = self._report(job, last=True) or Report(start.number)
            report.size, report.cpu = size, used
            with _ending_with_the_channel():
                self._connection.sendall(encode(Result(report, outcome, reusable)))
        self._peak.begin()  # of the next attempt: now nobody waits for it

    def _call(self, job: _Job) -> tuple[Any, BaseException | None]:
        """Never raises. A signal may interrupt the handler from its first step to its last."""
        start, attempt = job.start, job.attempt
        try:
            current_context.set(attempt.context)
            _continue_trace(start.trace)
            attempt.context.check()
            registry = self._application.registry
            handler = registry.get(attempt.execution.handler)
            call = handler_call(handler, attempt.context, attempt.execution, partial(_tenant_context, registry))
            attempt.entered = True
            try:
                self._interruptible = True
                return finished(self._await(call, attempt) if handler.is_async else call()), None
            finally:
                self._interruptible = False
        except BaseException as error:
            return None, error

    def _await(self, call: Callable[[], Any], attempt: Attempt) -> Any:
        """On an event loop that this child keeps, so that clients made in one attempt work in the next."""
        try:
            return self._loop_runner.run(self._awaited(call, attempt), context=contextvars.copy_context())
        finally:
            self._task = None

    async def _awaited(self, call: Callable[[], Any], attempt: Attempt) -> Any:
        self._task = asyncio.current_task()
        attempt.context.check()  # asked to stop before there was a task to cancel
        try:
            return await call()
        except (SystemExit, KeyboardInterrupt) as error:  # a task that raises these ends the event loop
            return _Raised(error)

    def _describe(self, job: _Job, value: Any, error: BaseException | None, cpu_ms: float) -> tuple[Outcome, bool]:
        """The outcome, and whether the application's own code had an end."""
        attempt, outcomes = job.attempt, Outcomes(self._clock, job.start.worker)
        if type(value) is _Raised:
            value, error = None, value.error
        quick = outcomes.quick(attempt, value, cpu_ms) if error is None else None
        if quick is not None:
            return quick, True
        if is_plain_ending(attempt, value, error):
            return outcomes.of(attempt, value, error, cpu_ms), True
        described: list[Outcome] = []
        thread = threading.Thread(
            target=lambda: described.append(outcomes.of(attempt, value, error, cpu_ms)), daemon=True
        )
        thread.start()
        thread.join(DESCRIBING)
        if described:
            return described[0], True
        return outcomes.undescribed(attempt, value, error, f"that took more than {DESCRIBING:g} s"), False

    # --- what handlers can change -------------------------------------------------------------------------
    def _changeable(self) -> tuple[object, ...]:
        """What belongs to the whole process, and would be different for the next handler: the working folder, and what
        signals do."""
        return _working_folder(), *map(_getsignal, _CHANGEABLE)

    def _after_fork(self) -> None:
        """In a process that a handler has forked: it must not keep the channel open, signals end it as usual, and what
        it prints goes nowhere but to the worker's output."""
        self._connection.close()
        self._current = self._output.attempt = None
        faulthandler.unregister(signal.SIGTERM)
        faulthandler.disable()
        for number, action in self._actions.items():
            if signal.getsignal(number) == action:
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [*self._actions])

    # --- signals ------------------------------------------------------------------------------------------
    def _on_term(self, number: int, frame: FrameType | None) -> None:
        """The worker insists. A signal that comes after the attempt it was meant for changes nothing."""
        job = self._current
        if job is None or not self._interruptible:
            return
        if job.attempt.stopped is None and self._receiving.acquire(blocking=False):
            try:
                self._take_cancel(job)  # the other thread had no chance: the handler held the interpreter's lock
            finally:
                self._receiving.release()
        if job.attempt.stopped is not None and self._may_interrupt():
            job.attempt.context.check()  # raises

    def _on_cpu_limit(self, number: int, frame: FrameType | None) -> None:
        job = self._current
        limit = None if job is None else job.attempt.execution.rules.max_cpu
        if limit is not None and self._may_interrupt():
            raise CpuLimitExceeded(f"the handler has used its max_cpu of {duration_text(limit)}")

    def _may_interrupt(self) -> bool:
        """Whether to raise an exception in the handler now; once for each attempt."""
        if not self._interruptible or self._interrupted or os.getpid() != self._pid:
            return False
        self._interrupted = True
        return True


@contextmanager
def _ending_with_the_channel() -> Iterator[None]:
    """Without its channel a child is of no use."""
    try:
        yield
    except (BrokenPipeError, ConnectionError):
        _end_group()
    except (OSError, BrokenChannel):  # a handler has closed it, or read from it
        os._exit(CHANNEL_LOST)


def _end_group() -> NoReturn:
    """The worker is gone: end with everything that the handlers have started."""
    os.killpg(0, signal.SIGKILL)
    os._exit(1)


def _do_nothing(number: int, frame: FrameType | None) -> None:
    """For SIGINT: the worker decides when a child ends. To ignore the signal would be inherited by the programs that a
    handler starts, and some are ended that way."""


def _working_folder() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return None


class _Raised(NamedTuple):
    error: BaseException


def _tenant_context(registry: Registry, execution: ExecutionRow) -> Callable[..., Any] | None:
    return registry.context_of(execution.job, execution.handler)


@contextmanager
def _limits(execution: ExecutionRow) -> Iterator[None]:
    """The limits that the kernel watches over. It counts processor time in whole seconds; the worker is more exact."""
    rules = execution.rules
    limits: dict[int, int] = {}
    if rules.max_cpu is not None:
        own = resource.getrusage(resource.RUSAGE_SELF)
        limits[resource.RLIMIT_CPU] = int(own.ru_utime + own.ru_stime + rules.max_cpu) + 1
    if rules.max_address_space is not None:
        limits[resource.RLIMIT_AS] = rules.max_address_space
    if not limits:
        yield
        return
    before = {kind: resource.getrlimit(kind) for kind in limits}
    for kind, limit in limits.items():
        soft, hard = before[kind]
        allowed = [each for each in (soft, hard, limit) if each != resource.RLIM_INFINITY]
        resource.setrlimit(kind, (min(allowed), hard))
    try:
        yield
    finally:
        for kind, both in before.items():
            resource.setrlimit(kind, both)


def _continue_trace(headers: dict[str, str]) -> None:
    """Spans of the handler become children of the worker's span. Called in the handler's own context."""
    if not headers:
        return
    with suppress(ImportError):
        from opentelemetry import context
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        context.attach(TraceContextTextMapPropagator().extract(headers, context.Context()))
