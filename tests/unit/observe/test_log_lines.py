"""Log lines: which event gives which line, at which level, with which fields."""

from __future__ import annotations

import io
import json
import logging
from typing import Any

import pytest

from mainspring.model.events import (
    AttemptEnded,
    ClockJumped,
    Fenced,
    JobConflict,
    Pruned,
    Recovered,
    Rescued,
    RowEvent,
    Running,
    SkewNoticed,
    Skipped,
    Started,
    Stopped,
    Stopping,
    StoreLost,
    StoreReached,
    Ticked,
    Trouble,
    WaitingForStore,
)
from mainspring.model.execution import ExecutionRow, State
from mainspring.observe.logs.formats import ConsoleFormatter, JsonFormatter, message
from mainspring.observe.logs.lines import LogLines

RUN = ExecutionRow(id="e1", job="crawl", job_id="j1", handler="crawl", trigger="schedule", trace_id="t1", failures=1)


class Records(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


def lines(event: RowEvent, level: int = logging.DEBUG) -> list[logging.LogRecord]:
    logger = logging.Logger("mainspring", level)
    handler = Records()
    logger.addHandler(handler)
    LogLines(logger)(event)
    return handler.records


def one(event: RowEvent) -> Any:
    (record,) = lines(event)
    return record


def ended(state: State, **fields: Any) -> AttemptEnded:
    return AttemptEnded(execution=RUN, state=state, attempt=2, duration_ms=12.34567, **fields)


@pytest.mark.req("OBS-1")
def test_every_line_of_an_execution_names_job_trigger_trace_execution_attempt_and_tenant() -> None:
    events: list[RowEvent] = [
        Started(RUN, 0),
        ended(State.COMPLETED, reason="completed"),
        ended(State.FAILED, error="ValueError: no", reason="failed"),
        ended(State.PENDING, error="ValueError: no", retry_in=4.0, reason="failed"),
        Skipped(RUN, "overlap", "e0"),
        Ticked(RUN, 3.0),
        Rescued(RUN, 31_000.0, State.PENDING),
        Fenced(RUN, "ending"),
    ]
    for record in [record for event in events for record in lines(event)]:
        fields = (record.job, record.trigger, record.trace_id, record.execution_id, record.attempt, record.tenant)
        assert fields == ("crawl", "schedule", "t1", "e1", 2, None)


@pytest.mark.req("OBS-1")
@pytest.mark.parametrize(
    ("event", "level", "name"),
    [
        (Started(RUN, 0), "INFO", "job_start"),
        (ended(State.COMPLETED, reason="completed"), "INFO", "job_end"),
        (ended(State.CANCELLED, reason="by operator"), "INFO", "job_end"),
        (ended(State.PARTIAL, reason="children"), "WARNING", "job_end"),
        (ended(State.FAILED, reason="timeout"), "ERROR", "job_failed"),
        (ended(State.PENDING, reason="failed", retry_in=2.0), "WARNING", "job_retry"),
        (ended(State.PENDING, reason="timeout", retry_in=2.0), "WARNING", "job_retry"),
        (ended(State.PENDING, reason="snoozed", retry_in=2.0), "INFO", "job_snoozed"),
        (ended(State.PENDING, reason="handed_back", retry_in=0.0), "INFO", "job_handed_back"),
        (Skipped(RUN, "overlap"), "WARNING", "job_skipped"),
        (Ticked(RUN, 1.0), "DEBUG", "job_tick"),
        (Rescued(RUN, 1.0, State.CANCELLED), "WARNING", "stale_lock_cleared"),
        (Fenced(RUN, "note"), "WARNING", "write_refused"),
        (Running("w1", ("worker",), {}), "INFO", "running"),
        (Stopping("w1", 2, 30.0), "INFO", "stopping"),
        (Stopped("w1", 0), "INFO", "stopped"),
        (Stopped("w1", 1, 2, 30.0), "WARNING", "stopped"),
        (Trouble("scheduler", "OSError: disk full"), "ERROR", "trouble"),
        (Recovered("scheduler", 12.5), "WARNING", "recovered"),
        (WaitingForStore("postgresql://db/jobs", 60.0, "refused"), "WARNING", "waiting_for_database"),
        (StoreReached("postgresql://db/jobs", 12.5), "INFO", "database_reached"),
        (Pruned(("crawl",)), "WARNING", "jobs_pruned"),
        (JobConflict("crawl", "shop.crawl", "crm", "crm.crawl"), "WARNING", "job_conflict"),
        (SkewNoticed(2.5), "WARNING", "clock_skew"),
        (ClockJumped(-7200.0), "WARNING", "clock_jump"),
    ],
)
def test_levels_and_names(event: RowEvent, level: str, name: str) -> None:
    record = one(event)
    assert (record.levelname, record.event) == (level, name)
    assert record.getMessage().startswith(name)


@pytest.mark.req("OPS-9")
def test_a_lost_store_is_one_line_and_its_traceback_is_for_debugging() -> None:
    lost = StoreLost("worker", "refused", "Traceback ...")
    [line] = lines(lost, logging.INFO)
    assert (line.levelname, line.getMessage(), line.exc_text) == (
        "WARNING",
        "store_lost where=worker error=refused",
        None,
    )
    assert [(each.levelname, each.exc_text) for each in lines(lost)] == [("WARNING", None), ("DEBUG", "Traceback ...")]


@pytest.mark.req("OBS-1")
def test_a_retry_says_when_and_why() -> None:
    record = one(ended(State.PENDING, error="ValueError: no", retry_in=4.0001234, reason="failed"))
    assert (record.retry_in, record.error, record.duration_ms) == (4.0, "ValueError: no", 12.346)
    assert record.getMessage() == (
        "job_retry job=crawl trigger=schedule attempt=2 duration_ms=12.346 "
        'error="ValueError: no" reason=failed retry_in=4 trace_id=t1 execution_id=e1'
    )


@pytest.mark.req("OBS-1", "EXE-8")
def test_a_final_failure_carries_the_traceback_through_any_formatter() -> None:
    record = one(ended(State.FAILED, error="ValueError: no", traceback="Traceback ...\nValueError: no\n"))
    assert logging.Formatter().format(record).endswith("\nTraceback ...\nValueError: no")
    assert ConsoleFormatter().format(record).endswith("\n    Traceback ...\n    ValueError: no")
    assert json.loads(JsonFormatter().format(record))["traceback"] == "Traceback ...\nValueError: no"


@pytest.mark.req("OBS-1", "WRK-4")
def test_a_rescue_is_logged_with_its_age_and_a_final_one_as_a_failure_too() -> None:
    record = lines(Rescued(RUN, 31_000.04, State.PENDING, None, 4.0))[0]
    assert (record.age_ms, record.state) == (31_000.0, "pending")
    assert [line.levelname for line in lines(Rescued(RUN, 1.0, State.FAILED))] == ["WARNING", "ERROR"]
    _, retry = lines(Rescued(RUN, 1.0, State.PENDING, None, 4.0))
    assert (retry.event, retry.levelname, retry.retry_in) == ("job_retry", "WARNING", 4.0)
    _, failed = lines(Rescued(RUN, 1.0, State.FAILED, "crash_loop"))
    assert failed.reason == "crash_loop"


@pytest.mark.req("OBS-1", "WIN-2")
def test_a_gap_of_missed_ticks_says_how_many_and_from_when_to_when() -> None:
    gap = ExecutionRow(
        id="e2", job="crawl", job_id="j1", handler="crawl", metadata_json='{"count": 7, "from": "a", "to": "b"}'
    )
    text = one(Skipped(gap, "missed")).getMessage()
    assert "reason=missed missed_count=7 missed_from=a missed_to=b" in text


@pytest.mark.req("OBS-1", "OPS-8")
def test_the_settings_in_force_are_logged_at_the_start() -> None:
    record = one(
        Running("w1", ("scheduler", "worker"), {"lease": 30.0, "sweep_interval": 0.25, "queues": None, "exclude": ()})
    )
    assert record.settings["lease"] == 30.0
    assert record.getMessage() == "running worker=w1 roles=scheduler,worker lease=30 fold_interval=0.25"


@pytest.mark.req("OBS-1", "WRK-5")
def test_a_stop_says_how_much_runs_and_how_long_it_may_take() -> None:
    record = one(Stopping("w1", 2, 30.0))
    assert (record.worker, record.running, record.seconds) == ("w1", 2, 30.0)
    words = "2 running, up to 30 s; Ctrl-C again stops at once"
    assert record.getMessage() == f"stopping: {words}"
    assert ConsoleFormatter().format(record)[13:] == f"INFO     stopping      {words}"


def test_lines_of_several_processes_carry_their_number() -> None:
    record = one(Started(RUN, 0))
    assert json.loads(JsonFormatter(process=1).format(record))["process"] == 1
    assert ConsoleFormatter(process=1).format(record)[13:].startswith("INFO     [1] job_start ")
    assert "process" not in json.loads(JsonFormatter().format(record))


@pytest.mark.req("OBS-1")
def test_nothing_is_made_for_a_level_that_is_off() -> None:
    class Untouchable(ExecutionRow, frozen=True, kw_only=True):
        @property
        def attempt(self) -> int:
            raise AssertionError("a disabled line reads nothing")

    event = AttemptEnded(
        execution=Untouchable(id="e", job="j", job_id="i", handler="h"), state=State.COMPLETED, attempt=1, duration_ms=1
    )
    assert lines(event, logging.WARNING) == []
    assert len(lines(ended(State.FAILED), logging.WARNING)) == 1


@pytest.mark.req("OBS-1")
def test_json_lines_are_objects_whatever_the_record_holds() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    logger = logging.Logger("shop")
    logger.addHandler(handler)
    logger.info("sold %s", "a book", extra={"price": object(), "buyer": "\ud800 Zoë"})
    try:
        raise KeyError("x")
    except KeyError:
        logger.exception("failed")
    LogLines(logger)(Started(RUN, 0))
    sold, failed, started = (json.loads(line) for line in stream.getvalue().splitlines())
    assert (sold["message"], sold["level"], sold["logger"]) == ("sold a book", "INFO", "shop")
    assert "KeyError: 'x'" in failed["traceback"]
    assert (started["event"], started["job"], started["tenant"]) == ("job_start", "crawl", None)
    assert started["time"].endswith("+00:00")


def test_the_console_line_shows_time_level_event_and_fields() -> None:
    plain = ConsoleFormatter().format(one(Started(RUN, 0)))
    assert plain[13:].startswith("INFO     job_start     job=crawl trigger=schedule")
    handlers_own = logging.makeLogRecord(
        {"name": "mainspring.job", "msg": "page 1", "levelname": "INFO", "job": "crawl"}
    )
    assert ConsoleFormatter().format(handlers_own)[13:] == "INFO     crawl: page 1"
    vars(handlers_own).update(execution_id="e1", trace_id="t1", tenant="acme", attempt=2)
    ids = "tenant=acme attempt=2 e1"
    assert ConsoleFormatter().format(handlers_own)[13:] == f"INFO     crawl: page 1 {ids}"
    coloured = ConsoleFormatter(colour=True).format(one(Started(RUN, 0)))
    assert "\x1b[36mINFO" in coloured


@pytest.mark.req("DEV-2")
def test_ordinary_console_lines_fit_100_columns_and_name_an_execution_once_and_shortly() -> None:
    id, worker = "01a1ef02-d546-8e01-ad42-bc056b60ef7e", "01a1ef02-c1c3-7743-b7db-07a4a0f21a7e"
    run = ExecutionRow(
        id=id, job="send-reminder", job_id=worker, handler="remind", trigger="schedule", trace_id=id.replace("-", "")
    )
    failure = {"error": "ValueError: no", "reason": "error", "error_group": "5f0c8a3b9d21"}
    events: list[RowEvent] = [
        Started(run, 0),
        AttemptEnded(run, State.COMPLETED, 1, 501.091, reason="completed"),
        AttemptEnded(run, State.FAILED, 1, 61_501.0, traceback="Traceback ...\nValueError: no", **failure),
        AttemptEnded(run, State.PENDING, 1, 12.0, retry_in=4.1234, **failure),
    ]
    lines = [ConsoleFormatter().format(one(event)).partition("\n")[0] for event in events]
    assert [line[13:] for line in lines] == [
        "INFO     job_start     job=send-reminder trigger=schedule …bc056b60ef7e",
        "INFO     job_end       job=send-reminder took=501ms state=completed …bc056b60ef7e",
        "ERROR    job_failed    job=send-reminder took=61.5s group=5f0c8a3b9d21 …bc056b60ef7e",
        "WARNING  job_retry     job=send-reminder retry_in=4.12s …bc056b60ef7e ValueError: no",
    ]
    others: list[RowEvent] = [Running(worker, ("scheduler", "worker", "api"), {"lease": 30.0}), Stopped(worker, 0)]
    lines += [ConsoleFormatter().format(one(event)) for event in others]
    assert lines[-2].endswith("running       worker=…07a4a0f21a7e roles=scheduler,worker,api")
    assert max(map(len, lines)) <= 100


def test_text_values_are_quoted_where_a_reader_could_be_misled() -> None:
    fields = {"a": "plain", "b": "two words", "c": 'a "quote"\nnew line', "d": "", "e": None, "f": ["x", "y"]}
    assert message("m", fields) == r'm a=plain b="two words" c="a \"quote\"\nnew line" d="" f=x,y'


def test_without_a_logger_of_its_own_it_writes_to_mainspring_and_configures_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    before = list(logging.getLogger("mainspring").handlers)  # of what ran in this process before
    with caplog.at_level(logging.INFO, logger="mainspring"):
        LogLines()(Started(RUN, 0))
    assert [record.name for record in caplog.records] == ["mainspring"]
    assert logging.getLogger("mainspring").handlers == before
