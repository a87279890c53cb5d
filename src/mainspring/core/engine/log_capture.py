"""What handlers write through `logging` and `warnings` goes into the log of their execution as well.

Every record that a logger of any name lets through passes `Logger.callHandlers`. That is where the capture looks at it:
a handler on the root logger would not see loggers that do not propagate, would silence the last-resort output of an
application without any logging set-up, and would turn its later `logging.basicConfig()` into nothing.

The capture is in place while a worker or tracked work of this process asks for it, and changes nothing of what the
application logs elsewhere. Threads that a handler starts itself have no execution unless they run in
`contextvars.copy_context()`.
"""

from __future__ import annotations

import logging
import threading
import warnings
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...model.errors import ExecutionCancelled
from ..declaring.context import JobContext, current_context
from ..declaring.execution_log import OWN_LOGGER, rendered, this_thread

WARNINGS_LOGGER = "py.warnings"
"""The name that `logging.captureWarnings` uses."""
_OWN = len(OWN_LOGGER)
_OWN_LOGGERS = f"{OWN_LOGGER}."
_OWN_FILES = str(Path(__file__).parents[2])


class LogCapture:
    """One pair of wrappers around `Logger.callHandlers` and `warnings.showwarning`. Where other code has wrapped them
    in turn by the time it is removed, the wrappers stay behind that code and only pass on."""

    def __init__(self) -> None:
        call_handlers, show_warning = logging.Logger.callHandlers, warnings.showwarning

        def capture_record(logger: logging.Logger, record: logging.LogRecord) -> None:
            context = current_context.get(None)
            if context is None or this_thread.kept_already or not self._active:
                call_handlers(logger, record)
                return
            log = context._logged
            if log is not None and log.paused and record.name[:_OWN] != OWN_LOGGER and log.refuses():
                call_handlers(logger, record)  # a line of a flood: the shortest way
                return
            this_thread.kept_already = True
            try:
                _keep_record(context, record)
                call_handlers(logger, record)
            finally:
                this_thread.kept_already = False

        def capture_warning(message: Any, category: Any, filename: Any, lineno: Any, *rest: Any, **more: Any) -> None:
            context = current_context.get(None)
            if context is None or this_thread.kept_already or not self._active:
                show_warning(message, category, filename, lineno, *rest, **more)
                return
            this_thread.kept_already = True
            try:
                _keep_warning(context, message, category, filename, lineno)
                show_warning(message, category, filename, lineno, *rest, **more)
            finally:
                this_thread.kept_already = False

        self._active = True
        self._records, self._call_handlers = capture_record, call_handlers
        self._warnings, self._show_warning = capture_warning, show_warning
        logging.Logger.callHandlers = capture_record  # type: ignore[assignment, method-assign]
        warnings.showwarning = capture_warning

    def remove(self) -> None:
        self._active = False
        if logging.Logger.callHandlers is self._records:
            logging.Logger.callHandlers = self._call_handlers  # type: ignore[method-assign]
        if warnings.showwarning is self._warnings:
            warnings.showwarning = self._show_warning


_owners: weakref.WeakSet[object] = weakref.WeakSet()
_changing = threading.Lock()
_capture: LogCapture | None = None


def start_capture(owner: object) -> None:
    """Capture until every owner has called `stop_capture`."""
    global _capture
    with _changing:
        _owners.add(owner)
        if _capture is None:
            _capture = LogCapture()


def stop_capture(owner: object) -> None:
    global _capture
    with _changing:
        _owners.discard(owner)
        if not _owners and _capture is not None:
            _capture.remove()
            _capture = None


@contextmanager
def capturing(owner: object) -> Iterator[None]:
    start_capture(owner)
    try:
        yield
    finally:
        stop_capture(owner)


def _keep_record(context: JobContext, record: logging.LogRecord) -> None:
    """Raises nothing but a stop. Records that are written while this one is formatted or handled are not kept."""
    try:
        if not _is_own(record) and (log := context._execution_log).admits():
            log.add(record.levelno, rendered(record.msg, record.args, record.exc_info), record.name)
    except ExecutionCancelled:
        raise
    except BaseException:
        return


def _keep_warning(context: JobContext, message: Any, category: Any, filename: Any, lineno: Any) -> None:
    try:
        if (log := context._execution_log).admits():
            log.add(logging.WARNING, f"{category.__name__}: {message} ({filename}:{lineno})", WARNINGS_LOGGER)
    except ExecutionCancelled:
        raise
    except BaseException:
        return


def _is_own(record: logging.LogRecord) -> bool:
    """Mainspring's own lines, such as job_start. The application may have given them another logger."""
    return record.name == OWN_LOGGER or record.name.startswith(_OWN_LOGGERS) or record.pathname.startswith(_OWN_FILES)
