"""`app.follow`: what happens to an execution, seen live from any process."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from mainspring import (
    Execution,
    ExecutionNotFound,
    InvalidValue,
    JobContext,
    LogEntry,
    Mainspring,
    Retention,
    StoreUnavailable,
)
from mainspring.core.queries.queries import FOLLOW_PAUSE
from mainspring.stores.memory import MemoryStore
from tests.mongo_server import mongo
from tests.servers import postgres
from tests.support import DEADLINE, Nodes

pytestmark = pytest.mark.req("EXE-11")


@pytest.fixture(params=["memory", "sqlite", "postgres", "mongo"])
def nodes(request: pytest.FixtureRequest, tmp_path: Path) -> Nodes:
    match request.param:
        case "postgres":
            return Nodes("postgres", tmp_path, postgres().migrated_database())
        case "mongo":
            return Nodes("mongo", tmp_path, mongo("replica_set").migrated_database())
        case kind:
            return Nodes(kind, tmp_path)


class Steps:
    """A handler that goes on when it is told to."""

    def __init__(self, app: Mainspring) -> None:
        self.go_on = threading.Semaphore(0)
        app.job("steps")(self.steps)

    def steps(self, ctx: JobContext) -> str:
        for number in range(1, 4):
            ctx.progress(number, 3)
            logging.getLogger("shop").warning("step %d", number)
            assert self.go_on.acquire(timeout=DEADLINE)
        ctx.logger.error("the last line")
        return "done"


def words(item: LogEntry | Execution) -> str:
    if isinstance(item, LogEntry):
        return f"{item.number} {item.level} {item.logger} {item.message}"
    done = (item.progress or {}).get("done")
    return item.state.value if done is None else f"{item.state.value} {done}"


async def seen(app: Mainspring, execution: Execution, steps: Steps, **options: Any) -> list[str]:
    """Every item in words. The handler goes on as soon as the progress of its step has arrived."""
    found: list[str] = []
    async for item in app.follow(execution, **options):
        found.append(words(item))
        if isinstance(item, Execution) and item.progress:
            steps.go_on.release()
    return found


async def test_lines_and_progress_are_seen_while_it_runs_and_the_ending_comes_last(nodes: Nodes) -> None:
    worker = nodes.app()
    steps = Steps(worker)
    async with worker, nodes.client() as client:
        execution = await client.enqueue("steps")
        assert execution is not None
        found = await asyncio.wait_for(seen(client, execution, steps), DEADLINE)
        lines = [words for words in found if words[0].isdigit()]
        assert lines == [
            "1 WARNING shop step 1",
            "2 WARNING shop step 2",
            "3 WARNING shop step 3",
            "4 ERROR mainspring.job the last line",
        ]
        assert found[-1] == "completed 3"
        assert {"running 1", "running 2", "running 3"} <= set(found)  # each step waits until it was seen
        assert found.count("completed 3") == 1
        again = [words(item) async for item in client.follow(execution.id, after=3, level="error")]
        assert again == ["4 ERROR mainspring.job the last line", "completed 3"]
        assert [number for number, _ in await client.logs(execution.id, level="ERROR")] == [4]


async def test_what_cannot_be_followed(memory_nodes: Nodes) -> None:
    async with memory_nodes.client() as client:
        with pytest.raises(ExecutionNotFound):
            await anext(client.follow("0199c1f2-7d5e-7abc-8def-0123456789ab"))
        with pytest.raises(InvalidValue, match="level: 'LOUD' is not valid"):
            await anext(client.follow("0199c1f2-7d5e-7abc-8def-0123456789ab", level="loud"))


async def test_an_execution_that_is_not_kept_ends_all_the_same(memory_nodes: Nodes) -> None:
    app, go_on = memory_nodes.app(), asyncio.Event()

    @app.job("brief", retention=Retention(keep_success=False))
    async def brief() -> None:
        await go_on.wait()

    async with app:
        execution = await app.enqueue(brief)
        assert execution is not None
        items = []
        async for item in app.follow(execution):
            items.append(item)
            go_on.set()
        item = items[-1]
        assert isinstance(item, Execution)
        assert (item.state, item.reason) == ("completed", "not kept")


async def test_an_outage_is_waited_out(memory_nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    app, go_on, failures = memory_nodes.app(), asyncio.Event(), 0

    @app.job("patient")
    async def patient(ctx: JobContext) -> None:
        await go_on.wait()
        ctx.logger.info("after the outage")

    read = MemoryStore.logs

    async def away(store: MemoryStore, id: str, after: int = 0) -> Any:
        nonlocal failures
        if not go_on.is_set() or failures < 2:
            failures += 1
            go_on.set()
            raise StoreUnavailable("the store is away")
        return await read(store, id, after)

    async with app:
        execution = await app.enqueue(patient)
        assert execution is not None
        found = []
        async for item in app.follow(execution):
            if not found:
                monkeypatch.setattr(MemoryStore, "logs", away)
            found.append(words(item))
        assert failures == 2
        assert found[-2:] == ["1 INFO mainspring.job after the outage", "completed"]


async def test_others_that_end_cost_a_follower_no_reads(memory_nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    app, go_on, reads, read = memory_nodes.app(), asyncio.Event(), 0, MemoryStore.logs

    @app.job("long")
    async def long() -> None:
        await go_on.wait()

    @app.job("brief")
    async def brief() -> None: ...

    async def counted(store: MemoryStore, id: str, after: int = 0) -> Any:
        nonlocal reads
        reads += 1
        return await read(store, id, after)

    monkeypatch.setattr(MemoryStore, "logs", counted)
    async with app:
        followed = await app.enqueue(long)
        assert followed is not None
        began = time.monotonic()
        following = asyncio.create_task(_last(app, followed))
        for _ in range(50):
            other = await app.enqueue(brief)
            assert other is not None
            await app.wait(other, timeout=DEADLINE)
        go_on.set()
        assert words(await following) == "completed"
        assert reads <= (time.monotonic() - began) / FOLLOW_PAUSE + 1


async def _last(app: Mainspring, execution: Execution) -> LogEntry | Execution:
    return [item async for item in app.follow(execution)][-1]


def test_blocking_code_follows_with_a_plain_loop(memory_nodes: Nodes) -> None:
    app = memory_nodes.app()
    steps = Steps(app)
    with app.sync as sync:
        execution = sync.enqueue("steps")
        assert execution is not None
        found: list[str] = []
        for item in sync.follow(execution):
            found.append(words(item))
            steps.go_on.release()
        assert found[-2:] == ["4 ERROR mainspring.job the last line", "completed 3"]
        other = sync.enqueue("steps")
        assert other is not None
        assert next(iter(sync.follow(other)))  # leaving early is fine
        for _ in range(3):
            steps.go_on.release()
        assert sync.wait(other, timeout=DEADLINE).state == "completed"
