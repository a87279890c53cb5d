"""How one try of an execution went: the value that the runner hands to `core.decide`."""

from __future__ import annotations

import msgspec

from .execution import AttemptEnd
from .instants import Micros


class Outcome(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The end of one try. `retryable` matters for failures, `delay` for snoozes, the JSON texts for every end."""

    end: AttemptEnd
    started: Micros
    ended: Micros
    worker: str
    error: str | None = None
    traceback: str | None = None
    reason: str | None = None
    retryable: bool = True
    delay: float = 0.0
    cpu_ms: float | None = None
    memory_mb: float | None = None
    result_json: str | None = None
    counters_json: str | None = None
    metadata_json: str | None = None
    begun: bool = True
    """False for a claim that was given back, or stopped, before the handler was called."""
