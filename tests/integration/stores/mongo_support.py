"""What the tests of the MongoDB store share: an open store, executions, claims, endings."""

from __future__ import annotations

import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mainspring.model.execution import ExecutionRow, State
from mainspring.model.store.messages import Change, ClaimRequest
from mainspring.model.values.ids import random_id
from mainspring.stores.mongo import MongoStore

OWNER = "w1"


@asynccontextmanager
async def opened(database: Any, **options: Any) -> AsyncIterator[MongoStore]:
    store = MongoStore(database, **options)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def execution(**fields: Any) -> ExecutionRow:
    now = time.time_ns() // 1000
    plain = {"id": random_id(now, random.Random()), "job": "job", "job_id": "job-1", "handler": "work"}
    return ExecutionRow(**{**plain, "created": now, "due": now, **fields})


def request(**fields: Any) -> ClaimRequest:
    plain = {"owner": OWNER, "handlers": frozenset({"work"}), "queues": None, "limit": 10, "lease": 30.0}
    return ClaimRequest(**{**plain, **fields})


def ending(row: ExecutionRow, to: State = State.COMPLETED, **fields: Any) -> Change:
    seen = {"id": row.id, "expect": row.state, "token": row.token, "owner": row.owner}
    return Change(**seen, to=to, at=row.created, failures=0, crashes=0, **fields)
