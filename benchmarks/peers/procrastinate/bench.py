"""Procrastinate: its asynchronous worker on a pool of psycopg connections; ended jobs are kept, as by default."""

from __future__ import annotations

import asyncio

import procrastinate

from benchmarks.command import main
from benchmarks.tally import Tally

CONCURRENCY = 20
CHUNK = 1_000


def application(url: str, tally: Tally | None = None) -> tuple[procrastinate.App, procrastinate.tasks.Task]:
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url, max_size=CONCURRENCY))

    @app.task(name="noop")
    async def noop() -> None:
        tally.hit()

    return app, noop


async def prepare(url: str) -> None:
    app, _ = application(url)
    async with app.open_async():
        await app.schema_manager.apply_schema_async()


async def fill(url: str, items: int) -> None:
    app, noop = application(url)
    async with app.open_async():
        for first in range(0, items, CHUNK):
            await noop.batch_defer_async(*[{}] * min(CHUNK, items - first))


def work(url: str, tally: Tally) -> None:
    tally.ready_and_wait()
    asyncio.run(serve(url, tally))


async def serve(url: str, tally: Tally) -> None:
    app, _ = application(url, tally)
    async with app.open_async():
        await app.run_worker_async(concurrency=CONCURRENCY)


async def state(url: str) -> dict[str, int]:
    app, _ = application(url)
    async with app.open_async():
        text = "SELECT count(*) FILTER (WHERE status = 'succeeded') AS done, count(*) AS all FROM procrastinate_jobs"
        row = await app.connector.execute_query_one_async(text)
    return {"left": row["all"] - row["done"], "done": row["done"]}


if __name__ == "__main__":
    main(prepare=prepare, fill=fill, work=work, state=state)
