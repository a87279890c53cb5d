"""A worker whose handlers harm the process they run in: python -m tests.crash.isolation_node FOLDER QUEUE

A handler does its harm once: the file that it leaves keeps its next attempt from doing it again.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mainspring import JobContext, Mainspring
from tests.crash.handlers import AT_ONCE, FAST, FOR_EVER, database
from tests.crash.processes import end_with_parent

FOLDER = "MAINSPRING_TEST_FOLDER"
HARMFUL: dict[str, Callable[[], Any]] = {
    "exits": lambda: os._exit(3),
    "crashes": lambda: ctypes.string_at(0),
    "blocks": lambda: sum(itertools.repeat(0, 10**13)),
}


def harm(ctx: JobContext) -> str:
    mark = Path(os.environ[FOLDER]) / ctx.job
    if not mark.exists():
        mark.touch()
        HARMFUL[ctx.job.partition("_")[2]]()
    return "unharmed"


async def harm_on_the_loop(ctx: JobContext) -> str:
    return harm(ctx)


def hold(ctx: JobContext, children: int, blocks: bool) -> None:
    """Write down the ids of its process and of those that it starts, and go on for ever."""
    pids = [os.getpid(), *(os.posix_spawnp("sleep", ["sleep", "600"], os.environ) for _ in range(children))]
    file = Path(os.environ[FOLDER]) / f"{ctx.execution_id}.part"
    file.write_text(" ".join(map(str, pids)))
    file.rename(file.with_suffix(".pids"))
    if blocks:
        HARMFUL["blocks"]()
    time.sleep(FOR_EVER)


def build(isolated: bool = True, **settings: Any) -> Mainspring:
    """With or without the job that needs child processes."""
    url = database(Path(os.environ[FOLDER]))
    app = Mainspring(url, import_path="tests.crash.isolation_node:build", **{**FAST, **settings})
    options: dict[str, Any] = {"max_attempts": 5, "retry": AT_ONCE}
    for what in HARMFUL:
        app.job(f"thread_{what}", queue=f"thread_{what}", **options)(harm)
        app.job(f"async_{what}", queue=f"async_{what}", **options)(harm_on_the_loop)
    if isolated:
        app.job("hold", isolation="process", **options)(hold)
    return app


def main(folder: str, queue: str) -> None:
    os.environ[FOLDER] = folder
    end_with_parent()
    build(isolated=queue == "default", roles="worker", concurrency=4, queues=[queue]).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
