"""Live executions: heartbeats, progress reports, cancel requests, children."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import asdict, astuple, replace

from ....core.ports import Topic
from ....model.execution import ExecutionRow, State
from ....model.store.messages import (
    CancelRequest,
    HeartbeatReply,
    HeartbeatRequest,
    HeldKey,
    KeyKind,
    LogLine,
    ProgressReport,
    WorkerInfo,
)
from ....model.time.instants import Micros, seconds_to_micros
from ...common.rows import LOG_LINES_KEPT, held_key_of
from ..transaction import Transaction, as_json
from .rows import label_rows, live_tail

_CHANGING = ("seen", "running", "draining", "ended")
_HEAD = 512  # bytes


def heartbeat(tx: Transaction, beat: HeartbeatRequest) -> HeartbeatReply:
    worker = replace(beat.worker, seen=tx.now)
    tx.run("worker_seen", worker.id, tx.now, _info(worker))
    asked = dict(beat.leases)
    running = tx.rows("leases_held", as_json(list(asked)), worker.id)
    held = {id: seq for id, token, seq in running if asked[id] == token}
    tx.run("leases_renew", tx.now + seconds_to_micros(beat.lease), as_json(list(held.values())))
    return HeartbeatReply(lost=frozenset(asked.keys() - held.keys()), cancels=cancels(tx, worker.id), now=tx.now)


def _info(worker: WorkerInfo) -> str:
    """What changes from one heartbeat to the next comes first, filled up with spaces: SQLite writes only those pages of
    a row that differ if its size stays the same, and the names of the jobs that a process declares fill many."""
    fields = asdict(worker)
    changing = as_json({name: fields.pop(name) for name in _CHANGING})[:-1]
    filling = " " * (-len(changing.encode()) % _HEAD)
    return f"{changing}{filling},{as_json(fields)[1:]}"


def expired(tx: Transaction, limit: int) -> list[ExecutionRow]:
    return tx.executions("expired", tx.now, limit)


def cancels(tx: Transaction, owner: str) -> dict[str, str]:
    return {id: reason or "" for id, reason in tx.rows("cancels", owner)}


def unserved_cancels(tx: Transaction, limit: int) -> list[ExecutionRow]:
    return tx.executions("unserved_cancels", limit)


def request_cancel(tx: Transaction, requests: Sequence[CancelRequest]) -> list[bool]:
    tx.topics.add(Topic.CANCEL)
    return [_request_cancel(tx, request) for request in requests]


def _request_cancel(tx: Transaction, request: CancelRequest) -> bool:
    asked = tx.run("request_cancel", request.id, request.token, request.at, request.reason) == 1
    if asked:
        tx.audit(request.audit)
    return asked


def report(tx: Transaction, reports: Sequence[ProgressReport]) -> list[bool]:
    rows = {row.id: row for row in tx.executions("live_rows_by_id", as_json([report.id for report in reports]))}
    return [_report(tx, rows, report) for report in reports]


def _report(tx: Transaction, rows: dict[str, ExecutionRow], report: ProgressReport) -> bool:
    row = rows.get(report.id)
    if row is None or (row.state, row.token, row.owner) != (State.RUNNING, report.token, report.owner):
        return False
    progress = row.progress_json if report.progress_json is None else report.progress_json
    counters = row.counters_json if report.counters_json is None else report.counters_json
    rows[report.id] = after = replace(row, progress_json=progress, counters_json=counters)
    if after != row:
        tx.run("report", report.id, live_tail(after))
    if report.labels:
        tx.bulk("label_insert", label_rows(report.id, report.labels))
    if report.logs:
        _append_logs(tx, report.id, report.logs)
    return True


def _append_logs(tx: Transaction, id: str, lines: Sequence[LogLine]) -> None:
    first = (tx.value("log_last", id) or 0) + 1
    last = first + len(lines) - 1
    numbered = [(id, number, *astuple(line)) for number, line in enumerate(lines, first)]
    tx.bulk("log_insert", numbered[-LOG_LINES_KEPT:])
    if last > LOG_LINES_KEPT:
        tx.run("log_trim", id, last - LOG_LINES_KEPT)


def last_child_ended(tx: Transaction, parent_id: str) -> Micros | None:
    found: Micros | None = tx.value("last_child_ended", parent_id)
    return found


def held_keys(tx: Transaction, kind: KeyKind, first: str = "", limit: int = 1_000) -> list[HeldKey]:
    return [held_key_of(kind, row) for row in tx.rows(f"keys_{kind}", first, limit)]


def children(tx: Transaction, parent_id: str) -> dict[State, int]:
    return {State(state): count for state, count in tx.rows("children", parent_id)}
