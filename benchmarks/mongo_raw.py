"""How fast is the MongoDB store by itself? A bare PyMongo loop of the same operations runs beside it.

    python -m benchmarks.mongo_raw --executions 10000 --rounds 3 [--kind standalone]

`enqueue` inserts executions in batches of 500; the bare loop inserts documents of the same fields with `insert_many`.
`drain` settles 100 completed executions and claims the next 100, until nothing is left. The bare loop finds the next
100 ids along its index, claims them with one update that leaves a token, reads them back by that token, and finishes
them with one `bulk_write`; it knows no lanes, no keys, no statistics, and has one index. Both wait for the journal when
they insert and finish, and neither does when it claims. `--overlap` runs so many exchanges at once.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import time
from typing import Any

from bson import ObjectId
from pymongo import AsyncMongoClient, UpdateOne, WriteConcern

from mainspring.core.rules import transitions
from mainspring.model.execution import ExecutionRow, Outcome, encode_policy
from mainspring.model.policies import RunPolicy
from mainspring.model.store.messages import Change, ClaimRequest
from mainspring.model.values.ids import random_id
from mainspring.stores.mongo import MongoStore
from mainspring.stores.mongo.documents import execution_document
from tests.mongo_server import KINDS, mongo

BATCH, CHUNK = 100, 500
OWNER = "0199aaaa-0000-7000-8000-000000000001"
POLICY = encode_policy(RunPolicy())
DURABLE, QUICK = WriteConcern(w="majority", j=True), WriteConcern(w=1)


def executions(count: int) -> list[ExecutionRow]:
    chance, now = random.Random(1), time.time_ns() // 1000
    ids = [random_id(now + n, chance) for n in range(count)]
    fields: dict[str, Any] = {
        "job": "mail",
        "job_id": "mail-1",
        "handler": "mail",
        "params": '{"n":1}',
        "policy": POLICY,
    }
    return [ExecutionRow(id=id, trace_id=id.replace("-", ""), created=now, due=now, **fields) for id in ids]


class Store:
    """The store under measure."""

    def __init__(self, url: str) -> None:
        self._store = MongoStore(url)

    async def open(self) -> None:
        await self._store.open()

    async def close(self) -> None:
        await self._store.close()

    async def enqueue(self, rows: list[ExecutionRow]) -> None:
        for start in range(0, len(rows), CHUNK):
            await self._store.add(rows[start : start + CHUNK])

    async def drain(self, overlap: int) -> int:
        return sum(await asyncio.gather(*(self._drain(n) for n in range(overlap))))

    async def _drain(self, turn: int) -> int:
        done, changes = 0, list[Change]()
        while True:
            request = ClaimRequest(
                owner=OWNER, handlers=frozenset({"mail"}), queues=None, limit=BATCH, lease=30, turn=turn
            )
            answer = await self._store.exchange(changes, request)
            done += sum(answer.applied)
            if not answer.claimed:
                return done
            changes = [_completed(row) for row in answer.claimed]


def _completed(row: ExecutionRow) -> Change:
    now = time.time_ns() // 1000
    change = transitions.after_attempt(row, Outcome(end="completed", started=now, ended=now, worker=OWNER), 0.5)
    return change


class Bare:
    """What a programmer would write first."""

    def __init__(self, url: str) -> None:
        self._client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(url)
        database = self._client.get_default_database()
        self._rows = database.get_collection("bare", write_concern=DURABLE)
        self._claims = database.get_collection("bare", write_concern=QUICK)

    async def open(self) -> None:
        keys = [("ready", 1), ("priority", -1), ("_id", 1)]
        await self._rows.create_index(keys, partialFilterExpression={"ready": {"$exists": True}})

    async def close(self) -> None:
        await self._client.close()

    async def enqueue(self, rows: list[ExecutionRow]) -> None:
        for start in range(0, len(rows), CHUNK):
            await self._rows.insert_many(
                [execution_document(row) for row in rows[start : start + CHUNK]], ordered=False
            )

    async def drain(self, overlap: int) -> int:
        return sum(await asyncio.gather(*(self._drain() for _ in range(overlap))))

    async def _drain(self) -> int:
        done = 0
        while True:
            ready = self._rows.find({"ready": "default/mail"}, {"_id": 1}).sort([("priority", -1), ("_id", 1)])
            ids = [doc["_id"] for doc in await ready.limit(BATCH).to_list()]
            if not ids:
                return done
            token = ObjectId()
            taken = {"$set": {"state": "running", "owner": OWNER, "claim": token}, "$unset": {"ready": 1}}
            await self._claims.update_many({"_id": {"$in": ids}, "ready": {"$exists": True}}, taken)
            rows = await self._rows.find({"_id": {"$in": ids}, "claim": token}).to_list()
            if rows:
                ended = {"$set": {"state": "completed", "live": False, "finished": time.time_ns() // 1000}}
                await self._rows.bulk_write(
                    [UpdateOne({"_id": r["_id"], "claim": token}, ended) for r in rows], ordered=False
                )
            done += len(rows)


async def measure(kind: str, count: int, rounds: int, overlap: int) -> None:
    rates: dict[str, dict[str, list[float]]] = {"store": {}, "bare": {}}
    for _ in range(rounds):
        for name, make in (("bare", Bare), ("store", Store)):
            contestant = make(mongo(kind).new_database())
            await contestant.open()
            try:
                rows = executions(count)
                begin = time.perf_counter()
                await contestant.enqueue(rows)
                rates[name].setdefault("enqueue", []).append(count / (time.perf_counter() - begin))
                begin = time.perf_counter()
                assert await contestant.drain(overlap) == count
                rates[name].setdefault("drain", []).append(count / (time.perf_counter() - begin))
            finally:
                await contestant.close()
    print(f"{kind}, {count:,} executions, {rounds} rounds, {overlap} at once: medians")
    for what in ("enqueue", "drain"):
        store, bare = (statistics.median(rates[name][what]) for name in ("store", "bare"))
        print(f"  {what:8} store {store:8,.0f}/s   bare {bare:8,.0f}/s   {store / bare:6.1%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--executions", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--overlap", type=int, default=1)
    parser.add_argument("--kind", choices=KINDS, default="replica_set")
    given = parser.parse_args()
    asyncio.run(measure(given.kind, given.executions, given.rounds, given.overlap))


if __name__ == "__main__":
    main()
