"""What a handler finds in its context, and what the worker collects from it."""

from __future__ import annotations

import json
import logging
import threading
from datetime import UTC, datetime
from typing import Any

import pytest

from mainspring.core.declaring.context import (
    MAX_COUNTERS,
    JobContext,
    Resources,
    RunningContext,
)
from mainspring.core.declaring.execution_log import BURST_LINES
from mainspring.model.errors import ExecutionCancelled, InvalidValue, MainspringError
from mainspring.model.execution import ExecutionRow, encode_policy
from mainspring.model.policies import RunPolicy
from mainspring.model.store.messages import LogLine
from mainspring.model.time.instants import to_micros
from mainspring.model.windows import Window
from mainspring.testing.clock import START, FakeClock

pytestmark = pytest.mark.req("EXE-7")

BEGIN, END = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)


def context(clock: FakeClock | None = None, **fields: Any) -> RunningContext:
    options = {key: fields.pop(key) for key in ("resources", "username", "channel", "logger") if key in fields}
    execution = ExecutionRow(**{"id": "e1", "job": "crawl", "job_id": "j1", "handler": "crawl", **fields})
    return RunningContext(execution, clock=clock or FakeClock(), **options)


def lines(ctx: RunningContext) -> list[tuple[str, str]]:
    drained = ctx.drain()
    return [(line.level, line.message) for line in drained[2]] if drained else []


def progress(ctx: RunningContext) -> dict[str, Any]:
    drained = ctx.drain()
    assert drained is not None
    shown: dict[str, Any] = json.loads(drained[0] or "")
    return shown


def test_completion_shows_documented_members_and_nothing_of_the_engine() -> None:
    shown = dir(context())
    assert {"cancel", "drain", "undrain", "began", "trace"} & set(shown) == set()
    assert {"params", "progress", "check", "logger"} <= set(shown)
    assert [name for name in shown if not getattr(JobContext, name).__doc__] == []


def test_it_tells_who_and_why() -> None:
    ctx = context(
        trigger="schedule",
        trace_id="t1",
        traceparent="00-t1-s1-01",
        tick=to_micros(END),
        failures=2,
        tenant="acme",
        params='{"url":"u"}',
    )
    assert (ctx.job, ctx.execution_id, ctx.attempt, ctx.trigger, ctx.triggered_by) == (
        "crawl",
        "e1",
        3,
        "schedule",
        "system",
    )
    assert (ctx.trace_id, ctx.traceparent, ctx.scheduled_at, ctx.tenant) == ("t1", "00-t1-s1-01", END, "acme")
    assert ctx.params == {"url": "u"}
    assert ctx.params is ctx.params
    assert repr(ctx) == "<JobContext crawl e1 attempt 3>"


def test_the_user_is_whoever_asked_else_the_configured_one() -> None:
    assert context().username == "scheduled"
    assert context(username="batch").username == "batch"
    assert context(username="batch", triggered_by="ada").username == "ada"


def test_the_channel_is_the_configured_one_else_the_trigger() -> None:
    assert context(trigger="api").channel == "api"
    assert context(trigger="api", channel="backoffice").channel == "backoffice"


@pytest.mark.req("REL-1")
def test_the_idempotency_key_is_the_same_for_every_attempt() -> None:
    assert context(failures=0).idempotency_key == context(failures=4, token=9).idempotency_key == "e1"


@pytest.mark.req("WIN-3")
def test_the_window_is_half_open_and_may_be_absent() -> None:
    ctx = context(window_begin=to_micros(BEGIN), window_end=to_micros(END))
    assert ctx.window == Window(BEGIN, END)
    assert (ctx.begin_date, ctx.end_date) == (BEGIN, END)
    assert (context().window, context().begin_date, context().end_date, context().scheduled_at) == (None,) * 4


def test_resources_are_found_by_item_and_by_attribute() -> None:
    ctx = context(resources={"db": "pool", "http": "client"})
    assert (ctx.resources.db, ctx.resources["http"], sorted(ctx.resources)) == ("pool", "client", ["db", "http"])
    assert len(context().resources) == 0
    with pytest.raises(AttributeError, match=r"no resource named 'htp'; did you mean 'http'\? \(provided: db, http\)"):
        _ = ctx.resources.htp
    with pytest.raises(KeyError, match="no resource named 'cache'"):
        ctx.resources["cache"]
    assert ctx.resources.get("cache") is None


def test_resources_are_shared_not_copied_once_made() -> None:
    shared = Resources({"db": 1})
    assert context(resources=shared).resources is shared


# ---------------------------------------------------------------- stopping


