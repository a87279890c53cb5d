"""OpenTelemetry: who made an execution, and every try of it, in one trace, whichever way it came to be."""

from __future__ import annotations

import logging
import subprocess
import sys
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.trace import SpanKind, StatusCode

from mainspring import Execution, JobContext, Mainspring, Retry, every
from mainspring.core.views.execution import row_of
from mainspring.testing import harness
from tests.api.client import client_of
from tests.integration.observe.tracing_support import Spans, check_linked
from tests.support import Nodes, ended, run_once, until

CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
CALLERS_TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def flaky(app: Mainspring, spans: Spans) -> None:
    """Async and plain handlers; each does something of its own, and some fail once."""

    async def work(ctx: JobContext, fails: int = 0) -> None:
        with spans.tracer.start_as_current_span("own"):
            if ctx.attempt <= fails:
                raise ConnectionError("once more")

    def plain(ctx: JobContext, fails: int = 0) -> None:
        with spans.tracer.start_as_current_span("own"):
            if ctx.attempt <= fails:
                raise ConnectionError("once more")

    retry: dict[str, Any] = {"max_attempts": 3, "retry": Retry(1)}
    app.job("async", **retry)(work)
    app.job("plain", **retry)(plain)
    app.job("hopeless", max_attempts=1)(work)
    app.schedule("tick", "async", every(minutes=1), missed="all", overlap="allow")
    app.schedule("thread-tick", "plain", every(minutes=2))
    app.schedule("daily", "plain", cron="0 3 * * *", window="yesterday", missed="skip")
    app.schedule("after", "async", after="thread-tick", overlap="allow")
    app.schedule("tenants", "plain", tenants=["a", "b", "c"])


@pytest.mark.req("OBS-2", "OBS-3")
async def test_every_try_of_a_thousand_executions_is_linked_to_its_producer() -> None:
    """All ways to make an execution, in virtual time: the bar is 1,000 executions and no exception."""
    spans = Spans()
    app = Mainspring("memory://", tracer_provider=spans.provider)
    flaky(app, spans)
    async with harness(app, start="2026-03-01T12:00Z", raise_errors=False) as kit, client_of(app) as api:
        for number in range(30):
            await app.enqueue("async" if number % 2 else "plain", {"fails": number % 3})
        await app.enqueue_many([("async", {"fails": number % 2}) for number in range(560)])
        await app.enqueue_many([("plain", None), ("async", None, {"queue": "other"})] * 50)
        failed = [await app.enqueue("hopeless", {"fails": 9}) for _ in range(10)]
        for _ in range(10):
            await app.trigger("async")
            await api.post("/api/v1/jobs/plain/trigger", {"params": {"fails": 1}})
        await app.trigger("tenants")
        await kit.run_until_idle()
        for each in failed:
            await app.retry(each)
        async with app.track("import"):
            with spans.tracer.start_as_current_span("own"):
                pass
        await app.backfill("daily", "2026-01-01", "2026-02-01")
        await kit.advance("1h")
        kit.clock.advance(10 * 60)  # nobody was there: this is caught up
        await kit.advance("1h")
        everything = await all_of(app)
        seen = check_linked(spans, everything)
    assert sum(seen.values()) >= 1_000
    assert seen.keys() == {"enqueue", "manual", "api", "schedule", "catch_up", "backfill", "retry", "dependency"}
    operations = {span.attributes["messaging.operation.name"] for span in spans.of(SpanKind.PRODUCER)}
    assert operations == {"enqueue", "trigger", "tick", "backfill", "retry", "dependency", "fan_out"}


async def all_of(app: Mainspring) -> list[Execution]:
    """Every execution that was tried, with its tries."""
    found: list[Execution] = []
    page = await app.executions(limit=1_000)
    while page:
        found += page
        page = await app.executions(limit=1_000, before=page[-1].id)
    return [execution for execution in found if execution.state not in ("skipped", "pending")]


@pytest.mark.req("OBS-3")
async def test_real_workers_and_threads(nodes: Nodes) -> None:
    spans = Spans()
    app = nodes.app(tracer_provider=spans.provider)

    @app.job("async")
    async def work(ctx: JobContext) -> None:
        with spans.tracer.start_as_current_span("own"):
            await app.enqueue("plain", {"parent": trace.get_current_span().get_span_context().span_id})

    @app.job("plain")
    def plain(ctx: JobContext, parent: int) -> None:
        with spans.tracer.start_as_current_span("own"):
            pass

    async with app:
        with spans.tracer.start_as_current_span("the request") as request:
            made = await app.enqueue("async")
        assert made.trace_id == f"{request.get_span_context().trace_id:032x}"
        await ended(app, made)
        found = await until(lambda: all_ended(app, 2))
    check_linked(spans, found)
    (child,) = [each for each in found if each.job == "plain"]
    assert child.trace_id == made.trace_id  # one trace from the request to the last span
    names = [span.name for span in spans.all()]
    assert sorted(names) == [
        "enqueue default",
        "enqueue default",
        "own",
        "own",
        "process default",
        "process default",
        "the request",
    ]


