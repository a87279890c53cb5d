"""Lists on MongoDB: what its server refuses or takes long for, seen from the store."""

from __future__ import annotations

import random
from typing import Any

import pytest
from msgspec.structs import replace
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import OperationFailure

from mainspring.model.execution import AttemptRecord, State
from mainspring.model.job import Job, JobSpec, encode_spec
from mainspring.model.store.messages import ExecutionQuery, JobFacts, JobQuery, JobWrite
from mainspring.model.values.ids import random_id
from mainspring.stores.mongo import MongoStore
from mainspring.stores.mongo.jobs import lists
from tests.integration.stores.mongo_support import ending, execution, opened, request
from tests.mongo_server import mongo


async def test_a_snapshot_that_the_server_gives_up_is_read_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """An index that was just made, an election: the driver asks for the transaction to be run again."""
    async with opened(mongo("replica_set").migrated_database()) as store:
        job = Job(name="job", id="job-1", declared=encode_spec(JobSpec(handler="work")))
        await store.write_jobs([JobWrite(job=job, seen_version=None)])
        plain, refused = AsyncCollection.aggregate, 0

        async def aggregate(self: Any, *args: Any, **options: Any) -> Any:
            nonlocal refused
            if options.get("session") is not None:
                refused += 1
                raise OperationFailure("snapshot", 246, {"errorLabels": ["TransientTransactionError"]})
            return await plain(self, *args, **options)

        monkeypatch.setattr(AsyncCollection, "aggregate", aggregate)
        [found] = await store.job_snapshots(["job"])
        assert (found.job.name, refused) == ("job", 1)


@pytest.mark.req("SRC-3")
async def test_executions_of_a_release_that_thousands_of_workers_had() -> None:
    async with opened(mongo("standalone").migrated_database()) as store:
        await store.add([execution(), execution()])
        rows = (await store.exchange([], request())).claimed
        names = ['worker "7" \\ ü', "another"]
        for row, name in zip(rows, names, strict=True):
            attempt = AttemptRecord(number=1, worker=name, started=1, ended=2, end="failed", error='"worker":"w-3"')
            await store.exchange([ending(row, State.FAILED, attempt=attempt)], None)
        others = frozenset(f"w-{n}" for n in range(5_000))
        assert await store.find(ExecutionQuery(workers=others)) == []
        [found] = await store.find(ExecutionQuery(workers=others | {names[0]}))
        assert found.id == rows[0].id


@pytest.mark.req("QUE-1")
async def test_the_oldest_that_waits_is_found_behind_those_of_higher_priority() -> None:
    async with opened(mongo("standalone").migrated_database()) as store:
        now = await store.now()
        low = [execution(priority=n, created=now - 9_000_000 + n, due=now - 9_000_000 + n) for n in range(3)]
        high = [execution(priority=5, created=now - 1_000, due=now - 1_000) for _ in range(30)]
        await store.add([*high, *low])
        [lane] = await store.lane_counts()
        assert (lane.ready, lane.oldest) == (33, low[0].due)


@pytest.mark.req("SRC-3")
async def test_jobs_by_their_last_run_named_or_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Folded endings and newer ones, with fewer jobs than a query may name and with more."""
    async with opened(mongo("standalone").migrated_database()) as store:
        jobs = [Job(name=name, id=f"{name}-1", declared=encode_spec(JobSpec(handler="work"))) for name in "abcd"]
        await store.write_jobs([JobWrite(job=job, seen_version=None) for job in jobs])
        await _ended(store, {"a": State.FAILED, "b": State.COMPLETED, "c": State.FAILED})
        await store.fold(100)
        await _ended(store, {"c": State.COMPLETED})
        await store.add([execution(job="d", job_id="d-1")])
        wanted: dict[str, JobFacts] = {
            "a": JobFacts(last=frozenset({State.FAILED})),
            "bc": JobFacts(last=frozenset({State.COMPLETED})),
            "ad": JobFacts(last=frozenset({None, State.FAILED})),
            "d": JobFacts(pending=True),
            "abc": JobFacts(pending=False, paused=False),
            "": JobFacts(last=frozenset({State.RUNNING})),
            "abcd": JobFacts(last=frozenset({None, *State})),
        }
        for most in (50_000, 0):
            monkeypatch.setattr(lists, "_MOST_NAMED", most)
            for names, facts in wanted.items():
                found = await store.find_jobs(JobQuery(any_of=(facts,)), 100)
                assert ("".join(found.names), found.count) == (names, len(names))


async def _ended(store: MongoStore, states: dict[str, State]) -> None:
    await store.add([execution(job=name, job_id=f"{name}-1") for name in states])
    rows = (await store.exchange([], request())).claimed
    assert all((await store.exchange([ending(row, states[row.job]) for row in rows], None)).applied)


@pytest.mark.req("SRC-3")
async def test_a_search_passes_over_nothing_while_candidates_vanish(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(mongo("standalone").migrated_database()) as store:
        now = await store.now()
        made = [execution(id=random_id(now + n * 1000, random.Random(n)), created=now) for n in range(6)]
        rows = [replace(row, handler="wanted" if n == 3 else "work") for n, row in enumerate(made)]
        await store.add(rows)
        find = store.db.executions.find

        async def find_later(*args: Any, **options: Any) -> Any:
            await store.db.executions.delete_many({"_id": {"$in": [row.id for row in rows[:2]]}})
            return await find(*args, **options)

        monkeypatch.setattr(store.db.executions, "find", find_later)
        query = ExecutionQuery(states=frozenset({State.PENDING}), handler="wanted", oldest_first=True)
        found = await store.search(query, 3)
        if not found.rows:
            assert found.searched_to is not None
            found = await store.search(replace(query, after=found.searched_to), 3)
        assert [row.id for row in found.rows] == [rows[3].id]
