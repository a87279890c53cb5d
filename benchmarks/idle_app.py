"""The application that `many_jobs` and `sizing` start as a process of its own: nearly nothing, so that its cost is
Mainspring's.

The database comes from `MAINSPRING_DATABASE_URL`, the number of hourly jobs from `IDLE_JOBS`.
"""

import os

from mainspring import JobContext, Mainspring, every

app = Mainspring()


@app.job("noop")
async def noop(ctx: JobContext) -> None:
    pass


async def idle(ctx: JobContext) -> None:
    pass


for number in range(int(os.environ.get("IDLE_JOBS", "0"))):
    app.job(f"hourly-{number}", trigger=every(hours=1))(idle)
