"""Uniqueness for a period, and debounce."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from mainspring import InvalidValue, Mainspring, Unique
from mainspring.core.commands.unique_periods import UNSURE_FOR
from mainspring.core.views.execution import row_of
from mainspring.model.time.instants import SECOND
from mainspring.testing import FakeClock
from tests.support import ON_A_FAKE_CLOCK, Nodes, ended, run_once

pytestmark = pytest.mark.req("ENQ-5")

A_DAY = Unique("report-42", for_="24h")


def application(nodes: Nodes, **options: Any) -> tuple[Mainspring, list[int]]:
    app, seen = nodes.app(**options), []

    @app.job("note")
    async def note(n: int) -> None:
        seen.append(n)

    return app, seen


async def test_a_key_is_taken_for_its_period_though_its_execution_has_ended(nodes: Nodes) -> None:
    clock = FakeClock()
    app, seen = application(nodes, clock=clock, **ON_A_FAKE_CLOCK)
    async with app:
        assert (await run_once(app, "note", {"n": 1}, unique=A_DAY)).state == "completed"
        assert await app.enqueue("note", {"n": 2}, unique=A_DAY) is None
        await run_once(app, "note", {"n": 3}, unique=Unique("another", for_="24h"))
        clock.advance(86_401)
        await run_once(app, "note", {"n": 4}, unique=A_DAY)
        assert await app.enqueue("note", {"n": 5}, unique=A_DAY) is None
    assert seen == [1, 3, 4]


async def test_a_key_is_taken_while_its_execution_lives_though_the_period_is_over(nodes: Nodes) -> None:
    clock = FakeClock()
    app, _ = application(nodes, clock=clock)
    assert await app.enqueue("note", {"n": 1}, unique=Unique("k", for_="1s")) is not None
    clock.advance(5)
    assert await app.enqueue("note", {"n": 2}, unique=Unique("k", for_="1s")) is None
    await app.close()


async def test_many_at_once_take_the_key_once(nodes: Nodes) -> None:
    app, _ = application(nodes)
    added = await asyncio.gather(*[app.enqueue("note", {"n": n}, unique=A_DAY) for n in range(20)])
    assert sum(each is not None for each in added) == 1
    await app.close()


async def test_a_process_that_died_before_it_enqueued_holds_the_key_for_moments_only(
    memory_nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock()
    app, _ = application(memory_nodes, clock=clock)
    enqueuer = (await app._runtime.engine()).enqueuer

    async def dies(*_: object) -> Any:
        raise asyncio.CancelledError

    monkeypatch.setattr(enqueuer, "_add", dies)
    with pytest.raises(asyncio.CancelledError):
        await app.enqueue("note", {"n": 1}, unique=A_DAY)
    monkeypatch.undo()
    assert await app.enqueue("note", {"n": 2}, unique=A_DAY) is None
    clock.advance(UNSURE_FOR / SECOND)
    assert await app.enqueue("note", {"n": 3}, unique=A_DAY) is not None
    await app.close()


async def test_of_several_enqueues_the_last_one_runs_after_the_pause(nodes: Nodes) -> None:
    clock = FakeClock()
    app, seen = application(nodes, clock=clock, **ON_A_FAKE_CLOCK)
    soon = Unique("index-42", debounce="5s")
    async with app:
        first = await app.enqueue("note", {"n": 1}, unique=soon)
        clock.advance(3)
        second = await app.enqueue("note", {"n": 2}, unique=soon)
        assert first is not None
        assert second is not None
        assert row_of(second).due - row_of(first).due == 3 * SECOND
        gone = await ended(app, first)
        assert (gone.state, gone.reason) == ("cancelled", f"debounced: {second.id} takes its place")
        clock.advance(3)
        assert (await app.get(second.id)).state == "pending"
        clock.advance(3)
        assert (await ended(app, second)).state == "completed"
        third = await app.enqueue("note", {"n": 3}, unique=soon)
        clock.advance(6)
        assert (await ended(app, third)).state == "completed"
    assert seen == [2, 3]


async def test_debounced_at_once_leaves_one(nodes: Nodes) -> None:
    app, _ = application(nodes)
    soon = Unique("k", debounce="1h")
    await asyncio.gather(*[app.enqueue("note", {"n": n}, unique=soon) for n in range(10)])
    assert len(await app.executions(status="pending")) == 1
    assert len(await app.executions(status="cancelled")) == 9
    await app.close()


@pytest.mark.parametrize(
    "fields",
    [
        {"for_": "24h"},
        {"enqueued": "a", "running": "b", "for_": "24h"},
        {"enqueued": "a", "for_": "1h", "debounce": "1s"},
        {"enqueued": "a", "for_": "soon"},
        {"enqueued": "a", "debounce": 0},
    ],
)
def test_a_period_goes_with_one_key(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue, match="unique"):
        Unique(**fields)


async def test_a_period_is_for_one_enqueue_on_its_own(memory_nodes: Nodes) -> None:
    app, _ = application(memory_nodes)
    with pytest.raises(InvalidValue, match="many are enqueued"):
        await app.enqueue_many([("note", {"n": 1}, {"unique": A_DAY})])
    with pytest.raises(InvalidValue, match="transaction"):
        await app.enqueue("note", {"n": 1}, unique=A_DAY, connection=object())
    with pytest.raises(InvalidValue, match="debounce"):
        await app.enqueue("note", {"n": 1}, unique=Unique("k", debounce=1), start_at="1h")
    await app.close()


def test_plain_uniqueness_is_what_it_was() -> None:
    plain = Unique("a", "b")
    assert msgspec.structs.asdict(plain) == {"enqueued": "a", "running": "b", "for_": None, "debounce": None}
    assert not plain.lasting
