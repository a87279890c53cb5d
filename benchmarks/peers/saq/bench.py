"""SAQ on Redis and on PostgreSQL, with uvloop and 20 jobs at once."""

from __future__ import annotations

import asyncio
from typing import Any

import uvloop
from saq import Queue, Worker

from benchmarks.command import main
from benchmarks.tally import Tally

CONCURRENCY = 20


async def connected(url: str) -> Queue:
    queue = Queue.from_url(url)
    await queue.connect()
    return queue


async def prepare(url: str) -> None:
    await (await connected(url)).disconnect()


async def fill(url: str, items: int) -> None:
    queue = await connected(url)
    for first in range(0, items, CONCURRENCY):
        await asyncio.gather(*(queue.enqueue("noop") for _ in range(min(CONCURRENCY, items - first))))
    await queue.disconnect()


def work(url: str, tally: Tally) -> None:
    tally.ready_and_wait()
    uvloop.run(serve(url, tally))


async def serve(url: str, tally: Tally) -> None:
    async def noop(ctx: Any) -> None:
        tally.hit()

    queue = await connected(url)
    await Worker(queue, functions=[("noop", noop)], concurrency=CONCURRENCY).start()


async def state(url: str) -> dict[str, int]:
    queue = await connected(url)
    left = await queue.count("incomplete")
    await queue.disconnect()
    return {"left": left}


if __name__ == "__main__":
    main(prepare=prepare, fill=fill, work=work, state=state)
