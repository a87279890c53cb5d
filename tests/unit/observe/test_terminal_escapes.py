"""Nothing that others wrote steers a terminal: console logs, lines of `mainspring dev`, cells and errors of the CLI."""

from __future__ import annotations

import logging

import pytest

from mainspring.cli.screens.output import cell
from mainspring.model.values.terminal_text import on_terminal
from mainspring.observe.logs.formats import ConsoleFormatter, EventText
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
    ]


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
