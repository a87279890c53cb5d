"""The PostgreSQL store beyond the port: migrations, schemas, pools handed in, poolers, deadlocks, open transactions."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from typing import Any, cast

import asyncpg
import psycopg
import psycopg_pool
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import create_async_engine

from mainspring import InvalidValue, StoreError
from mainspring.core.ports import Topic
from mainspring.model.execution import ExecutionRow, State
from mainspring.model.job import Job, JobSpec, encode_spec
from mainspring.model.store.messages import (
    Change,
    ClaimRequest,
    ExecutionQuery,
    HeartbeatRequest,
    JobWrite,
    ProgressReport,
    WorkerInfo,
)
from mainspring.model.values.ids import random_id
from mainspring.stores.postgres import PostgresStore, database
from mainspring.stores.postgres.connection.pool import Startup
from mainspring.stores.postgres.wakeups import NotificationListener
from tests.servers import postgres
from tests.support import until

OWNER = "w1"


@pytest.fixture
def url() -> str:
    return postgres().new_database()


@asynccontextmanager
async def opened(database: Any, **options: Any) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(database, **options)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def execution(**fields: Any) -> ExecutionRow:
    now = time.time_ns() // 1000
    plain = {"id": random_id(now, random.Random()), "job": "job", "job_id": "job-1", "handler": "work"}
    return ExecutionRow(**{**plain, "created": now, "due": now, **fields})


def request(**fields: Any) -> ClaimRequest:
    plain = {"owner": OWNER, "handlers": frozenset({"work"}), "queues": None, "limit": 10, "lease": 30.0}
    return ClaimRequest(**{**plain, **fields})


def ending(row: ExecutionRow, to: State = State.COMPLETED) -> Change:
    seen = {"id": row.id, "expect": row.state, "token": row.token, "owner": row.owner}
    return Change(**seen, to=to, at=row.created, failures=0, crashes=0)


async def life(store: PostgresStore) -> None:
    """One execution from its job to its ending, through every kind of statement."""
    job = Job(name="job", id="job-1", declared=encode_spec(JobSpec(handler="work")))
    assert (await store.write_jobs([JobWrite(job=job, seen_version=None)]))[0].won
    first, second = execution(), execution(unique_key="u")
    assert [added.outcome for added in await store.add([first, second])] == ["added", "added"]
    rows = (await store.exchange([], request())).claimed
    assert {row.id for row in rows} == {first.id, second.id}
    worker = WorkerInfo(id=OWNER, host="h", pid=1, version="v")
    beat = HeartbeatRequest(worker=worker, leases=tuple((row.id, row.token) for row in rows), lease=30.0)
    assert (await asyncio.to_thread(store.heartbeat, beat)).lost == frozenset()
    report = ProgressReport(id=rows[0].id, token=rows[0].token, owner=OWNER, progress_json="{}")
    assert await store.report([report]) == [True]
    assert (await store.exchange([ending(row) for row in rows], None)).applied == (True, True)
    await store.fold(100)
    assert (await store.stats())["job-1"].completed == 2
    assert len(await store.find(ExecutionQuery(job="job"))) == 2
    lock = await store.lock_take("l", OWNER, 5)
    assert lock is not None
    assert await store.lock_release("l", lock.token)


# --- schema ---------------------------------------------------------------------------------------------------------


@pytest.mark.req("OPS-5")
async def test_two_schemas_in_one_database_are_apart(url: str) -> None:
    async with opened(f"{url}?schema=jobs") as one, opened(url, schema="others") as other:
        await life(one)
        assert await other.find(ExecutionQuery()) == []
        await life(other)
        heard: list[Topic] = []
        other.listen(heard.append)
        await until(lambda: Topic.ANY in heard, "listening")
        heard.clear()
        await one.add([execution()])
        await other.add([execution()])
        await until(lambda: heard, "its own news")
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT count(*) FROM pg_namespace WHERE nspname = 'mainspring'").fetchone()
        assert found == (0,)


@pytest.mark.parametrize("name", ["", "Jobs", "a-b", "a b", "pg_jobs", "x" * 49, 'a"b'])
def test_schema_names_that_would_need_quotes_are_refused(name: str) -> None:
    with pytest.raises(InvalidValue, match="schema"):
        PostgresStore("postgresql://localhost/x", schema=name or " ")


@pytest.mark.parametrize(
    ("query", "words"),
    [("pool_size=0", "pool_size"), ("pool_size=many", "pool_size"), ("statement_timeout=soon", "statement_timeout")],
)
def test_options_of_the_address_are_checked(query: str, words: str) -> None:
    with pytest.raises(InvalidValue, match=words):
        PostgresStore(f"postgresql://localhost/x?{query}")


@pytest.mark.req("OPS-5")
async def test_no_right_to_migrate_is_said_with_the_remedy(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS plain")
        connection.execute("CREATE ROLE plain LOGIN")
    with pytest.raises(StoreError, match="mainspring db sql"):
        await PostgresStore(url.replace("postgres@", "plain@")).open()


async def test_a_server_that_is_not_there(url: str) -> None:
    with pytest.raises(StoreError, match="cannot be reached"):
        await PostgresStore("postgresql://localhost:1/x").open()
    with pytest.raises(StoreError, match="not open"):
        await PostgresStore(url).now()


# --- what the application owns --------------------------------------------------------------------------------------


@asynccontextmanager
async def psycopg_pools(url: str) -> AsyncIterator[Any]:
    async with psycopg_pool.AsyncConnectionPool(url, min_size=1, max_size=3, open=False) as pool:
        yield pool
        async with pool.connection() as connection:
            await connection.execute("SELECT 1")


@asynccontextmanager
async def blocking_psycopg_pools(url: str) -> AsyncIterator[Any]:
    with psycopg_pool.ConnectionPool(url, min_size=1, max_size=3, open=True) as pool:
        yield pool
        with pool.connection() as connection:
            connection.execute("SELECT 1")


@asynccontextmanager
async def asyncpg_pools(url: str) -> AsyncIterator[Any]:
    async with asyncpg.create_pool(url, min_size=1, max_size=3) as pool:
        yield pool
        assert await pool.fetchval("SELECT 1") == 1


@asynccontextmanager
async def async_engines(url: str, driver: str) -> AsyncIterator[Any]:
    engine = create_async_engine(url.replace("postgresql://", f"postgresql+{driver}://"))
    yield engine
    async with engine.connect() as connection:
        assert (await connection.execute(sqlalchemy.text("SELECT 1"))).scalar_one() == 1
    await engine.dispose()


@asynccontextmanager
async def engines(url: str) -> AsyncIterator[Any]:
    engine = sqlalchemy.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    yield engine
    with engine.connect() as connection:
        assert connection.execute(sqlalchemy.text("SELECT 1")).scalar_one() == 1
    engine.dispose()


@asynccontextmanager
async def factories(url: str) -> AsyncIterator[Any]:
    yield lambda: psycopg.AsyncConnection.connect(url)


OWNED: dict[str, Callable[[str], AbstractAsyncContextManager[Any]]] = {
    "psycopg pool": psycopg_pools,
    "blocking psycopg pool": blocking_psycopg_pools,
    "asyncpg pool": asyncpg_pools,
    "sqlalchemy engine on psycopg": lambda url: async_engines(url, "psycopg"),
    "sqlalchemy engine on asyncpg": lambda url: async_engines(url, "asyncpg"),
    "blocking sqlalchemy engine": engines,
    "factory": factories,
}


@pytest.mark.req("OPS-7")
@pytest.mark.parametrize("kind", OWNED)
async def test_a_pool_or_engine_is_used_and_left_open(url: str, kind: str) -> None:
    """Each of them is used once more after the store has closed."""
    async with OWNED[kind](url) as owned, opened(owned) as store:
        await life(store)


@pytest.mark.req("OPS-7")
async def test_a_pool_that_does_not_say_where_it_leads_takes_a_direct_address_for_listening(url: str) -> None:
    async with asyncpg_pools(url) as pool, opened(pool, listen_url=url) as store, opened(url) as other:
        heard: list[Topic] = []
        store.listen(heard.append)
        await until(lambda: Topic.ANY in heard, "listening")
        await other.add([execution()])
        await until(lambda: Topic.WORK in heard, "news of another process")


@pytest.mark.req("OPS-7")
async def test_what_is_no_pool_is_refused() -> None:
    with pytest.raises(InvalidValue, match="a pool of psycopg or asyncpg"):
        PostgresStore(object())


# --- poolers --------------------------------------------------------------------------------------------------------


@pytest.mark.req("OPS-5")
async def test_nothing_is_expected_of_a_session(url: str) -> None:
    """Every statement runs in a session of its own, which is checked for leftovers when it ends."""
    left: list[Any] = []

    async def fresh() -> psycopg.AsyncConnection[Any]:
        return await _Wiped.connect(url, autocommit=True)

    class _Wiped(psycopg.AsyncConnection[Any]):
        async def close(self) -> None:
            if not self.closed:
                async with self.cursor() as cursor:
                    await cursor.execute(
                        "SELECT (SELECT count(*) FROM pg_prepared_statements), (SELECT count(*) FROM pg_locks"
                        " WHERE pid = pg_backend_pid() AND locktype = 'advisory'),"
                        " (SELECT count(*) FROM pg_listening_channels())"
                    )
                    left.append(await cursor.fetchone())
            await super().close()

    async with opened(fresh) as store:
        await life(store)
    assert left
    assert set(left) == {(0, 0, 0)}


def test_a_pooler_that_refuses_settings_at_start_up_is_gone_along_with() -> None:
    startup = Startup({"host": "pooler"}, 60.0)
    assert startup.options()["options"] == "-c statement_timeout=60000"
    refused = psycopg.OperationalError("FATAL: unsupported startup parameter: options")
    assert startup.gives_way(refused)
    assert startup.options() == {"host": "pooler"}
    assert not startup.gives_way(refused)


# --- others ---------------------------------------------------------------------------------------------------------


@pytest.mark.req("REL-1")
async def test_a_deadlock_is_tried_again(url: str) -> None:
    """Somebody locks two rows in the wrong order. The store is the one that closes the circle, and begins anew."""
    impatient = f"{url}?options=-c%20deadlock_timeout%3D10ms"
    connect = psycopg.AsyncConnection.connect
    async with opened(impatient) as store, await connect(url) as gate, await connect(url) as other:
        await other.execute("SET deadlock_timeout = '60s'")
        await store.add([execution(), execution()])
        rows = sorted((await store.exchange([], request())).claimed, key=lambda row: row.id)
        lock = "SELECT 1 FROM mainspring.live WHERE id = %s FOR UPDATE"
        await gate.execute(lock, (rows[0].id,))
        await other.execute(lock, (rows[1].id,))
        settling = asyncio.create_task(store.exchange([ending(row) for row in rows], None))
        await until(lambda: waiting(url, 1), "the store waits for the first row")
        crossing = asyncio.create_task(other.execute(lock, (rows[0].id,)))
        await until(lambda: waiting(url, 2), "the other waits for it too")
        await gate.commit()
        await crossing
        await other.commit()
        assert (await settling).applied == (True, True)

        async def counted() -> bool:
            """A connection reports what it counted after its next transaction; without one, 10 s later."""
            await asyncio.gather(*(store.now() for _ in range(10)))
            return bool(await first_column(url, deadlocks))

        deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        await until(counted, "the server has counted it")


@pytest.mark.req("REL-1")
async def test_many_deadlocks_in_a_row_are_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody who walks over all rows in the wrong order can be in the way of each of a batch."""
    monkeypatch.setattr(database, "_LONGEST_PAUSE", 0.001)
    left = 30

    class Source:
        async def fetch(self, text: str, values: Sequence[Any]) -> list[Any]:
            nonlocal left
            left -= 1
            if left:
                raise psycopg.errors.DeadlockDetected("deadlock detected")
            return [("done",)]

    assert await database.Database(cast(Any, Source()), "mainspring").query("SELECT 1", ()) == [("done",)]
    monkeypatch.setattr(database, "_ROLLED_BACK_PATIENCE", 0.0)
    left = 2
    with pytest.raises(StoreError, match="deadlock detected"):
        await database.Database(cast(Any, Source()), "mainspring").query("SELECT 1", ())