async def all_ended(app: Mainspring, count: int) -> list[Execution]:
    found = [each for each in await app.executions() if each.state.final]
    return found if len(found) == count else []


@pytest.mark.req("OBS-3")
async def test_spans_follow_the_messaging_conventions() -> None:
    spans = Spans()
    app = Mainspring("memory://", tracer_provider=spans.provider)
    app.job("fine")(fine)
    app.job("broken", max_attempts=2, queue="bad", retry=Retry(1))(broken)
    async with harness(app, raise_errors=False) as kit:
        good, bad = await app.enqueue("fine"), await app.enqueue("broken")
        await app.enqueue_many([("fine", None)] * 3)
        await kit.run_until_idle()
    one, two, batch = spans.of(SpanKind.PRODUCER)
    assert one.name == "enqueue default"
    assert dict(one.attributes) == {
        "messaging.system": "mainspring",
        "messaging.operation.type": "send",
        "messaging.operation.name": "enqueue",
        "messaging.destination.name": "default",
        "messaging.message.id": good.id,
        "mainspring.job": "fine",
        "mainspring.trigger": "enqueue",
        "mainspring.outcome": "added",
    }
    assert batch.attributes["messaging.batch.message_count"] == 3
    (consumer,) = spans.consumers(good.id)
    assert (consumer.name, consumer.status.status_code) == ("process default", StatusCode.UNSET)
    wanted = {
        "messaging.system": "mainspring",
        "messaging.operation.type": "process",
        "messaging.operation.name": "process",
        "messaging.destination.name": "default",
        "messaging.message.id": good.id,
        "mainspring.job": "fine",
        "mainspring.attempt": 1,
        "mainspring.trigger": "enqueue",
        "mainspring.outcome": "completed",
    }
    assert wanted.items() <= dict(consumer.attributes).items()
    first, second = spans.consumers(bad.id)
    assert [each.attributes["mainspring.attempt"] for each in (first, second)] == [1, 2]
    assert (first.name, first.attributes["error.type"]) == ("process bad", "ConnectionError")
    assert (first.status.status_code, first.status.description) == (StatusCode.ERROR, "ConnectionError: no route")
    assert first.events[0].attributes["exception.message"] == "no route"
    assert first.links[0].context.span_id == two.context.span_id


async def fine(ctx: JobContext) -> None: ...


async def broken(ctx: JobContext) -> None:
    raise ConnectionError("no route")


# --- whose trace it is ---------------------------------------------------------------------------------------


@pytest.mark.req("OBS-2")
async def test_what_is_started_inside_a_span_does_not_belong_to_it(nodes: Nodes) -> None:
    spans = Spans()
    app = nodes.app(tracer_provider=spans.provider)
    app.job("fine")(fine)
    app.schedule("tick", "fine", every(seconds=1))
    with spans.tracer.start_as_current_span("start-up") as start_up:
        await app.start()
    try:
        ticked = await until(lambda: all_ended(app, 1))
    finally:
        await app.close()
    assert ticked[0].trace_id != f"{start_up.get_span_context().trace_id:032x}"


@pytest.mark.req("OBS-2")
@pytest.mark.parametrize("tracing", [True, False])
async def test_a_request_brings_its_trace(tracing: bool) -> None:
    spans = Spans()
    app = Mainspring("memory://", tracer_provider=spans.provider, tracing=tracing)
    app.job("fine")(fine)
    app.job("broken", max_attempts=1)(broken)
    headers = {"traceparent": CALLER, "tracestate": "vendor=opaque,other=1"}
    async with harness(app, raise_errors=False) as kit, client_of(app) as api:
        failed = await app.enqueue("broken")
        await kit.run_until_idle()
        await api.post("/api/v1/jobs/fine/trigger", headers=headers)
        await api.post(f"/api/v1/executions/{failed.id}/retry", headers=headers)
        await kit.run_until_idle()
        made = [each for each in await app.executions() if each.id != failed.id]
    assert [each.trace_id for each in made] == [CALLERS_TRACE] * 2
    assert all((row_of(each).traceparent or "").endswith(" vendor=opaque,other=1") for each in made)
    if tracing:
        producers = [each for each in spans.of(SpanKind.PRODUCER) if each.context.trace_id == int(CALLERS_TRACE, 16)]
        assert [f"{each.parent.span_id:016x}" for each in producers] == ["00f067aa0ba902b7"] * 2
        assert spans.consumers(made[0].id)[0].context.trace_state.to_header() == "vendor=opaque,other=1"
    else:
        assert spans.all() == ()


