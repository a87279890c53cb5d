"""Executions while they run, and until their follow-ups are done."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

from pymongo import ReturnDocument

from ....core.ports import Topic
from ....model.execution import ExecutionRow
from ....model.store.messages import CancelRequest, ProgressReport
from ...common.rows import LOG_LINES_KEPT
from ..connection.bulk import appended, rounds
from ..connection.database import Database, StorePart
from ..connection.errors import repeated
from ..documents import audit_document, execution_of, log_document, log_id
from .conditions import VISIBLE

_RUNNING = {"live": True, "state": "running"}
_CANCEL_REQUESTED = {"live": True, "cancel_requested": {"$exists": True}}


class LiveExecutions(StorePart):
    async def expired(self, limit: int) -> list[ExecutionRow]:
        expired = {**_RUNNING, "lease": {"$lte": await self.db.now()}}
        return await _find(self.db, expired, [("lease", 1), ("_id", 1)], limit)

    async def todo(self, limit: int, after: str = "") -> list[ExecutionRow]:
        marked = {"todo": True, "live": False, "_id": {"$gt": after}, **VISIBLE}
        return await _find(self.db, marked, [("_id", 1)], limit)

    async def request_cancel(self, requests: Sequence[CancelRequest]) -> list[bool]:
        marked = [await repeated(partial(_request_cancel, self.db, request)) for request in requests]
        self.wake({Topic.CANCEL})
        return marked

    async def cancels(self, owner: str) -> dict[str, str]:
        requested = {**_CANCEL_REQUESTED, "state": "running", "owner": owner}
        found = await self.db.executions.find(requested, {"cancel_reason": 1})
        return {doc["_id"]: doc.get("cancel_reason", "") for doc in found}

    async def unserved_cancels(self, limit: int) -> list[ExecutionRow]:
        """Reads all rows that carry a request, which are few."""
        not_running = {**_CANCEL_REQUESTED, "state": {"$ne": "running"}}
        return await _find(self.db, not_running, [("_id", 1)], limit, hint="cancels")

    async def report(self, reports: Sequence[ProgressReport]) -> list[bool]:
        """Reports of one execution in order, those of different ones at once."""
        db, stored = self.db, [False] * len(reports)
        for batch in rounds(reports, key=lambda report: report.id):
            answers = await asyncio.gather(*(_report(db, report) for _, report in batch))
            for (n, _), answer in zip(batch, answers, strict=True):
                stored[n] = answer
        return stored


async def _find(
    db: Database, wanted: dict[str, Any], order: list[tuple[str, int]], limit: int, **options: Any
) -> list[ExecutionRow]:
    if limit < 1:
        return []
    return [execution_of(doc) for doc in await db.executions.find(wanted, sort=order, limit=limit, **options)]


async def _request_cancel(db: Database, request: CancelRequest) -> bool:
    """The first request's time and reason stay; the audit record of each is kept."""
    is_first = {"$eq": [{"$type": "$cancel_requested"}, "missing"]}
    fields: dict[str, Any] = {
        "cancel_requested": {"$ifNull": ["$cancel_requested", request.at]},
        "cancel_reason": {"$cond": [is_first, {"$literal": request.reason}, "$cancel_reason"]},
    }
    if request.audit is not None:
        fields["audits"] = appended("audits", audit_document(request.audit))
    row = {"_id": request.id, **_RUNNING, "token": request.token}
    return bool((await db.executions.update_one(row, [{"$set": fields}])).matched_count)


async def _report(db: Database, report: ProgressReport) -> bool:
    """The row gives the log lines their numbers, if it still runs under this owner and token."""
    texts = {"progress_json": report.progress_json, "counters_json": report.counters_json}
    fields = {name: text for name, text in texts.items() if text is not None}
    change: dict[str, Any] = {"$set": fields} if fields else {}
    if report.labels:
        change["$addToSet"] = {"labels": {"$each": list(report.labels)}}
    if report.logs or not change:
        change["$inc"] = {"logged": len(report.logs)}
    row = {"_id": report.id, **_RUNNING, "token": report.token, "owner": report.owner}
    after = await db.executions.find_one_and_update(
        row, change, projection={"logged": 1}, return_document=ReturnDocument.AFTER
    )
    if after is None:
        return False
    if report.logs:
        await _store_logs(db, report, int(after["logged"]))
    return True


async def _store_logs(db: Database, report: ProgressReport, last: int) -> None:
    first = last - len(report.logs) + 1
    lines = [log_document(report.id, n, line) for n, line in enumerate(report.logs, first)]
    await db.logs.insert_missing(lines)
    if last > LOG_LINES_KEPT:
        oldest = {"$gt": log_id(report.id, 0), "$lte": log_id(report.id, last - LOG_LINES_KEPT)}
        await db.logs.delete_many({"_id": oldest})
