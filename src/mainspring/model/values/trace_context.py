"""The W3C trace context of an execution, as it is kept: `traceparent`, and after a space `tracestate` if there is one.

>>> trace_id_of("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01 vendor=1")
'4bf92f3577b34da6a3ce929d0e0e4736'
"""

from __future__ import annotations

from typing import Any

MAX_TRACEPARENT = 200
MAX_TRACESTATE = 512
_HEX = frozenset("0123456789abcdef")


def joined(traceparent: str | None, tracestate: str | None) -> str | None:
    """Both in one text. A state that is too long, or not printable, is left out: the context holds without it."""
    if not traceparent or not tracestate or len(tracestate) > MAX_TRACESTATE or not tracestate.isprintable():
        return traceparent
    return f"{traceparent} {tracestate}"


def split(context: str) -> tuple[str, str | None]:
    """`traceparent`, and `tracestate` or None."""
    parent, _, state = context.partition(" ")
    return parent, state or None


def trace_id_of(context: Any) -> str | None:
    """The trace id inside, or None when it is none of ours to follow: others write it, and not always well."""
    if not isinstance(context, str) or len(context) > MAX_TRACEPARENT + MAX_TRACESTATE + 1 or not context.isprintable():
        return None
    parent, _ = split(context)
    parts = parent.split("-")
    valid = len(parent) <= MAX_TRACEPARENT and len(parts) >= 4 and len(parts[1]) == 32
    return parts[1] if valid and _HEX.issuperset(parts[1]) and parts[1].strip("0") else None
