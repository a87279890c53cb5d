"""The context of a running execution: `JobContext` is what handlers hold, `RunningContext` what the engine holds.

One context belongs to one attempt of one execution. It is cheap to make: most values are computed on first use.
Handlers may use it from any thread; the worker collects what they report with `drain`.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import datetime
from typing import Any

import msgspec

from ...model.defaults import USERNAME
from ...model.errors import ExecutionCancelled, InvalidValue, nearest
from ...model.execution import ExecutionRow
from ...model.labels import MOST_KEYS
from ...model.store.messages import LogLine
from ...model.time.instants import SECOND
from ...model.values.payload import HIGHEST, LOWEST, presentable, safe_json, safe_text
from ...model.values.trace_context import split
from ...model.windows import Window, window_between
from ..ports import Clock, TracedAttempt
from ..rules.search_keys import Tags, keys_before
from ..views.execution import Execution
from .execution_log import OWN_LOGGER, ExecutionLog, JobLogger
from .progress import Progress, ProgressRate, progress_json

MAX_COUNTERS = 100
MAX_MESSAGE_LENGTH = 1_000
REPORT_LIMIT = 65_536
"""Bytes of JSON kept of the counters and of the metadata of one execution."""
LOGS_DROPPED = "logs_dropped"
"""The counter of log lines that were not kept."""

current_context: ContextVar[JobContext] = ContextVar("mainspring_context")
"""The context of the execution that runs in this task or thread. The engine sets it around every handler."""


class Resources(Mapping[str, Any]):
    """The resources that the application provides to its handlers, by item or by attribute.

    >>> resources = Resources({"db": "a connection pool"})
    >>> resources.db is resources["db"]
    True
    """

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, Any] | None = None) -> None:
        self._items = dict(items or {})

    def __getitem__(self, name: str) -> Any:
        try:
            return self._items[name]
        except KeyError:
            raise KeyError(self._unknown(name)) from None

    def __getattr__(self, name: str) -> Any:
        if name == "_items":  # only while being copied or unpickled
            raise AttributeError(name)
        try:
            return self._items[name]
        except KeyError:
            raise AttributeError(self._unknown(name)) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def _unknown(self, name: str) -> str:
        guess = nearest(name, self._items)
        known = ", ".join(sorted(self._items)) or "none"
        return f"no resource named {name!r}{f'; did you mean {guess!r}?' if guess else ''} (provided: {known})"


class JobContext:
    """What a handler gets: its execution, its parameters, and ways to report and to stop.

    ```python
    @app.job("crawl", trigger=every(minutes=30))
    async def crawl(ctx: JobContext, url: str) -> None:
        for number, page in enumerate(pages(url)):
            await save(page)
            ctx.progress(number + 1, message=page.title)
            ctx.count(items_crawled=1)
        ctx.logger.info("finished %s", url)
    ```
    """

    __slots__ = (
        "__weakref__",
        "_began",
        "_cancel_reason",
        "_channel",
        "_clock",
        "_counted",
        "_counters",
        "_lock",
        "_log",
        "_log_to",
        "_logged",
        "_metadata",
        "_params",
        "_progress",
        "_progress_json",
        "_progress_rate",
        "_progress_sent",
        "_resources",
        "_row",
        "_tags",
        "_trace",
        "_username",
        "_window",
    )

    def __init__(
        self,
        row: ExecutionRow,
        clock: Clock,
        resources: Mapping[str, Any] | None = None,
        username: str = USERNAME,
        channel: str | None = None,
        logger: logging.Logger | None = None,
    ) -> None:
        self._row = row
        self._clock = clock
        self._began = clock.monotonic()
        self._resources = resources
        self._username = username
        self._channel = channel
        self._log_to = logger
        self._lock = threading.Lock()
        self._logged: ExecutionLog | None = None
        self._counted = False
        self._counters: dict[str, float] | None = None
        self._progress: Progress | None = None
        self._progress_sent: Progress | None = None
        self._progress_json: str | None = None
        self._progress_rate: ProgressRate | None = None
        self._metadata: dict[str, Any] | None = None
        self._params: dict[str, Any] | None = None
        self._window: Window | None = None
        self._log: JobLogger | None = None
        self._cancel_reason: str | None = None
        self._trace: TracedAttempt | None = None
        self._tags: Tags | None = None

    def __repr__(self) -> str:
        return f"<JobContext {self.job} {self.execution_id} attempt {self.attempt}>"

    def __dir__(self) -> list[str]:
        """Completion offers what handlers use, and nothing of the engine's side."""
        return [name for name in dir(JobContext) if not name.startswith("_")]

    # --- who and why --------------------------------------------------------------------------------------
    @property
    def execution(self) -> Execution:
        """This execution, as it was when it was claimed."""
        return Execution(self._row)

    @property
    def job(self) -> str:
        """The name of the job."""
        return self._row.job

    @property
    def execution_id(self) -> str:
        """The id of this execution, the same for all its attempts."""
        return self._row.id

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt of this execution. Pass it to services that accept idempotency keys."""
        return self._row.id

    @property
    def attempt(self) -> int:
        """The number of this attempt: one more than the failures so far."""
        return self._row.attempt

    @property
    def trigger(self) -> str:
        """Why this execution exists: schedule, api, manual, enqueue, retry, backfill, catch_up or dependency."""
        return self._row.trigger

    @property
    def triggered_by(self) -> str:
        """The user who asked for it, or "system"."""
        return self._row.triggered_by

    @property
    def trace_id(self) -> str:
        """The id that this execution shares with everything it causes: follow-ups, retries, tenants, log lines."""
        return self._row.trace_id

    @property
    def traceparent(self) -> str | None:
        """The W3C trace context of the caller that created this execution, if it had one."""
        return None if self._row.traceparent is None else split(self._row.traceparent)[0]

    @property
    def scheduled_at(self) -> datetime | None:
        """The time of the tick, however late the execution runs; None if it was enqueued or triggered."""
        return self._row.scheduled_at

    @property
    def tenant(self) -> str | None:
        """The tenant that this execution runs for, if its job has tenants."""
        return self._row.tenant

    @property
    def username(self) -> str:
        """The user who asked for it; if no user did, the setting `username`."""
        by = self._row.triggered_by
        return self._username if by in ("", "system") else by

    @property
    def channel(self) -> str:
        """The setting `channel`; without one, the same as `trigger`."""
        return self._channel or self._row.trigger

    @property
    def params(self) -> dict[str, Any]:
        """The parameters as stored, before they were converted to the handler's types."""
        if self._params is None:
            self._params = self._row.arguments
        return self._params

    @property
    def resources(self) -> Resources:
        """The resources that the application provides: `ctx.resources.db` or `ctx.resources["db"]`."""
        if not isinstance(self._resources, Resources):
            self._resources = Resources(self._resources)
        return self._resources

    # --- the data window ----------------------------------------------------------------------------------
    @property
    def window(self) -> Window | None:
        """The range [begin, end) of data that this execution covers, in the zone of its job. The end is not part of
        it."""
        begin, end = self._row.window_begin, self._row.window_end
        if self._window is None and begin is not None and end is not None:
            self._window = window_between(begin, end, self._row.rules.tz)
        return self._window

    @property
    def begin_date(self) -> datetime | None:
        """The begin of the window, if there is one. Its `.date()` is the date in the zone of the job."""
        return self.window.begin if self.window else None

    @property
    def end_date(self) -> datetime | None:
        """The end of the window, which is not part of it."""
        return self.window.end if self.window else None

    # --- reporting back -----------------------------------------------------------------------------------
    @property
    def logger(self) -> JobLogger:
        """A logger whose lines have the fields of the execution, and are also kept in the log of the execution."""
        if self._log is None:
            self._log = JobLogger(self, self._log_to or logging.getLogger("mainspring.job"))
        return self._log

    @property
    def metadata(self) -> dict[str, Any]:
        """Your own data, stored with the execution when it ends. It starts with the metadata that the caller gave."""
        if self._metadata is None:
            self._metadata = self._row.metadata
        return self._metadata

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Report how far the work is: `ctx.progress(250, 1000, "page 25 of 100")`. Cheap enough for every round of a
        loop: the newest report is stored twice a second, with the rate and the time that is left."""
        _number("progress.done", done)
        if total is not None:
            _number("progress.total", total)
        text = message if type(message) is str else safe_text(message, MAX_MESSAGE_LENGTH)
        now = self._clock.monotonic()
        if self._progress_rate is None:
            self._progress_rate = ProgressRate(done, now)
        self._progress = (done, total, text, now)

    def count(self, **counters: float) -> None:
        """Add to the counters of this execution: `ctx.count(items_crawled=25, items_indexed=20)`."""
        for name, amount in counters.items():
            _number(f"count.{name}", amount)
        with self._lock:
            totals = self._counters if self._counters is not None else {}
            if len(totals.keys() | counters.keys()) > MAX_COUNTERS:
                raise InvalidValue("count", sorted(counters)[0], f"at most {MAX_COUNTERS} different counters")
            for name, amount in counters.items():
                totals[name] = totals.get(name, 0) + amount
            self._counters, self._counted = totals, True

    @property
    def counters(self) -> dict[str, float]:
        """The totals of `count` so far."""
        with self._lock:
            return dict(self._counters or {})

    def tag(self, **keys: str | float | bool) -> None:
        """Add search keys to this execution: after `ctx.tag(order_id="4711")`, a search for `order_id=4711` finds it.
        An execution has at most 10 search keys, including those that its job declares with `search=` and those of
        earlier attempts. Mainspring ignores further ones and says so in the log of the execution. It cuts values at 200
        characters."""
        with self._lock:
            if self._tags is None:
                self._tags = Tags(keys_before(self._row))
            left_out = self._tags.add(keys)
        if left_out:
            self.logger.warning("%s left out: an execution has at most %d search keys", ", ".join(left_out), MOST_KEYS)

    # --- stopping -----------------------------------------------------------------------------------------
    @property
    def cancelled(self) -> bool:
        """Whether this execution was asked to stop: it was cancelled, its timeout has passed, or its worker is
        stopping."""
        return self._cancel_reason is not None

    def check(self) -> None:
        """Raise `ExecutionCancelled` if this execution was asked to stop. Call it often in a plain function: nothing
        else stops one that runs in a thread."""
        if self._cancel_reason is not None:
            raise ExecutionCancelled(self._cancel_reason)

    @property
    def remaining(self) -> float | None:
        """Seconds left until the timeout, or until the end of the `run_timeout` if that is sooner; never below 0, and
        None without either."""
        row = self._row
        timeout = row.time_limit(row.claimed or row.created)
        return None if timeout is None else max(0.0, self._began + timeout - self._clock.monotonic())

    @property
    def _execution_log(self) -> ExecutionLog:
        """Made when it is first needed: most handlers log nothing."""
        if self._logged is None:
            with self._lock:
                self._logged = self._logged or ExecutionLog(self._clock)
        return self._logged


class RunningContext(JobContext):
    """A context as the engine holds it: with the means to stop the handler and to collect what it reports."""

    __slots__ = ()

    @property
    def began(self) -> float:
        """When the attempt began, on the monotonic clock."""
        return self._began

    @property
    def trace(self) -> TracedAttempt | None:
        """The spans of work that runs inline in its caller. The worker keeps those of its handlers itself."""
        return self._trace

    @trace.setter
    def trace(self, trace: TracedAttempt | None) -> None:
        self._trace = trace

    def cancel(self, reason: str) -> None:
        """Ask the handler to stop. The first reason wins."""
        if self._cancel_reason is None:
            self._cancel_reason = reason or "cancelled"

    def call_on_lines(self, on_line: Callable[[], None]) -> None:
        """Call this after each line that is kept. Before the handler begins."""
        self._logged = ExecutionLog(self._clock, on_line)

    def note(self, level: int, message: str) -> None:
        """Add a line to the execution's own log."""
        self.keep_line(level, message, OWN_LOGGER)

    def keep_line(self, level: int, message: str, logger: str) -> None:
        """Add a line to the execution's own log, if its bounds allow."""
        if self._execution_log.admits():
            self._execution_log.add(level, message, logger)

    @property
    def own_metadata(self) -> dict[str, Any] | None:
        """What the handler may have put into the metadata; None if it never looked at them."""
        return self._metadata

    def drain(self, last: bool = False) -> tuple[str | None, str | None, tuple[LogLine, ...]] | None:
        """What the handler reported since the last call: progress, counters, log lines; None if nothing. `last` is for
        the report that goes with the ending."""
        log = self._logged
        if log is None or not log.pending:
            if self._progress is self._progress_sent and not (self._progress_json or self._counted):
                return None
            lines: tuple[LogLine, ...] = ()
        else:
            lines = log.drain(last)
            self._count_dropped(log)
        progress = self._drain_progress()
        with self._lock:
            counters = safe_json(self._counters, REPORT_LIMIT) if self._counted else None
            self._counted = False
        return (progress, counters, lines) if progress or counters or lines else None

    def undrain(self, progress: str | None, counters: str | None, lines: tuple[LogLine, ...]) -> None:
        """Take back a report that could not be stored. Newer progress wins."""
        self._progress_json = self._progress_json or progress
        if lines:
            self._execution_log.put_back(lines)
        with self._lock:
            self._counted = self._counted or counters is not None

    def receive(self, progress: str | None, counters: str | None, lines: tuple[LogLine, ...]) -> None:
        """Take over what the handler reported in another process: new progress, all counters, further lines. The
        context over there has bounded the lines and counted what it dropped."""
        self._progress_json = progress or self._progress_json
        if lines:
            self._execution_log.receive(lines)
        if counters is not None:
            totals = msgspec.json.decode(counters)
            if LOGS_DROPPED in totals:
                self._execution_log.dropped_in_child = totals[LOGS_DROPPED]
            with self._lock:
                self._counters, self._counted = totals, True

    @property
    def tags(self) -> tuple[str, ...]:
        """The labels of all search keys that the handler has added."""
        return () if self._tags is None else self._tags.labels

    def drain_tags(self) -> tuple[str, ...]:
        """The labels that the handler has added since the last call."""
        if self._tags is None:
            return ()
        with self._lock:
            return self._tags.drain()

    def undrain_tags(self) -> None:
        """What was drained could not be stored."""
        if self._tags is not None:
            with self._lock:
                self._tags.undrain()

    def receive_tags(self, labels: tuple[str, ...]) -> None:
        """Take over the labels that the handler added in another process."""
        if labels:
            with self._lock:
                self._tags = self._tags or Tags()
                self._tags.receive(labels)

    def _drain_progress(self) -> str | None:
        """The newest report, as stored; the arithmetic is done here, not in the handler's loop."""
        kept, self._progress_json = self._progress_json, None
        newest = self._progress
        if newest is None or newest is self._progress_sent or self._progress_rate is None:
            return kept
        self._progress_sent = newest
        done, total, message, at = newest
        rate = self._progress_rate.add(done, at)
        updated = self._clock.now() - round((self._clock.monotonic() - at) * SECOND)
        return progress_json(done, total, safe_text(message, MAX_MESSAGE_LENGTH), rate, updated)

    def _count_dropped(self, log: ExecutionLog) -> None:
        with self._lock:
            dropped = log.dropped + log.dropped_in_child
            if dropped and (self._counters or {}).get(LOGS_DROPPED) != dropped:
                self._counters = {**(self._counters or {}), LOGS_DROPPED: dropped}
                self._counted = True

    def kept(self) -> tuple[str | None, str | None] | None:
        """The counters and the metadata for the record of the execution; None when there is neither."""
        if self._logged is not None:
            self._count_dropped(self._logged)
        if self._counters is None and not self._metadata:
            return None
        return self.counters_json(), self.metadata_json()

    def counters_json(self) -> str | None:
        """All counters, for the record; None when nothing was counted."""
        if self._logged is not None:
            self._count_dropped(self._logged)
        if self._counters is None:
            return None
        with self._lock:
            return safe_json(self._counters, REPORT_LIMIT)

    def metadata_json(self) -> str | None:
        """The metadata, for the record; None when nothing was set. Never fails, whatever the handler put there."""
        return safe_json(self._metadata, REPORT_LIMIT) if self._metadata else None