async def waiting(url: str, count: int) -> bool:
    text = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    return await first_column(url, text) == count


async def first_column(url: str, text: str) -> Any:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        row = await (await connection.execute(text)).fetchone()
        return None if row is None else row[0]


@pytest.mark.req("ENQ-3", "ENQ-4")
async def test_an_open_transaction_that_holds_a_key_delays_nobody_else(url: str) -> None:
    async with opened(url) as store, await psycopg.AsyncConnection.connect(url) as theirs:
        await store.add([execution()])  # its job is known from here on
        held = execution(unique_key="held")
        added: Any = store.add_in(theirs, [held])
        assert [one.outcome for one in await added] == ["added"]
        async with asyncio.timeout(60):
            same_key = asyncio.create_task(store.add([execution(unique_key="held")]))
            assert [one.outcome for one in await store.add([execution()])] == ["added"]
            assert [one.outcome for one in await store.add([execution(unique_key="free")])] == ["added"]
            await store.add([execution(running_unique_key="held", staged=True)])
            answer = await store.exchange([], request())
        assert (len(answer.claimed), [blocked.holder for blocked in answer.blocked]) == (3, [None])
        assert not same_key.done()
        await theirs.commit()
        assert [(one.outcome, one.holder) for one in await same_key] == [("unique_taken", held.id)]


