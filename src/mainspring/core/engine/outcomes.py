"""How an attempt ended: from what the handler returned or raised to an `Outcome`.

The worker uses it for handlers that run in its own process, and a child process for those that run there. Nothing here
raises: whatever goes wrong while an ending is described is an ending as well, with what could be found out about it.
"""

from __future__ import annotations

import asyncio
import types
from typing import Any, NamedTuple

import msgspec

from ...model.defaults import PAYLOAD_LIMIT
from ...model.errors import ExecutionCancelled, FailedAttempt, NonRetryable, RetryAfter, Skip
from ...model.execution import AskedBy, AttemptEnd, ExecutionRow, Outcome
from ...model.time.instants import SECOND, Micros
from ...model.values.payload import class_name, plainly, safe_json, safe_text
from ..declaring.context import RunningContext
from ..declaring.signature import PayloadMismatch
from ..ports import Clock, ProcessDied, StopKind
from ..rules.fingerprint import fingerprint
from ..rules.transitions import MISMATCH
from .descriptions import (
    ERROR_LIMIT,
    describe_error,
    describe_traceback,
    fingerprint_of,
    is_plain,
    is_plain_error,
    is_retryable,
)

DESCRIBING = 5.0
"""Seconds that an exception or a result of the application's own gets to describe itself."""

REASON_LIMIT = 1_000

ASKED_BY: dict[StopKind | None, AskedBy] = {"timeout": "timeout", "cancelled": "cancel"}
_INTERRUPTIONS = (asyncio.CancelledError, ExecutionCancelled, TimeoutError)
OUT_OF_MEMORY = "out_of_memory"
CPU_LIMIT = "cpu_limit"


class CpuLimitExceeded(ExecutionCancelled):
    """Raised in a handler that has used more CPU time than its `max_cpu`. Do not catch it: it ends the handler."""


class FannedOut(NamedTuple):
    """What the attempt of a parent returns: how many tenants have executions now."""

    total: int


class Attempt:
    """One attempt at an execution: what its outcome depends on. `began` and `ended` are on the monotonic clock."""

    __slots__ = ("began", "context", "ended", "entered", "execution", "limit", "overran", "started", "stopped")

    def __init__(self, execution: ExecutionRow, context: RunningContext, started: Micros, began: float) -> None:
        self.execution = execution
        self.context = context
        self.started = started
        self.began = began
        self.ended: float | None = None
        self.stopped: StopKind | None = None
        self.entered = False
        self.overran = False
        self.limit: float | None = None

    @property
    def asked_by(self) -> AskedBy | None:
        return ASKED_BY.get(self.stopped)


