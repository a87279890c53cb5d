"""Moves time from one instant at which something is due to the next, and does everything due at each of them.

At each instant the real scheduler makes the ticks; then the executions that are ready run one by one, with what they
enqueue, until none is left; follow-ups and sweeps are done in between. Nothing runs in the background, nothing sleeps.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from ..core.cancelling import BATCH, cancel_all, sweep_job
from ..core.declaring.registry import Registry
from ..core.engine.follow_ups import do_follow_ups
from ..core.engine.scheduler import Scheduler
from ..core.engine.thread_pool import Threads
from ..core.tenants.endings import check_open_parents
from ..model.events import Trouble
from ..model.execution import ExecutionRow, State
from ..model.time.instants import SECOND, Micros
from .clock import FakeClock
from .one_by_one import OneByOne, Ran
from .recording import RecordingStore

FOR_EVER = 100 * 365 * 86_400.0
MANY = 10_000
"""After so many runs at one instant, something must be making new work for ever."""


class Stepper:
    """Does the work of one call of the kit, inside its event loop."""

    def __init__(
        self,
        store: RecordingStore,
        registry: Registry,
        clock: FakeClock,
        chance: Random,
        emit: Callable[[object], None],
        patience: float,
        on_run: Callable[[Ran], None],
        threads: Threads,
        context: dict[str, Any],
    ) -> None:
        self._store, self._clock, self._emit_event, self._on_run = store, clock, emit, on_run
        self._troubles: list[Trouble] = []
        self._scheduler = Scheduler(store, clock, chance, self._emit, FOR_EVER)
        self._worker = OneByOne(store, registry, clock, chance, self._emit, patience, threads, **context)
        self._retried: set[str] = set()
        self._runs = 0
        self._deadline: Micros | None = None

    def close(self) -> None:
        self._worker.close()

    async def pass_time(self, until: Micros) -> None:
        """Do everything due until then, each at its own time, in order."""
        await self._do_instant()
        while (upcoming := await self._next_instant()) is not None and upcoming <= until:
            self._move_to(upcoming)
            await self._do_instant()
        self._move_to(until)

    async def settle(self) -> None:
        """Run everything due now, and everything that has begun, to its end: time leaps to the retries."""
        self._retried = {each.id for each in self._store.recorded if _awaits_retry(self._store.latest(each))}
        before = self._runs
        await self._do_instant()
        while self._unfinished() and (upcoming := await self._next_instant()) is not None:
            if self._runs - before > MANY:
                names = ", ".join(sorted({execution.job for execution in self._unfinished()}))
                raise AssertionError(f"not idle after {MANY:,} runs: {names} is retried again and again")
            self._move_to(upcoming)
            await self._do_instant()

    def _unfinished(self) -> list[ExecutionRow]:
        """Executions that wait for a retry; some may have been cancelled since."""
        rows = [row for row in map(self._store.row, self._retried) if row is not None and _awaits_retry(row)]
        self._retried = {row.id for row in rows}
        return rows

    # --- one instant --------------------------------------------------------------------------------------
    async def _do_instant(self) -> None:
        before = self._runs
        while True:
            await self._scheduler.step()
            await self._sweep()
            ran = await self._worker.run_next()
            self._raise_trouble()
            if ran is None:
                return
            self._runs += 1
            if ran.change.to is State.PENDING:
                self._retried.add(ran.execution.id)
            if self._runs - before > MANY:
                raise AssertionError(_endless(ran))
            self._on_run(ran)

    async def _sweep(self) -> None:
        """Do the follow-ups of endings, cancel what cancelled jobs have left, and fold statistics."""
        self._deadline = (await check_open_parents(self._store, self._clock.now(), self._emit)).next_deadline
        while await do_follow_ups(self._store, self._clock.now(), self._emit):
            pass
        await cancel_all(self._store, await self._store.unserved_cancels(BATCH), "cancelled", self._emit)
        for job in await self._store.swept(BATCH):
            await sweep_job(self._store, job, self._emit)
        await self._store.fold(BATCH)

    async def _next_instant(self) -> Micros | None:
        jobs = (await self._store.due_jobs(1)).next_due
        work = (await self._store.exchange([], None)).next_due
        return min((at for at in (jobs, work, self._deadline) if at is not None), default=None)

    def _move_to(self, at: Micros) -> None:
        if at > self._clock.now():
            self._clock.advance((at - self._clock.now()) / SECOND)

    def _emit(self, event: object) -> None:
        if isinstance(event, Trouble):
            self._troubles.append(event)
        self._emit_event(event)

    def _raise_trouble(self) -> None:
        if self._troubles:
            first, self._troubles = self._troubles[0], []
            raise AssertionError(f"Mainspring itself had trouble in {first.where}: {first.error}\n{first.traceback}")


def _awaits_retry(execution: ExecutionRow) -> bool:
    return execution.state is State.PENDING and execution.token > 0


def _endless(ran: Ran) -> str:
    return (
        f"more than {MANY:,} runs at one instant, the last of {ran.execution.job!r}: something enqueues new work for "
        f"ever. Look for a handler that enqueues itself without a start_at"
    )