@pytest.mark.req("ENQ-1")
async def test_concurrent_enqueues_go_out_together_and_each_hears_its_own(url: str) -> None:
    async with opened(url) as store:
        good = [[execution(), execution()] for _ in range(30)]
        bad = [execution(params="{}", tenant=None, job_id="job-1", queue="a\x00b")]
        tries = [store.add(rows) for rows in good[:15]] + [store.add(bad)] + [store.add(rows) for rows in good[15:]]
        answers = await asyncio.gather(*tries, return_exceptions=True)
        assert isinstance(answers.pop(15), Exception)
        assert [[one.id for one in answer] for answer in answers if isinstance(answer, list)] == [
            [row.id for row in rows] for rows in good
        ]
        assert await store.count(ExecutionQuery(), 100) == 60


@pytest.mark.req("WRK-2")
@pytest.mark.parametrize(
    ("payload", "heard"),
    [
        ("them work,ended", [Topic.WORK, Topic.ENDED]),
        ("work", [Topic.WORK]),
        ("them something-newer", [Topic.ANY]),
        ("us work", []),
        ("us ping 1234", []),
        ("them ping 1234", []),
    ],
)
def test_what_a_notification_means(payload: str, heard: list[Topic]) -> None:
    told: list[Topic] = []
    NotificationListener(None, "mainspring", "us", told.extend)._notified(payload)
    assert told == heard


