"""How an execution lies in the tables: columns for what is searched or may change, `body` for what never does.

`body` is a JSON object without its closing brace. Read back, body and columns form one JSON object (`as_json` in the
schema), which decodes into an `Execution` in one go.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import starmap
from operator import attrgetter

import msgspec

from ....model.execution import ExecutionRow, State
from ....model.time.instants import Micros
from ...common.ids import foreign_trace, is_stray, is_stray_id
from ...common.rows import lane_name

NO_PARAMS = "{}"
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Body(msgspec.Struct, frozen=True, omit_defaults=True):
    job: str
    job_id: str
    handler: str
    queue: str = "default"
    trigger: str = "enqueue"
    triggered_by: str = "system"
    trace_id: str = ""
    traceparent: str | None = None
    params: str = NO_PARAMS
    policy: str = "{}"
    tick: Micros | None = None
    window_begin: Micros | None = None
    window_end: Micros | None = None
    tenant: str | None = None
    parent_id: str | None = None
    retry_of: str | None = None
    priority: int = 0
    overlap_slots: int = 1
    share: str | None = None
    weight: int = 1
    limits: str | None = None
    flow: str | None = None
    # no columns: a live row has not ended, a finished one is owned by nobody
    owner: str | None = None
    lease: Micros | None = None
    finished: Micros | None = None
    todo: bool = False


class Incoming(msgspec.Struct, frozen=True, omit_defaults=True):
    """One row as the functions of the schema take it (type `incoming`); what is left out is NULL there."""

    id: str
    job: str
    job_id: str
    lane: str
    priority: int
    created: Micros
    due: Micros
    body: str
    foreign_trace: str | None = None
    state: str | None = None
    tenant: str | None = None
    parent_id: str | None = None
    stray: bool = False
    token: int = 0
    owner: str | None = None
    lease: Micros | None = None
    claimed: Micros | None = None
    started: Micros | None = None
    finished: Micros | None = None
    failures: int = 0
    crashes: int = 0
    alone: bool = False
    staged: bool = False
    todo: bool = False
    unique_key: str | None = None
    overlap_key: str | None = None
    slots: int = 1
    running_unique_key: str | None = None
    running_overlap_key: str | None = None
    cancel_requested: Micros | None = None
    cancel_reason: str | None = None
    reason: str | None = None
    error: str | None = None
    attempts: str | None = None
    result: str | None = None
    counters: str | None = None
    metadata: str | None = None
    progress: str | None = None
    share: str | None = None
    weight: int = 1
    limits: str | None = None


# The fields in which fresh executions may differ; all others have their defaults.
_OWN_FIELDS = (
    *("id", "job", "job_id", "handler", "queue", "trigger", "triggered_by", "trace_id", "traceparent", "params"),
    *("policy", "tick", "window_begin", "window_end", "retry_of", "priority", "created", "due", "unique_key"),
    *("overlap_slots", "flow"),
)
_rest = attrgetter(*(name for name in ExecutionRow.__struct_fields__ if name not in _OWN_FIELDS))
_FRESH = _rest(ExecutionRow(id="", job="", job_id="", handler=""))

_encode = msgspec.json.Encoder().encode
_encode_lines = msgspec.json.Encoder().encode_lines
_decode_many = msgspec.json.Decoder(list[ExecutionRow]).decode


def executions(text: str | None) -> list[ExecutionRow]:
    """What the string_agg of a query returned."""
    return [] if text is None else _decode_many(f"[{text}]")


def as_json(value: object) -> str:
    return _encode(value).decode()


def json_texts(values: Sequence[object]) -> list[str]:
    """Each as JSON, which has no line breaks of its own."""
    return _encode_lines(values).decode().split("\n")[:-1]


def is_id(text: str) -> bool:
    """Whether an execution can have this id at all: PostgreSQL refuses to compare other texts with one."""
    return _ID.fullmatch(text) is not None


def is_keyless(execution: ExecutionRow) -> bool:
    """It asks for no key and has not ended, so no other row's outcome depends on it."""
    return execution.unique_key is None and execution.overlap_key is None and not execution.state.final


def is_fresh(execution: ExecutionRow) -> bool:
    """Nothing has happened to it, and it has no tenant, parent, share, limits or overlap key. It may have a unique
    key."""
    return has_fresh_fields(execution) and not is_stray(execution)


def has_fresh_fields(execution: ExecutionRow) -> bool:
    return _rest(execution) == _FRESH


def are_fresh(executions: Sequence[ExecutionRow]) -> bool:
    """Whether all of them are fresh, and no id comes twice. Most of a batch were made within a few milliseconds: each
    millisecond is compared once."""
    if not all(map(_FRESH.__eq__, map(_rest, executions))):
        return False
    if any(starmap(is_stray_id, {(row.id[:13], row.created // 1000) for row in executions})):
        return False
    return len({row.id for row in executions}) == len(executions)


def incoming(e: ExecutionRow) -> Incoming:
    return Incoming(
        e.id,
        e.job,
        e.job_id,
        lane_of(e),
        e.priority,
        e.created,
        e.due,
        body(e),
        foreign_trace(e),
        None if e.state is State.PENDING else e.state.value,
        e.tenant,
        e.parent_id,
        is_stray(e),
        e.token,
        e.owner,
        e.lease,
        e.claimed,
        e.started,
        e.finished,
        e.failures,
        e.crashes,
        e.alone,
        e.staged,
        e.todo,
        e.unique_key,
        e.overlap_key,
        e.overlap_slots,
        e.running_unique_key,
        e.running_overlap_key,
        e.cancel_requested,
        e.cancel_reason,
        e.reason,
        e.error,
        None if e.attempts_json == "[]" else e.attempts_json,
        e.result_json,
        e.counters_json,
        e.metadata_json,
        e.progress_json,
        e.share,
        e.weight,
        e.limits,
    )


def body(e: ExecutionRow) -> str:
    """Without the closing brace: the columns are written after it."""
    return _encode(body_of(e))[:-1].decode()


def bodies(executions: Sequence[ExecutionRow]) -> str:
    """The bodies of many executions in one text, with a closing brace and a line break between two of them."""
    return _encode_lines(list(map(body_of, executions)))[:-2].decode()


def body_of(e: ExecutionRow) -> Body:
    ended = e.state.final
    return Body(
        e.job,
        e.job_id,
        e.handler,
        e.queue,
        e.trigger,
        e.triggered_by,
        e.trace_id,
        e.traceparent,
        NO_PARAMS if e.params == NO_PARAMS else e.params,  # a default is left out only if it is the very same text
        e.policy,
        e.tick,
        e.window_begin,
        e.window_end,
        e.tenant,
        e.parent_id,
        e.retry_of,
        e.priority,
        e.overlap_slots,
        e.share,
        e.weight,
        e.limits,
        e.flow,
        e.owner if ended else None,
        e.lease if ended else None,
        None if ended else e.finished,
        False if ended else e.todo,
    )


def lane_of(execution: ExecutionRow) -> str:
    """Rows with a share or limits are claimed in another way and have lanes of their own."""
    if execution.share is None and execution.limits is None:
        return lane_name(execution)
    return lane_name(execution, "limited" if execution.share is None else "fair")
