"""What a handler is given, what it may do, and everything that can go wrong in one, through the application object."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
import warnings
from datetime import UTC, datetime, timedelta
from typing import Any
from weakref import WeakSet

import pytest

from mainspring import ExecutionCancelled, JobContext, Mainspring, Retry, Skip, every
from mainspring.core.declaring.context import current_context
from mainspring.core.engine import log_capture
from mainspring.core.monitoring.why import Reason
from mainspring.core.render.entities import execution_json
from mainspring.core.views.execution import row_of
from mainspring.model.events import Overran
from tests.support import DEADLINE, Nodes, Seen, ended, run_once, until

AT_ONCE = Retry(initial=0)


# --- attempts ------------------------------------------------------------------------------------------------


@pytest.mark.req("EXE-5")
async def test_an_attempt_keeps_worker_times_error_traceback_and_cpu(nodes: Nodes) -> None:
    app = nodes.app()

    @app.job("async", max_attempts=1)
    async def on_loop() -> None:
        raise LookupError("no such order")

    @app.job("thread", max_attempts=1)
    def in_thread() -> None:
        end = time.thread_time() + 0.02
        while time.thread_time() < end:
            pass
        raise LookupError("no such order")

    async with app:
        [me] = await app.workers()
        for name, function in (("async", "on_loop"), ("thread", "in_thread")):
            done = await run_once(app, name)
            [attempt] = done.attempts
            assert (attempt.number, attempt.worker, attempt.end) == (1, me.id, "failed")
            assert attempt.error == done.error == "LookupError: no such order"
            first_frame = (attempt.traceback or "").splitlines()[1]
            assert first_frame.endswith(f"in {function}"), "the frames of the engine are not shown"
            assert (attempt.traceback or "").rstrip().endswith("LookupError: no such order")
            assert done.started_at is not None
            assert done.finished_at is not None
            assert done.started_at <= attempt.started_at <= attempt.ended_at == done.finished_at
            assert attempt.memory_mb is None  # never an invented number
            if name == "thread":
                assert attempt.cpu_ms is not None
                assert attempt.cpu_ms >= 20
                assert attempt.duration_ms >= 19
            else:
                assert attempt.cpu_ms is None


# --- what a handler is given ---------------------------------------------------------------------------------


@pytest.mark.req("EXE-6", "EXE-7", "OBS-2")
async def test_the_context_of_enqueued_work(nodes: Nodes) -> None:
    database = object()
    app = nodes.app(resources={"db": database}, username="robot", channel="nightly")
    app.provide("http", "a client")
    seen: dict[str, Any] = {}

    @app.job("look", timeout="1h", params={"url": "x"})
    async def look(ctx: JobContext, url: str, at: datetime) -> None:
        seen.update({name: getattr(ctx, name) for name in FIELDS})
        seen["resources"] = (ctx.resources.db, ctx.resources["http"])
        seen["here"] = current_context.get() is ctx
        seen["at"] = at

    fields = "job execution_id attempt trigger triggered_by trace_id traceparent scheduled_at window tenant username"
    FIELDS = f"{fields} channel params remaining cancelled idempotency_key".split()
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    trace = "0af7651916cd43dd8448eb211c80319c"
    async with app:
        done = await run_once(app, look, {"at": moment}, by="ada", traceparent=f"00-{trace}-b7ad6b7169203331-01")
    assert done.state == "completed", done.error
    assert seen.pop("remaining") > 3_500
    assert seen == {
        "job": "look",
        "execution_id": done.id,
        "attempt": 1,
        "trigger": "enqueue",
        "triggered_by": "ada",
        "trace_id": trace,
        "traceparent": f"00-{trace}-b7ad6b7169203331-01",
        "scheduled_at": None,
        "window": None,
        "tenant": None,
        "username": "ada",
        "channel": "nightly",
        "params": {"url": "x", "at": "2026-01-02T03:04:05Z"},
        "cancelled": False,
        "idempotency_key": done.id,
        "resources": (database, "a client"),
        "here": True,
        "at": moment,
    }


@pytest.mark.req("EXE-6", "EXE-7", "OBS-2")
async def test_the_context_of_a_tick(nodes: Nodes) -> None:
    app = nodes.app()
    seen: list[tuple[Any, ...]] = []

    @app.job("tick", trigger=every(seconds=1), window="previous_hour")
    def tick(ctx: JobContext) -> None:
        assert ctx.window is not None
        seen.append((ctx.trigger, ctx.triggered_by, ctx.username, ctx.channel, ctx.scheduled_at, ctx.window))

    async with app:
        [first, *_] = await until(lambda: app.executions(job="tick", status="completed"))
    assert first.triggered_by == "system"
    assert len(first.trace_id) == 32
    trigger, by, username, channel, scheduled_at, window = seen[0]
    assert (trigger, by, username, channel) == ("schedule", "system", "scheduled", "schedule")
    assert scheduled_at.microsecond == first.scheduled_at.microsecond  # type: ignore[union-attr]
    assert (window.end - window.begin, window.end.minute) == (timedelta(hours=1), 0)
    assert window.end <= scheduled_at < window.end + timedelta(hours=1)
    assert (window.end_inclusive.minute, window.end_inclusive.microsecond) == (59, 999_999)


@pytest.mark.req("EXE-6")
async def test_counters_result_and_metadata_are_kept_also_of_a_failure(nodes: Nodes) -> None:
    app = nodes.app()

    @app.job("crawl", retry=AT_ONCE)
    def crawl(ctx: JobContext) -> dict[str, Any]:
        ctx.count(items_crawled=25, items_indexed=20)
        ctx.count(items_crawled=5)
        ctx.metadata["tries"] = ctx.attempt
        if ctx.attempt == 1:
            raise ValueError("half way")
        return {"pages": [1, 2]}

    async with app:
        done = await run_once(app, crawl)
        assert (done.counters, done.result) == ({"items_crawled": 30, "items_indexed": 20}, {"pages": [1, 2]})
        assert done.metadata == {"tries": 2}

        @app.job("broken", max_attempts=1)
        async def broken(ctx: JobContext) -> None:
            ctx.count(seen=1)
            raise ValueError("no")

        assert (await run_once(app, broken)).counters == {"seen": 1}


@pytest.mark.req("EXE-6", "ENQ-1")
async def test_metadata_of_the_caller_and_of_the_handler_are_both_kept(nodes: Nodes) -> None:
    app = nodes.app()

    @app.job("meta")
    async def meta(ctx: JobContext) -> None:
        ctx.metadata["pages"] = 3

    async with app:
        done = await run_once(app, meta, metadata={"ticket": 42})
        assert done.metadata == {"ticket": 42, "pages": 3}


@pytest.mark.req("EXE-11")
async def test_progress_and_log_lines_are_visible_while_it_runs(nodes: Nodes, caplog: pytest.LogCaptureFixture) -> None:
    app = nodes.app()
    go_on = threading.Event()

    @app.job("long")
    def long(ctx: JobContext) -> None:
        ctx.progress(250, 1_000, "page 25 of 100")
        ctx.count(pages=25)
        ctx.logger.info("reading %s", "page 25")
        ctx.logger.debug("not kept")
        assert go_on.wait(20)
        ctx.progress(1_000, 1_000)
        ctx.logger.warning("done")

    async with app:
        with caplog.at_level(logging.DEBUG, "mainspring.job"):
            execution = await app.enqueue(long)
            assert execution is not None
            live = await until(lambda: _with_progress(app, execution.id))
            assert (live.state, live.counters) == ("running", {"pages": 25})
            assert {"done": 250, "total": 1_000, "message": "page 25 of 100"}.items() <= live.progress.items()
            [(sequence, line)] = await app.logs(execution.id)
            assert (line.level, line.message) == ("INFO", "reading page 25")
            go_on.set()
            done = await ended(app, execution)
        assert {"done": 1_000, "total": 1_000, "percent": 100.0}.items() <= done.progress.items()
        assert [line.message for _, line in await app.logs(done.id, after=sequence)] == ["done"]
        record = next(each for each in caplog.records if each.getMessage() == "reading page 25")
        assert (record.job, record.execution_id) == ("long", done.id)  # type: ignore[attr-defined]


async def _with_progress(app: Mainspring, id: str) -> Any:
    row = await app.get(id)
    return row if row.progress else None


@pytest.mark.req("EXE-11")
async def test_log_lines_are_bounded(nodes: Nodes) -> None:
    app = nodes.app()

    @app.job("chatty")
    def chatty(ctx: JobContext) -> None:
        for number in range(3_000):
            ctx.logger.info("line %d %s", number, "x" * 10_000)

    async with app:
        done = await run_once(app, chatty)
        lines = [line.message for _, line in await app.logs(done.id)]
        assert len(lines) <= 1_000
        assert max(map(len, lines)) <= 4_096
        kept = [text for text in lines if text.startswith("line ")]
        assert (len(kept) + done.logs_dropped, "lines were not kept" in lines[-1]) == (3_000, True)


@pytest.mark.req("EXE-11")
@pytest.mark.filterwarnings("always::RuntimeWarning")
async def test_what_handlers_write_through_logging_and_warnings_is_kept(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plain functions and coroutines side by side: each execution has its own lines and no other's."""
    monkeypatch.setattr(warnings, "showwarning", lambda *_, **__: None)
    monkeypatch.setattr(log_capture, "_owners", WeakSet())  # a worker that another test left behind would keep its own
    monkeypatch.setattr(log_capture, "_capture", None)
    app, shop = nodes.app(concurrency=8), logging.getLogger("shop")
    everyone_has_begun, go_on = threading.Barrier(4, timeout=DEADLINE), asyncio.Event()

    @app.job("plain")
    def plain(name: str) -> None:
        shop.warning("%s begins", name)
        everyone_has_begun.wait()
        warnings.warn(f"{name} warns", RuntimeWarning, stacklevel=1)

    @app.job("coroutine")
    async def coroutine(name: str) -> None:
        shop.warning("%s begins", name)
        await go_on.wait()
        await asyncio.to_thread(shop.error, "%s ends", name)

    async with app:
        names = [f"plain {n}" for n in range(4)] + [f"coroutine {n}" for n in range(4)]
        begun = [await app.enqueue(name.split()[0], {"name": name}) for name in names]
        go_on.set()
        done = [await ended(app, execution) for execution in begun]
        for name, execution in zip(names, done, strict=True):
            assert execution.state == "completed"
            first, last = [line for _, line in await app.logs(execution.id)]
            assert (first.level, first.logger, first.message) == ("WARNING", "shop", f"{name} begins")
            assert execution.started_at is not None
            assert abs(first.at - execution.started_at) < timedelta(minutes=1)
            if name.startswith("plain"):
                assert (last.level, last.logger) == ("WARNING", "py.warnings")
                assert last.message.startswith(f"RuntimeWarning: {name} warns")
            else:
                assert (last.level, last.logger, last.message) == ("ERROR", "shop", f"{name} ends")


