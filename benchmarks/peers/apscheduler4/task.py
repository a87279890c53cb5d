"""The job, where a stored job finds it by its name."""

from __future__ import annotations

from typing import Any

tally: Any = None


async def noop() -> None:
    tally.hit()
