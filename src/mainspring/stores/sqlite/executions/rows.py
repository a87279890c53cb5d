"""How an execution is stored, and the one place where it is decoded.

mainspring_executions holds the execution as it was added (`Body`, and the columns it is searched by), mainspring_live
what changes while it waits and runs, mainspring_history how it ended (both with a `Tail` of rarely used fields). The
three share `seq`. When read, body, tail and columns form one JSON object (part_live.sql, part_history.sql), which
decodes into an `ExecutionRow` in one step.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import astuple

from ....model.execution import ExecutionRow, State
from ....model.store.messages import Change
from ....model.time.instants import Micros
from ...common.ids import foreign_trace, is_stray
from ...common.rows import lane_name

Row: TypeAlias = tuple[Any, ...]

FUTURE, READY, RUNNING, WAITING, PARKED = range(5)
_PHASES = {State.RUNNING: RUNNING, State.WAITING: WAITING}


class Body(msgspec.Struct, frozen=True, omit_defaults=True):
    """The fields of a new execution, without those that change later."""

    number: int
    id: str
    job: str
    job_id: str
    handler: str
    queue: str = "default"
    trigger: str = "enqueue"
    triggered_by: str = "system"
    trace_id: str = ""
    traceparent: str | None = None
    params: str = "{}"
    policy: str = "{}"
    tick: Micros | None = None
    window_begin: Micros | None = None
    window_end: Micros | None = None
    tenant: str | None = None
    parent_id: str | None = None
    retry_of: str | None = None
    priority: int = 0
    created: Micros = 0
    due: Micros = 0
    unique_key: str | None = None
    overlap_key: str | None = None
    running_unique_key: str | None = None
    running_overlap_key: str | None = None
    overlap_slots: int = 1
    share: str | None = None
    weight: int = 1
    limits: str | None = None
    flow: str | None = None


_NO_ATTEMPTS = "[]"
_NOTHING_IN_TAIL = ((0, 0), (None, None), (None, None, None))


class Tail(msgspec.Struct, frozen=True, omit_defaults=True):
    """Rarely used fields of live and finished rows."""

    attempts_json: str = _NO_ATTEMPTS
    failures: int = 0
    crashes: int = 0
    alone: bool = False
    reason: str | None = None
    error: str | None = None
    result_json: str | None = None
    counters_json: str | None = None
    metadata_json: str | None = None
    progress_json: str | None = None


class LiveTail(Tail, frozen=True, omit_defaults=True):
    """With the fields that are columns of a finished row only."""

    finished: Micros | None = None
    todo: bool = False


class HistoryTail(Tail, frozen=True, omit_defaults=True):
    """With the fields that are columns of a live row only."""

    owner: str | None = None
    lease: Micros | None = None
    staged: bool = False
    cancel_requested: Micros | None = None
    cancel_reason: str | None = None


_FIELDS = ExecutionRow.__struct_fields__
_STAGE = slice(_FIELDS.index("running_unique_key"), _FIELDS.index("share"))
_PROGRESS = slice(_FIELDS.index("token"), None)  # what changes once an execution is claimed
_NOTHING = astuple(ExecutionRow(id="", job="", job_id="", handler=""))
_NO_STAGE, _NO_PROGRESS = _NOTHING[_STAGE], _NOTHING[_PROGRESS]

_live_tail_values = attrgetter(*LiveTail.__struct_fields__[1:])
_history_tail_values = attrgetter(*HistoryTail.__struct_fields__[1:])

_encode = msgspec.json.Encoder().encode
_decode_many = msgspec.json.Decoder(list[ExecutionRow]).decode


def executions(text: str | None) -> list[ExecutionRow]:
    """Decode the result of a query's group_concat."""
    return [] if text is None else _decode_many(f"[{text}]")


def is_plain(execution: ExecutionRow) -> bool:
    """A new execution without keys, share or parent: the usual case, with a shorter insert."""
    kept = (execution.unique_key, execution.overlap_key, execution.share)
    return kept == (None, None, None) and is_untouched(execution)


def is_untouched(execution: ExecutionRow) -> bool:
    """A new execution that holds the same keys from its insert to its end. It may have a share, and with a share a
    parent: children mostly have both."""
    if execution.state is not State.PENDING or (execution.parent_id is not None and execution.share is None):
        return False
    fields = astuple(execution)
    return fields[_PROGRESS] == _NO_PROGRESS and fields[_STAGE] == _NO_STAGE


def execution_row(seq: int, execution: ExecutionRow, number: int) -> Row:
    """Parameters of execution_insert.sql."""
    return (
        seq,
        execution.id,
        execution.job_id,
        execution.created,
        execution.tenant,
        execution.parent_id,
        foreign_trace(execution),
        None if execution.trigger == "enqueue" else execution.trigger,
        is_stray(execution),
        body(execution, number),
    )


