"""A process woken and locked through Redis: python -m tests.crash.redis_node FOLDER redis_url=redis://..."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import Any

from mainspring import JobContext
from tests.crash.handlers import AT_ONCE, Witnessed, build
from tests.crash.processes import end_with_parent


def build_guarded(folder: Path, **settings: Any) -> Witnessed:
    app = build(folder, locks="redis", redis_wakeups=True, **settings)

    @app.job("guarded", retry=AT_ONCE, max_attempts=200)
    async def guarded(ctx: JobContext, n: int) -> None:
        """Runs only under its lock: when that cannot be had, it fails and is tried again."""
        async with app.lock(f"lock-{n % 5}", ttl="1s", wait="5s") as lock:
            app.ledger.write("locked", id=ctx.execution_id, fence=lock.token)
            await asyncio.sleep(0.01)

    return app


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("settings", nargs="*", help="name=value")
    arguments = parser.parse_args()
    end_with_parent()
    settings = dict(setting.split("=", 1) for setting in arguments.settings)
    build_guarded(arguments.folder, **settings).run()


if __name__ == "__main__":
    main()
