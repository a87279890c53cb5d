"""Enqueue inside the caller's own transaction on MongoDB: a session of PyMongo, blocking or async."""

from __future__ import annotations

import asyncio
from typing import Any

import pymongo
import pytest
from pymongo import AsyncMongoClient
from pymongo.errors import PyMongoError

from mainspring import InvalidValue, JobContext, Mainspring, StoreError, Unique
from mainspring.core.views.execution import row_of
from mainspring.model.execution import State
from mainspring.model.store.messages import ExecutionQuery
from mainspring.stores.mongo import MongoStore
from tests.integration.stores.mongo_support import execution, opened, request
from tests.mongo_server import mongo
from tests.support import NEVER, ended

REMINDERS = "send-reminder"

AsyncClient = AsyncMongoClient[dict[str, Any]]
Client = pymongo.MongoClient[dict[str, Any]]


@pytest.fixture
def url() -> str:
    return mongo("replica_set").migrated_database()


def reminders(url: str, **options: Any) -> Mainspring:
    app = Mainspring(url, poll_interval=NEVER, **options)

    @app.job(REMINDERS, queue="notifications", params={"kind": "mail"}, priority=3)
    async def send(ctx: JobContext, shift_id: str, kind: str) -> str:
        return f"{kind} {shift_id}"

    return app


@pytest.mark.req("ENQ-2")
async def test_an_async_session_commits_rolls_back_and_goes_on_after_a_taken_key(url: str) -> None:
    app = reminders(url)
    await app.open()
    client: AsyncClient
    async with AsyncMongoClient(url) as client, client.start_session() as session:
        shifts = client.get_default_database()["shifts"]
        await shifts.insert_one({"_id": 0})
        await session.start_transaction()
        await shifts.insert_one({"_id": 1}, session=session)
        gone = await app.enqueue(REMINDERS, {"shift_id": "1"}, unique="one", connection=session)
        assert gone is not None
        await session.abort_transaction()
        assert await app.executions() == []
        await session.start_transaction()
        first = await app.enqueue(REMINDERS, {"shift_id": "1"}, unique="one", connection=session)
        taken = await app.enqueue(REMINDERS, {"shift_id": "2"}, unique="one", connection=session)
        second = await app.enqueue(REMINDERS, {"shift_id": "2"}, unique="two", connection=session)
        assert first is not None
        assert second is not None
        assert taken is None
        await shifts.insert_one({"_id": 2}, session=session)
        assert await app.executions() == []
        await session.commit_transaction()
        assert {row.id for row in await app.executions()} == {first.id, second.id}
        assert await shifts.count_documents({"_id": 2}) == 1
    await app.close()


@pytest.mark.req("ENQ-2")
def test_a_blocking_session_commits_and_rolls_back(url: str) -> None:
    app = reminders(url)
    app.sync.open()
    client: Client
    with pymongo.MongoClient(url) as client, client.start_session() as session:
        session.start_transaction()
        app.sync.enqueue(REMINDERS, {"shift_id": "1"}, unique="one", connection=session)
        session.abort_transaction()
        assert app.sync.executions() == []
        with session.start_transaction():
            first = app.sync.enqueue(REMINDERS, {"shift_id": "1"}, unique="one", connection=session)
            assert app.sync.enqueue(REMINDERS, {"shift_id": "2"}, unique="one", connection=session) is None
        assert first is not None
        assert [row.id for row in app.sync.executions()] == [first.id]
    app.sync.close()


@pytest.mark.req("ENQ-2")
async def test_committed_means_started_at_once_elsewhere(url: str) -> None:
    worker, web = reminders(url, stop_timeout=5), Mainspring(url, poll_interval=NEVER)
    await worker.start()
    client: AsyncClient
    async with AsyncMongoClient(url) as client, client.start_session() as session:
        async with await session.start_transaction():
            one = await web.enqueue(REMINDERS, {"shift_id": "7"}, connection=session)
        assert (await ended(web, one)).result == "mail 7"
    await worker.stop()
    await worker.close()
    await web.close()


