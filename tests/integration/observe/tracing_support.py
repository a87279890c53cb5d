"""Spans kept in memory, and what must be true of them whatever was traced."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from mainspring import Execution

NEVER_RAN = ("skipped", "cancelled")


class Spans:
    """A provider of its own: the one of the process can be set only once, and would outlive the test."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.provider.get_tracer("the application")

    def all(self) -> tuple[ReadableSpan, ...]:
        return self.exporter.get_finished_spans()

    def of(self, kind: SpanKind) -> list[ReadableSpan]:
        return [span for span in self.all() if span.kind is kind]

    @property
    def producers(self) -> dict[int, ReadableSpan]:
        return {span.context.span_id: span for span in self.of(SpanKind.PRODUCER)}

    def consumers(self, execution_id: str) -> list[ReadableSpan]:
        return [each for each in self.of(SpanKind.CONSUMER) if each.attributes["messaging.message.id"] == execution_id]


def check_linked(spans: Spans, executions: Iterable[Execution], own_spans: bool = True) -> Counter[str]:
    """Every try of these has a consumer's span, which continues and is linked to the span of its producer; spans of the
    handler hang below it. Returns how many executions there were by trigger."""
    producers = spans.producers
    tries: dict[str, list[ReadableSpan]] = {}
    for span in spans.of(SpanKind.CONSUMER):
        tries.setdefault(str(span.attributes["messaging.message.id"]), []).append(span)
    below = Counter(span.parent.span_id for span in spans.of(SpanKind.INTERNAL) if span.parent is not None)
    seen: Counter[str] = Counter()
    for execution in executions:
        consumers = tries.get(execution.id, [])
        assert len(consumers) == len(execution.attempts), execution
        seen[execution.trigger] += 1
        for consumer in consumers:
            (link,) = consumer.links
            producer = producers[link.context.span_id]
            assert consumer.parent.span_id == link.context.span_id
            assert f"{consumer.context.trace_id:032x}" == f"{producer.context.trace_id:032x}" == execution.trace_id
            assert consumer.attributes["mainspring.job"] == execution.job
            assert consumer.attributes["mainspring.trigger"] == producer.attributes["mainspring.trigger"]
            if own_spans and consumer.attributes["mainspring.outcome"] != "fanned_out":
                assert below[consumer.context.span_id] == 1, execution
        assert [each.attributes["mainspring.outcome"] for each in consumers] == [a.end for a in execution.attempts]
    return seen