class Outcomes:
    """Makes the outcomes of one worker's attempts."""

    def __init__(self, clock: Clock, worker: str) -> None:
        self._clock, self._worker = clock, worker

    def quick(self, attempt: Attempt, value: Any, cpu_ms: float | None) -> Outcome | None:
        """The outcome of nearly all handlers that return: no result, or an object of plain scalars. None for others."""
        text: str | None = None
        if attempt.context.own_metadata or not (value is None or (text := _quick_json(value))):
            return None
        return self.ended(attempt, "completed", cpu_ms, result_json=text)

    def of(self, attempt: Attempt, value: Any, error: BaseException | None, cpu_ms: float | None) -> Outcome:
        """Never raises: this is the last net under a handler."""
        try:
            return self._classify(attempt, value, error, cpu_ms)
        except BaseException as broken:
            return self.undescribed(attempt, value, error, f"{class_name(type(broken))} was raised")

    def undescribed(self, attempt: Attempt, value: Any, error: BaseException | None, reason: str) -> Outcome:
        """What can be said without looking any closer. A result that cannot be described does not undo the work."""
        text = f"{class_name(type(value if error is None else error))} could not be described: {reason}"
        if error is None:
            return self.ended(attempt, "completed", None, keep=False, result_json=safe_json(f"<{text}>", PAYLOAD_LIMIT))
        found = fingerprint(class_name(type(error)), "")
        return self.ended(
            attempt, "failed", None, keep=False, error=text, traceback=text, reason="error", fingerprint=found
        )

    def died(self, attempt: Attempt, death: ProcessDied) -> Outcome:
        """The process of the handler ended before the handler did. If it was asked to stop, that is why."""
        cpu_ms, memory_mb = death.cpu_ms, death.memory_mb
        if attempt.stopped in ("handed_back", "lost"):
            return self.ended(attempt, "handed_back", cpu_ms, memory_mb=memory_mb)
        if attempt.stopped == "cancelled":
            return self.ended(attempt, "cancelled", cpu_ms, reason=attempt.execution.cancel_reason, memory_mb=memory_mb)
        if attempt.stopped == "timeout":
            message = f"{timeout_message(attempt)}; {death.error}"
            return self.ended(attempt, "timeout", cpu_ms, error=message, traceback=death.traceback, memory_mb=memory_mb)
        return self.ended(
            attempt,
            "failed",
            cpu_ms,
            error=death.error,
            traceback=death.traceback,
            reason=death.reason,
            memory_mb=memory_mb,
        )

    def returned(self, attempt: Attempt, outcome: Outcome) -> Outcome:
        """The outcome that a child process has described, with what only the worker knows."""
        overran = attempt.asked_by if outcome.end == "completed" else None
        return msgspec.structs.replace(outcome, ended=self._end_of(attempt), overran=overran)

    def _classify(self, attempt: Attempt, value: Any, error: BaseException | None, cpu_ms: float | None) -> Outcome:
        if type(value) is FannedOut:
            return self._fanned_out(attempt, value.total)
        if error is None:
            result = None if value is None else safe_json(value, PAYLOAD_LIMIT)
            return self.ended(attempt, "completed", cpu_ms, result_json=result)
        kind = type(error)
        interrupted = issubclass(kind, _INTERRUPTIONS)
        if attempt.stopped == "handed_back" or (attempt.stopped == "lost" and interrupted):
            return self.ended(attempt, "handed_back", cpu_ms)
        if attempt.stopped == "cancelled" and interrupted:
            return self.ended(attempt, "cancelled", cpu_ms, reason=attempt.execution.cancel_reason)
        if attempt.stopped == "timeout" and interrupted:
            shown = describe_traceback(error)
            return self.ended(attempt, "timeout", cpu_ms, error=timeout_message(attempt), traceback=shown)
        if issubclass(kind, Skip):
            return self.ended(attempt, "skipped", cpu_ms, reason=safe_text(error, REASON_LIMIT))
        if issubclass(kind, RetryAfter):
            assert isinstance(error, RetryAfter)
            return self.ended(attempt, "snoozed", cpu_ms, delay=error.delay, error=describe_error(error))
        return self._failed(attempt, error, _failure_reason(attempt, error), cpu_ms)

    def _fanned_out(self, attempt: Attempt, total: int) -> Outcome:
        """The parent waits for its tenants from now on; without tenants it is complete."""
        if total:
            attempt.context.count(total=total)
            return self.ended(attempt, "fanned_out", None)
        counts = {"total": 0, "success": 0, "failed": 0}
        attempt.context.count(**counts)
        return self.ended(attempt, "completed", None, result_json=safe_json(counts, PAYLOAD_LIMIT))

    def _failed(self, attempt: Attempt, error: BaseException, reason: str, cpu_ms: float | None) -> Outcome:
        if type(error) is FailedAttempt:  # of a handler of Mainspring's own: its message says all
            own: dict[str, Any] = {"error": safe_text(error, ERROR_LIMIT), "delay": error.delay}
        else:
            own = {"error": describe_error(error), "traceback": describe_traceback(error)}
            if reason == "error":
                own["fingerprint"] = fingerprint_of(error, own["error"])
        retryable = is_retryable(error, attempt.execution.rules.non_retryable)
        return self.ended(attempt, "failed", cpu_ms, reason=reason, retryable=retryable, **own)

    def ended(
        self, attempt: Attempt, end: AttemptEnd, cpu_ms: float | None, *, keep: bool = True, **details: Any
    ) -> Outcome:
        """`keep` is false if the handler's counters and metadata must not be looked at."""
        if attempt.stopped is not None and (end == "completed" or attempt.overran):
            details["overran"] = attempt.asked_by
        kept = attempt.context.kept() if keep else None
        if kept is not None:
            details["counters_json"], details["metadata_json"] = kept
        if tags := attempt.context.tags:
            details["labels"] = tags
        return Outcome(
            end=end,
            started=attempt.started,
            ended=self._end_of(attempt),
            worker=self._worker,
            cpu_ms=cpu_ms,
            **details,
        )

    def _end_of(self, attempt: Attempt) -> Micros:
        ended = self._clock.monotonic() if attempt.ended is None else attempt.ended
        return attempt.started + round((ended - attempt.began) * SECOND)


def is_plain_ending(attempt: Attempt, value: Any, error: BaseException | None) -> bool:
    """Whether the attempt can be described without running code of the application."""
    try:
        if type(value) is FannedOut:
            return True
        return is_plain(value) and (error is None or is_plain_error(error)) and is_plain(attempt.context.own_metadata)
    except BaseException:
        return False


def timeout_message(attempt: Attempt) -> str:
    return f"timed out after {attempt.limit:g} s"


def finished(value: Any) -> Any:
    """Refuse a coroutine that a handler returns: nobody would run it, and the attempt would count as done."""
    if type(value) is types.CoroutineType:
        value.close()
        raise NonRetryable(
            "the handler returned a coroutine that nobody awaits: await it, or declare it with async def"
        )
    return value


def _failure_reason(attempt: Attempt, error: BaseException) -> str:
    kind = type(error)
    if not attempt.entered and issubclass(kind, PayloadMismatch):
        return MISMATCH
    if kind is CpuLimitExceeded:
        return CPU_LIMIT
    if issubclass(kind, MemoryError) and attempt.execution.rules.max_address_space is not None:
        return OUT_OF_MEMORY
    return "error"


def _quick_json(value: Any) -> str | None:
    """The JSON text of an object of plain scalars; None for everything else."""
    if type(value) is not dict:
        return None
    try:
        text = plainly(value)
    except BaseException:
        return None
    return None if text is None or len(text) > PAYLOAD_LIMIT else text.decode()
