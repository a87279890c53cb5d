"""Transitions: pure functions from the outcome of an attempt to the next state. Read this file first.

Every transition of an execution is decided here, as a frozen `Change` that a store applies only if the execution is
still as the decision saw it. No function here waits, reads a clock or rolls dice: time and chance are arguments.

    pending --claim--> running --completed--> completed
       ^                 |  |---failed, budget left: pending again after the backoff
       |                 |  |---failed, budget spent or not retryable---> failed
       |--snooze---------|  |---fanned out---> waiting --children ended---> completed | partial | failed
       |--handed back----|  `---cancelled, skipped---> cancelled, skipped
    insert --key taken--> skipped        pending, waiting --cancel--> cancelled
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

import msgspec
from msgspec import json

from ...model.errors import CommandRefused
from ...model.execution import HELD, PAUSED, AskedBy, AttemptRecord, ExecutionRow, Outcome, State
from ...model.labels import error_label
from ...model.store.messages import CancelRequest, Change
from ...model.time.instants import SECOND, Micros, seconds_to_micros
from ...model.values.reading import SYSTEM_PREFIX, duration_text
from .fingerprint import failure_note

BY_CHILDREN = "children"
"""The reason of a parent that ended because its children had: nobody asked them to stop."""

OVERRAN: dict[AskedBy, str] = {"timeout": "past_timeout", "cancel": "despite_cancel"}
"""The reasons of an execution that completed although its handler had been asked to stop."""

MISMATCH = "payload_mismatch"
"""The reason of an execution whose payload does not fit the handler's signature."""
MISMATCH_PATIENCE = 600.0
"""Seconds for which an execution is handed back because of a mismatch, while other workers may be able to read it."""
MISMATCH_PATIENCE_ALONE = 10.0
"""The same while no other worker has the handler: one may be about to start."""
MISMATCH_FIRST_DELAY, MISMATCH_LONGEST_DELAY = 0.5, 30.0

RUN_TIMEOUT = "run_timeout"
"""The reason of an execution that failed because its run as a whole took too long."""

TIMER_SLACK: Micros = 20_000
"""Timers of event loops may ring a little early."""

ALONE_AFTER = 2
"""Crashes after which an execution runs alone in its worker, so that its neighbours can be ruled out as the cause."""

_RUNNING, _COMPLETED = State.RUNNING, State.COMPLETED
"""Looking up a member of an enumeration takes as long as the rest of a decision."""

_FAILED = frozenset({"failed", "timeout", "worker_lost"})
"""How an attempt ends that belongs to an error group."""

MAX_RECORDED_ATTEMPTS = 1_000
"""Snoozes are free and may go on for ever; past this many attempts only failures and the end are recorded."""


def after_attempt(execution: ExecutionRow, outcome: Outcome, roll: float = 0.5) -> Change:
    """The change that an attempt asks for. `roll` in [0, 1) decides the jitter of a retry."""
    change = _after_attempt(execution, outcome, roll)
    if change.to is _COMPLETED:
        return change
    if change.to is State.FAILED or (change.to is State.PENDING and outcome.begun and outcome.end in _FAILED):
        return _with_failure(execution, outcome, change)
    return change


def _after_attempt(execution: ExecutionRow, outcome: Outcome, roll: float) -> Change:
    match outcome.end:
        case "completed":
            if outcome.overran is not None:
                return _final(execution, outcome, _COMPLETED, OVERRAN[outcome.overran], keep=True)
            return _leave_running(execution, outcome, _COMPLETED)
        case "skipped":
            return _final(execution, outcome, State.SKIPPED, outcome.reason or "skipped")
        case "cancelled":
            return _final(execution, outcome, State.CANCELLED, outcome.reason or execution.cancel_reason or "cancelled")
        case "fanned_out":
            return _after_fan_out(execution, outcome)
        case "snoozed":
            return _again(execution, outcome, delay=outcome.delay)
        case "handed_back":
            return _again(execution, outcome, delay=outcome.delay, reason=outcome.reason)
        case "failed" | "timeout":
            return _after_failure(execution, outcome, roll)
        case "worker_lost":
            return _after_loss(execution, outcome, roll)
        case _:
            assert_never(outcome.end)


