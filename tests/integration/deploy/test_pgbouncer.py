"""Applications behind a real PgBouncer: what works in each of its modes, as docs/deploy/pgbouncer.md says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from click.testing import CliRunner

from mainspring import JobContext, Mainspring, State, StoreError, every
from mainspring.cli.root import root
from mainspring.stores.postgres import PostgresStore
from tests.pgbouncer_server import pgbouncer, through
from tests.servers import postgres
from tests.support import NEVER, ended, until

pytestmark = [pytest.mark.needs_tool("pgbouncer"), pytest.mark.req("OPS-5")]

POOL = 3
"""Server connections for two applications that want more than that: sessions change hands all the time."""


@asynccontextmanager
async def client_of_a_worker(url: str) -> AsyncIterator[Mainspring]:
    """A worker with a scheduler, and a client. Nobody polls: whatever starts was announced."""
    worker = Mainspring(url, poll_interval=NEVER, stop_timeout=5)
    client = Mainspring(url, poll_interval=NEVER)

    @worker.job("double")
    async def double(ctx: JobContext, number: int) -> int:
        return 2 * number

    @worker.job("sleep")
    async def sleep(ctx: JobContext) -> None:
        await asyncio.sleep(NEVER)

    worker.job("tick", trigger=every(seconds=1))(_nothing)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(worker)
        stack.push_async_callback(client.close)
        yield client


async def _nothing(ctx: JobContext) -> None:
    pass


@pytest.mark.parametrize("mode", ["session", "transaction"])
async def test_ticks_enqueues_cancels_and_wake_ups_work(mode: str) -> None:
    direct = postgres().migrated_database()
    size = 20 if mode == "session" else POOL  # a session occupies a connection for as long as it is open
    with pgbouncer(postgres(), mode, pool_size=size) as port:
        pooled = through(direct, port)
        url = f"{pooled}?listen_url={quote(direct)}" if mode == "transaction" else pooled
        async with client_of_a_worker(url) as client:
            one = await ended(client, await client.enqueue("double", {"number": 21}))
            assert one.result == 42
            many = await client.enqueue_many([("double", {"number": n}) for n in range(300)])
            assert [(await ended(client, item)).result for item in many] == [2 * n for n in range(300)]
            sleeper = await client.enqueue("sleep")
            assert sleeper is not None
            await until(lambda: _is(client, sleeper.id, State.RUNNING), "it runs")
            await client.cancel_execution(sleeper.id)
            assert (await ended(client, sleeper)).state == State.CANCELLED
            await until(lambda: _completed(client, "tick", 2), "ticks come")
        if mode == "transaction":
            assert _server_connections(direct) <= POOL


async def test_in_transaction_mode_a_listener_behind_the_pooler_is_known_to_hear_nothing() -> None:
    """One server connection: the session that was left listening is also the one in which a ping runs."""
    direct = postgres().migrated_database()
    with pgbouncer(postgres(), "transaction", pool_size=1) as port:
        pooled = through(direct, port)
        answer = await asyncio.to_thread(CliRunner().invoke, root, ["doctor", "--database-url", pooled, "-o", "json"])
        assert '"postgres_listen"' in answer.output, answer.output
        store = PostgresStore(pooled)
        await store.open()
        try:
            woken: list[Any] = []
            store.listen(woken.append)
            await until(lambda: len(woken) >= 2, "it connected twice, as it does after a ping that was lost")
            assert not store.hears
        finally:
            await store.close()


async def test_statement_mode_is_refused() -> None:
    direct = postgres().new_database()
    with pgbouncer(postgres(), "statement") as port:
        store = PostgresStore(through(direct, port))
        with pytest.raises(StoreError, match="transaction blocks not allowed in statement pooling mode"):
            await store.open()


async def _is(app: Mainspring, id: str, state: State) -> bool:
    return (await app.get(id)).state == state


async def _completed(app: Mainspring, job: str, count: int) -> bool:
    return len(await app.executions(job=job, status="completed")) >= count


def _server_connections(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        ).fetchone()
    assert row is not None
    return int(row[0])
