"""Locks on Redis, through the application object: the same behaviour, and closed doors when Redis fails."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainspring import (
    ConfigurationError,
    InvalidValue,
    JobContext,
    LeaseLost,
    LockTaken,
    LockUnavailable,
    Mainspring,
    any_of,
    once,
)
from mainspring.core.views.job import job_of
from mainspring.model.events import Trouble
from tests.support import DEADLINE, Nodes, Seen, until
from tests.valkey_server import Valkey, new_valkey, valkey


@pytest.fixture
def server() -> Valkey:
    return valkey()


def locking(nodes: Nodes, server: Valkey, patience: float = 20.0, **options: Any) -> Mainspring:
    url = server.url(prefix=nodes.folder.name, socket_timeout=patience, socket_connect_timeout=patience)
    return nodes.app(**{"locks": "redis", "redis_url": url, **options})


@asynccontextmanager
async def clients(nodes: Nodes, server: Valkey, count: int = 2) -> AsyncIterator[list[Mainspring]]:
    apps = [locking(nodes, server) for _ in range(count)]
    try:
        yield apps
    finally:
        for app in apps:
            await app.close()


@pytest.mark.req("LCK-1", "LCK-3", "LCK-4")
async def test_one_holder_at_a_time_across_processes(nodes: Nodes, server: Valkey) -> None:
    async with clients(nodes, server) as (one, two), nodes.client() as elsewhere:
        async with one.lock("import", ttl="1m") as lock:
            [row] = await two.locks.all()
            assert (row.name, row.token) == ("import", lock.token)
            assert row.expires_at - row.acquired_at == timedelta(minutes=1)
            assert lock.held
            with pytest.raises(LockTaken, match=f"lock 'import' is held by {row.owner}"):
                async with two.lock("import", ttl="1m"):
                    raise AssertionError("never entered")
            assert await elsewhere.locks.all() == []  # the store has none
        assert await two.locks.all() == []
        async with two.lock("import", ttl="1m") as later:
            assert later.token > row.token


@pytest.mark.req("LCK-1", "LCK-3")
async def test_it_is_renewed_while_held(nodes: Nodes, server: Valkey) -> None:
    async with clients(nodes, server) as (one, two), one.lock("import", ttl="3s") as lock:
        [first] = await two.locks.all()
        await until(
            lambda: _expires_after(two, first.expires_at + timedelta(milliseconds=400)),
            "it outlives its first time to live",
        )
        assert lock.held


async def _expires_after(app: Mainspring, past: datetime) -> bool:
    return any(row.expires_at > past for row in await app.locks.all())


@pytest.mark.req("LCK-2", "LCK-3")
async def test_a_window_lock(nodes: Nodes, server: Valkey) -> None:
    async with clients(nodes, server) as (one, two):
        taken = await asyncio.gather(*(app.try_lock("once", ttl=60) for app in (one, two) for _ in range(10)))
        assert sum(taken) == 1
        assert await two.unlock("once") is True
        assert await two.unlock("once") is False
        assert await one.try_lock("once", ttl="20ms")
        await until(lambda: two.try_lock("once", ttl=60), "it runs out by itself")


@pytest.mark.req("LCK-3", "LCK-4", "SEC-3")
async def test_an_administrators_release_is_recorded_in_the_store(nodes: Nodes, server: Valkey) -> None:
    async with clients(nodes, server) as (one, two), nodes.client() as elsewhere:
        async with one.lock("import", ttl="2s") as lock:
            assert await two.locks.release("import", by="ada") is True
            await until(lambda: not lock.held, "the renewal is refused")
            with pytest.raises(LeaseLost):
                lock.check()
        assert await two.locks.release("import", by="ada") is False
        audits = await elsewhere.audits("lock:import")
        assert [(audit.action, audit.actor) for audit in audits] == [("release", "ada")]


@pytest.mark.req("LCK-3")
def test_the_blocking_facade_takes_them_too(sqlite_nodes: Nodes, server: Valkey) -> None:
    app = locking(sqlite_nodes, server)
    with app.sync.lock("import", ttl="1m") as lock:
        assert lock.token
        assert [row.name for row in app.sync.locks.all()] == ["import"]
    assert app.sync.try_lock("once", ttl=60)
    app.sync.close()


@pytest.mark.req("LCK-3")
async def test_nothing_is_held_while_redis_is_away_and_all_goes_on_when_it_is_back(memory_nodes: Nodes) -> None:
    server, seen = new_valkey(), Seen()
    app = locking(memory_nodes, server, observers=[seen])
    asked = [app.try_lock("l", ttl=1), app.unlock("l"), app.locks.all(), app.locks.release("l"), _entered(app)]
    for answer in await asyncio.gather(*asked, return_exceptions=True):
        assert isinstance(answer, LockUnavailable)
        assert f"locks at redis://127.0.0.1:{server.port}/0" in str(answer)
        assert "cannot be used, so no lock is held" in str(answer)
    server.start()
    async with app.lock("l", ttl="1m") as lock:
        server.kill()
        assert lock.held  # nobody else can have it yet
    assert [(event.where, "LockUnavailable" in event.error) for event in seen.of(Trouble)] == [("locks", True)]
    server.start()
    with pytest.raises(ZeroDivisionError):
        await _failed(app, server)
    server.start()
    assert await app.try_lock("l", ttl=1)
    await app.close()
    server.remove()


async def _failed(app: Mainspring, server: Valkey) -> None:
    async with app.lock("l", ttl="1m"):
        server.kill()
        _ = 1 / 0


async def _entered(app: Mainspring) -> None:
    async with app.lock("l", ttl=1, wait=None):
        raise AssertionError("never entered")


@pytest.mark.req("LCK-1", "LCK-3")
async def test_whoever_is_cancelled_while_taking_a_lock_does_not_hold_it(memory_nodes: Nodes, server: Valkey) -> None:
    """At whatever moment of connecting, asking and hearing the answer it is."""
    for moment in range(60):
        app = locking(memory_nodes, server)
        taking = asyncio.create_task(_hold(app))
        for _ in range(moment):
            await asyncio.sleep(0)
        taking.cancel()
        await asyncio.wait_for(asyncio.gather(taking, return_exceptions=True), DEADLINE)
        assert taking.cancelled()
        await app.close()
    app = locking(memory_nodes, server)
    assert await app.try_lock("l", ttl=60)
    await app.close()


async def _hold(app: Mainspring) -> None:
    async with app.lock("l", ttl="1m", wait=None):
        await asyncio.Event().wait()


@pytest.mark.req("LCK-1", "LCK-3")
async def test_a_frozen_server_costs_the_lock_but_not_the_process(memory_nodes: Nodes) -> None:
    server = new_valkey()
    server.start()
    app = locking(memory_nodes, server, patience=1.0)
    async with app.lock("l", ttl="1s") as lock:
        server.freeze()
        await until(lambda: not lock.held, "it could not be renewed in time")
        with pytest.raises(LeaseLost):
            lock.check()
        with pytest.raises(LockUnavailable):
            await app.try_lock("other", ttl=1)
    server.thaw()
    await until(lambda: app.try_lock("l", ttl=60), "it has run out")
    await app.close()
    server.remove()


@pytest.mark.req("LCK-3")
async def test_a_flush_ends_every_lock_and_its_holder_hears_of_it(memory_nodes: Nodes) -> None:
    server = new_valkey()
    server.start()
    async with clients(memory_nodes, server) as (one, two):
        async with one.lock("l", ttl="300ms") as lock:
            server.flush()
            assert await two.try_lock("l", ttl=60)
            [row] = await two.locks.all()
            assert row.token > lock.token  # what the token guards refuses the first one from now on
            await until(lambda: not lock.held, "the renewal is refused")
        assert [held.token for held in await two.locks.all()] == [row.token]
    server.remove()


# --- a server that lies -----------------------------------------------------------------------------------------

LIE = b"*3\r\n$1\r\n1\r\n$1\r\n1\r\n$16\r\n9999999999999999\r\n"


async def _lie(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Every script took the lock; everything else is fine."""
    while head := await reader.readline():
        words = [await reader.readexactly(int((await reader.readline())[1:]) + 2) for _ in range(int(head[1:]))]
        writer.write(LIE if words[0].upper().startswith(b"EVAL") else b"+OK\r\n")
    writer.close()


