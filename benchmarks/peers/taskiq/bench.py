"""taskiq on a Redis list, its fastest broker, with uvloop, prefetching and 100 tasks at once."""

from __future__ import annotations

import asyncio
import signal

import redis.asyncio
import uvloop
from taskiq.api import run_receiver_task
from taskiq_redis import ListQueueBroker

from benchmarks.command import main
from benchmarks.tally import Tally


def application(url: str, tally: Tally | None = None) -> tuple[ListQueueBroker, object]:
    broker = ListQueueBroker(url)

    @broker.task(task_name="noop")
    async def noop() -> None:
        tally.hit()

    return broker, noop


def prepare(url: str) -> None:
    """A list needs no preparation."""


async def fill(url: str, items: int) -> None:
    broker, noop = application(url)
    await broker.startup()
    for first in range(0, items, 50):
        await asyncio.gather(*(noop.kiq() for _ in range(min(50, items - first))))
    await broker.shutdown()


def work(url: str, tally: Tally) -> None:
    tally.ready_and_wait()
    uvloop.run(serve(url, tally))


async def serve(url: str, tally: Tally) -> None:
    broker, _ = application(url, tally)
    broker.is_worker_process = True
    await broker.startup()
    receiver = asyncio.create_task(run_receiver_task(broker, max_async_tasks=100, max_prefetch=100))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, receiver.cancel)
    await asyncio.wait([receiver])
    await broker.shutdown()


async def state(url: str) -> dict[str, int]:
    connection = redis.asyncio.from_url(url)
    left = await connection.llen("taskiq")
    await connection.aclose()
    return {"left": left}


if __name__ == "__main__":
    main(prepare=prepare, fill=fill, work=work, state=state)
