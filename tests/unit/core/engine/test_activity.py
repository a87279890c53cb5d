"""What a process counts of its endings and ticks, and how several add their counts to the same buckets."""

from __future__ import annotations

import random
from typing import Any, cast

import pytest

from mainspring.core.engine.activity import KIND, ActivityCounts, ActivityRecorder
from mainspring.core.monitoring.activity import Activity
from mainspring.core.ports import Store
from mainspring.core.rules.activity import BUCKETS, Tally
from mainspring.model.errors import StoreUnavailable
from mainspring.model.events import AttemptEnded, Rescued, Skipped, Started
from mainspring.model.execution import ExecutionRow, State
from mainspring.model.store.entries import Entry, EntryWrite
from mainspring.model.time.instants import SECOND
from mainspring.observe.dispatch import Dispatcher
from mainspring.stores.memory import MemoryStore
from mainspring.testing import FakeClock

pytestmark = pytest.mark.req("DSH-1")


def row(**fields: Any) -> ExecutionRow:
    return ExecutionRow(**{"id": "e", "job": "j", "job_id": "j", "handler": "h", **fields})


class Process:
    """What counts in one process, around a store that all share."""

    def __init__(self, clock: FakeClock, store: Any) -> None:
        self.counts = ActivityCounts(clock)
        self.emit = Dispatcher(self.counts)
        self.recorder = ActivityRecorder(store, self.counts, clock, random.Random(1), self.emit)

    def complete(self, count: int = 1) -> None:
        def refuse() -> list[object]:
            raise AssertionError("no event need be made")

        self.emit.dispatch_all(AttemptEnded, [row()] * count, refuse)


class Rival:
    """A store in which another process adds between a read and the write that follows it, so many times."""

    def __init__(self, store: Store, rival: Process, times: int) -> None:
        self._store, self._rival, self._times = store, rival, times

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def write_entries(self, writes: list[EntryWrite]) -> list[bool]:
        if self._times:
            self._times -= 1
            self._rival.complete()
            await self._rival.recorder.flush()
        return await self._store.write_entries(writes)


def test_each_ending_is_counted_once() -> None:
    clock = FakeClock()
    process = Process(clock, MemoryStore(clock))
    process.complete(3)
    for event in (
        AttemptEnded(row(), State.PENDING, 1, 1.0, error="retried"),
        AttemptEnded(row(), State.WAITING, 1, 1.0),
        AttemptEnded(row(), State.FAILED, 2, 1.0),
        AttemptEnded(row(), State.PARTIAL, 1, 1.0),
        AttemptEnded(row(), State.CANCELLED, 1, 0.0, tried=False),
        AttemptEnded(row(), State.SKIPPED, 1, 1.0),
        Skipped(row(), "overlap"),
        Rescued(row(), 1.0, State.PENDING),
        Rescued(row(), 1.0, State.FAILED),
        AttemptEnded(row(job="mainspring.webhooks"), State.FAILED, 1, 1.0),
    ):
        process.emit(event)
    expected = Tally(completed=3, failed=2, partial=1, cancelled=1, skipped=2)
    assert process.counts.take() == {clock.now(): expected}
    assert not process.counts


def test_the_lateness_of_ticks_that_begin() -> None:
    clock = FakeClock()
    process = Process(clock, MemoryStore(clock))

    def begins(late: float, **fields: Any) -> ExecutionRow:
        return row(**{"trigger": "schedule", "due": clock.now() - int(late * SECOND), **fields})

    ticks = [begins(-1), begins(0.1), begins(0.11), begins(300), begins(301)]
    others = [
        begins(9, trigger="enqueue"),
        begins(9, attempts_json='[{"number": 1}]'),
        begins(9, parent_id="p", tenant="t"),
    ]
    process.emit.dispatch_all(Started, [*ticks[:3], *others], lambda: [])
    for execution in ticks[3:]:
        process.emit(Started(execution, clock.now()))
    [tally] = process.counts.take().values()
    assert tally == Tally(lateness=[2, 1, 0, 0, 0, 0, 0, 0, 1, 1])


async def test_each_instant_is_in_a_bucket_of_each_size() -> None:
    clock = FakeClock()
    store = MemoryStore(clock)
    process, activity = Process(clock, store), Activity(store, clock)
    for count, wait in ((1, 60), (2, 900), (4, 3600), (8, 2)):
        process.complete(count)
        clock.advance(wait)
    await process.recorder.flush()
    hour, day, week = [await activity.series(span) for span in BUCKETS]
    assert [point.completed for point in hour.points if point.ended] == [8]
    assert [point.completed for point in day.points if point.ended] == [3, 4, 8]
    assert [point.completed for point in week.points if point.ended] == [7, 8]
    assert (hour.step, day.step, week.step) == (60, 900, 3600)
    assert (hour.totals.completed, day.totals.completed, week.totals.completed) == (8, 15, 15)
    for series in (hour, day, week):
        assert series.points[0].at == series.begin
        assert (series.points[-1].at - series.begin).total_seconds() == series.step * (len(series.points) - 1)
        assert 0 <= (clock.datetime - series.points[-1].at).total_seconds() < series.step


async def test_processes_that_add_at_the_same_time_lose_nothing() -> None:
    clock = FakeClock()
    store = MemoryStore(clock)
    rival = Process(clock, store)
    process = Process(clock, Rival(store, rival, times=3))
    process.complete(10)
    await process.recorder.flush()
    series = await Activity(store, clock).series("1h")
    assert series.totals.completed == 13


async def test_what_could_not_be_stored_is_added_later(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock()
    store = MemoryStore(clock)
    process = Process(clock, store)
    process.complete(1)

    async def refuse(writes: list[EntryWrite]) -> list[bool]:
        raise StoreUnavailable("away")

    with monkeypatch.context() as patch:
        patch.setattr(store, "write_entries", refuse)
        with pytest.raises(StoreUnavailable):
            await process.recorder.flush()
    process.complete(1)
    await process.recorder.flush()
    await process.recorder.flush()
    assert (await Activity(store, clock).series("1h")).totals.completed == 2


async def test_a_process_in_which_nothing_ended_asks_for_nothing() -> None:
    process = Process(FakeClock(), cast(Store, None))
    assert await process.recorder._step() > 0


async def test_old_buckets_are_removed_and_those_of_a_newer_release_stay() -> None:
    clock = FakeClock()
    store = MemoryStore(clock)
    process = Process(clock, store)
    process.complete(1)
    await process.recorder.flush()
    clock.advance("3h")
    newer = Entry(kind=KIND, scope="minute", key=BUCKETS["1h"].key_of(clock.now()), body='{"completed":"many"}')
    await store.write_entries([EntryWrite(entry=newer)])
    process.complete(1)
    await process.recorder._step()
    assert [entry.body for entry in await store.list_entries(KIND, "minute")] == [newer.body]
    assert len(await store.list_entries(KIND, "quarter")) == len(await store.list_entries(KIND, "hour")) == 2
    clock.advance("9d")
    process.complete(1)
    await process.recorder._step()
    for buckets in BUCKETS.values():
        assert len(await store.list_entries(KIND, buckets.scope)) == 1


def test_a_forked_child_does_not_add_what_its_parent_counted() -> None:
    process = Process(FakeClock(), cast(Store, None))
    process.complete(1)
    process.counts.restart(FakeClock())
    assert not process.counts
