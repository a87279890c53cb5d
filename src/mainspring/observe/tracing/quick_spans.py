"""The span of a try, made in a fraction of the time where the OpenTelemetry SDK for Python is used as it comes.

A span of the SDK takes about 20 us and a dozen objects that the garbage collector looks at again and again: together as
much as an execution itself. Hardly any handler touches the span of its try. So only a few things are noted when it
begins, and the processors of the SDK get them at its end; as soon as somebody does touch it (sets an attribute, records
an exception), it is made in full, and is a span of the SDK as any other.

Whatever is not as expected is left to the SDK: another one, a sampler or processors of the application's own, limits on
attributes. This file is imported only if the application has brought the SDK.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import time_ns
from types import TracebackType
from typing import Any

from opentelemetry.sdk import trace as sdk
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased
from opentelemetry.trace import SpanContext, SpanKind, Status, Tracer

from ...model.execution import ExecutionRow, Outcome
from .attempts import GOOD, OUTCOME, Kin, Safe, Unsampled, end, enter, kin_of, leave
from .origins import Origin, is_unsampled, origin_of

MOST_ATTRIBUTES = 16
"""More than a try ever has."""
_DEAF = (BatchSpanProcessor, SimpleSpanProcessor)
"""Processors that do nothing when a span begins."""
_FOLLOWS_PARENTS = (
    ",remoteParentSampled:AlwaysOnSampler,remoteParentNotSampled:AlwaysOffSampler,"
    "localParentSampled:AlwaysOnSampler,localParentNotSampled:AlwaysOffSampler}"
)
_OWN_FIELDS = {"_kind", "_status", "_events", "_start_time", "_end_time"}
_FOUND_FIELDS = {
    "_name": lambda span: span._kin.name,
    "_attributes": lambda span: span._described(),
    "_context": lambda span: span._placed(),
    "_parent": lambda span: span._origin.parent,
    "_links": lambda span: span._origin.links,
    "_resource": lambda span: span._spans.tracer.resource,
    "_instrumentation_info": lambda span: span._spans.tracer.instrumentation_info,
    "_instrumentation_scope": lambda span: span._spans.tracer._instrumentation_scope,
}
"""Fields of a span that are found when somebody asks for them, under the names the SDK has for them."""
_filling = threading.Lock()
_new = object.__new__


def quick_spans(tracer: Tracer, safe: Safe) -> QuickSpans | None:
    """None where spans must be made by the SDK, or whatever there is in its place."""
    if type(tracer) is not sdk.Tracer:
        return None
    try:
        return QuickSpans(tracer, safe) if _as_it_comes(tracer) else None
    except AttributeError:  # a release of the SDK that is built otherwise
        return None


def _as_it_comes(tracer: Any) -> bool:
    """Whether a span begins and ends without anything but the SDK's defaults. A sampler that does not follow what was
    decided for the parent, and limits, are the SDK's own business."""
    sampler, limits = tracer.sampler, tracer._span_limits
    return (
        vars(sdk.ReadableSpan("a span")).keys() == _OWN_FIELDS | _FOUND_FIELDS.keys()
        and type(tracer.span_processor) is sdk.SynchronousMultiSpanProcessor
        and type(sampler).should_sample is ParentBased.should_sample
        and sampler.get_description().endswith(_FOLLOWS_PARENTS)
        and type(tracer._tracer_metrics).__name__ == "NoOpTracerMetrics"
        and limits.max_span_attribute_length is None
        and (limits.max_span_attributes is None or limits.max_span_attributes >= MOST_ATTRIBUTES)
        and limits.max_links != 0
    )


class QuickSpans:
    """What the spans of one tracer have in common."""

    def __init__(self, tracer: Any, safe: Safe) -> None:
        self.tracer, self.safe, self._new_id = tracer, safe, tracer.id_generator.generate_span_id
        self._processor, self._is_enabled = tracer.span_processor, tracer._is_enabled
        self._last: tuple[str, Origin | None] = ("", None)
        self._processors: tuple[Any, ...] | None = None
        self._deaf = False
        self.on_end: Callable[[Any], None] = self._processor.on_end

    def begin(self, execution: ExecutionRow, worker: str) -> QuickSpan | Unsampled | None:
        """None where the SDK has to make the span. Without the constructors of the SDK: see `QuickSpan`."""
        given = execution.traceparent
        if self._processor._span_processors is not self._processors:
            self._look()
        if given is None or not self._deaf or self._is_enabled() is not True:
            return None
        last, origin = self._last
        if given != last or origin is None:  # those of a batch share theirs
            if is_unsampled(given):
                return Unsampled(given)
            origin = origin_of(given)
            if origin is None or not origin.sampled:
                return None
            self._last = given, origin
        span = _new(QuickSpan)
        span._spans, span._origin, span._message = self, origin, execution.id
        span._kin = kin_of(execution.queue, execution.job, execution.trigger, worker)
        if execution.failures:
            span._attempt = execution.failures + 1
        if execution.tenant is not None:
            span._tenant = execution.tenant
        span._number, span._start_time = self._new_id(), time_ns()
        return span

    def _look(self) -> None:
        """Whether nobody looks at spans before their end: a processor may be added at any time."""
        processors = self._processor._span_processors
        self._deaf = all(type(each) in _DEAF for each in processors)
        self.on_end = _on_end(processors[0]) if len(processors) == 1 else self._processor.on_end
        self._processors = processors