async def _tick(ctx: JobContext) -> None:
    async with ctx.resources.app.lock("everybody", ttl="1m"):
        ctx.resources.ran.append(ctx.execution.scheduled_at)
        await asyncio.sleep(0.05)


@pytest.mark.req("LCK-3", "REL-1", "TIM-1")
async def test_ticks_are_exact_though_redis_gives_the_same_lock_to_everybody(sqlite_nodes: Nodes) -> None:
    liar = await asyncio.start_server(_lie, "127.0.0.1", 0)
    port = liar.sockets[0].getsockname()[1]
    ran: list[datetime | None] = []
    apps = [sqlite_nodes.app(locks="redis", redis_url=f"redis://127.0.0.1:{port}/0?protocol=2") for _ in range(3)]
    await apps[0].open()  # which may take a while
    start = datetime.now(UTC) + timedelta(seconds=1.5)
    ticks = [once(start + n * timedelta(milliseconds=20)) for n in range(10)]
    for app in apps:
        app.provide("app", app)
        app.provide("ran", ran)
        app.job("tick")(_tick)
        app.schedule("ticking", "tick", any_of(*ticks), overlap="allow", grace="10m")
        await app.start()
    one, two = apps[:2]
    async with one.lock("l", ttl="1m"), two.lock("l", ttl="1m"):  # so it says
        await until(lambda: len(ran) == len(ticks), "every tick has run")
        [job] = [view for view in await one.jobs() if view.name == "ticking"]
        assert job_of(job).last_number == len(ticks) == len(set(ran))
    for app in apps:
        await app.close()
    liar.close()
    await liar.wait_closed()