@pytest.mark.req("EXE-9")
def test_a_plain_function_stops_where_it_looks() -> None:
    ctx = context()
    ctx.check()
    assert not ctx.cancelled
    ctx.cancel("timeout after 5 s")
    ctx.cancel("cancelled by ada")
    assert ctx.cancelled
    with pytest.raises(ExecutionCancelled, match="timeout after 5 s") as raised:
        ctx.check()
    assert isinstance(raised.value, MainspringError)


def test_the_remaining_time_runs_down_to_zero() -> None:
    clock = FakeClock()
    ctx = context(clock, policy=encode_policy(RunPolicy(timeout=10.0)))
    assert ctx.remaining == 10.0
    clock.advance(4)
    clock.jump(3600)  # the wall clock does not count
    assert ctx.remaining == 6.0
    clock.advance(60)
    assert ctx.remaining == 0.0
    assert context().remaining is None


# ---------------------------------------------------------------- reporting back


def test_nothing_reported_is_nothing_to_store() -> None:
    ctx = context()
    assert ctx.drain() is None
    assert (ctx.counters_json(), ctx.metadata_json(), ctx.counters) == (None, None, {})
    assert ctx.metadata == {}
    assert ctx.metadata_json() is None


@pytest.mark.req("EXE-11")
def test_only_the_newest_progress_is_stored_and_only_once() -> None:
    ctx = context()
    ctx.progress(1, 10)
    ctx.progress(5, 10, "half \0way")
    shown = {"done": 5, "total": 10, "message": "half \ufffdway", "percent": 50.0, "updated_at": "2026-01-01T00:00:00Z"}
    assert progress(ctx) == shown
    assert ctx.drain() is None
    ctx.progress(0.5)
    assert progress(ctx) == {"done": 0.5, "updated_at": "2026-01-01T00:00:00Z"}


@pytest.mark.req("EXE-11")
def test_progress_that_could_not_be_stored_is_not_lost_and_newer_progress_wins() -> None:
    ctx = context()
    ctx.progress(1, 10)
    first = ctx.drain()
    assert first is not None
    ctx.undrain(*first)
    assert ctx.drain() == first
    ctx.undrain(*first)
    ctx.progress(2, 10)
    assert progress(ctx)["done"] == 2
    assert ctx.drain() is None


@pytest.mark.req("EXE-11")
def test_progress_has_a_rate_and_the_time_that_is_left() -> None:
    clock = FakeClock()
    ctx = context(clock)
    ctx.progress(100, 1_000)  # work that goes on where an earlier attempt stopped: the rate counts from here
    assert "rate" not in progress(ctx)
    clock.advance(2)
    ctx.progress(120, 1_000)
    assert {"rate": 10.0, "eta_seconds": 88.0, "percent": 12.0}.items() <= progress(ctx).items()


@pytest.mark.req("EXE-6")
def test_counters_add_up_and_are_stored_as_totals() -> None:
    ctx = context()
    ctx.count(items_crawled=25, items_indexed=20)
    assert ctx.drain() == (None, '{"items_crawled":25,"items_indexed":20}', ())
    assert ctx.drain() is None
    ctx.count(items_crawled=5, cost=0.5)
    assert ctx.counters == {"items_crawled": 30, "items_indexed": 20, "cost": 0.5}
    assert ctx.drain() == (None, '{"items_crawled":30,"items_indexed":20,"cost":0.5}', ())
    assert ctx.counters_json() == '{"items_crawled":30,"items_indexed":20,"cost":0.5}'


@pytest.mark.parametrize("amount", ["5", True, None, float("nan"), float("inf"), 10**400, [1]])
def test_only_numbers_count(amount: Any) -> None:
    ctx = context()
    with pytest.raises(InvalidValue, match=r"count\.items: .* is not valid; allowed: a finite number"):
        ctx.count(good=1, items=amount)
    with pytest.raises(InvalidValue, match=r"progress\.done"):
        ctx.progress(amount)
    assert ctx.counters == {}


def test_the_number_of_counters_is_bounded() -> None:
    ctx = context()
    ctx.count(**{f"c{n}": 1 for n in range(MAX_COUNTERS)})
    with pytest.raises(InvalidValue, match="at most 100 different counters"):
        ctx.count(one_more=1)
    ctx.count(c0=1)
    assert ctx.counters["c0"] == 2


@pytest.mark.req("ENQ-6")
def test_metadata_never_blocks_an_ending() -> None:
    ctx = context()
    ctx.metadata["page"] = 7
    assert ctx.metadata_json() == '{"page":7}'
    ctx.metadata["odd"] = ctx.metadata
    ctx.metadata["nul"] = "a\0b"
    stored = json.loads(ctx.metadata_json() or "")
    assert (stored["page"], stored["nul"]) == (7, "a\ufffdb")


