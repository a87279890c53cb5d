"""Logging for a process that Mainspring runs as a whole, if the application has set up none. Imports never do this."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .background import BackgroundHandler
from .context import ExecutionFields
from .formats import ConsoleFormatter, JsonFormatter

DRIVERS = ("psycopg", "pymongo", "redis")
"""They log each failed try to connect; Mainspring logs the outage once."""


def already_configured() -> bool:
    """Whether the application has set up its own logging."""
    return bool(logging.getLogger().handlers or logging.getLogger("mainspring").handlers)


def configure_logging(log_format: str, level: str, process: int | None = None) -> None:
    """Write log lines to standard error, `json` for programs or `console` for people, in place of the handlers that
    the root logger has. `process` numbers one of several processes that share the stream."""
    formatter = JsonFormatter(process) if log_format == "json" else ConsoleFormatter(is_coloured(), process)
    write_to_stderr(logging.getLogger(), formatter, level)


@contextmanager
def lines_shown(log_format: str, level: str) -> Iterator[None]:
    """In a process that a web server runs. Servers such as uvicorn set up their own loggers, but neither ours nor the
    root logger, so that our lines would not be seen. Handlers that the application adds to the root logger, now or
    later, get the lines instead."""
    if already_configured():
        yield
        return
    logger, handler = logging.getLogger("mainspring"), BackgroundHandler()
    handler.setFormatter(JsonFormatter() if log_format == "json" else ConsoleFormatter(is_coloured()))
    handler.addFilter(lambda _: not logging.getLogger().handlers)
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(before or level)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
        handler.close()


def log_at_once(level: str) -> None:
    """As on a console, but each line is written before the code goes on, so that it stands before the prompt of a
    debugger."""
    handler = logging.StreamHandler()
    handler.addFilter(ExecutionFields())
    write_to_stderr(logging.getLogger(), ConsoleFormatter(is_coloured()), level, handler=handler)


def write_to_stderr(
    logger: logging.Logger,
    formatter: logging.Formatter,
    level: str,
    shown: Callable[[logging.LogRecord], bool] | None = None,
    handler: logging.Handler | None = None,
) -> None:
    """In place of the handlers that this logger has; only records that are `shown`, if that is given."""
    handler = handler or BackgroundHandler()
    handler.setFormatter(formatter)
    if shown is not None:
        handler.addFilter(shown)
    for each in list(logger.handlers):
        logger.removeHandler(each)
        each.close()
    logger.addHandler(handler)
    logger.setLevel(logging.INFO if level == "DEBUG" else level)
    logging.getLogger("mainspring").setLevel(level)
    for name in DRIVERS:
        logging.getLogger(name).setLevel(logging.ERROR)


def is_coloured() -> bool:
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