def _with_failure(execution: ExecutionRow, outcome: Outcome | None, change: Change) -> Change:
    """With the label and the note of its error group. Handlers of Mainspring's own have none."""
    if execution.job.startswith(SYSTEM_PREFIX):
        return change
    final = change.to is State.FAILED
    reason = (change.reason if final or outcome is None else outcome.reason or outcome.end) or "error"
    note = failure_note(execution, outcome, at=change.at, reason=reason, error=change.error, final=final)
    attempt = change.attempt
    if attempt is not None:
        attempt = msgspec.structs.replace(attempt, error_group=note.group)
    labels = (*change.labels, error_label(note.group))
    return msgspec.structs.replace(change, attempt=attempt, labels=labels, failure=json.encode(note).decode())


def _after_fan_out(execution: ExecutionRow, outcome: Outcome) -> Change:
    """The parent waits for its tenants. If it was asked to stop meanwhile, they are stopped too."""
    if execution.cancel_requested is not None:
        return _final(execution, outcome, State.CANCELLED, execution.cancel_reason)
    return _leave_running(execution, outcome, State.WAITING)


def _after_failure(execution: ExecutionRow, outcome: Outcome, roll: float) -> Change:
    if execution.cancel_requested is not None:
        return _final(execution, outcome, State.CANCELLED, execution.cancel_reason)
    failures = execution.failures + (outcome.begun or outcome.end == "failed")
    reason = outcome.reason or outcome.end
    slack, cause = (TIMER_SLACK, None) if outcome.end == "timeout" else (0, outcome.error)
    if _out_of_time(execution.run_ends(outcome.started), outcome.ended + slack):
        error = _run_timeout_words(execution, cause)
        return _final(execution, outcome, State.FAILED, RUN_TIMEOUT, failures=failures, error=error)
    if not outcome.retryable or failures >= execution.rules.max_attempts:
        return _final(execution, outcome, State.FAILED, reason, failures=failures)
    delay = max(execution.rules.retry.delay(failures, roll), outcome.delay)
    return _again(execution, outcome, delay=delay, failures=failures)


def after_mismatch(execution: ExecutionRow, outcome: Outcome, others: bool) -> Outcome:
    """A worker cannot read the payload, as happens while one release replaces another. It hands the execution back,
    without counting a failure, to a worker that can: later each time, and for a limited time since the first try.
    `others` says whether another worker has the handler now."""
    before = [each for each in execution.attempts if each.end == "handed_back" and each.error is not None]
    first = before[0].started if before else outcome.started
    left = (MISMATCH_PATIENCE if others else MISMATCH_PATIENCE_ALONE) - (outcome.ended - first) / SECOND
    if left <= 0:
        return outcome
    delay = min(MISMATCH_FIRST_DELAY * 2 ** len(before), MISMATCH_LONGEST_DELAY, left)
    return msgspec.structs.replace(outcome, end="handed_back", delay=delay)


def _after_loss(execution: ExecutionRow, outcome: Outcome, roll: float) -> Change:
    """The worker died. The execution may have killed it, so it is tried alone before it fails for good."""
    failures, crashes = execution.failures + 1, execution.crashes + 1
    counted = {"failures": failures, "crashes": crashes}
    if execution.cancel_requested is not None:
        return _final(execution, outcome, State.CANCELLED, execution.cancel_reason, rescue=True, **counted)
    if execution.alone and crashes > ALONE_AFTER:
        return _final(execution, outcome, State.FAILED, "crash_loop", rescue=True, **counted)
    if failures >= execution.rules.max_attempts:
        return _final(execution, outcome, State.FAILED, "worker_lost", rescue=True, **counted)
    delay = execution.rules.retry.delay(failures, roll)
    return _again(execution, outcome, delay=delay, rescue=True, alone=crashes >= ALONE_AFTER, **counted)


def lost(execution: ExecutionRow, now: Micros) -> Outcome:
    """The outcome of an attempt whose worker sent no heartbeat for a whole lease."""
    message = f"worker {execution.owner} fell silent: its lease ran out"
    return Outcome(
        end="worker_lost", started=execution.claimed or now, ended=now, worker=execution.owner or "", error=message
    )