# --- whatever a handler raises -------------------------------------------------------------------------------


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")

    __repr__ = __str__


class Worse(BaseException):
    """Not an Exception."""


def recursion(depth: int = 0) -> None:
    recursion(depth + 1)


def raising(kind: str) -> None:
    match kind:
        case "recursion":
            recursion()
        case "group":
            raise ExceptionGroup("both", [ValueError("a"), KeyError("b")])
        case "chained":
            try:
                raise ValueError("first")
            except ValueError as error:
                raise KeyError("second") from error
        case "nul":
            raise ValueError("a\x00b \ud800 " + "x" * 100_000)
        case _:
            raise ERRORS[kind]


ERRORS: dict[str, BaseException | type[BaseException]] = {
    "system exit": SystemExit(3),
    "system exit none": SystemExit,
    "keyboard": KeyboardInterrupt(),
    "memory": MemoryError(),
    "generator exit": GeneratorExit(),
    "unprintable": Unprintable(),
    "base": Worse("below everything"),
    "stop iteration": StopIteration(1),
    "stop async iteration": StopAsyncIteration(),
    "cancelled": asyncio.CancelledError(),
    "timeout": TimeoutError("their own"),
    "asked to stop": ExecutionCancelled("nobody asked"),
    "os exit": OSError(28, "No space left on device"),
}
KINDS = [*ERRORS, "recursion", "group", "chained", "nul"]
LET_OUT_BY_ASYNCIO = {"system exit", "system exit none", "keyboard"}  # of nested tasks: see the test of the run loop
CASES = [(kind, style) for kind in KINDS for style in ("async", "thread")]
CASES += [(kind, "nested") for kind in KINDS if kind not in LET_OUT_BY_ASYNCIO]


