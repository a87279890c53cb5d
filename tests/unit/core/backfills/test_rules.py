"""The rules of backfills: rows of windows, pace, how one ends, what is kept of those that are over."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.backfills import records, rules
from mainspring.core.backfills.driver import IDLE, PRUNE_EVERY, BackfillDriver
from mainspring.core.rules.window_ledger import LedgerEntry
from mainspring.model.backfill import BackfillRow
from mainspring.model.execution import State
from mainspring.model.job import Job, JobSpec, encode_spec
from mainspring.model.store.entries import Entry, EntryWrite
from mainspring.model.time.instants import SECOND
from mainspring.model.values.ids import random_id
from mainspring.stores.memory import MemoryStore
from mainspring.testing.clock import FakeClock

NOW = 1_000 * SECOND
DAY = 86_400 * SECOND
JOB = Job(name="report", id="i", version=1, declared=encode_spec(JobSpec(handler="h", overlap="skip")), created=NOW)


def backfill(**fields: Any) -> BackfillRow:
    known = {"id": "b", "job": "report", "job_id": "i", "begin": 0, "end": 10, "total": 10, "state": "running"}
    return BackfillRow(**{**known, **fields})


@pytest.mark.req("WIN-7")
def test_a_child_is_the_same_row_whoever_makes_it() -> None:
    first = rules.child(backfill(created_by="ada"), JOB, 3, (0, DAY), NOW, NOW)
    again = rules.child(backfill(created_by="ada"), JOB, 3, (0, DAY), NOW + 5, NOW + 9)
    other = rules.child(backfill(created_by="ada"), JOB, 4, (0, DAY), NOW, NOW)
    assert first.id == again.id != other.id
    assert first.unique_key == "job:report:1970-01-01T00:00:00Z/1970-01-02T00:00:00Z"
    assert (first.overlap_key, first.parent_id, first.trigger, first.triggered_by) == (None, "b", "backfill", "ada")
    never = rules.skipped_window(first, "already_done", NOW)
    assert (never.id, never.state, never.unique_key, never.finished) == (first.id, State.SKIPPED, None, NOW)


@given(st.integers(1, 20), st.integers(0, 20), st.integers(0, 30))
def test_room_is_what_the_cap_and_the_plan_leave(concurrency: int, running: int, left: int) -> None:
    running = min(running, concurrency)
    total = running + left
    made = backfill(concurrency=concurrency, in_flight=tuple(range(running)), position=running, total=total)
    assert rules.room(made) == min(concurrency - running, left)


@given(st.integers(0, 5), st.integers(0, 10), st.integers(1, 4))
def test_starts_are_never_closer_than_the_pace(late: int, waiting: int, count: int) -> None:
    paced = backfill(pace=10.0, next_at=NOW + waiting * SECOND, concurrency=4)
    starts = rules.due_times(paced, NOW + late * SECOND, count)
    after = rules.handed_out(paced, count, starts[-1], NOW + late * SECOND)
    more = rules.due_times(after, NOW + late * SECOND, 1)
    both = [paced.next_at - 10 * SECOND, *starts, *more]
    assert all(later - earlier >= 10 * SECOND for earlier, later in pairwise(both))
    assert starts[0] == max(NOW + late * SECOND, paced.next_at)
    assert rules.due_times(backfill(), NOW, 3) == [NOW] * 3


def test_each_ending_is_counted_once() -> None:
    made = backfill(in_flight=(0, 1, 2), position=3)
    after = rules.counted(made, [(0, "completed"), (2, "failed")], NOW)
    assert (after.in_flight, after.completed, after.failed, after.ended) == ((1,), 1, 1, 2)
    assert rules.counted(after, [], NOW) is after


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({"completed": 3}, "completed"),
        ({"completed": 2, "skipped": 1}, "completed"),
        ({"held": 3}, "completed"),
        ({"completed": 2, "failed": 1}, "partial"),
        ({"skipped": 2, "cancelled": 1}, "partial"),
        ({"failed": 2, "cancelled": 1}, "failed"),
        ({"completed": 2, "state": "cancelling"}, "cancelled"),
    ],
)
def test_how_a_backfill_ends(fields: dict[str, Any], state: str) -> None:
    assert rules.verdict(backfill(**fields)) == state


def test_what_became_of_a_child_whose_row_is_gone() -> None:
    made, later = backfill(moved=NOW), NOW + 2 * 3_600 * SECOND
    entry = LedgerEntry(state="failed", last_state=State.FAILED, execution_id="c", finished=NOW, ids=("c",))
    assert rules.field_for_lost(made, "c", entry, NOW) == "failed"
    assert rules.field_for_lost(made, "other", entry, NOW) is None, "it may be about to be seen"
    assert rules.field_for_lost(made, "other", None, later) == "skipped"
    assert rules.field_for_lost(backfill(state="cancelling", moved=NOW), "c", None, NOW) == "skipped"


def test_why_a_job_cannot_be_backfilled_any_more() -> None:
    assert rules.gone(backfill(), JOB) is None
    assert rules.gone(backfill(), None) == rules.gone(backfill(job_id="old"), JOB) == "the job was removed"
    assert rules.gone(backfill(), JOB.with_changes(cancelled=NOW)) == "the job was cancelled"
    assert rules.gone(backfill(), JOB.with_changes(paused=NOW)) is None


async def test_a_plan_is_read_back_across_its_chunks() -> None:
    store = MemoryStore(FakeClock())
    windows = [(number, number + 1) for number in range(1_234)]
    await records.write_plan(store, "b", windows)
    assert len(await store.list_entries("backfill_plan", "b")) == 3
    wanted = [0, 499, 500, 999, 1_000, 1_233]
    assert await records.planned(store, "b", wanted) == {position: windows[position] for position in wanted}
    await records.remove_open(store, backfill(total=1_234))
    assert await store.list_entries("backfill_plan", "b") == []


class Counting(MemoryStore):
    calls = 0

    async def list_entries(self, *args: Any, **options: Any) -> list[Entry]:
        self.calls += 1
        return await super().list_entries(*args, **options)


async def test_of_those_that_are_over_the_newest_and_the_young_are_kept() -> None:
    clock = FakeClock()
    store, chance, now = Counting(clock), random.Random(1), clock.now()
    ages = [200] * 150 + [10] * 30
    closed = [backfill(id=random_id(now - age * DAY, chance), finished=now - age * DAY) for age in ages]
    for each in closed:
        entry = Entry(kind="backfill", scope="closed", key=each.id, body=records.encode_record(each))
        await store.write_entries([EntryWrite(entry=entry)])
    driver = BackfillDriver(store, lambda event: None)
    for _ in range(PRUNE_EVERY - 1):
        assert await driver.step() == IDLE
    assert store.calls == PRUNE_EVERY - 1, "where no backfill is open, a look is one read"
    await driver.step()
    kept = await records.all_records(store, records.CLOSED)
    assert len(kept) == 100
    assert sum(each.finished == now - 10 * DAY for each in kept) == 30
