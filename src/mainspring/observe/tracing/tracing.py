"""OpenTelemetry spans: one where executions are created (PRODUCER), one around every attempt of a handler (CONSUMER).

Only the public `opentelemetry-api` is used; the application chooses the SDK and the exporter. The context of the
producer's span is stored with the execution. The consumer's span is a child of it and links to it, so that both belong
to one trace and the batch that an execution came from stays visible. An error raised by the SDK is logged once and
never reaches a job.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import Token
from functools import lru_cache
from typing import Any, ParamSpec, TypeAlias, TypeVar

import msgspec
from opentelemetry import context as otel
from opentelemetry import trace
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ...core.auditing import TRACE_CONTEXT
from ...model.execution import ExecutionRow, Outcome
from ...model.store.messages import Added
from ...model.values.payload import class_name
from ...model.values.trace_context import joined, split, trace_id_of

SYSTEM = "mainspring"
OUTCOME = "mainspring.outcome"
NO_CONTEXT = otel.Context()

_OPERATIONS = {"manual": "trigger", "api": "trigger", "schedule": "tick", "catch_up": "tick"}
"""Operations that are not named after the trigger of their executions."""
_NO_ERROR = frozenset({"completed", "fanned_out", "snoozed", "handed_back", "cancelled", "skipped"})

Cause: TypeAlias = tuple[str | None, str]
"""Trace context and trigger: executions of one batch that share both come from one span."""
P = ParamSpec("P")
T = TypeVar("T")

_log = logging.getLogger("mainspring.observe")


class SafeCalls:
    """Calls functions without letting them raise. Each type of error is logged once."""

    def __init__(self) -> None:
        self._logged: set[int] = set()

    def __call__(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T | None:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            if id(type(error)) not in self._logged:
                self._logged.add(id(type(error)))
                _log.warning("tracing failed; jobs go on without these spans", exc_info=True)
            return None


class Tracing:
    """`provider` is a tracer provider, by default the process-wide provider."""

    def __init__(self, provider: trace.TracerProvider | None = None) -> None:
        self._tracer, self._safe = trace.get_tracer(SYSTEM, tracer_provider=provider), SafeCalls()

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Tasks started inside this block outlive the current span, so they do not belong to it."""
        token = otel.attach(NO_CONTEXT)
        try:
            yield
        finally:
            otel.detach(token)

    # --- creating executions ------------------------------------------------------------------------------
    def send(self, executions: Sequence[ExecutionRow]) -> TracedBatch | None:
        """Start the producer spans of a batch; None if nothing in it will run."""
        return self._safe(self._send, executions)

    def _send(self, executions: Sequence[ExecutionRow]) -> TracedBatch | None:
        groups: dict[Cause, list[ExecutionRow]] = {}
        for each in executions:
            if not each.state.final:
                groups.setdefault((each.traceparent, each.trigger), []).append(each)
        spans = {cause: self._producer(group, cause[0]) for cause, group in groups.items()}
        return TracedBatch(executions, spans, self._safe) if spans else None

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
        return self._tracer.start_span(name, _producer_context(given), kind=SpanKind.PRODUCER, attributes=attributes)

    # --- running them -------------------------------------------------------------------------------------
    def begin(self, execution: ExecutionRow, worker: str) -> AttemptSpan | None:
        """Start the span of one attempt."""
        return self._safe(self._begin, execution, worker)

    def _begin(self, execution: ExecutionRow, worker: str) -> AttemptSpan:
        origin = origin_of(execution.traceparent)
        attributes: dict[str, Any] = {
            "messaging.system": SYSTEM,
            "messaging.operation.type": "process",
            "messaging.operation.name": "process",
            "messaging.destination.name": execution.queue,
            "messaging.client.id": worker,
            "messaging.message.id": execution.id,
            "mainspring.job": execution.job,
            "mainspring.trigger": execution.trigger,
            "mainspring.attempt": execution.failures + 1,
        }
        if execution.tenant is not None:
            attributes["mainspring.tenant"] = execution.tenant
        span = self._tracer.start_span(
            f"process {execution.queue}",
            NO_CONTEXT if origin is None else origin,
            SpanKind.CONSUMER,
            attributes,
            () if origin is None else (Link(_span_context(origin)),),
            record_exception=False,
        )
        return AttemptSpan(span, self._safe)