@pytest.mark.req("WRK-2")
async def test_a_listener_that_was_cut_off_listens_again_and_says_so(url: str) -> None:
    async with opened(url) as store, opened(url) as other:
        heard: list[Topic] = []
        store.listen(heard.append)
        await until(lambda: Topic.ANY in heard, "listening")
        heard.clear()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'")
        await until(lambda: Topic.ANY in heard, "listening again")
        heard.clear()
        await other.request_cancel([])
        await until(lambda: Topic.CANCEL in heard, "news of another process")


async def test_months_are_made_ahead_filled_from_the_default_and_dropped_when_empty(url: str) -> None:
    async with opened(url) as store, await psycopg.AsyncConnection.connect(url, autocommit=True) as admin:
        old = random_month_id(2020, 5)
        months = "SELECT inhrelid FROM pg_inherits WHERE inhparent = 'mainspring.history'::regclass"
        await store.add([execution(id=old, state=State.COMPLETED, finished=1)])

        async def one(statement: str) -> Any:
            row = await (await admin.execute(statement)).fetchone()
            return None if row is None else row[0]

        assert await one(f"SELECT tableoid::regclass::text FROM mainspring.history WHERE id = '{old}'") == (
            "mainspring.history_default"
        )
        assert await one("SELECT mainspring.make_partition('2020-05-01')")
        assert not await one("SELECT mainspring.make_partition('2020-05-01')")
        assert await one(f"SELECT tableoid::regclass::text FROM mainspring.history WHERE id = '{old}'") == (
            "mainspring.history_2020_05"
        )
        assert await one(f"SELECT count(*) FROM pg_constraint WHERE contype = 'c' AND conrelid IN ({months})") == 0
        assert await one("SELECT mainspring.drop_empty_partitions('2020-06-01')") == 0
        assert [row.id for row in await store.find(ExecutionQuery())] == [old]
        await admin.execute("DELETE FROM mainspring.history")
        assert await one("SELECT mainspring.drop_empty_partitions('2020-06-01')") == 1
        assert await one("SELECT to_regclass('mainspring.history_2020_05')") is None
        assert await one(f"SELECT count(*) FROM ({months}) m") == 4


def random_month_id(year: int, month: int) -> str:
    at = datetime(year, month, 15, tzinfo=UTC)
    return random_id(round(at.timestamp() * 1_000_000), random.Random())