@pytest.mark.req("EXE-8")
@pytest.mark.parametrize(("kind", "style"), CASES)
async def test_any_error_is_a_failed_attempt_and_the_worker_goes_on(
    memory_nodes: Nodes, caplog: pytest.LogCaptureFixture, kind: str, style: str
) -> None:
    app = memory_nodes.app(concurrency=1)

    @app.job("thread", max_attempts=1)
    def in_thread() -> None:
        raising(kind)

    @app.job("async", max_attempts=1)
    async def on_loop() -> None:
        await asyncio.sleep(0)
        raising(kind)

    @app.job("nested", max_attempts=1)
    async def nested() -> None:
        async def inner() -> None:
            raising(kind)

        await asyncio.gather(inner(), asyncio.sleep(0))

    @app.job("fine")
    def fine() -> str:
        return "still here"

    async with app:
        failed = await run_once(app, style)
        assert (failed.state, failed.reason, failed.failures) == ("failed", "error", 1)
        [attempt] = failed.attempts
        assert attempt.traceback
        assert attempt.error == failed.error
        assert len(failed.error or "") <= 4_096
        assert (await run_once(app, fine)).result == "still here"
        assert len(await app.workers()) == 1
    records = [record for record in caplog.records if getattr(record, "event", "") == "job_failed"]
    assert [(record.levelname, record.execution_id) for record in records] == [("ERROR", failed.id)]  # type: ignore[attr-defined]