def label_rows(id: str, labels: Iterable[str]) -> list[Row]:
    """Parameters of label_insert.sql."""
    return [(label, id) for label in labels]


def plain_row(seq: int, execution: ExecutionRow, now: Micros) -> Row:
    """Parameters of live_insert_plain.sql."""
    return (
        seq,
        execution.id,
        execution.job_id,
        phase_of(execution, now),
        lane_of(execution),
        execution.priority,
        execution.due,
        execution.unique_key,
        execution.overlap_key,
    )


def shared_row(seq: int, execution: ExecutionRow, tag: int | None) -> Row:
    """Parameters of live_insert_shared.sql. Without a tag the row is not ready yet."""
    return (
        seq,
        execution.id,
        execution.job_id,
        FUTURE if tag is None else READY,
        lane_of(execution),
        execution.priority,
        execution.due,
        execution.unique_key,
        execution.overlap_key,
        execution.parent_id,
        execution.share,
        tag or 0,
    )


def live_row(seq: int, execution: ExecutionRow, now: Micros) -> Row:
    """Parameters of live_insert.sql."""
    return (
        *plain_row(seq, execution, now),
        execution.token,
        execution.owner,
        execution.lease,
        execution.claimed,
        execution.started,
        execution.parent_id,
        execution.running_unique_key,
        execution.running_overlap_key,
        int(execution.staged),
        execution.cancel_requested,
        execution.cancel_reason,
        live_tail(execution),
        execution.share,
    )


def live_change(seq: int, after: ExecutionRow, now: Micros) -> Row:
    """Parameters of live_update.sql."""
    return (
        seq,
        phase_of(after, now),
        lane_of(after),
        after.due,
        after.owner,
        after.lease,
        after.claimed,
        after.started,
        live_tail(after),
    )


def history_row(seq: int, ended: ExecutionRow, keep: bool = True) -> Row:
    """Parameters of history_insert.sql."""
    return (
        seq,
        ended.id,
        ended.job_id,
        ended.state.value,
        ended.started,
        ended.finished,
        int(ended.todo),
        int(keep),
        ended.parent_id,
        ended.due,
        ended.token,
        ended.claimed,
        ended.unique_key,
        ended.overlap_key,
        None if ended.attempts_json == _NO_ATTEMPTS else ended.attempts_json,
        history_tail(ended),
    )


def move_row(seq: int, change: Change) -> Row:
    """Parameters of history_move.sql."""
    attempts = None if change.attempt is None else _encode([change.attempt]).decode()
    return (seq, change.token, change.at, attempts, _ending_tail(change))


def phase_of(execution: ExecutionRow, now: Micros) -> int:
    """A row with a share is not ready before it has a tag."""
    if execution.state is State.PENDING:
        return READY if execution.due <= now and execution.share is None else FUTURE
    return _PHASES[execution.state]


def lane_of(execution: ExecutionRow) -> str:
    """Rows with a share have lanes of their own, so that the others need no tags."""
    return lane_name(execution, "" if execution.share is None else "fair")


def body(e: ExecutionRow, number: int) -> str:
    """Field by field: this runs for every enqueue, and is twice as fast as `attrgetter`."""
    return _encode(
        Body(
            number,
            e.id,
            e.job,
            e.job_id,
            e.handler,
            e.queue,
            e.trigger,
            e.triggered_by,
            e.trace_id,
            e.traceparent,
            e.params,
            e.policy,
            e.tick,
            e.window_begin,
            e.window_end,
            e.tenant,
            e.parent_id,
            e.retry_of,
            e.priority,
            e.created,
            e.due,
            e.unique_key,
            e.overlap_key,
            e.running_unique_key,
            e.running_overlap_key,
            e.overlap_slots,
            e.share,
            e.weight,
            e.limits,
            e.flow,
        )
    ).decode()


def live_tail(row: ExecutionRow) -> str | None:
    """None when all fields have their defaults."""
    attempts = _NO_ATTEMPTS if row.attempts_json == _NO_ATTEMPTS else row.attempts_json  # left out if the same object
    return _text(LiveTail(attempts, *_live_tail_values(row)))


def history_tail(row: ExecutionRow) -> str | None:
    """None when all fields have their defaults; attempts have a column."""
    return _text(HistoryTail(_NO_ATTEMPTS, *_history_tail_values(row)))


def _ending_tail(change: Change) -> str | None:
    """The tail of a row that had none before this change ended it."""
    numbers = (change.failures, change.crashes)
    words = (change.reason, change.error)
    texts = (change.result_json, change.counters_json, change.metadata_json)
    if (numbers, words, texts) == _NOTHING_IN_TAIL:
        return None
    return _text(Tail(_NO_ATTEMPTS, *numbers, False, *words, *texts))


def _text(tail: Tail) -> str | None:
    text = _encode(tail).decode()
    return None if text == "{}" else text