@pytest.mark.req("OBS-2")
async def test_a_named_trace_wins_over_the_current_span_unless_it_is_the_same() -> None:
    spans = Spans()
    app = Mainspring("memory://", tracer_provider=spans.provider)
    app.job("fine")(fine)
    async with harness(app):
        with spans.tracer.start_as_current_span("mine") as mine:
            context = mine.get_span_context()
            named = await app.enqueue("fine", traceparent=CALLER)
            same = await app.enqueue("fine", traceparent=f"00-{context.trace_id:032x}-{'1' * 16}-01")
            mangled = await app.enqueue("fine", traceparent="00-not a trace")
    assert named.trace_id == CALLERS_TRACE
    assert {same.trace_id, mangled.trace_id} == {f"{context.trace_id:032x}"}
    parents = {span.attributes["messaging.message.id"]: span.parent.span_id for span in spans.of(SpanKind.PRODUCER)}
    assert (parents[named.id], parents[same.id]) == (0x00F067AA0BA902B7, context.span_id)


@pytest.mark.req("OBS-2")
def test_the_facade_joins_the_trace_of_its_calling_thread(nodes: Nodes) -> None:
    spans = Spans()
    app = nodes.app(tracer_provider=spans.provider)
    app.job("fine")(fine)
    try:
        with spans.tracer.start_as_current_span("view") as view:
            made = app.sync.enqueue("fine")
        with app.sync.track("import") as ctx, spans.tracer.start_as_current_span("own"):
            pass
    finally:
        app.sync.close()
    assert made.trace_id == f"{view.get_span_context().trace_id:032x}"
    (own,) = [span for span in spans.all() if span.name == "own"]
    (consumer,) = spans.consumers(ctx.execution_id)
    assert own.parent.span_id == consumer.context.span_id


@pytest.mark.req("OBS-3")
async def test_without_a_provider_nothing_is_traced_and_the_trace_id_is_its_own(memory_nodes: Nodes) -> None:
    app = memory_nodes.app()
    app.job("fine")(fine)
    async with app:
        done = await run_once(app, "fine")
        assert app._runtime.parts is not None
        assert app._runtime.parts.tracing is None
    assert (done.traceparent, done.trace_id) == (None, done.id.replace("-", ""))


@pytest.mark.req("OBS-3")
def test_where_nobody_traces_nothing_of_opentelemetry_is_loaded() -> None:
    program = """
import asyncio, sys
from mainspring import Mainspring
app = Mainspring("memory://")
app.job("fine")(lambda: None)
async def main():
    async with app:
        await app.wait(await app.enqueue("fine"))
asyncio.run(main())
print([name for name in sys.modules if name.startswith("opentelemetry")])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.req("OBS-3")
async def test_tracing_without_an_sdk_passes_a_trace_on(memory_nodes: Nodes) -> None:
    """`tracing=True` and only the API: no span is made, and nothing fails."""
    app = memory_nodes.app(tracing=True, tracer_provider=trace.NoOpTracerProvider())
    app.job("fine")(fine)
    async with app:
        own, named = await run_once(app, "fine"), await run_once(app, "fine", traceparent=CALLER)
    assert (own.traceparent, own.trace_id) == (None, own.id.replace("-", ""))
    assert (named.traceparent, named.trace_id) == (CALLER, CALLERS_TRACE)


# --- a tracing that fails ------------------------------------------------------------------------------------


class Broken(SpanProcessor):
    """As a collector that is gone: what it raises gets out of the SDK's own calls."""

    def __init__(self, when: str) -> None:
        self._when = when

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        if self._when == "start":
            raise RuntimeError("the collector is gone")

    def on_end(self, span: Any) -> None:
        if self._when == "end":
            raise RuntimeError("the collector is gone")


@pytest.mark.req("OBS-7")
@pytest.mark.parametrize("when", ["start", "end"])
async def test_a_processor_that_raises_stops_nothing(nodes: Nodes, when: str, caplog: pytest.LogCaptureFixture) -> None:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(Broken(when))
    app = nodes.app(tracer_provider=provider)
    app.job("fine")(fine)
    app.job("plain")(lambda: None)
    app.schedule("tick", "fine", every(seconds=1))
    async with app:
        await app.enqueue_many([("fine", None), ("plain", None)] * 50)
        done = await until(lambda: enough(app, 101))
    assert {each.state for each in done} == {"completed"}
    told = [record for record in caplog.records if "tracing failed" in record.getMessage()]
    assert len(told) == 1
    assert told[0].levelno == logging.WARNING


async def enough(app: Mainspring, count: int) -> list[Execution]:
    found = [each for each in await app.executions(limit=500) if each.state.final]
    return found if len(found) >= count else []
