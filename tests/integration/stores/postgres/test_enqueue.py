"""Enqueue inside the caller's own transaction on PostgreSQL, with every driver, and from plain SQL."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import django
import django.conf
import psycopg
import pytest
import sqlalchemy
from django.db.utils import ConnectionHandler
from msgspec.structs import replace
from psycopg.rows import dict_row
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from mainspring import InvalidValue, JobContext, Mainspring, Unique
from mainspring.core.rules import new_execution
from mainspring.core.views.execution import row_of
from mainspring.model.execution import ExecutionRow
from mainspring.model.job import Job, JobSpec, encode_spec
from mainspring.model.store.messages import JobWrite
from mainspring.stores.postgres import PostgresStore
from tests.servers import postgres
from tests.support import NEVER, ended

REMINDERS = "send-reminder"


@pytest.fixture
def url() -> str:
    return postgres().migrated_database()


def reminders(url: str, **options: Any) -> Mainspring:
    app = Mainspring(url, poll_interval=NEVER, **options)

    @app.job(REMINDERS, queue="notifications", params={"kind": "mail"}, priority=3)
    async def send(ctx: JobContext, shift_id: str, kind: str) -> str:
        return f"{kind} {shift_id}"

    return app


# --- drivers that must be awaited -----------------------------------------------------------------------------------


@asynccontextmanager
async def psycopg_async(url: str) -> AsyncIterator[tuple[Any, Any]]:
    async with await psycopg.AsyncConnection.connect(url, row_factory=dict_row) as connection:
        yield connection, connection


@asynccontextmanager
async def asyncpg_connection(url: str) -> AsyncIterator[tuple[Any, Any]]:
    connection = await asyncpg.connect(url)
    transaction = connection.transaction()
    await transaction.start()
    try:
        yield connection, transaction
    finally:
        await connection.close()


@asynccontextmanager
async def asyncpg_pooled(url: str) -> AsyncIterator[tuple[Any, Any]]:
    async with asyncpg.create_pool(url, min_size=1, max_size=1) as pool, pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        yield connection, transaction


@asynccontextmanager
async def alchemy_async(url: str, driver: str, session: bool) -> AsyncIterator[tuple[Any, Any]]:
    engine = create_async_engine(url.replace("postgresql://", f"postgresql+{driver}://"))
    try:
        async with AsyncSession(engine) if session else engine.connect() as connection:
            yield connection, connection
    finally:
        await engine.dispose()


AWAITED: dict[str, Callable[[str], AbstractAsyncContextManager[tuple[Any, Any]]]] = {
    "psycopg": psycopg_async,
    "asyncpg": asyncpg_connection,
    "asyncpg pool": asyncpg_pooled,
    "sqlalchemy connection on psycopg": lambda url: alchemy_async(url, "psycopg", session=False),
    "sqlalchemy session on psycopg": lambda url: alchemy_async(url, "psycopg", session=True),
    "sqlalchemy connection on asyncpg": lambda url: alchemy_async(url, "asyncpg", session=False),
    "sqlalchemy session on asyncpg": lambda url: alchemy_async(url, "asyncpg", session=True),
}


@pytest.mark.req("ENQ-2")
@pytest.mark.parametrize("driver", AWAITED)
async def test_awaited_connections_commit_roll_back_and_go_on_after_a_taken_key(url: str, driver: str) -> None:
    app = reminders(url)
    await app.open()
    async with AWAITED[driver](url) as (connection, transaction):
        gone = await app.enqueue(REMINDERS, {"shift_id": "1"}, unique="one", connection=connection)
        await transaction.rollback()
    async with AWAITED[driver](url) as (connection, transaction):
        kept = await app.enqueue(REMINDERS, {"shift_id": "2"}, unique="one", connection=connection)
        assert await app.enqueue(REMINDERS, {"shift_id": "3"}, unique="one", connection=connection) is None
        last = await app.enqueue(REMINDERS, {"shift_id": "4"}, connection=connection)
        assert await app.executions() == []
        await transaction.commit()
    assert gone is not None
    assert kept is not None
    assert last is not None
    assert {row.id for row in await app.executions()} == {kept.id, last.id}
    assert replace(row_of(await app.get(kept.id)), number=None) == row_of(kept)
    await app.close()


# --- blocking drivers -----------------------------------------------------------------------------------------------


@contextmanager
def psycopg_blocking(url: str) -> Iterator[tuple[Any, Any]]:
    with psycopg.connect(url, cursor_factory=psycopg.ClientCursor) as connection:
        yield connection, connection


@contextmanager
def alchemy_blocking(url: str, session: bool) -> Iterator[tuple[Any, Any]]:
    engine = sqlalchemy.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    try:
        with Session(engine) if session else engine.connect() as connection:
            yield connection, connection
    finally:
        engine.dispose()


@contextmanager
def django_connection(url: str) -> Iterator[tuple[Any, Any]]:
    if not django.conf.settings.configured:
        django.conf.settings.configure(USE_TZ=True)
        django.setup()
    parts = urlsplit(url)
    place = {"NAME": parts.path[1:], "USER": parts.username, "HOST": parts.hostname, "PORT": parts.port}
    handler = ConnectionHandler({"default": {"ENGINE": "django.db.backends.postgresql", **place}})
    connection = handler["default"]
    connection.set_autocommit(False)
    try:
        yield connection, connection
    finally:
        connection.close()


BLOCKING: dict[str, Callable[[str], AbstractContextManager[tuple[Any, Any]]]] = {
    "psycopg": psycopg_blocking,
    "sqlalchemy connection": lambda url: alchemy_blocking(url, session=False),
    "sqlalchemy session": lambda url: alchemy_blocking(url, session=True),
    "django": django_connection,
}


@pytest.mark.req("ENQ-2")
@pytest.mark.parametrize("driver", BLOCKING)
def test_blocking_connections_commit_roll_back_and_go_on_after_a_taken_key(url: str, driver: str) -> None:
    app = reminders(url)
    with BLOCKING[driver](url) as (connection, transaction):
        gone = app.sync.enqueue(REMINDERS, {"shift_id": "1"}, unique="one", connection=connection)
        transaction.rollback()
        kept = app.sync.enqueue(REMINDERS, {"shift_id": "2"}, unique="one", connection=connection)
        assert app.sync.enqueue(REMINDERS, {"shift_id": "3"}, unique="one", connection=connection) is None
        items = [(REMINDERS, {"shift_id": str(n)}) for n in range(3)]
        many = app.sync.enqueue_many(items, connection=connection)
        assert app.sync.executions() == []
        transaction.commit()
    assert gone is not None
    assert kept is not None
    assert {row.id for row in app.sync.executions()} == {kept.id, *(row.id for row in many if row)}
    app.sync.close()


@pytest.mark.req("ENQ-2")
async def test_a_connection_that_must_be_awaited_is_refused_where_nobody_awaits(url: str) -> None:
    app = reminders(url)
    await app.open()
    async with await psycopg.AsyncConnection.connect(url) as connection:
        with pytest.raises(InvalidValue, match="a blocking connection"):
            await asyncio.to_thread(app.sync.enqueue, REMINDERS, {"shift_id": "1"}, connection=connection)
    with pytest.raises(InvalidValue, match="a connection of psycopg"):
        await app.enqueue(REMINDERS, {"shift_id": "1"}, connection=object())
    await asyncio.to_thread(app.sync.close)
    await app.close()


@pytest.mark.req("ENQ-2")
async def test_a_connection_to_another_database_is_refused(url: str) -> None:
    app = reminders(url)
    await app.open()
    async with await psycopg.AsyncConnection.connect(postgres().new_database()) as connection:
        with pytest.raises(InvalidValue, match="without our tables"):
            await app.enqueue(REMINDERS, {"shift_id": "1"}, connection=connection)
    await app.close()


@pytest.mark.req("ENQ-2", "WRK-2")
async def test_committed_means_started_at_once_elsewhere(url: str) -> None:
    """Polling takes a minute: only the notification inside the transaction can have woken the worker."""
    worker, client = reminders(url), Mainspring(url, poll_interval=NEVER)
    async with worker, await psycopg.AsyncConnection.connect(url) as connection:
        execution = await client.enqueue(REMINDERS, {"shift_id": "7"}, connection=connection)
        await connection.commit()
        done = await ended(worker, execution)
        assert (done.state, done.result) == ("completed", "mail 7")
    await client.close()


# --- plain SQL ------------------------------------------------------------------------------------------------------


async def by_sql(url: str, request: Any) -> Any:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        cursor = await connection.execute("SELECT mainspring.enqueue(%s::json)", (json.dumps(request),))
        row = await cursor.fetchone()
        return None if row is None else row[0]


@pytest.mark.req("ENQ-2")
async def test_plain_sql_enqueues_and_the_worker_starts_at_once(url: str) -> None:
    async with reminders(url) as app:
        answer = await by_sql(url, {"job": REMINDERS, "params": {"shift_id": "42"}, "unique": "reminder-42"})
        assert answer["outcome"] == "added"
        done = await app.wait(answer["id"], timeout=60)
        assert (done.state, done.result, done.triggered_by) == ("completed", "mail 42", "sql")


@pytest.mark.req("ENQ-2", "ENQ-3")
async def test_many_at_once_and_a_key_that_is_taken(url: str) -> None:
    app = reminders(url)
    await app.open()
    requests = [{"job": REMINDERS, "params": {"shift_id": str(n)}, "unique": f"k{n % 2}"} for n in range(3)]
    first, second, third = await by_sql(url, requests)
    assert [first["outcome"], second["outcome"], third["outcome"]] == ["added", "added", "unique_taken"]
    assert third["holder"] == first["id"]
    await app.close()


@pytest.mark.req("ENQ-2")
async def test_every_field_of_a_request(url: str) -> None:
    app = reminders(url)
    await app.open()
    trace = "0af7651916cd43dd8448eb211c80319c"
    answer = await by_sql(
        url,
        {
            "job": REMINDERS,
            "params": {"shift_id": "ü\u2028", "n": 12345678901234567890},
            "unique": {"enqueued": "a", "running": "b"},
            "start_at": "2030-01-01T00:00:00+02:00",
            "priority": -7,
            "queue": "slow",
            "tenant": "t1",
            "by": "ann",
            "metadata": {"ticket": 1},
            "traceparent": f"00-{trace}-b7ad6b7169203331-01",
        },
    )
    row = await app.get(answer["id"])
    assert row.params == {"kind": "mail", "shift_id": "ü\u2028", "n": 12345678901234567890}
    assert (row_of(row).unique_key, row_of(row).running_unique_key, row_of(row).staged) == ("a", "b", True)
    assert (row.start_at, row.priority, row.queue) == (datetime(2029, 12, 31, 22, tzinfo=UTC), -7, "slow")
    assert (row.tenant, row.triggered_by, row.metadata, row.trace_id) == ("t1", "ann", {"ticket": 1}, trace)
    assert [found.id for found in await app.executions(trace_id=trace)] == [row.id]
    await app.close()


@pytest.mark.req("ENQ-2")
@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"job": "nobody"}, "no job named 'nobody'"),
        ({"params": {}}, "no job named null"),
        ({"job": REMINDERS, "parms": {}}, "parms: not a field"),
        ({"job": REMINDERS, "params": [1]}, "params: a JSON object is needed, not array"),
        ({"job": REMINDERS, "queue": "a/b"}, "queue: 'a/b' is not a name"),
        ({"job": REMINDERS, "params": {"x": "y" * 300_000}}, "more than the 262144 allowed"),
        ({"job": REMINDERS, "start_at": "2030-01-01T00:00:00"}, "start_at: '2030-01-01T00:00:00' has no offset"),
        ({"job": REMINDERS, "start_at": "2030-01-01"}, "start_at: '2030-01-01' has no offset"),
        ({"job": REMINDERS, "start_at": "infinity"}, "start_at: 'infinity' has no offset"),
        ({"job": REMINDERS, "start_at": "0001-01-01T00:00:00Z"}, "from the year 1970 to the year 4999"),
        ({"job": REMINDERS, "start_at": "9999-12-31T23:59:59+02"}, "from the year 1970 to the year 4999"),
    ],
)
async def test_a_bad_request_is_an_error_in_words(url: str, request_: Any, words: str) -> None:
    app = reminders(url)
    await app.open()
    with pytest.raises(psycopg.errors.RaiseException, match=words):
        await by_sql(url, request_)
    await app.close()


@pytest.mark.req("ENQ-2")
@pytest.mark.parametrize("unique", [None, "key", Unique(enqueued="a", running="b"), Unique(running="b")])
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"overlap": "skip"},
        {"overlap": "queue"},
        {"overlap": "cancel_running", "params": {"a": 1}},
        {"overlap": "allow", "overlap_limit": 2, "max_attempts": 3, "timeout": 5.0, "queue": "q", "priority": 9},
    ],
)
async def test_sql_makes_the_row_that_the_client_makes(url: str, fields: dict[str, Any], unique: Any) -> None:
    """Every overlap policy with every kind of unique key; test_enqueue_templates.py tries the rest."""
    store = PostgresStore(url)
    await store.open()
    job = Job(name="twin", id="twin-1", declared=encode_spec(JobSpec(handler="work", **fields)))
    await store.write_jobs([JobWrite(job=job, seen_version=None)])
    wanted: Any = {"enqueued": unique.enqueued, "running": unique.running} if isinstance(unique, Unique) else unique
    answer = await by_sql(url, {"job": "twin", "by": "ann"} | ({} if unique is None else {"unique": wanted}))
    by_sql_row = await store.execution(answer["id"])
    assert by_sql_row is not None
    made = new_execution.new_execution(
        job, trigger="enqueue", now=by_sql_row.created, chance=random.Random(1), unique=unique, triggered_by="ann"
    )
    assert comparable(by_sql_row) == comparable(made)
    await store.close()


def comparable(row: ExecutionRow) -> ExecutionRow:
    """Without what is drawn anew for each execution, and with the slot a row got taken back."""
    slot = row.overlap_key.split("#")[0] if row.overlap_key else None
    running = row.running_overlap_key.split("#")[0] if row.running_overlap_key else None
    return replace(row, id="", trace_id="", overlap_key=slot, running_overlap_key=running)


@pytest.mark.req("WHK-1", "ENQ-2")
async def test_webhooks_hear_of_what_is_skipped_in_a_transaction(url: str) -> None:
    """Neither the SQL function nor the caller's transaction reads the endpoints: the follow-up of a skip does."""

    async def single(ctx: JobContext) -> None: ...

    app, other = Mainspring(url, poll_interval=NEVER), Mainspring(url, poll_interval=NEVER)
    for each in (app, other):
        each.job("single", overlap="skip")(single)
    await app.open()
    await other.open()
    held = await app.enqueue("single", start_at="1h")
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        statement = """SELECT mainspring.enqueue('{"job": "single"}')"""
        await connection.execute(statement)
        await app.webhooks.create("https://x.example/", events=["execution.skipped"])
        await connection.execute(statement)
        await other.enqueue("single", connection=connection)
    store = (await app._runtime.engine()).store
    skipped = [each.id for each in await app.executions("single", status="skipped")]
    assert sorted(skipped)[1:] == [row.id for row in await store.todo(10)], "not the one before the endpoint"
    assert held is not None
    await other.close()
    await app.close()
