"""Claims from a backlog on PostgreSQL go on where the last one ended, and forget nobody."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest

from mainspring.model.execution import ExecutionRow
from mainspring.model.store.messages import ClaimRequest
from mainspring.model.values.ids import random_id
from mainspring.stores.postgres import PostgresStore
from mainspring.stores.postgres.statements import sql
from tests.servers import postgres, postgres_versions

CHANCE = random.Random(1)
NOW = 1_760_000_000_000_000
BATCH = 50

CLOCK = f"""
    CREATE TABLE public.clock AS SELECT {NOW}::bigint AS now;
    CREATE OR REPLACE FUNCTION mainspring.now_micros() RETURNS bigint LANGUAGE sql VOLATILE
    AS $$ SELECT now FROM public.clock $$;
"""
TELL_PLANS = """
    LOAD 'auto_explain';
    SET auto_explain.log_min_duration = 0;
    SET auto_explain.log_nested_statements = on;
    SET client_min_messages = log;
"""


class Backlog:
    """A store with one connection and a clock that stands still, and 160 executions that wait."""

    def __init__(self, version: str) -> None:
        self.url = postgres(version).new_database()
        self.store = PostgresStore(self.url + "?pool_size=1")
        self.waiting = [made(number) for number in range(1_000, 1_160)]

    async def fill(self) -> None:
        await self.store.open()
        self.execute(CLOCK)
        await self.store.add(self.waiting)

    async def claim(self, **fields: Any) -> list[str]:
        plain = {"owner": "w", "handlers": frozenset({"work", "other"}), "queues": None, "limit": BATCH, "lease": 30.0}
        return [row.id for row in (await self.store.exchange([], ClaimRequest(**{**plain, **fields}))).claimed]

    def later(self, millis: int) -> None:
        self.execute(f"UPDATE public.clock SET now = now + {millis * 1_000}")

    def execute(self, text: str) -> None:
        with psycopg.connect(self.url) as connection:
            connection.execute(text.encode())

    def ids(self, first: int, last: int) -> list[str]:
        return [row.id for row in self.waiting[first:last]]


def made(millis: int, **fields: Any) -> ExecutionRow:
    """An execution made so many milliseconds into the last minute."""
    at = NOW - 60_000_000 + millis * 1_000
    plain = {"id": random_id(at, CHANCE), "job": "job", "job_id": "job-1", "handler": "work"}
    return ExecutionRow(**{**plain, "created": at, "due": at, **fields})


@asynccontextmanager
async def filled(version: str = "18") -> AsyncIterator[Backlog]:
    backlog = Backlog(version)
    await backlog.fill()
    try:
        yield backlog
    finally:
        await backlog.store.close()


@pytest.mark.req("FLW-2")
async def test_who_comes_later_with_an_older_id_waits_a_moment_and_no_longer() -> None:
    async with filled() as backlog:
        assert await backlog.claim() == backlog.ids(0, 50)
        early = made(1)
        await backlog.store.add([early])
        assert await backlog.claim() == backlog.ids(50, 100)
        backlog.later(201)
        assert await backlog.claim() == [early.id, *backlog.ids(100, 149)]


@pytest.mark.req("FLW-2")
async def test_nobody_waits_while_a_batch_has_room() -> None:
    async with filled() as backlog:
        assert await backlog.claim() == backlog.ids(0, 50)
        early, missed = made(1), made(2, job="job2", job_id="job-2")
        await backlog.store.add([early, missed])
        assert await backlog.claim(limit=100) == backlog.ids(50, 150)
        assert await backlog.claim() == [*backlog.ids(150, 160), early.id, missed.id]
        assert await backlog.claim() == []


@pytest.mark.req("FLW-2")
async def test_what_comes_before_the_lane_comes_first() -> None:
    """A higher priority, and other lanes; who has no handler for the lane, or another queue, gets nothing of it."""
    async with filled() as backlog:
        assert await backlog.claim() == backlog.ids(0, 50)
        assert await backlog.claim(handlers=frozenset({"other"})) == []
        assert await backlog.claim(queues=frozenset({"elsewhere"})) == []
        urgent = made(5_000, priority=1)
        await backlog.store.add([urgent])
        assert await backlog.claim() == [urgent.id, *backlog.ids(50, 99)]
        for fields in ({"handler": "other"}, {"queue": "a"}, {"queue": "z"}):
            other = made(5_000, **fields)
            await backlog.store.add([other])
            assert other.id in await backlog.claim()


@pytest.mark.req("NUM-1")
@pytest.mark.parametrize("version", postgres_versions())
async def test_going_on_is_a_walk_along_the_index_of_ready_rows(version: str) -> None:
    plans: list[str] = []
    values = (*[None] * 8, "w", 1, "{work}", None, None, 30_000_000, BATCH, 0, False)
    async with (
        filled(version) as backlog,
        await psycopg.AsyncConnection.connect(backlog.url, autocommit=True) as connection,
        psycopg.AsyncRawCursor(connection) as cursor,
    ):
        connection.add_notice_handler(lambda notice: plans.append(notice.message_primary or ""))
        await connection.execute(TELL_PLANS.encode())
        for _ in range(2):
            await cursor.execute(sql("exchange_completed").encode(), values)
    [onward] = [plan for plan in plans if "xmax = " in plan and "INSERT" not in plan and "Index Scan" in plan]
    assert "Index Scan using live_ready" in onward
    assert "live_id" not in onward
