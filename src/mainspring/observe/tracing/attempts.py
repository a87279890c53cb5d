"""One try of an execution, seen as a span."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from contextvars import Token
from functools import lru_cache
from typing import Any, ParamSpec, TypeVar

from opentelemetry import context as otel
from opentelemetry import trace
from opentelemetry.context import Context, attach
from opentelemetry.trace import INVALID_SPAN_CONTEXT, NonRecordingSpan, Span, SpanContext, Status, StatusCode

from ...model.execution import Outcome
from .origins import CURRENT, origin_of

SYSTEM = "mainspring"
GOOD = frozenset({"completed", "fanned_out", "snoozed", "handed_back", "cancelled"})
OUTCOME = "mainspring.outcome"

P = ParamSpec("P")
T = TypeVar("T")

_log = logging.getLogger("mainspring.observe")


class Kin:
    """What the spans of many tries have in common."""

    __slots__ = ("_attributes", "name")

    def __init__(self, queue: str, job: str, trigger: str, worker: str) -> None:
        self.name = f"process {queue}"
        self._attributes: dict[str, Any] = {
            "messaging.system": SYSTEM,
            "messaging.operation.type": "process",
            "messaging.operation.name": "process",
            "messaging.destination.name": queue,
            "messaging.client.id": worker,
            "mainspring.job": job,
            "mainspring.trigger": trigger,
        }

    def attributes_of(self, execution_id: str, attempt: int, tenant: str | None) -> dict[str, Any]:
        attributes = {**self._attributes, "messaging.message.id": execution_id, "mainspring.attempt": attempt}
        if tenant is not None:
            attributes["mainspring.tenant"] = tenant
        return attributes


kin_of = lru_cache(maxsize=1024)(Kin)


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


def enter(span: Span) -> Token[Context]:
    """Make it the current span, here: in the handler's task or thread."""
    return attach(Context({CURRENT: span}))


def leave(span: Span, entered: Any) -> None:
    if trace.get_current_span() is span:  # it may be left in another task than it was entered in
        otel.detach(entered)


class Trying:
    __slots__ = ("_safe", "_span")

    def __init__(self, span: Span, safe: Safe) -> None:
        self._span, self._safe = span, safe

    def enter(self) -> Token[Context]:
        return enter(self._span)

    def leave(self, entered: Any) -> None:
        leave(self._span, entered)

    def ended(self, outcome: Outcome | None, error: BaseException | None) -> None:
        self._safe(end, self._span, outcome, error)


class Unsampled(NonRecordingSpan):
    """No span is made for a try whose trace nobody records. Its handler belongs to that trace nevertheless: who asks
    finds the span that the execution comes from."""

    def __init__(self, context: str) -> None:
        self._given = context

    def get_span_context(self) -> SpanContext:
        origin = origin_of(self._given)
        return INVALID_SPAN_CONTEXT if origin is None else origin.parent

    enter, leave = enter, leave

    def ended(self, outcome: Outcome | None, error: BaseException | None) -> None: ...

    def __repr__(self) -> str:
        return f"Unsampled({self._given!r})"


def end(span: Span, outcome: Outcome | None, error: BaseException | None) -> None:
    """`outcome` is None when the handler was stopped before its first step."""
    how = "handed_back" if outcome is None else outcome.end
    if span.is_recording():
        span.set_attribute(OUTCOME, how)
        if how not in GOOD:
            if error is not None:
                span.record_exception(error)
                span.set_attribute("error.type", "timeout" if how == "timeout" else type(error).__qualname__)
            span.set_status(Status(StatusCode.ERROR, None if outcome is None else outcome.error))
    span.end()
