"""Two schedulers saw one version of a job and write it: history is what the winner wrote, in every order of steps.

A step is one call of the driver. The orders form a tree: at each place, either scheduler makes the next step. Two
orders that have led to the same documents, and given both schedulers the same answers, are one place: what can follow
is the same, and is tried once. At each place, either or both of the schedulers may die; what a dead one knew makes no
difference any more. The rule for missed ticks makes no difference to the deaths, which are tried with one of them: at
every fourth place, or at every one with CRASH_FULL (make crash-full).
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
from collections.abc import Awaitable
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from typing import Any

import pymongo
import pytest
from bson import ObjectId
from msgspec.structs import replace

from mainspring import CatchUp, cron
from mainspring.core.rules.ticks import materialise
from mainspring.model.execution import ExecutionRow
from mainspring.model.job import Job, JobSpec, encode_spec
from mainspring.model.store.messages import ExecutionQuery, JobWrite, JobWritten
from mainspring.model.time.instants import Micros, to_micros
from mainspring.model.triggers import encode_trigger
from mainspring.stores.mongo import MongoStore
from mainspring.stores.mongo.connection.collection import Collection
from mainspring.stores.mongo.jobs import write as job_writes
from tests.integration.stores.mongo_support import opened
from tests.mongo_server import mongo

A, B = "a", "b"
RULES = {
    "skip": {"missed": "skip", "overlap": "skip"},
    "latest": {"missed": "latest", "grace": 1},
    "all": {"missed": CatchUp("all", max_runs=2), "grace": 1},
}
DEATHS_APART = 1 if os.environ.get("CRASH_FULL") else 4
_SCHEDULER: ContextVar[str] = ContextVar("scheduler", default="")


def at(minutes: float) -> Micros:
    return to_micros(datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes))


def late_job(rule: dict[str, Any]) -> Job:
    spec = JobSpec(handler="work", trigger=encode_trigger(cron("* * * * *")), **rule)
    return Job(name="job", id="job-1", version=1, declared=encode_spec(spec), anchor=at(0), next_run=at(1))


def tick(job: Job, minutes: float) -> JobWrite:
    return materialise(job, at(minutes), random.Random(1))


class Stepped:
    """Runs the write of each scheduler one call of the driver at a time."""

    def __init__(self, store: MongoStore, writes: dict[str, JobWrite], patch: pytest.MonkeyPatch) -> None:
        self._store, self.writes = store, writes
        self._gates = {name: asyncio.Semaphore(0) for name in writes}
        self._arrived = asyncio.Event()
        self._waiting: set[str] = set()
        self.order = ""
        self.answers: dict[str, list[str]] = {name: [] for name in writes}
        self._stamps = {name: ObjectId(name.encode() * 12) for name in writes}
        original = Collection._answer

        async def step(collection: Collection, call: Awaitable[Any]) -> Any:
            name = _SCHEDULER.get()
            if not name or collection.name.endswith(".wakeups"):
                return await original(collection, call)
            self._waiting.add(name)
            self._arrived.set()
            try:
                await self._gates[name].acquire()
            except BaseException:
                call.close()  # type: ignore[attr-defined]
                raise
            answer = await original(collection, call)
            self.answers[name].append(_plain(answer))
            return answer

        patch.setattr(Collection, "_answer", step)
        patch.setattr(job_writes, "ObjectId", lambda: self._stamps.get(_SCHEDULER.get()) or ObjectId())
        self.tasks = {name: asyncio.create_task(self._run(name, write)) for name, write in writes.items()}

    async def _run(self, name: str, write: JobWrite) -> JobWritten:
        _SCHEDULER.set(name)
        try:
            return (await self._store.write_jobs([write]))[0]
        finally:
            self._arrived.set()

    async def at_rest(self) -> None:
        """Until each scheduler waits for its next step, or has ended."""
        while any(name not in self._waiting and not task.done() for name, task in self.tasks.items()):
            self._arrived.clear()
            await self._arrived.wait()

    def unfinished(self) -> list[str]:
        return [name for name, task in self.tasks.items() if not task.done()]

    async def step(self, name: str) -> None:
        self.order += name
        self._waiting.discard(name)
        self._gates[name].release()
        await self.at_rest()

    async def finish(self) -> None:
        while left := self.unfinished():
            await self.step(left[0])

    async def kill(self, name: str) -> None:
        self.tasks[name].cancel()
        await asyncio.wait([self.tasks[name]])

    def won(self) -> list[str]:
        return [name for name, task in self.tasks.items() if not task.cancelled() and task.result().won]


def _plain(answer: Any) -> str:
    counts = {name: getattr(answer, name, None) for name in ("matched_count", "deleted_count", "inserted_ids")}
    return repr(_without_times(answer if isinstance(answer, list | dict | None) else counts))


class Ground:
    """One database for all orders. A job of version 1 is there at the beginning of each."""

    def __init__(self, client: pymongo.MongoClient[dict[str, Any]]) -> None:
        self._data = client.get_default_database()
        self._begin = self._documents()

    def _documents(self) -> dict[str, list[dict[str, Any]]]:
        names = ("jobs", "incarnations", "executions", "audits")
        return {name: list(self._data[f"mainspring.{name}"].find(sort=[("_id", 1)])) for name in names}

    def reset(self) -> None:
        for name, documents in self._begin.items():
            collection = self._data[f"mainspring.{name}"]
            collection.delete_many({})
            if documents:
                collection.insert_many(documents)

    def picture(self) -> str:
        return repr(_without_times(self._documents()))


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_times(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_times(item) for item in value]
    return None if isinstance(value, datetime) else value


@pytest.fixture(params=RULES)
def rule(request: pytest.FixtureRequest) -> dict[str, Any]:
    return RULES[request.param]


@pytest.mark.req("TIM-6", "REL-1")
async def test_history_is_what_the_winner_wrote_in_every_order_of_steps(rule: dict[str, Any]) -> None:
    job, url = late_job(rule), mongo("standalone").new_database()
    writes = {A: tick(job, 10.1), B: tick(job, 11.1)}
    assert writes[A].executions != writes[B].executions
    async with opened(url) as store:
        await store.write_jobs([JobWrite(job=replace(job, version=0), seen_version=None)])
        with pymongo.MongoClient(url) as client:
            orders = _Orders(store, Ground(client), writes, deaths=(A, B, A + B) if rule["missed"] == "skip" else ())
            await orders.explore()
    print(f"{len(orders.known)} places, {orders.runs} runs")
    assert len(orders.known) > 60
    assert orders.winners == {A, B}


class _Orders:
    def __init__(self, store: MongoStore, ground: Ground, writes: dict[str, JobWrite], deaths: tuple[str, ...]) -> None:
        self.store, self.ground, self.writes, self.deaths = store, ground, writes, deaths
        self.known: set[int] = set()
        self.winners: set[str] = set()
        self.runs = 0
        self._deaths = itertools.count()

    async def explore(self) -> None:
        left = [("", "")]
        while left:
            left += await self._run(*left.pop())

    async def _run(self, order: str, dead: str) -> list[tuple[str, str]]:
        """Make these steps; then these schedulers die, and the others come to their end. With nobody to die, go on from
        there as long as the places are new, and return the other ways to go on from each of them."""
        self.runs += 1
        self.ground.reset()
        with pytest.MonkeyPatch.context() as patch:
            stepped = Stepped(self.store, self.writes, patch)
            await stepped.at_rest()
            for name in order:
                await stepped.step(name)
            others = [] if dead else await self._go_on(stepped)
            for name in dead or stepped.unfinished():
                await stepped.kill(name)
            await stepped.finish()
            if dead or not any(task.cancelled() for task in stepped.tasks.values()):
                await self._judge(stepped, f"after {stepped.order!r}, dead: {dead!r}")
        return others

    async def _go_on(self, stepped: Stepped) -> list[tuple[str, str]]:
        others: list[tuple[str, str]] = []
        while True:
            order, unfinished = stepped.order, stepped.unfinished()
            possible = [each for each in ("", *self.deaths) if set(each) <= set(unfinished)]
            new = self._new(stepped, possible)
            others += [(order, each) for each in new if each and next(self._deaths) % DEATHS_APART == 0]
            if "" not in new or not unfinished:
                return others
            others += [(order + name, "") for name in unfinished[1:]]
            await stepped.step(unfinished[0])

    def _new(self, stepped: Stepped, possible: list[str]) -> list[str]:
        """With which of these schedulers dead this place is a new one."""
        new, picture = [], self.ground.picture()
        for dead in possible:
            answers = {name: given for name, given in stepped.answers.items() if name not in dead}
            place = hash((dead, picture, repr(answers)))
            if place not in self.known:
                new.append(dead)
            self.known.add(place)
        return new

    async def _judge(self, stepped: Stepped, where: str) -> None:
        """A third scheduler comes later, and finds all done or does it."""
        won = stepped.won()
        assert len(won) <= 1, where
        await self.store.fold(100)
        [job] = await self.store.jobs()
        if job.version == 1:
            assert len(won) == 0, where
            third = tick(job, 14.1)
            assert (await self.store.write_jobs([third]))[0].won, where
            wrote, [job] = third, await self.store.jobs()
            await self.store.fold(100)
        else:
            [winner] = [name for name, write in self.writes.items() if write.job.next_run == job.next_run]
            assert won in ([winner], []), where
            wrote = self.writes[winner]
            self.winners.add(winner)
        assert job.next_run == wrote.job.next_run, where
        rows = await self.store.find(ExecutionQuery(limit=1_000, oldest_first=True))
        assert [_story(row) for row in rows] == sorted(_story(row) for row in wrote.executions), where
        assert sorted(row.number or 0 for row in rows) == list(range(1, len(rows) + 1)), where
        assert await self.store.db.executions.count_documents({}) == len(rows), where


def _story(row: ExecutionRow) -> tuple[Any, ...]:
    return row.id, row.state, row.reason, row.tick, row.due, row.created, row.metadata_json
