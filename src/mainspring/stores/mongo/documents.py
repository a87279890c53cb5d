"""How an execution lies in its collection: one document from the first to the last day of its life.

Fields have the names of `Execution`; those that hold their default are left out. What a document has besides:

    live      true until it has ended, false afterwards: unique keys and claims look at live documents only
    lane      queue and handler in one
    ready     while it can be claimed: its lane (`/alone` added for rows that run alone)
    future    true while its time is yet to come, or a claim deferred it
    waits_for the running keys that a deferred row found taken
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

from ...model.changes import Audit
from ...model.execution import Execution, State, lane

SLACK = 2_000
"""Milliseconds by which the time in an id may differ from its creation."""

Document = dict[str, Any]

_FIELDS = Execution.__struct_fields__
_DEFAULTS = dict(zip(_FIELDS, astuple(Execution(id="", job="", job_id="", handler="")), strict=True))
_ALWAYS = frozenset({"job", "job_id", "state", "priority", "created", "due", "token", "failures", "crashes"})
_APART = frozenset({"id", "queue", "handler", "trace_id", "attempts_json"})
_PLAIN = tuple(name for name in _FIELDS if name not in _ALWAYS | _APART)
_PLAIN_DEFAULTS = tuple(_DEFAULTS[name] for name in _PLAIN)
_plain_values = attrgetter(*_PLAIN)
_READ = frozenset(_FIELDS) - _APART
_STATES = {state.value: state for state in State}
_LAST_MILLI = (1 << 48) - 1

_raw_items = msgspec.json.Decoder(list[msgspec.Raw]).decode


# --- writing --------------------------------------------------------------------------------------------------------


def document(execution: Execution) -> Document:
    """A row as it is inserted: live, or recorded as history when it has ended."""
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
    doc.update(_place(e))
    return doc


def _place(e: Execution) -> Document:
    """Where it is found next: by claims, by time, or among what has ended.

    What is due no later than it was made is ready from the start: whoever made it said «now», whatever the two clocks
    say of each other.
    """
    if e.state is State.PENDING:
        return {"ready": ready_lane(e)} if e.due <= e.created else {"future": True}
    if not e.state.final:
        return {}
    return {"delta": True} if e.state is State.COMPLETED else {"delta": True, "rare": True}


def ready_lane(e: Execution) -> str:
    """Rows that run alone have lanes of their own, so that other claims never meet them."""
    name = lane(e.queue, e.handler)
    return f"{name}/alone" if e.alone else name


def attempts(text: str) -> list[str]:
    return [bytes(item).decode() for item in _raw_items(text)]


def own_trace(id: str) -> str:
    """The usual trace id of an execution; it needs no index, and is not stored."""
    return id.replace("-", "")


def is_stray(execution: Execution) -> bool:
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


def execution_of(doc: Mapping[str, Any]) -> Execution:
    id, names = doc["_id"], doc["lane"].split("/")
    fields: dict[str, Any] = {
        name: int(value) if type(value) is Int64 else value for name, value in doc.items() if name in _READ
    }
    fields["state"] = _STATES[doc["state"]]
    if (tries := doc.get("attempts")) is not None:
        fields["attempts_json"] = f"[{','.join(tries)}]"
    trace = doc.get("trace_id")
    return Execution(
        id=id, queue=names[0], handler=names[1], trace_id=own_trace(id) if trace is None else trace, **fields
    )


def audit_of(doc: Mapping[str, Any]) -> Audit:
    return Audit(id=doc["_id"], **{name: plain(value) for name, value in doc.items() if name != "_id"})


def plain(value: Any) -> Any:
    """Large integers come from the driver as a kind of their own, which nothing else knows how to encode."""
    return int(value) if type(value) is Int64 else value
