"""Chancy with its asynchronous executor, eager polling and room for 100 jobs at once."""

from __future__ import annotations

import asyncio

import task
from chancy import Chancy, Queue, Worker

from benchmarks.command import main
from benchmarks.tally import Tally

CONCURRENCY = 100
CHUNK = 1_000


async def prepare(url: str) -> None:
    async with Chancy(url, log=None) as chancy:
        await chancy.migrate()
        executor = Chancy.Executor.Async
        await chancy.declare(
            Queue("default", concurrency=CONCURRENCY, executor=executor, polling_interval=1, eager_polling=True)
        )


async def fill(url: str, items: int) -> None:
    async with Chancy(url) as chancy:
        for first in range(0, items, CHUNK):
            async for _ in chancy.push_many([task.noop.job] * min(CHUNK, items - first)):
                pass


def work(url: str, tally: Tally) -> None:
    task.tally = tally
    tally.ready_and_wait()
    asyncio.run(serve(url))


async def serve(url: str) -> None:
    async with Chancy(url) as chancy, Worker(chancy) as worker:
        await worker.wait_for_shutdown()


async def state(url: str) -> dict[str, int]:
    async with Chancy(url) as chancy, chancy.pool.connection() as connection:
        text = "SELECT count(*) FILTER (WHERE state = 'succeeded'), count(*) FROM chancy_jobs"
        done, every = await (await connection.execute(text)).fetchone()
    return {"left": every - done, "done": done}


if __name__ == "__main__":
    main(prepare=prepare, fill=fill, work=work, state=state)
