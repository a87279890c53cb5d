"""A process that uses the MongoDB store dies between any two of its writes: nothing is lost, duplicated or miscounted.

Each test kills the same step before and after each of its writes in turn, on a server without transactions, which is
the harder case. Another process then finishes what is left, as `fold` does every few seconds.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import pymongo
import pytest
from msgspec.structs import replace
from pymongo.asynchronous.collection import AsyncCollection

from mainspring.model.execution import FINAL, ExecutionRow, State
from mainspring.model.job import Job, JobSpec, encode_spec
from mainspring.model.store.messages import (
    Audit,
    Change,
    ClaimRequest,
    ExecutionQuery,
    JobWrite,
    LogLine,
    ProgressReport,
    PruneRule,
)
from mainspring.stores.mongo import MongoStore
from mainspring.stores.mongo.connection.database import COLLECTIONS
from tests.integration.stores.mongo_support import opened
from tests.mongo_server import mongo

WRITES = (
    *("insert_one", "insert_many", "update_one", "update_many", "bulk_write"),
    *("delete_one", "delete_many", "find_one_and_update"),
)
NOW = 1_767_225_600_000_000
MANY = 60


class Killed(BaseException):
    """The process is gone: nothing catches this."""


class Executioner:
    """Kills at one write: before it is done, or after."""

    def __init__(self, write: int, *, after: bool) -> None:
        self.write, self.after, self.count = write, after, 0

    async def run(self, write: Callable[..., Awaitable[Any]], *args: Any, **kwargs: Any) -> Any:
        self.count += 1
        if self.count < self.write:
            return await write(*args, **kwargs)
        if self.after:
            await write(*args, **kwargs)
        raise Killed


@contextmanager
def intercepted(what: Executioner | Pause) -> Iterator[None]:
    """Every write of this process goes through it; those it makes itself do not."""
    originals = {name: getattr(AsyncCollection, name) for name in WRITES}
    inside = ContextVar("inside", default=False)

    def through(original: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def write(self: Any, *args: Any, **kwargs: Any) -> Any:
            if inside.get() or self.name.endswith(".wakeups"):
                return await original(self, *args, **kwargs)
            token = inside.set(True)
            try:
                return await what.run(original, self, *args, **kwargs)
            finally:
                inside.reset(token)

        return write

    with pytest.MonkeyPatch.context() as patch:
        for name, original in originals.items():
            patch.setattr(AsyncCollection, name, through(original))
        yield


class Ground:
    """One database for all deaths of a test: creating its indexes takes longer than dying."""

    def __init__(self) -> None:
        self.url = mongo("standalone").new_database()


def emptied(ground: Ground) -> str:
    client: pymongo.MongoClient[dict[str, Any]]
    with pymongo.MongoClient(ground.url) as client:
        for name in COLLECTIONS:
            wanted = {"_id": {"$ne": "schema"}} if name == "meta" else {}
            client.get_default_database()[f"mainspring.{name}"].delete_many(wanted)
    return ground.url


def at_every_write() -> Iterator[tuple[int, bool]]:
    for write in range(1, MANY):
        for after in (False, True):
            yield write, after


async def dies(url: str, step: Callable[[MongoStore], Awaitable[Any]], write: int, after: bool) -> bool:
    """Whether the step had that many writes; False when it came to its end."""
    async with opened(url) as store:
        with intercepted(Executioner(write, after=after)):
            try:
                await step(store)
            except Killed:
                store.opened.announcers = _Silent()  # type: ignore[assignment]  # a dead process announces nothing
                return True
    return False


class _Silent:
    async def close(self, _: Any) -> None:
        """Nothing to send."""


async def recovered(store: MongoStore) -> None:
    """What other processes do every few seconds."""
    for _ in range(2):
        while await store.fold(100):
            pass


def id_of(n: int) -> str:
    return f"019b7657-b400-7000-8000-{n:012x}"


def execution(n: int, **fields: Any) -> ExecutionRow:
    plain: dict[str, Any] = {"job": "job", "job_id": "job-1", "handler": "work", "created": NOW, "due": NOW}
    return ExecutionRow(**{"id": id_of(n), **plain, **fields})


def job(**fields: Any) -> Job:
    return Job(name="job", id="job-1", declared=encode_spec(JobSpec(handler="work")), **fields)


def audit(n: int) -> Audit:
    return Audit(id=f"a{n}", at=NOW, actor="ann", action="act", target="job")


def completed(row: ExecutionRow, **fields: Any) -> Change:
    seen: dict[str, Any] = {"id": row.id, "expect": row.state, "token": row.token, "owner": row.owner}
    return Change(**{**seen, "to": State.COMPLETED, "at": NOW, "failures": 0, "crashes": 0, **fields})


CLAIM = ClaimRequest(owner="w1", handlers=frozenset({"work"}), queues=None, limit=10, lease=600)


async def ids(store: MongoStore) -> list[str]:
    return [row.id for row in await store.find(ExecutionQuery(limit=1_000))]


# --- ticks ----------------------------------------------------------------------------------------------------------


@pytest.mark.req("REL-1", "TIM-6")
@pytest.mark.parametrize("jobs", [1, 3])
async def test_a_tick_happens_once_wherever_its_scheduler_dies(jobs: int) -> None:
    """The next scheduler either finds the tick done, or does it; never both, and never neither."""
    ground, died = Ground(), 0
    ticks = [tick(n) for n in range(jobs)]
    for write, after in at_every_write():
        url = emptied(ground)
        async with opened(url) as store:
            await store.write_jobs([JobWrite(job=one.job, seen_version=None) for one in ticks])
        if not await dies(url, lambda store: store.write_jobs(ticks), write, after):
            break
        died += 1
        async with opened(url) as store:
            await recovered(store)
            stored = {one.name: one.version for one in await store.jobs()}
            again = [replace(one, audit=audit(100 + n)) for n, one in enumerate(ticks)]
            for one, written in zip(ticks, await store.write_jobs(again), strict=True):
                assert written.won == (stored[one.job.name] == 1), (write, after)
            wanted = sorted(execution.id for one in ticks for execution in one.executions)
            assert sorted(await ids(store)) == wanted
            assert len(await store.audits()) == jobs
            assert sorted(row.id for row in (await store.exchange([], CLAIM)).claimed) == wanted
            await recovered(store)
            assert await store.db.executions.count_documents({"drafts": {"$exists": True}}) == 0
    else:
        pytest.fail("the step never came to its end")
    assert died >= 10


def tick(n: int) -> JobWrite:
    made = replace(job(), name=f"job{n}", id=f"job{n}-1")
    fields = {"job": made.name, "job_id": made.id}
    brings = (execution(2 * n, **fields), execution(2 * n + 1, overlap_key=f"o{n}", **fields))
    return JobWrite(job=made, seen_version=1, executions=brings, audit=audit(n))


@pytest.mark.req("REL-1", "TIM-6")
async def test_a_scheduler_that_stops_in_the_middle_cannot_repeat_a_tick_that_left_no_row() -> None:
    """It stops before each of its writes in turn; others finish its tick, run it and delete it; then it continues."""
    url = mongo("standalone").new_database()
    acted = 0
    async with opened(url) as slow, opened(url) as other:
        await slow.write_jobs([JobWrite(job=job(), seen_version=None)])
        for write in range(1, MANY):
            [stored] = await slow.jobs()
            tick = JobWrite(job=job(), seen_version=stored.version, executions=(execution(write),))
            pause = Pause(write, other, stored.version + 1)
            with intercepted(pause):
                [written] = await slow.write_jobs([tick])
            assert written.won
            acted += pause.acted
            assert await ids(slow) == ([] if pause.acted else [id_of(write)]), write
            assert len((await slow.exchange([], CLAIM)).claimed) == (not pause.acted)
            if pause.count < write:
                break
            await end_all(other)
    assert acted >= 3


class Pause:
    """Stops at one write until others have done all there is to do, if the job has been written by then."""

    def __init__(self, write: int, other: MongoStore, version: int) -> None:
        self.write, self.other, self.version, self.count, self.acted = write, other, version, 0, False

    async def run(self, write: Callable[..., Awaitable[Any]], *args: Any, **kwargs: Any) -> Any:
        self.count += 1
        if self.count == self.write:
            [stored] = await self.other.jobs()
            if stored.version == self.version:
                self.acted = True
                await recovered(self.other)
                assert len((await self.other.exchange([], CLAIM)).claimed) == 1
                await end_all(self.other)
        return await write(*args, **kwargs)


async def end_all(store: MongoStore) -> None:
    running = await store.find(ExecutionQuery(states=frozenset({State.RUNNING})))
    assert all((await store.exchange([completed(row, keep=False) for row in running], None)).applied)
    await recovered(store)
    assert await store.db.executions.count_documents({}) == 0


async def test_a_write_that_lost_leaves_nothing_behind() -> None:
    url = mongo("standalone").new_database()
    async with opened(url) as store:
        await store.write_jobs([JobWrite(job=job(), seen_version=None)])
        await store.write_jobs([JobWrite(job=job(), seen_version=1)])
        [late] = await store.write_jobs([JobWrite(job=job(), seen_version=1, executions=(execution(1),))])
        assert not late.won
        assert await store.db.executions.count_documents({}) == 0


async def test_a_job_is_deleted_with_all_it_had_or_not_at_all() -> None:
    ground = Ground()
    for write, after in at_every_write():
        url = emptied(ground)
        async with opened(url) as store:
            await store.write_jobs([JobWrite(job=job(), seen_version=None)])
            await store.add([execution(n, state=State.COMPLETED, finished=NOW) for n in range(3)])
        if not await dies(url, lambda s: s.delete_job("job", 1, purge=True, audit=audit(1)), write, after):
            assert write > 3
            return
        async with opened(url) as store:
            await recovered(store)
            left, records = await store.jobs(), await store.audits()
            assert len(await ids(store)) == (3 if left else 0), (write, after)
            counted = "job-1" in await store.stats()
            assert ([one.id for one in records], counted) == (([], True) if left else (["a1"], False))
            [again] = await store.write_jobs([JobWrite(job=replace(job(), id="job-2"), seen_version=None)])
            assert again.won == (not left)
    pytest.fail("the step never came to its end")


# --- statistics -----------------------------------------------------------------------------------------------------


@pytest.mark.req("EXE-6")
async def test_every_ending_is_counted_once_and_numbered_wherever_the_folder_dies() -> None:
    ground = Ground()
    for write, after in at_every_write():
        url = emptied(ground)
        async with opened(url) as store:
            await store.add([execution(n) for n in range(5)])
            rows = (await store.exchange([], CLAIM)).claimed
            await store.report(
                [ProgressReport(id=rows[0].id, token=rows[0].token, owner="w1", logs=(LogLine(NOW, "INFO", "x"),))]
            )
            await store.exchange([completed(row, keep=n > 1) for n, row in enumerate(rows)], None)
        if not await dies(url, lambda store: store.fold(3), write, after):
            assert write > 3
            return
        async with opened(url) as store:
            before = await store.stats()
            assert (before["job-1"].completed, before["job-1"].last_id) == (5, id_of(4)), (write, after)
            await recovered(store)
            assert await store.stats() == before
            kept = await store.find(ExecutionQuery())
            assert [row.number for row in reversed(kept)] == [3, 4, 5]
            assert await store.db.executions.count_documents({}) == 3
            assert await store.db.logs.count_documents({}) == 0
    pytest.fail("the step never came to its end")


async def test_retention_never_takes_an_ending_from_the_statistics() -> None:
    ground = Ground()
    rule = PruneRule(job_id="job-1", states=FINAL, older_than=None, newest=1)
    for write, after in at_every_write():
        url = emptied(ground)
        async with opened(url) as store:
            await store.add([execution(n, state=State.COMPLETED, finished=NOW) for n in range(4)])
            await store.fold(2)
        if not await dies(url, lambda store: store.prune(rule, 10), write, after):
            assert write > 1
            return
        async with opened(url) as store:
            await store.prune(rule, 10)
            assert await ids(store) == [id_of(3)]
            await recovered(store)
            assert (await store.stats())["job-1"].completed == 4, (write, after)
            assert await store.db.executions.count_documents({}) == 1
    pytest.fail("the step never came to its end")


# --- endings --------------------------------------------------------------------------------------------------------


@pytest.mark.req("REL-1", "SEC-3")
async def test_an_ending_and_its_audit_record_stand_or_fall_together() -> None:
    ground = Ground()
    for write, after in at_every_write():
        url = emptied(ground)
        async with opened(url) as store:
            await store.add([execution(1)])
            [row] = (await store.exchange([], CLAIM)).claimed
        change = completed(row, to=State.CANCELLED, audit=audit(1))
        if not await dies(url, lambda store, change=change: store.exchange([change], None), write, after):
            assert write == 2
            return
        async with opened(url) as store:
            found = await store.execution(row.id)
            assert found is not None
            ended = found.state is State.CANCELLED
            assert [record.id for record in await store.audits()] == (["a1"] if ended else []), (write, after)
            assert (await store.exchange([change], None)).applied == (not ended,)
            assert [record.id for record in await store.audits()] == ["a1"]
    pytest.fail("the step never came to its end")


@pytest.mark.req("ENQ-4")
async def test_a_claim_that_dies_is_a_waiting_row_or_a_lease() -> None:
    ground = Ground()
    staged = execution(2, running_unique_key="k", staged=True)
    for write, after in at_every_write():
        url = emptied(ground)
        async with opened(url) as store:
            await store.add([execution(1), staged])
        if not await dies(url, lambda store: store.exchange([], CLAIM), write, after):
            assert write == 3
            return
        async with opened(url) as store:
            running = await store.find(ExecutionQuery(states=frozenset({State.RUNNING})))
            claimed = (await store.exchange([], CLAIM)).claimed
            assert sorted(row.id for row in [*running, *claimed]) == [id_of(1), id_of(2)], (write, after)
            assert all((row.owner, row.claims) == ("w1", 1) and row.lease for row in running)
    pytest.fail("the step never came to its end")
