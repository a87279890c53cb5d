"""How often a coroutine can hand a function to a thread and hear of its end: what sync handlers cost at the least."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

from benchmarks.command import callers, main

THREADS = 10  # as many as Mainspring has by default


async def hops(items: int) -> dict[str, float]:
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(THREADS) as pool:
        seconds = await callers(lambda: loop.run_in_executor(pool, time.monotonic), items, THREADS)
    return {"items": items, "seconds": seconds}


if __name__ == "__main__":
    main(hops=hops)
