"""The request under way, if there is one: whoever writes an audit record finds its id here, and whoever makes an
execution the trace it belongs to.

They travel beside the call instead of through it: every command would have to pass on values that only the last step
reads.
"""

from __future__ import annotations

from contextvars import ContextVar

REQUEST_ID: ContextVar[str | None] = ContextVar("mainspring_request_id", default=None)
TRACE_CONTEXT: ContextVar[str | None] = ContextVar("mainspring_trace_context", default=None)
"""As `model.values.trace_context` writes it."""
