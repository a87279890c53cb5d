"""What is it worth that the usual exchange on SQLite is one statement? Both ways by turns, in one drain.

    python -m benchmarks.sqlite_ways --items 40000

Every 2,000 executions of one drain by the default application go the other way. Neighbouring blocks see the same
machine, so their ratio says something also while others are at work. A block's first 400 executions do not count.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import statistics
import tempfile
import threading
import time
from typing import NamedTuple

from mainspring import JobContext, Mainspring
from mainspring.stores.sqlite.at_once import AtOnce

BLOCK, SKIPPED = 2_000, 400
FOREVER = 10**9
WAYS = ("long", "short")


class Reading(NamedTuple):
    wall: float
    loop: float  # processor time of the thread
    writer: float


class Blocks:
    """Called once for each execution, on the event loop."""

    def __init__(self, items: int) -> None:
        self.done = asyncio.Event()
        self.found: dict[str, list[Reading]] = {way: [] for way in WAYS}
        self._items, self._count = items, 0
        self._began: Reading | None = None
        self._at_once = next(found for found in gc.get_objects() if isinstance(found, AtOnce))
        writer = next(thread for thread in threading.enumerate() if thread.name == "mainspring-writer")
        self._clock = time.pthread_getcpuclockid(writer.ident or 0)
        self._go()

    def _go(self) -> None:
        self._way = WAYS[self._count // BLOCK % 2]
        self._at_once._long_way = FOREVER if self._way == "long" else 0

    def hit(self) -> None:
        self._count += 1
        if self._count % BLOCK == SKIPPED:
            self._began = self._read()
        elif self._count % BLOCK == 0:
            self._end()

    def _end(self) -> None:
        assert self._began is not None
        spent = (now - before for now, before in zip(self._read(), self._began, strict=True))
        self.found[self._way].append(Reading(*(seconds / (BLOCK - SKIPPED) * 1e6 for seconds in spent)))
        self._go()
        if self._count >= self._items:
            self.done.set()

    def _read(self) -> Reading:
        return Reading(time.perf_counter(), time.thread_time(), time.clock_gettime(self._clock))


async def drain(folder: str, items: int) -> dict[str, list[Reading]]:
    app = Mainspring(f"sqlite:///{folder}/jobs.db")
    blocks: Blocks | None = None

    @app.job("noop")
    async def noop(ctx: JobContext) -> None:
        assert blocks is not None
        blocks.hit()

    await app.open()
    await app.enqueue_many([("noop", None)] * items)
    blocks = Blocks(items)
    async with app:
        await blocks.done.wait()
    return blocks.found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=40_000)
    parser.add_argument("--folder", help="where the file is made: a disk, or memory to leave the disk out")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        found = asyncio.run(drain(folder, -(-options.items // (2 * BLOCK)) * 2 * BLOCK))
    for way, readings in found.items():
        wall, loop, writer = (statistics.median(column) for column in zip(*readings, strict=True))
        print(f"{way:6} {wall:6.1f} us each; processor time of the loop {loop:5.1f}, of the writer {writer:5.1f}")
    ratios = [short.wall / long.wall for long, short in zip(found["long"], found["short"], strict=True)]
    print(f"short / long: median {statistics.median(ratios):.2f}, {min(ratios):.2f} to {max(ratios):.2f}")


if __name__ == "__main__":
    main()
