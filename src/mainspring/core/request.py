"""The request under way, if there is one: whoever writes an audit record finds its id here.

It travels beside the call instead of through it: every command would have to pass on a value that only the audit
record reads.
"""

from __future__ import annotations

from contextvars import ContextVar

REQUEST_ID: ContextVar[str | None] = ContextVar("mainspring_request_id", default=None)
