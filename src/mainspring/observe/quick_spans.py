"""The span of a try, made in a fraction of the time where the OpenTelemetry SDK for Python is used as it comes.

A span of the SDK takes about 20 us and a dozen objects that the garbage collector looks at again and again: together as
much as an execution itself. Hardly any handler touches the span of its try. So only a few things are noted when it
begins, and at its end the processors of the SDK get what the SDK would have given them: a `ReadableSpan`. As soon as
somebody does touch it (sets an attribute, records an exception), it becomes a span of the SDK.

Whatever is not as expected is left to the SDK: another one, a sampler or processors of the application's own, limits on
attributes. Nothing of the SDK is imported unless the application has done so.
"""

from __future__ import annotations

import sys
import threading
from time import time_ns
from types import TracebackType
from typing import Any

from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, SpanKind, Tracer

from .origins import Origin

MOST_ATTRIBUTES = 16
"""More than a try ever has."""
_FOLLOWS_PARENTS = (
    ",remoteParentSampled:AlwaysOnSampler,remoteParentNotSampled:AlwaysOffSampler,"
    "localParentSampled:AlwaysOnSampler,localParentNotSampled:AlwaysOffSampler}"
)
_becoming = threading.Lock()


def quick_spans(tracer: Tracer) -> QuickSpans | None:
    """None where spans must be made by the SDK, or whatever there is in its place."""
    module: Any = sys.modules.get("opentelemetry.sdk.trace")
    if module is None or type(tracer) is not module.Tracer:
        return None
    try:
        spans = QuickSpans(module, tracer)
        return spans if spans.possible() else None
    except (AttributeError, ImportError):  # a release of the SDK that is built otherwise
        return None


class QuickSpans:
    """What all spans of one tracer have in common."""

    def __init__(self, module: Any, tracer: Any) -> None:
        from opentelemetry.sdk.trace import export, sampling

        self.tracer, self.processor = tracer, tracer.span_processor
        self.new_id = tracer.id_generator.generate_span_id
        self.readable, self._full = module.ReadableSpan, module._Span
        self._several, self._parent_based = module.SynchronousMultiSpanProcessor, sampling.ParentBased
        self._known = (export.BatchSpanProcessor, export.SimpleSpanProcessor)
        self._processors: tuple[Any, ...] | None = None
        self._unheard = False

    def possible(self) -> bool:
        """Samplers that do not follow the parent's decision, and limits, are the SDK's business."""
        sampler, limits = self.tracer.sampler, self.tracer._span_limits
        return (
            type(sampler).should_sample is self._parent_based.should_sample
            and sampler.get_description().endswith(_FOLLOWS_PARENTS)
            and type(self.processor) is self._several
            and type(self.tracer._tracer_metrics).__name__ == "NoOpTracerMetrics"
            and limits.max_span_attribute_length is None
            and (limits.max_span_attributes is None or limits.max_span_attributes >= MOST_ATTRIBUTES)
            and limits.max_links != 0
        )

    @property
    def usable(self) -> bool:
        """Whether nobody looks at spans before their end: a processor may be added at any time."""
        processors = self.processor._span_processors
        if processors is not self._processors:
            self._unheard = all(type(each) in self._known for each in processors)
            self._processors = processors
        return self._unheard and self.tracer._is_enabled() is True

    def full(self, span: QuickSpan, attributes: dict[str, Any], began: int) -> Span:
        """The same span, as the SDK would have made it."""
        tracer, origin = self.tracer, span.origin
        made: Any = self._full(
            name=span.name,
            context=span.get_span_context(),
            parent=origin.parent,
            sampler=tracer.sampler,
            resource=tracer.resource,
            attributes=attributes,
            span_processor=self.processor,
            kind=SpanKind.CONSUMER,
            links=origin.links,
            instrumentation_info=tracer.instrumentation_info,
            record_exception=False,
            limits=tracer._span_limits,
            instrumentation_scope=tracer._instrumentation_scope,
        )
        made.start(began)
        return made  # type: ignore[no-any-return]


class QuickSpan(Span):
    """Only numbers and names until somebody wants more. `origin` is where the execution comes from."""

    def __init__(self, spans: QuickSpans, name: str, attributes: dict[str, Any], origin: Origin) -> None:
        self._spans, self.name, self.origin, self._attributes = spans, name, origin, attributes
        self._id, self._began = spans.new_id(), time_ns()
        self._context: SpanContext | None = None
        self._full: Any = None
        self._ended: Any = None

    def get_span_context(self) -> SpanContext:
        context = self._context
        if context is None:
            origin = self.origin
            parent = origin.parent
            context = SpanContext(parent.trace_id, self._id, False, origin.flags, parent.trace_state)
            self._context = context
        return context

    def is_recording(self) -> bool:
        if self._full is not None:
            return self._full.is_recording()  # type: ignore[no-any-return]
        return self._ended is None

    def note(self, key: str, value: str) -> None:
        """As `set_attribute`, for who made this span: that alone does not make it one of the SDK."""
        if self._full is not None:
            self._full.set_attribute(key, value)
        else:
            self._attributes[key] = value

    def end(self, end_time: int | None = None) -> None:
        if self._full is not None:
            self._full.end(end_time)
            return
        if self._ended is not None:
            return
        spans, origin = self._spans, self.origin
        tracer = spans.tracer
        self._ended = spans.readable(
            name=self.name,
            context=self._context or self.get_span_context(),
            parent=origin.parent,
            resource=tracer.resource,
            attributes=self._attributes,
            links=origin.links,
            kind=SpanKind.CONSUMER,
            instrumentation_info=tracer.instrumentation_info,
            start_time=self._began,
            end_time=end_time or time_ns(),
            instrumentation_scope=tracer._instrumentation_scope,
        )
        spans.processor.on_end(self._ended)

    # --- touched ------------------------------------------------------------------------------------------
    def _become(self) -> Any:
        """A span of the SDK from now on. One that has ended cannot be changed any more."""
        with _becoming:
            if self._full is None and self._ended is not None:
                return NonRecordingSpan(self.get_span_context())
            if self._full is None:
                self._full = self._spans.full(self, self._attributes, self._began)
            return self._full

    def set_attributes(self, attributes: Any) -> None:
        self._become().set_attributes(attributes)

    def set_attribute(self, key: str, value: Any) -> None:
        self._become().set_attribute(key, value)

    def add_event(self, name: str, attributes: Any = None, timestamp: int | None = None) -> None:
        self._become().add_event(name, attributes, timestamp)

    def add_link(self, context: SpanContext, attributes: Any = None) -> None:
        self._become().add_link(context, attributes)

    def update_name(self, name: str) -> None:
        self._become().update_name(name)

    def set_status(self, status: Any, description: str | None = None) -> None:
        self._become().set_status(status, description)

    def record_exception(
        self, exception: BaseException, attributes: Any = None, timestamp: int | None = None, escaped: bool = False
    ) -> None:
        self._become().record_exception(exception, attributes, timestamp, escaped)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._become().__exit__(kind, error, traceback)

    def __getattr__(self, name: str) -> Any:
        """What spans of the SDK have beyond those of the interface, such as `attributes`."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._ended or self._become(), name)
