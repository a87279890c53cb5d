"""The log of one attempt: which of its lines are kept, and the logger that handlers find in their context.

An attempt may log as much as it likes; what is kept is bounded. It starts with room for a burst, and room comes back at
a steady rate. A line without room is counted and costs no more than that: it is not even formatted. After that no line
is kept for a second, then one line says how many were left out, and the log goes on.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, MutableMapping
from typing import TYPE_CHECKING, Any

from ...model.errors import ExecutionCancelled
from ...model.store.messages import LogLine
from ...model.values.payload import safe_json, safe_text
from ..loops import inside_event_loop
from ..ports import Clock

if TYPE_CHECKING:
    from .context import JobContext

BURST_LINES = 1_000
BURST_BYTES = 1_048_576
LINES_PER_SECOND = 50
BYTES_PER_SECOND = 65_536
PAUSE = 1.0
"""Seconds in which nothing is kept once the room is used up."""
YIELD_EVERY = 32
"""Dropped lines after which a thread makes way for others. A thread that only logs would keep the interpreter for 5 ms
at a time, and so delay every step of its neighbours; the event loop has nobody to make way for."""
MAX_LINE_LENGTH = 4_096
MAX_LOGGER_LENGTH = 200
OWN_LOGGER = "mainspring"

_LIMITS = (
    f"at most {BURST_LINES:,} lines and {BURST_BYTES // 1024:,} KiB at once, "
    f"then {LINES_PER_SECOND} lines and {BYTES_PER_SECOND // 1024} KiB a second"
)


class ExecutionLog:
    """The lines of one attempt that the store has not received yet. Safe to use from any thread."""

    __slots__ = (
        "_bytes_left",
        "_bytes_waiting",
        "_clock",
        "_lines",
        "_lines_left",
        "_lock",
        "_monotonic",
        "_on_line",
        "_refilled",
        "_reported",
        "dropped",
        "dropped_in_child",
        "paused",
    )

    def __init__(self, clock: Clock, on_line: Callable[[], None] | None = None) -> None:
        """`on_line` is called after each line that is kept."""
        self._clock, self._monotonic, self._on_line = clock, clock.monotonic, on_line
        self._lock = threading.Lock()
        self._lines: list[LogLine] = []
        self._bytes_waiting = 0
        self._lines_left, self._bytes_left = float(BURST_LINES), float(BURST_BYTES)
        self._refilled = self._monotonic()
        self.paused: float | None = None
        """Until when, on the monotonic clock, no line is kept."""
        self.dropped = 0
        """Lines of this attempt that were not kept."""
        self.dropped_in_child = 0
        """The same of the process that runs the handler, if it has one of its own."""
        self._reported = 0  # of `dropped`, in a line of the log

    def admits(self) -> bool:
        """Whether there is room for a line; if not, the line is counted. Ask before formatting it."""
        return not self.refuses() and (self.paused is None or self._resumes())

    def refuses(self) -> bool:
        """The quick part of `admits`, for lines of a flood."""
        until = self.paused
        if until is None or self._monotonic() >= until:
            return False
        with self._lock:
            self.dropped = dropped = self.dropped + 1
        if dropped % YIELD_EVERY == 0 and not inside_event_loop():
            time.sleep(0)
        return True

    def _resumes(self) -> bool:
        with self._lock:
            if self._resume(self._monotonic()):
                return True
            self.dropped += 1
            return False

    def add(self, level: int, message: str, logger: str) -> None:
        line = LogLine(
            self._clock.now(),
            logging.getLevelName(level),
            safe_text(message, MAX_LINE_LENGTH),
            safe_text(logger, MAX_LOGGER_LENGTH),
        )
        with self._lock:
            self._append(line)
            if not self._has_room(now := self._monotonic()):
                self.paused = now + PAUSE
        if self._on_line is not None:
            self._on_line()

    @property
    def pending(self) -> bool:
        """Whether `drain` may have something to return."""
        return bool(self._lines) or self.dropped > self._reported

    def drain(self, last: bool = False) -> tuple[LogLine, ...]:
        """The lines since the last call. The last call of an attempt says what was dropped even without room."""
        with self._lock:
            if last or (self.paused is not None and self._monotonic() >= self.paused):
                self._report_dropped()
            lines, self._lines, self._bytes_waiting = tuple(self._lines), [], 0
        return lines

    def put_back(self, lines: tuple[LogLine, ...]) -> None:
        """Lines that could not be stored."""
        with self._lock:
            self._lines[:0] = lines
            self._bytes_waiting += sum(map(_size, lines))

    def receive(self, lines: tuple[LogLine, ...]) -> None:
        """Lines from a child process. Its log has bounded them; only the store can be slower."""
        with self._lock:
            if len(self._lines) + len(lines) > 2 * BURST_LINES:
                self.dropped += len(lines)
                return
            self._lines += lines
            self._bytes_waiting += sum(map(_size, lines))

    def _append(self, line: LogLine) -> None:
        size = _size(line)
        self._lines.append(line)
        self._bytes_waiting += size
        self._lines_left -= 1
        self._bytes_left -= size

    def _has_room(self, now: float) -> bool:
        """Lines that wait for the store are bounded as well: it may be away, or the attempt may be over."""
        elapsed, self._refilled = max(now - self._refilled, 0.0), now
        self._lines_left = min(self._lines_left + elapsed * LINES_PER_SECOND, BURST_LINES)
        self._bytes_left = min(self._bytes_left + elapsed * BYTES_PER_SECOND, BURST_BYTES)
        waiting = len(self._lines) < BURST_LINES and self._bytes_waiting < BURST_BYTES
        return waiting and self._lines_left >= 1 and self._bytes_left > 0

    def _resume(self, now: float) -> bool:
        if not self._has_room(now):
            self.paused = now + PAUSE
            return False
        self.paused = None
        self._report_dropped()
        return True

    def _report_dropped(self) -> None:
        count, self._reported = self.dropped - self._reported, self.dropped
        if count:
            words = "1 line was not kept" if count == 1 else f"{count:,} lines were not kept"
            self._append(LogLine(self._clock.now(), "WARNING", f"{words}: {_LIMITS}", OWN_LOGGER))


def _size(line: LogLine) -> int:
    return len(line.message.encode()) + len(line.logger)


# --- the logger of a context ----------------------------------------------------------------------------------


class _ThisThread(threading.local):
    kept_already = False
    """Whether it hands a line to `logging`, or to `warnings`, that is in the execution's log already."""


