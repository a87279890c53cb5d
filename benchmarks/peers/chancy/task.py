"""The job, where both the worker and the name in the database find it."""

from __future__ import annotations

from typing import Any

from chancy import job

tally: Any = None


@job(queue="default")
async def noop() -> None:
    tally.hit()
