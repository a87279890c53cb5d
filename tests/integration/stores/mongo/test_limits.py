"""Shares and limits in MongoDB beyond the port: many that claim at once, and what happens between two of the steps."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import AsyncExitStack
from typing import Any

import pymongo
import pytest

from mainspring.model.execution import ExecutionRow
from mainspring.model.job import Job, JobSpec, encode_spec
from mainspring.model.limits import Limit, encode_limits
from mainspring.model.store.messages import JobWrite
from mainspring.stores.mongo import MongoStore
from mainspring.stores.mongo.executions import claim_limited
from mainspring.stores.mongo.limits import parking
from mainspring.stores.mongo.limits.capacity import Capacity, read_capacity
from tests.integration.stores.mongo_support import ending, execution, opened, request
from tests.mongo_server import KINDS, mongo
from tests.support import until

THREE = Limit("k", concurrency=3)
ONE = Limit("k", concurrency=1)
SCARCE = Limit("api", rate=0.001, burst=10)


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest) -> str:
    return mongo(request.param).migrated_database()


@pytest.fixture
def replica_set_url() -> str:
    return mongo("replica_set").migrated_database()


def limited(*limits: Limit, **fields: Any) -> ExecutionRow:
    return execution(limits=encode_limits(limits), **fields)


async def several(stack: AsyncExitStack, url: str, count: int) -> list[MongoStore]:
    return [await stack.enter_async_context(opened(url)) for _ in range(count)]


# --- many at once ---------------------------------------------------------------------------------------------------


@pytest.mark.req("FLW-3", "NUM-2")
async def test_never_do_more_run_under_a_key_than_its_limit(url: str) -> None:
    """Five clients that claim and end as fast as they can, each from a queue of its own, so that nothing but slots is
    between them. What is claimed runs from the answer to the claim until its ending is sent: those are counted. Another
    client reads the numbers of those that run.
    """
    async with AsyncExitStack() as stack:
        *stores, watcher = await several(stack, url, 6)
        rows = [limited(THREE, queue=f"q{n % 5}") for n in range(50)]
        done: list[str] = []
        running: set[str] = set()
        most = 0
        numbers: set[Any] = set()

        async def work(store: MongoStore, queue: str) -> None:
            nonlocal most
            mine = request(owner=f"w {queue}", queues=frozenset({queue}), limit=2)
            left = [row for row in rows if row.queue == queue]
            held: tuple[ExecutionRow, ...] = ()
            while len(done) < len(rows):
                await store.add(
                    [left.pop() for _ in range(min(2, len(left)))]
                )  # these have not been found without room
                running.difference_update(row.id for row in held)
                answer = await store.exchange([ending(row) for row in held], mine)
                assert all(answer.applied)
                done.extend(row.id for row in held)
                held = answer.claimed
                running.update(row.id for row in held)
                most = max(most, len(running))

        async def watch() -> None:
            while len(done) < len(rows):
                for doc in await watcher.db.executions.find({"live": True, "state": "running"}, {"slots": 1}):
                    numbers.update(slot["number"] for slot in doc["slots"])

        async with asyncio.timeout(120):
            await asyncio.gather(watch(), *(work(store, f"q{n}") for n, store in enumerate(stores)))
        assert sorted(done) == sorted(row.id for row in rows)
        assert 1 <= most <= 3
        assert numbers <= {0, 1, 2}


@pytest.mark.req("FLW-3", "NUM-2")
async def test_tokens_are_neither_lost_nor_doubled_when_many_claim_at_once(replica_set_url: str) -> None:
    async with AsyncExitStack() as stack:
        stores = await several(stack, replica_set_url, 4)
        await stores[0].add([limited(SCARCE) for _ in range(30)])
        claimed: list[str] = []

        async def everything_is_parked() -> bool:
            answers = await asyncio.gather(*(s.exchange([], request(owner=f"w{n}")) for n, s in enumerate(stores)))
            claimed.extend(row.id for answer in answers for row in answer.claimed)
            return await stores[0].db.executions.count_documents({"parked": "api"}) == 20

        await until(everything_is_parked, "all are parked but for ten")
        assert len(set(claimed)) == len(claimed) == 10


# --- between two steps ----------------------------------------------------------------------------------------------


@pytest.mark.req("FLW-3")
async def test_a_slot_that_was_free_a_moment_ago_is_refused_and_the_token_given_back(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(url) as store:
        both = Limit("api", rate=0.001, burst=2), ONE
        await store.add([limited(*both)])
        [running] = (await store.exchange([], request())).claimed
        await store.add([limited(*both)])
        real = read_capacity
        stale: list[Capacity] = []

        async def outdated(db: Any, limits: Iterable[Limit], now: int, **options: Any) -> Capacity:
            capacity = await real(db, limits, now, **options)
            if not stale:  # as if it had been read before the first row was claimed
                capacity.numbers["k"].clear()
                stale.append(capacity)
            return capacity

        monkeypatch.setattr(claim_limited, "read_capacity", outdated)
        assert (await store.exchange([], request())).claimed == ()
        assert stale
        assert await store.db.executions.count_documents({"parked": "k"}) == 1
        answer = await store.exchange([ending(running)], request())
        assert len(answer.claimed) == 1, "the token that was taken in vain is there again"


@pytest.mark.req("FLW-3")
async def test_a_row_that_is_parked_just_after_the_slot_was_freed_is_woken(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(url) as store:
        await store.add([limited(ONE), limited(ONE)])
        [running] = (await store.exchange([], request(limit=1))).claimed
        real = parking.schedule_recheck

        async def too_late(*arguments: Any) -> None:
            await real(*arguments)
            await store.exchange([ending(running)], None)  # nobody is parked yet, so that nobody is woken

        monkeypatch.setattr(parking, "schedule_recheck", too_late)
        assert (await store.exchange([], request())).claimed == ()
        monkeypatch.undo()
        assert len((await store.exchange([], request())).claimed) == 1


@pytest.mark.req("FLW-3")
async def test_a_slot_freed_without_a_wake_up_is_found_by_the_recheck(replica_set_url: str) -> None:
    """As when the process that ended the execution died before it could wake anybody."""
    async with opened(replica_set_url) as store:
        await store.add([limited(ONE), limited(ONE)])
        [running] = (await store.exchange([], request())).claimed
        gone = {"$set": {"live": False, "state": "completed"}, "$unset": {"slots": 1, "owner": 1, "lease": 1}}
        await store.db.executions.update_one({"_id": running.id}, gone)
        assert (await store.exchange([], request())).claimed == ()
        await store.db.limits.update_one({"_id": "slot:k"}, {"$set": {"recheck_at": 1}})
        assert len((await store.exchange([], request())).claimed) == 1


async def test_rechecks_without_parked_rows_and_full_buckets_are_deleted(replica_set_url: str) -> None:
    async with opened(replica_set_url) as store:
        await store.add([limited(ONE), limited(ONE), limited(Limit("api", rate=100_000.0, burst=1))])
        first = (await store.exchange([], request())).claimed
        second = (await store.exchange([ending(row) for row in first], request())).claimed
        await store.exchange([ending(row) for row in second], None)
        assert {doc["_id"] for doc in await store.db.limits.find()} == {"slot:k", "~token:api"}
        await store.db.limits.update_many({"recheck_at": {"$exists": True}}, {"$set": {"recheck_at": 1, "touched": 1}})
        await store.prune_workers(3600.0)
        assert await store.db.limits.count_documents({}) == 0


# --- other ways in --------------------------------------------------------------------------------------------------


@pytest.mark.req("TEN-5", "FLW-3")
async def test_shares_and_limits_of_ticks_and_of_a_callers_transaction(replica_set_url: str) -> None:
    job = Job(name="job", id="job-1", declared=encode_spec(JobSpec(handler="work")))
    async with opened(replica_set_url) as store:
        ticks = tuple(limited(THREE, share=share) for share in "aab")
        [written] = await store.write_jobs([JobWrite(job=job, seen_version=None, executions=ticks)])
        assert [added.outcome for added in written.added] == ["added"] * 3
        client: pymongo.MongoClient[dict[str, Any]]
        with (
            pymongo.MongoClient(replica_set_url) as client,
            client.start_session() as session,
            session.start_transaction(),
        ):
            store.add_in(session, [limited(THREE, share="c")])
        answer = await store.exchange([], request())
        assert [row.share for row in answer.claimed] == ["a", "b", "c"]
        assert await store.db.executions.count_documents({"parked": "k", "share": "a"}) == 1
