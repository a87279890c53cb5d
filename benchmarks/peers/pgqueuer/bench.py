"""PgQueuer with asyncpg, uvloop, its durable tables and log; batches of 100, or of as many as the variant says."""

from __future__ import annotations

import asyncio
import signal
import time
from datetime import timedelta
from typing import Any

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from benchmarks.command import callers, main, ping
from benchmarks.tally import Tally

BATCH = 100
CHUNK = 10_000


async def connected(url: str) -> tuple[asyncpg.Connection, Queries]:
    connection = await asyncpg.connect(url)
    return connection, Queries.from_asyncpg_connection(connection)


async def prepare(url: str) -> None:
    connection, queries = await connected(url)
    await queries.install()
    await connection.close()


async def fill(url: str, items: int, variant: str) -> None:
    """The variant `due:T` is for jobs due at that instant of the clock of the machine."""
    connection, queries = await connected(url)
    kind, _, at = variant.partition(":")
    for first in range(0, items, CHUNK):
        count = min(CHUNK, items - first)
        entrypoint = "other" if kind == "ahead" else "noop"
        after = None
        if kind in {"due", "future"}:
            seconds = float(at) - time.time() if at else 1e9
            after = [timedelta(seconds=seconds)] * count
        await queries.enqueue([entrypoint] * count, [None] * count, [0] * count, execute_after=after)
    await connection.close()


def work(url: str, tally: Tally, variant: str) -> None:
    tally.ready_and_wait()
    uvloop.run(serve(url, tally, int(variant) if variant.isdigit() else BATCH))


async def serve(url: str, tally: Tally, batch: int) -> None:
    connection = await asyncpg.connect(url)
    application = PgQueuer(AsyncpgDriver(connection))

    @application.entrypoint("noop")
    async def noop(job: Job) -> None:
        tally.hit()

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, application.shutdown.set)
    await application.run(dequeue_timeout=timedelta(seconds=10), batch_size=batch)


async def state(url: str) -> dict[str, int]:
    connection = await asyncpg.connect(url)
    left = await connection.fetchval("SELECT count(*) FROM pgqueuer WHERE entrypoint = 'noop'")
    done = await connection.fetchval("SELECT count(*) FROM pgqueuer_log WHERE status = 'successful'")
    folded = await connection.fetchval(
        "SELECT coalesce(sum(count), 0) FROM pgqueuer_statistics WHERE status = 'successful'"
    )
    await connection.close()
    return {"left": left, "done": max(done, int(folded))}


async def enqueue(url: str, items: int, way: str) -> dict[str, float]:
    connection, queries = await connected(url)
    await queries.enqueue("noop", None)
    if way == "callers":
        seconds = await over_pool(url, items)
    else:
        size = 1 if way == "one" else CHUNK
        began = time.perf_counter()
        for first in range(0, items, size):
            count = min(size, items - first)
            await queries.enqueue(["noop"] * count, [None] * count, [0] * count)
        seconds = time.perf_counter() - began
    await connection.close()
    return {"items": items, "seconds": seconds}


async def over_pool(url: str, items: int) -> float:
    async with asyncpg.create_pool(url, min_size=20, max_size=20) as pool:
        queries = Queries.from_asyncpg_pool(pool)
        await callers(lambda: queries.enqueue("noop", None), 100)
        return await callers(lambda: queries.enqueue("noop", None), items)


async def ping_worker(url: str, tally: Tally, items: int) -> dict[str, Any]:
    connection, queries = await connected(url)
    answer = await ping(lambda: queries.enqueue("noop", None), tally, items)
    await connection.close()
    return answer


if __name__ == "__main__":
    main(prepare=prepare, fill=fill, work=work, state=state, enqueue=enqueue, ping=ping_worker)
