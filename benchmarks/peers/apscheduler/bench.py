"""APScheduler 3 in memory and on SQLite: jobs for one instant, on its asyncio scheduler.

It schedules and has no queue: its jobs are dates that have come. In memory they are made by the process that runs them,
so the variant `due:T` of `work` says for when.
"""

from __future__ import annotations

import asyncio
import signal
import time
from datetime import UTC, datetime

import task
from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from benchmarks.command import main
from benchmarks.tally import Tally


def scheduler(url: str) -> AsyncIOScheduler:
    store = MemoryJobStore() if url.startswith("memory:") else SQLAlchemyJobStore(url=url)
    defaults = {"misfire_grace_time": None, "max_instances": 1}
    return AsyncIOScheduler(jobstores={"default": store}, job_defaults=defaults, timezone="UTC")


def prepare(url: str) -> None:
    """The tables are made by the scheduler."""


async def fill(url: str, items: int) -> None:
    if not url.startswith("memory:"):
        timer = scheduler(url)
        timer.start(paused=True)
        add(timer, items, time.time())
        timer.shutdown()


def add(timer: AsyncIOScheduler, items: int, at: float) -> None:
    for _ in range(items):
        timer.add_job(task.noop, "date", run_date=datetime.fromtimestamp(at, UTC))


def work(url: str, tally: Tally, items: int, variant: str) -> None:
    task.tally = tally
    asyncio.run(serve(url, tally, items, variant))


async def serve(url: str, tally: Tally, items: int, variant: str) -> None:
    timer = scheduler(url)
    timer.start(paused=True)
    if url.startswith("memory:"):
        add(timer, items, float(variant.partition(":")[2] or time.time()))
    tally.ready_and_wait()
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    timer.resume()
    await stop.wait()


async def state(url: str) -> dict[str, int]:
    if url.startswith("memory:"):
        return {"left": 0}
    timer = scheduler(url)
    timer.start(paused=True)
    left = len(timer.get_jobs())
    timer.shutdown()
    return {"left": left}


if __name__ == "__main__":
    main(prepare=prepare, fill=fill, work=work, state=state)
