"""What a handler prints and logs in a child process.

Printed lines go to the worker's own output at once, since the child has inherited it, and into the execution's log.
Records of `logging` go to the worker, whose handlers write them: the application's own handlers, which the child has
imported as well, would write everything twice.
"""

from __future__ import annotations

import io
import logging
import os
import sys
import threading
import warnings
from contextlib import suppress
from typing import Any, TextIO

from ..core.declaring.execution_log import this_thread
from ..core.engine.outcomes import Attempt
from ..model.errors import ExecutionCancelled
from ..model.values.payload import HIGHEST, LOWEST, safe_text
from ..model.values.terminal_text import one_line
from .frames import ForwardedRecord

MOST_RECORDS = 250
"""Records that wait for the next report. A handler that logs more than that in a quarter of a second is cut short."""
LONGEST = 16_384
_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


def log_levels() -> dict[str, int]:
    """The levels of the loggers of this process that have one of their own; that of the root logger is under ""."""
    loggers = [each for each in logging.root.manager.loggerDict.values() if isinstance(each, logging.Logger)]
    return {"": logging.root.level} | {each.name: each.level for each in loggers if each.level}


def is_plain_extra(value: object) -> bool:
    """Whether a field of a record can travel as it is."""
    if type(value) is str:
        return len(value) <= LONGEST and value.isprintable()
    return value is None or type(value) in (bool, float) or (type(value) is int and LOWEST <= value <= HIGHEST)


class ChildOutput:
    """`attempt` is what runs now."""

    def __init__(self) -> None:
        self.attempt: Attempt | None = None
        self._forwarder = Forwarder(self)
        self._printed: list[Printed] = []

    def begin(self) -> None:
        for name, kept in (("stdout", logging.INFO), ("stderr", logging.WARNING)):
            stream = getattr(sys, name) or open(os.devnull, "w")  # noqa: SIM115  # the worker has none
            printed = Printed(self, stream, kept, name)
            setattr(sys, name, printed)
            self._printed.append(printed)
        warnings.showwarning = _show_warning

    def take_over(self, levels: dict[str, int]) -> None:
        """After the import: replace the handlers of all loggers that have any, and let through what the worker does."""
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
        loggers = [each for each in logging.root.manager.loggerDict.values() if isinstance(each, logging.Logger)]
        for logger in loggers:
            had = [each for each in logger.handlers if not isinstance(each, logging.NullHandler)]
            for handler in had:
                logger.removeHandler(handler)
            if had and not logger.propagate:
                logger.addHandler(self._forwarder)
        logging.root.handlers = [self._forwarder]

    def end_line(self) -> None:
        for printed in self._printed:
            printed.end_line()

    def drain(self) -> tuple[ForwardedRecord, ...]:
        return self._forwarder.drain()


class Printed(io.TextIOBase):
    """Standard output or standard error: writes on, and keeps whole lines in the execution's log."""

    def __init__(self, output: ChildOutput, stream: TextIO, level: int, name: str) -> None:
        self._output, self._stream, self._level, self._name = output, stream, level, name
        self._line = ""
        self._lock = threading.RLock()
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(line_buffering=True)

    def write(self, text: str) -> int:
        self._stream.write(text)
        if self._output.attempt is not None:
            with self._lock:
                *lines, rest = (self._line + text).split("\n")
                self._line = _overwritten(rest)[-LONGEST:]
                for line in lines:
                    self._keep(line)
        return len(text)

    def end_line(self) -> None:
        with self._lock:
            line, self._line = self._line, ""
            if line:
                self._keep(line)

    def _keep(self, line: str) -> None:
        attempt, line = self._output.attempt, _overwritten(line).rstrip("\r")
        if attempt is not None and line and not this_thread.kept_already:
            attempt.context.keep_line(self._level, line, self._name)

    def flush(self) -> None:
        if not self._stream.closed:  # as when this object is collected, after its stream was closed
            self._stream.flush()

    def fileno(self) -> int:
        return self._stream.fileno()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def writable(self) -> bool:
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._stream.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        return self._stream.errors

    def __getattr__(self, name: str) -> Any:
        """All else, such as `buffer` and `reconfigure`."""
        return getattr(self._stream, name)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """As Python does, but in one line, and with escapes for what could steer a terminal."""
    text = one_line(f"{filename}:{lineno}: {category.__name__}: {message}")
    with suppress(OSError, AttributeError):  # a handler may have closed its standard error
        (file or sys.stderr).write(f"{text}\n")


def _overwritten(line: str) -> str:
    """What a terminal shows in the end of a line that is written again and again, such as a progress bar.

    >>> _overwritten("10 %\\r20 %\\r30 %")
    '30 %'
    """
    return line[line.rfind("\r", 0, -1) + 1 :]


class Forwarder(logging.Handler):
    """Keeps records for the worker until the next report."""

    def __init__(self, output: ChildOutput) -> None:
        super().__init__()
        self._output = output
        self._records: list[ForwardedRecord] = []
        self._dropped = 0

    def emit(self, record: logging.LogRecord) -> None:
        if len(self._records) >= MOST_RECORDS:
            self._dropped += 1
            return
        try:
            self._records.append(self._forwarded(record))
        except ExecutionCancelled:
            raise
        except Exception:
            self.handleError(record)

    def _forwarded(self, record: logging.LogRecord) -> ForwardedRecord:
        extra = {
            name: value for name, value in record.__dict__.items() if name not in _STANDARD and is_plain_extra(value)
        }
        exception = record.exc_text
        if record.exc_info and not exception:
            exception = logging.Formatter().formatException(record.exc_info)
        return ForwardedRecord(
            name=safe_text(record.name, LONGEST),
            level=record.levelno,
            message=safe_text(record.getMessage(), LONGEST),
            created=record.created,
            path=safe_text(record.pathname, LONGEST),
            line=record.lineno,
            function=None if record.funcName is None else safe_text(record.funcName, LONGEST),
            exception=None if exception is None else safe_text(exception, LONGEST),
            extra=self._fields() | extra,
        )

    def _fields(self) -> dict[str, Any]:
        attempt = self._output.attempt
        if attempt is None:
            return {}
        execution = attempt.execution
        names = ("job", "trigger", "trace_id", "attempt", "tenant")
        return {name: getattr(execution, name) for name in names} | {"execution_id": execution.id}

    def drain(self) -> tuple[ForwardedRecord, ...]:
        if not self._records:
            return ()
        with self.lock or threading.RLock():
            records, self._records = self._records, []
            dropped, self._dropped = self._dropped, 0
        if dropped:
            last = records[-1]
            text = f"{dropped} further records are not shown: this handler logs too much at once"
            records.append(
                ForwardedRecord(
                    last.name, logging.WARNING, text, last.created, last.path, last.line, None, None, self._fields()
                )
            )
        return tuple(records)
