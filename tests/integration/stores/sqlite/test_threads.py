"""The threads of the SQLite store let go of their connections when they have to, and take them up again."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mainspring.model.errors import StoreError
from mainspring.model.execution import LIVE, ExecutionRow
from mainspring.model.store.messages import ExecutionQuery, HeartbeatRequest, WorkerInfo
from mainspring.stores.sqlite import SqliteStore
from mainspring.stores.sqlite.executions import lists
from mainspring.stores.sqlite.threads import connection_thread, store_threads
from mainspring.stores.sqlite.transaction import Transaction
from mainspring.testing.clock import FakeClock
from tests.integration.stores.sqlite_support import (
    ALL,
    FORKING_OFTEN,
    connected,
    execution,
    opened,
    output,
    start,
    write_lock_held,
)
from tests.support import DEADLINE, new_threads, until

BEAT = HeartbeatRequest(worker=WorkerInfo(id="w1", host="here", pid=1, version="1"), leases=(), lease=30.0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@contextmanager
def forking(store: SqliteStore) -> Iterator[None]:
    """What happens around a fork, without the fork: inside, no connection may be open."""
    connection_thread._before_fork()
    try:
        assert store.threads.opened is not None
        assert all(thread.await_paused(0.0) for thread in store.threads.opened)
        yield
    finally:
        connection_thread._after_in_parent()


def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """A switch: while it is on, no connection can be opened."""
    connect, broken = store_threads.connect, False

    def instead(*arguments: Any) -> sqlite3.Connection:
        if broken:
            raise StoreError("too many open files")
        return connect(*arguments)

    def switch(on: bool) -> None:
        nonlocal broken
        broken = on

    monkeypatch.setattr(store_threads, "connect", instead)
    return switch


async def outcome(call: Any) -> Any:
    [result] = await asyncio.gather(call, return_exceptions=True)
    return result


# --- who reads what ---------------------------------------------------------------------------------------------------


@pytest.mark.req("NUM-2")
async def test_a_slow_list_keeps_nobody_from_working(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, release = threading.Event(), threading.Event()

    def slow(tx: Transaction, query: ExecutionQuery) -> list[ExecutionRow]:
        if query is ALL:
            begun.set()
            release.wait(DEADLINE * 2)
        return []

    async with opened(path) as store:
        monkeypatch.setattr(lists, "find", slow)
        listed = asyncio.ensure_future(store.find(ALL))
        counted = asyncio.ensure_future(store.count(ALL, 10))
        await until(begun.is_set)
        await store.add([execution(1)])
        asked: list[Awaitable[Any]] = [store.due_jobs(10), store.expired(10), store.todo(10), store.swept(10)]
        asked += [
            store.cancels("w1"),
            store.unserved_cancels(10),
            store.children("p"),
            store.execution(execution(1).id),
        ]
        asked += [store.jobs(["job"]), store.jobs_after("", 10), store.fold(10), store.now()]
        asked += [store.find(ExecutionQuery(job_id="job-1", states=LIVE))]
        try:
            await asyncio.wait_for(asyncio.gather(*asked), DEADLINE)
            assert not counted.done()
        finally:
            release.set()
        assert (await listed, await counted) == ([], 1)


# --- forks ------------------------------------------------------------------------------------------------------------


@pytest.mark.req("OPS-3")
async def test_a_store_that_cannot_connect_after_a_fork_tries_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch = failing(monkeypatch)
    async with opened(path) as store:
        with forking(store):
            switch(True)
        for call in (lambda: store.add([execution(1)]), store.jobs, lambda: asyncio.to_thread(store.heartbeat, BEAT)):
            error = await asyncio.wait_for(outcome(call()), DEADLINE)
            assert isinstance(error, StoreError)
            assert "too many open files" in str(error)
        with forking(store):
            pass  # nothing to let go
        switch(False)

        async def added() -> bool:
            return not isinstance(await outcome(store.add([execution(1)])), StoreError)

        async def listed() -> bool:
            return not isinstance(await outcome(store.find(ALL)), StoreError)

        await until(added)
        await until(listed)
        assert [row.id for row in await store.find(ALL)] == [execution(1).id]


async def test_a_store_without_connections_can_be_closed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = set(threading.enumerate())
    switch = failing(monkeypatch)
    async with opened(path) as store:
        with forking(store):
            switch(True)
        assert isinstance(await outcome(store.jobs()), StoreError)
        await asyncio.wait_for(store.close(), DEADLINE)
    await until(lambda: new_threads(threads) == [])


@pytest.mark.req("OPS-3")
@pytest.mark.skipif(not Path("/proc/self/fd").is_dir() or not hasattr(os, "fork"), reason="needs fork and /proc")
def test_forks_in_quick_succession_never_inherit_a_connection(path: Path) -> None:
    assert output(start(FORKING_OFTEN, path)).split() == ["inherited:", "0", "added:", "added"]


async def test_a_fork_need_not_wait_for_a_lock_that_another_process_holds(path: Path) -> None:
    async with opened(path) as store:
        with write_lock_held(path):
            pending = asyncio.ensure_future(store.add([execution(1)]))
            await store.jobs()
            with forking(store):
                assert not pending.done()
        assert (await pending)[0].outcome == "added"


async def test_a_fork_while_a_store_is_being_opened(path: Path) -> None:
    """Those who read wait for the one who makes the schema, and that one for a lock."""
    with connected(path) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    store = SqliteStore(path, FakeClock())
    with write_lock_held(path):
        opening = asyncio.ensure_future(store.open())
        await until(lambda: store.threads.opened is not None)
        with forking(store):
            assert not opening.done()
    await opening
    assert await store.jobs() == []
    await store.close()


# --- closing ----------------------------------------------------------------------------------------------------------


async def test_closing_does_not_wait_for_a_lock_that_another_process_holds(path: Path) -> None:
    store = SqliteStore(path, FakeClock(), busy_timeout=DEADLINE * 10)
    await store.open()
    with write_lock_held(path):
        pending = [asyncio.ensure_future(store.add([execution(n)])) for n in range(600)]
        beat = asyncio.ensure_future(asyncio.to_thread(store.heartbeat, BEAT))
        await store.jobs()
        await asyncio.wait_for(store.close(), DEADLINE)
        answers = await asyncio.gather(*pending, beat, return_exceptions=True)
    assert {type(answer) for answer in answers} == {StoreError}
    assert "closed while another process held the write lock" in str(answers[0])


async def test_closing_waits_for_a_lock_that_is_soon_free(path: Path) -> None:
    store = SqliteStore(path, FakeClock())
    await store.open()
    with write_lock_held(path):
        pending = asyncio.ensure_future(store.add([execution(1)]))
        await store.jobs()
        closing = asyncio.ensure_future(store.close())
        await until(lambda: store.threads.opened is None)
    await closing
    assert (await pending)[0].outcome == "added"


async def test_a_store_that_waits_for_a_lock_to_open_can_be_closed(path: Path) -> None:
    with connected(path) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    store = SqliteStore(path, FakeClock(), busy_timeout=DEADLINE * 10)
    with write_lock_held(path):
        opening = asyncio.ensure_future(store.open())
        await until(lambda: store.threads.opened is not None)
        await asyncio.wait_for(store.close(), DEADLINE)
        with pytest.raises(StoreError, match="closed while another process held the write lock"):
            await opening
