"""Where an execution comes from: the span that made it, found in the trace context that is kept with it."""

from __future__ import annotations

import re
from functools import lru_cache

from opentelemetry import context as otel
from opentelemetry.trace import (
    INVALID_SPAN,
    Link,
    NonRecordingSpan,
    SpanContext,
    TraceFlags,
    TraceState,
    set_span_in_context,
)

from ...model.values.trace_context import split, trace_id_of

NO_CONTEXT = otel.Context()
(CURRENT,) = set_span_in_context(INVALID_SPAN, NO_CONTEXT)
"""The key under which a context holds its span."""
_USUAL = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_UNSAMPLED = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f][02468ace](?: |$)")
_SEEN_BELOW = int(TraceFlags.SAMPLED) | int(getattr(TraceFlags, "RANDOM_TRACE_ID", 0))
_FLAGS = [TraceFlags(number) for number in range(256)]


class Origin:
    """`parent` is the span an execution comes from; `flags` are those of spans below it, `sampled` what they say."""

    __slots__ = ("_links", "flags", "parent", "sampled", "trace_id", "trace_state")

    def __init__(self, parent: SpanContext) -> None:
        self.parent = parent
        self.trace_id, self.trace_state = parent.trace_id, parent.trace_state
        self.flags = _FLAGS[parent.trace_flags & _SEEN_BELOW]
        self.sampled = self.flags.sampled
        self._links: tuple[Link, ...] = ()

    @property
    def links(self) -> tuple[Link, ...]:
        """To the parent."""
        if not self._links:
            self._links = (Link(self.parent),)
        return self._links

    @property
    def context(self) -> otel.Context:
        """The context below which the span of a consumer begins."""
        return otel.Context({CURRENT: NonRecordingSpan(self.parent)})


@lru_cache(maxsize=1024)
def origin_of(context: str | None) -> Origin | None:
    """None for an execution that nobody traced when it was made. Kept for a while: those of a batch share theirs."""
    found = None if context is None else _span_context(context)
    return Origin(found) if found is not None and found.is_valid else None


def is_unsampled(context: str) -> bool:
    """Whether it says that nobody records this trace. A look at one letter is enough for the others."""
    return len(context) > 54 and context[54] in "02468ace" and _UNSAMPLED.match(context) is not None


def _span_context(context: str) -> SpanContext | None:
    usual = _USUAL.fullmatch(context)
    if usual is not None:
        trace_id, span_id, flags = usual.groups()
        return SpanContext(int(trace_id, 16), int(span_id, 16), True, _FLAGS[int(flags, 16)])
    if trace_id_of(context) is None:
        return None
    parent, state = split(context)
    _, trace_id, span_id, flags, *_ = parent.split("-")
    states = TraceState() if state is None else TraceState.from_header([state])
    try:
        return SpanContext(int(trace_id, 16), int(span_id, 16), True, TraceFlags(int(flags, 16)), states)
    except ValueError:
        return None
