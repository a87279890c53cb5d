"""What handlers report while they run (progress, counters, log lines) and what reaches them (cancel requests)."""

from __future__ import annotations

from collections.abc import Sequence

from ..model.changes import Note
from .heart import Leases
from .loop import Emit, Loop
from .ports import Clock, Store
from .runner import Run
from .slots import Slots

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
            stored = await self._store.note([note for _, note in noted])
        except BaseException:
            for run, note in noted:
                run.context.undrain(note.progress_json, note.counters_json, note.logs)
            raise
        for (run, _), accepted in zip(noted, stored, strict=True):
            if not accepted:
                self._slots.lose(run)

    def _note(self, run: Run) -> Note | None:
        drained = run.context.drain()
        if drained is None:
            return None
        progress, counters, logs = drained
        return Note(
            id=run.execution.id,
            token=run.execution.token,
            owner=self._leases.info.id,
            progress_json=progress,
            counters_json=counters,
            logs=logs,
        )
