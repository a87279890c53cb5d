"""The logger of one execution: its lines reach the user's logging set-up and the execution's own log."""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any

from ...model.values.payload import safe_json, safe_text

if TYPE_CHECKING:
    from .context import JobContext

MAX_LINE_LENGTH = 4_096
_formatter = logging.Formatter()


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
        self._context = context

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        kwargs["extra"] = {**(kwargs.get("extra") or {}), **(self.extra or {})}
        return msg, kwargs

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        if level >= self.keep_from:
            self._context._keep_line(level, _rendered(msg, args, kwargs.get("exc_info")))
        kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1  # the caller's line, not this one
        try:
            super().log(level, msg, *args, **kwargs)
        except Exception:
            return  # a logging set-up that fails never fails a handler; the line is in the execution's log


def _rendered(msg: object, args: tuple[object, ...], exc_info: Any) -> str:
    """The line as logging would write it; a wrong format shows its parts instead of failing the handler."""
    try:
        record = logging.LogRecord("", 0, "", 0, msg, args, None)
        text = record.getMessage()
    except Exception:
        text = f"{safe_text(msg, MAX_LINE_LENGTH)} {safe_json(args, MAX_LINE_LENGTH)}"
    if not exc_info:
        return text
    error = exc_info if isinstance(exc_info, BaseException) else None
    info = (type(error), error, error.__traceback__) if error else exc_info if exc_info is not True else sys.exc_info()
    try:
        return f"{text}\n{_formatter.formatException(info)}"
    except Exception:
        return text
