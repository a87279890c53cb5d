"""Fetching ahead: while handlers are quick a worker claims more than it has slots for. Nobody may suffer from it."""

from __future__ import annotations

import asyncio

import pytest

from mainspring import JobContext, Mainspring
from mainspring.core.engine import prefetch
from mainspring.core.engine.runner import Done, Run, Runner
from mainspring.core.engine.worker import LARGE
from mainspring.core.views.execution import row_of
from mainspring.model.store.messages import Change, ClaimRequest, Exchanged
from tests.integration.gate import Gate
from tests.support import Nodes, ended, run_once, until

_FIRST = ("slow", None, {"priority": 1})


@pytest.fixture(autouse=True)
def _sure_of_its_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if handlers were always quick: how long they really take depends on the machine."""
    monkeypatch.setattr(prefetch, "HORIZON", 1e9)


@pytest.mark.req("WRK-1")
@pytest.mark.parametrize("style", ["async", "thread"])
async def test_no_more_run_than_there_are_slots(nodes: Nodes, style: str) -> None:
    app = nodes.app(concurrency=2)
    running, most, order = 0, 0, []

    def count(change: int, number: int) -> None:
        nonlocal running, most
        running += change
        most = max(most, running)
        order.append(number)

    @app.job("async")
    async def on_loop(number: int) -> None:
        count(1, number)
        count(-1, number)

    @app.job("thread")
    def in_thread(number: int) -> None: ...

    await app.open()
    sizes = _claims_of(app)
    async with app:
        await run_once(app, style, {"number": -1})
        made = await app.enqueue_many([(style, {"number": number}) for number in range(200)])
        for each in made:
            assert (await ended(app, each)).state == "completed"
    assert max(sizes) > 2, "nothing was fetched ahead"
    assert most <= 2
    assert order == sorted(order)


@pytest.mark.req("SEC-2")
async def test_executions_with_large_parameters_begin_one_in_a_turn_of_the_event_loop(
    memory_nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, turn, begun = memory_nodes.app(concurrency=10), 0, list[tuple[int, str]]()
    begin = Runner.begin

    def noted(self: Runner, run: Run, done: Done) -> None:
        begun.append((turn, run.execution.params))
        begin(self, run, done)

    async def count() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(Runner, "begin", noted)

    @app.job("takes")
    async def takes(text: str) -> None: ...

    await app.open()
    made = await app.enqueue_many([("takes", {"text": "x" * size}) for size in (LARGE, 1)] * 30)
    counting = asyncio.create_task(count())
    async with app:
        for each in made:
            assert (await ended(app, each)).state == "completed"
        large = [number for number, params in begun if len(params) > LARGE]
        assert (len(large), len(begun)) == (30, 60)
        assert len(set(large)) == 30
    counting.cancel()


async def test_what_waits_here_too_long_is_left_to_others(memory_nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefetch, "HORIZON", prefetch.STALE * 0.9)  # whoever waited that long is no quick handler
    busy, free = memory_nodes.app(concurrency=1), memory_nodes.app(concurrency=1)
    gate = Gate(busy, "slow")
    for app in (busy, free):
        app.job("quick")(_nothing)
    gate.serve(free, "slow")
    await busy.start()
    await run_once(busy, "quick")
    await busy.enqueue_many([_FIRST] + [("quick", None)] * 5)
    await until(lambda: len(gate.running) == 1)
    await free.start()
    quick = await free.executions("quick", limit=5)
    for each in quick:
        done = await ended(free, each)
        assert (done.state, done.failures) == ("completed", 0)
    assert len(gate.running) == 1, "the slow one still runs"
    rows = [await free.get(each.id) for each in quick]
    assert max(row_of(row).claims for row in rows) > 1, "nothing was fetched ahead"
    assert {tuple(attempt.end for attempt in row.attempts) for row in rows} == {("completed",)}, "one try each"
    for row in rows:
        assert row_of(row).claims == 1 or row_of(row).started == row_of(row).attempts[0].started, (
            "it began when its handler was called"
        )
    gate.open.set()
    await free.close()
    await busy.close()


@pytest.mark.req("TEN-2")
async def test_tenants_that_were_only_fetched_are_cancelled_with_those_nobody_has_seen(
    memory_nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefetch, "HORIZON", prefetch.STALE * 0.9)
    app, gates, ran = memory_nodes.app(concurrency=1), [asyncio.Event(), asyncio.Event()], list[str | None]()
    app.job("quick")(_nothing)

    @app.job("nightly", tenants=["a", "b", "c", "d"], continue_on_failure=False, tenant_max_attempts=1)
    async def nightly(ctx: JobContext) -> None:
        ran.append(ctx.tenant)
        await gates[len(ran) - 1].wait()
        raise ValueError

    async def given_back() -> bool:
        rows = await app.executions("nightly", status="pending")
        return len([row for row in rows if row_of(row).token and row.started_at is None]) == 3

    async def cancelled() -> bool:
        return len(await app.tenants.runs(parent, status="cancelled")) == 4 - len(ran)

    async with app:
        await run_once(app, "quick")
        parent = await app.trigger("nightly")
        await until(given_back)
        gates[0].set()
        await until(cancelled)
        gates[1].set()
        result = (await ended(app, parent)).result
    assert result == {"total": 4, "success": 0, "failed": 4, "cancelled": 4 - len(ran)}
    assert len(ran) <= 2, "the exchange that tells of the failure may bring one more"


async def test_a_stop_hands_back_what_has_not_begun_at_once(memory_nodes: Nodes) -> None:
    app = memory_nodes.app(concurrency=1)
    gate = Gate(app, "slow")
    begun: list[str] = []

    @app.job("quick")
    async def quick(ctx: JobContext) -> None:
        begun.append(ctx.execution_id)

    await app.start()
    await run_once(app, "quick")
    made = await app.enqueue_many([_FIRST] + [("quick", None)] * 3)
    await until(lambda: len(gate.running) == 1)
    gate.open.set()
    await app.stop()
    for each in made[1:]:
        assert each is not None
        row = await app.get(each.id)
        assert row.state == ("completed" if each.id in begun else "pending")
        assert row.failures == 0
    await app.close()


async def test_a_cancel_reaches_what_waits_for_a_slot(memory_nodes: Nodes) -> None:
    app = memory_nodes.app(concurrency=1)
    gate = Gate(app, "slow")
    begun: list[str] = []

    @app.job("quick")
    async def quick(ctx: JobContext) -> None:
        begun.append(ctx.execution_id)

    await app.start()
    await run_once(app, "quick")
    made = await app.enqueue_many([_FIRST, ("quick", None)])
    await until(lambda: len(gate.running) == 1)
    assert made[1] is not None
    await app.cancel(made[1].id)
    assert (await ended(app, made[1])).state == "cancelled"
    assert made[1].id not in begun
    gate.open.set()
    await ended(app, made[0])
    await app.close()


def test_the_estimate_follows_a_slow_handler_at_once_and_forgets_it_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefetch, "HORIZON", 0.02)
    measured = prefetch.DurationEstimate()
    assert measured.prefetch(10) == 0, "nothing is known yet"
    measured.add(0.0)
    assert measured.prefetch(10) == 400
    assert measured.prefetch(1_000) == prefetch.MOST
    measured.add(1.0)
    assert measured.prefetch(10) == 0
    steps = 0
    while measured.prefetch(10) < 400:
        measured.add(0.0001)
        steps += 1
    assert 20 < steps < 200


async def _nothing() -> None: ...


def _claims_of(app: Mainspring) -> list[int]:
    """How many each claim has brought, from now on."""
    store = app._runtime.parts.store  # type: ignore[union-attr]
    exchange, sizes = store.exchange, [0]

    async def spied(changes: list[Change], claim: ClaimRequest | None) -> Exchanged:
        reply = await exchange(changes, claim)
        sizes.append(len(reply.claimed))
        return reply

    store.exchange = spied  # type: ignore[method-assign]
    return sizes
