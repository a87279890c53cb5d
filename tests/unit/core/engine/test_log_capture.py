"""What goes from `logging` and `warnings` into the log of an execution, and what the capture leaves alone."""

from __future__ import annotations

import json
import logging
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mainspring.core.declaring.context import RunningContext, running_in
from mainspring.core.declaring.execution_log import BURST_LINES
from mainspring.core.engine.log_capture import capturing, start_capture, stop_capture
from mainspring.model.errors import ExecutionCancelled
from mainspring.model.events import Started
from mainspring.model.execution import ExecutionRow
from mainspring.observe.logs.lines import LogLines
from mainspring.processes.child_output import ChildOutput, Forwarder
from mainspring.testing.clock import FakeClock

pytestmark = pytest.mark.req("EXE-11")


class Owner:
    """Asks for the capture."""


def context(**options: Any) -> RunningContext:
    return RunningContext(ExecutionRow(id="e1", job="crawl", job_id="j1", handler="crawl"), FakeClock(), **options)


def lines(ctx: RunningContext) -> list[tuple[str, str, str]]:
    drained = ctx.drain()
    return [(line.level, line.logger, line.message) for line in drained[2]] if drained else []


@pytest.fixture
def ctx() -> Iterator[RunningContext]:
    found, owner = context(), Owner()
    with capturing(owner), running_in(found):
        yield found


@pytest.fixture
def shop() -> Iterator[logging.Logger]:
    logger = logging.getLogger("shop.orders")
    logger.setLevel(logging.INFO)
    yield logger
    logger.setLevel(logging.NOTSET)
    logger.propagate = True
    logger.filters.clear()


def test_any_logger_from_its_own_level_up(ctx: RunningContext, shop: logging.Logger) -> None:
    shop.debug("below the level of this logger")
    shop.info("order %d", 7)
    logging.getLogger("shop").warning("below none")
    logging.getLogger().error("the root logger")
    shop.propagate = False
    shop.log(33, "a level without a name, on a logger that does not propagate")
    assert lines(ctx) == [
        ("INFO", "shop.orders", "order 7"),
        ("WARNING", "shop", "below none"),
        ("ERROR", "root", "the root logger"),
        ("Level 33", "shop.orders", "a level without a name, on a logger that does not propagate"),
    ]


def test_filters_of_the_logger_decide_first(ctx: RunningContext, shop: logging.Logger) -> None:
    """An application may hide its secrets in one."""

    def hide(record: logging.LogRecord) -> bool:
        record.msg = str(record.msg).replace("s3cret", "***")
        return "never" not in str(record.msg)

    shop.addFilter(hide)
    shop.info("never")
    shop.info("the key is s3cret")
    assert lines(ctx) == [("INFO", "shop.orders", "the key is ***")]


def test_tracebacks_and_wrong_formats(ctx: RunningContext, shop: logging.Logger, monkeypatch: Any) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    try:
        raise RuntimeError("the cause")
    except RuntimeError:
        shop.exception("failed")
    shop.info("%d pages", "three")
    [(level, _, failed), (_, _, wrong)] = lines(ctx)
    assert (level, failed.startswith("failed\nTraceback"), "RuntimeError: the cause" in failed) == ("ERROR", True, True)
    assert wrong == '%d pages ["three"]'


@pytest.mark.parametrize("name", [None, "shop.orders"])
def test_lines_of_the_context_are_kept_once(name: str | None) -> None:
    found, owner = context(logger=logging.getLogger(name) if name else None), Owner()
    with capturing(owner), running_in(found):
        found.logger.warning("once")
    assert lines(found) == [("WARNING", name or "mainspring.job", "once")]


def test_a_flood_costs_nothing_but_a_count(ctx: RunningContext, shop: logging.Logger) -> None:
    """A line without room is not formatted, and the log is not searched or copied: neighbours hardly notice."""
    formatted = 0

    class Value:
        def __str__(self) -> str:
            nonlocal formatted
            formatted += 1
            return "value"

    shop.propagate = False
    for _ in range(100_000):
        shop.info("%s", Value())
    drained = ctx.drain(last=True)
    assert drained is not None
    own = [line for line in drained[2] if line.logger == "mainspring"]
    assert formatted == len(drained[2]) - len(own) == BURST_LINES
    assert json.loads(drained[1] or "") == {"logs_dropped": 100_000 - BURST_LINES}
    assert [line.message.partition(":")[0] for line in own] == ["99,000 lines were not kept"]


def test_mainsprings_own_lines_are_no_lines_of_the_execution(ctx: RunningContext, shop: logging.Logger) -> None:
    shop.setLevel(logging.DEBUG)
    for logger in (None, shop):
        LogLines(logger)(Started(ExecutionRow(id="e1", job="crawl", job_id="j1", handler="crawl"), 0))
    logging.getLogger("mainspring.anything").error("internal")
    assert lines(ctx) == []


def test_a_record_written_while_another_is_formatted_is_not_kept(ctx: RunningContext, shop: logging.Logger) -> None:
    class Chatty:
        def __str__(self) -> str:
            shop.info("from inside %s", self.__class__.__name__)
            return "chatty"

    shop.info("%s", Chatty())
    assert lines(ctx) == [("INFO", "shop.orders", "chatty")]


