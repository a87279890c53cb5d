"""arq with uvloop, 100 jobs at once, a short poll and no results kept."""

from __future__ import annotations

import asyncio
from typing import Any

import uvloop
from arq import create_pool
from arq.connections import RedisSettings
from arq.worker import Worker, func

from benchmarks.command import main
from benchmarks.tally import Tally


def prepare(url: str) -> None:
    """Redis needs no preparation."""


async def fill(url: str, items: int) -> None:
    pool = await create_pool(RedisSettings.from_dsn(url))
    for first in range(0, items, 20):
        await asyncio.gather(*(pool.enqueue_job("noop") for _ in range(min(20, items - first))))
    await pool.aclose()


def work(url: str, tally: Tally) -> None:
    async def noop(ctx: Any) -> None:
        tally.hit()

    tally.ready_and_wait()
    uvloop.install()
    asyncio.set_event_loop(asyncio.new_event_loop())
    settings = RedisSettings.from_dsn(url)
    functions = [func(noop, name="noop", keep_result=0)]
    Worker(functions, redis_settings=settings, max_jobs=100, poll_delay=0.01, log_results=False).run()


async def state(url: str) -> dict[str, int]:
    pool = await create_pool(RedisSettings.from_dsn(url))
    left = await pool.zcard("arq:queue")
    await pool.aclose()
    return {"left": left}


if __name__ == "__main__":
    main(prepare=prepare, fill=fill, work=work, state=state)