def after_children(parent: ExecutionRow, children: Mapping[State, int], now: Micros) -> Change | None:
    """How a waiting parent ends once its last child has ended; None while one is live. Tenants that were skipped
    neither succeeded nor failed; if all were, so is the parent."""
    if any(not state.final for state in children):
        return None
    good, skipped, total = children.get(State.COMPLETED, 0), children.get(State.SKIPPED, 0), sum(children.values())
    bad = total - good - skipped
    none = skipped > 0 == good  # no tenant had anything to do
    to = State.PARTIAL if bad and good else State.FAILED if bad else State.SKIPPED if none else State.COMPLETED
    error = f"{bad} of {total} tenants did not complete" if bad else None
    counts = {"total": total, "success": good, "failed": bad}
    others = {"cancelled": children.get(State.CANCELLED, 0), "skipped": skipped}
    counts |= {name: count for name, count in others.items() if count}
    change = _end_waiting(parent, to, now, error=error, reason=None if to is State.COMPLETED else BY_CHILDREN)
    fields = {"counters_json": {**parent.counters, **counts}, "result_json": counts}
    return msgspec.structs.replace(change, **{name: json.encode(value).decode() for name, value in fields.items()})


def after_run_timeout(execution: ExecutionRow, now: Micros) -> Change | None:
    """The end of an execution that waits, for its next attempt or for its tenants, when its `run_timeout` is up; None
    before. What runs is stopped by its worker."""
    if execution.state not in (State.PENDING, State.WAITING) or not _out_of_time(execution.run_ends(None), now):
        return None
    error = _run_timeout_words(execution, execution.error)
    change = _end_waiting(execution, State.FAILED, now, reason=RUN_TIMEOUT, error=error)
    return _with_failure(execution, None, change)


def _out_of_time(end: Micros | None, at: Micros) -> bool:
    return end is not None and at >= end


def _run_timeout_words(execution: ExecutionRow, cause: str | None) -> str:
    message = f"the run took longer than its run_timeout of {duration_text(execution.rules.run_timeout or 0.0)}"
    return f"{message}; its last error was {cause}" if cause else message


def cancel(execution: ExecutionRow, now: Micros, reason: str) -> Change | CancelRequest:
    """An execution that waits ends at once; the worker of a running one is asked to stop it."""
    match execution.state:
        case State.PENDING | State.WAITING:
            return _end_waiting(execution, State.CANCELLED, now, reason=reason)
        case State.RUNNING:
            return CancelRequest(id=execution.id, token=execution.token, at=now, reason=reason)
        case _:
            raise CommandRefused(
                "cancel", execution.state, ("pending", "running", "waiting"), f"execution {execution.id}"
            )


def put_back(execution: ExecutionRow, now: Micros, *, limits: str | None = None) -> Change:
    """Back to pending in its old place: it was claimed and must not begin now, or waits and gets other limits. That
    counts as no attempt."""
    return _moved(execution, now, execution.due, execution.reason, limits)


def hold(execution: ExecutionRow, now: Micros) -> Change:
    """Back to pending until its job is resumed: no claim finds it meanwhile."""
    return _moved(execution, now, execution.due + HELD, PAUSED)


def release(execution: ExecutionRow, now: Micros) -> Change:
    """A held execution is due when it would have been."""
    return _moved(execution, now, execution.due - HELD, None)


def _moved(execution: ExecutionRow, now: Micros, due: Micros, reason: str | None, limits: str | None = None) -> Change:
    """A request to cancel it stays with the row, and is served there."""
    return Change(
        id=execution.id,
        expect=execution.state,
        token=execution.token,
        owner=execution.owner,
        to=State.PENDING,
        at=now,
        failures=execution.failures,
        crashes=execution.crashes,
        delay=(due - now) / SECOND,
        alone=execution.alone,
        reason=reason,
        error=execution.error,
        limits=limits,
        execution=execution,
    )


def _again(
    execution: ExecutionRow, outcome: Outcome, *, alone: bool = False, rescue: bool = False, **fields: Any
) -> Change:
    """Back to pending, unless it was asked to stop meanwhile: then this attempt was the last."""
    if execution.cancel_requested is not None:
        return _final(execution, outcome, State.CANCELLED, execution.cancel_reason, rescue=rescue)
    next_start = outcome.ended + seconds_to_micros(fields.get("delay", 0.0))
    if outcome.begun and _out_of_time(execution.run_ends(outcome.started), next_start):
        fields |= {"delay": 0.0, "reason": RUN_TIMEOUT, "error": _run_timeout_words(execution, outcome.error)}
        return _leave_running(execution, outcome, State.FAILED, rescue=rescue, **fields)
    alone = alone or execution.alone
    return _leave_running(execution, outcome, State.PENDING, alone=alone, rescue=rescue, **fields)


