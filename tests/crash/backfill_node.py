"""A process with a job that has windows: python -m tests.crash.backfill_node FOLDER ROLES takes part,
python -m tests.crash.backfill_node FOLDER start BEGIN END only starts a backfill, and waits."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from tests.crash.handlers import FOR_EVER, Witnessed, build
from tests.crash.processes import end_with_parent


def with_windows(folder: Path, **settings: Any) -> Witnessed:
    app = build(folder, **settings)
    app.schedule("report", "work", window="previous_day", params={"seconds": 0.1})
    return app


async def start(app: Witnessed, begin: str, end: str) -> None:
    await app.backfill("report", begin, end, concurrency=2)
    await asyncio.sleep(FOR_EVER)


def main(folder: str, what: str, *options: str) -> None:
    end_with_parent()
    if what == "start":
        asyncio.run(start(with_windows(Path(folder)), *options))
    else:
        with_windows(Path(folder), roles=what).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
