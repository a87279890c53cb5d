"""What settings of the PostgreSQL server change: bytes of WAL per execution, and the rate beside the defaults.

    python -m benchmarks.postgres_settings --executions 20000 --rounds 3

Every variant has a fresh server with fsync on; rounds are interleaved. For docs/deploy/postgres.md.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import statistics
import time

import psycopg

from mainspring import JobContext, Mainspring
from tests.servers import Postgres, new_postgres
from tests.support import until

DURABLE = {"fsync": "on", "full_page_writes": "on", "shared_buffers": "128MB", "autovacuum": "on"}
VARIANTS: dict[str, dict[str, str]] = {
    "defaults": {},
    "wal_compression=pglz": {"wal_compression": "pglz"},
    "synchronous_commit=off": {"synchronous_commit": "off"},
    "a checkpoint each second": {},
    "the same, wal_compression=pglz": {"wal_compression": "pglz"},
}
WRITTEN = "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn"


async def drained(server: Postgres, executions: int, checkpoints: bool) -> tuple[float, float]:
    """Bytes of WAL per execution, and executions a second, from the first enqueue to the last ending."""
    url = server.new_database()
    app = Mainspring(url, concurrency=100)
    done = 0

    @app.job("noop")
    async def noop(ctx: JobContext) -> None:
        nonlocal done
        done += 1

    async with app, await psycopg.AsyncConnection.connect(url, autocommit=True) as other:

        async def checkpoint() -> None:
            while True:
                await asyncio.sleep(1)
                await other.execute("CHECKPOINT")

        [[before]] = server.execute(WRITTEN)
        began = time.perf_counter()
        task = asyncio.create_task(checkpoint()) if checkpoints else None
        for at in range(1_000, executions + 1, 1_000):
            await app.enqueue_many([("noop", None)] * 1_000)
            await until(lambda at=at: done >= at, deadline=600)  # type: ignore[misc]
        rate = executions / (time.perf_counter() - began)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        [[after]] = server.execute(WRITTEN)
    return float(after - before) / executions, rate


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--executions", type=int, default=20_000)
    arguments.add_argument("--rounds", type=int, default=3)
    given = arguments.parse_args()
    logging.disable(logging.WARNING)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in VARIANTS}
    for _ in range(given.rounds):
        for name, settings in VARIANTS.items():
            server = new_postgres(**DURABLE | settings)
            server.start()
            found[name].append(asyncio.run(drained(server, given.executions, "checkpoint" in name or "same" in name)))
            server.remove()
    base = statistics.median(rate for _, rate in found["defaults"])
    for name, rounds in found.items():
        written, rate = (statistics.median(column) for column in zip(*rounds, strict=True))
        print(f"{name}: {written:,.0f} bytes of WAL per execution, {rate / base:.2f} x the rate", flush=True)


if __name__ == "__main__":
    main()
