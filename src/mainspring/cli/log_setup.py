"""Logging of the processes that the command line starts. The library itself never configures logging."""

from __future__ import annotations

import logging
import os
import sys
from logging.config import dictConfig


def configure_logging(log_format: str, level: str, process: int | None = None) -> None:
    """Log lines to standard error: `json` for programs, `console` for people; each with the number of the process,
    where several share it."""
    dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {
                "json": {"()": "mainspring.observe.logs.formats.JsonFormatter", "process": process},
                "console": {
                    "()": "mainspring.observe.logs.formats.ConsoleFormatter",
                    "colour": _coloured(),
                    "process": process,
                },
            },
            "handlers": {
                "stderr": {"()": "mainspring.observe.logs.background.BackgroundHandler", "formatter": log_format}
            },
            "root": {"handlers": ["stderr"], "level": "INFO" if level == "DEBUG" else level},
            "loggers": {"mainspring": {"level": level}},
        }
    )


def already_configured() -> bool:
    """Whether the application set up its own logging when it was imported."""
    return bool(logging.getLogger().handlers or logging.getLogger("mainspring").handlers)


def _coloured() -> bool:
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