@pytest.mark.req("EXE-8")
@pytest.mark.parametrize("kind", ["system exit", "unprintable", "nul", "recursion"])
async def test_the_same_on_every_store(nodes: Nodes, kind: str) -> None:
    app = nodes.app()

    @app.job("bad", max_attempts=2, retry=AT_ONCE)
    async def bad() -> None:
        raising(kind)

    async with app:
        failed = await run_once(app, bad)
        assert (failed.state, len(failed.attempts)) == ("failed", 2)
        assert (await app.get(failed.id)).error == failed.error
        assert (await app.job_view("bad")).error_message == failed.error


# --- results that cannot be stored ---------------------------------------------------------------------------


class Hostile:
    def __repr__(self) -> str:
        raise SystemExit("from __repr__")


class Mute:
    def __str__(self) -> str:
        raise RuntimeError("from __str__")


def cyclic() -> list[Any]:
    inner: list[Any] = [1]
    inner.append(inner)
    return inner


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"in": value}
    return value


RESULTS: dict[str, tuple[Any, Any]] = {
    "nul": ("a\x00b", "a\ufffdb"),
    "surrogate": ("\ud800x", "\ufffdx"),
    "nan": ({"share": math.nan}, {"share": "nan"}),
    "infinite": ([math.inf, -math.inf], ["inf", "-inf"]),
    "huge integer": (10**5000, None),
    "integer": (2**64, str(2**64)),
    "cycle": (cyclic(), [1, "... contains itself"]),
    "deep": (nested(1_000), None),
    "object": (object(), None),
    "hostile": (Hostile(), None),
    "bytes": (b"\x00\xff", None),
    "set": ({1}, [1]),
    "keys": ({1: "a", None: "b", (1, 2): "c"}, {"1": "a", "None": "b", "(1, 2)": "c"}),
    "datetime": (datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01T00:00:00Z"),
    "function": (raising, None),
    "generator": ((n for n in range(3)), None),
    "exception": (ValueError("returned"), None),
    "large": ("x" * 1_000_000, None),
    "many": (list(range(500_000)), None),
}


@pytest.mark.req("EXE-6", "ENQ-6")
@pytest.mark.parametrize("style", ["async", "thread"])
@pytest.mark.parametrize("kind", RESULTS)
async def test_a_result_that_cannot_be_stored_never_blocks_a_completion(nodes: Nodes, kind: str, style: str) -> None:
    value, expected = RESULTS[kind]
    app = nodes.app()

    @app.job("async")
    async def on_loop(ctx: JobContext) -> Any:
        ctx.metadata["same"] = value
        return value

    @app.job("thread")
    def in_thread(ctx: JobContext) -> Any:
        ctx.metadata["same"] = value
        return value

    async with app:
        done = await run_once(app, style)
        assert (done.state, done.failures) == ("completed", 0)
        assert done.result is not None
        if expected is not None:
            assert done.result == expected
        if kind in ("large", "many"):
            assert done.result["truncated"] is True
            assert len(row_of(done).result_json or "") <= 262_144
            assert len(row_of(done).metadata_json or "") <= 65_536


@pytest.mark.req("ENQ-6", "EXE-11")
async def test_reports_that_cannot_be_stored_never_block_a_completion(nodes: Nodes) -> None:
    app = nodes.app()

    @app.job("odd")
    def odd(ctx: JobContext) -> str:
        ctx.progress(1, 2, "a\x00b\ud800" + "x" * 5_000)
        ctx.logger.info("a\x00b\ud800 %s", "y" * 10_000)
        ctx.logger.info("wrong %d", "format")
        ctx.logger.info(Mute())
        ctx.metadata["\x00"] = Hostile()
        for wrong in (math.nan, "many", None):
            with pytest.raises(ValueError, match=r"count\.n: .* is not valid; allowed: a finite number"):
                ctx.count(n=wrong)  # type: ignore[arg-type]
            with pytest.raises(ValueError, match=r"progress\.done: "):
                ctx.progress(wrong)  # type: ignore[arg-type]
        return "done"

    async with app:
        done = await run_once(app, odd)
        assert (done.state, done.result, done.error) == ("completed", "done", None)
        assert len(await app.logs(done.id)) == 3
        assert done.progress is not None
        assert done.progress["message"].startswith("a\ufffdb\ufffd")


# --- timeout and cancel --------------------------------------------------------------------------------------


@pytest.mark.req("EXE-9")
async def test_a_timeout_stops_an_async_handler(nodes: Nodes) -> None:
    app = nodes.app()
    stopped: list[int] = []

    @app.job("slow", timeout="50ms", max_attempts=2, retry=AT_ONCE)
    async def slow(ctx: JobContext) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(ctx.attempt)

    async with app:
        done = await run_once(app, slow)
    assert (done.state, done.reason, done.failures) == ("failed", "timeout", 2)
    assert [(each.end, each.error) for each in done.attempts] == [("timeout", "timed out after 0.05 s")] * 2
    assert stopped == [1, 2]


@pytest.mark.req("EXE-9")
async def test_a_timeout_stops_a_blocking_handler_that_looks(nodes: Nodes) -> None:
    app = nodes.app()

    @app.job("slow", timeout="50ms", max_attempts=1)
    def slow(ctx: JobContext) -> None:
        while True:
            ctx.check()
            assert ctx.remaining is not None
            time.sleep(0.002)

    async with app:
        done = await run_once(app, slow)
    assert (done.state, done.reason, done.attempts[0].end) == ("failed", "timeout", "timeout")
    assert "ctx.check()" in (done.attempts[0].traceback or "")


@pytest.mark.req("EXE-9")
async def test_a_handlers_own_timeout_error_is_not_the_jobs(nodes: Nodes) -> None:
    app = nodes.app()

    @app.job("fetch", timeout="1h", max_attempts=1)
    async def fetch() -> None:
        async with asyncio.timeout(0.001):
            await asyncio.Event().wait()

    async with app:
        done = await run_once(app, fetch)
    assert (done.state, done.reason, done.error) == ("failed", "error", "TimeoutError")


@pytest.mark.req("EXE-9", "WRK-9")
@pytest.mark.parametrize("style", ["async", "thread"])
async def test_cancelling_what_runs_stops_it_and_keeps_the_reason(nodes: Nodes, style: str) -> None:
    app = nodes.app()
    running, stopped = threading.Event(), threading.Event()

    @app.job("async", overlap="skip")
    async def on_loop(ctx: JobContext) -> None:
        running.set()
        try:
            await asyncio.Event().wait()
        finally:
            assert ctx.cancelled
            stopped.set()

    @app.job("thread", overlap="skip")
    def in_thread(ctx: JobContext) -> None:
        running.set()
        while not ctx.cancelled:
            time.sleep(0.002)
        stopped.set()
        ctx.check()

    async with app:
        execution = await app.enqueue(style)
        await until(running.is_set)
        asked = await app.cancel(execution, by="ada", reason="wrong customer")  # type: ignore[arg-type]
        assert asked.cancel_requested_at is not None  # type: ignore[union-attr]
        done = await ended(app, execution)
        assert (done.state, done.reason, done.failures) == ("cancelled", "wrong customer", 0)
        assert stopped.is_set()
        assert [each.end for each in done.attempts] == ["cancelled"]
        assert await app.enqueue(style, start_at="2100-01-01T00:00:00Z") is not None  # its overlap key is free
        assert [audit.actor for audit in await app.audits(f"execution:{done.id}")] == ["ada"]


@pytest.mark.req("EXE-9")
async def test_cancelling_what_waits_ends_it_at_once(nodes: Nodes) -> None:
    app = nodes.app()
    app.job("j")(lambda: None)
    await app.open()
    execution = await app.enqueue("j")
    assert execution is not None
    done = await app.cancel(execution, by="ada")
    assert (done.state, done.reason, done.attempts) == ("cancelled", "cancelled by ada", [])  # type: ignore[union-attr]
    await app.close()


@pytest.mark.req("EXE-9")
async def test_a_handler_that_finishes_in_spite_of_a_cancel_is_done(nodes: Nodes) -> None:
    app = nodes.app()
    running = asyncio.Event()

    @app.job("stubborn")
    async def stubborn() -> str:
        running.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "saved first"
        return "never"

    async with app:
        execution = await app.enqueue(stubborn)
        await running.wait()
        await app.cancel(execution)  # type: ignore[arg-type]
        done = await ended(app, execution)
        assert (done.state, done.result, done.reason) == ("completed", "saved first", "despite_cancel")
        assert [(each.end, each.overran) for each in done.attempts] == [("completed", "cancel")]


@pytest.mark.req("EXE-15", "EXE-9", "OBS-1")
@pytest.mark.parametrize("style", ["async", "thread"])
@pytest.mark.parametrize("asked_by", ["timeout", "cancel"])
async def test_an_attempt_that_does_not_stop_is_shown_at_once_and_its_completion_says_so(
    nodes: Nodes, caplog: pytest.LogCaptureFixture, style: str, asked_by: str
) -> None:
    seen = Seen()
    app = nodes.app(observers=[seen])
    running, may_end = threading.Event(), threading.Event()
    options: dict[str, Any] = {"timeout": "50ms"} if asked_by == "timeout" else {}

    @app.job("thread", **options)
    def in_thread() -> str:
        running.set()
        may_end.wait(60)
        return "all the same"

    @app.job("async", **options)
    async def on_loop() -> str:
        running.set()
        while not may_end.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue
        return "all the same"

    async with app:
        execution = await app.enqueue(style)
        assert execution is not None
        await until(running.is_set)
        if asked_by == "cancel":
            await app.cancel(execution, reason="wrong customer")
        [overran] = await until(lambda: seen.of(Overran))
        assert (overran.asked_by, overran.execution.id) == (asked_by, execution.id)
        assert (await app.get(execution.id)).state == "running"
        code = {"timeout": "past_timeout", "cancel": "ignores_cancel"}[asked_by]
        [reason] = await until(lambda: reasons_of(app, style, code))
        assert "its handler does not stop" in reason.message
        assert ('isolation="process" would stop it' in reason.message) == (style == "thread")
        [(_, line)] = await until(lambda: app.logs(execution.id))
        assert "still running" in line.message
        record = next(each for each in caplog.records if getattr(each, "event", "") == f"job_{code}")
        assert (record.levelname, record.execution_id) == ("WARNING", execution.id)  # type: ignore[attr-defined]
        may_end.set()
        done = await ended(app, execution)
        reason = {"timeout": "past_timeout", "cancel": "despite_cancel"}[asked_by]
        assert (done.state, done.result, done.reason, done.failures) == ("completed", "all the same", reason, 0)
        assert [(each.end, each.overran) for each in done.attempts] == [("completed", asked_by)]
        shown = execution_json(done)
        assert (shown["reason"], shown["attempts"][0]["overran"]) == (reason, asked_by)
    assert len(seen.of(Overran)) == 1
    last = next(each for each in caplog.records if getattr(each, "event", "") == "job_end")
    assert (last.levelname, last.reason) == ("WARNING", reason)  # type: ignore[attr-defined]


async def reasons_of(app: Mainspring, name: str, code: str) -> list[Reason]:
    return [each for each in (await app.why(name))[1] if each.code == code]


@pytest.mark.req("EXE-15")
@pytest.mark.parametrize("style", ["async", "thread", "class"])
async def test_a_handler_skips_its_own_execution(nodes: Nodes, style: str) -> None:
    app = nodes.app()

    @app.job("async", overlap="skip", max_attempts=3)
    async def on_loop(ctx: JobContext) -> None:
        ctx.count(looked_at=3)
        raise Skip("no orders since yesterday")

    @app.job("thread", overlap="skip", max_attempts=3)
    def in_thread(ctx: JobContext) -> None:
        ctx.count(looked_at=3)
        raise Skip("no orders since yesterday")

    @app.job("class", overlap="skip", max_attempts=3)
    class Performs:
        def perform(self, data: dict[str, Any], ctx: JobContext) -> None:
            ctx.count(looked_at=3)
            raise Skip("no orders since yesterday")

    app.job("wordless")(lambda: (_ for _ in ()).throw(Skip))
    async with app:
        done = await run_once(app, style)
        assert (done.state, done.reason, done.error) == ("skipped", "no orders since yesterday", None)
        assert (done.failures, done.counters, [each.end for each in done.attempts]) == (
            0,
            {"looked_at": 3},
            ["skipped"],
        )
        assert (await app.get(done.id)).state == "skipped"
        assert (await app.job_view(style)).stats.skipped == 1
        assert (await run_once(app, style)).state == "skipped"  # its overlap key is free
        assert [each.code for each in (await app.why(style))[1]][-1] == "skipped"
        assert (await run_once(app, "wordless")).reason == "skipped"


@pytest.mark.req("EXE-8")
async def test_a_coroutine_returned_by_a_plain_function_is_a_failure(nodes: Nodes) -> None:
    app = nodes.app()

    async def work() -> None: ...

    app.job("forgot", max_attempts=3)(lambda: work())
    async with app:
        done = await run_once(app, "forgot")
        assert (done.state, done.failures) == ("failed", 1)
        assert "async def" in (done.error or "")
