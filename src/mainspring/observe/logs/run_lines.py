"""Log lines of `mainspring dev`: one for each run, with the address of its page in the dashboard."""

from __future__ import annotations

import logging
from typing import Any

from ...model.values.ids import ENDING
from ...model.values.terminal_text import one_line
from .formats import ConsoleFormatter, first_line
from .setup import already_configured, is_coloured, write_to_stderr

ENDINGS = frozenset({"job_end", "job_failed", "job_retry", "job_snoozed", "job_handed_back", "job_skipped"})
HIDDEN = frozenset({"job_start", "running", "stopping", "stopped"})
"""Lines of no interest while one develops, unless they are warnings."""
INDENT = 9
_STATE_COLOURS = {"completed": "32", "failed": "31", "partial": "33"}


def configure_run_lines(dashboard: str, level: str) -> None:
    """Log to standard error. An application that has set up logging keeps it for its own lines."""
    logger = logging.getLogger("mainspring" if already_configured() else None)
    write_to_stderr(logger, RunLineFormatter(dashboard, is_coloured()), level, _is_shown)
    logger.propagate = False


def _is_shown(record: logging.LogRecord) -> bool:
    dull = getattr(record, "event", None) in HIDDEN or record.name == "mainspring.server"
    return not dull or record.levelno != logging.INFO


class RunLineFormatter(ConsoleFormatter):
    """`dashboard` is the address of the dashboard."""

    def __init__(self, dashboard: str, colour: bool = False) -> None:
        super().__init__(colour, indent=INDENT)
        self._dashboard = dashboard

    def formatMessage(self, record: logging.LogRecord) -> str:
        moment = self.dim(self.formatTime(record, "%H:%M:%S"))
        if getattr(record, "event", None) in ENDINGS and hasattr(record, "execution_id"):
            return f"{moment} {self._run_line(record)}"
        level = "" if record.levelno == logging.INFO else self.level(record.levelname)
        return f"{moment} {level}{self.text(record)}"

    def event(self, name: str) -> str:
        return self.bold(name.replace("_", " ")) + ":"

    def _run_line(self, record: Any) -> str:
        """The job, how it ended, where to look at it; an error or reason without a traceback below."""
        fields: dict[str, Any] = record.__dict__
        tenant = f" for {one_line(fields['tenant'])}" if fields.get("tenant") else ""
        line = f"{self.bold(one_line(record.job))}{tenant} {self._ending(fields)}"
        line += f"  {self._dashboard}/executions/{one_line(record.execution_id[-ENDING:])}"
        why = None if record.exc_text else fields.get("error") or self._why(fields)
        return line if why is None else f"{line}\n{' ' * INDENT}{first_line(str(why))}"

    def _ending(self, fields: dict[str, Any]) -> str:
        took = _took(fields.get("duration_ms"))
        match fields["event"]:
            case "job_retry":
                return f"{self._state('failed')}, again in {fields.get('retry_in') or 0:.3g} s"
            case "job_failed":
                return f"{self._state('failed')}{took}"
            case "job_snoozed":
                return f"snoozed, again in {fields.get('retry_in') or 0:.3g} s"
            case "job_handed_back":
                return "handed back"
            case "job_skipped":
                return f"skipped ({one_line(fields.get('reason'))})"
            case _:
                return f"{self._state(fields['state'])}{took}"

    def _why(self, fields: dict[str, Any]) -> str | None:
        """The reason of an ending that has no error, such as a cancel."""
        return fields.get("reason") if fields["event"] == "job_end" else None

    def _state(self, name: str) -> str:
        return self.coloured(one_line(name), _STATE_COLOURS.get(name, "0"))


def _took(duration_ms: float | None) -> str:
    if duration_ms is None:
        return ""
    return f" in {duration_ms:.0f} ms" if duration_ms < 1000 else f" in {duration_ms / 1000:.1f} s"
