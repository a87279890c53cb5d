"""How much a handler that writes 100,000 log lines slows its neighbours in the same worker.

    python -m benchmarks.log_flood [--lines 100000] [--rounds 5]

Each round runs the same neighbours three times, one after another in one process, so that a noisy machine is noisy for
all of them: beside a quiet handler, beside one that writes its lines through `logging` while nothing is captured, and
with the capture. Neighbours are plain functions in threads, which compute, and coroutines, which sleep a little and
compute a little; each has a fixed amount of work that takes some seconds. What counts is how long they take. The last
column is what the capture adds to what any flood through `logging` costs: the bar is 5 %. Of all rounds the shortest
time counts, since noise only ever adds to it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mainspring import Mainspring
from mainspring.core.engine import log_capture

BAR = 1.05
MODES = ("quiet", "not captured", "captured")
THREADS, COROUTINES = 1, 4
STEPS = {"thread": 12_000, "coroutine": 600}
FLOODS = ("thread", "coroutine")


def compute() -> int:
    """About 200 microseconds on the machine this was written on."""
    return sum(range(10_000))


def application(lines: int) -> Mainspring:
    app = Mainspring("memory://", concurrency=THREADS + COROUTINES + 2)
    shop = logging.getLogger("shop")

    @app.job("thread-neighbour")
    def thread_neighbour() -> float:
        began = time.perf_counter()
        for _ in range(STEPS["thread"]):
            compute()
        return time.perf_counter() - began

    @app.job("coroutine-neighbour")
    async def coroutine_neighbour() -> float:
        began = time.perf_counter()
        for _ in range(STEPS["coroutine"]):
            await asyncio.sleep(0.002)
            compute()
        return time.perf_counter() - began

    @app.job("thread-flood")
    def thread_flood() -> None:
        for number in range(lines):
            shop.info("line %d of a flood", number)

    @app.job("coroutine-flood")
    async def coroutine_flood() -> None:
        """One that awaits now and then: a coroutine that never does stops the event loop, whether it logs or not."""
        for number in range(lines):
            shop.info("line %d of a flood", number)
            if number % 20 == 0:
                await asyncio.sleep(0)

    return app


@contextmanager
def without_capture() -> Iterator[None]:
    capture = log_capture._capture
    assert capture is not None
    capture._active = False
    try:
        yield
    finally:
        capture._active = True


async def neighbours(app: Mainspring, flood: str | None) -> dict[str, float]:
    """Seconds that the slowest neighbour of each kind took."""
    flooding = None if flood is None else await app.enqueue(f"{flood}-flood")
    items: list[Any] = [("thread-neighbour", None)] * THREADS + [("coroutine-neighbour", None)] * COROUTINES
    took: dict[str, float] = {}
    for execution in await app.enqueue_many(items):
        assert execution is not None
        done = await app.wait(execution)
        kind = done.job.partition("-")[0]
        took[kind] = max(took.get(kind, 0.0), done.result)
    if flooding is not None:
        await app.wait(flooding)
    return took


async def measure(lines: int, rounds: int) -> list[dict[str, Any]]:
    app = application(lines)
    results = []
    async with app:
        for flood in FLOODS:
            taken: dict[str, list[dict[str, float]]] = {mode: [] for mode in MODES}
            for _ in range(rounds):
                taken["quiet"].append(await neighbours(app, None))
                with without_capture():
                    taken["not captured"].append(await neighbours(app, flood))
                taken["captured"].append(await neighbours(app, flood))
            results += [figures(flood, kind, taken) for kind in STEPS]
    return results


def figures(flood: str, kind: str, taken: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    quiet, bare, captured = (min(each[kind] for each in taken[mode]) for mode in MODES)
    return {
        "flood": flood,
        "neighbour": kind,
        "quiet_s": quiet,
        "not_captured": bare / quiet,
        "captured": captured / quiet,
        "added": captured / bare,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    logging.getLogger("shop").setLevel(logging.INFO)
    logging.getLogger("shop").addHandler(logging.NullHandler())
    logging.getLogger("shop").propagate = False
    found = asyncio.run(measure(given.lines, given.rounds))
    if given.json:
        print(json.dumps(found, indent=2))
    else:
        print(f"{given.lines:,} lines; times the neighbour takes beside a quiet handler")
        print(f"{'flood':<11}{'neighbour':<11}{'quiet s':>8}{'not captured':>14}{'captured':>10}{'added':>8}")
        for each in found:
            ratios = f"{each['not_captured']:>14.3f}{each['captured']:>10.3f}{each['added']:>8.3f}"
            print(f"{each['flood']:<11}{each['neighbour']:<11}{each['quiet_s']:>8.2f}{ratios}")
    return 0 if all(each["added"] <= BAR for each in found) else 1


if __name__ == "__main__":
    raise SystemExit(main())
