"""Named locks, through the application object."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest

from mainspring import InvalidValue, LeaseLost, LockTaken, Mainspring
from mainspring.app.adapters import SystemClock
from mainspring.model.events import Trouble
from mainspring.stores.memory import MemoryStore
from mainspring.testing.clock import FakeClock
from tests.support import Nodes, Seen, until


@pytest.mark.req("LCK-1", "LCK-4")
async def test_one_holder_at_a_time_across_processes(nodes: Nodes) -> None:
    async with nodes.client() as one, nodes.client() as two:
        async with one.lock("import", ttl="1m") as lock:
            [row] = await two.locks.all()
            assert (row.name, row.token, row.owner) == ("import", lock.token, (await one.locks.all())[0].owner)
            assert row.expires_at - row.acquired_at == timedelta(minutes=1)
            assert lock.held
            lock.check()
            with pytest.raises(LockTaken, match=f"lock 'import' is held by {row.owner}"):
                async with two.lock("import", ttl="1m"):
                    raise AssertionError("never entered")
            async with two.lock("another", ttl="1m"):
                pass
        assert await two.locks.all() == []
        async with two.lock("import", ttl="1m") as later:
            assert later.token > row.token
        with pytest.raises(LeaseLost, match="lock 'import' is no longer held"):
            later.check()


@pytest.mark.req("LCK-1")
async def test_it_is_released_on_failure_and_cancellation(nodes: Nodes) -> None:
    async with nodes.client() as app:
        with pytest.raises(ZeroDivisionError):
            async with app.lock("import", ttl="1m"):
                _ = 1 / 0
        assert await app.locks.all() == []

        held = asyncio.Event()

        async def hold() -> None:
            async with app.lock("import", ttl="1m"):
                held.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(hold())
        await held.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert await app.locks.all() == []


@pytest.mark.req("LCK-1")
async def test_waiting_for_it(nodes: Nodes) -> None:
    async with nodes.client() as one, nodes.client() as two:
        async with one.lock("import", ttl="1m"):
            with pytest.raises(LockTaken):
                async with two.lock("import", ttl="1m", wait="250ms"):
                    raise AssertionError("never entered")
            waiting = asyncio.create_task(_hold_once(two))
            await asyncio.sleep(0)
            assert not waiting.done()
        assert await waiting is True


async def _hold_once(app: Mainspring) -> bool:
    async with app.lock("import", ttl="1m", wait=None) as lock:
        return lock.held


@pytest.mark.req("LCK-1")
async def test_it_is_renewed_while_held(nodes: Nodes) -> None:
    async with nodes.client() as one, nodes.client() as two, one.lock("import", ttl="3s") as lock:
        [first] = await two.locks.all()
        await until(
            lambda: _expires_after(two, first.expires_at + timedelta(milliseconds=400)),
            "it outlives its first time to live",
        )
        assert lock.held
        assert not await two.try_lock("import", ttl=1)


async def _expires_after(app: Mainspring, past: datetime) -> bool:
    return any(row.expires_at > past for row in await app.locks.all())


@pytest.mark.req("LCK-1")
async def test_hold_at_least_keeps_it_after_the_end(nodes: Nodes) -> None:
    clock = FakeClock()
    app = nodes.app(clock=clock)
    async with app.lock("import", ttl="10s", hold_at_least="60s") as lock:
        clock.advance(5)
    assert not lock.held
    [row] = await app.locks.all()
    assert row.expires_at - row.acquired_at == timedelta(minutes=1)
    assert not await app.try_lock("import", ttl=1)
    clock.advance(54.9)
    assert not await app.try_lock("import", ttl=1)
    clock.advance(0.2)
    assert await app.try_lock("import", ttl=1)
    await app.close()


class Stubborn(MemoryStore):
    """A store whose locks cannot be renewed: it refuses, or it fails."""

    def __init__(self, how: str) -> None:
        super().__init__(SystemClock())
        self._how = how

    async def lock_renew(self, name: str, token: int, ttl: float) -> bool:
        if self._how == "fails":
            raise OSError("the network is gone")
        return False


@pytest.mark.req("LCK-1", "LCK-3")
@pytest.mark.parametrize("how", ["refuses", "fails"])
async def test_a_lock_that_cannot_be_renewed_is_lost_and_says_so(how: str) -> None:
    seen = Seen()
    app = Mainspring(Stubborn(how), observers=[seen])
    async with app.lock("import", ttl="60ms") as lock:
        await until(lambda: not lock.held, "the loss is noticed")
        with pytest.raises(LeaseLost, match="lock 'import' is no longer held"):
            lock.check()
    assert bool(seen.of(Trouble)) is (how == "fails")
    await app.close()


@pytest.mark.req("LCK-1", "LCK-4", "SEC-3")
async def test_an_administrator_releases_it_and_the_holder_notices(nodes: Nodes) -> None:
    async with nodes.client() as holder, nodes.client() as admin:
        async with holder.lock("import", ttl="2s") as lock:
            token = lock.token
            assert await admin.locks.release("import", by="ada") is True
            async with admin.lock("import", ttl="1m") as mine:
                assert mine.token > token
                await until(lambda: not lock.held, "the renewal is refused")
                assert [row.token for row in await admin.locks.all()] == [mine.token]
        assert await admin.locks.release("import", by="ada") is False
        assert [(audit.action, audit.actor) for audit in await admin.audits("lock:import")] == [("release", "ada")]


@pytest.mark.req("LCK-2")
async def test_a_window_lock_is_not_released_but_runs_out(nodes: Nodes) -> None:
    clock = FakeClock()
    app = nodes.app(clock=clock)
    assert await app.try_lock("report-2026-01-01", ttl="5m") is True
    assert await app.try_lock("report-2026-01-01", ttl="5m") is False
    assert await app.try_lock("report-2026-01-02", ttl="5m") is True
    clock.advance(299)
    assert await app.try_lock("report-2026-01-01", ttl="5m") is False
    clock.advance(2)
    assert await app.try_lock("report-2026-01-01", ttl="5m") is True
    assert await app.unlock("report-2026-01-01") is True
    assert await app.unlock("report-2026-01-01") is False
    assert await app.try_lock("report-2026-01-01", ttl="5m") is True
    await app.close()


@pytest.mark.req("LCK-2")
async def test_one_of_many_takes_it(nodes: Nodes) -> None:
    async with nodes.client() as one, nodes.client() as two:
        taken = await asyncio.gather(*(app.try_lock("once", ttl=60) for app in (one, two) for _ in range(10)))
        assert sum(taken) == 1


@pytest.mark.req("LCK-2")
def test_the_time_to_live_suggested_for_work_of_a_length(memory_nodes: Nodes) -> None:
    suggest = memory_nodes.app().locks.suggested_ttl
    seconds = {1: 300, 59.9: 300, 60: 1_800, 599: 1_800, 600: 7_200, 3_599: 7_200, 3_600: 7_200, 7_200: 14_400}
    assert {work: suggest(work) for work in seconds} == seconds
    assert suggest("5m") == 1_800
    with pytest.raises(InvalidValue, match="expected: -1 is not valid"):
        suggest(-1)


@pytest.mark.req("LCK-1", "LCK-2")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": ""}, "lock name: '' is not valid; allowed: printable text of 1 to 200 characters"),
        ({"name": "x" * 201}, "lock name: "),
        ({"name": "a\nb"}, "lock name: 'a\\nb' is not valid"),
        ({"name": 7}, "lock name: 7 is not valid"),
        ({"ttl": 0}, "ttl: 0 is not valid; allowed: a duration above zero"),
        ({"ttl": "soon"}, "ttl: 'soon' is not valid"),
        ({"ttl": -1}, "ttl: -1 is not valid"),
        ({"hold_at_least": "-1s"}, "hold_at_least: '-1s' is not valid"),
        ({"wait": "never"}, "wait: 'never' is not valid"),
    ],
)
async def test_wrong_arguments(memory_nodes: Nodes, arguments: dict[str, Any], message: str) -> None:
    async with memory_nodes.client() as app:
        with pytest.raises(InvalidValue) as refused:
            async with app.lock(**{"name": "import", "ttl": 1, **arguments}):
                raise AssertionError("never entered")
        assert message in str(refused.value)
        if arguments.keys() & {"hold_at_least", "wait"}:
            return
        with pytest.raises(InvalidValue):
            await app.try_lock(arguments.get("name", "import"), arguments.get("ttl", 1))
        assert await app.locks.all() == []
