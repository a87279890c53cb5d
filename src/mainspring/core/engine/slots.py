"""The slots of a worker: what runs here, what was fetched ahead and waits for a slot, and what runs on though its lease
is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from ...model.events import Started
from ...model.execution import ExecutionRow, Outcome
from ...model.store.messages import ProgressReport
from ...model.time.instants import SECOND
from ..declaring.registry import Registry
from ..emitting import emit_many_of
from ..loops import Emit, Loop
from ..ports import Clock, Store
from .heartbeat import Leases
from .prefetch import STALE, Ahead, Pace
from .runner import Run, Runner

UNREADABLE_PAUSE = 60.0


def _started(run: Run) -> Started:
    return Started(run.execution, run.started)


class Slots:
    def __init__(
        self,
        concurrency: int,
        registry: Registry,
        runner: Runner,
        leases: Leases,
        clock: Clock,
        emit: Emit,
        on_end: Callable[[Run, Outcome], None],
    ) -> None:
        self._concurrency, self._registry, self._runner, self._leases = concurrency, registry, runner, leases
        self._clock, self._emit, self._on_end = clock, emit, on_end
        self._emit_many = emit_many_of(emit)
        self._begun: list[Run] = []  # and not told of yet
        self._loop = asyncio.get_running_loop()
        self._pace = Pace()
        self._ahead = Ahead()
        leases.waiting = self._ahead
        self._lost: set[Run] = set()  # handlers still at it though their lease is gone: they take room, no more
        self.runs: dict[str, Run] = {}
        self.draining = False
        self.idle = asyncio.Event()
        self.idle.set()

    @property
    def running(self) -> int:
        """How many handlers are at work."""
        return len(self.runs) + len(self._lost)

    @property
    def held(self) -> int:
        return len(self.runs) + len(self._lost) + len(self._ahead)

    @property
    def room(self) -> int:
        """How many more may be claimed: for free slots, and to have at hand."""
        return self._concurrency + self._pace.ahead(self._concurrency) - self.held

    @property
    def taken_alone(self) -> bool:
        """Whether what runs here wants nobody beside it."""
        return len(self.runs) == 1 and next(iter(self.runs.values())).execution.alone

    # --- beginning ----------------------------------------------------------------------------------------
    def take(self, execution: ExecutionRow) -> None:
        """A claim has brought it: begin, or keep it at hand."""
        id = execution.id
        if id in self._leases.held:
            self._forget(id)
        self._leases.held[id] = execution.token
        self.idle.clear()
        if execution.cancel_requested is not None or self.draining or not execution.readable:
            self._return(execution)
        elif len(self.runs) + len(self._lost) < self._concurrency:
            self._begin(execution)
        else:
            self._ahead.add(execution, self._clock.monotonic())

    def _forget(self, id: str) -> None:
        """It was claimed anew while it is still held here: that lease was lost unnoticed."""
        if id in self.runs:
            self.lose(self.runs[id])
        self._ahead.pop(id)

    def _begin(self, execution: ExecutionRow) -> None:
        run = self._prepared(execution)
        self.runs[execution.id] = run
        self._begun.append(run)
        if len(self._begun) == 1:
            self._loop.call_soon(self._tell_begun)
        if not run.handler.is_async or self._loop.get_task_factory() is not None:
            self._tell_begun()
        self._runner.begin(run, self._ran)

    def _tell_begun(self) -> None:
        """All that began in this turn of the loop is told at once, before the first of their tasks takes a step: those
        have their turn later. Threads do not wait for that, nor do tasks that somebody else makes."""
        begun, self._begun = self._begun, []
        if begun:
            executions = [run.execution for run in begun]
            self._emit_many(Started, executions, partial(list, map(_started, begun)))

    def _prepared(self, execution: ExecutionRow) -> Run:
        return self._runner.prepare(execution, self._registry.get(execution.handler))

    def _ran(self, run: Run, outcome: Outcome | None) -> None:
        """The handler is done; without an outcome, it was stopped before its first step."""
        if run.abandoned:
            return
        if outcome is None:
            outcome = self._unstarted(run)
        else:
            self._pace.ended((outcome.ended - outcome.started) / SECOND)
        self._end(run, outcome)

    def _end(self, run: Run, outcome: Outcome) -> None:
        """The try is over. Its lease is kept until the store has accepted or refused the ending."""
        if self._lost and run in self._lost:
            self._lost.remove(run)  # its ending is sent all the same: if nobody has taken it over, it counts
        else:
            self.runs.pop(run.execution.id, None)
        self._on_end(run, outcome)
        self._fill()

    def _fill(self) -> None:
        ahead = len(self._ahead)
        while ahead and len(self.runs) + len(self._lost) < self._concurrency:
            self._begin(self._ahead.next())
            ahead -= 1
        if not ahead and not self.held:
            self.idle.set()

    # --- what never begins --------------------------------------------------------------------------------
    def _return(self, execution: ExecutionRow) -> None:
        run = self._prepared(execution)
        self._end(run, self._unstarted(run))

    def _unstarted(self, run: Run) -> Outcome:
        """A claim whose handler never starts: it was asked to stop before, this worker is leaving or too slow, or it is
        work of a newer release, left for a while to nodes that can read it."""
        ending: dict[str, Any] = {"end": "handed_back"}
        if not run.execution.readable:
            words = f"this release cannot read its rules: {run.execution.policy}"
            ending = {"end": "snoozed", "delay": UNREADABLE_PAUSE, "error": words}
        elif run.execution.cancel_requested is not None:
            ending = {"end": "cancelled", "reason": run.execution.cancel_reason}
        return Outcome(started=run.started, ended=run.started, worker=self._leases.info.id, begun=False, **ending)

    def notice_vanished(self) -> None:
        """A task that a stranger cancelled before its first step never says that it is over."""
        tasks = [(run, run.task) for run in (*self.runs.values(), *self._lost) if not run.entered]
        for run, task in tasks:
            if task is not None and task.done():
                self._ran(run, None)

    def hand_back_stale(self) -> None:
        """What was fetched ahead and has waited too long goes back: another worker may be free."""
        if not self._ahead:
            return
        waited = self._clock.monotonic() - self._ahead.since
        if waited >= STALE:
            self._pace.ended(waited)
            self.hand_back_ahead()

    def hand_back_ahead(self) -> None:
        for execution in self._ahead.let_go():
            self._return(execution)

    # --- ending early -------------------------------------------------------------------------------------
    def cancel(self, id: str, reason: str) -> None:
        run = self.runs.get(id)
        if run is not None and run.stopped is None:
            run.cancel(reason, self._clock.now())
        elif (waiting := self._ahead.pop(id)) is not None:
            self._return(msgspec.structs.replace(waiting, cancel_requested=self._clock.now(), cancel_reason=reason))

    def lose(self, run: Run) -> None:
        """Stop it, and let go of its id: the same execution may be claimed anew here before its handler has ended."""
        if self.runs.get(run.execution.id) is run:
            del self.runs[run.execution.id]
            self._lost.add(run)
            self._leases.give_up(run.execution)
            run.stop("lost", "the lease was lost")

    def lose_id(self, id: str) -> None:
        if id in self.runs:
            self.lose(self.runs[id])
        elif (waiting := self._ahead.pop(id)) is not None:
            self._leases.give_up(waiting)
            self._fill()

    def lose_all(self) -> None:
        for execution in self._ahead.let_go():
            self._leases.give_up(execution)
        for run in list(self.runs.values()):
            self.lose(run)
        self._fill()

    def abandon_all(self) -> None:
        """These handlers do not end: hand their executions back without them. Their tokens keep them from writing."""
        for run in self._lost:
            run.abandoned = True
        for run in list(self.runs.values()):
            run.abandoned = True
            ended = max(self._clock.now(), run.started)
            outcome = Outcome(end="handed_back", started=run.started, ended=ended, worker=self._leases.info.id)
            run.end_trace(outcome, None)
            self._end(run, outcome)


INTERVAL = 0.5
CANCEL_CHECK_INTERVAL = 0.2


class Notes:
    def __init__(self, store: Store, slots: Slots, leases: Leases, clock: Clock, emit: Emit, rarely: float) -> None:
        self._store, self._slots, self._leases, self._clock, self._rarely = store, slots, leases, clock, rarely
        self._last_cancel_check = float("-inf")
        self.loop = Loop("notes", self._step, emit)

    async def _step(self) -> float:
        if not self._slots.held:
            return self._rarely if self._slots.draining else INTERVAL * 4
        self._slots.notice_vanished()
        self._slots.hand_back_stale()
        await self._check_cancels()
        await self.write(list(self._slots.runs.values()))
        return INTERVAL

    async def _check_cancels(self) -> None:
        now = self._clock.monotonic()
        if now - self._last_cancel_check >= CANCEL_CHECK_INTERVAL:
            self._last_cancel_check = now
            for id, reason in (await self._store.cancels(self._leases.info.id)).items():
                self._slots.cancel(id, reason)

    async def write(self, runs: Sequence[Run]) -> None:
        """Progress, counters and log lines, fenced like an ending: a refused note means the lease is lost."""
        noted = [(run, note) for run in runs if (note := self._note(run)) is not None]
        if not noted:
            return
        try:
            stored = await self._store.report([note for _, note in noted])
        except BaseException:
            for run, note in noted:
                run.context.undrain(note.progress_json, note.counters_json, note.logs)
            raise
        for (run, _), accepted in zip(noted, stored, strict=True):
            if not accepted:
                self._slots.lose(run)

    def _note(self, run: Run) -> ProgressReport | None:
        drained = run.context.drain()
        if drained is None:
            return None
        progress, counters, logs = drained
        return ProgressReport(
            id=run.execution.id,
            token=run.execution.token,
            owner=self._leases.info.id,
            progress_json=progress,
            counters_json=counters,
            logs=logs,
        )
