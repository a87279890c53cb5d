"""The newest runs of several jobs, along the index of executions by job."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from ....model.execution import State
from ....model.store.messages import RunSummary
from ....model.time.instants import Micros
from ...common.ids import id_range
from ...common.newest_runs import RunWalk
from ..connection.database import Database
from .conditions import VISIBLE

AT_ONCE = 8
"""Jobs that are read at the same time."""

_TIMES = ("created", "due", "started", "finished")
_FIELDS = dict.fromkeys(("state", "trigger", *_TIMES, "reason", "tenant", "parent_id"), 1)


async def newest_runs(
    db: Database, job_ids: Sequence[str], limit: int, since: Micros | None = None
) -> dict[str, list[RunSummary]]:
    room = asyncio.Semaphore(AT_ONCE)

    async def read(job_id: str) -> list[RunSummary]:
        async with room:
            return await _of_job(db, job_id, limit, since)

    found = await asyncio.gather(*(read(id) for id in job_ids)) if limit > 0 else []
    return {id: runs for id, runs in zip(job_ids, found, strict=False) if runs}


async def _of_job(db: Database, job_id: str, limit: int, since: Micros | None) -> list[RunSummary]:
    """The server merges live and finished rows, which are apart in the index."""
    lowest, _ = id_range(since, None)
    walk, more = RunWalk(limit, since), True
    while more:
        ids = {sign: id for sign, id in (("$lt", walk.before), ("$gte", lowest)) if id is not None}
        wanted: dict[str, Any] = {"job_id": job_id, "live": {"$in": [True, False]}, **VISIBLE}
        if ids:
            wanted["_id"] = ids
        page = await db.executions.find(wanted, _FIELDS, sort={"_id": -1}, limit=walk.wanted, hint="job")
        more = walk.add([(_run(doc), "parent_id" in doc and "tenant" in doc) for doc in page])
    return walk.runs


def _run(doc: Mapping[str, Any]) -> RunSummary:
    times = [None if doc.get(name) is None else int(doc[name]) for name in _TIMES]
    created, due, started, finished = times
    trigger = doc.get("trigger", "enqueue")
    return RunSummary(
        doc["_id"], State(doc["state"]), trigger, created or 0, due or 0, started, finished, doc.get("reason")
    )
