"""Jobs that all tick at the same instants: whoever is awake goes for all of them at once.

A tick that lies in the past when its job is declared is lost. How long declaring takes is therefore tried out first,
with as many jobs that never tick.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from mainspring import any_of, once
from tests.crash.handlers import Witnessed, tick

LEAST = timedelta(seconds=3)


async def with_ticking_jobs(
    make: Callable[[], Witnessed], jobs: int, ticks: int, period: timedelta, **options: Any
) -> None:
    rehearsal = make()
    await rehearsal.open()  # which may take a while
    for number in range(jobs):
        rehearsal.job(f"never-{number}")(tick)
    took = await _open(rehearsal)

    app = make()
    await app.open()
    start = datetime.now(UTC) + LEAST + 3 * took
    instants = [once(start + number * period) for number in range(ticks)]
    for number in range(jobs):
        app.schedule(f"ticks-{number}", "tick", any_of(*instants), overlap="allow", grace="10m", **options)
    took = await _open(app)
    assert datetime.now(UTC) < start, f"the first ticks were over before their jobs were declared, which took {took}"


async def _open(app: Witnessed) -> timedelta:
    """How long it takes to declare what is new."""
    began = time.monotonic()
    await app.open()
    took = time.monotonic() - began
    await app.close()
    return timedelta(seconds=took)
