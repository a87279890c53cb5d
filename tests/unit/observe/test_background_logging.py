"""Log lines in the background: a slow reader holds up nothing, and every line names its execution."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from mainspring.app.adapters import SystemClock
from mainspring.core.declaring.context import JobContext, running_in
from mainspring.model.events import AttemptEnded, Started
from mainspring.model.execution import ExecutionRow, State
from mainspring.observe.logs.background import BackgroundHandler
from mainspring.observe.logs.context import ExecutionFields
from mainspring.observe.logs.formats import ConsoleFormatter, JsonFormatter
from mainspring.observe.logs.lines import LogLines
from tests.support import DEADLINE, until_blocking

RUN = ExecutionRow(id="e1", job='cra"wl', job_id="j1", handler="crawl", trigger="schedule", trace_id="t1", failures=1)
TENANT = ExecutionRow(id="e2", job="crawl", job_id="j1", handler="crawl", trace_id="no id", tenant="Ü", failures=0)
COMPLETED = {"state": State.COMPLETED, "duration_ms": 12.34567, "reason": "completed"}


@contextmanager
def logger_to(handler: logging.Handler) -> Iterator[logging.Logger]:
    logger = logging.Logger("mainspring", logging.INFO)
    logger.addHandler(handler)
    try:
        yield logger
    finally:
        handler.close()


def json_handler(stream: Any, **options: Any) -> BackgroundHandler:
    handler = BackgroundHandler(stream, **options)
    handler.setFormatter(JsonFormatter())
    return handler


# --- what nobody reads ---------------------------------------------------------------------------------------


@pytest.mark.req("OBS-7")
def test_a_pipe_that_nobody_reads_holds_up_nobody_and_what_is_dropped_is_told() -> None:
    reading, writing = os.pipe()
    with open(reading, "rb") as reader, open(writing, "w") as writer:
        handler = json_handler(writer, capacity=1_000)
        with logger_to(handler) as logger:
            for number in range(5_000):
                logger.info("%s", "x" * 1_000, extra={"number": number})
            os.set_blocking(reading, False)

            def drained() -> bool:
                data = reader.read() or b""
                collected.extend(data)
                return handler.lines._written.is_set() and not data

            collected = bytearray()
            until_blocking(drained, "the pipe is read to its end")
            handler.flush()
            logger.info("once more")
            until_blocking(lambda: collected.extend(reader.read() or b"") or b"once more" in collected, "it goes on")
    lines = [json.loads(line) for line in collected.decode().splitlines()]
    dropped = sum(line["dropped"] for line in lines if line.get("event") == "log_lines_dropped")
    assert dropped >= 2_000  # the queue, a batch under way and the pipe hold some
    assert dropped + len([line for line in lines if "number" in line]) == 5_000
    assert lines[-1]["message"] == "once more"


@pytest.mark.req("OBS-7")
def test_a_full_disk_is_survived_without_a_word_on_standard_error(capfd: pytest.CaptureFixture[str]) -> None:
    with open("/dev/full", "w") as full, logger_to(handler := json_handler(full)) as logger:
        for _ in range(100):
            logger.error("no room")
        until_blocking(lambda: handler.lines.dropped == 100)
    assert capfd.readouterr() == ("", "")


@pytest.mark.req("OBS-7")
def test_what_cannot_be_formatted_is_counted_and_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    stream = io.StringIO()
    with logger_to(handler := json_handler(stream)) as logger:
        logger.info("%d", "not a number")
        logger.info("fine")
        handler.flush()
    assert [json.loads(line).get("event") for line in stream.getvalue().splitlines()] == ["log_lines_dropped", None]
    assert capfd.readouterr() == ("", "")


@pytest.mark.req("OBS-7")
def test_the_end_of_a_process_waits_only_a_moment_for_a_pipe_that_nobody_reads() -> None:
    reading, writing = os.pipe()
    with open(reading, "rb"), open(writing, "w") as writer:
        handler = json_handler(writer)
        logger = logging.Logger("mainspring", logging.INFO)
        logger.addHandler(handler)
        for _ in range(1_000):
            logger.info("x" * 1_000)
        closing = threading.Thread(target=handler.close)
        closing.start()
        closing.join(DEADLINE)
        assert not closing.is_alive()


def test_a_warning_is_written_at_once_and_lines_keep_their_order() -> None:
    stream = io.StringIO()
    with logger_to(handler := json_handler(stream)) as logger:
        for number in range(100):
            logger.log(logging.WARNING if number % 10 == 9 else logging.INFO, "%d", number)
        handler.flush()
    assert [int(json.loads(line)["message"]) for line in stream.getvalue().splitlines()] == list(range(100))


def test_lines_go_on_in_a_forked_child() -> None:
    reading, writing = os.pipe()
    with open(reading) as reader, open(writing, "w") as writer:
        handler = json_handler(writer)
        with logger_to(handler) as logger:
            logger.info("parent")
            handler.flush()
            child = os.fork()
            if child == 0:
                logger.info("child")
                handler.flush()
                os._exit(0)
            os.waitpid(child, 0)
            assert [json.loads(reader.readline())["message"] for _ in range(2)] == ["parent", "child"]


# --- the lines of every execution ----------------------------------------------------------------------------


def written_by(formatter: logging.Formatter, execution: ExecutionRow) -> list[str]:
    """The two lines of an execution that completes."""
    stream = io.StringIO()
    handler = BackgroundHandler(stream)
    handler.setFormatter(formatter)
    with logger_to(handler) as logger:
        lines = LogLines(logger)
        lines(Started(execution, 0))
        lines(AttemptEnded(execution=execution, attempt=execution.attempt, **COMPLETED))
    return stream.getvalue().splitlines()


@pytest.mark.req("OBS-1")
@pytest.mark.parametrize("execution", [RUN, TENANT])
def test_the_json_lines_of_an_execution(execution: ExecutionRow) -> None:
    started, ended = map(json.loads, written_by(JsonFormatter(), execution))
    assert len(started.pop("time")) == len(ended.pop("time")) == len("2026-01-01T00:00:00.000+00:00")
    assert started == {
        "level": "INFO",
        "logger": "mainspring",
        "event": "job_start",
        "job": execution.job,
        "trigger": execution.trigger,
        "trace_id": execution.trace_id,
        "execution_id": execution.id,
        "attempt": execution.attempt,
        "tenant": execution.tenant,
    }
    assert ended == started | {"event": "job_end", "duration_ms": 12.346, "state": "completed"}


@pytest.mark.req("OBS-1")
@pytest.mark.parametrize(("form", "before"), [({}, ""), ({"process": 3}, "[3] ")])
def test_the_console_lines_of_an_execution(form: dict[str, Any], before: str) -> None:
    lines = [re.sub(r"\d\d:\d\d:\d\d\.\d\d\d", "TIME", line) for line in written_by(ConsoleFormatter(**form), RUN)]
    assert lines == [
        f'TIME INFO     {before}job_start     job="cra\\"wl" trigger=schedule attempt=2 e1',
        f'TIME INFO     {before}job_end       job="cra\\"wl" attempt=2 took=12ms state=completed e1',
    ]


@pytest.mark.req("OBS-1", "OBS-8")
def test_another_handler_of_the_logger_gets_the_same_records() -> None:
    stream, heard = io.StringIO(), list[str]()

    class Beside(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            heard.append(record.getMessage())

    with logger_to(json_handler(stream)) as logger:
        logger.addHandler(Beside())
        LogLines(logger)(Started(TENANT, 0))
    assert heard == ['job_start job=crawl trigger=enqueue attempt=1 tenant="Ü" trace_id="no id" execution_id=e2']
    assert len(stream.getvalue().splitlines()) == 1


# --- the handler's own lines ---------------------------------------------------------------------------------


@pytest.mark.req("OBS-1")
@pytest.mark.parametrize("formatter", [JsonFormatter(), ConsoleFormatter()])
async def test_lines_below_a_handler_carry_its_execution(formatter: logging.Formatter) -> None:
    stream = io.StringIO()
    handler = BackgroundHandler(stream)
    handler.setFormatter(formatter)
    with logger_to(handler):
        library = logging.Logger("library", logging.INFO)
        library.addHandler(handler)
        library.info("before")
        with running_in(JobContext(TENANT, clock=SystemClock())):
            library.info("in a call")
            await asyncio.to_thread(library.info, "in a thread")
            await asyncio.create_task(_log(library))
        library.info("after")
        handler.flush()
    lines = stream.getvalue().splitlines()
    if isinstance(formatter, JsonFormatter):
        whose = [(json.loads(line).get("execution_id"), json.loads(line).get("trace_id")) for line in lines]
        assert whose == [(None, None), *[("e2", "no id")] * 3, (None, None)]
        inside = json.loads(lines[1])
        assert (inside["job"], inside["tenant"], inside["attempt"], inside["message"]) == ("crawl", "Ü", 1, "in a call")
    else:
        assert ["e2" in line for line in lines] == [False, *[True] * 3, False]


async def _log(library: logging.Logger) -> None:
    library.info("in a task")


@pytest.mark.req("OBS-1")
def test_a_handler_of_the_application_has_the_fields_by_a_filter() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(execution_id)s %(message)s", defaults={"execution_id": "-"}))
    handler.addFilter(ExecutionFields())
    library = logging.Logger("library", logging.INFO)
    library.addHandler(handler)
    library.info("outside")
    with running_in(JobContext(RUN, clock=SystemClock())):
        library.info("inside")
        library.info("its own", extra={"job": "mine"})
    assert stream.getvalue() == "- outside\ne1 inside\ne1 its own\n"


def test_a_message_with_an_event_of_the_application_is_kept() -> None:
    stream = io.StringIO()
    with logger_to(handler := json_handler(stream)):
        library = logging.Logger("library", logging.INFO)
        library.addHandler(handler)
        library.info("paid", extra={"event": "payment"})
        handler.flush()
    line = json.loads(stream.getvalue())
    assert (line["message"], line["event"]) == ("paid", "payment")
