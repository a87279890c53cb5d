"""Enqueue inside the caller's own transaction, on a plain sqlite3 connection of their own (ENQ-2)."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from mainspring.core.ports import Topic
from mainspring.model.errors import InvalidValue, StoreError
from mainspring.model.execution import ExecutionRow, State
from mainspring.model.store.messages import ExecutionQuery
from mainspring.stores.sqlite import SqliteStore
from mainspring.testing.clock import FakeClock
from tests.support import until

pytestmark = pytest.mark.req("ENQ-2")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "app.db"


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[SqliteStore]:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE shifts (id INTEGER PRIMARY KEY)")
    store = SqliteStore(path, FakeClock(), watch_interval=0.01)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def execution(number: int, **fields: Any) -> ExecutionRow:
    id = f"019b7000-0000-7000-8000-{number:012x}"
    return ExecutionRow(**{"id": id, "job": "job", "job_id": "job-1", "handler": "work", **fields})


async def ids(store: SqliteStore) -> list[str]:
    return [row.id for row in await store.find(ExecutionQuery())]


async def test_committed_with_the_callers_own_rows(path: Path) -> None:
    async with opened(path) as store:
        heard: list[Topic] = []
        stop = store.listen(heard.append)
        await until(lambda: heard)
        heard.clear()
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("INSERT INTO shifts VALUES (1)")
            [added] = store.add_in(connection, [execution(1)])
            assert added.outcome == "added"
            assert connection.in_transaction
            assert await ids(store) == []
            connection.commit()
        assert await ids(store) == [execution(1).id]
        await until(lambda: heard, "a commit of the caller wakes the workers")
        stop()


async def test_rolled_back_means_never_enqueued(path: Path) -> None:
    async with opened(path) as store:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("INSERT INTO shifts VALUES (1)")
            store.add_in(connection, [execution(1), execution(2, unique_key="k")])
            connection.rollback()
        await store.add([execution(3, unique_key="k")])
        [row] = await store.find(ExecutionQuery())
        assert (row.id, row.number) == (execution(3).id, 1)


async def test_the_first_statement_of_a_transaction_may_be_the_enqueue(path: Path) -> None:
    async with opened(path) as store:
        with closing(sqlite3.connect(path)) as connection:
            store.add_in(connection, iter([execution(1)]))
            assert connection.in_transaction
            connection.rollback()
            with connection:
                store.add_in(connection, [execution(2)])
        assert await ids(store) == [execution(2).id]


async def test_taken_keys_do_not_end_the_callers_transaction(path: Path) -> None:
    async with opened(path) as store:
        await store.add([execution(1, unique_key="u", overlap_key="o")])
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("INSERT INTO shifts VALUES (1)")
            batch = [execution(1), execution(2, unique_key="u"), execution(3, overlap_key="o"), execution(4)]
            added = store.add_in(connection, batch)
            assert [(one.outcome, one.holder) for one in added] == [
                ("duplicate", None),
                ("unique_taken", execution(1).id),
                ("skipped", execution(1).id),
                ("added", None),
            ]
            connection.execute("INSERT INTO shifts VALUES (2)")
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("SELECT count(*) FROM shifts").fetchone() == (2,)
        assert [row.state for row in await store.find(ExecutionQuery())] == [
            State.PENDING,
            State.SKIPPED,
            State.PENDING,
        ]
        assert (await store.stats())["job-1"].skipped == 1


async def test_what_fails_leaves_nothing_behind_and_the_transaction_usable(path: Path) -> None:
    async with opened(path) as store:
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("INSERT INTO shifts VALUES (1)")
            with pytest.raises(UnicodeEncodeError):
                store.add_in(connection, [execution(1, unique_key="k"), execution(2, params='"\ud800"')])
            store.add_in(connection, [execution(3, unique_key="k")])
        assert await ids(store) == [execution(3).id]


async def test_the_callers_way_of_reading_rows_does_not_matter(path: Path) -> None:
    async with opened(path) as store:
        await store.add([execution(1, unique_key="u")])
        with closing(sqlite3.connect(path)) as connection:
            connection.row_factory = sqlite3.Row
            connection.text_factory = bytes
            [taken] = store.add_in(connection, [execution(2, unique_key="u")])
            assert taken.holder == execution(1).id
            assert connection.text_factory is bytes
            connection.rollback()


async def test_explicit_transactions_are_the_callers_to_begin(path: Path) -> None:
    async with opened(path) as store:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            with pytest.raises(InvalidValue, match=r"open transaction.*BEGIN IMMEDIATE"):
                store.add_in(connection, [execution(1)])
            connection.execute("BEGIN IMMEDIATE")
            store.add_in(connection, [execution(1)])
            connection.execute("COMMIT")
        assert await ids(store) == [execution(1).id]


async def test_connections_to_anything_else_are_refused(path: Path, tmp_path: Path) -> None:
    async with opened(path) as store:
        for other in (tmp_path / "other.db", ":memory:"):
            with (
                closing(sqlite3.connect(other)) as connection,
                pytest.raises(InvalidValue, match=r"connection: .* is not valid; allowed: a connection to .*app\.db"),
            ):
                store.add_in(connection, [execution(1)])
        with pytest.raises(InvalidValue, match=r"sqlite3\.Connection"):
            store.add_in(object(), [execution(1)])


async def test_a_stale_snapshot_is_told_apart_from_a_bug(path: Path) -> None:
    """A transaction that began by reading cannot write once others have: the error says what to do."""
    async with opened(path) as store:
        with closing(sqlite3.connect(path, isolation_level=None, timeout=0.01)) as connection:
            connection.execute("BEGIN")
            connection.execute("SELECT count(*) FROM shifts").fetchone()
            await store.add([execution(1)])
            with pytest.raises(StoreError, match=r"app\.db: .*BEGIN IMMEDIATE"):
                store.add_in(connection, [execution(2)])
            connection.execute("ROLLBACK")
