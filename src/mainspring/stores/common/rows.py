"""Mechanical steps that all stores take in the same way. Pure functions: no clock, no I/O, no policy.

`core.ports.Store` says what a store has to do. The details (which fields a settled row keeps, in which order lanes take
turns) are decided here, once, so that all stores agree on every field.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from ...model.execution import AttemptRecord, ExecutionRow, State, lane, next_token
from ...model.job import Job, JobStats, LiveCounts
from ...model.store.messages import (
    Added,
    Audit,
    Change,
    ClaimRequest,
    HeldKey,
    JobSnapshot,
    KeyKind,
    NewestLive,
    TenantCounts,
)
from ...model.time.instants import Micros, seconds_to_micros

T = TypeVar("T")

_encode = msgspec.json.Encoder().encode

BLOCKED_DEFER = 5.0  # seconds a staged row waits when its running key is held
WAITERS_AT_ONCE = 20  # deferred rows that a freed key looks at, for the first of each lane
LOG_LINES_KEPT = 1_000  # per execution; the oldest go first
NO_LIMITS = "[]"  # what `Change.limits` says of a row that has none any more

Candidate: TypeAlias = tuple[int, T]
"""One ready row as a lane lists it: (-priority, id), so that plain sorting gives the order of claiming."""


# --- adding -----------------------------------------------------------------------------------------------------


def overlap_choices(execution: ExecutionRow) -> tuple[str, ...]:
    """The overlap keys to try at insert, in order. Empty if the execution needs none."""
    if execution.overlap_key is None:
        return ()
    if execution.overlap_slots <= 1:
        return (execution.overlap_key,)
    return tuple(f"{execution.overlap_key}#{slot}" for slot in range(execution.overlap_slots))


def in_slot(execution: ExecutionRow, key: str) -> ExecutionRow:
    """The execution with the overlap key it got; an equal running key changes with it."""
    same = execution.running_overlap_key == execution.overlap_key
    return replace(execution, overlap_key=key, running_overlap_key=key if same else execution.running_overlap_key)


def skipped_record(execution: ExecutionRow) -> ExecutionRow:
    """The record, under the same id, of an execution whose overlap key is held.

    It ended when it was created and never ran, even if it arrived as running.
    """
    never_ran = replace(execution, owner=None, lease=None, claimed=None, started=None, staged=False)
    return replace(never_ran, state=State.SKIPPED, reason="overlap", finished=execution.created)


# --- settling ---------------------------------------------------------------------------------------------------


def fits(row: ExecutionRow, change: Change, now: Micros) -> bool:
    """Whether a live row is still as the decision saw it and, for a rescue, its lease has expired."""
    as_seen = (row.state, row.token, row.owner) == (change.expect, change.token, change.owner)
    return as_seen and (not change.rescue or lease_over(row, now))


def lease_over(row: ExecutionRow, now: Micros) -> bool:
    return row.state is State.RUNNING and row.lease is not None and row.lease <= now


def settled(row: ExecutionRow, change: Change, now: Micros) -> ExecutionRow:
    """The row after the change, without owner, lease and parking. Keys, token and a cancel request stay; results,
    counters, metadata and limits stay unless the change replaces them; labels are added; reason and error are those of
    the change.

    A pending row is due after the delay and loses claim and progress; a final row has ended.
    """
    to = change.to
    pending = to is State.PENDING
    final = to is State.COMPLETED or to.final
    return replace(
        row,
        state=to,
        owner=None,
        lease=None,
        failures=change.failures,
        crashes=change.crashes,
        alone=change.alone,
        started=row.started if change.started is None else change.started,
        finished=change.at if final else row.finished,
        attempts_json=_with_attempt(row.attempts_json, change.attempt),
        reason=change.reason,
        error=change.error,
        result_json=row.result_json if change.result_json is None else change.result_json,
        counters_json=row.counters_json if change.counters_json is None else change.counters_json,
        metadata_json=row.metadata_json if change.metadata_json is None else change.metadata_json,
        todo=change.todo,
        due=now + seconds_to_micros(change.delay) if pending else row.due,
        claimed=None if pending else row.claimed,
        progress_json=None if pending else row.progress_json,
        parked=None,
        limits=changed_limits(row, change) if pending else row.limits,
        labels=joined_labels(row.labels, change.labels) if change.labels else row.labels,
    )


def changed_limits(row: ExecutionRow, change: Change) -> str | None:
    if change.limits is None:
        return row.limits
    return None if change.limits == NO_LIMITS else change.limits


def joined_labels(labels: Iterable[str], more: Iterable[str] = ()) -> tuple[str, ...]:
    """Labels are a set, shown sorted."""
    return tuple(sorted({*labels, *more}))


def _with_attempt(attempts: str, attempt: AttemptRecord | None) -> str:
    """Append to the JSON array by splicing text, so that earlier attempts need not be decoded."""
    if attempt is None:
        return attempts
    item = _encode(attempt).decode()
    return f"[{item}]" if attempts == "[]" else f"{attempts[:-1]},{item}]"


# --- claiming ---------------------------------------------------------------------------------------------------


def held_key(kind: KeyKind, key: str, row: ExecutionRow) -> HeldKey:
    return HeldKey(
        kind=kind,
        key=key,
        execution_id=row.id,
        job=row.job,
        state=row.state,
        owner=row.owner,
        token=row.token,
        since=row.created if row.started is None else row.started,
        until=row.lease,
    )


def held_key_of(kind: KeyKind, columns: Sequence[Any]) -> HeldKey:
    """From columns in the order of the fields."""
    return msgspec.convert(dict(zip(HeldKey.__struct_fields__, (kind, *columns), strict=True)), HeldKey)


def lane_name(row: ExecutionRow, kind: str = "") -> str:
    """The lane in which a row is claimed. Exclusive rows, and rows of a `kind` that is claimed in another way, have
    lanes of their own beside the lane of their queue and handler.
    """
    name = lane(row.queue, row.handler)
    exclusive = "alone" if row.alone else ""
    if kind:
        return f"{name}/{exclusive}/{kind}"
    return f"{name}/{exclusive}" if exclusive else name


def claimed(row: ExecutionRow, request: ClaimRequest, lease: Micros, now: Micros) -> ExecutionRow:
    """The row as its new owner gets it, until `lease`. The keys of a staged row become its running keys."""
    after = replace(
        row,
        state=State.RUNNING,
        token=next_token(row.token, request.stamp),
        owner=request.owner,
        lease=lease,
        claimed=now,
        started=now if row.started is None else row.started,
        parked=None,
    )
    return running_keys(after) if row.staged else after


def running_keys(row: ExecutionRow) -> ExecutionRow:
    return replace(row, unique_key=row.running_unique_key, overlap_key=row.running_overlap_key, staged=False)


def deferred(row: ExecutionRow, now: Micros) -> ExecutionRow:
    """A staged row whose running key is held: it is due again later, or as soon as the key is freed."""
    return replace(row, due=now + seconds_to_micros(BLOCKED_DEFER))


def freed_keys(ended: Iterable[ExecutionRow], now: Micros) -> tuple[list[str], list[str]]:
    """The unique and the overlap keys whose waiters wake when these rows end. A row that was due, but never claimed,
    passes its turn at its running keys on."""
    unique, overlap = set[str | None](), set[str | None]()
    for row in ended:
        unique.add(row.unique_key)
        overlap.add(row.overlap_key)
        if row.staged and row.due <= now:
            unique.add(row.running_unique_key)
            overlap.add(row.running_overlap_key)
    return sorted(filter(None, unique)), sorted(filter(None, overlap))


def picked(lanes: Mapping[str, Sequence[Candidate[T]]], turn: int) -> Iterator[T]:
    """Ids, or whatever identifies the rows of a store, in the order of claiming: highest priority first; within a
    priority the lanes take turns.

    Each lane lists its best candidates, sorted. The lanes that have rows of a priority take turns in the order of
    their names, beginning with number `turn` modulo their count. To claim up to n rows, a store lists at most n
    candidates per lane and takes the first n ids.

    >>> list(picked({"a": [(-1, "1"), (0, "2"), (0, "3")], "b": [(0, "4")]}, turn=1))
    ['1', '4', '2', '3']
    """
    if len(lanes) == 1:  # the usual case: nothing to take turns with
        yield from (id for candidates in lanes.values() for _, id in candidates)
        return
    for level in sorted({level for candidates in lanes.values() for level, _ in candidates}):
        rows = [[id for at, id in lanes[name] if at == level] for name in sorted(lanes)]
        rows = [ids for ids in rows if ids]
        first = turn % len(rows)
        yield from _in_turns([*rows[first:], *rows[:first]])


def _in_turns(rows: Sequence[Sequence[T]]) -> Iterator[T]:
    return (id for id in chain.from_iterable(zip_longest(*rows)) if id is not None)


# --- lists of jobs ----------------------------------------------------------------------------------------------


def search_text(job: Job) -> str:
    """The text in which the job list searches. The separator occurs in none of its parts."""
    return "\x1f".join((job.name, job.spec.handler, job.spec.description)).lower()


# --- statistics -------------------------------------------------------------------------------------------------


def ended_delta(row: ExecutionRow) -> JobStats:
    """What one finished execution adds to the statistics of its job. Skipped ones only count as skipped."""
    by_trigger = {ending_of(row.trigger, row.state): 1}
    if row.state is State.SKIPPED:
        return JobStats(job_id=row.job_id, skipped=1, by_trigger=by_trigger)
    # From these two instants alone, because two of the stores compute the duration in the database.
    duration = (row.finished - row.started) / 1000 if row.started is not None and row.finished is not None else None
    return JobStats(
        job_id=row.job_id,
        completed=int(row.state is State.COMPLETED),
        partial=int(row.state is State.PARTIAL),
        failed=int(row.state is State.FAILED),
        cancelled=int(row.state is State.CANCELLED),
        duration_ms=duration or 0.0,
        timed=int(duration is not None),
        last_id=row.id,
        last_state=row.state,
        last_started=row.started,
        last_finished=row.finished,
        last_error=row.error,
        last_failures=row.failures,
        by_trigger=by_trigger,
    )


def ending_of(trigger: str, state: State) -> str:
    """The key in `JobStats.by_trigger`."""
    return f"{trigger}:{state.value}"


def change_delta(after: ExecutionRow, change: Change) -> JobStats | None:
    """What one applied change adds to the statistics: the ending, if it is one, and the rescue, if it is one."""
    delta = ended_delta(after) if change.to.final else None
    if not change.rescue:
        return delta
    rescue = JobStats(job_id=after.job_id, rescued=1)
    return rescue if delta is None else merge_stats(delta, rescue)


def merge_stats(one: JobStats, other: JobStats) -> JobStats:
    """The sum of both, in any order. The `last` fields are those of the newest id."""
    newest, oldest = (one, other) if one.last_id >= other.last_id else (other, one)
    return replace(
        newest,
        completed=one.completed + other.completed,
        partial=one.partial + other.partial,
        failed=one.failed + other.failed,
        cancelled=one.cancelled + other.cancelled,
        skipped=one.skipped + other.skipped,
        duration_ms=newest.duration_ms + oldest.duration_ms,
        timed=one.timed + other.timed,
        rescued=one.rescued + other.rescued,
        by_trigger=merge_counts(one.by_trigger, other.by_trigger),
    )


def merge_counts(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    """Both added up, name by name."""
    return {**one, **{name: one.get(name, 0) + count for name, count in other.items()}}


def snapshots(
    jobs: Iterable[Job],
    stats: Mapping[str, JobStats],
    live: Mapping[str, LiveCounts],
    newest: Mapping[str, NewestLive],
) -> list[JobSnapshot]:
    """Parts that were read at one instant, by job id. Jobs without executions are absent in them."""
    return [
        JobSnapshot(job, stats.get(job.id, JobStats(job_id=job.id)), live.get(job.id, LiveCounts()), newest.get(job.id))
        for job in jobs
    ]


def busiest(pending: Mapping[str, int], running: Mapping[str, int], limit: int) -> list[TenantCounts]:
    """The tenants with the most live executions, from counts by tenant; see `Store.tenant_counts`."""
    live = {tenant: count for tenant, count in merge_counts(pending, running).items() if count}
    first = heapq.nsmallest(limit, live, key=lambda tenant: (-live[tenant], tenant))
    return [TenantCounts(tenant=name, pending=pending.get(name, 0), running=running.get(name, 0)) for name in first]


def recorded(audits: Sequence[Audit], added: Sequence[Added]) -> list[Audit]:
    """The audit records of those executions that were recorded; `audits` is empty or has one for each."""
    return [audit for audit, each in zip(audits, added, strict=True) if each.recorded] if audits else []
