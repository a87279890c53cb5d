"""Huey on Redis, SQLite and PostgreSQL: its consumer with a few worker threads in each process, which overlap waiting.

Two of them on SQLite, where they share one lock for writing, and four elsewhere.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from huey import Huey, PostgresHuey, RedisHuey, SqliteHuey

from benchmarks.command import main, ping
from benchmarks.tally import Tally


def application(url: str) -> Huey:
    if url.startswith("sqlite:"):
        return SqliteHuey(filename=url.removeprefix("sqlite:///"), fsync=True)
    if url.startswith("redis:"):
        return RedisHuey(url=url, read_timeout=1)
    return PostgresHuey(dsn=url)


def with_task(url: str, tally: Tally | None = None) -> tuple[Huey, Any]:
    huey = application(url)

    @huey.task()
    def noop() -> None:
        tally.hit()

    return huey, noop


def prepare(url: str) -> None:
    application(url)


def fill(url: str, items: int) -> None:
    _, noop = with_task(url)
    for _ in range(items):
        noop()


def work(url: str, tally: Tally) -> None:
    huey, _ = with_task(url, tally)
    threads = 2 if url.startswith("sqlite:") else 4
    consumer = huey.create_consumer(workers=threads, periodic=False, initial_delay=0.01, max_delay=0.1)
    tally.ready_and_wait()
    consumer.run()


def state(url: str) -> dict[str, int]:
    return {"left": len(application(url))}


def enqueue(url: str, items: int) -> dict[str, float]:
    _, noop = with_task(url)
    noop()
    began = time.perf_counter()
    for _ in range(items):
        noop()
    return {"items": items, "seconds": time.perf_counter() - began}


async def ping_worker(url: str, tally: Tally, items: int) -> dict[str, Any]:
    _, noop = with_task(url, tally)
    return await ping(lambda: asyncio.sleep(0, noop()), tally, items)


if __name__ == "__main__":
    main(prepare=prepare, fill=fill, work=work, state=state, enqueue=enqueue, ping=ping_worker)
