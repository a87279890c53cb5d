"""OpenTelemetry spans: one where executions are made (PRODUCER), one around every try of a handler (CONSUMER).

Only `opentelemetry-api` is used; which SDK there is, and where spans go, is the application's choice. The context of
the producer's span is kept with the execution. The consumer's span is its child and is linked to it: both are found in
one trace, and a batch that many executions came from stays visible. Whatever goes wrong in an SDK is told once and
forgotten: jobs go on.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, ParamSpec, TypeAlias, TypeVar

import msgspec
from opentelemetry import context as otel
from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from ..core.request import TRACE_CONTEXT
from ..model.changes import Added
from ..model.execution import Execution
from ..model.outcomes import Outcome
from ..model.trace_context import joined, trace_id_of
from .origins import NO_CONTEXT, origin_of
from .quick_spans import QuickSpan, quick_spans

SYSTEM = "mainspring"
_OPERATIONS = {"manual": "trigger", "api": "trigger", "schedule": "tick", "catch_up": "tick"}
"""What makes an execution is named after its trigger, except for these."""
(_CURRENT,) = trace.set_span_in_context(trace.INVALID_SPAN, NO_CONTEXT)
"""Under which a context holds its span."""
_GOOD = frozenset({"completed", "fanned_out", "snoozed", "handed_back", "cancelled"})

Cause: TypeAlias = tuple[str | None, str]
"""Trace context and trigger: executions of one batch that have these in common come from one span."""
P = ParamSpec("P")
T = TypeVar("T")

_log = logging.getLogger("mainspring.observe")


class Safe:
    """Calls that never raise. What they would have raised is told once for each kind of error."""

    def __init__(self) -> None:
        self._told: set[type] = set()

    def __call__(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T | None:
        try:
            return function(*args, **kwargs)
        except Exception:
            self.tell()
            return None

    def tell(self) -> None:
        """Of the error that is being handled."""
        kind = sys.exc_info()[0]
        if kind is not None and kind not in self._told:
            self._told.add(kind)
            _log.warning("tracing failed; jobs go on without these spans", exc_info=True)


class Tracing:
    """`provider` is a tracer provider; without one, that which the application has set for the process."""

    def __init__(self, provider: trace.TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer(SYSTEM, tracer_provider=provider)
        self._quick = quick_spans(self._tracer)
        self._safe = Safe()

    @contextmanager
    def outside(self) -> Iterator[None]:
        """What is started in here does not belong to the span that is current: it lives longer."""
        token = otel.attach(NO_CONTEXT)
        try:
            yield
        finally:
            otel.detach(token)

    # --- making executions --------------------------------------------------------------------------------
    def send(self, executions: Sequence[Execution]) -> Sending | None:
        """A span for a batch; None when there is nothing in it that will run."""
        return self._safe(self._send, executions)

    def _send(self, executions: Sequence[Execution]) -> Sending | None:
        groups: dict[Cause, list[Execution]] = {}
        for each in executions:
            if not each.state.final:
                groups.setdefault((each.traceparent, each.trigger), []).append(each)
        spans = {cause: self._producer(made, cause[0]) for cause, made in groups.items()}
        return Sending(executions, spans, self._safe) if spans else None

    def _producer(self, executions: Sequence[Execution], given: str | None) -> Span:
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
    def begin(self, execution: Execution, worker: str) -> Trying | Unsampled | None:
        """The span of one try."""
        try:
            return self._begin(execution, worker)
        except Exception:
            self._safe.tell()
            return None

    def _begin(self, execution: Execution, worker: str) -> Trying | Unsampled:
        origin, quick = origin_of(execution.traceparent), self._quick
        if origin is not None and quick is not None and quick.usable:
            if not origin.sampled:
                return Unsampled(origin.context)
            return Trying(QuickSpan(quick, *_described(execution, worker), origin), self._safe)
        parent, links = (NO_CONTEXT, ()) if origin is None else (origin.context, origin.links)
        name, attributes = _described(execution, worker)
        span = self._tracer.start_span(name, parent, SpanKind.CONSUMER, attributes, links, record_exception=False)
        return Trying(span, self._safe)


def _described(execution: Execution, worker: str) -> tuple[str, dict[str, Any]]:
    """The name and the attributes of a try's span."""
    name, common = _of_tries(execution.queue, execution.job, execution.trigger, worker)
    attributes = {**common, "messaging.message.id": execution.id, "mainspring.attempt": execution.attempt}
    if execution.tenant is not None:
        attributes["mainspring.tenant"] = execution.tenant
    return name, attributes


@lru_cache(maxsize=1024)
def _of_tries(queue: str, job: str, trigger: str, worker: str) -> tuple[str, dict[str, Any]]:
    """What the spans of many tries have in common."""
    return f"process {queue}", {
        "messaging.system": SYSTEM,
        "messaging.operation.type": "process",
        "messaging.operation.name": "process",
        "messaging.destination.name": queue,
        "messaging.client.id": worker,
        "mainspring.job": job,
        "mainspring.trigger": trigger,
    }


class Sending:
    """Executions on their way to the store, and the spans they come from."""

    def __init__(self, given: Sequence[Execution], spans: Mapping[Cause, Span], safe: Safe) -> None:
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


class Trying:
    """One try of an execution, seen as a span."""

    __slots__ = ("_safe", "_span", "_token")

    def __init__(self, span: Span, safe: Safe) -> None:
        self._span, self._safe = span, safe

    def enter(self) -> Callable[[], None]:
        """Make it the current span, here: in the handler's task or thread. Returns how to leave."""
        self._token = otel.attach(otel.Context({_CURRENT: self._span}))
        return self._leave

    def _leave(self) -> None:
        if trace.get_current_span() is self._span:  # it may be left in another task than it was entered in
            self._safe(otel.detach, self._token)

    def end(self, outcome: Outcome | None, error: BaseException | None) -> None:
        """`outcome` is None when the handler was stopped before its first step."""
        try:
            _tried(self._span, outcome, error)
        except Exception:
            self._safe.tell()


class Unsampled:
    """One try of an execution whose trace nobody records: no span is made for it, and those of its handler know why."""

    __slots__ = ("_context", "_token")

    def __init__(self, context: otel.Context) -> None:
        self._context = context

    def enter(self) -> Callable[[], None]:
        self._token = otel.attach(self._context)
        return self._leave

    def _leave(self) -> None:
        if otel.get_current() is self._context:
            otel.detach(self._token)

    def end(self, outcome: Outcome | None, error: BaseException | None) -> None: ...


def _tried(span: Span, outcome: Outcome | None, error: BaseException | None) -> None:
    end = "handed_back" if outcome is None else outcome.end
    if isinstance(span, QuickSpan):
        span.note("mainspring.outcome", end)
    elif span.is_recording():
        span.set_attribute("mainspring.outcome", end)
    if end not in _GOOD and span.is_recording():
        if error is not None:
            span.record_exception(error)
            span.set_attribute("error.type", "timeout" if end == "timeout" else type(error).__qualname__)
        span.set_status(Status(StatusCode.ERROR, None if outcome is None else outcome.error))
    span.end()


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


def _carrying(execution: Execution, context: tuple[str, str] | None) -> Execution:
    if context is None or execution.state.final:
        return execution
    return msgspec.structs.replace(execution, trace_id=context[0], traceparent=context[1])


def _with_execution(added: Added, execution: Execution) -> Added:
    return Added(added.id, added.outcome, added.holder, execution)
