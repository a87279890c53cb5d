"""Whatever happens to those who watch, executions complete: OBS-7."""

from __future__ import annotations

import errno
import io
import json
import logging
import time
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from mainspring import InvalidValue, JobContext, Mainspring, Retry, every
from mainspring.model.events import Enqueued, Started, Ticked
from mainspring.observe.logs.background import BackgroundHandler
from mainspring.observe.logs.formats import JsonFormatter
from mainspring.testing import harness
from tests.support import NEVER, Nodes, Seen, run_once, until

MANY = 200


def add_jobs(app: Mainspring) -> None:
    library = logging.getLogger("library")

    @app.job("async", max_attempts=2, retry=Retry(0))
    async def work(ctx: JobContext, fails: int = 0) -> None:
        ctx.logger.info("a line of the handler")
        library.info("a line of a library")
        if ctx.attempt <= fails:
            raise ConnectionError("once more")

    @app.job("plain")
    def plain(ctx: JobContext) -> None:
        ctx.logger.info("a line of the handler")

    app.schedule("tick", "async", every(seconds=1), overlap="allow")


async def check_all_complete(app: Mainspring) -> None:
    """Enqueued, ticked, retried: all of it, though those who watch fail."""
    add_jobs(app)
    async with app:
        await app.enqueue_many([("async", {"fails": number % 2}) for number in range(MANY)])
        await app.enqueue_many([("plain", None)] * MANY)
        done = await until(lambda: finished(app))
    assert {each.state for each in done} == {"completed"}
    assert {each.job for each in done} == {"async", "plain", "tick"}


async def finished(app: Mainspring) -> list[Any]:
    done = [each for each in await app.executions(limit=1_000) if each.state.final]
    return done if len(done) > 2 * MANY else []


# --- observers -----------------------------------------------------------------------------------------------


class Raising:
    def __init__(self, error: type[Exception]) -> None:
        self._error = error
        self.calls = 0

    def __call__(self, event: object) -> None:
        self.calls += 1
        raise self._error("no more")


