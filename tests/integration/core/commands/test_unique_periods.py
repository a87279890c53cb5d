"""Uniqueness for a period, and debounce."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from mainspring import InvalidValue, Mainspring, Retention, Unique
from mainspring.core.commands import unique_periods
from mainspring.core.commands.unique_periods import UNSURE_FOR
from mainspring.core.views.execution import row_of
from mainspring.model.time.instants import SECOND
from mainspring.testing import FakeClock
from tests.support import ON_A_FAKE_CLOCK, Nodes, ended, run_once, until

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
    store = (await app._runtime.engine()).store

    async def dies(*_: object) -> Any:
        raise asyncio.CancelledError

    monkeypatch.setattr(store, "add", dies)
    with pytest.raises(asyncio.CancelledError):
        await app.enqueue("note", {"n": 1}, unique=A_DAY)
    monkeypatch.undo()
    assert await app.enqueue("note", {"n": 2}, unique=A_DAY) is None
    clock.advance(UNSURE_FOR / SECOND)
    assert await app.enqueue("note", {"n": 3}, unique=A_DAY) is not None
    await app.close()


@pytest.mark.parametrize("kept", [True, False])
async def test_a_process_that_stalls_before_it_enqueues_comes_too_late(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    """Another one has taken the key meanwhile; its execution may even be deleted by then."""
    monkeypatch.setattr(unique_periods, "UNSURE_FOR", 0)
    apps, ran = [nodes.app(), nodes.app()], list[int]()

    async def note(n: int) -> None:
        ran.append(n)

    for app in apps:
        app.job("note", retention=Retention(keep_success=kept))(note)
    stalled, other = apps
    store = (await stalled._runtime.engine()).enqueuer._store
    add, reached, resume = store.add, asyncio.Event(), asyncio.Event()

    async def slow(*given: Any) -> Any:
        reached.set()
        await resume.wait()
        return await add(*given)

    monkeypatch.setattr(store, "add", slow)
    late = asyncio.create_task(stalled.enqueue("note", {"n": 1}, unique=A_DAY))
    await reached.wait()
    monkeypatch.undo()
    monkeypatch.setattr(unique_periods, "UNSURE_FOR", 0)
    async with other:
        taken = await other.enqueue("note", {"n": 2}, unique=A_DAY)
        assert taken is not None
        await until(lambda: ran == [2])
        await (ended(other, taken) if kept else until(lambda: _gone(other, taken.id)))
        resume.set()
        assert await late is None
        assert await stalled.enqueue("note", {"n": 3}, unique=A_DAY) is None
        [record] = await other.executions(status="cancelled")
        assert record.reason == unique_periods.GIVEN_UP
        assert [each.id for each in await other.executions(status=["pending", "running"])] == []
    assert ran == [2]
    await stalled.close()


async def _gone(app: Mainspring, id: str) -> bool:
    return id not in [each.id for each in await app.executions()]


async def test_a_process_that_died_after_it_took_a_key_from_one_that_stalled_holds_nothing(
    memory_nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has cancelled the other one's execution before it could be stored, and its own was never stored."""
    monkeypatch.setattr(unique_periods, "UNSURE_FOR", 0)
    app, _ = application(memory_nodes)
    engine = await app._runtime.engine()
    for step in ((engine.store, "add"), (engine.enqueuer._periods, "_put")):  # the first dies here, the second there
        real = getattr(*step)

        async def dies(*given: Any, real: Any = real, name: str = step[1]) -> Any:
            if name == "_put" or not given[0][0].state.final:
                raise asyncio.CancelledError
            return await real(*given)

        monkeypatch.setattr(*step, dies)
        with pytest.raises(asyncio.CancelledError):
            await app.enqueue("note", {"n": 1}, unique=A_DAY)
        monkeypatch.setattr(*step, real)
    assert [each.reason for each in await app.executions()] == [unique_periods.GIVEN_UP]
    assert await app.enqueue("note", {"n": 2}, unique=A_DAY) is not None
    assert await app.enqueue("note", {"n": 3}, unique=A_DAY) is None
    await app.close()


async def test_the_period_lasts_though_its_execution_was_deleted_at_once(nodes: Nodes) -> None:
    clock = FakeClock()
    app, ran = nodes.app(clock=clock, **ON_A_FAKE_CLOCK), list[int]()

    @app.job("note", retention=Retention(keep_success=False))
    async def note(n: int) -> None:
        ran.append(n)

    async with app:
        first = await app.enqueue(note, {"n": 1}, unique=A_DAY)
        assert first is not None
        await until(lambda: _gone(app, first.id))
        clock.advance(2 * UNSURE_FOR / SECOND)
        assert await app.enqueue(note, {"n": 2}, unique=A_DAY) is None
        clock.advance(86_400)
        assert await app.enqueue(note, {"n": 3}, unique=A_DAY) is not None
        await until(lambda: ran == [1, 3])


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
