"""A process with a job that has tenants: python -m tests.crash.tenant_node FOLDER ROLES"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from mainspring import JobContext
from tests.crash.handlers import AT_ONCE, FOR_EVER, Witnessed, hold, work
from tests.crash.processes import end_with_parent, until

TENANTS = 500
TRIES = 5
BAD = frozenset(f"t{number:03}" for number in range(0, TENANTS, 20))
"""Every twentieth fails for good."""
LATE = frozenset(f"t{number:03}" for number in range(5, TENANTS, 10))
"""Every tenth fails twice and then succeeds."""


async def everybody(ctx: JobContext) -> list[str]:
    await until(lambda: not hold(ctx.resources.folder, "lists").exists(), FOR_EVER)
    return [f"t{number:03}" for number in range(TENANTS)]


async def nightly(ctx: JobContext) -> None:
    await asyncio.sleep(0.02)
    failed = sum(attempt.end == "failed" for attempt in ctx.execution.attempts)
    if ctx.tenant in BAD or (ctx.tenant in LATE and failed < 2):
        raise ValueError(f"{ctx.tenant} fails")


def with_tenants(folder: Path, **settings: Any) -> Witnessed:
    app = Witnessed(folder, **settings)
    options: dict[str, Any] = {"tenant_max_attempts": TRIES, "tenant_retry": AT_ONCE, "retry": AT_ONCE}
    app.job("nightly", tenants=everybody, max_attempts=5, **options)(nightly)
    app.job("work", retry=AT_ONCE, max_attempts=100)(work)
    return app


def main(folder: str, roles: str) -> None:
    end_with_parent()
    with_tenants(Path(folder), roles=roles, concurrency=8).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