class AttemptSpan:
    """The span around one attempt of a handler."""

    __slots__ = ("_safe", "_span")

    def __init__(self, span: Span, safe: SafeCalls) -> None:
        self._span, self._safe = span, safe

    def enter(self) -> Token[otel.Context]:
        """Make it the current span in the handler's task or thread."""
        return otel.attach(trace.set_span_in_context(self._span, NO_CONTEXT))

    def leave(self, entered: Any) -> None:
        if trace.get_current_span() is self._span:  # the caller may have moved to another task since `enter`
            otel.detach(entered)

    def headers(self) -> dict[str, str]:
        """The W3C trace context of this span, for a handler that runs in another process."""
        return self._safe(self._headers) or {}

    def _headers(self) -> dict[str, str]:
        carrier: dict[str, str] = {}
        TraceContextTextMapPropagator().inject(carrier, trace.set_span_in_context(self._span, NO_CONTEXT))
        return carrier

    def ended(self, outcome: Outcome | None, error: BaseException | None) -> None:
        """`outcome` is None when the handler was stopped before its first step."""
        self._safe(self._end, outcome, error)

    def _end(self, outcome: Outcome | None, error: BaseException | None) -> None:
        span, end = self._span, "handed_back" if outcome is None else outcome.end
        if span.is_recording():
            span.set_attribute(OUTCOME, end)
            if end not in _NO_ERROR:
                if outcome is not None and (error is not None or outcome.error is not None):
                    name, message = _error_name(outcome, error), outcome.error or ""
                    span.add_event("exception", _exception(name, message, outcome.traceback))
                    span.set_attribute("error.type", "timeout" if end == "timeout" else name)
                span.set_status(Status(StatusCode.ERROR, None if outcome is None else outcome.error))
        span.end()


def _error_name(outcome: Outcome, error: BaseException | None) -> str:
    """The class of the error. Of a handler that ran in another process only the text is here, if there was an error."""
    if error is not None:
        return class_name(type(error))
    return (outcome.error or "").partition(":")[0] if outcome.reason == "error" else outcome.reason or outcome.end


def _exception(name: str, error: str, traceback: str | None) -> dict[str, str]:
    """The attributes of the event, from the text of the outcome: `record_exception` would run the code of the exception
    once more."""
    return {
        "exception.type": name,
        "exception.message": error.removeprefix(f"{name}: "),
        "exception.stacktrace": traceback or "",
        "exception.escaped": "False",
    }


class TracedBatch:
    """Executions on their way to the store, and the spans they come from."""

    def __init__(self, given: Sequence[ExecutionRow], spans: Mapping[Cause, Span], safe: SafeCalls) -> None:
        self._spans, self._safe = spans, safe
        contexts = {cause: _stored_context(span) for cause, span in spans.items()}
        self.executions = [_with_context(each, contexts.get((each.traceparent, each.trigger))) for each in given]

    def stored(self, added: Sequence[Added]) -> list[Added]:
        """End the spans. Returns the store's answer with the executions as they were stored."""
        outcomes = frozenset[str](each.outcome for each in added)
        for span in self._spans.values():
            self._safe(_end_sent, span, outcomes)
        pairs = zip(added, self.executions, strict=True)
        return [Added(each.id, each.outcome, each.holder, execution) for each, execution in pairs]

    def failed(self, error: BaseException) -> None:
        for span in self._spans.values():
            self._safe(_end_failed, span, error)


def _end_sent(span: Span, outcomes: frozenset[str]) -> None:
    if len(outcomes) == 1:
        span.set_attribute(OUTCOME, next(iter(outcomes)))
    span.end()


def _end_failed(span: Span, error: BaseException) -> None:
    span.record_exception(error)
    span.set_attribute("error.type", type(error).__qualname__)
    span.set_status(Status(StatusCode.ERROR, str(error)))
    span.end()


# ---------------------------------------------------------------- contexts


@lru_cache(maxsize=1024)  # executions of one batch share their context
def origin_of(context: str | None) -> otel.Context | None:
    """The context stored with an execution, with the span that created it; None if it names no span."""
    if context is None or trace_id_of(context) is None:
        return None
    parent, state = split(context)
    headers = {"traceparent": parent} if state is None else {"traceparent": parent, "tracestate": state}
    found = TraceContextTextMapPropagator().extract(headers, NO_CONTEXT)
    return found if _span_context(found).is_valid else None


def _span_context(context: otel.Context | None = None) -> SpanContext:
    return trace.get_current_span(context).get_span_context()


def _producer_context(given: str | None) -> otel.Context | None:
    """The parent of a producer's span: the current context (None), unless the caller or the request names another
    trace."""
    here = _span_context()
    given = given or (None if here.is_valid else TRACE_CONTEXT.get())
    if given is None or trace_id_of(given) is None:
        return None
    origin = origin_of(given)
    if origin is None:
        return NO_CONTEXT
    return None if here.is_valid and here.trace_id == _span_context(origin).trace_id else origin


def _stored_context(span: Span) -> tuple[str, str] | None:
    """The trace id and the context to store; None where no SDK creates real spans."""
    headers: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(headers, trace.set_span_in_context(span, NO_CONTEXT))
    context = joined(headers.get("traceparent"), headers.get("tracestate"))
    return None if context is None else (trace.format_trace_id(span.get_span_context().trace_id), context)


def _with_context(execution: ExecutionRow, context: tuple[str, str] | None) -> ExecutionRow:
    if context is None or execution.state.final:
        return execution
    return msgspec.structs.replace(execution, trace_id=context[0], traceparent=context[1])
