"""Nothing that others wrote steers a terminal: console logs, lines of `mainspring dev`, cells and errors of the CLI."""

from __future__ import annotations

import json
import logging

import pytest

from mainspring.cli.screens.output import cell
from mainspring.model.values.terminal_text import on_terminal
from mainspring.observe.logs.formats import ConsoleFormatter, EventText, JsonFormatter
from mainspring.observe.logs.run_lines import RunLineFormatter

pytestmark = pytest.mark.req("SEC-2")
STEERING = [
    *("\x1b", "\r", "\x00", "\x07", "\x08", "\x7f", "\x85", "\x9b", "\x9d", "\u2028", "\u200e", "\u200f", "\u061c"),
    *map(chr, range(0x202A, 0x202F)),
    *map(chr, range(0x2066, 0x206A)),
]
FORMATTERS = (ConsoleFormatter(), ConsoleFormatter(process=1), RunLineFormatter("http://localhost/dashboard"))


def _records(hostile: str) -> list[logging.LogRecord]:
    event = {"event": "job_failed", "job": "report", "tenant": hostile, "execution_id": "0" * 36, "error": hostile}
    line = {"job": hostile, "tenant": hostile, "execution_id": "0" * 36}
    return [
        logging.makeLogRecord({"name": "app", "msg": hostile, "levelname": "INFO", **line}),
        logging.makeLogRecord({"name": hostile, "msg": "%s", "args": (hostile,), "levelname": "INFO"}),
        logging.makeLogRecord({"name": "mainspring", "msg": EventText("job_failed", event), **event}),
        logging.makeLogRecord(
            {"name": "mainspring", "msg": EventText("ping_failed", {"answer": hostile}), "event": "x"}
        ),
        logging.makeLogRecord({"name": "app", "msg": "x", "levelname": hostile}),
        logging.makeLogRecord({"name": "app", "msg": "x", "execution_id": hostile}),
        logging.makeLogRecord({"name": "mainspring.app", "msg": "x", "event": hostile}),
        *(
            logging.makeLogRecord({"name": "app", "msg": hostile, "event": ending, **dict.fromkeys(_RUN, hostile)})
            for ending in ("job_end", "job_failed", "job_skipped")
        ),
        logging.makeLogRecord({"name": "app", "msg": "x", "stack_info": hostile}),
        logging.makeLogRecord({"name": "app", "msg": "x", "exc_text": hostile}),
        *(logging.makeLogRecord({"name": "app", "msg": "x", "exc_info": _raised(each)}) for each in _errors(hostile)),
    ]


_RUN = ("job", "tenant", "execution_id", "state", "reason", "error")


def _errors(hostile: str) -> list[BaseException]:
    noted, caused = ValueError("x"), ValueError("x")
    noted.add_note(hostile)
    caused.__cause__ = KeyError(hostile)
    named = type(hostile.replace("\0", ""), (Exception,), {})("forged")
    return [ValueError(hostile), noted, caused, named, ExceptionGroup(hostile, [OSError(hostile)])]


def _raised(error: BaseException) -> tuple[type[BaseException], BaseException, None]:
    return type(error), error, None


@pytest.mark.parametrize("char", STEERING, ids=ascii)
def test_no_formatter_passes_it_on(char: str) -> None:
    hostile = f"safe{char}[2Jforged"
    written = [formatter.format(record) for formatter in FORMATTERS for record in _records(hostile)]
    written += [cell(hostile).plain, on_terminal(hostile)]
    assert not [line for line in written if char in line]
    assert all("forged" in line for line in written)


@pytest.mark.parametrize("formatter", FORMATTERS)
def test_a_message_cannot_forge_a_line(formatter: logging.Formatter) -> None:
    record = logging.makeLogRecord({"name": "app", "msg": "done\n12:00:00.000 INFO     paid", "levelname": "INFO"})
    assert "\n" not in formatter.format(record)


@pytest.mark.parametrize("formatter", FORMATTERS)
def test_nothing_else_of_a_record_can_either(formatter: logging.Formatter) -> None:
    """What takes several lines, such as a traceback, is indented below the line that it belongs to."""
    for record in _records("done\n12:00:00.000 INFO     forged"):
        further = formatter.format(record).split("\n")[1:]
        assert all(line.startswith("    ") for line in further if line), (record.__dict__, further)


def test_an_escape_sequence_cannot_be_split_over_two_records() -> None:
    written = [
        ConsoleFormatter().format(logging.makeLogRecord({"name": "app", "msg": part}))
        for part in ("\x1b]0;", "owned\x07")
    ]
    assert all(line.isprintable() for line in written)


def test_fields_of_a_handler_do_not_replace_those_of_a_json_line() -> None:
    forged = {"level": "CRITICAL", "logger": "mainspring", "time": "2020-01-01", "job": "report"}
    record = logging.makeLogRecord({"name": "app", "msg": "x", "levelname": "INFO", **forged})
    line = json.loads(JsonFormatter().format(record))
    assert (line["level"], line["logger"], line["job"]) == ("INFO", "app", "report")
    assert line["time"] > "2020-01-01"


def test_a_traceback_stays_as_it_was_for_the_other_handlers() -> None:
    record = logging.makeLogRecord({"name": "app", "msg": "x", "exc_info": _raised(ValueError("\x1b[2J"))})
    ConsoleFormatter().format(record)
    assert json.loads(JsonFormatter().format(record))["traceback"] == "ValueError: \x1b[2J"
    assert ConsoleFormatter().format(record).endswith("\n    ValueError: \\x1b[2J")


@pytest.mark.parametrize("char", STEERING, ids=ascii)
def test_lines_of_mainspring_are_safe_in_any_other_formatter(char: str) -> None:
    """An application that has set up logging itself uses formatters that escape nothing."""
    hostile = f"safe{char}[2J"
    text = EventText("job_failed", {"job": hostile, "error": hostile, "reasons": [hostile]})
    assert str(text).isprintable()


def test_tracebacks_keep_their_lines_only() -> None:
    try:
        raise ValueError("\x1b[2J\u202egnp.exe")
    except ValueError as error:
        record = logging.makeLogRecord(
            {"name": "app", "msg": "x", "exc_info": (ValueError, error, error.__traceback__)}
        )
    text = ConsoleFormatter().format(record)
    assert not {"\x1b", "\u202e"} & set(text)
    assert text.count("\n") > 1
