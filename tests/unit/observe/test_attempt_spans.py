"""The span of an attempt: its context, its attributes, and the samplers and processors of the application."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased, TraceIdRatioBased
from opentelemetry.trace import SpanKind, StatusCode

from mainspring.model.execution import ExecutionRow, Outcome
from mainspring.observe.tracing.tracing import Tracing, origin_of

pytestmark = pytest.mark.req("OBS-3")

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SAMPLED, UNSAMPLED = f"00-{TRACE}-00f067aa0ba902b7-03 vendor=1", f"00-{TRACE}-00f067aa0ba902b7-00"
RUN = ExecutionRow(
    id="e1", job="crawl", job_id="j1", handler="crawl", queue="slow", tenant="acme", failures=1, traceparent=SAMPLED
)
UNSAMPLED_RUN = ExecutionRow(id="e2", job="crawl", job_id="j1", handler="crawl", traceparent=UNSAMPLED)
DONE = Outcome(end="completed", started=0, ended=1, worker="w1")
FAILED = Outcome(end="failed", started=0, ended=1, worker="w1", error="ValueError: no")


class Listening(SpanProcessor):
    """Sets an attribute on every span that starts."""

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        span.set_attribute("heard", "from the start")


class Traced:
    """A tracer provider and the spans that came out of it."""

    def __init__(self, **options: Any) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False, **options)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracing = Tracing(self.provider)

    def attempt(
        self,
        inside: Callable[[Any], None] = lambda span: None,
        execution: ExecutionRow = RUN,
        outcome: Outcome | None = DONE,
        error: BaseException | None = None,
    ) -> Any:
        """Run one attempt. Returns the span that was current inside the handler."""
        attempt = self.tracing.begin(execution, "w1")
        assert attempt is not None
        entered = attempt.enter()
        span = trace.get_current_span()
        inside(span)
        attempt.leave(entered)
        attempt.ended(outcome, error)
        assert trace.get_current_span() is trace.INVALID_SPAN
        return span

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self.exporter.get_finished_spans()


def test_the_span_of_an_attempt_says_what_ran_and_how_it_ended() -> None:
    traced = Traced()
    traced.attempt()
    (span,) = traced.spans
    assert (span.name, span.kind, span.status.status_code) == ("process slow", SpanKind.CONSUMER, StatusCode.UNSET)
    assert dict(span.attributes) == {
        "messaging.system": "mainspring",
        "messaging.operation.type": "process",
        "messaging.operation.name": "process",
        "messaging.destination.name": "slow",
        "messaging.client.id": "w1",
        "messaging.message.id": "e1",
        "mainspring.job": "crawl",
        "mainspring.trigger": "enqueue",
        "mainspring.attempt": 2,
        "mainspring.tenant": "acme",
        "mainspring.outcome": "completed",
    }
    (link,) = span.links
    assert link.context == span.parent
    assert (span.parent.trace_id, span.parent.span_id) == (int(TRACE, 16), 0xF067AA0BA902B7)
    assert span.context.trace_state.to_header() == "vendor=1"


def test_a_failure_is_recorded_and_a_stop_before_the_first_step_is_none() -> None:
    traced = Traced()
    traced.attempt(outcome=FAILED, error=ValueError("no"))
    traced.attempt(outcome=None)
    failed, stopped = traced.spans
    assert (failed.status.status_code, failed.status.description) == (StatusCode.ERROR, "ValueError: no")
    assert failed.attributes["error.type"] == "ValueError"
    assert [event.name for event in failed.events] == ["exception"]
    assert (stopped.status.status_code, stopped.attributes["mainspring.outcome"]) == (StatusCode.UNSET, "handed_back")


def test_its_context_is_known_from_the_start_and_spans_hang_below_it() -> None:
    traced = Traced()
    tracer = traced.provider.get_tracer("the application")

    def own(span: trace.Span) -> None:
        assert span.is_recording()
        tracer.start_span("own").end()

    span = traced.attempt(own)
    below, consumer = traced.spans
    assert below.parent == consumer.context == span.get_span_context()
    assert below.context.trace_id == int(TRACE, 16)


def test_attributes_set_after_the_end_change_nothing() -> None:
    traced = Traced()
    span = traced.attempt()
    span.set_attribute("late", 1)
    span.end()
    (consumer,) = traced.spans
    assert "late" not in consumer.attributes


def test_a_processor_may_be_added_at_any_time() -> None:
    traced = Traced()
    traced.attempt()
    traced.provider.add_span_processor(Listening())
    traced.attempt()
    assert [span.attributes.get("heard") for span in traced.spans] == [None, "from the start"]


@pytest.mark.parametrize(
    "options",
    [
        {"sampler": ALWAYS_ON},
        {"sampler": ParentBased(ALWAYS_ON, remote_parent_not_sampled=ALWAYS_ON)},
        {"span_limits": SpanLimits(max_span_attributes=3)},
        {"span_limits": SpanLimits(max_links=0)},
    ],
    ids=["sampler", "remote", "attributes", "links"],
)
def test_samplers_and_limits_of_the_application_apply(options: dict[str, Any]) -> None:
    traced = Traced(**options)
    traced.attempt()
    assert len(traced.spans) == 1


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_an_attempt_follows_the_sampling_decision_of_its_producer(rate: float) -> None:
    """Even if this process would have decided otherwise: that is the purpose of a sampler that follows parents."""
    traced = Traced(sampler=ParentBased(TraceIdRatioBased(rate)))
    tracer = traced.provider.get_tracer("the application")
    assert traced.attempt().is_recording() is False  # it has ended
    assert len(traced.spans) == 1
    span = traced.attempt(lambda span: tracer.start_span("own").end(), UNSAMPLED_RUN)
    assert (span.get_span_context().trace_id, span.is_recording()) == (int(TRACE, 16), False)
    traced.attempt(execution=UNSAMPLED_RUN, outcome=FAILED, error=ValueError("no"))
    assert len(traced.spans) == 1


@pytest.mark.parametrize(
    "context",
    [None, "", "nonsense", f"00-{TRACE}-{'0' * 16}-01", f"00-{TRACE}-xyz-01", f"00-{TRACE[:-1]}x-00f067aa0ba902b7-00"],
)
def test_a_context_that_names_no_span_begins_a_trace_of_its_own(context: str | None) -> None:
    assert origin_of(context) is None
    traced = Traced()
    traced.attempt(execution=ExecutionRow(id="e3", job="crawl", job_id="j1", handler="crawl", traceparent=context))
    (span,) = traced.spans
    assert (span.parent, span.links) == (None, ())
