"""The whole at a glance: numbers over all jobs, whether this process is fit to serve, why a job is not running."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import datetime

import msgspec

from ..model.instants import SECOND, Micros, maybe_datetime, to_datetime
from ..model.job import JobState
from .node import Node
from .ports import Clock, Store
from .queries import Queries
from .views import JobView
from .why import Reason, facts, reasons

METRICS_LAST = 1.0
SHARE = 10
"""Numbers over all jobs are worked out anew at most every second, and so that it takes a tenth of the time at most."""
STORE_PATIENCE = 2.0
CHECKS_MISSED = 3
CHECK_SLACK = 5.0


class Metrics(msgspec.Struct, frozen=True, kw_only=True):
    """`jobs` counts them by state; executions are those that have ended, skipped ones apart."""

    jobs: dict[str, int]
    executions: int
    successful: int
    partial: int
    failed: int
    cancelled: int
    skipped: int
    pending: int
    running: int
    waiting: int
    average_duration_ms: float | None
    success_rate: float | None
    stale_locks_cleared: int
    last_check_at: datetime | None
    updated_at: datetime


class Overview:
    def __init__(self, store: Store, queries: Queries, clock: Clock, poll_interval: float) -> None:
        self._store, self._queries, self._clock, self._poll_interval = store, queries, clock, poll_interval
        self._known: tuple[Metrics, float] | None = None

    async def why(self, name: str) -> tuple[JobView, list[Reason]]:
        known = await facts(self._store, self._queries, name)
        return known.view, reasons(known)

    # --- numbers ------------------------------------------------------------------------------------------
    async def metrics(self, node: Node | None) -> Metrics:
        began = self._clock.monotonic()
        if self._known is None or began >= self._known[1]:
            made = summary(await self._queries.jobs(), await self._store.now())
            done = self._clock.monotonic()
            self._known = (made, done + max(METRICS_LAST, SHARE * (done - began)))
        return msgspec.structs.replace(self._known[0], last_check_at=maybe_datetime(await self._last_check(node)))

    async def _last_check(self, node: Node | None) -> Micros | None:
        """When this process last looked for what is due; if it is no scheduler, when one was last heard of."""
        if node is not None and node.scheduler.last_check is not None:
            return node.scheduler.last_check
        heard = [worker.seen for worker in await self._queries.workers() if "scheduler" in worker.roles]
        return max(heard, default=None)

    # --- fitness ------------------------------------------------------------------------------------------
    async def troubles(self, node: Node | None) -> list[str]:
        """What keeps this process from doing its part: nothing, if all is well."""
        try:
            async with asyncio.timeout(STORE_PATIENCE):
                now = await self._store.now()
        except Exception:
            return ["store"]
        if node is None or not node.is_scheduler:
            return []
        checked = node.scheduler.last_check
        limit = int((CHECKS_MISSED * self._poll_interval + CHECK_SLACK) * SECOND)
        return ["scheduler"] if checked is None or now - checked > limit else []


def summary(views: Sequence[JobView], now: Micros) -> Metrics:
    """The numbers of all these jobs together."""
    states = Counter(view.state.value for view in views)
    stats = [view.stats for view in views]
    completed, failed = sum(each.completed for each in stats), sum(each.failed for each in stats)
    partial, timed = sum(each.partial for each in stats), sum(each.timed for each in stats)
    judged = completed + partial + failed
    return Metrics(
        jobs={state.value: states[state.value] for state in JobState},
        executions=sum(each.total for each in stats),
        successful=completed,
        partial=partial,
        failed=failed,
        cancelled=sum(each.cancelled for each in stats),
        skipped=sum(each.skipped for each in stats),
        pending=sum(view.live.pending for view in views),
        running=sum(view.live.running for view in views),
        waiting=sum(view.live.waiting for view in views),
        average_duration_ms=sum(each.duration_ms for each in stats) / timed if timed else None,
        success_rate=completed / judged if judged else None,
        stale_locks_cleared=sum(each.rescued for each in stats),
        last_check_at=None,
        updated_at=to_datetime(now),
    )
