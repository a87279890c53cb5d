"""APScheduler 4 (a pre-release) on PostgreSQL, with asyncpg and 100 jobs at once."""

from __future__ import annotations

import asyncio
import signal

import task
from apscheduler import AsyncScheduler
from apscheduler.datastores.sqlalchemy import SQLAlchemyDataStore
from apscheduler.eventbrokers.asyncpg import AsyncpgEventBroker
from sqlalchemy.ext.asyncio import create_async_engine

from benchmarks.command import main
from benchmarks.tally import Tally


def scheduler(url: str) -> AsyncScheduler:
    engine = create_async_engine(url.replace("postgresql:", "postgresql+asyncpg:"))
    broker = AsyncpgEventBroker.from_async_sqla_engine(engine)
    return AsyncScheduler(SQLAlchemyDataStore(engine), broker, max_concurrent_jobs=100)


async def prepare(url: str) -> None:
    async with scheduler(url) as timer:
        await timer.configure_task("noop", func=task.noop, max_running_jobs=None)


async def fill(url: str, items: int) -> None:
    async with scheduler(url) as timer:
        for first in range(0, items, 10):
            await asyncio.gather(*(timer.add_job("noop") for _ in range(min(10, items - first))))


def work(url: str, tally: Tally) -> None:
    task.tally = tally
    tally.ready_and_wait()
    asyncio.run(serve(url))


async def serve(url: str) -> None:
    async with scheduler(url) as timer:
        await timer.configure_task("noop", func=task.noop, max_running_jobs=None)
        await timer.start_in_background()
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        await stop.wait()


async def state(url: str) -> dict[str, int]:
    async with scheduler(url) as timer:
        return {"left": len(await timer.get_jobs())}


if __name__ == "__main__":
    main(prepare=prepare, fill=fill, work=work, state=state)
