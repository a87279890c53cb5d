"""While executions run, and after: reports, cancel requests, follow-ups, workers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec.structs import replace

from ....core.ports import Topic
from ....model.execution import ExecutionRow, State
from ....model.store.messages import Audit, CancelRequest, HeldKey, KeyKind, ProgressReport, WorkerInfo
from ....model.time.instants import Micros, seconds_to_micros
from ...common.rows import held_key_of
from ..database import Database
from .literals import numbers, storable, storable_texts
from .rows import as_json, is_id

_worker = lru_cache(maxsize=100)(msgspec.json.Decoder(WorkerInfo).decode)
"""A process that declares 10,000 jobs has a long text, which changes hardly ever."""
_reasons = msgspec.json.Decoder(dict[str, str]).decode

BEFORE_ALL = "00000000-0000-0000-0000-000000000000"
"""Smaller than the id of any execution."""


async def expired(db: Database, limit: int) -> list[ExecutionRow]:
    return await db.executions("expired", limit)


async def unserved_cancels(db: Database, limit: int) -> list[ExecutionRow]:
    return await db.executions("unserved_cancels", limit)


async def todo(db: Database, limit: int, after: str = "") -> list[ExecutionRow]:
    return await db.executions("todo", limit, after or BEFORE_ALL)


async def todo_done(db: Database, ids: Sequence[str]) -> None:
    await db.value("todo_done", numbers(id for id in ids if is_id(id)), repeat=True)


async def delete_executions(db: Database, ids: Sequence[str], audits: Sequence[Audit]) -> list[bool]:
    """Never repeated after a lost answer: what it had deleted would look like another process's work."""
    each = enumerate(zip(ids, audits, strict=True))
    wire = [{"n": n, "id": id, "audit": audit} for n, (id, audit) in each if is_id(id)]
    return _answers(len(ids), await db.value("delete_executions", as_json(wire)))


async def remove_worker(db: Database, id: str) -> None:
    await db.value("worker_remove", id, repeat=True)


async def prune_workers(db: Database, silent_for: float) -> int:
    return int(await db.value("workers_prune", seconds_to_micros(silent_for)))


async def request_cancel(db: Database, requests: Sequence[CancelRequest]) -> tuple[list[bool], set[Topic]]:
    wire = [{"n": n, **msgspec.structs.asdict(request)} for n, request in enumerate(requests) if is_id(request.id)]
    return _answers(len(requests), await db.value("request_cancel", as_json(wire))), {Topic.CANCEL}


async def report(db: Database, reports: Sequence[ProgressReport]) -> list[bool]:
    wire = [_report(n, report) for n, report in enumerate(reports) if is_id(report.id)]
    return _answers(len(reports), await db.value("report", as_json(wire)))


def _report(n: int, report: ProgressReport) -> dict[str, Any]:
    lines = [(line.at, line.level, storable(line.message), storable(line.logger)) for line in report.logs]
    fields = {"id": report.id, "token": report.token, "owner": report.owner, "n": n, "logs": lines or None}
    labels = storable_texts(report.labels) or None
    return fields | {"progress": report.progress_json, "counters": report.counters_json, "labels": labels}


def _answers(count: int, positions: str | None) -> list[bool]:
    done = set(msgspec.json.decode(positions or "[]", type=list[int]))
    return [n in done for n in range(count)]


async def cancels(db: Database, owner: str) -> dict[str, str]:
    return cancels_of(await db.value("cancels", owner, repeat=True))


def cancels_of(text: str | None) -> dict[str, str]:
    return {} if text is None else _reasons(text)


async def children(db: Database, parent_id: str) -> dict[State, int]:
    return {State(state): count for state, count in await db.rows("children", parent_id, repeat=True)}


async def last_child_ended(db: Database, parent_id: str) -> Micros | None:
    found: Micros | None = await db.value("last_child_ended", parent_id, repeat=True)
    return found


async def held_keys(db: Database, kind: KeyKind, first: str = "", limit: int = 1_000) -> list[HeldKey]:
    return [held_key_of(kind, row) for row in await db.rows(f"keys_{kind}", first, limit, repeat=True)]


async def workers(db: Database) -> list[WorkerInfo]:
    rows = await db.rows("workers", repeat=True)
    return [_worker_of(*row) for row in rows]


class WorkerStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """What changes from one heartbeat to the next, of the fields of `WorkerInfo`."""

    running: int = 0
    draining: bool = False
    ended: dict[str, tuple[int, int]] = {}


def worker_status(worker: WorkerInfo) -> WorkerStatus:
    return WorkerStatus(worker.running, worker.draining, worker.ended)


def with_status(worker: WorkerInfo, status: WorkerStatus) -> WorkerInfo:
    return replace(worker, **msgspec.structs.asdict(status))


def _worker_of(info: str, seen: Micros, status: str | None) -> WorkerInfo:
    """The release before has no status."""
    worker = replace(_worker(info), seen=seen)
    return worker if status is None else with_status(worker, _status(status))


_status = msgspec.json.Decoder(WorkerStatus).decode
