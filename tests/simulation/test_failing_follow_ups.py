"""Follow-ups that keep failing: nothing else waits for them, they are tried again with growing pauses, and told of."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest

from mainspring import Mainspring
from mainspring.core.engine.follow_ups import BATCH, FollowUps
from mainspring.core.rules import transitions
from mainspring.model.errors import StoreError
from mainspring.model.events import Trouble
from mainspring.model.execution import Outcome
from mainspring.model.store.messages import ClaimRequest
from mainspring.stores.memory import MemoryStore
from tests.simulation.test_backfills import Clock
from tests.simulator.virtual import run


class Broken(MemoryStore):
    """What comes after `bad` cannot be found, and what comes after `poison` cannot be stored."""

    broken = True

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.tried: list[float] = []

    async def list_entries(self, kind: Any, scope: str, **options: Any) -> Any:
        if self.broken and options.get("after") == "bad/":
            self.tried.append(asyncio.get_running_loop().time())
            raise ValueError("cannot be read")
        return await super().list_entries(kind, scope, **options)

    async def add(self, executions: Any, audit: Any = ()) -> Any:
        if self.broken and any(each.job == "after-poison" for each in executions):
            self.tried.append(asyncio.get_running_loop().time())
            raise StoreError("cannot be stored")
        return await super().add(executions, audit)


class World:
    def __init__(self) -> None:
        self.clock = Clock()
        self.store = Broken(self.clock)
        self.app = Mainspring(self.store, clock=self.clock)
        self.troubles: list[Trouble] = []
        for name in ("bad", "good", "poison"):
            self.app.job(name)(nothing)
            self.app.job(f"after-{name}", after=name)(nothing)
        self.follow_ups = FollowUps(self.store, self.hear)

    def hear(self, event: object) -> None:
        if isinstance(event, Trouble):
            self.troubles.append(event)

    async def end(self, *names: str) -> None:
        """Executions of these jobs, ended in this order."""
        for name in names:
            await self.app.enqueue(name)
        request = ClaimRequest(owner="w", handlers=frozenset(names), queues=None, limit=1_000, lease=1e6)
        for each in (await self.store.exchange([], request)).claimed:
            outcome = Outcome(end="completed", started=self.clock.now(), ended=self.clock.now(), worker="w")
            await self.store.exchange([transitions.after_attempt(each, outcome)], None)

    async def followed(self) -> Counter[str]:
        return Counter([each.job for each in await self.app.executions(limit=1_000) if each.trigger == "dependency"])


async def nothing() -> None: ...


@pytest.mark.req("FLW-1")
def test_many_that_fail_for_ever_hold_up_none_and_are_tried_ever_more_rarely() -> None:
    async def main() -> None:
        world = World()
        await world.end(*["bad"] * (2 * BATCH + 50), "good")
        await world.follow_ups.do(world.clock.now())
        assert await world.followed() == {"after-good": 1}
        [first] = {each.error for each in world.troubles}
        assert (len(world.troubles), first) == (2 * BATCH + 50, "ValueError: cannot be read")
        assert "job bad; failed 1x, next try in 2 s" in world.troubles[0].where

        world.store.tried.clear()
        await world.store.todo_done([each.id for each in (await world.store.todo(1_000))[1:]])
        while asyncio.get_running_loop().time() < 4_000:
            await asyncio.sleep(1)
            await world.follow_ups.do(world.clock.now())
        pauses = [round(b - a) for a, b in zip(world.store.tried, world.store.tried[1:], strict=False)]
        assert pauses[:7] == [4, 8, 16, 32, 64, 128, 256]
        assert set(pauses[7:]) == {300}

        world.store.broken = False
        await asyncio.sleep(300)
        assert await world.follow_ups.do(world.clock.now()) == 1
        assert await world.followed() == {"after-good": 1, "after-bad": 1}
        await world.app.close()

    run(main())


@pytest.mark.req("FLW-1")
def test_one_that_the_store_refuses_is_found_among_many_and_then_holds_up_none() -> None:
    async def main() -> None:
        world = World()
        await world.end("poison", *["good"] * 30)
        for _ in range(20):
            with suppress(StoreError):
                await world.follow_ups.do(world.clock.now())
        assert await world.followed() == {"after-good": 30}
        told = len(world.troubles)
        for _ in range(5):
            await asyncio.sleep(400)
            await world.end("good")
            await world.follow_ups.do(world.clock.now())
        assert (await world.followed(), len(world.troubles)) == ({"after-good": 35}, told + 5)
        await world.app.close()

    run(main())
