"""Shares, limits and triggers on PostgreSQL, where conformance cannot look: many connections at one key, much that
waits, and rows that come from plain SQL."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import psycopg
import pytest
from psycopg.rows import tuple_row

from mainspring.core.ports import Topic
from mainspring.model.execution import AttemptRecord, ExecutionRow, State
from mainspring.model.job import Job, JobSpec, encode_spec
from mainspring.model.limits import Limit, decode_limits, encode_limits
from mainspring.model.store.messages import Change, ClaimRequest, ExecutionQuery, JobWrite
from mainspring.model.values.ids import random_id
from mainspring.stores.postgres import PostgresStore
from mainspring.stores.postgres.executions.exchange import exchange
from tests.servers import postgres

CHANCE = random.Random(8)
CLAIMERS, ROWS, MOST = 5, 240, 3
BACKLOG = 10_000


@pytest.fixture
def url() -> str:
    return postgres().new_database()


@asynccontextmanager
async def opened(url: str, count: int = 1) -> AsyncIterator[list[PostgresStore]]:
    async with AsyncExitStack() as stack:
        stores = [PostgresStore(url) for _ in range(count)]
        for store in stores:
            await store.open()
            stack.push_async_callback(store.close)
        yield stores


def execution(**fields: Any) -> ExecutionRow:
    now = time.time_ns() // 1000
    plain = {"id": random_id(now, CHANCE), "job": "job", "job_id": "job-1", "handler": "crawl"}
    return ExecutionRow(**{**plain, "created": now, "due": now, **fields})


def request(owner: str = "w1", **fields: Any) -> ClaimRequest:
    plain = {"owner": owner, "handlers": frozenset({"crawl"}), "queues": None, "limit": 10, "lease": 30.0}
    return ClaimRequest(**{**plain, **fields})


def change(row: ExecutionRow, to: State = State.COMPLETED, delay: float = 0.0) -> Change:
    """As a worker says it: most endings go the short way, the others the long one."""
    now = time.time_ns() // 1000
    attempt = AttemptRecord(number=1, worker=row.owner or "", started=now, ended=now, end="completed")
    seen: dict[str, Any] = {"id": row.id, "expect": row.state, "token": row.token, "owner": row.owner}
    return Change(**seen, to=to, at=now, failures=0, crashes=0, delay=delay, attempt=attempt)


async def rows_of(url: str, text: str) -> list[tuple[Any, ...]]:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True, row_factory=tuple_row) as connection:
        return await (await connection.execute(text.encode())).fetchall()


# --- many at one key ------------------------------------------------------------------------------------------------


@pytest.mark.req("FLW-3", "REL-1")
async def test_a_slot_that_an_open_transaction_takes_is_not_given_again(url: str) -> None:
    """A claim that has not been committed holds the key: others leave its rows and look again soon."""
    claim = "SELECT mainspring.exchange(NULL, NULL, 'w2', 1, '{crawl}', NULL, 30000000, 1, 0, false)"
    async with opened(url) as [store], await psycopg.AsyncConnection.connect(url) as other:
        limits = encode_limits((Limit("a", concurrency=1),))
        await store.add([execution(limits=limits)])
        [first] = (await store.exchange([], request())).claimed
        await store.exchange([change(first)], None)  # from now on the key has a row
        await store.add([execution(limits=limits) for _ in range(3)])
        await other.execute(claim.encode())
        async with asyncio.timeout(10):
            answer = await store.exchange([], request())
        assert answer.claimed == ()
        assert answer.next_due is not None
        assert answer.next_due <= answer.now + 5_000_000
        await other.commit()
        assert (await store.exchange([], request())).claimed == ()
        running = await store.find(ExecutionQuery(states=frozenset({State.RUNNING})))
        assert [row.owner for row in running] == ["w2"]
        assert (await store.exchange([change(running[0])], request())).claimed != ()


@pytest.mark.req("FLW-3", "REL-1")
async def test_many_that_settle_and_claim_at_once_never_exceed_a_limit_nor_lose_a_slot(url: str) -> None:
    """Each row has two keys, in either order; some are handed back, and each is told apart from what others hold."""
    held: Counter[str] = Counter()
    done: set[str] = set()

    def keys(row: ExecutionRow) -> list[str]:
        return [limit.key for limit in decode_limits(row.limits or "[]")]

    async def work(store: PostgresStore, owner: str) -> None:
        chance, mine = random.Random(owner), list[ExecutionRow]()
        while len(done) < ROWS:
            for row in mine:
                held.subtract(keys(row))
            ended = [change(row, *((State.PENDING,) if chance.random() < 0.2 else ())) for row in mine]
            answer = await store.exchange(sorted(ended, key=lambda one: one.id), request(owner, limit=4))
            assert all(answer.applied)
            done.update(one.id for one in ended if one.to is State.COMPLETED)
            mine = list(answer.claimed)
            for row in mine:
                held.update(keys(row))
            over = {key: count for key, count in held.items() if count > MOST}
            assert not over, f"more than {MOST} run at once: {over}"
            await asyncio.sleep(0)

    async with opened(url, CLAIMERS) as stores:
        limits = [Limit("a", concurrency=MOST), Limit("b", concurrency=MOST), Limit("c", concurrency=MOST)]
        pairs = [(one, other) for one in limits for other in limits if one != other]
        texts = [encode_limits(pair) for pair in pairs]
        share = ["x", "y", None]
        await stores[0].add([execution(limits=texts[n % 6], share=share[n % 3]) for n in range(ROWS)])
        async with asyncio.timeout(60):
            await asyncio.gather(*(work(store, f"w{n}") for n, store in enumerate(stores)))
        await stores[0].prune_workers(60.0)
    assert await rows_of(url, "SELECT key, running, slot_look FROM mainspring.limit_state") == []
    [[deadlocks]] = await rows_of(url, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
    assert deadlocks == 0


@pytest.mark.req("FLW-3")
async def test_others_are_told_of_rows_that_were_woken_unless_the_same_claim_takes_them(url: str) -> None:
    async with opened(url) as [store]:
        limits = encode_limits([Limit("k", concurrency=1)])
        await store.add([execution(limits=limits) for _ in range(4)])
        [running] = (await store.exchange([], request())).claimed
        _, topics = await exchange(store.database, [change(running)], None)
        assert topics == {Topic.ENDED, Topic.WORK}
        [running] = (await store.exchange([], request())).claimed
        answer, topics = await exchange(store.database, [change(running)], request())
        assert (len(answer.claimed), topics) == (1, {Topic.ENDED})
        elsewhere = request(handlers=frozenset({"rest"}))
        answer, topics = await exchange(store.database, [change(answer.claimed[0])], elsewhere)
        assert (answer.claimed, topics) == ((), {Topic.ENDED, Topic.WORK})


# --- much that waits ------------------------------------------------------------------------------------------------


@pytest.mark.req("TEN-5")
async def test_a_newcomer_is_in_the_next_batch_however_much_another_share_has_waiting(url: str) -> None:
    async with opened(url) as [store]:
        for _ in range(BACKLOG // 2_000):
            await store.add([execution(share="heavy") for _ in range(2_000)])
        for n in range(9):
            newcomer = execution(share=f"light{n}")
            await store.add([newcomer])
            claimed = (await store.exchange([], request(limit=2))).claimed
            assert newcomer.id in [row.id for row in claimed]


# --- from plain SQL -------------------------------------------------------------------------------------------------


@pytest.mark.req("FLW-3", "ENQ-2")
async def test_what_plain_sql_enqueues_has_share_and_limits_too(url: str) -> None:
    limits = (Limit("crawl:{tenant}:{params.site}", concurrency=1), Limit("all", rate="100/s"))
    spec = JobSpec(handler="crawl", limits=limits, weights={"acme": 3, "*": 2})
    job = Job(name="crawl", id="crawl-1", declared=encode_spec(spec))
    asked = [
        {"job": "crawl", "tenant": "acme", "params": {"site": "a"}},
        {"job": "crawl", "tenant": "acme", "params": {"site": "a"}},
        {"job": "crawl", "tenant": "other", "params": {"site": "a"}},
        {"job": "crawl"},
    ]
    async with opened(url) as [store]:
        await store.write_jobs([JobWrite(job=job, seen_version=None)])
        await rows_of(url, f"SELECT mainspring.enqueue('{json.dumps(asked)}')")
        claimed = (await store.exchange([], request())).claimed
        keys = {decode_limits(row.limits or "[]")[0].key: (row.share, row.weight) for row in claimed}
        assert keys == {"crawl:acme:a": ("acme", 3), "crawl:other:a": ("other", 2), "crawl:-:-": (None, 1)}
        assert decode_limits(claimed[0].limits or "[]")[1] == limits[1]
        [waiting] = await store.find(ExecutionQuery(states=frozenset({State.PENDING})))
        assert (waiting.parked, waiting.tenant) == ("crawl:acme:a", "acme")


@pytest.mark.req("FLW-3", "ENQ-2")
async def test_keys_that_plain_sql_fills_in_can_be_read_whatever_is_in_them(url: str) -> None:
    job = Job(
        name="crawl",
        id="crawl-1",
        declared=encode_spec(JobSpec(handler="crawl", limits=(Limit("{params.site}", rate=9),))),
    )
    asked = [{"job": "crawl", "params": {"site": site}} for site in ("", "a\tb", "a\u200bb\u2028", "b" * 500)]
    async with opened(url) as [store]:
        await store.write_jobs([JobWrite(job=job, seen_version=None)])
        await rows_of(url, f"SELECT mainspring.enqueue('{json.dumps(asked)}')")
        claimed = (await store.exchange([], request())).claimed
        assert sorted(decode_limits(row.limits or "[]")[0].key for row in claimed) == ["-", "a?b", "a?b?", "b" * 200]


# --- triggers ---------------------------------------------------------------------------------------------------------


@pytest.mark.req("HIS-3")
async def test_rows_are_found_by_their_trigger(url: str) -> None:
    async with opened(url) as [store]:
        for _ in range(2):
            await store.add([execution(trigger="schedule"), execution(), execution(share="a")])
            for row in (await store.exchange([], request(limit=2))).claimed:
                assert (await store.exchange([change(row)], None)).applied == (True,)
        for trigger, count in (("schedule", 2), ("enqueue", 4), ("api", 0)):
            query = ExecutionQuery(trigger=trigger)
            assert [row.trigger for row in await store.find(query)] == [trigger] * count
            assert await store.count(query, 100) == count
        counted = (await store.stats(["job-1"]))["job-1"].by_trigger
        assert sum(counted.values()) == 4
        assert set(counted) == {"schedule:completed", "enqueue:completed"}
