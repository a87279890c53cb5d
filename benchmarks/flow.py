"""Fair share and rate limits over several worker processes, with the default configuration.

    python -m benchmarks.flow                                # both, on every store: some minutes
    python -m benchmarks.flow --part fairness --store sqlite --seconds 10

`fairness`: ten tenants, one of them with 100,000 executions waiting, nine that enqueue one each per 100 ms; how long
the nine wait, beside how long they wait without the heavy one. `rate`: 50 a second over three processes.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mainspring import Execution, Mainspring
from mainspring.core.views.execution import row_of
from tests.mongo_server import mongo
from tests.servers import new_postgres
from tests.support import until

from .flow_app import BURST, RATE, declare

LIGHT = [f"light-{n}" for n in range(9)]
BACKLOG = 100_000
EVERY = 0.1
STORES = ["sqlite", "postgres", "mongo"]
SECOND = 1_000_000


@contextmanager
def workers(count: int, url: str) -> Iterator[None]:
    command = [sys.executable, "-m", "mainspring", "run", "benchmarks.flow_app:app", "--roles", "worker"]
    environment = {**os.environ, "MAINSPRING_DATABASE_URL": url, "MAINSPRING_LOG_LEVEL": "WARNING"}
    started = [subprocess.Popen(command, env=environment) for _ in range(count)]
    try:
        yield
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait()


@contextmanager
def database(kind: str) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="mainspring-flow-") as folder:
        if kind == "sqlite":
            yield f"sqlite:///{Path(folder) / 'flow.db'}"
            return
        if kind == "mongo":
            yield mongo("replica_set").new_database()
            return
        server = new_postgres(fsync="on", full_page_writes="on")
        server.start()
        try:
            yield server.new_database()
        finally:
            server.stop()


async def ready(app: Mainspring, count: int) -> None:
    async def heard() -> bool:
        return len(await app.workers()) >= count

    await until(heard, "the workers", 60)


async def settled(app: Mainspring, executions: list[Execution]) -> list[Execution]:
    return [await app.wait(execution, timeout=120) for execution in executions]


# --- fairness -------------------------------------------------------------------------------------------------------


async def light_waits(app: Mainspring, seconds: float, work: float) -> list[float]:
    """Milliseconds from enqueue to start, of every execution of the nine."""
    made: list[Execution] = []

    async def tenant(name: str, offset: float) -> None:
        await asyncio.sleep(offset)
        for _ in range(int(seconds / EVERY)):
            execution = await app.enqueue("shared", {"seconds": work}, tenant=name)
            assert execution is not None
            made.append(execution)
            await asyncio.sleep(EVERY)

    await asyncio.gather(*(tenant(name, n * EVERY / len(LIGHT)) for n, name in enumerate(LIGHT)))
    ended = await settled(app, made)
    return [(row_of(each).started - row_of(each).created) / 1000 for each in ended if row_of(each).started is not None]


async def fairness(kind: str, seconds: float, work: float, backlog: int) -> None:
    with database(kind) as url:
        app = declare(Mainspring(url))
        try:
            await app.jobs()
            with workers(2, url):
                await ready(app, 2)
                await light_waits(app, 2.0, work)
                alone = await light_waits(app, seconds, work)
                items = [("shared", {"seconds": work}, {"tenant": "heavy"})] * backlog
                await app.enqueue_many(items)
                beside = await light_waits(app, seconds, work)
                left = await app.executions(job="shared", tenant="heavy", running=True, limit=1)
        finally:
            await app.close()
    ratio = p99(beside) / p99(alone)
    print(
        f"{kind}: handler {work * 1000:g} ms, p50/p99 alone {statistics.median(alone):.1f}/{p99(alone):.1f} ms, "
        f"beside {backlog:,} of another tenant {statistics.median(beside):.1f}/{p99(beside):.1f} ms: "
        f"{ratio:.2f} x (bar 3); backlog {'lasted' if left else 'was used up'}"
    )


def p99(values: list[float]) -> float:
    return statistics.quantiles(values, n=100)[98]


# --- rate -----------------------------------------------------------------------------------------------------------


async def rate(kind: str, seconds: float) -> None:
    with database(kind) as url:
        app = declare(Mainspring(url))
        try:
            await app.jobs()
            with workers(3, url):
                await ready(app, 3)
                count = int(RATE * seconds)
                made = await app.enqueue_many([("paced", {})] * count)
                ended = await settled(app, [each for each in made if each is not None])
        finally:
            await app.close()
    begun = sorted(row_of(each).started for each in ended if row_of(each).started is not None)
    most = max(sum(at <= other < at + SECOND for other in begun[n : n + 200]) for n, at in enumerate(begun))
    took = (begun[-1] - begun[0]) / SECOND
    processes = len({each.attempts[0].worker for each in ended})
    print(
        f"{kind}: {count} at {RATE}/s over {processes} processes: {(count - 1) / took:.1f}/s on average (bar 45), "
        f"at most {most} in a second (bar {RATE + BURST})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=["fairness", "rate"])
    parser.add_argument("--store", choices=STORES)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--work", type=float, default=0.005, help="seconds that a handler of `fairness` takes")
    parser.add_argument("--backlog", type=int, default=BACKLOG)
    options = parser.parse_args()
    for kind in [options.store] if options.store else STORES:
        if options.part != "rate":
            asyncio.run(fairness(kind, options.seconds, options.work, options.backlog))
        if options.part != "fairness":
            asyncio.run(rate(kind, options.seconds))


if __name__ == "__main__":
    main()
