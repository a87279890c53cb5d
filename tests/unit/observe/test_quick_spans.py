"""Spans of tries that are made without the SDK's own class: nobody who gets them can tell."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, AlwaysRecordSampler, ParentBased, TraceIdRatioBased
from opentelemetry.trace import Link, SpanContext, SpanKind, StatusCode, TraceFlags

from mainspring.model.execution import ExecutionRow, Outcome
from mainspring.observe.tracing.attempts import Unsampled
from mainspring.observe.tracing.origins import is_unsampled
from mainspring.observe.tracing.quick_spans import QuickSpan
from mainspring.observe.tracing.tracing import Tracing

pytestmark = pytest.mark.req("OBS-3")

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SAMPLED, UNSAMPLED = f"00-{TRACE}-00f067aa0ba902b7-03 vendor=1", f"00-{TRACE}-00f067aa0ba902b7-00"
RUN = ExecutionRow(
    id="e1", job="crawl", job_id="j1", handler="crawl", queue="slow", tenant="acme", failures=1, traceparent=SAMPLED
)
DONE = Outcome(end="completed", started=0, ended=1, worker="w1")
FAILED = Outcome(end="failed", started=0, ended=1, worker="w1", error="ValueError: no")


class Listening(SpanProcessor):
    """Sees spans when they begin, as some that put attributes on them do."""

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        span.set_attribute("heard", "from the start")


class Made:
    """A provider as it comes, or with what is given, and the spans that came out of it."""

    def __init__(self, *more: SpanProcessor, **options: Any) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False, **options)
        for processor in (SimpleSpanProcessor(self.exporter), *more):
            self.provider.add_span_processor(processor)
        self.tracing = Tracing(self.provider)

    def tried(
        self,
        inside: Callable[[Any], None] = lambda span: None,
        execution: ExecutionRow = RUN,
        outcome: Outcome | None = DONE,
        error: BaseException | None = None,
    ) -> Any:
        """The span that was current inside the handler."""
        one = self.tracing.begin(execution, "w1")
        assert one is not None
        entered = one.enter()
        span = trace.get_current_span()
        inside(span)
        one.leave(entered)
        one.ended(outcome, error)
        assert trace.get_current_span() is trace.INVALID_SPAN
        return span

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self.exporter.get_finished_spans()


def by_the_sdk() -> Made:
    made = Made()
    made.tracing._quick = None
    return made


def plain(span: ReadableSpan) -> dict[str, Any]:
    """All there is to see, but for chance and time."""
    shape = json.loads(span.to_json())
    del shape["context"]["span_id"], shape["start_time"], shape["end_time"], shape["resource"]
    for event in shape["events"]:
        del event["timestamp"]
    return shape | {
        "scope": span.instrumentation_scope,
        "flags": span.context.trace_flags,
        "remote": span.context.is_remote,
        "parent": span.parent,
        "dropped": (span.dropped_attributes, span.dropped_events, span.dropped_links),
        "attributes": dict(span.attributes),
        "links": [(link.context, dict(link.attributes or {}), link.dropped_attributes) for link in span.links],
    }


def touched(span: trace.Span) -> None:
    span.set_attribute("a", 1)
    span.set_attributes({"b": [1, 2]})
    span.add_event("seen", {"c": "d"})
    span.add_link(SpanContext(7, 8, False, TraceFlags(1)))
    span.update_name("renamed")
    span.set_status(StatusCode.OK)


def raising(span: trace.Span) -> None:
    span.record_exception(KeyError("gone"), attributes={"x": "y"})


def read(span: Any) -> None:
    assert (span.kind, span.attributes["mainspring.job"]) == (SpanKind.CONSUMER, "crawl")


@pytest.mark.parametrize("inside", [lambda span: None, touched, raising, read])
@pytest.mark.parametrize("ending", [(DONE, None), (FAILED, ValueError("no")), (None, None)])
def test_what_comes_out_is_what_the_sdk_makes(inside: Callable[[Any], None], ending: Any) -> None:
    quick, slow = Made(), by_the_sdk()
    assert isinstance(quick.tried(inside, RUN, *ending), QuickSpan)
    assert not isinstance(slow.tried(inside, RUN, *ending), QuickSpan)
    (one,), (other,) = quick.spans, slow.spans
    assert plain(one) == plain(other)
    assert 0 < one.start_time <= one.end_time
    assert one.resource is quick.provider.resource


def test_its_context_is_known_from_the_start_and_spans_hang_below_it() -> None:
    made = Made()
    tracer = made.provider.get_tracer("the application")

    def own(span: trace.Span) -> None:
        assert span.is_recording()
        tracer.start_span("own").end()

    span = made.tried(own)
    below, consumer = made.spans
    assert below.parent == consumer.context == span.get_span_context()
    assert below.context.trace_id == int(TRACE, 16)


def test_what_comes_after_the_end_changes_nothing() -> None:
    made = Made()
    span = made.tried()
    span.set_attribute("late", 1)
    span.end()
    assert not span.is_recording()
    (consumer,) = made.spans
    assert "late" not in consumer.attributes
    assert span.attributes == consumer.attributes


def test_a_processor_that_hears_beginnings_gets_spans_of_the_sdk() -> None:
    made = Made()
    assert isinstance(made.tried(), QuickSpan)
    made.provider.add_span_processor(Listening())
    made.tried()
    assert [span.attributes.get("heard") for span in made.spans] == [None, "from the start"]


@pytest.mark.parametrize(
    "options",
    [
        {"sampler": ALWAYS_ON},
        {"sampler": AlwaysRecordSampler(ParentBased(ALWAYS_ON))},
        {"sampler": ParentBased(ALWAYS_ON, remote_parent_not_sampled=ALWAYS_ON)},
        {"span_limits": SpanLimits(max_span_attributes=3)},
        {"span_limits": SpanLimits(max_span_attribute_length=3)},
        {"span_limits": SpanLimits(max_links=0)},
    ],
    ids=["sampler", "recording", "remote", "attributes", "length", "links"],
)
def test_what_an_application_has_set_up_otherwise_is_left_to_the_sdk(options: dict[str, Any]) -> None:
    made = Made(**options)
    assert not isinstance(made.tried(), QuickSpan)
    assert len(made.spans) == 1


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_a_try_follows_what_was_decided_for_its_producer(rate: float) -> None:
    """Also where this process would have decided otherwise: that is what a sampler that follows parents does."""
    made = Made(sampler=ParentBased(TraceIdRatioBased(rate)))
    tracer = made.provider.get_tracer("the application")
    assert isinstance(made.tried(), QuickSpan)
    unsampled = ExecutionRow(id="e2", job="crawl", job_id="j1", handler="crawl", traceparent=UNSAMPLED)
    assert isinstance(made.tracing.begin(unsampled, "w1"), Unsampled)
    span = made.tried(lambda span: tracer.start_span("own").end(), unsampled)
    assert (span.get_span_context().trace_id, span.is_recording()) == (int(TRACE, 16), False)
    made.tried(execution=unsampled, outcome=FAILED, error=ValueError("no"))
    assert len(made.spans) == 1


def test_links_of_a_batch_are_not_shared_with_anything_that_changes() -> None:
    made = Made()
    for _ in range(2):
        made.tried(lambda span: span.add_link(SpanContext(7, 8, False, TraceFlags(1))))
    made.tried()
    assert [len(span.links) for span in made.spans] == [2, 2, 1]
    assert all(isinstance(link, Link) for span in made.spans for link in span.links)


@pytest.mark.parametrize(
    ("context", "unsampled"),
    [
        (UNSAMPLED, True),
        (f"{UNSAMPLED} vendor=1", True),
        (f"00-{TRACE}-00f067aa0ba902b7-02", True),
        (SAMPLED, False),
        (f"00-{TRACE}-00f067aa0ba902b7-01", False),
        (f"{UNSAMPLED}0", False),
        (UNSAMPLED[:-1], False),
        (f"00-{TRACE[:-1]}x-00f067aa0ba902b7-00", False),
        ("", False),
    ],
)
def test_which_contexts_say_that_nobody_records(context: str, unsampled: bool) -> None:
    assert is_unsampled(context) is unsampled


def test_an_unsampled_span_says_where_it_is() -> None:
    assert Unsampled(UNSAMPLED).get_span_context() == SpanContext(int(TRACE, 16), 0xF067AA0BA902B7, True)
    assert UNSAMPLED in repr(Unsampled(UNSAMPLED))
    assert not Unsampled(f"00-{'0' * 32}-{'0' * 16}-00").get_span_context().is_valid