def test_nothing_is_captured_outside_of_executions_nor_in_bare_threads(shop: logging.Logger) -> None:
    found, owner = context(), Owner()
    with capturing(owner):
        shop.warning("no execution here")
        with running_in(found):
            thread = threading.Thread(target=shop.warning, args=("a thread of its own",))
            thread.start()
            thread.join()
    with running_in(found):
        shop.warning("nobody captures any more")
    assert lines(found) == []


def test_warnings_are_kept_and_shown_as_before(ctx: RunningContext) -> None:
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        stop_and_start = Owner()
        with capturing(stop_and_start):
            warnings.warn("old call", DeprecationWarning, stacklevel=1)
    assert lines(ctx) == []  # `catch_warnings` has put itself in front
    assert [str(each.message) for each in shown] == ["old call"]


def test_warnings_reach_the_execution_and_whoever_showed_them_before(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr(warnings, "showwarning", lambda message, *rest, **more: shown.append(str(message)))
    before = warnings.showwarning
    found, owner = context(), Owner()
    with warnings.catch_warnings(), capturing(owner):
        warnings.simplefilter("always")
        with running_in(found):
            warnings.warn("old call", DeprecationWarning, stacklevel=1)
        warnings.warn("elsewhere", UserWarning, stacklevel=1)
    [(level, logger, message)] = lines(found)
    assert (level, logger) == ("WARNING", "py.warnings")
    assert message.startswith("DeprecationWarning: old call (")
    assert shown == ["old call", "elsewhere"]
    assert warnings.showwarning is before


def test_warnings_that_logging_captures_are_kept_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found, owner = context(), Owner()
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    logging.captureWarnings(True)
    try:
        with warnings.catch_warnings(), capturing(owner), running_in(found):
            warnings.simplefilter("always")
            warnings.warn("old call", UserWarning, stacklevel=1)
    finally:
        logging.captureWarnings(False)
    assert len(lines(found)) == 1


def test_logging_is_as_before_when_the_last_owner_has_left() -> None:
    before = logging.Logger.callHandlers, warnings.showwarning
    first, second = Owner(), Owner()
    start_capture(first)
    start_capture(second)
    stop_capture(first)
    stop_capture(first)
    assert logging.Logger.callHandlers is not before[0]
    stop_capture(second)
    assert (logging.Logger.callHandlers, warnings.showwarning) == before


def test_code_that_wraps_logging_in_turn_stays_in_place(monkeypatch: pytest.MonkeyPatch, shop: logging.Logger) -> None:
    seen: list[str] = []
    monkeypatch.setattr(logging.Logger, "callHandlers", logging.Logger.callHandlers)  # undone at the end
    found, owner = context(), Owner()
    start_capture(owner)
    inner = logging.Logger.callHandlers

    def outer(logger: logging.Logger, record: logging.LogRecord) -> None:
        seen.append(record.getMessage())
        inner(logger, record)

    logging.Logger.callHandlers = outer  # type: ignore[assignment, method-assign]
    stop_capture(owner)
    with running_in(found):
        shop.info("between")
    assert (seen, lines(found)) == (["between"], [])
    with capturing(owner), running_in(found):
        shop.info("again")
    assert (seen, lines(found)) == (["between", "again"], [("INFO", "shop.orders", "again")])
    assert logging.Logger.callHandlers is outer


def test_an_application_without_logging_keeps_its_last_resort(
    ctx: RunningContext, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    monkeypatch.setattr(logging, "lastResort", logging._StderrHandler(logging.WARNING))  # type: ignore[attr-defined]
    logging.getLogger("shop").warning("seen")
    assert capsys.readouterr().err == "seen\n"
    assert lines(ctx) == [("WARNING", "shop", "seen")]


class StoppedHere:
    """Stands for a signal that stops the handler while a line is formatted."""

    def __str__(self) -> str:
        raise ExecutionCancelled("timeout after 5 s")


@pytest.mark.req("EXE-9")
@pytest.mark.parametrize(
    "write",
    [
        lambda ctx, logger: logger.warning("%s", StoppedHere()),
        lambda ctx, logger: logger.warning(StoppedHere()),
        lambda ctx, logger: warnings.showwarning(StoppedHere(), UserWarning, "orders.py", 1),
        lambda ctx, logger: ctx.logger.info("%s", StoppedHere()),
        lambda ctx, logger: ctx.progress(1, 2, StoppedHere()),
        lambda ctx, logger: ctx.keep_line(logging.INFO, StoppedHere(), "stdout"),
        lambda ctx, logger: Forwarder(ChildOutput()).emit(logging.makeLogRecord({"msg": StoppedHere()})),
    ],
)
def test_a_stop_that_comes_while_a_line_is_written_is_not_lost(
    write: Callable[[RunningContext, logging.Logger], None], ctx: RunningContext, shop: logging.Logger
) -> None:
    """It comes once: swallowed here, it would leave only SIGKILL."""
    with pytest.raises(ExecutionCancelled):
        write(ctx, shop)
    shop.warning("the capture goes on")
    assert lines(ctx)[-1][2] == "the capture goes on"
