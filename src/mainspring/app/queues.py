"""`app.queues` and `app.handlers`: operators inspect and control them at run time, for all processes."""

from __future__ import annotations

from ..core.monitoring.queues import MOST_PROCESSES
from ..core.views.queues import HandlerView, QueueView, ScaleView
from ..model.values.given import Duration, Instant, Rate
from .runtime import Runtime


class AppQueues:
    """Queues: what waits in each, and the controls that operators set for all processes."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def all(self) -> list[QueueView]:
        """Every queue that a job or a worker names, that has live executions, or that has a control."""
        return await (await self._runtime.engine()).queues.all()

    async def get(self, name: str) -> QueueView:
        """One queue. A queue that nobody has used is empty."""
        return await (await self._runtime.engine()).queues.get(name)

    async def pause(
        self,
        name: str,
        *,
        note: str | None = None,
        resume_at: Instant | None = None,
        resume_after: Duration | None = None,
        by: str = "system",
    ) -> QueueView:
        """Pause a queue: no process starts its executions until it is resumed. Running executions complete."""
        parts = await self._runtime.engine()
        await parts.controls.pause("queue", name, by=by, note=note, until=resume_at, lasts=resume_after)
        return await parts.queues.get(name)

    async def resume(self, name: str, *, by: str = "system") -> QueueView:
        """End a pause."""
        parts = await self._runtime.engine()
        await parts.controls.resume("queue", name, by=by)
        return await parts.queues.get(name)

    async def limit(
        self, name: str, *, concurrency: int | None = None, rate: Rate | None = None, by: str = "system"
    ) -> QueueView:
        """Set the ceilings of a queue for all processes together: at most `concurrency` executions run at once, and at
        most `rate` start (`"100/m"`). A ceiling that you leave out is removed. Running executions are not stopped."""
        parts = await self._runtime.engine()
        await parts.controls.limit(name, by=by, concurrency=concurrency, rate=rate)
        return await parts.queues.get(name)

    async def scale(self, name: str | None = None, *, min: int = 0, max: int = MOST_PROCESSES) -> ScaleView:
        """For an autoscaler: how many processes this queue needs, or all queues together."""
        return await (await self._runtime.engine()).queues.scale(name, low=min, high=max)


class AppHandlers:
    """Handlers: which workers have them, and pauses that operators set for all processes."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def all(self) -> list[HandlerView]:
        """Every handler that a running worker has, or that is paused."""
        return await (await self._runtime.engine()).queues.handlers()

    async def pause(
        self,
        name: str,
        *,
        note: str | None = None,
        resume_at: Instant | None = None,
        resume_after: Duration | None = None,
        by: str = "system",
    ) -> HandlerView:
        """Pause a handler: no process starts its executions until it is resumed, whatever their job or queue."""
        parts = await self._runtime.engine()
        await parts.controls.pause("handler", name, by=by, note=note, until=resume_at, lasts=resume_after)
        return await parts.queues.handler(name)

    async def resume(self, name: str, *, by: str = "system") -> HandlerView:
        """End a pause."""
        parts = await self._runtime.engine()
        await parts.controls.resume("handler", name, by=by)
        return await parts.queues.handler(name)
