"""How many bytes finished executions take on each store, and how much memory a worker: for docs/deploy/sizing.md.

    python -m benchmarks.sizing --executions 100000

Bytes and connections, which do not depend on how busy the machine is.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psycopg
import pymongo

from mainspring import JobContext, Mainspring
from tests.mongo_server import mongo
from tests.servers import new_postgres
from tests.support import until

BATCH = 5_000
IDLE = 60  # seconds: by then connections that nobody needs are closed
CONNECTIONS = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""
PARAMS = {"tenant": "tenant-123", "month": "2026-11", "kind": "invoice"}  # 58 bytes as JSON
POSTGRES_BYTES = """
    SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'mainspring' AND c.relkind = 'r'
"""


async def drain(url: str, executions: int) -> None:
    app = Mainspring(url, concurrency=100)
    done = 0

    @app.job("noop")
    async def noop(ctx: JobContext, tenant: str, month: str, kind: str) -> None:
        nonlocal done
        done += 1

    async with app:
        for start in range(0, executions, BATCH):
            await app.enqueue_many([("noop", PARAMS)] * min(BATCH, executions - start))
            await until(lambda at=start: done >= at, deadline=600)  # type: ignore[misc]
        await until(lambda: done >= executions, deadline=600)
        await asyncio.sleep(5)  # statistics are folded, numbers are given, dead rows are vacuumed


def sqlite_bytes(executions: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "jobs.db")
        asyncio.run(drain(f"sqlite:///{file}", executions))
        return file.stat().st_size


def postgres_bytes(executions: int) -> int:
    server = new_postgres()
    server.start()
    url = server.new_database()
    asyncio.run(drain(url, executions))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM")
        row = connection.execute(POSTGRES_BYTES).fetchone()
    server.remove()
    assert row is not None
    return int(row[0])


def mongo_bytes(executions: int) -> int:
    url = mongo("replica_set").new_database()
    asyncio.run(drain(url, executions))
    client: pymongo.MongoClient[dict[str, object]] = pymongo.MongoClient(url)
    client.admin.command("fsync")
    stats = client.get_default_database().command("dbStats")
    client.close()
    return int(stats["storageSize"] + stats["indexSize"])


def idle_worker(jobs: int) -> str:
    """A process of its own, on PostgreSQL, when it has been idle for some time: its memory and its connections."""
    server = new_postgres()
    server.start()
    url = server.new_database()
    environment = os.environ | {"MAINSPRING_DATABASE_URL": url, "IDLE_JOBS": str(jobs)}
    command = [sys.executable, "-m", "mainspring", "run", "benchmarks.idle_app:app"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as worker:
        time.sleep(IDLE)
        status = Path(f"/proc/{worker.pid}/status").read_text()
        [[connections]] = server.execute(CONNECTIONS, url.rpartition("/")[2])
        worker.terminate()
    server.remove()
    return f"{int(status.split('VmRSS:')[1].split()[0]) / 1024:.1f} MB resident, {connections} connections"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--executions", type=int, default=100_000)
    given = arguments.parse_args()
    logging.disable(logging.WARNING)
    for name, measured in (("SQLite", sqlite_bytes), ("PostgreSQL", postgres_bytes), ("MongoDB", mongo_bytes)):
        size = measured(given.executions)
        print(f"{name}: {size:,} bytes, {size / given.executions:.0f} for each of {given.executions:,}", flush=True)
    for jobs in (0, 1_000, 10_000):
        print(f"idle worker with {jobs:,} jobs: {idle_worker(jobs)}", flush=True)


if __name__ == "__main__":
    main()
