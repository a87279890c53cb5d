"""A commit whose answer is lost: the worker says the same again, and the store must know that it has heard it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mainspring import Execution, JobContext, Mainspring, Retry, State
from mainspring.app.adapters import SystemClock, make_store
from mainspring.core.ports import Store
from mainspring.core.views.execution import row_of
from mainspring.model.errors import StoreError
from mainspring.model.store.messages import Change, ClaimRequest, Exchanged
from tests.crash.handlers import FAST
from tests.crash.processes import PATIENCE, until
from tests.mongo_server import mongo
from tests.servers import postgres

AT_ONCE = Retry(initial=0, multiplier=1)


class ForgetfulStore:
    """Does everything, but loses the answer to each exchange that settles something, once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._answered: set[tuple[str, int]] = set()
        self.lost = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def exchange(self, changes: Sequence[Change], claim: ClaimRequest | None) -> Exchanged:
        reply = await self._store.exchange(changes, claim)
        new = {(change.id, change.token) for change in changes if not change.rescue} - self._answered
        if new:
            self._answered |= new
            self.lost += 1
            raise StoreError("the connection broke before the answer came")
        return reply


@pytest.fixture(autouse=True)
def without_log_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="mainspring")


@asynccontextmanager
async def forgetful(database: str) -> AsyncIterator[tuple[Mainspring, ForgetfulStore, list[tuple[str, int]]]]:
    """An application that fails on the first run of each execution, its store, and the runs there were."""
    plain = Mainspring(database, **FAST)
    store = ForgetfulStore(make_store(plain.settings, SystemClock()))
    app = Mainspring(store, **FAST)  # type: ignore[arg-type]
    runs: list[tuple[str, int]] = []

    @app.job("fails-first", retry=AT_ONCE, max_attempts=10)
    async def fails_first(ctx: JobContext) -> int:
        runs.append((ctx.execution_id, row_of(ctx.execution).token))
        if [id for id, _ in runs].count(ctx.execution_id) == 1:
            raise ValueError("the first time")
        return row_of(ctx.execution).token

    try:
        async with app:
            yield app, store, runs
    finally:
        await store.close()


@pytest.mark.req("REL-1", "WRK-3", "EXE-3", "EXE-4")
@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres", "mongo"])
async def test_an_ending_said_twice_counts_once(tmp_path: Path, kind: str) -> None:
    """The first ending puts the execution back, and the same exchange claims it again: under the same owner, running
    again, it must be the token alone that tells the second saying from the first."""
    async with forgetful(_database(kind, tmp_path)) as (app, store, runs):
        added = [each for each in await app.enqueue_many([("fails-first",)] * 5) if each is not None]
        await until(lambda: _all_completed(app, added), PATIENCE)
        assert store.lost > 0
        for execution in [await app.get(each.id) for each in added]:
            ends = [attempt.end for attempt in execution.attempts]
            assert ends.count("failed") == 1, "the handler failed once"
            assert ends.count("completed") == 1
            assert execution.failures == len(ends) - 1
            assert (execution.id, execution.result) in runs
        assert sum([view.stats.completed for view in await app.jobs()]) == len(added)


def _database(kind: str, folder: Path) -> str:
    if kind == "postgres":
        return postgres().new_database()
    if kind == "mongo":
        return mongo("replica_set").new_database()
    return "memory://" if kind == "memory" else f"sqlite:///{folder / 'crash.db'}"


async def _all_completed(app: Mainspring, executions: list[Execution]) -> bool:
    return all([(await app.get(each.id)).state is State.COMPLETED for each in executions])
