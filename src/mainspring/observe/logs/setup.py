"""Log lines made visible for a process that Mainspring runs as a whole, if the application set up no logging."""

from __future__ import annotations

import logging
import os
import sys

from .background import BackgroundHandler
from .formats import ConsoleFormatter, JsonFormatter


def show_logs(log_format: str, level: str) -> None:
    """To standard error, unless somebody has configured logging already."""
    root, ours = logging.getLogger(), logging.getLogger("mainspring")
    if root.handlers or ours.handlers:
        return
    handler = BackgroundHandler()
    handler.setFormatter(JsonFormatter() if log_format == "json" else ConsoleFormatter(coloured()))
    root.addHandler(handler)
    root.setLevel(logging.INFO if level == "DEBUG" else level)
    ours.setLevel(level)


def coloured() -> bool:
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
