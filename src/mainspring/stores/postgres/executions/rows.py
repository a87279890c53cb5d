"""How an execution is stored: columns for what is searched or may change, `body` for what never changes.

`body` is a JSON object without its closing brace. The schema's function `as_json` appends the columns to it: one JSON
object, which decodes into an `ExecutionRow` in one go.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Sequence
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
    """One row as the functions of the schema take it (type `incoming`); what is left out becomes NULL."""

    # as in ExecutionRow
    id: str
    job: str
    job_id: str
    priority: int
    created: Micros
    due: Micros
    tenant: str | None = None
    parent_id: str | None = None
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
    running_unique_key: str | None = None
    running_overlap_key: str | None = None
    cancel_requested: Micros | None = None
    cancel_reason: str | None = None
    reason: str | None = None
    error: str | None = None
    share: str | None = None
    weight: int = 1
    limits: str | None = None
    # derived, or under another name
    lane: str = ""
    body: str = ""
    foreign_trace: str | None = None
    state: str | None = None
    stray: bool = False
    slots: int = 1
    attempts: str | None = None
    result: str | None = None
    counters: str | None = None
    metadata: str | None = None
    progress: str | None = None


_COMMON = [name for name in Incoming.__struct_fields__ if name in ExecutionRow.__struct_fields__ and name != "state"]
_common = attrgetter(*_COMMON)

# The fields in which fresh executions may differ; all others have their defaults.
_OWN_FIELDS = (
    *("id", "job", "job_id", "handler", "queue", "trigger", "triggered_by", "trace_id", "traceparent", "params"),
    *("policy", "tick", "window_begin", "window_end", "retry_of", "priority", "created", "due", "unique_key"),
    *("overlap_slots", "flow", "labels"),
)
_rest = attrgetter(*(name for name in ExecutionRow.__struct_fields__ if name not in _OWN_FIELDS))
_FRESH = _rest(ExecutionRow(id="", job="", job_id="", handler=""))

_encode = msgspec.json.Encoder().encode
_encode_lines = msgspec.json.Encoder().encode_lines
_decode = msgspec.json.Decoder(ExecutionRow).decode
_decode_many = msgspec.json.Decoder(list[ExecutionRow]).decode
LARGE = 1024 * 1024
"""Characters that are decoded at once: this takes a few milliseconds."""
_BORDER = '},{"job":'  # between two rows, and nowhere else: inside of a text, quotes are escaped


async def executions(text: str | None) -> list[ExecutionRow]:
    """The rows in the string_agg of a query. Large ones are decoded part by part, and other tasks get a turn."""
    rows: list[ExecutionRow] = []
    start = 0
    while text and start < len(text):
        border = text.find(_BORDER, start + LARGE)
        end = border + 1 if border > 0 else len(text)
        rows += _decode_many(f"[{text[start:end]}]")
        start = end + 1
        if end < len(text):
            await asyncio.sleep(0)
    return rows


async def executions_of(texts: Iterable[str]) -> list[ExecutionRow]:
    """The rows of a query that gives a text for each. Other tasks get a turn between large ones."""
    rows, size = list[ExecutionRow](), 0
    for text in texts:
        rows.append(_decode(text))
        size += len(text)
        if size > LARGE:
            await asyncio.sleep(0)
            size = 0
    return rows


def as_json(value: object) -> str:
    return _encode(value).decode()


def json_texts(values: Sequence[object]) -> list[str]:
    """Each value as JSON, which has no line breaks of its own."""
    return _encode_lines(values).decode().split("\n")[:-1]


def is_id(text: str) -> bool:
    """Whether this is an id at all: PostgreSQL refuses to compare other texts with one."""
    return _ID.fullmatch(text) is not None


def is_keyless(execution: ExecutionRow) -> bool:
    """It asks for no key and has not ended, so no other row's outcome depends on it."""
    return execution.unique_key is None and execution.overlap_key is None and not execution.state.final


def is_fresh(execution: ExecutionRow) -> bool:
    """Nothing has happened to it, and it has no tenant, parent, share, limits or overlap key. It may have a unique key
    and labels."""
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
    new: Callable[..., Incoming] = Incoming
    return new(
        *_common(e),
        lane=lane_of(e),
        body=body(e),
        foreign_trace=foreign_trace(e),
        state=None if e.state is State.PENDING else e.state.value,
        stray=is_stray(e),
        slots=e.overlap_slots,
        attempts=None if e.attempts_json == "[]" else e.attempts_json,
        result=e.result_json,
        counters=e.counters_json,
        metadata=e.metadata_json,
        progress=e.progress_json,
    )


def body(e: ExecutionRow) -> str:
    """Without the closing brace: the columns are appended to it."""
    return _encode(body_of(e))[:-1].decode()


def bodies(executions: Sequence[ExecutionRow]) -> str:
    """The bodies of many executions in one text, with a closing brace and a line break between two of them."""
    return _encode_lines(list(map(body_of, executions)))[:-2].decode()


def body_of(e: ExecutionRow) -> Body:
    params = NO_PARAMS if e.params == NO_PARAMS else e.params  # msgspec leaves out a default only if it is this object
    new: Callable[..., Body] = Body
    if e.state.final:
        return new(*_before_params(e), params, *_after_params(e), e.owner, e.lease)
    return new(*_before_params(e), params, *_after_params(e), None, None, e.finished, e.todo)


_FIELDS = Body.__struct_fields__
_before_params = attrgetter(*_FIELDS[: _FIELDS.index("params")])
_after_params = attrgetter(*_FIELDS[_FIELDS.index("params") + 1 : _FIELDS.index("owner")])


def lane_of(execution: ExecutionRow) -> str:
    """Rows with a share or limits are claimed in another way and have lanes of their own."""
    if execution.share is None and execution.limits is None:
        return lane_name(execution)
    return lane_name(execution, "limited" if execution.share is None else "fair")
