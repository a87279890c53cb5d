"""Our own pool of connections: how many there are, and what is said when there are not enough."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import Mock

import psycopg
import pytest

from mainspring import Mainspring, StoreError
from mainspring.model.errors import StoreUnavailable
from mainspring.stores.postgres import PostgresStore
from mainspring.stores.postgres.connection import pool
from tests.servers import postgres
from tests.support import until


@pytest.fixture
def url() -> str:
    return postgres().new_database()


def connections(url: str) -> int:
    """Of all processes to this database, without the one that asks."""
    text = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    with psycopg.connect(url) as connection:
        found = connection.execute(text).fetchone()
    assert found is not None
    return int(found[0])


@pytest.mark.req("OPS-7")
async def test_an_idle_node_gives_its_connections_back(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "IDLE_FOR", 0.3)
    app = Mainspring(url)
    app.job("work")(lambda: None)
    async with app:
        store: Any = (await app._runtime.engine()).store
        for _ in range(2):
            sleeps = [store.database.query("SELECT pg_sleep(0.5)", ()) for _ in range(10)]
            burst = asyncio.gather(*sleeps)
            await until(lambda: connections(url) > 10)
            await burst
            await until(lambda: connections(url) <= 4, "an idle node has four connections")
        execution = await app.enqueue("work")
        assert (await app.wait(execution)).state == "completed"
    assert connections(url) == 0


async def test_connections_in_use_stay_open(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "IDLE_FOR", 0.05)
    store = PostgresStore(url)
    await store.open()
    pids = set[int]()
    for _ in range(20):  # three at a time, all the time
        rows = await asyncio.gather(
            *[store.database.query("SELECT pg_backend_pid() FROM pg_sleep(0.02)", ()) for _ in range(3)]
        )
        pids |= {row[0][0] for row in rows}
    assert len(pids) == 3
    await store.close()


@pytest.mark.req("OPS-8")
async def test_a_server_without_room_for_more_connections_names_both_settings(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE ROLE few LOGIN CONNECTION LIMIT 0")
    limited = PostgresStore(url.replace("postgres@", "few@"))
    with pytest.raises(StoreError, match=r"too many connections.*raise max_connections .* or lower pool_size"):
        await limited.open()


@pytest.mark.req("OPS-8")
async def test_who_waits_too_long_for_a_connection_of_the_pool_hears_what_to_change() -> None:
    wires = pool._Wires(1, 0.05, lambda: pool.KEPT, lambda: False)
    assert await wires.take() is None
    with pytest.raises(StoreUnavailable, match=r"all 1 connections .* pool_size .*max_connections"):
        await wires.take()
    wires.drop(None)
    assert await wires.take() is None


async def test_a_connection_that_comes_back_to_a_closed_pool_is_closed() -> None:
    """Somebody waits for his turn, gets the connection, and is cancelled while the pool closes."""
    closed: list[bool] = []
    wires = pool._Wires(1, 60.0, lambda: pool.KEPT, lambda: bool(closed))
    assert await wires.take() is None
    waiting = asyncio.create_task(wires.take())
    await asyncio.sleep(0)
    wire: Any = Mock()
    wires.give_back(wire)
    closed.append(True)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    wire.close.assert_called_once_with()
