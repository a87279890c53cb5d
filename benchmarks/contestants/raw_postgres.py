"""The least that PostgreSQL can be asked to do for the same promise, written against the bare drivers.

A table of jobs, claims with SKIP LOCKED, every claim and every ending committed, ended jobs moved to a history table.
No parameters, no leases, no retries, no keys: what a job system costs is the distance to this.
Variants of `work`: `move` commits the claim and the ending apart, `merged` ends one batch and claims the next in one
statement.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import asyncpg
import psycopg

from benchmarks.command import callers, main, ping
from benchmarks.tally import Tally

SCHEMA = """
    CREATE TABLE job (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, ready boolean NOT NULL DEFAULT true,
        body text NOT NULL);
    CREATE INDEX job_ready ON job (id) WHERE ready;
    CREATE TABLE history (id bigint PRIMARY KEY, finished timestamptz NOT NULL, body text NOT NULL);
"""
ADD = "INSERT INTO job (body) VALUES ('{}')"
CLAIM = """
    UPDATE job SET ready = false WHERE id = ANY(ARRAY(
        SELECT id FROM job WHERE ready ORDER BY id LIMIT 100 FOR UPDATE SKIP LOCKED)) RETURNING id, body
"""
FINISH = """
    WITH ended AS (DELETE FROM job WHERE id = ANY(%s) RETURNING id, body)
    INSERT INTO history (id, finished, body) SELECT id, now(), body FROM ended
"""
FINISH_AND_CLAIM = """
    WITH ended AS (DELETE FROM job WHERE id = ANY(%s) RETURNING id, body),
    kept AS (INSERT INTO history (id, finished, body) SELECT id, now(), body FROM ended)
    UPDATE job SET ready = false WHERE id = ANY(ARRAY(
        SELECT id FROM job WHERE ready ORDER BY id LIMIT 100 FOR UPDATE SKIP LOCKED)) RETURNING id, body
"""


def prepare(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(SCHEMA)


def fill(url: str, items: int) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("INSERT INTO job (body) SELECT '{}' FROM generate_series(1, %s)", [items])


def work(url: str, tally: Tally, variant: str) -> None:
    tally.ready_and_wait()
    with psycopg.connect(url, autocommit=True, prepare_threshold=1) as connection:
        if variant == "merged":
            ended: list[int] = []
            while claimed := connection.execute(FINISH_AND_CLAIM, [ended]).fetchall():
                ended = _run(claimed, tally)
            connection.execute(FINISH, [ended])
        else:
            while claimed := connection.execute(CLAIM).fetchall():
                connection.execute(FINISH, [_run(claimed, tally)])
    tally.linger()


def _run(claimed: list[Any], tally: Tally) -> list[int]:
    ended = []
    for key, _ in claimed:
        tally.hit()
        ended.append(key)
    return ended


def state(url: str) -> dict[str, int]:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT (SELECT count(*) FROM job), (SELECT count(*) FROM history)").fetchone()
    assert row is not None
    return {"left": row[0], "done": row[1]}


async def enqueue(url: str, items: int, way: str) -> dict[str, float]:
    """Bulk is one COPY by psycopg; one by one and twenty at once are by asyncpg, the faster driver for these."""
    if way == "bulk":
        return {"items": items, "seconds": _copied(url, items)}
    connections = [await asyncpg.connect(url) for _ in range(20 if way == "callers" else 1)]
    free: asyncio.LifoQueue[Any] = asyncio.LifoQueue()
    for connection in connections:
        statement = await connection.prepare(ADD)
        await statement.fetch()
        free.put_nowait(statement)

    async def add() -> None:
        statement = free.get_nowait()
        await statement.fetch()
        free.put_nowait(statement)

    seconds = await callers(add, items, len(connections))
    for connection in connections:
        await connection.close()
    return {"items": items, "seconds": seconds}


def _copied(url: str, items: int) -> float:
    with psycopg.connect(url, autocommit=True) as connection:
        began = time.perf_counter()
        with connection.cursor().copy("COPY job (body) FROM STDIN") as copy:
            for _ in range(items):
                copy.write_row(["{}"])
        return time.perf_counter() - began


async def ping_worker(url: str, tally: Tally, items: int) -> dict[str, Any]:
    connection = await asyncpg.connect(url)

    async def send() -> None:
        await connection.execute(ADD + "; NOTIFY added")

    answer = await ping(send, tally, items)
    await connection.close()
    return answer


def listen(url: str, tally: Tally) -> None:
    """The worker of the latency measure: a notification, then one committed claim."""
    tally.ready_and_wait()
    with (
        psycopg.connect(url, autocommit=True) as listening,
        psycopg.connect(url, autocommit=True, prepare_threshold=1) as connection,
    ):
        listening.execute("LISTEN added")
        for _ in listening.notifies():
            if claimed := connection.execute(CLAIM).fetchall():
                connection.execute(FINISH, [_run(claimed, tally)])


if __name__ == "__main__":
    main(prepare=prepare, fill=fill, work=work, state=state, enqueue=enqueue, ping=ping_worker, listen=listen)
