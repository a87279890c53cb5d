"""Ticks on PostgreSQL: arrays give the same rows as JSON does, and no scheduler waits for another."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import psycopg
import pytest

from mainspring import every
from mainspring.app.adapters import SystemClock
from mainspring.core.engine.scheduler import Scheduler
from mainspring.core.rules import job_commands, ticks
from mainspring.model.execution import ExecutionRow, State
from mainspring.model.job import Job, JobSpec, encode_spec
from mainspring.model.store.messages import ExecutionQuery, JobWrite, JobWritten
from mainspring.model.time.instants import SECOND, Micros
from mainspring.model.triggers import encode_trigger
from mainspring.model.values.ids import random_id
from mainspring.stores.postgres import PostgresStore
from mainspring.stores.postgres.jobs.ticks import is_simple
from tests.servers import postgres

HOUR = 3_600 * SECOND


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(url)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def declared(store: PostgresStore, count: int, *, late: float = 0.0, **fields: Any) -> list[Job]:
    """Jobs that have been due for so many seconds."""
    now = await store.now()
    trigger = encode_trigger(every(hours=1))
    spec = encode_spec(JobSpec(handler="h", trigger=trigger, **{"overlap": "skip", **fields}))
    anchor = now - HOUR - round(late * SECOND)
    writes = [
        job_commands.declare(None, Job(name=f"job-{n:04}", id=random_id(now, random.Random(n)), declared=spec), anchor)
        for n in range(count)
    ]
    planned = [msgspec.structs.replace(write, job=write.job.with_changes(anchor=anchor)) for write in writes if write]
    due = [msgspec.structs.replace(write, job=write.job.with_changes(next_run=anchor + HOUR)) for write in planned]
    assert all(written.won for written in await store.write_jobs(due))
    return await store.jobs()


def ticked(jobs: list[Job], now: Micros) -> list[JobWrite]:
    return [ticks.materialise(job, now, random.Random(1)) for job in jobs]


async def all_executions(store: PostgresStore) -> list[ExecutionRow]:
    return await store.find(ExecutionQuery(limit=100_000))


@pytest.mark.req("TIM-6", "NUM-2")
async def test_many_schedulers_at_the_same_ticks_make_each_once_and_none_fails() -> None:
    url = postgres().migrated_database()
    async with opened(url) as store:
        jobs = await declared(store, 1_500)
        troubles: list[Any] = []

        async def schedule(seed: int) -> None:
            async with opened(url) as own:
                scheduler = Scheduler(own, SystemClock(), random.Random(seed), lambda event: None, 10.0)
                while (await own.due_jobs(1)).jobs:
                    try:
                        await scheduler.step()
                    except Exception as error:
                        troubles.append(error)
                        return

        await asyncio.gather(*(schedule(seed) for seed in range(4)))
        assert troubles == []
        made = Counter(execution.job for execution in await all_executions(store))
        assert made == dict.fromkeys((job.name for job in jobs), 1)
        assert {job.last_number for job in await store.jobs()} == {1}
        assert {job.version for job in await store.jobs()} == {2}


@pytest.mark.req("TIM-6")
async def test_a_job_that_somebody_is_writing_is_not_waited_for_and_stays_due() -> None:
    url = postgres().migrated_database()
    async with opened(url) as store:
        writes = ticked(await declared(store, 3), await store.now())
        with psycopg.connect(url) as rival:
            rival.execute("SELECT FROM mainspring.job WHERE name = 'job-0001' FOR UPDATE")
            written = await store.write_jobs(writes)
            assert [one.won for one in written] == [True, False, True]
            rival.rollback()  # it fails: the tick must not be lost
        page = await store.due_jobs(10)
        assert [job.name for job in page.jobs] == ["job-0001"]
        assert [one.won for one in await store.write_jobs(ticked(list(page.jobs), page.now))] == [True]


@pytest.mark.req("WIN-1", "ENQ-2")
async def test_a_key_in_an_open_transaction_holds_up_its_own_job_only() -> None:
    url = postgres().migrated_database()
    async with opened(url) as store:
        jobs, now = await declared(store, 3), await store.now()
        mine = ExecutionRow(
            id=random_id(now, random.Random()), job=jobs[1].name, job_id=jobs[1].id, handler="h", created=now
        )
        with psycopg.connect(url) as caller:
            store.add_in(caller, [msgspec.structs.replace(mine, due=now, overlap_key=jobs[1].id)])
            assert [one.won for one in await store.write_jobs(ticked(jobs, now))] == [True, False, True]
            caller.rollback()
        page = await store.due_jobs(10)
        assert [job.name for job in page.jobs] == [jobs[1].name]


@pytest.mark.req("WIN-1")
@pytest.mark.parametrize("overlap", ["skip", "queue", "cancel_running", "allow"])
async def test_the_short_way_records_what_the_long_way_records(overlap: str) -> None:
    """Twice, so that the second tick meets the execution of the first."""
    seen = [await two_ticks(overlap, short=short) for short in (True, False)]
    assert seen[0] == seen[1]
    assert len(seen[0][1]) == 6


async def two_ticks(overlap: str, *, short: bool) -> tuple[Any, Any]:
    async with opened(postgres().migrated_database()) as store:
        jobs, answers = await declared(store, 3, late=10.0, overlap=overlap), []
        base = jobs[0].next_run or 0
        for n in range(2):
            now = base + n * HOUR + SECOND
            writes = ticked(await store.jobs(), now)
            assert all(is_simple(write) for write in writes)
            given = [msgspec.structs.replace(write, only_plan=short) for write in writes]
            answers += [outcome(written) for written in await store.write_jobs(given)]
        rows = [shape(row, base) for row in await all_executions(store)]
        return answers, sorted(rows)


def outcome(written: JobWritten) -> tuple[bool, list[tuple[str, bool]]]:
    return written.won, [(added.outcome, added.holder is not None) for added in written.added]


def shape(row: ExecutionRow, base: Micros) -> tuple[Any, ...]:
    """Everything but what the two runs cannot share: ids and instants."""
    at = [None if instant is None else (instant - base) // SECOND for instant in (row.tick, row.due, row.created)]
    keys = [None if key is None else key.replace(row.job_id, "J") for key in (row.overlap_key, row.running_overlap_key)]
    return row.job, row.number or 0, row.state.value, str(row.reason), str(at), str(keys), row.staged, row.policy


@pytest.mark.req("WIN-2")
async def test_other_writes_travel_as_json() -> None:
    """A gap with its record, a late tick whose id tells another time, an overlap of several."""
    async with opened(postgres().migrated_database()) as store:
        [late] = ticked(await declared(store, 1, late=30.0), await store.now())
        assert not is_simple(late)  # found under the id of half a minute ago
        [written] = await store.write_jobs([late])
        assert written.won
        [row] = await all_executions(store)
        assert (row.state, row.number) == (State.PENDING, 1)
    limited = JobSpec(handler="h", trigger=encode_trigger(every(hours=1)), overlap_limit=3)
    now = SystemClock().now()
    job = Job(name="j", id="i", version=1, declared=encode_spec(limited), anchor=now - HOUR, next_run=now)
    assert not is_simple(ticks.materialise(job, now, random.Random(1)))


@pytest.mark.req("REL-1")
async def test_a_tick_that_has_been_is_a_duplicate_though_the_write_wins() -> None:
    async with opened(postgres().migrated_database()) as store:
        [job] = await declared(store, 1)
        now = await store.now()
        [first] = ticked([job], now)
        ended = msgspec.structs.replace(first.executions[0], state=State.COMPLETED, finished=now, overlap_key=None)
        await store.add([ended])
        [written] = await store.write_jobs([first])
        assert outcome(written) == (True, [("duplicate", False)])
        assert [row.state for row in await all_executions(store)] == [State.COMPLETED]
