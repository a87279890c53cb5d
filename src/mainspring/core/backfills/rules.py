"""What a backfill does next: pure functions. Its windows run as executions whose ids depend only on the backfill and
the number of the window, so a repeated step meets the same rows.

Every window that is started gets exactly one row: a live one, or one that is final from the start and gives the reason
for skipping the window. Whichever is inserted first counts, for good.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from ...model.backfill import BackfillRow, BackfillState
from ...model.execution import ExecutionRow, State
from ...model.job import Job
from ...model.time.instants import Micros, seconds_to_micros, to_datetime
from ...model.values.ids import NO_CHANCE, follow_up_id
from ...model.windows import Window
from ..rules.new_execution import new_execution
from ..rules.window_ledger import LedgerEntry, Stretch

TRIGGER = "backfill"
DONE_ELSEWHERE = "already_done"
RUNNING_ELSEWHERE = "running_elsewhere"
NEVER_STARTED = "backfill_cancelled"

FORGOTTEN_AFTER = 3_600.0
"""Seconds after which a started window without any trace is given up."""


def child_id(backfill_id: str, position: int) -> str:
    return follow_up_id(backfill_id, TRIGGER, str(position))


def unique_key(job: str, window: Stretch) -> str:
    """Two backfills never run the same window of a job at the same time."""
    return f"job:{job}:{Window(to_datetime(window[0]), to_datetime(window[1])).key()}"


def child(backfill: BackfillRow, job: Job, position: int, window: Stretch, now: Micros, due: Micros) -> ExecutionRow:
    """The execution of one window, with the job's present policy and, unless the backfill has its own, parameters."""
    return new_execution(
        job,
        id=child_id(backfill.id, position),
        trigger=TRIGGER,
        triggered_by=backfill.created_by,
        now=now,
        due=due,
        chance=NO_CHANCE,
        params=backfill.params,
        window=window,
        unique=unique_key(job.name, window),
        parent_id=backfill.id,
    )


def skipped_window(execution: ExecutionRow, reason: str, now: Micros) -> ExecutionRow:
    """The same row, final from the start, so that it can never run."""
    return msgspec.structs.replace(
        execution, state=State.SKIPPED, reason=reason, finished=now, unique_key=None, running_unique_key=None
    )


def room(backfill: BackfillRow) -> int:
    return min(backfill.concurrency - backfill.running, backfill.total - backfill.position)


def due_times(backfill: BackfillRow, now: Micros, count: int) -> list[Micros]:
    """When the next windows start: with a pace, one after another and never before the last one allows."""
    if backfill.pace is None:
        return [now] * count
    first, step = max(now, backfill.next_at), seconds_to_micros(backfill.pace)
    return [first + number * step for number in range(count)]


def handed_out(backfill: BackfillRow, count: int, last_due: Micros | None, now: Micros) -> BackfillRow:
    """The record after `count` more windows have rows; `last_due` is the start of the last one that will run."""
    positions = range(backfill.position, backfill.position + count)
    next_at = backfill.next_at
    if last_due is not None and backfill.pace is not None:
        next_at = last_due + seconds_to_micros(backfill.pace)
    return msgspec.structs.replace(
        backfill,
        position=backfill.position + count,
        in_flight=(*backfill.in_flight, *positions),
        started=now if backfill.started is None and last_due is not None else backfill.started,
        next_at=next_at,
        moved=now,
    )


def counted(backfill: BackfillRow, ended: Iterable[tuple[int, str]], now: Micros) -> BackfillRow:
    """The record with these endings counted: each position with the field that counts it."""
    over = dict(ended)
    if not over:
        return backfill
    fields: dict[str, Any] = {name: getattr(backfill, name) for name in set(over.values())}
    for name in over.values():
        fields[name] += 1
    left = tuple(position for position in backfill.in_flight if position not in over)
    return msgspec.structs.replace(backfill, in_flight=left, moved=now, **fields)


def field_for(child: ExecutionRow) -> str | None:
    """The field that counts this child; None while it is live."""
    match child.state:
        case State.COMPLETED:
            return "completed"
        case State.PARTIAL | State.FAILED:
            return "failed"
        case State.CANCELLED:
            return "cancelled"
        case State.SKIPPED if child.reason == RUNNING_ELSEWHERE and not child.attempted:
            return "held"
        case State.SKIPPED:
            return "skipped"
        case _:
            return None


def field_for_lost(backfill: BackfillRow, id: str, entry: LedgerEntry | None, now: Micros) -> str | None:
    """The same for a child whose row was pruned after its ending was recorded in the window ledger."""
    if entry is not None and (id in entry.ids or entry.runs > len(entry.ids)):
        return {"done": "completed", "failed": "failed", "cancelled": "cancelled"}[entry.state]
    waited = now - backfill.moved
    return "skipped" if backfill.state == "cancelling" or waited > seconds_to_micros(FORGOTTEN_AFTER) else None


def verdict(backfill: BackfillRow) -> BackfillState:
    """The final state of a backfill whose windows have all ended."""
    if backfill.state == "cancelling":
        return "cancelled"
    good = backfill.completed + backfill.skipped + backfill.held
    bad = backfill.failed + backfill.cancelled
    return "completed" if not bad else "partial" if good else "failed"


def cancelling(backfill: BackfillRow, reason: str) -> BackfillRow:
    if backfill.state == "cancelling":
        return backfill
    return msgspec.structs.replace(backfill, state="cancelling", reason=reason)


def gone(backfill: BackfillRow, job: Job | None) -> str | None:
    """Why the job can no longer be backfilled; None if it can."""
    if job is None or job.id != backfill.job_id:
        return "the job was removed"
    return "the job was cancelled" if job.cancelled is not None else None
