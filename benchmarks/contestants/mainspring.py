"""Mainspring as a fresh install has it: default settings, default schema, handlers declared with `@app.job`."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import many_jobs
from benchmarks.command import callers, main, ping
from benchmarks.tally import Tally
from mainspring import JobContext, Mainspring

CHUNK = 10_000
LANES = 5
FAR = 1_000_000_000  # seconds: work that does not become due while anybody measures


def application(url: str, tally: Tally | None = None, variant: str = "plain", **settings: Any) -> Mainspring:
    """The jobs. The variant `excluded` names the handler that the worker is to leave alone; `wide` is the one row of
    the report that is tuned, and says so."""
    if variant == "wide":
        settings["concurrency"] = 100
    if variant == "excluded":
        settings["exclude"] = ["excluded"]
    app = Mainspring(url, **settings)
    count = tally.hit if tally is not None else lambda: None

    @app.job("noop")
    async def noop(ctx: JobContext) -> None:
        count()

    @app.job("blocking")
    def blocking(ctx: JobContext) -> None:
        count()

    @app.job("excluded")
    async def excluded(ctx: JobContext) -> None:
        raise RuntimeError("this worker was told to leave it alone")

    for number in range(LANES):

        @app.job(f"lane{number}")
        async def lane(ctx: JobContext) -> None:
            count()

    return app


ITEMS: dict[str, Callable[[int], tuple[Any, ...]]] = {
    "unique": lambda number: ("noop", None, {"unique": f"key-{number}-{time.time_ns()}"}),
    "lanes": lambda number: (f"lane{number % LANES}", None),
    "sync": lambda number: ("blocking", None),
    "future": lambda number: ("noop", None, {"start_at": time.time() + FAR}),
    "ahead": lambda number: ("excluded", None),
}


def item(variant: str, number: int) -> tuple[Any, ...]:
    make = ITEMS.get(variant)
    return ("noop", None) if make is None else make(number)


async def prepare(url: str) -> None:
    app = application(url)
    await app.open()
    await app.close()


async def fill(url: str, items: int, variant: str) -> None:
    app = application(url)
    await app.open()
    for first in range(0, items, CHUNK):
        await app.enqueue_many([item(variant, number) for number in range(first, min(first + CHUNK, items))])
    await app.close()


def work(url: str, tally: Tally, variant: str) -> None:
    app = application(url, tally, variant)
    tally.ready_and_wait()
    if variant == "logged":
        app.run()  # what `mainspring run` does: two lines of log for each execution, at its default level
    else:
        asyncio.run(serve(app))


async def drain(url: str, items: int, variant: str) -> dict[str, Any]:
    """Filled and drained in this one process, for a profiler: `python -m cProfile -s tottime -m ... drain`."""
    await fill(url, items, variant)
    with tempfile.TemporaryDirectory() as folder:
        tally = Tally.create(Path(folder) / "tally")
        async with application(url, tally, variant):
            while tally.count < items:  # noqa: ASYNC110  # handlers count in shared memory, as in the other runs
                await asyncio.sleep(0.02)
        rate = items / (tally.last - tally.first)
        tally.close()
    return {"items": items, "rate": rate}


async def serve(app: Mainspring) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with app:
        await stop.wait()


def state(url: str) -> dict[str, int]:
    """What is left to do now, and what the history holds as completed."""
    if url.startswith("sqlite:"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"))
        read = _reader(lambda text: connection.execute(text).fetchone(), "mainspring_")
        connection.close()
        return read
    import psycopg

    with psycopg.connect(url) as server:
        return _reader(lambda text: server.execute(text.encode()).fetchone(), "mainspring.")


def _reader(one: Callable[[str], Any], prefix: str) -> dict[str, int]:
    """The tables themselves are counted: the views of history would build a row for each of a million."""
    ready = f"SELECT count(*) FROM {prefix}live WHERE phase > 0 AND lane NOT LIKE '%/excluded'"
    done = f"SELECT count(*) FROM {prefix}history WHERE state = 'completed'"
    return {"left": one(ready)[0], "done": one(done)[0]}


async def enqueue(url: str, items: int, way: str) -> dict[str, float]:
    app = application(url)
    await app.open()
    await app.enqueue("noop")  # the first call connects
    seconds = await WAYS[way](app, items)
    await app.close()
    return {"items": items, "seconds": seconds}


async def _one_by_one(app: Mainspring, items: int) -> float:
    began = time.perf_counter()
    for _ in range(items):
        await app.enqueue("noop")
    return time.perf_counter() - began


async def _callers(app: Mainspring, items: int) -> float:
    return await callers(lambda: app.enqueue("noop"), items)


async def _bulk(app: Mainspring, items: int) -> float:
    work = [("noop", None)] * CHUNK
    began = time.perf_counter()
    for first in range(0, items, CHUNK):
        await app.enqueue_many(work[: min(CHUNK, items - first)])
    return time.perf_counter() - began


WAYS: dict[str, Callable[[Mainspring, int], Awaitable[float]]] = {
    "one": _one_by_one,
    "callers": _callers,
    "bulk": _bulk,
}


async def burst_of_jobs(url: str, items: int) -> dict[str, Any]:
    return asdict(await many_jobs.burst(url, items))


async def ping_worker(url: str, tally: Tally, items: int) -> dict[str, Any]:
    app = application(url)
    await app.open()
    answer = await ping(lambda: app.enqueue("noop"), tally, items)
    await app.close()
    return answer


async def ping_itself(url: str, tally: Tally, items: int) -> dict[str, Any]:
    """The application enqueues and works in one process, as with SQLite in a small service."""
    async with application(url, tally) as app:
        return await ping(lambda: app.enqueue("noop"), tally, items)


if __name__ == "__main__":
    main(
        prepare=prepare,
        fill=fill,
        work=work,
        state=state,
        enqueue=enqueue,
        ping=ping_worker,
        ping_itself=ping_itself,
        burst=burst_of_jobs,
        drain=drain,
    )
