"""The application that the process tests start: `mainspring run tests.api.process_app:app`.

The database and the folder of the files that open gates come from the environment.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from mainspring import JobContext, Mainspring

FOLDER = "PROCESS_TEST_FOLDER"
LOOK = 0.02

app = Mainspring(stop_timeout="10s")


def folder() -> Path:
    return Path(os.environ[FOLDER])


@app.job("succeed", max_attempts=1)
async def succeed(ctx: JobContext, number: int = 1) -> int:
    ctx.count(items_crawled=number)
    return number


@app.job("fail", max_attempts=1)
async def fail(ctx: JobContext) -> None:
    raise ValueError("as asked")


@app.job("hold", max_attempts=1)
async def hold(ctx: JobContext, gate: str) -> str:
    """Says that it has begun, and goes on when the file of this name exists; tells when it is stopped instead."""
    with (folder() / f"{gate}.begun").open("a") as file:
        file.write(f"{ctx.execution_id}\n")
    ctx.logger.info("at the gate")
    ctx.progress(1, 2, "waiting")
    try:
        while not (folder() / gate).exists():  # noqa: ASYNC110 - the file is made by another process
            await asyncio.sleep(LOOK)
    except asyncio.CancelledError:
        (folder() / f"{gate}.stopped").touch()
        raise
    ctx.logger.info("through the gate")
    return "through"
