"""A process of the mixed chaos run: python -m tests.crash.chaos_node FOLDER ROLES SKEW

All features at once, because they share rows, keys and loops: unique keys, limits, tenants, dependencies, backfills,
schedules with every rule for missed ticks. The clock of each process is SKEW seconds off.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

from mainspring import CatchUp, JobContext, Limit, NonRetryable, every
from mainspring.app.adapters import SystemClock
from mainspring.model.time.instants import Micros
from tests.crash.handlers import AT_ONCE, Witnessed, who
from tests.crash.processes import end_with_parent

PERIOD = 1
NARROW = 3
TENANTS = [f"t{number:02}" for number in range(12)]
BAD_TENANT = TENANTS[5]
MISSED: dict[str, Any] = {
    "ticks-skip": "skip",
    "ticks-latest": "latest",
    "ticks-all": CatchUp("all", pace=0, max_runs=1000),
}


class SkewedClock(SystemClock):
    """A machine whose clock is wrong, by the same amount all the time."""

    def __init__(self, seconds: float) -> None:
        self._off = round(seconds * 1_000_000)

    def now(self) -> Micros:
        return time.time_ns() // 1000 + self._off


async def plain(ctx: JobContext, fails: int = 0, seconds: float = 0.02, key: str = "") -> dict[str, int]:
    """Fails as often as it is told to, and then completes."""
    ctx.resources.ledger.began(ctx)
    await asyncio.sleep(seconds)
    if sum(attempt.end == "failed" for attempt in ctx.execution.attempts) < fails:
        raise ValueError("as the test wants it")
    ctx.resources.ledger.ended(ctx)
    return who(ctx)


async def nightly(ctx: JobContext) -> None:
    ctx.resources.ledger.began(ctx)
    await asyncio.sleep(0.02)
    if ctx.tenant == BAD_TENANT:
        raise NonRetryable(f"{ctx.tenant} fails")


def chaos_app(folder: Path, skew: float = 0.0, **settings: Any) -> Witnessed:
    app = Witnessed(folder, clock=SkewedClock(skew), concurrency=6, **settings)
    often: dict[str, Any] = {"retry": AT_ONCE, "max_attempts": 100}
    for name in ("plain", "keyed", "first"):
        app.job(name, overlap="allow", **often)(plain)
    app.job("second", after="first", overlap="allow", **often)(plain)
    app.job("narrow", limits=Limit("narrow", concurrency=NARROW), **often)(plain)
    tenants: dict[str, Any] = {"tenant_retry": AT_ONCE, "tenant_max_attempts": 50}
    app.job("nightly", tenants=TENANTS, overlap="allow", **tenants, **often)(nightly)
    app.schedule("report", "plain", window="previous_day", **often)
    for name, missed in MISSED.items():
        app.schedule(name, "plain", every(seconds=PERIOD), overlap="allow", grace=1, missed=missed, **often)
    return app


def main(folder: str, roles: str, skew: str) -> None:
    end_with_parent()
    chaos_app(Path(folder), float(skew), roles=roles).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
