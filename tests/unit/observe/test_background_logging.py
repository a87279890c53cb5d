"""Log lines in the background: nothing waits for whoever should read them, and every line says whose it is."""

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

from mainspring.app.parts import SystemClock
from mainspring.core.declaring.context import JobContext
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
        handler = json_handler(writer, room=1_000)
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


@pytest.mark.req("OBS-1")
@pytest.mark.parametrize("execution", [RUN, TENANT])
def test_lines_rendered_without_a_record_read_as_any_other(execution: ExecutionRow) -> None:
    quick, slow = io.StringIO(), io.StringIO()
    handlers = [json_handler(quick), json_handler(slow)]
    handlers[1].addFilter(ExecutionFields())  # somebody looks at records: they are made
    for handler in handlers:
        with logger_to(handler) as logger:
            lines = LogLines(logger)
            lines(Started(execution, 0))
            lines(AttemptEnded(execution=execution, attempt=execution.attempt, **COMPLETED))
    parsed = [[json.loads(line) for line in stream.getvalue().splitlines()] for stream in (quick, slow)]
    assert [list(line) for line in parsed[0]] == [list(line) for line in parsed[1]]
    for line in (*parsed[0], *parsed[1]):
        assert len(line.pop("time")) == len("2026-01-01T00:00:00.000+00:00")
    assert parsed[0] == parsed[1]
    assert [line["event"] for line in parsed[0]] == ["job_start", "job_end"]


@pytest.mark.req("OBS-1")
@pytest.mark.parametrize("execution", [RUN, TENANT])
@pytest.mark.parametrize("duration", [12.34567, 0.0, 123_456_789.0004])
@pytest.mark.parametrize("form", [{}, {"colour": True}, {"process": 3}])
@pytest.mark.parametrize("name", ["mainspring", "mainspring.other", "mainsprings", "billing"])
def test_console_lines_rendered_without_a_record_read_as_any_other(
    execution: ExecutionRow, duration: float, form: dict[str, Any], name: str
) -> None:
    said = []
    for filters in ([], [ExecutionFields()]):  # somebody looks at records: they are made
        stream = io.StringIO()
        handler = BackgroundHandler(stream)
        handler.setFormatter(ConsoleFormatter(**form))
        for each in filters:
            handler.addFilter(each)
        with logger_to(handler) as logger:
            logger.name = name
            lines = LogLines(logger)
            lines(Started(execution, 0))
            lines(AttemptEnded(execution=execution, attempt=execution.attempt, **COMPLETED | {"duration_ms": duration}))
        said.append([re.sub(r"\d\d:\d\d:\d\d\.\d\d\d", "TIME", line) for line in stream.getvalue().splitlines()])
    assert said[0] == said[1]
    assert [line.count("TIME") for line in said[0]] == [1, 1]
    assert "job_start" in said[0][0]
    assert "state=completed" in said[0][1]


@pytest.mark.req("OBS-1", "OBS-8")
def test_whoever_listens_beside_gets_records() -> None:
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
        with JobContext(TENANT, clock=SystemClock()).here():
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
        assert [("e2" in line, "no id" in line) for line in lines] == [
            (False, False),
            *[(True, True)] * 3,
            (False,) * 2,
        ]


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
    with JobContext(RUN, clock=SystemClock()).here():
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


def test_many_events_make_the_lines_that_each_would_make_alone() -> None:
    both = [RUN, TENANT, RUN]
    for events in ([Started(each, 0) for each in both], [AttemptEnded(each, attempt=1, **COMPLETED) for each in both]):
        for formatter in (JsonFormatter(), ConsoleFormatter()):
            together, alone = io.StringIO(), io.StringIO()
            for stream, many in ((together, True), (alone, False)):
                handler = BackgroundHandler(stream)
                handler.setFormatter(formatter)
                with logger_to(handler) as logger:
                    lines = LogLines(logger)
                    if many:
                        lines.hear_all(events)
                    else:
                        for event in events:
                            lines(event)
            texts = [re.sub(r"\d\d:\d\d:\d\d\.\d+", "", stream.getvalue()) for stream in (together, alone)]
            assert texts[0] == texts[1]
            assert texts[0].count("\n") == 3


def test_of_many_lines_those_that_fit_are_written_and_the_others_counted() -> None:
    stream = io.StringIO()
    handler = json_handler(stream, room=2)
    with logger_to(handler) as logger:
        LogLines(logger).hear_all([Started(RUN, 0)] * 5)
        handler.flush()
    events = [json.loads(line)["event"] for line in stream.getvalue().splitlines()]
    assert sorted(events) == ["job_start", "job_start", "log_lines_dropped"]
    assert '"dropped": 3' in stream.getvalue()