def test_threads_lose_no_counts_and_no_lines() -> None:
    ctx, drained = context(), []

    def work() -> None:
        for number in range(200):
            ctx.count(items=1)
            ctx.logger.info("line %s", number)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        drained += lines(ctx)
    drained += lines(ctx)
    assert (ctx.counters, len(drained)) == ({"items": 800}, 800)


# ---------------------------------------------------------------- the log


@pytest.mark.req("EXE-11")
def test_lines_are_kept_with_time_and_level() -> None:
    clock = FakeClock()
    ctx = context(clock)
    ctx.logger.info("saw %d pages", 3)
    clock.advance(1)
    ctx.logger.warning("slow")
    ctx.logger.debug("not kept")
    drained = ctx.drain()
    assert drained is not None
    assert drained[2] == (
        LogLine(START, "INFO", "saw 3 pages", "mainspring.job"),
        LogLine(START + 1_000_000, "WARNING", "slow", "mainspring.job"),
    )
    assert ctx.drain() is None


@pytest.mark.req("OBS-1")
def test_lines_reach_logging_with_the_fields_of_the_execution(caplog: pytest.LogCaptureFixture) -> None:
    ctx = context(trace_id="t1", tenant="acme", trigger="api")
    with caplog.at_level(logging.INFO, logger="mainspring.job"):
        ctx.logger.info("saw %d pages", 3, extra={"pages": 3})
    (record,) = caplog.records
    assert record.getMessage() == "saw 3 pages"
    fields = {
        name: getattr(record, name) for name in ("job", "execution_id", "attempt", "trigger", "trace_id", "tenant")
    }
    assert fields == {
        "job": "crawl",
        "execution_id": "e1",
        "attempt": 1,
        "trigger": "api",
        "trace_id": "t1",
        "tenant": "acme",
    }
    assert record.__dict__["pages"] == 3
    name = "test_lines_reach_logging_with_the_fields_of_the_execution"
    assert (record.filename, record.funcName) == ("test_context.py", name)


@pytest.mark.req("OBS-8")
def test_a_logger_of_ones_own_can_be_passed_in(caplog: pytest.LogCaptureFixture) -> None:
    ctx = context(logger=logging.getLogger("shop"))
    with caplog.at_level(logging.INFO, logger="shop"):
        ctx.logger.error("boom")
    assert [record.name for record in caplog.records] == ["shop"]
    assert ctx.logger is ctx.logger


def test_tracebacks_are_kept_with_the_line() -> None:
    ctx = context()
    try:
        raise RuntimeError("the cause")
    except RuntimeError as error:
        ctx.logger.exception("failed")
        ctx.logger.error("again", exc_info=error)
    for level, message in lines(ctx):
        assert level == "ERROR"
        assert "RuntimeError: the cause" in message


@pytest.mark.req("OBS-7")
def test_a_line_that_cannot_be_written_never_fails_the_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    class Odd:
        def __str__(self) -> str:
            raise RuntimeError("no text")

    monkeypatch.setattr(logging, "raiseExceptions", False)
    quiet = logging.getLogger("quiet")
    quiet.addHandler(logging.NullHandler())
    quiet.propagate = False
    ctx = context(logger=quiet)
    ctx.logger.info("%d pages", "three")
    ctx.logger.info(Odd())
    ctx.logger.info("nul \0")
    assert lines(ctx) == [("INFO", '%d pages ["three"]'), ("INFO", "<Odd> []"), ("INFO", "nul \ufffd")]


@pytest.mark.req("EXE-11")
def test_dropped_lines_are_a_counter_of_the_execution() -> None:
    ctx = context()
    ctx.count(pages=1)
    for number in range(BURST_LINES + 50):
        ctx.logger.info("line %s", number)
    drained = ctx.drain()
    assert drained is not None
    assert (drained[1], len(drained[2])) == ('{"pages":1,"logs_dropped":50}', BURST_LINES)
    ctx.logger.info("one more")
    assert ctx.kept() == ('{"pages":1,"logs_dropped":51}', None)
    last = ctx.drain(last=True)
    assert last is not None
    assert [line.message.partition(":")[0] for line in last[2]] == ["51 lines were not kept"]


@pytest.mark.req("EXE-11")
def test_the_context_of_a_child_process_reports_through_its_parent() -> None:
    child, parent = context(), context()
    child.progress(1, 2)
    child.count(pages=3)
    for number in range(BURST_LINES + 5):
        child.logger.info("line %s", number)
    drained = child.drain(last=True)
    assert drained is not None
    parent.receive(*drained)
    assert parent.drain() == drained
    assert parent.kept() == ('{"pages":3,"logs_dropped":5}', None)
