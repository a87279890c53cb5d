"""The one small command line that every contestant has, so that the harness treats all alike.

    bench.py prepare --url URL                           make the tables, if any are needed
    bench.py fill    --url URL --items N --variant V     jobs to be drained, not timed; --fresh prepares first
    bench.py work    --url URL --tally FILE --variant V  work until SIGTERM; each job is a hit in the tally
    bench.py state   --url URL                           {"left": 0, "done": N} once all is drained
    bench.py enqueue --url URL --items N --way WAY       one | callers | bulk; {"items": N, "seconds": S}
    bench.py ping    --url URL --tally FILE --items N    one job at a time to an idle worker; {"delays": [...]}

The last line of standard output is JSON. A contestant is a module with functions of these names that takes what it
knows; imported in virtual environments of its own, so this file needs the standard library alone.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import json
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks.tally import Tally

PATIENCE = 20.0


def main(**actions: Callable[..., Any]) -> None:
    """Runs the action named on the command line with the options it asks for by name, and prints its answer."""
    parser = argparse.ArgumentParser()
    parser.add_argument("action", choices=sorted(actions))
    parser.add_argument("--url", default="")
    parser.add_argument("--items", type=int, default=0)
    parser.add_argument("--variant", default="plain")
    parser.add_argument("--way", default="one")
    parser.add_argument("--tally", type=Tally)
    parser.add_argument("--fresh", type=int, default=0)
    options = vars(parser.parse_args())
    if options["fresh"]:
        _done(actions["prepare"], options)
    answer = _done(actions[options["action"]], options)
    print(json.dumps(answer if isinstance(answer, dict) else {}), flush=True)


def _done(action: Callable[..., Any], options: dict[str, Any]) -> Any:
    answer = action(**{name: options[name] for name in inspect.signature(action).parameters})
    return asyncio.run(_awaited(answer)) if inspect.isawaitable(answer) else answer


async def _awaited(answer: Awaitable[Any]) -> Any:
    return await answer


async def ping(send: Callable[[], Awaitable[Any]], tally: Tally, items: int) -> dict[str, Any]:
    """Seconds from before the call that enqueues to the first line of the handler, each time on an idle worker."""
    chance, delays = random.Random(1), []
    for _ in range(items):
        await asyncio.sleep(chance.uniform(0.02, 0.04))
        before, count = time.monotonic(), tally.count
        await send()
        while tally.count == count:
            if time.monotonic() - before > PATIENCE:
                raise SystemExit("the worker did not start the job in time")
            await asyncio.sleep(0.0005)
        delays.append(tally.last - before)
    return {"delays": delays}


async def callers(send: Callable[[], Awaitable[Any]], items: int, many: int = 20) -> float:
    """Seconds that so many concurrent callers take, each one by one, for all items together."""

    async def one(count: int) -> None:
        for _ in range(count):
            await send()

    share, rest = divmod(items, many)
    began = time.perf_counter()
    await asyncio.gather(*(one(share + (number < rest)) for number in range(many)))
    return time.perf_counter() - began