@pytest.mark.req("ENQ-2", "ENQ-3")
async def test_what_becomes_of_each_is_what_add_says(url: str) -> None:
    """Keys held by rows committed before, by rows of the same transaction, and by rows committed since it began."""
    client: AsyncClient
    async with opened(url) as store, AsyncMongoClient(url) as client, client.start_session() as session:
        held = execution(unique_key="u", overlap_key="o")
        await store.add([held])
        await session.start_transaction()
        await client.get_default_database()["mainspring.executions"].find_one({}, session=session)
        since = execution(unique_key="since")
        await store.add([since])
        batch = [
            held,
            execution(unique_key="u"),
            execution(unique_key="since"),
            execution(overlap_key="o"),
            execution(unique_key="mine"),
            execution(unique_key="mine"),
            execution(overlap_key="slots", overlap_slots=2),
            execution(overlap_key="slots", overlap_slots=2),
            execution(overlap_key="slots", overlap_slots=2),
            execution(state=State.COMPLETED, finished=1, unique_key="u"),
        ]
        added = await _awaited(store, session, [*batch, batch[4]])
        outcomes = ["duplicate", "unique_taken", "unique_taken", "skipped", "added", "unique_taken"]
        assert [one.outcome for one in added] == [*outcomes, "added", "added", "skipped", "added", "duplicate"]
        assert [one.holder for one in added[1:4]] == [held.id, since.id, held.id]
        again = await _awaited(store, session, [batch[4], execution(unique_key="mine")])
        assert [one.outcome for one in again] == ["duplicate", "unique_taken"]
        await session.commit_transaction()
        assert await store.count(ExecutionQuery(), 100) == 2 + 6
        assert len((await store.exchange([], request())).claimed) == 5


async def _awaited(store: MongoStore, session: Any, executions: list[Any]) -> list[Any]:
    added: Any = store.add_in(session, executions)
    found: list[Any] = await added
    return found


@pytest.mark.req("ENQ-2", "ENQ-3")
async def test_of_two_transactions_at_the_very_same_time_one_is_run_again(url: str) -> None:
    client: AsyncClient
    async with opened(url) as store, AsyncMongoClient(url) as client:
        await store.add([execution()])
        async with client.start_session() as mine, client.start_session() as theirs:
            await mine.start_transaction()
            assert [one.outcome for one in await _awaited(store, mine, [execution(unique_key="k")])] == ["added"]
            await theirs.start_transaction()
            with pytest.raises(PyMongoError) as conflict:
                await _awaited(store, theirs, [execution(unique_key="k")])
            assert conflict.value.has_error_label("TransientTransactionError")
            await theirs.abort_transaction()
            await mine.commit_transaction()

            async def again(session: Any) -> list[str]:
                return [one.outcome for one in await _awaited(store, session, [execution(unique_key="k")])]

            assert await theirs.with_transaction(again) == ["unique_taken"]


@pytest.mark.req("ENQ-2")
async def test_a_server_that_stands_alone_says_that_it_has_no_transactions() -> None:
    app = reminders(mongo("standalone").migrated_database())
    await app.open()
    client: AsyncClient
    async with AsyncMongoClient(mongo("standalone").url()) as client, client.start_session() as session:
        await session.start_transaction()
        with pytest.raises(StoreError, match=r"stands alone and has no transactions; make it a replica set"):
            await app.enqueue(REMINDERS, {"shift_id": "1"}, connection=session)
    await app.close()


@pytest.mark.req("ENQ-2")
async def test_what_is_no_session_or_has_no_transaction_is_refused(url: str) -> None:
    app = reminders(url)
    await app.open()
    client: AsyncClient
    async with AsyncMongoClient(url) as client, client.start_session() as session:
        with pytest.raises(InvalidValue, match="a session without a transaction"):
            await app.enqueue(REMINDERS, {"shift_id": "1"}, connection=session)
        with pytest.raises(InvalidValue, match="ClientSession or AsyncClientSession"):
            await app.enqueue(REMINDERS, {"shift_id": "1"}, connection=client)
        await session.start_transaction()
        with pytest.raises(InvalidValue, match="a blocking connection"):
            await asyncio.to_thread(app.sync.enqueue, REMINDERS, {"shift_id": "1"}, connection=session)
    await app.close()


@pytest.mark.req("ENQ-2", "ENQ-4")
async def test_staged_keys_go_with_the_transaction(url: str) -> None:
    app = reminders(url)
    await app.open()
    client: AsyncClient
    async with AsyncMongoClient(url) as client, client.start_session() as session:
        async with await session.start_transaction():
            unique = Unique(enqueued="waits", running="runs")
            row = await app.enqueue(REMINDERS, {"shift_id": "1"}, unique=unique, connection=session)
        assert row is not None
        assert row_of(await app.get(row.id)).unique_key == "waits"
        assert await app.enqueue(REMINDERS, {"shift_id": "2"}, unique=unique) is None
    await app.close()
