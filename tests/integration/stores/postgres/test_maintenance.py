"""What the store does to keep its tables small: indexes are rebuilt, and heartbeats write little."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from mainspring.model.store.messages import HeartbeatRequest, WorkerInfo
from mainspring.stores.postgres import PostgresStore, maintenance
from mainspring.stores.postgres.live_indexes import _LOCK_SPACE, REPLACEMENTS, replace_live_indexes
from tests.servers import postgres
from tests.support import until

BACKLOG = """
    INSERT INTO mainspring.live (id, created, due, job_key, priority, phase, lane, body)
    SELECT mainspring.new_id(n), n, 0, n, 0, 1, 'default/' || repeat('work', 20), '{}' FROM generate_series(1, 5000) n
"""
SIZES = """
    SELECT sum(pg_relation_size(indexrelid)), count(*) FILTER (WHERE NOT indisvalid), count(*)
    FROM pg_index WHERE indrelid = 'mainspring.live'::regclass
"""


@pytest.fixture
def connection() -> Iterator[Any]:
    with psycopg.connect(postgres().migrated_database(), autocommit=True) as connection:
        yield connection


@pytest.mark.req("NUM-1")
async def test_indexes_that_a_backlog_left_are_rebuilt_in_a_quiet_moment(
    connection: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "LARGE_INDEX", 100_000)
    monkeypatch.setattr(maintenance, "QUIET_FOR", 0.0)
    [(_, _, indexes)] = connection.execute(SIZES).fetchall()
    connection.execute(BACKLOG)
    with pytest.raises(
        psycopg.errors.UniqueViolation
    ):  # leaves an invalid index behind, as an interrupted rebuild does
        connection.execute("CREATE UNIQUE INDEX CONCURRENTLY live_left_ccnew ON mainspring.live (priority)")
    connection.execute("DELETE FROM mainspring.live")
    connection.execute("SELECT pg_stat_force_next_flush()")  # counted after the vacuum, the rows would pass for dead
    connection.execute("VACUUM mainspring.live")
    [(large, left_behind, _)] = connection.execute(SIZES).fetchall()
    assert left_behind == 1
    store = PostgresStore(_url(connection))
    await store.open()
    assert store._opened is not None
    keeper = store._opened.maintenance

    async def rebuilt() -> bool:
        await store.fold(1)
        keeper._indexes_due = float("-inf")
        return bool(connection.execute(SIZES).fetchall()[0][0] < large / 3)

    await until(rebuilt, "the indexes are small again")
    assert connection.execute(SIZES).fetchall()[0][1:] == (0, indexes)
    other = maintenance.Maintenance(store.database)
    await other._look_at_indexes()
    assert other._written is None  # it is not its turn
    await store.close()


@pytest.mark.req("NUM-1")
async def test_indexes_of_a_backlog_that_is_still_there_are_left_alone(connection: Any) -> None:
    connection.execute(BACKLOG)
    connection.execute("VACUUM mainspring.live")
    connection.execute("SELECT pg_stat_reset_single_table_counters('mainspring.live'::regclass)")  # as a crash does
    store = PostgresStore(_url(connection))
    await store.open()
    assert await store.database.rows("empty_indexes", 100_000, 500) == []
    await store.close()


@pytest.mark.req("UPG-1")
async def test_indexes_of_an_older_database_are_replaced_by_one_process(connection: Any) -> None:
    names = "SELECT indexrelid::regclass::text FROM pg_index WHERE indrelid = 'mainspring.live'::regclass ORDER BY 1"
    wanted = connection.execute(names).fetchall()
    for index in REPLACEMENTS:
        connection.execute(f"DROP INDEX mainspring.{index.new}".encode())
        connection.execute(f"CREATE INDEX {index.old} ON mainspring.live (due)".encode())
    older = connection.execute(names).fetchall()
    store, other = PostgresStore(_url(connection)), PostgresStore(_url(connection))
    await store.open()
    await other.open()
    with psycopg.connect(_url(connection)) as busy:  # another process is at it
        busy.execute("SELECT pg_advisory_xact_lock(%s, %s)", (_LOCK_SPACE, zlib.crc32(b"mainspring") & 0x7FFFFFFF))
        await replace_live_indexes(store.database)
        assert connection.execute(names).fetchall() == older
    await asyncio.gather(*(replace_live_indexes(each.database) for each in (store, other)))
    connection.execute(f"DROP INDEX mainspring.{REPLACEMENTS[0].new}".encode())
    await maintenance.Maintenance(store.database)._look_at_indexes()
    assert connection.execute(names).fetchall() == wanted
    await store.close()
    await other.close()


@pytest.mark.req("NUM-1")
async def test_a_heartbeat_does_not_write_what_has_not_changed(connection: Any) -> None:
    store = PostgresStore(_url(connection))
    await store.open()
    declares = tuple(f"job-{n:05}-{hash(n * 7919)}" for n in range(5_000))

    def beat(running: int, release: str = "1") -> int:
        """How many bytes it adds to the log."""
        [before] = connection.execute("SELECT pg_current_wal_insert_lsn()").fetchone()
        worker = WorkerInfo(id="w1", host="h", pid=1, version="", declares=declares, running=running, release=release)
        store.heartbeat(HeartbeatRequest(worker=worker, leases=(), lease=30.0))
        [written] = connection.execute("SELECT pg_current_wal_insert_lsn() - %s::pg_lsn", (before,)).fetchone()
        return int(written)

    assert beat(0) > 10_000
    await until(lambda: beat(1) < 10_000, "nothing else is written")  # a checkpoint may come in between
    [worker] = await store.workers()
    assert (worker.running, worker.release, worker.declares) == (1, "1", declares)
    beat(2, release="2")
    assert [(one.running, one.release) for one in await store.workers()] == [(2, "2")]
    connection.execute("DELETE FROM mainspring.worker")
    beat(3, release="2")
    assert [(one.running, len(one.declares)) for one in await store.workers()] == [(3, 5_000)]
    await store.close()


def _url(connection: Any) -> str:
    info = connection.info
    return f"postgresql://{info.user}@{info.host}:{info.port}/{info.dbname}"