def _final(execution: ExecutionRow, outcome: Outcome, to: State, reason: str | None, **fields: Any) -> Change:
    return _leave_running(execution, outcome, to, reason=reason, **fields)


def _leave_running(execution: ExecutionRow, outcome: Outcome, to: State, **fields: Any) -> Change:
    """The only way out of `running`: fenced by the token and the owner that the decision saw.

    Fields that most endings do not have are left out rather than passed as None: this runs for every execution.
    """
    if to is not _COMPLETED and outcome.error is not None and "error" not in fields:
        fields["error"] = outcome.error
    if to.final and needs_follow_up(execution):
        fields["todo"] = True
    if "keep" not in fields and not keeps(execution, to):
        fields["keep"] = False
    if outcome.counters_json is not None or outcome.metadata_json is not None:
        fields |= {"counters_json": outcome.counters_json, "metadata_json": outcome.metadata_json}
    if execution.claims > 1 and outcome.begun and not execution.attempted:
        fields["started"] = outcome.started  # a claim that was handed back before its start does not count
    attempt = _attempt(execution, outcome)
    if outcome.labels:
        fields["labels"] = outcome.labels
        if to is State.PENDING and attempt is not None:
            attempt = msgspec.structs.replace(attempt, tags=outcome.labels)
    failures, crashes = fields.pop("failures", execution.failures), fields.pop("crashes", execution.crashes)
    return Change(
        id=execution.id,
        expect=_RUNNING,
        token=execution.token,
        owner=execution.owner,
        to=to,
        at=outcome.ended,
        failures=failures,
        crashes=crashes,
        attempt=attempt,
        result_json=outcome.result_json,
        execution=execution,
        **fields,
    )


def _end_waiting(
    execution: ExecutionRow, to: State, now: Micros, *, reason: str | None = None, error: str | None = None
) -> Change:
    return Change(
        id=execution.id,
        expect=execution.state,
        token=execution.token,
        to=to,
        at=now,
        failures=execution.failures,
        crashes=execution.crashes,
        reason=reason,
        error=error or execution.error,
        counters_json=execution.counters_json,
        metadata_json=execution.metadata_json,
        result_json=execution.result_json,
        todo=needs_follow_up(execution),
        keep=keeps(execution, to),
        execution=execution,
    )


def needs_follow_up(execution: ExecutionRow) -> bool:
    """Whether there is a follow-up: a window to enter in the ledger, a parent to settle, a next run to plan, jobs that
    come after this one, tenants that it still has."""
    if execution.window_begin is not None or execution.parent_id is not None:
        return True
    rules = execution.rules
    return rules.follow_up or rules.feeds or (rules.fan_out is not None and execution.fans_out)


def keeps(execution: ExecutionRow, to: State) -> bool:
    """Whether the ended execution stays in history. A child stays, because its parent counts it. An execution that
    follows from another job, or retries one, stays, because a repeated hand-over or bulk action must find it."""
    if to is not _COMPLETED or execution.rules.keep_success:
        return True
    return execution.parent_id is not None or execution.trigger in ("dependency", "retry")


def _attempt(execution: ExecutionRow, outcome: Outcome) -> AttemptRecord | None:
    """None for a claim that was handed back before the handler was called: that is no attempt."""
    if not outcome.begun and outcome.end in ("handed_back", "timeout"):
        return None
    number = len(execution.attempts) + 1 if execution.attempted else 1
    if number > MAX_RECORDED_ATTEMPTS and outcome.end in ("snoozed", "handed_back"):
        return None
    return AttemptRecord(
        number,
        outcome.worker,
        outcome.started,
        outcome.ended,
        outcome.end,
        outcome.error,
        outcome.traceback,
        outcome.cpu_ms,
        outcome.memory_mb,
        outcome.overran,
        outcome.reason if outcome.end == "failed" and outcome.reason != "error" else None,
    )
