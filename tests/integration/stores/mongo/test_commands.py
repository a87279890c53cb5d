"""How many commands the MongoDB store sends for each execution, by kind of work: a bar for each, with little slack.

A worker with room for 20 executions claims and settles until nothing is left. What time it takes depends on the
machine; what it sends does not. Commands of wake-ups are not counted: there is at most one every 50 ms.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from pymongo import AsyncMongoClient, monitoring

from mainspring.model.execution import ExecutionRow, State
from mainspring.model.limits import Limit, encode_limits
from mainspring.model.store.messages import Change
from mainspring.stores.mongo import MongoStore
from tests.integration.stores.mongo_support import ending, execution, request
from tests.mongo_server import mongo

ROOM = 20
NOW = time.time_ns() // 1000
Fields = Callable[[int], dict[str, Any]]
Ending = Callable[[ExecutionRow], Change]


class StillTime:
    """In place of the server's clock: on a slow machine nothing comes due meanwhile."""

    def now(self) -> Any:
        return {"$literal": NOW}

    def read(self, hello: dict[str, Any]) -> int:
        return NOW


class Commands(monitoring.CommandListener):
    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        collection = str(event.command.get(event.command_name, "")).rpartition(".")[2]
        if collection in ("executions", "limits", "jobs", "meta", "incarnations"):
            self.counts[f"{event.command_name} {collection}"] += 1

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None: ...
    def failed(self, event: monitoring.CommandFailedEvent) -> None: ...


def limited(*limits: Limit) -> dict[str, Any]:
    return {"limits": encode_limits(limits)}


KINDS: dict[str, tuple[Fields, float]] = {
    "plain": (lambda n: {}, 0.23),
    "unique keys": (lambda n: {"unique_key": f"u{n}"}, 0.23),
    "staged keys": (lambda n: {"running_unique_key": f"r{n}", "staged": True}, 0.23),
    "one running key": (lambda n: {"running_unique_key": "r", "staged": True}, 3.5),
    "overlap key": (lambda n: {"running_overlap_key": "job", "staged": True}, 3.5),
    "a limit of 5": (lambda n: limited(Limit("k", concurrency=5)), 1.2),
    "a limit of 1": (lambda n: limited(Limit("k", concurrency=1)), 3.6),
    "a limit for each": (lambda n: limited(Limit(f"k{n}", concurrency=1)), 0.35),
    "a rate": (lambda n: limited(Limit("api", rate=1e5, burst=1000)), 0.35),
    "tenants": (lambda n: {"share": f"t{n % 10}", "tenant": f"t{n % 10}", "parent_id": "p"}, 0.23),
}


async def counted(count: int, fields: Fields, end: Ending = ending) -> Commands:
    """The commands of `count` executions from their first claim to their last ending."""
    commands = Commands()
    url = mongo("standalone").migrated_database()
    client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(url, event_listeners=[commands])
    async with client:
        store = MongoStore(client, name=client.get_default_database().name, time=StillTime())
        await store.open()
        rows = [execution(created=NOW, due=NOW, **fields(n)) for n in range(count)]
        for start in range(0, count, 100):
            await store.add(rows[start : start + 100])
        commands.counts.clear()
        done: set[str] = set()
        running: tuple[ExecutionRow, ...] = ()
        for _ in range(10 * count):
            changes = [end(row) for row in running]
            answer = await store.exchange(changes, request(limit=ROOM))
            assert all(answer.applied)
            done.update(change.id for change in changes if change.to is State.COMPLETED)
            running = answer.claimed
            if not running and len(done) == count:
                break
        assert len(done) == count
        await store.close()
    return commands


@pytest.mark.req("NUM-2")
@pytest.mark.parametrize("kind", KINDS)
async def test_commands_for_each_execution(kind: str) -> None:
    fields, most = KINDS[kind]
    commands = await counted(100, fields)
    assert commands.total / 100 <= most, commands.counts


async def test_commands_for_each_retry() -> None:
    tried: set[str] = set()

    def retried(row: ExecutionRow) -> Change:
        first = row.id not in tried
        tried.add(row.id)
        return ending(row, State.PENDING if first else State.COMPLETED)

    commands = await counted(100, lambda n: {}, retried)
    assert commands.total / 100 <= 0.45, commands.counts


@pytest.mark.req("ENQ-4", "FLW-3")
@pytest.mark.parametrize("kind", ["one running key", "overlap key", "a limit of 1"])
async def test_work_behind_one_key_costs_the_same_for_each_execution_however_much_there_is(kind: str) -> None:
    fields, _ = KINDS[kind]
    few, many = [await counted(count, fields) for count in (50, 200)]
    assert many.total / 200 <= few.total / 50 * 1.1, (few.counts, many.counts)