@pytest.mark.req("LCK-3")
async def test_an_answer_that_is_none_is_no_lock(memory_nodes: Nodes) -> None:
    async def nonsense(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(4096):
            writer.write(b"+OK\r\n")
        writer.close()

    liar = await asyncio.start_server(nonsense, "127.0.0.1", 0)
    port = liar.sockets[0].getsockname()[1]
    app = memory_nodes.app(locks="redis", redis_url=f"redis://127.0.0.1:{port}/0?protocol=2")
    with pytest.raises(LockUnavailable):
        await app.try_lock("l", ttl=1)
    await app.close()
    liar.close()
    await liar.wait_closed()


# --- settings ---------------------------------------------------------------------------------------------------


@pytest.mark.req("LCK-3", "OPS-2")
def test_settings_that_cannot_work() -> None:
    with pytest.raises(
        ConfigurationError, match=r"locks \(from argument locks\) needs redis_url, such as redis://localhost"
    ):
        Mainspring("memory://", locks="redis")
    with pytest.raises(InvalidValue, match="allowed: 'store' or 'redis'"):
        Mainspring("memory://", locks="zookeeper")
    with pytest.raises(InvalidValue, match=r"redis_url .*:\*\*\*@.* allowed: redis://host:port/0"):
        Mainspring("memory://", redis_url="http://me:secret@localhost")
    app = Mainspring("memory://", redis_url="redis://:sesame@localhost:6379/0", locks="redis")
    assert app.settings.in_force()["redis_url"] == "redis://:***@localhost:6379/0"
    assert "sesame" not in repr(app.settings)


@pytest.mark.req("LCK-3")
async def test_a_missing_package_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis.asyncio", None)
    app = Mainspring("memory://", redis_url="redis://localhost:6379/0", locks="redis")
    with pytest.raises(ConfigurationError, match=r"pip install 'mainspring\[redis\]'"):
        await app.try_lock("l", ttl=1)
    await app.close()