@pytest.mark.req("OBS-7")
@pytest.mark.parametrize("error", [RuntimeError, RecursionError])
async def test_an_observer_that_raises_is_told_of_once(
    memory_nodes: Nodes, error: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    raising, seen = Raising(error), Seen()
    await check_all_complete(memory_nodes.app(observers=[raising, seen]))
    assert raising.calls == len(seen.events) > 4 * MANY
    assert len([record for record in caplog.records if "observer Raising failed" in record.getMessage()]) == 1


# --- logs ----------------------------------------------------------------------------------------------------


class FullDisk(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    own = logging.getLogger("tests.jobs")
    own.setLevel(logging.DEBUG)
    own.propagate = False
    yield own
    own.handlers.clear()
    own.propagate = True
    own.setLevel(logging.NOTSET)


@pytest.mark.req("OBS-7")
async def test_a_log_handler_that_raises(memory_nodes: Nodes, logger: logging.Logger) -> None:
    logger.addHandler(FullDisk())
    await check_all_complete(memory_nodes.app(logger=logger))


@pytest.mark.req("OBS-7")
async def test_a_full_disk_behind_the_own_handler(
    memory_nodes: Nodes, logger: logging.Logger, capfd: pytest.CaptureFixture[str]
) -> None:
    with open("/dev/full", "w") as full:
        handler = BackgroundHandler(full)
        handler.setFormatter(JsonFormatter())
        logger.addHandler(handler)
        await check_all_complete(memory_nodes.app(logger=logger))
        handler.close()
        assert handler.lines.dropped > 4 * MANY
    assert capfd.readouterr().err == ""


@pytest.mark.req("OBS-8", "OBS-1")
async def test_a_logger_of_the_application_gets_every_line(memory_nodes: Nodes, logger: logging.Logger) -> None:
    stream = io.StringIO()
    handler = BackgroundHandler(stream)
    handler.setFormatter(JsonFormatter())
    logger.addHandler(handler)
    app = memory_nodes.app(logger=logger, lease="20s")
    add_jobs(app)
    async with app:
        done = await run_once(app, "async", {"fails": 1})
    handler.close()
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    mine = [line for line in lines if line.get("execution_id") == done.id]
    assert {line["trace_id"] for line in mine} == {done.trace_id}
    assert {line["logger"] for line in lines} == {"tests.jobs"}
    told = [(line["level"], line.get("event") or line["message"]) for line in mine]
    assert told == [
        ("DEBUG", "job_enqueued"),
        ("INFO", "job_start"),
        ("INFO", "a line of the handler"),
        ("WARNING", "job_retry"),
        ("INFO", "job_start"),
        ("INFO", "a line of the handler"),
        ("INFO", "job_end"),
    ]
    (running,) = [line for line in lines if line.get("event") == "running"]
    assert (running["settings"]["lease"], running["settings"]["poll_interval"]) == (20.0, NEVER)


# --- traces --------------------------------------------------------------------------------------------------


class DeadCollector(SpanExporter):
    """It takes a connection and never answers, or refuses: both happen in the thread of the SDK."""

    def __init__(self, hangs: float) -> None:
        self._hangs = hangs
        self.exports = 0

    def export(self, spans: Any) -> SpanExportResult:
        self.exports += 1
        if self._hangs:
            time.sleep(self._hangs)
        raise ConnectionError("no collector")


@pytest.mark.req("OBS-7")
@pytest.mark.parametrize("hangs", [0.0, 1.0])
async def test_a_dead_collector(sqlite_nodes: Nodes, hangs: float, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "opentelemetry")  # the SDK tells of it, in its own words
    collector = DeadCollector(hangs)
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(collector, max_queue_size=64, max_export_batch_size=32))
    await check_all_complete(sqlite_nodes.app(tracer_provider=provider))
    provider.shutdown()
    assert collector.exports > 0


# --- what nobody hears ---------------------------------------------------------------------------------------


class OnlyEnds:
    def __init__(self) -> None:
        self.enqueued = 0

    def hears(self, kind: type) -> bool:
        return kind is not Enqueued

    def __call__(self, event: object) -> None:
        self.enqueued += isinstance(event, Enqueued)


@pytest.mark.req("OBS-7")
async def test_every_way_to_make_an_execution_is_told() -> None:
    seen = Seen()
    app = Mainspring("memory://", observers=[seen])
    add_jobs(app)
    app.schedule("after", "async", after="plain", overlap="allow")
    app.schedule("tenants", "plain", tenants=["a", "b"])
    app.schedule("daily", "plain", cron="0 3 * * *", window="yesterday", missed="skip")
    async with harness(app, start="2026-03-05T12:00Z") as kit:
        await app.enqueue("plain")
        await app.trigger("tenants")
        await app.backfill("daily", "2026-03-01", "2026-03-03")
        await kit.advance("10s")
        made = [each.id for each in await app.executions(limit=100)]
    told = [event.execution.id for event in (*seen.of(Enqueued), *seen.of(Ticked))]
    assert sorted(told) == sorted(made)
    assert {event.execution.trigger for event in seen.of(Enqueued)} == {"enqueue", "manual", "backfill", "dependency"}


@pytest.mark.req("OBS-7")
async def test_what_was_enqueued_is_told_only_if_somebody_listens(memory_nodes: Nodes) -> None:
    deaf, seen = OnlyEnds(), Seen()
    app = memory_nodes.app(observers=[deaf])
    add_jobs(app)
    await app.enqueue_many([("plain", None)] * 3)
    assert deaf.enqueued == 0
    app.observe(seen)
    made = await app.enqueue_many([("plain", None)] * 3)
    made.append(await app.trigger("plain"))
    await app.close()
    assert [event.execution.id for event in seen.of(Enqueued)] == [each.id for each in made]


@pytest.mark.req("OBS-3")
def test_what_is_no_tracer_provider_is_refused_where_it_is_given() -> None:
    with pytest.raises(InvalidValue, match="tracer_provider"):
        Mainspring("memory://", tracer_provider="jaeger")


@pytest.mark.req("OBS-7")
@pytest.mark.parametrize("handler", ["async", "plain"])
async def test_a_start_is_told_before_its_handler_does_anything(handler: str) -> None:
    """Also when many begin at once, and are told of together."""
    app, story = Mainspring("memory://", concurrency=5), []  # type: ignore[var-annotated]
    app.observe(lambda event: story.append(("told", event.execution.id)) if isinstance(event, Started) else None)

    @app.job("async")
    async def work(ctx: JobContext) -> None:
        story.append(("ran", ctx.execution_id))

    @app.job("plain")
    def plain(ctx: JobContext) -> None:
        story.append(("ran", ctx.execution_id))

    async with app:
        ids = await app.enqueue_many([(handler, None)] * 30)
        await until(lambda: len(story) == 2 * len(ids))
    for id in {id for _, id in story}:
        assert [what for what, whose in story if whose == id] == ["told", "ran"]
