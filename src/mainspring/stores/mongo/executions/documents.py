"""How an execution lies in its collection: one document from the first to the last day of its life.

Fields have the names of `Execution`; those that hold their default are left out. What a document has besides:

    live      true until it has ended, false afterwards: unique keys and claims look at live documents only
    lane      queue and handler in one
    ready     while it can be claimed: its lane (`//fair` added for rows with a share, `/alone` for those run alone)
    tag       its turn among the ready rows that have a share
    limited   true if it has limits
    slots     while it runs: the keys of its limits, each with a number of its own among those that run under the key
    future    true while its time is yet to come, or a claim deferred it
    waits_for the running keys that a deferred row found taken, or what a parked row waits for (`limiting`)
    stands    while it is parked: its line (`lines`); `stood` and `place` remember it until it is claimed or changed
    rare      true for endings other than completed: the few that people look for
    delta     true while the statistics of its job do not hold its ending, or a rescue of it, yet
    hidden    true for what nobody may see: not born yet (`embryo`), or ended and not to be kept
    audits    audit records written in the same step, not moved to their own collection yet
    unkept    true when it goes as soon as its follow-ups are done
    claim     the claim that took it last; settle: the exchange that changed it last
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

import msgspec
from bson import Int64
from msgspec.structs import astuple

from ....model.execution import ExecutionRow, State, lane
from ....model.store.messages import Audit
from ...common.limits import keys_of

SLACK = 2_000
"""Milliseconds by which the time in an id may differ from its creation."""

FAIR, ALONE = "//fair", "/alone"
"""How the names of lanes end whose rows have shares, and whose rows run alone."""

Document = dict[str, Any]

_FIELDS = ExecutionRow.__struct_fields__
_DEFAULTS = dict(zip(_FIELDS, astuple(ExecutionRow(id="", job="", job_id="", handler="")), strict=True))
_ALWAYS = frozenset({"job", "job_id", "state", "priority", "created", "due", "token", "failures", "crashes"})
_APART = frozenset({"id", "queue", "handler", "trace_id", "attempts_json", "parked"})
_PLAIN = tuple(name for name in _FIELDS if name not in _ALWAYS | _APART)
_PLAIN_DEFAULTS = tuple(_DEFAULTS[name] for name in _PLAIN)
_plain_values = attrgetter(*_PLAIN)
_READ = frozenset(_FIELDS) - _APART | {"parked"}
_STATES = {state.value: state for state in State}
_LAST_MILLI = (1 << 48) - 1

_raw_items = msgspec.json.Decoder(list[msgspec.Raw]).decode


# --- writing --------------------------------------------------------------------------------------------------------


def document(execution: ExecutionRow, tag: int | None = None) -> Document:
    """A row as it is inserted: live, or recorded as history when it has ended. With a share it is ready under this tag;
    without a tag the next claim makes it so."""
    e = execution
    doc: Document = {
        "_id": e.id,
        "job": e.job,
        "job_id": e.job_id,
        "lane": lane(e.queue, e.handler),
        "state": e.state.value,
        "live": not e.state.final,
        "priority": e.priority,
        "created": e.created,
        "due": e.due,
        "token": e.token,
        "failures": e.failures,
        "crashes": e.crashes,
    }
    for name, value, default in zip(_PLAIN, _plain_values(e), _PLAIN_DEFAULTS, strict=True):
        if value is not default and value != default:
            doc[name] = value
    if e.trace_id != own_trace(e.id):
        doc["trace_id"] = e.trace_id
    if e.attempts_json != "[]":
        doc["attempts"] = attempts(e.attempts_json)
    if is_stray(e):
        doc["stray"] = True
    if e.limits is not None:
        doc["limited"] = True
        if e.state is State.RUNNING:
            doc["slots"] = [{"key": key, "number": e.id} for key in keys_of(e.limits)]
    doc.update(_place(e, tag))
    return doc


def _place(e: ExecutionRow, tag: int | None) -> Document:
    """Where it is found next: by claims, by time, or among what has ended.

    What is due no later than it was made is ready from the start: whoever made it said «now», whatever the two clocks
    say of each other.
    """
    if e.state is State.PENDING:
        if e.due > e.created or (e.share is not None and tag is None):
            return {"future": True}
        return {"ready": ready_lane(e)} if e.share is None else {"ready": ready_lane(e), "tag": tag}
    if not e.state.final:
        return {}
    return {"delta": True} if e.state is State.COMPLETED else {"delta": True, "rare": True}


def ready_lane(e: ExecutionRow) -> str:
    """Rows that run alone have lanes of their own, so that other claims never meet them."""
    return lane_name(lane(e.queue, e.handler), fair=e.share is not None, alone=e.alone)


def lane_name(name: str, *, fair: bool, alone: bool) -> str:
    return f"{name}{FAIR if fair else ''}{ALONE if alone else ''}"


def attempts(text: str) -> list[str]:
    return [bytes(item).decode() for item in _raw_items(text)]


def own_trace(id: str) -> str:
    """The usual trace id of an execution; it needs no index, and is not stored."""
    return id.replace("-", "")


def is_stray(execution: ExecutionRow) -> bool:
    """Whether its id tells another time than that of its creation: a tick made up for late, for instance."""
    return abs(int(own_trace(execution.id)[:12], 16) - execution.created // 1000) > SLACK


def first_id(millis: int) -> str:
    """The smallest id of that millisecond."""
    digits = f"{min(max(millis, 0), _LAST_MILLI):012x}"
    return f"{digits[:8]}-{digits[8:]}"


def audit_document(audit: Audit) -> Document:
    fields = msgspec.structs.asdict(audit)
    return {"_id": fields.pop("id"), **{name: value for name, value in fields.items() if value is not None}}


# --- reading --------------------------------------------------------------------------------------------------------


def execution_of(doc: Mapping[str, Any]) -> ExecutionRow:
    id, names = doc["_id"], doc["lane"].split("/")
    fields: dict[str, Any] = {
        name: int(value) if type(value) is Int64 else value for name, value in doc.items() if name in _READ
    }
    fields["state"] = _STATES[doc["state"]]
    if (tries := doc.get("attempts")) is not None:
        fields["attempts_json"] = f"[{','.join(tries)}]"
    trace = doc.get("trace_id")
    return ExecutionRow(
        id=id, queue=names[0], handler=names[1], trace_id=own_trace(id) if trace is None else trace, **fields
    )


def audit_of(doc: Mapping[str, Any]) -> Audit:
    return Audit(id=doc["_id"], **{name: plain(value) for name, value in doc.items() if name != "_id"})


def plain(value: Any) -> Any:
    """Large integers come from the driver as a kind of their own, which nothing else knows how to encode."""
    return int(value) if type(value) is Int64 else value
