"""The overview of all jobs: totals, the health of this process, and why a job is not running."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import datetime

import msgspec

from ...model.errors import JobNotFound
from ...model.execution import ExecutionRow, State
from ...model.job import JobState
from ...model.time.instants import SECOND, Micros, maybe_datetime, to_datetime
from ..engine.node import Node
from ..ports import Clock, Store
from ..queries.queries import Queries
from ..views.job import JobView, stats_of
from .single_flight import SingleFlight
from .why import Reason, reasons, why_it_waits
from .why_facts import facts

STORE_TIMEOUT = 2.0
CHECKS_MISSED = 3
CHECK_SLACK = 5.0
ENDS = ("completed", "partial", "failed", "cancelled", "skipped", "timed", "rescued")
LIVE = ("pending", "running", "waiting")


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """`jobs` counts them by state; `executions` have ended, without skipped ones."""

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
        self._totals = SingleFlight(self._add_up, clock)

    async def why(self, name: str) -> tuple[JobView, list[Reason]]:
        known = await facts(self._store, self._queries, name)
        return known.view, reasons(known)

    async def why_waiting(self, execution: ExecutionRow) -> list[Reason]:
        """Why one execution has not begun; empty once it has, or when a worker is about to claim it."""
        if execution.state is not State.PENDING:
            return []
        try:
            known = await facts(self._store, self._queries, execution.job, only=execution)
        except JobNotFound:
            return []  # removed meanwhile, and the execution with it
        return why_it_waits(known, execution)

    async def metrics(self, node: Node | None) -> Totals:
        totals = await self._totals.get()
        return msgspec.structs.replace(totals, last_check_at=maybe_datetime(await self._last_check(node)))

    async def _add_up(self) -> Totals:
        states: Counter[str] = Counter()
        counts: Counter[str] = Counter()
        duration_ms = 0.0
        async for views in self._queries.walk():
            states.update(view.state.value for view in views)
            duration_ms += sum(stats_of(view).duration_ms for view in views)
            for view in views:
                counts.update({name: getattr(stats_of(view), name) for name in ENDS})
                counts.update({name: getattr(view.live, name) for name in LIVE})
        judged = counts["completed"] + counts["partial"] + counts["failed"]
        return Totals(
            jobs={state.value: states[state.value] for state in JobState},
            executions=judged + counts["cancelled"],
            successful=counts["completed"],
            partial=counts["partial"],
            failed=counts["failed"],
            cancelled=counts["cancelled"],
            skipped=counts["skipped"],
            pending=counts["pending"],
            running=counts["running"],
            waiting=counts["waiting"],
            average_duration_ms=duration_ms / counts["timed"] if counts["timed"] else None,
            success_rate=counts["completed"] / judged if judged else None,
            stale_locks_cleared=counts["rescued"],
            last_check_at=None,
            updated_at=to_datetime(await self._store.now()),
        )

    async def _last_check(self, node: Node | None) -> Micros | None:
        """When this process last looked for due jobs; if it is no scheduler, when one last sent a heartbeat."""
        if node is not None and node.scheduler.last_check is not None:
            return node.scheduler.last_check
        seen = [worker.seen for worker in await self._queries.workers() if "scheduler" in worker.roles]
        return max(seen, default=None)

    async def troubles(self, node: Node | None) -> list[str]:
        """The parts of this process that do not work: "store" or "scheduler"."""
        try:
            async with asyncio.timeout(STORE_TIMEOUT):
                now = await self._store.now()
        except Exception:
            return ["store"]
        if node is None or not node.is_scheduler:
            return []
        checked = node.scheduler.last_check
        limit = int((CHECKS_MISSED * self._poll_interval + CHECK_SLACK) * SECOND)
        return ["scheduler"] if checked is None or now - checked > limit else []
