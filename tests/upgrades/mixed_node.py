"""A process with work of every kind, for either release: python -m tests.upgrades.mixed_node URL FOLDER FIRST COUNT

It imports nothing but what users import, because it also runs on the code of the release before. It enqueues the
items FIRST to FIRST + COUNT and works until SIGTERM. Each run leaves a line in FOLDER/ledger.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from pathlib import Path
from typing import Any

from mainspring import JobContext, Limit, Mainspring, Retry, __version__, every

KINDS = ("plain", "flaky", "keyed", "limited", "tenant", "each")
TENANTS = ("a", "b", "c")
RUNS = dict.fromkeys(KINDS, 1) | {"each": len(TENANTS)}
"""Runs of one item that end well."""
FAST: dict[str, Any] = {
    "lease": 30,
    "heartbeat": 0.5,
    "poll_interval": 0.2,
    "rescue_interval": 1,
    "fold_interval": 0.5,
    "stop_timeout": 20,
    "concurrency": 4,
}


def build(url: str, folder: Path) -> Mainspring:
    app = Mainspring(url, **FAST)

    def write(kind: str, item: int) -> None:
        line = f"{kind} {item} {__version__} {os.getpid()}\n"
        place = os.open(folder / "ledger", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(place, line.encode())
        os.close(place)

    @app.job("plain")
    async def plain(ctx: JobContext, item: int) -> None:
        await asyncio.sleep(0.01)
        write("plain", item)

    @app.job("flaky", retry=Retry(initial="100ms", multiplier=1), max_attempts=5)
    async def flaky(ctx: JobContext, item: int) -> None:
        ctx.logger.info("an attempt")
        if ctx.attempt < 2:
            raise RuntimeError(f"item {item} fails at first")
        write("flaky", item)

    @app.job("keyed")
    async def keyed(ctx: JobContext, item: int) -> None:
        write("keyed", item)

    @app.job("limited", limits=[Limit("few", concurrency=2), Limit("slow", rate="200/s", burst=5)])
    async def limited(ctx: JobContext, item: int) -> None:
        await asyncio.sleep(0.01)
        write("limited", item)

    @app.job("tenant")
    async def tenant(ctx: JobContext, item: int) -> None:
        write("tenant", item)

    @app.job("each", tenants=TENANTS)
    async def each(ctx: JobContext, item: int) -> None:
        write("each", item)

    @app.job("tick", trigger=every(seconds=1), missed="skip")
    async def tick(ctx: JobContext) -> None:
        write("tick", round(ctx.scheduled_at.timestamp()) if ctx.scheduled_at else 0)

    return app


def items(first: int, count: int) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    found = []
    for item in range(first, first + count):
        for kind in KINDS:
            options: dict[str, Any] = {}
            if kind == "tenant":
                options = {"tenant": TENANTS[item % len(TENANTS)]}
            elif kind == "keyed":
                options = {"unique": f"key-{item}"}
            found.append((kind, {"item": item}, options))
    return found


def main() -> None:
    url, folder, first, count = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    threading.Thread(target=_end_with_parent, daemon=True).start()
    app = build(url, folder)
    if count:
        app.sync.enqueue_many(items(first, count))
        app.sync.close()
    print(f"ready {__version__}", flush=True)
    app.run()


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    main()
