"""While executions run, and after: reports, cancel requests, follow-ups, workers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
from pymongo import ReturnDocument

from ....model.execution import ExecutionRow, State
from ....model.store.messages import CancelRequest, ProgressReport, WorkerInfo
from ....model.time.instants import seconds_to_micros
from ...common.rows import LOG_LINES_KEPT
from .. import audit
from ..connection.database import Database, repeated
from ..limits.parking import tidy
from .documents import audit_document, execution_of, plain
from .lists import SEEN, line_id

_RUNNING = {"live": True, "state": "running"}
_ASKED = {"live": True, "cancel_requested": {"$exists": True}}


async def expired(db: Database, limit: int) -> list[ExecutionRow]:
    now = await db.now()
    over = {**_RUNNING, "lease": {"$lte": now}}
    return await _executions(db, over, [("lease", 1), ("_id", 1)], limit)


async def todo(db: Database, limit: int, after: str) -> list[ExecutionRow]:
    return await _executions(db, {"todo": True, "live": False, "_id": {"$gt": after}, **SEEN}, [("_id", 1)], limit)


async def unserved_cancels(db: Database, limit: int) -> list[ExecutionRow]:
    """Along all that carry a request, which are few."""
    if limit < 1:
        return []
    strays = db.executions.find({**_ASKED, "state": {"$ne": "running"}}, hint="cancels").sort("_id", 1).limit(limit)
    return [execution_of(doc) async for doc in strays]


async def _executions(
    db: Database, wanted: dict[str, Any], order: list[tuple[str, int]], limit: int
) -> list[ExecutionRow]:
    if limit < 1:
        return []
    return [execution_of(doc) async for doc in db.executions.find(wanted).sort(order).limit(limit)]


# --- cancelling -----------------------------------------------------------------------------------------------------


async def request_cancel(db: Database, requests: Sequence[CancelRequest]) -> list[bool]:
    asked = [await _ask(db, request) for request in requests]
    audited = [r.id for r, did in zip(requests, asked, strict=True) if did and r.audit is not None]
    if audited:
        await audit.move_out(db, db.executions, audited)
    return asked


async def _ask(db: Database, request: CancelRequest) -> bool:
    """The first request's time and reason stay; the audit record of each is kept."""
    fields: dict[str, Any] = {
        "cancel_requested": {"$ifNull": ["$cancel_requested", request.at]},
        "cancel_reason": {
            "$cond": [
                {"$eq": [{"$type": "$cancel_requested"}, "missing"]},
                {"$literal": request.reason},
                "$cancel_reason",
            ]
        },
    }
    if request.audit is not None:
        record = [{"$literal": audit_document(request.audit)}]
        fields["audits"] = {"$concatArrays": [{"$ifNull": ["$audits", []]}, record]}
    row = {"_id": request.id, **_RUNNING, "token": request.token}
    return bool((await db.executions.update_one(row, [{"$set": fields}])).matched_count)


async def cancels(db: Database, owner: str) -> dict[str, str]:
    asked = db.executions.find({**_ASKED, "state": "running", "owner": owner}, {"cancel_reason": 1})
    return {doc["_id"]: doc.get("cancel_reason", "") async for doc in asked}


# --- reports ----------------------------------------------------------------------------------------------------------


async def report(db: Database, reports: Sequence[ProgressReport]) -> list[bool]:
    """Those of one execution in order, different ones at once."""
    by_id: dict[str, list[int]] = {}
    for n, one in enumerate(reports):
        by_id.setdefault(one.id, []).append(n)
    stored = [False] * len(reports)

    async def in_order(places: Sequence[int]) -> None:
        for n in places:
            stored[n] = await _report(db, reports[n])

    await asyncio.gather(*map(in_order, by_id.values()))
    return stored


async def _report(db: Database, report: ProgressReport) -> bool:
    """The row gives the lines their numbers, if it still runs under this owner and token."""
    texts = {"progress_json": report.progress_json, "counters_json": report.counters_json}
    fields = {name: text for name, text in texts.items() if text is not None}
    change: dict[str, Any] = {"$set": fields} if fields else {}
    if report.logs or not fields:
        change["$inc"] = {"logged": len(report.logs)}
    row = {"_id": report.id, **_RUNNING, "token": report.token, "owner": report.owner}
    after = await db.executions.find_one_and_update(
        row, change, projection={"logged": 1}, return_document=ReturnDocument.AFTER
    )
    if after is None:
        return False
    if report.logs:
        await _keep_lines(db, report, int(after["logged"]))
    return True


async def _keep_lines(db: Database, report: ProgressReport, last: int) -> None:
    lines = [
        {"_id": line_id(report.id, n), "n": n, "at": line.at, "level": line.level, "message": line.message}
        for n, line in enumerate(report.logs, last - len(report.logs) + 1)
    ]
    await db.logs.insert_many(lines, ordered=False)
    if last > LOG_LINES_KEPT:
        await db.logs.delete_many(
            {"_id": {"$gt": line_id(report.id, 0), "$lte": line_id(report.id, last - LOG_LINES_KEPT)}}
        )


# --- around ---------------------------------------------------------------------------------------------------------


async def children(db: Database, parent_id: str) -> dict[State, int]:
    group = {"$group": {"_id": "$state", "count": {"$sum": 1}}}
    found = await db.executions.aggregate([{"$match": {"parent_id": parent_id}}, group])
    return {State(doc["_id"]): int(doc["count"]) async for doc in found}


async def workers(db: Database) -> list[WorkerInfo]:
    return [worker_of(doc) async for doc in db.workers.find().sort("_id", 1)]


def worker_of(doc: dict[str, Any]) -> WorkerInfo:
    fields = {name: plain(value) for name, value in doc.items() if name != "_id"}
    return msgspec.convert({"id": doc["_id"], **fields}, WorkerInfo)


async def prune_workers(db: Database, silent_for: float) -> int:
    """Locks that carry an audit record wait until it is moved."""
    now = await db.now()
    await db.locks.delete_many({"expires": {"$lte": now}, "audits": {"$exists": False}})
    await tidy(db, now)
    silent = {"seen": {"$lt": now - seconds_to_micros(silent_for)}}
    return int((await db.workers.delete_many(silent)).deleted_count)


async def remove_worker(db: Database, id: str) -> None:
    await repeated(lambda: db.workers.delete_one({"_id": id}))
