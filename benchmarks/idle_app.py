"""The application that `many_jobs` starts as a process of its own: nearly nothing, so that its cost is Mainspring's.

The database comes from `MAINSPRING_DATABASE_URL`.
"""

from mainspring import JobContext, Mainspring

app = Mainspring()


@app.job("noop")
async def noop(ctx: JobContext) -> None:
    pass
