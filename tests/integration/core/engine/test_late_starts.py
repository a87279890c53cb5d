"""A handler does not begin on a lease that ran out while its process was stopped between the claim and the start."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mainspring import JobContext, Mainspring
from mainspring.core.views.execution import row_of
from mainspring.model.events import Started
from mainspring.stores.memory import MemoryStore
from mainspring.testing import FakeClock
from tests.support import ended, until

LEASE = 60.0


class StopsAfterClaim:
    """Around `store.exchange`: this process is stopped for more than a lease while its first claim is on its way
    back."""

    def __init__(self, store: MemoryStore, clock: FakeClock) -> None:
        self._exchange: Callable[..., Awaitable[Any]] = store.exchange
        self._clock = clock
        self.stopped = False

    async def __call__(self, changes: Any, claim: Any) -> Any:
        reply = await self._exchange(changes, claim)
        if reply.claimed and not self.stopped:
            self.stopped = True
            self._clock.advance(LEASE + 1)
        return reply


def application(clock: FakeClock, **options: Any) -> tuple[Mainspring, MemoryStore]:
    memory = MemoryStore(clock)
    settings: dict[str, Any] = {"poll_interval": 0.01, "wakeups": False, "lease": LEASE, "heartbeat": 20}
    return Mainspring(memory, clock=clock, **settings, **options), memory


@pytest.mark.req("REL-1", "WRK-5")
@pytest.mark.parametrize("style", ["async", "thread", "tenants"])
async def test_a_process_stopped_between_claim_and_start_begins_nothing(
    style: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock()
    app, store = application(clock)
    began: list[int] = []

    @app.job("async")
    async def on_loop(ctx: JobContext) -> None:
        began.append(row_of(ctx.execution).claims)

    @app.job("thread")
    def in_thread(ctx: JobContext) -> None:
        began.append(row_of(ctx.execution).claims)

    @app.job("tenants", tenants=lambda ctx: began.append(row_of(ctx.execution).claims) or ["a"])
    async def for_tenants(ctx: JobContext) -> None:
        pass

    exchange = StopsAfterClaim(store, clock)
    monkeypatch.setattr(store, "exchange", exchange)
    async with app:
        done = await ended(app, await app.enqueue(style))
    assert exchange.stopped
    assert (done.state, done.failures, done.crashes) == ("completed", 0, 0)
    assert began == [2], "it began under its second claim, and only then"


@pytest.mark.req("REL-1", "WRK-5")
@pytest.mark.parametrize("style", ["async", "thread"])
async def test_a_process_stopped_just_before_the_first_step_begins_nothing(style: str) -> None:
    clock, began = FakeClock(), list[int]()
    stops = [LEASE + 1]

    def stop(event: Any) -> None:
        if isinstance(event, Started) and stops:
            clock.advance(stops.pop())

    app, _ = application(clock, observers=[stop])

    @app.job("async")
    async def on_loop(ctx: JobContext) -> None:
        began.append(row_of(ctx.execution).claims)

    @app.job("thread")
    def in_thread(ctx: JobContext) -> None:
        began.append(row_of(ctx.execution).claims)

    async with app:
        done = await ended(app, await app.enqueue(style))
    assert (stops, done.state, done.failures, began) == ([], "completed", 0, [2])


@pytest.mark.req("REL-1", "WRK-5")
async def test_what_was_prefetched_before_a_stop_does_not_begin() -> None:
    clock, began = FakeClock(), list[tuple[str, int]]()
    app, _ = application(clock, concurrency=1)

    @app.job("quick", overlap="allow")
    async def quick(ctx: JobContext, name: str) -> None:
        began.append((name, row_of(ctx.execution).claims))
        if name == "stops":
            clock.advance(LEASE + 1)  # the others were claimed with it, and wait for its slot

    async with app:
        await ended(app, await app.enqueue(quick, {"name": "first"}))  # now the worker knows that it is quick
        await app.enqueue_many([(quick, {"name": name}) for name in ("stops", "a", "b")])
        await until(lambda: len(began) == 4)
    assert sorted(began) == [("a", 2), ("b", 2), ("first", 1), ("stops", 1)], "claimed again before they began"
