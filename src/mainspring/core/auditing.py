"""Audit records, and the request that a command belongs to.

The id and the trace of an HTTP request travel in context variables: otherwise every command would have to pass on two
values that only its last step reads.
"""

from __future__ import annotations

from contextvars import ContextVar

from ..model.store.messages import Audit
from ..model.time.instants import Micros
from ..model.values.ids import Chance, random_id
from ..model.values.reading import words

REQUEST_ID: ContextVar[str | None] = ContextVar("mainspring_request_id", default=None)
TRACE_CONTEXT: ContextVar[str | None] = ContextVar("mainspring_trace_context", default=None)
"""In the text form of `model.values.trace_context`."""


def audit_record(
    chance: Chance,
    action: str,
    target: str,
    by: str,
    now: Micros,
    before: str | None = None,
    after: str | None = None,
) -> Audit:
    """Who did what to which target. The store writes it in the same step as the change itself."""
    return Audit(
        id=random_id(now, chance),
        at=now,
        actor=words("by", by),
        action=action,
        target=target,
        request_id=REQUEST_ID.get(),
        before=before,
        after=after,
    )
