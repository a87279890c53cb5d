"""A view of a job shows one instant: never the state of one moment with the retry count of another."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from mainspring.core.queries.queries import Queries
from mainspring.model.execution import ExecutionRow, State
from mainspring.model.store.messages import Change, ClaimRequest
from mainspring.stores.mongo.jobs import lists
from tests.mongo_server import mongo
from tests.servers import postgres
from tests.support import Nodes

KINDS = ["memory", "sqlite", "postgres", "mongo", "mongo_standalone"]
INSTANTS = {("pending", 0), ("running", 0), ("pending", 1), ("running", 1), ("failed", 2)}
"""The states of a one-shot with two attempts that fails, and its failures in each."""
STEPS = len(INSTANTS) - 1


class Life:
    """One execution, which goes one step further whenever it is told to: claim, fail, claim, fail."""

    def __init__(self, store: Any) -> None:
        self._store, self._row, self._steps = store, None, 0

    async def step(self) -> None:
        if self._steps == STEPS:
            return
        self._steps += 1
        if self._steps % 2:
            request = ClaimRequest(owner="w", handlers=frozenset({"work"}), queues=None, limit=1, lease=60.0)
            [self._row] = (await self._store.exchange([], request)).claimed
        else:
            await self._fail(self._row, self._steps // 2)

    async def _fail(self, row: Any, failures: int) -> None:
        assert isinstance(row, ExecutionRow)
        to = State.PENDING if failures == 1 else State.FAILED
        change = Change(
            id=row.id,
            expect=State.RUNNING,
            token=row.token,
            owner=row.owner,
            to=to,
            at=await self._store.now(),
            failures=failures,
            crashes=0,
        )
        assert (await self._store.exchange([change], None)).applied == (True,)


class Interrupted:
    """A store between whose reads the execution goes on: `after` says after how many of them it takes a step."""

    def __init__(self, store: Any, life: Life, after: int) -> None:
        self._store, self._life, self._left = store, life, after

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def call(*args: Any, **options: Any) -> Any:
            answer = await getattr(self._store, name)(*args, **options)
            self._left -= 1
            if self._left <= 0:
                await self._life.step()
            return answer

        return call


@pytest.fixture(params=KINDS)
def nodes(request: pytest.FixtureRequest, tmp_path: Path) -> Nodes:
    servers = {
        "postgres": postgres,
        "mongo": lambda: mongo("replica_set"),
        "mongo_standalone": lambda: mongo("standalone"),
    }
    server = servers[request.param]().migrated_database() if request.param in servers else None
    return Nodes(request.param.removesuffix("_standalone"), tmp_path, server)


@pytest.mark.req("API-12", "EXE-1")
async def test_steps_between_its_reads_do_not_tear_it(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    async with nodes.client() as app:
        app.job("work", max_attempts=2)(lambda: None)
        parts = await app._runtime.engine()
        for steps_before in range(STEPS):
            for reads_before in range(4):
                await app.enqueue("work")
                life = Life(parts.store)
                for _ in range(steps_before):
                    await life.step()
                _interrupt_mongo(monkeypatch, life, reads_before)
                store: Any = Interrupted(parts.store, life, reads_before)
                view = await Queries(store, parts.job_cache, app._runtime.clock, 30.0).job("work")
                monkeypatch.undo()
                assert (view.state, view.current_retry_count) in INSTANTS
                assert view.live.total + view.stats.total == _enqueued(steps_before, reads_before)
                for _ in range(STEPS):
                    await life.step()


def _enqueued(steps_before: int, reads_before: int) -> int:
    return steps_before * 4 + reads_before + 1


def _interrupt_mongo(monkeypatch: pytest.MonkeyPatch, life: Life, after: int) -> None:
    """There a snapshot consists of several reads of its own, in one session or, on a standalone server, without."""
    left = after

    def interrupted(read: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def call(*args: Any, **options: Any) -> Any:
            nonlocal left
            answer = await read(*args, **options)
            left -= 1
            if left <= 0:
                await life.step()
            return answer

        return call

    for name in ("_read", "live_of", "stats"):
        monkeypatch.setattr(lists, name, interrupted(getattr(lists, name)))
