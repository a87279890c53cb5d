"""How rows become documents, and documents rows: the only place that knows either.

Fields that a newer release has written are passed over when a document is read. Fields that hold their default are left
out when it is written.

An execution is one document for the whole of its life. Its fields have the names of `ExecutionRow`; besides these:

    live            true until it has ended, false afterwards: unique keys and claims cover live documents only
    lane            queue and handler in one
    ready           while it can be claimed: its lane (`//fair` appended for rows with a share, `/alone` for exclusive
                    ones)
    tag             its turn among the ready rows that have a share
    limited         true if it has limits
    old_limits      its limits before the last change, if that gave it others
    slots           while it runs: the keys of its limits, each with a number that no other running row of the key has
    future          true while its time is yet to come, or a claim deferred it
    waits_for       the running keys that a deferred row found held, or what a parked row waits for
    wait_line       while it is parked: its wait line; `last_wait_line` and `place` stay until it is claimed or changed
    rare            true for endings other than completed, which are few and often looked for
    delta           true while the statistics of its job do not include its ending, or a rescue of it, yet
    hidden          true for rows that no reader may see: drafts, and ended rows that are not kept
    drafts          rows that writes to a job are about to add, each with the stamp of its writer
    audits          audit records of steps that changed it, until they are moved to their own collection
    notes           notes about attempts that failed, until they are moved to the entries
    unkept          true when it is deleted as soon as its follow-ups are done
    claim, settle   the stamps of the claim and of the exchange that changed it last
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Any

import msgspec
from bson import Int64
from msgspec.structs import asdict, astuple

from ...model.execution import AttemptRecord, ExecutionRow, State, encode_attempts, lane
from ...model.job import Job, JobStats
from ...model.store.entries import Entry
from ...model.store.messages import Audit, LockRow, LogLine, WorkerInfo
from ..common.ids import is_stray
from ..common.limits import keys_of
from ..common.rows import search_text

Document = dict[str, Any]


def _known_fields(doc: Mapping[str, Any], names: Iterable[str]) -> Document:
    """Large integers come from the driver as a type of their own, which nothing else can encode."""
    found = ((name, doc[name]) for name in names if name in doc)
    return {name: int(value) if type(value) is Int64 else value for name, value in found}


# --- executions -----------------------------------------------------------------------------------------------------

_FIELDS = ExecutionRow.__struct_fields__
_DEFAULTS = dict(zip(_FIELDS, astuple(ExecutionRow(id="", job="", job_id="", handler="")), strict=True))
_ALWAYS = frozenset({"job", "job_id", "state", "priority", "created", "due", "token", "failures", "crashes"})
_ENCODED = frozenset({"id", "queue", "handler", "trace_id", "attempts_json", "parked", "labels"})
_OPTIONAL = tuple(name for name in _FIELDS if name not in _ALWAYS | _ENCODED)
_OPTIONAL_DEFAULTS = tuple(_DEFAULTS[name] for name in _OPTIONAL)
_optional_values = attrgetter(*_OPTIONAL)
_READ = frozenset(_FIELDS) - _ENCODED | {"parked"}
_STATES = {state.value: state for state in State}

_raw_items = msgspec.json.Decoder(list[msgspec.Raw]).decode


def execution_document(execution: ExecutionRow, tag: int | None = None) -> Document:
    """A new row: live, or recorded as history if it has ended. A row with a share is ready under this tag; without a
    tag the next claim makes it ready."""
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
    for name, value, default in zip(_OPTIONAL, _optional_values(e), _OPTIONAL_DEFAULTS, strict=True):
        if value is not default and value != default:
            doc[name] = value
    if e.trace_id != _own_trace(e.id):
        doc["trace_id"] = e.trace_id
    if e.attempts_json != "[]":
        doc["attempts"] = [bytes(item).decode() for item in _raw_items(e.attempts_json)]
    if e.labels:
        doc["labels"] = sorted(set(e.labels))
    if is_stray(e):
        doc["stray"] = True
    if e.limits is not None:
        doc["limited"] = True
        if e.state is State.RUNNING:
            doc["slots"] = [{"key": key, "number": e.id} for key in keys_of(e.limits)]
    doc.update(_position(e, tag))
    return doc


def _position(e: ExecutionRow, tag: int | None) -> Document:
    """The fields by which claims, the clock or lists of endings find the row next.

    A row that is due no later than it was created is ready from the start, even if the clocks of client and server
    differ.
    """
    if e.state is State.PENDING:
        if e.due > e.created or (e.share is not None and tag is None):
            return {"future": True}
        return {"ready": ready_lane(e)} if e.share is None else {"ready": ready_lane(e), "tag": tag}
    if not e.state.final:
        return {}
    return {"delta": True} if e.state is State.COMPLETED else {"delta": True, "rare": True}


def under_tokens(rows: Iterable[tuple[str, int]]) -> dict[str, Any]:
    """The filter for these executions, each under its token. Those of one claim have the same."""
    by_token: dict[int, list[str]] = {}
    for id, token in rows:
        by_token.setdefault(token, []).append(id)
    claims: list[dict[str, Any]] = [{"_id": {"$in": ids}, "token": token} for token, ids in by_token.items()]
    if len(claims) == 1:
        return claims[0]
    return {"_id": {"$in": [id for ids in by_token.values() for id in ids]}, "$or": claims}


def execution_of(doc: Mapping[str, Any]) -> ExecutionRow:
    id, names = doc["_id"], doc["lane"].split("/")
    fields: Document = {
        name: int(value) if type(value) is Int64 else value for name, value in doc.items() if name in _READ
    }
    fields["state"] = _STATES[doc["state"]]
    if (attempts := doc.get("attempts")) is not None:
        fields["attempts_json"] = f"[{','.join(attempts)}]"
    if (labels := doc.get("labels")) is not None:
        fields["labels"] = tuple(sorted(labels))
    trace = doc["trace_id"] if "trace_id" in doc else _own_trace(id)
    return ExecutionRow(id=id, queue=names[0], handler=names[1], trace_id=trace, **fields)


def _own_trace(id: str) -> str:
    """The usual trace id of an execution; it needs no index, and is not stored."""
    return id.replace("-", "")


def attempt_text(attempt: AttemptRecord) -> str:
    """One item of `attempts`."""
    return encode_attempts([attempt])[1:-1]


# --- lanes ----------------------------------------------------------------------------------------------------------

FAIR, ALONE = "//fair", "/alone"
"""Suffixes of the lanes of rows with shares, and of rows that run alone: other claims never meet these."""

_ALONE_SUFFIX = {"$cond": [{"$eq": ["$alone", True]}, ALONE, ""]}
HAS_SHARE = {"$ne": [{"$type": "$share"}, "missing"]}
READY_LANE = {"$concat": ["$lane", {"$cond": [HAS_SHARE, FAIR, ""]}, _ALONE_SUFFIX]}
"""The expression for the lane in which a row is claimed: `ready_lane` in the server."""
DUE_NOW = {"ready": {"$cond": [HAS_SHARE, "$$REMOVE", READY_LANE]}, "future": {"$cond": [HAS_SHARE, True, "$$REMOVE"]}}
"""The fields of a row that is due: ready at once, or, with a share, when the next claim gives it a tag."""


def ready_lane(e: ExecutionRow) -> str:
    return lane_name(lane(e.queue, e.handler), fair=e.share is not None, alone=e.alone)


def ready_lane_of(doc: Mapping[str, Any]) -> str:
    return lane_name(doc["lane"], fair="share" in doc, alone=bool(doc.get("alone")))


def lane_name(name: str, *, fair: bool, alone: bool) -> str:
    return f"{name}{FAIR if fair else ''}{ALONE if alone else ''}"


# --- jobs -----------------------------------------------------------------------------------------------------------

JOB_FIELDS = tuple(name for name in Job.__struct_fields__ if name not in ("name", "last_number"))
_JOB_DEFAULTS = {name: getattr(Job(name="", id="", declared=""), name) for name in JOB_FIELDS}


def job_document(job: Job) -> Document:
    """Without `_id`; None for fields that are left out. `due` serves its index, `list` and `labels` serve lists."""
    fields = {name: getattr(job, name) for name in JOB_FIELDS}
    left_out = {name: None for name, value in fields.items() if value == _JOB_DEFAULTS[name] and name != "version"}
    spec = job.spec
    listed = {"handler": spec.handler, "queue": spec.queue, "origin": job.origin, "search": search_text(job)}
    return fields | left_out | {"due": job.due, "list": listed, "labels": sorted(set(job.labels)) or None}


def job_of(doc: Mapping[str, Any]) -> Job:
    """With the number of its incarnation, where that was looked up."""
    numbered = doc.get("incarnation") or [{}]
    last_number = int(numbered[0].get("last_number", 0))
    return Job(name=doc["_id"], last_number=last_number, **_known_fields(doc, JOB_FIELDS))


STATS_FIELDS = tuple(name for name in JobStats.__struct_fields__ if name not in ("job_id", "duration_ms"))


def stats_document(stats: JobStats) -> Document:
    """The duration is stored as whole microseconds, so that sums stay exact."""
    fields = {name: getattr(stats, name) for name in STATS_FIELDS}
    state = None if stats.last_state is None else stats.last_state.value
    return {**fields, "last_state": state, "duration": round(stats.duration_ms * 1000)}


def stats_of(job_id: str, doc: Mapping[str, Any]) -> JobStats:
    fields = _known_fields(doc, STATS_FIELDS)
    if (state := fields.get("last_state")) is not None:
        fields["last_state"] = _STATES[state]
    fields["by_trigger"] = {name: int(count) for name, count in doc.get("by_trigger", {}).items()}
    return JobStats(job_id=job_id, duration_ms=int(doc.get("duration", 0)) / 1000, **fields)


# --- other rows -----------------------------------------------------------------------------------------------------


def audit_document(audit: Audit) -> Document:
    fields = asdict(audit)
    return {"_id": fields.pop("id"), **{name: value for name, value in fields.items() if value is not None}}


def audit_of(doc: Mapping[str, Any]) -> Audit:
    return Audit(id=doc["_id"], **_known_fields(doc, Audit.__struct_fields__))


def log_document(id: str, number: int, line: LogLine) -> Document:
    return {"_id": log_id(id, number), "n": number, **asdict(line)}


def log_of(doc: Mapping[str, Any]) -> tuple[int, LogLine]:
    return int(doc["n"]), LogLine(int(doc["at"]), doc["level"], doc["message"], doc.get("logger", ""))


def log_id(id: str, number: int) -> str:
    """Sorts by number within an execution."""
    return f"{id}/{number:015}"


def logs_after(id: str, number: int) -> Document:
    """The ids of the log lines of an execution after this number. The character after the slash is 0."""
    return {"$gt": log_id(id, number), "$lt": f"{id}0"}


def worker_of(doc: Mapping[str, Any]) -> WorkerInfo:
    return msgspec.convert({"id": doc["_id"], **_known_fields(doc, WorkerInfo.__struct_fields__)}, WorkerInfo)


def lock_of(doc: Mapping[str, Any]) -> LockRow:
    return LockRow(name=doc["_id"], **_known_fields(doc, ("owner", "token", "acquired", "expires")))


def entry_of(doc: Mapping[str, Any]) -> Entry:
    return Entry(**_known_fields(doc, Entry.__struct_fields__))
