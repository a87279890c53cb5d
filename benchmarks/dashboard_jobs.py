"""The jobs that `benchmarks.dashboard` runs: one for each kind of page.

`/bench/counts` answers what the process has spent and done so far.
"""

from __future__ import annotations

import time
from typing import Any

from mainspring import JobContext, Mainspring, every
from mainspring.server.dashboard.live import LivePages

CUSTOMERS = 250
LOG_LINES = 2_000


def new_app(database_url: str | None = None) -> Mainspring:
    """An application on this database, or on the one that `MAINSPRING_DATABASE_URL` names."""
    app = Mainspring(database_url, private_urls=True)

    @app.job("beat", trigger=every(seconds=1))
    async def beat(ctx: JobContext) -> None:
        """Something changes every second."""
        for number in range(5):
            await app.enqueue(step, {"number": number})

    @app.job("step", search=("number",))
    async def step(ctx: JobContext, number: int) -> int:
        ctx.progress(1, 1)
        return number

    @app.job("windows", cron="0 5 * * *", tz="Europe/Paris", window="yesterday", overlap="allow", max_attempts=1)
    async def windows(ctx: JobContext) -> int:
        assert ctx.window is not None
        if ctx.window.begin.day == 13:
            raise ValueError("the books of the day are not closed")
        return ctx.window.begin.day

    @app.job("customers", tenants=[f"customer-{number:03}" for number in range(CUSTOMERS)], tenant_max_attempts=1)
    async def customers(ctx: JobContext) -> str:
        if ctx.tenant == "customer-013":
            raise LookupError(f"{ctx.tenant} has no address")
        return f"invoices of {ctx.tenant}"

    @app.job("talk", max_attempts=1)
    async def talk(ctx: JobContext, order_id: int, note: str = "") -> None:
        """A long log, large parameters, and an error."""
        for number in range(LOG_LINES):
            ctx.logger.info("line %d of order %d: the shelf was counted and found to be complete", number, order_id)
        raise ConnectionError("the bank does not answer")

    @app.job("charge", max_attempts=1)
    async def charge(ctx: JobContext, order_id: int) -> None:
        raise ConnectionError(f"the bank does not answer for order {order_id}")

    async def counts() -> dict[str, Any]:
        pages: LivePages = app.asgi().state.live_pages
        tail = pages.tail
        return {"cpu": time.process_time(), "reads": tail.reads, "rendered": pages.rendered, "open": len(tail.tabs)}

    app.asgi().add_api_route("/bench/counts", counts)
    return app
