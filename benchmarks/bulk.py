"""How fast a bulk retry is, and how long it holds the event loop.

    python -m benchmarks.bulk [ITEMS] [DATABASE_URL]       by default 100,000 in a SQLite file

The executions are written as history first; then one process retries all of them by their error group. Prints items a
second and the longest time for which the event loop did not get its turn.
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
import time

from mainspring import Mainspring, State
from mainspring.core.rules.new_execution import new_execution
from mainspring.model.labels import error_label
from mainspring.model.values.ids import RandomIds

GROUP = "5f0c1a2b3c4d5e6f"
BATCH = 1_000


async def fill(app: Mainspring, items: int) -> None:
    parts = await app._runtime.engine()
    [job] = await parts.store.jobs(["pay"])
    chance = random.Random(1)
    now, ids = await parts.store.now(), RandomIds(chance)
    first = now - items - 1
    for start in range(0, items, BATCH):
        await parts.store.add(
            [
                new_execution(
                    job,
                    trigger="enqueue",
                    now=first + number,
                    chance=chance,
                    id=ids.at(first + number),
                    state=State.FAILED,
                    finished=now,
                    error="ValueError: no",
                    labels=(error_label(GROUP),),
                )
                for number in range(start, min(start + BATCH, items))
            ]
        )


async def watch(waits: list[float]) -> None:
    """A task that wants a turn every millisecond."""
    while True:
        before = time.perf_counter()
        await asyncio.sleep(0.001)
        waits.append(time.perf_counter() - before - 0.001)


async def main(items: int, url: str) -> None:
    app = Mainspring(url)

    @app.job("pay")
    async def pay(ctx: object, order: int = 0) -> None:
        pass

    await app.open()
    await fill(app, items)
    waits: list[float] = []
    watcher = asyncio.create_task(watch(waits))
    began, cpu = time.perf_counter(), time.process_time()
    bulk = await app.bulk.start("retry", filter={"error_group": GROUP, "status": "failed"})
    over = await app.bulk.wait(bulk.id)
    took, used = time.perf_counter() - began, time.process_time() - cpu
    watcher.cancel()
    waits.sort()
    print(
        f"{over.state}: {over.done:,} done, {over.refused:,} refused in {took:.1f} s: {over.done / took:,.0f} a second"
    )
    p99, longest = waits[int(len(waits) * 0.99)] * 1e3, waits[-1] * 1e3
    print(f"CPU {used / items * 1e6:.0f} us each; the event loop waited {p99:.1f} ms at p99, {longest:.0f} ms at most")
    await app.close()


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(count, sys.argv[2] if len(sys.argv) > 2 else f"sqlite:///{folder}/bulk.db"))
