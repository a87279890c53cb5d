"""The application whose workers `benchmarks.flow` starts: its database comes from MAINSPRING_DATABASE_URL."""

from __future__ import annotations

import asyncio

from mainspring import JobContext, Limit, Mainspring

RATE, BURST = 50, 5


def declare(app: Mainspring) -> Mainspring:
    @app.job("shared")
    async def shared(ctx: JobContext, seconds: float = 0.0) -> None:
        await asyncio.sleep(seconds)

    @app.job("paced", limits=Limit("paced", rate=RATE, burst=BURST))
    async def paced(ctx: JobContext) -> None: ...

    return app


app = declare(Mainspring())
