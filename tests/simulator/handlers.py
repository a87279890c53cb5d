"""Handlers with the manners of real ones: quick, flaky, hopeless, long, deaf to being stopped, and deadly."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any

from mainspring.core.declaring.context import JobContext
from mainspring.core.declaring.registry import Registry
from mainspring.core.views.execution import row_of
from mainspring.model.errors import NonRetryable, RetryAfter
from tests.simulator.process import Process, current

Manner = Callable[[JobContext, Process, float, int], Awaitable[None]]


async def _sleep(process: Process, seconds: float) -> None:
    """Work: it takes time, and stands still while its process is stopped."""
    await asyncio.sleep(seconds)
    await process.running()


async def steady(ctx: JobContext, process: Process, seconds: float, times: int) -> None:
    await _sleep(process, seconds)


async def flaky(ctx: JobContext, process: Process, seconds: float, times: int) -> None:
    await _sleep(process, seconds)
    if ctx.attempt <= times:
        raise ConnectionError(f"attempt {ctx.attempt}")


async def broken(ctx: JobContext, process: Process, seconds: float, times: int) -> None:
    await _sleep(process, seconds)
    raise ValueError("always")


async def hopeless(ctx: JobContext, process: Process, seconds: float, times: int) -> None:
    raise NonRetryable("no use")


async def snoozing(ctx: JobContext, process: Process, seconds: float, times: int) -> None:
    if sum(1 for attempt in ctx.execution.attempts if attempt.end == "snoozed") < times:
        raise RetryAfter(seconds, "not yet")
    await _sleep(process, seconds)


async def lasting(ctx: JobContext, process: Process, seconds: float, times: int) -> None:
    """Longer than several leases."""
    for _ in range(5):
        await _sleep(process, 8.0)


async def stubborn(ctx: JobContext, process: Process, seconds: float, times: int) -> None:
    """Goes on for a while when asked to stop, then ends as if nothing had happened."""
    try:
        await _sleep(process, seconds * 4)
    except asyncio.CancelledError:
        await _sleep(process, 3.0)


async def telling(ctx: JobContext, process: Process, seconds: float, times: int) -> None:
    for done in range(4):
        ctx.progress(done, 4)
        ctx.count(steps=1)
        await _sleep(process, seconds)


async def deadly(ctx: JobContext, process: Process, seconds: float, times: int) -> None:
    """Kills its process, whenever and wherever it runs."""
    await _sleep(process, seconds)
    process.judge.count("poisonings")
    process.judge.note(process.name, "poisoned")
    process.kill()
    await process.running()


MANNERS: dict[str, Manner] = {
    manner.__name__: manner
    for manner in (steady, flaky, broken, hopeless, snoozing, lasting, stubborn, telling, deadly)
}
NEW = frozenset({"telling", "flaky"})
"""Handlers that an older release does not have yet."""


@cache
def registry(old: bool) -> Registry:
    """The handlers of the present release, or those of the one before."""
    made = Registry()
    for name, manner in MANNERS.items():
        if not (old and name in NEW):
            made.declare(name, _journalled(manner))
    return made


def _journalled(manner: Manner) -> Callable[..., Awaitable[dict[str, Any]]]:
    async def handle(ctx: JobContext, seconds: float = 0.1, times: int = 1) -> dict[str, Any]:
        process, execution = current.get(), row_of(ctx.execution)
        process.journal.started(execution, process.name)
        end: str = "stopped"
        result = {"id": execution.id, "token": execution.token}
        try:
            await manner(ctx, process, seconds, times)
            end = "completed"
            return result
        except RetryAfter:
            end = "snoozed"
            raise
        except Exception:
            end = "failed"
            raise
        finally:
            if process.alive:
                process.journal.ended(execution, process.name, end, result)

    return handle
