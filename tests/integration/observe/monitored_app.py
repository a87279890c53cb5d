"""The application that a real Prometheus looks at: jobs that succeed, fail, retry, skip, get stuck and are killed."""

from __future__ import annotations

import os
import time
from pathlib import Path

from mainspring import JobContext, Mainspring, Retry, every

FOLDER = "TEST_MONITORED_FOLDER"

app = Mainspring()


def wait_for(name: str, file: str) -> None:
    """Blocks its thread until the test says so."""
    folder = Path(os.environ[FOLDER])
    (folder / f"{name}-began").touch()
    while not (folder / file).exists():
        time.sleep(0.01)


@app.job("quick")
def quick() -> None: ...


@app.job("fails", max_attempts=1)
def fails() -> None:
    raise ValueError("as asked")


@app.job("retries", max_attempts=3, retry=Retry(initial="50ms"))
def retries(ctx: JobContext) -> None:
    if ctx.attempt == 1:
        raise ValueError("once")


@app.job("alone", overlap="skip")
def alone() -> None:
    wait_for("alone", "alone-goes")


@app.job("stuck", max_attempts=1)
def stuck(long: bool = False) -> None:
    if long:
        wait_for("stuck", "stuck-goes")


@app.job("killed", queue="other")
def killed() -> None:
    wait_for("killed", "killed-goes")


@app.job("every-second", trigger=every(seconds=1))
def every_second() -> None: ...
