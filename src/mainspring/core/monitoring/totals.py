"""The whole at a glance: numbers over all jobs, whether this process is fit to serve, why a job is not running."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import datetime

import msgspec

from ...model.errors import JobNotFound
from ...model.execution import ExecutionRow, State
from ...model.job import JobState
from ...model.time.instants import SECOND, Micros, maybe_datetime, to_datetime
from ..engine.node import Node
from ..ports import Clock, Store
from ..queries.job_view import JobView
from ..queries.queries import Queries
from .shared_result import WorkedOut
from .why import Reason, facts, reasons, why_it_waits

STORE_PATIENCE = 2.0
CHECKS_MISSED = 3
CHECK_SLACK = 5.0
ENDS = ("completed", "partial", "failed", "cancelled", "skipped", "timed", "rescued")
LIVE = ("pending", "running", "waiting")


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
        self._store, self._queries, self._poll_interval = store, queries, poll_interval
        self._numbers = WorkedOut(self._tallied, clock)

    async def why(self, name: str) -> tuple[JobView, list[Reason]]:
        known = await facts(self._store, self._queries, name)
        return known.view, reasons(known)

    async def why_waiting(self, execution: ExecutionRow) -> list[Reason]:
        """Why one execution has not begun; nothing once it has, or when somebody is about to take it."""
        if execution.state is not State.PENDING:
            return []
        try:
            known = await facts(self._store, self._queries, execution.job, only=execution)
        except JobNotFound:
            return []  # removed meanwhile, and the execution with it
        return why_it_waits(known, execution)

    # --- numbers ------------------------------------------------------------------------------------------
    async def metrics(self, node: Node | None) -> Metrics:
        known = await self._numbers.get()
        return msgspec.structs.replace(known, last_check_at=maybe_datetime(await self._last_check(node)))

    async def _tallied(self) -> Metrics:
        tally = Tally()
        async for page in self._queries.walk():
            tally.add(page)
        return tally.metrics(await self._store.now())

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


class Tally:
    """The numbers of many jobs together, added up page by page."""

    def __init__(self) -> None:
        self._states: Counter[str] = Counter()
        self._ends: Counter[str] = Counter()
        self._live: Counter[str] = Counter()
        self._duration_ms = 0.0

    def add(self, views: Sequence[JobView]) -> None:
        self._states.update(view.state.value for view in views)
        self._duration_ms += sum(view.stats.duration_ms for view in views)
        for name in ENDS:
            self._ends[name] += sum(getattr(view.stats, name) for view in views)
        for name in LIVE:
            self._live[name] += sum(getattr(view.live, name) for view in views)

    def metrics(self, now: Micros) -> Metrics:
        ends, live = self._ends, self._live
        judged = ends["completed"] + ends["partial"] + ends["failed"]
        return Metrics(
            jobs={state.value: self._states[state.value] for state in JobState},
            executions=judged + ends["cancelled"],
            successful=ends["completed"],
            partial=ends["partial"],
            failed=ends["failed"],
            cancelled=ends["cancelled"],
            skipped=ends["skipped"],
            pending=live["pending"],
            running=live["running"],
            waiting=live["waiting"],
            average_duration_ms=self._duration_ms / ends["timed"] if ends["timed"] else None,
            success_rate=ends["completed"] / judged if judged else None,
            stale_locks_cleared=ends["rescued"],
            last_check_at=None,
            updated_at=to_datetime(now),
        )
