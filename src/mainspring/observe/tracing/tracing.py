"""OpenTelemetry spans: one where executions are made (PRODUCER), one around every try of a handler (CONSUMER).

Only `opentelemetry-api` is used; which SDK there is, and where spans go, is the application's choice. The context of
the producer's span is kept with the execution. The consumer's span is its child and is linked to it: both are found in
one trace, and a batch that many executions came from stays visible. Whatever goes wrong in an SDK is told once and
forgotten: jobs go on.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from opentelemetry import context as otel
from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from ...core.ports import TracedAttempt
from ...core.request_context import TRACE_CONTEXT
from ...model.execution import ExecutionRow
from ...model.store.messages import Added
from ...model.values.trace_context import joined, trace_id_of
from .attempts import SYSTEM, Safe, Trying, kin_of
from .origins import NO_CONTEXT, origin_of

if TYPE_CHECKING:
    from .quick_spans import QuickSpans

_OPERATIONS = {"manual": "trigger", "api": "trigger", "schedule": "tick", "catch_up": "tick"}
"""What makes an execution is named after its trigger, except for these."""

Cause: TypeAlias = tuple[str | None, str]
"""Trace context and trigger: executions of one batch that have these in common come from one span."""


class Tracing:
    """`provider` is a tracer provider; without one, that which the application has set for the process."""

    def __init__(self, provider: trace.TracerProvider | None = None) -> None:
        self._tracer, self._safe = trace.get_tracer(SYSTEM, tracer_provider=provider), Safe()
        self._quick = _quick_spans(self._tracer, self._safe)

    @contextmanager
    def outside(self) -> Iterator[None]:
        """What is started in here does not belong to the span that is current: it lives longer."""
        token = otel.attach(NO_CONTEXT)
        try:
            yield
        finally:
            otel.detach(token)

    # --- making executions --------------------------------------------------------------------------------
    def send(self, executions: Sequence[ExecutionRow]) -> Sending | None:
        """A span for a batch; None when there is nothing in it that will run."""
        return self._safe(self._send, executions)

    def _send(self, executions: Sequence[ExecutionRow]) -> Sending | None:
        groups: dict[Cause, list[ExecutionRow]] = {}
        for each in executions:
            if not each.state.final:
                groups.setdefault((each.traceparent, each.trigger), []).append(each)
        spans = {cause: self._producer(made, cause[0]) for cause, made in groups.items()}
        return Sending(executions, spans, self._safe) if spans else None

    def _producer(self, executions: Sequence[ExecutionRow], given: str | None) -> Span:
        first = executions[0]
        queue = first.queue if all(each.queue == first.queue for each in executions) else None
        fanned_out = first.tenant is not None and first.parent_id is not None
        operation = "fan_out" if fanned_out else _OPERATIONS.get(first.trigger, first.trigger)
        attributes: dict[str, Any] = {
            "messaging.system": SYSTEM,
            "messaging.operation.type": "send",
            "messaging.operation.name": operation,
            "mainspring.trigger": first.trigger,
        }
        if queue is not None:
            attributes["messaging.destination.name"] = queue
        if all(each.job == first.job for each in executions):
            attributes["mainspring.job"] = first.job
        if len(executions) == 1:
            attributes["messaging.message.id"] = first.id
        else:
            attributes["messaging.batch.message_count"] = len(executions)
        name = f"{operation} {queue}" if queue is not None else operation
        return self._tracer.start_span(name, _parent(given), kind=SpanKind.PRODUCER, attributes=attributes)

    # --- running them -------------------------------------------------------------------------------------
    def begin(self, execution: ExecutionRow, worker: str) -> TracedAttempt | None:
        """The span of one try."""
        try:
            begun = None if self._quick is None else self._quick.begin(execution, worker)
            return begun or self._begin_by_sdk(execution, worker)
        except Exception:
            self._safe.tell()
            return None

    def _begin_by_sdk(self, execution: ExecutionRow, worker: str) -> TracedAttempt:
        origin = origin_of(execution.traceparent)
        parent, links = (NO_CONTEXT, ()) if origin is None else (origin.context, origin.links)
        kin = kin_of(execution.queue, execution.job, execution.trigger, worker)
        attributes = kin.attributes_of(execution.id, execution.failures + 1, execution.tenant)
        span = self._tracer.start_span(kin.name, parent, SpanKind.CONSUMER, attributes, links, record_exception=False)
        return Trying(span, self._safe)


def _quick_spans(tracer: trace.Tracer, safe: Safe) -> QuickSpans | None:
    """None where it is not the SDK for Python that makes spans."""
    if "opentelemetry.sdk.trace" not in sys.modules:
        return None
    try:
        from .quick_spans import quick_spans
    except ImportError:  # a release of it that is built otherwise
        return None
    return quick_spans(tracer, safe)


class Sending:
    """Executions on their way to the store, and the spans they come from."""

    def __init__(self, given: Sequence[ExecutionRow], spans: Mapping[Cause, Span], safe: Safe) -> None:
        self._spans, self._safe = spans, safe
        contexts = {cause: _context_of(span) for cause, span in spans.items()}
        self.executions = [_carrying(each, contexts.get((each.traceparent, each.trigger))) for each in given]

    def stored(self, added: Sequence[Added]) -> list[Added]:
        """The answer of the store, with what it was really given."""
        outcomes = frozenset[str](each.outcome for each in added)
        for span in self._spans.values():
            self._safe(_sent, span, outcomes)
        return [_with_execution(*pair) for pair in zip(added, self.executions, strict=True)]

    def failed(self, error: BaseException) -> None:
        for span in self._spans.values():
            self._safe(_failed, span, error)


def _sent(span: Span, outcomes: frozenset[str]) -> None:
    if len(outcomes) == 1:
        span.set_attribute("mainspring.outcome", next(iter(outcomes)))
    span.end()


def _failed(span: Span, error: BaseException) -> None:
    span.record_exception(error)
    span.set_attribute("error.type", type(error).__qualname__)
    span.set_status(Status(StatusCode.ERROR, str(error)))
    span.end()


# ---------------------------------------------------------------- contexts


def _parent(given: str | None) -> otel.Context | None:
    """The context a producer belongs to: the current one, unless the caller, or the request, named another trace."""
    here = trace.get_current_span().get_span_context()
    given = given or (None if here.is_valid else TRACE_CONTEXT.get())
    if given is None or trace_id_of(given) is None:
        return None
    origin = origin_of(given)
    if origin is None:
        return NO_CONTEXT
    return None if here.is_valid and here.trace_id == origin.parent.trace_id else origin.context


def _context_of(span: Span) -> tuple[str, str] | None:
    """Trace id and the context to keep; None where no SDK makes real spans."""
    found = span.get_span_context()
    if not found.is_valid:
        return None
    trace_id = format(found.trace_id, "032x")
    parent = f"00-{trace_id}-{found.span_id:016x}-{found.trace_flags:02x}"
    return trace_id, joined(parent, found.trace_state.to_header()) or parent


def _carrying(execution: ExecutionRow, context: tuple[str, str] | None) -> ExecutionRow:
    if context is None or execution.state.final:
        return execution
    return msgspec.structs.replace(execution, trace_id=context[0], traceparent=context[1])


def _with_execution(added: Added, execution: ExecutionRow) -> Added:
    return Added(added.id, added.outcome, added.holder, execution)