def _on_end(processor: Any) -> Callable[[Any], None]:
    """How its only processor takes a span that has ended. The one for batches would look whether it is sampled, which
    every span made here is, and so have its context made at once: exporters ask for that in a thread of their own."""
    batches = getattr(processor, "_batch_processor", None) if type(processor) is BatchSpanProcessor else None
    return getattr(batches, "emit", None) or processor.on_end  # type: ignore[no-any-return]


class QuickSpan(sdk.Span):
    """What makes this span differ from its kin; the rest is found when somebody asks. `_origin` is where the execution
    comes from, `_whole` says that everything was found."""

    _spans: QuickSpans
    _origin: Origin
    _kin: Kin
    _message: str
    _attempt: int = 1
    _number: int
    _tenant: str | None = None
    _how: str | None = None
    _kind, _status, _events = SpanKind.CONSUMER, Status(), ()
    _end_time = None
    _whole = False

    def __getattr__(self, name: str) -> Any:
        found = _FOUND_FIELDS.get(name)
        if found is None:
            raise AttributeError(name)
        return found(self)

    def _described(self) -> dict[str, Any]:
        attributes = self._kin.attributes_of(self._message, self._attempt, self._tenant)
        if self._how is not None:
            attributes[OUTCOME] = self._how
        return attributes

    def _placed(self) -> SpanContext:
        """The same however often it is asked for."""
        origin = self._origin
        context = SpanContext(origin.trace_id, self._number, False, origin.flags, origin.trace_state)
        self._context = context
        return context

    enter, leave = enter, leave

    def ended(self, outcome: Outcome | None, error: BaseException | None) -> None:
        try:
            how = "handed_back" if outcome is None else outcome.end
            if self._whole or how not in GOOD:
                end(self, outcome, error)
            elif self._end_time is None:
                self._how, self._end_time = how, time_ns()
                self._spans.on_end(self)
        except Exception:
            self._spans.safe.tell()

    def end(self, end_time: int | None = None) -> None:
        if self._whole:
            super().end(end_time)
        elif self._end_time is None:
            self._end_time = end_time or time_ns()
            self._spans.on_end(self)

    # --- touched ------------------------------------------------------------------------------------------
    def _fill(self) -> bool:
        """Have all that a span of the SDK has. False when it is over: then nothing can be changed any more."""
        with _filling:
            if not self._whole and self._end_time is None:
                tracer, began = self._spans.tracer, self._start_time
                super().__init__(
                    name=self._name,
                    context=self.get_span_context(),
                    parent=self._origin.parent,
                    sampler=tracer.sampler,
                    resource=tracer.resource,
                    attributes=self._described(),
                    span_processor=tracer.span_processor,
                    kind=self._kind,
                    links=self._origin.links,
                    instrumentation_info=tracer.instrumentation_info,
                    record_exception=False,
                    limits=tracer._span_limits,
                    instrumentation_scope=tracer._instrumentation_scope,
                )
                self._start_time, self._whole = began, True
            return self._whole

    def set_attributes(self, attributes: Any) -> None:
        if self._fill():
            super().set_attributes(attributes)

    def set_attribute(self, key: str, value: Any) -> None:
        if self._fill():
            super().set_attribute(key, value)

    def add_event(self, name: str, attributes: Any = None, timestamp: int | None = None) -> None:
        if self._fill():
            super().add_event(name, attributes, timestamp)

    def add_link(self, context: SpanContext, attributes: Any = None) -> None:
        if self._fill():
            super().add_link(context, attributes)

    def update_name(self, name: str) -> None:
        if self._fill():
            super().update_name(name)

    def set_status(self, status: Any, description: str | None = None) -> None:
        if self._fill():
            super().set_status(status, description)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._fill():
            super().__exit__(kind, error, traceback)
