"""Two ways of claiming on MongoDB: many rows by one token in two steps, or one by one with findOneAndUpdate.

    python -m benchmarks.mongo_claim --executions 4000 --rounds 3 --workers 4

Both take rows from one lane along the same index and leave them running; several workers claim at once, in one process.
By token, a worker finds the ids of its next batch, takes those that are still there with one update, and reads them
back; rows that another worker took meanwhile are looked for again further ahead, as the store does.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

from bson import ObjectId
from pymongo import AsyncMongoClient, ReturnDocument

from benchmarks.mongo_raw import OWNER, executions
from mainspring.model.store.messages import ClaimRequest
from mainspring.stores.mongo import MongoStore
from mainspring.stores.mongo.connection.database import Database
from mainspring.stores.mongo.executions.claim import claim
from mainspring.stores.mongo.executions.claim_update import claim_stages
from mainspring.stores.mongo.limits.waking import NOTHING
from tests.mongo_server import KINDS, mongo

BATCH = 100
Way = Callable[[Database, ClaimRequest], Awaitable[int]]


async def by_token(db: Database, request: ClaimRequest) -> int:
    return len((await claim(db, request, NOTHING)).rows)


async def one_by_one(db: Database, request: ClaimRequest) -> int:
    for count in range(request.limit):
        row = await db.claims.find_one_and_update(
            {"ready": "default/mail"},
            claim_stages(db, request, ObjectId()),
            sort=[("priority", -1), ("_id", 1)],
            return_document=ReturnDocument.AFTER,
        )
        if row is None:
            return count
    return request.limit


async def worker(way: Way, db: Database) -> int:
    request = ClaimRequest(owner=OWNER, handlers=frozenset({"mail"}), queues=None, limit=BATCH, lease=30)
    total = 0
    while got := await way(db, request):
        total += got
    return total


async def measure(kind: str, count: int, rounds: int, workers: int) -> None:
    rates: dict[str, list[float]] = {}
    for _ in range(rounds):
        for way in (by_token, one_by_one):
            url = mongo(kind).new_database()
            client: AsyncMongoClient[dict[str, Any]]
            async with AsyncMongoClient(url) as client:
                store = MongoStore(client, name=client.get_default_database().name)
                await store.open()
                await store.add(executions(count))
                begin = time.perf_counter()
                taken_rows = sum(await asyncio.gather(*(worker(way, store.db) for _ in range(workers))))
                assert taken_rows == count
                rates.setdefault(way.__name__, []).append(count / (time.perf_counter() - begin))
                await store.close()
    token, single = (statistics.median(rates[name]) for name in ("by_token", "one_by_one"))
    print(f"{kind}, {count:,} executions, {workers} workers, batches of {BATCH}, medians of {rounds} rounds:")
    print(f"  by token {token:8,.0f}/s   one by one {single:8,.0f}/s   {token / single:.1f} x")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--executions", type=int, default=4_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--kind", choices=KINDS, default="replica_set")
    given = parser.parse_args()
    asyncio.run(measure(given.kind, given.executions, given.rounds, given.workers))


if __name__ == "__main__":
    main()