this_thread = _ThisThread()


class JobLogger(logging.LoggerAdapter[logging.Logger]):
    """A logger whose lines carry the execution's fields and are kept, from INFO up, in the execution's log."""

    keep_from = logging.INFO

    def __init__(self, context: JobContext, logger: logging.Logger) -> None:
        execution = context.execution
        fields = {
            "job": execution.job,
            "execution_id": execution.id,
            "attempt": execution.attempt,
            "trigger": execution.trigger,
            "trace_id": execution.trace_id,
            "tenant": execution.tenant,
        }
        super().__init__(logger, fields)
        self._kept = context._execution_log

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        kwargs["extra"] = {**(kwargs.get("extra") or {}), **(self.extra or {})}
        return msg, kwargs

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        if level >= self.keep_from and self._kept.admits():
            self._kept.add(level, rendered(msg, args, kwargs.get("exc_info")), self.logger.name)
        kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1  # the caller's line, not this one
        before, this_thread.kept_already = this_thread.kept_already, True
        try:
            super().log(level, msg, *args, **kwargs)
        except ExecutionCancelled:
            raise
        except BaseException:
            return  # a logging set-up that fails never fails a handler; the line is in the execution's log
        finally:
            this_thread.kept_already = before


_formatter = logging.Formatter()


def rendered(msg: object, args: Any, exc_info: Any) -> str:
    """The line as logging would write it; a wrong format shows its parts instead of failing the handler."""
    try:
        text = str.__str__(logging.LogRecord("", 0, "", 0, msg, args, None).getMessage())
    except ExecutionCancelled:
        raise
    except BaseException:
        text = f"{safe_text(msg, MAX_LINE_LENGTH)} {safe_json(args, MAX_LINE_LENGTH)}"
    if not exc_info:
        return text
    try:
        error = exc_info if isinstance(exc_info, BaseException) else None
        shown = (type(error), error, error.__traceback__) if error else exc_info
        return f"{text}\n{_formatter.formatException(sys.exc_info() if shown is True else shown)}"
    except ExecutionCancelled:
        raise
    except BaseException:
        return text
