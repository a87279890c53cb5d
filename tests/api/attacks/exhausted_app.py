"""The application whose server the attacks of `test_exhaustion` try to exhaust."""

from __future__ import annotations

from mainspring import Mainspring

app = Mainspring(stop_timeout="5s", api_tokens=True)


@app.job("here", max_attempts=1)
async def here() -> str:
    return "done"


@app.job("apart", max_attempts=1, isolation="process")
def apart() -> str:
    """Its process needs files of the worker: pipes for what it says and is told."""
    return "done"
