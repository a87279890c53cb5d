"""Two formatters for log records of Mainspring and of any other code: JSON lines for programs, text for people.

Name them in a `logging.config.dictConfig`:

    {"formatters": {"json": {"()": "mainspring.observe.logs.formats.JsonFormatter"}}, ...}
"""

from __future__ import annotations

import json
import logging
import re
import textwrap
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from ...model.values.ids import short_id
from ...model.values.terminal_text import on_terminal, one_line

_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName", "color_message"}
INDENT = 36
"""Where the text of an event begins: after the time, the level and the name of the event."""
BELOW = "    "
"""Before each line of a traceback."""
_COLOURS = {"DEBUG": "2", "INFO": "36", "WARNING": "33", "ERROR": "31", "CRITICAL": "1;31"}


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, event or message, and every field the record carries.

    `process` is the number of this process among several that write to one stream.
    """

    def __init__(self, process: int | None = None) -> None:
        super().__init__()
        self.process = process

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _time(record).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
        }
        if self.process is not None:
            line["process"] = self.process
        fields = fields_of(record)
        if "event" not in fields or not record.name.startswith("mainspring"):
            line["message"] = record.getMessage()
        line = line | fields | line  # the order of the first, the values of the last
        if traceback := self._traceback(record):
            line["traceback"] = traceback
        return json.dumps(line, default=str)  # ASCII only: no stream can refuse it

    def _traceback(self, record: logging.LogRecord) -> str | None:
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        return record.exc_text


class ConsoleFormatter(logging.Formatter):
    """Local time, level and message; in colour if `colour` is set, with the number of the `process` if given. A line
    names its execution once, by the end of its id."""

    def __init__(self, colour: bool = False, process: int | None = None, *, indent: int = INDENT) -> None:
        """Further lines of an event begin at `indent`."""
        super().__init__()
        self._colour = colour
        self._process = "" if process is None else f"[{process}] "
        self._indent = " " * (indent + len(self._process))

    def format(self, record: logging.LogRecord) -> str:
        """Every part is escaped, and what takes several lines is indented: no text can pass for another line."""
        record.message = record.getMessage()
        traceback = record.exc_text or (self.formatException(record.exc_info) if record.exc_info else "")
        below = [textwrap.indent(on_terminal(text), BELOW) for text in (traceback, record.stack_info) if text]
        return "\n".join([self.formatMessage(record), *below])

    def formatMessage(self, record: logging.LogRecord) -> str:
        origin = "" if record.name.partition(".")[0] == "mainspring" else f"{one_line(record.name)}: "
        return f"{self.time(_time(record))} {self.level(record.levelname)}{origin}{self.text(record)}"

    def time(self, moment: datetime) -> str:
        return self.dim(moment.astimezone().strftime("%H:%M:%S.%f")[:-3])

    def level(self, name: str) -> str:
        """The level and the number of the process."""
        return f"{self.coloured(f'{one_line(name):<8}', _COLOURS.get(name, '0'))} {self._process}"

    def event(self, name: str) -> str:
        return self.bold(f"{name:<13}")

    def text(self, record: logging.LogRecord) -> str:
        """Mainspring's own lines begin with the event, lines of handlers with their job."""
        event, job = getattr(record, "event", None), getattr(record, "job", None)
        if event is not None and record.name.startswith("mainspring"):
            return f"{self.event(one_line(event))} {on_terminal(self._event_text(record, str(event)))}"
        message = one_line(record.message)
        text = f"{self.bold(one_line(job))}: {message}" if job is not None else message
        execution_id = getattr(record, "execution_id", None)
        if execution_id is None:
            return text
        tenant, attempt = getattr(record, "tenant", None), getattr(record, "attempt", None)
        whose = "" if tenant is None else f"tenant={one_line(tenant)} "
        again = f"attempt={attempt} " if isinstance(attempt, int) and attempt > 1 else ""
        return f"{text} {self.dim(f'{whose}{again}{one_line(short_id(str(execution_id)))}')}"

    def _event_text(self, record: logging.LogRecord, event: str) -> str:
        """Further lines stand below the first."""
        if isinstance(record.msg, EventText):
            text = record.msg.short(traceback_follows=bool(record.exc_text))
        else:
            text = record.message.removeprefix(event).lstrip(": ")
        return text.replace("\n", "\n" + self._indent)

    def dim(self, text: str) -> str:
        return self.coloured(text, "2")

    def bold(self, text: str) -> str:
        return self.coloured(text, "1")

    def coloured(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._colour else text


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """The attributes of a record beyond the standard ones: its `extra`."""
    return {name: value for name, value in record.__dict__.items() if name not in _STANDARD}


def _time(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)


_IDS = ("execution_id", "trace_id")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?([+-]\d\d:\d\d|Z)")
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_BARE = frozenset("…abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:/+-*@,")


class EventText:
    """The text of an event, rendered when a formatter asks for it: the one for programs does not. As text it has every
    field; `short` is what fits a line of a terminal, or `lines` if they are given."""

    __slots__ = ("_fields", "_lines", "_name")

    def __init__(self, name: str, fields: Mapping[str, Any], lines: str | None = None) -> None:
        self._name, self._fields, self._lines = name, fields, lines

    def __str__(self) -> str:
        return message(self._name, self._fields)

    def short(self, *, traceback_follows: bool = False) -> str:
        if self._lines is not None:
            return self._lines
        fields = dict(self._fields)
        execution, error = fields.pop("execution_id", None), fields.pop("error", None)
        if error is not None and fields.get("reason") in ("error", "failed"):
            del fields["reason"]  # the error says it
        words = [f"{name}={plain(value)}" for name, value in _short_fields(fields)]
        if execution is not None:
            words.append(short_id(str(execution)))
        if error is not None and not (execution is not None and traceback_follows):
            words.append(first_line(str(error)))
        return " ".join(words)


def first_line(text: str) -> str:
    line = text.strip().partition("\n")[0]
    return line if line.isprintable() else one_line(json.dumps(line, ensure_ascii=False))


def _short_fields(fields: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The fields that people read in passing; the others are in JSON lines and in the execution itself."""
    hidden = {"trace_id", "settings"}
    if "duration_ms" in fields:
        hidden |= {"trigger"}  # the line of the start has it
    if fields.get("retry_in") is not None:
        hidden |= {"error_group", "duration_ms"}
    if fields.get("attempt") == 1:
        hidden |= {"attempt"}
    shown = {name: value for name, value in fields.items() if name not in hidden}
    return [_short_field(name, value) for name, value in _flat(shown) if value not in (None, (), [])]


def _short_field(name: str, value: Any) -> tuple[str, Any]:
    if name == "duration_ms":
        return "took", f"{value:.0f}ms" if value < 1000 else f"{value / 1000:.1f}s"
    if name == "retry_in":
        return name, f"{value:.3g}s"
    if name == "error_group":
        return "group", value
    if isinstance(value, str):
        value = _local_time(value) if _TIME.fullmatch(value) else short_id(value) if _ID.fullmatch(value) else value
    return name, value


def _local_time(text: str) -> str:
    """In the reader's own zone; the date only if it is not today's."""
    at = datetime.fromisoformat(text).astimezone()
    return f"{at:%H:%M:%S}" if at.date() == datetime.now().astimezone().date() else f"{at:%Y-%m-%dT%H:%M:%S}"


def message(name: str, fields: Mapping[str, Any]) -> str:
    """One line of text: the event and its fields, each as `key=value`, ids last, without empty ones.

    >>> message("job_end", {"job": "crawl", "tenant": None, "error": "no route"})
    'job_end job=crawl error="no route"'
    """
    pairs = sorted(_flat(fields), key=lambda pair: pair[0] in _IDS)
    return " ".join([name, *(f"{key}={plain(value)}" for key, value in pairs if value not in (None, (), []))])


def _flat(fields: Mapping[str, Any]) -> list[tuple[str, Any]]:
    pairs: list[tuple[str, Any]] = []
    for key, value in fields.items():
        pairs += value.items() if isinstance(value, Mapping) else [(key, value)]
    return pairs


def plain(value: Any) -> str:
    if isinstance(value, list | tuple):
        value = ",".join(map(str, value))
    text = f"{value:.10g}" if isinstance(value, float) else str(value)
    return text if text and _BARE.issuperset(text) else one_line(json.dumps(text, ensure_ascii=False))