class RunningExecution(Execution):
    """What `perform(data, execution)` receives: the execution, which can also do what its context can, such as
    `execution.progress(1, 3)` and `execution.logger.info(...)`."""

    __slots__ = ("_context",)

    def __init__(self, context: JobContext) -> None:
        super().__init__(context._row)
        self._context = context

    def __getattr__(self, name: str) -> Any:
        """Everything that an execution does not have by itself is the context's."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._context, name)

    def __dir__(self) -> list[str]:
        return sorted({*dir(Execution), *dir(self._context)})

    @property
    def window(self) -> Window | None:
        return self._context.window

    @property
    def metadata(self) -> dict[str, Any]:
        return self._context.metadata

    @property
    def counters(self) -> dict[str, float]:
        return self._context.counters

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:  # type: ignore[override]
        """Report how far the work is."""
        self._context.progress(done, total, message)


@contextmanager
def running_in(context: JobContext) -> Iterator[None]:
    """Within this block, log lines and spans of this task or thread belong to the execution."""
    trace = context._trace
    entered = None if trace is None else trace.enter()
    token = current_context.set(context)
    try:
        yield
    finally:
        with suppress(ValueError):  # entered in one task and left in another, as some fixtures do
            current_context.reset(token)
        if trace is not None:
            trace.leave(entered)


def _number(field: str, value: Any) -> float:
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and LOWEST <= value <= HIGHEST:
        return value
    raise InvalidValue(field, presentable(value), "a finite number")
