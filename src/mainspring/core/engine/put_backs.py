"""Executions that a worker has claimed and that a control keeps from beginning. They go back to their place in the
queue; no attempt ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from typing import NamedTuple

from ...model.errors import StoreError
from ...model.execution import ExecutionRow
from ...model.store.messages import Change
from ..ports import Clock
from ..rules.controls import NOTHING_SET, ControlsInForce

LOOK_TIMEOUT = 1.0


class PutBack(NamedTuple):
    """An execution that a control keeps from beginning, and the change that puts it back."""

    execution: ExecutionRow
    change: Change


class PutBacks:
    """The executions that the store has not taken back yet, and the controls that the worker obeys."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: list[PutBack] = []
        self.controls: ControlsInForce = NOTHING_SET
        self.look: Callable[[], Awaitable[None]] | None = None
        """Reads the controls, and lets the worker obey them."""

    def __len__(self) -> int:
        return len(self._waiting)

    def keep(self, execution: ExecutionRow) -> bool:
        """Whether a control keeps this execution from beginning. If so, it goes back with the next exchange."""
        if self.controls is NOTHING_SET:
            return False
        change = self.controls.put_back(execution, self._clock.now())
        if change is not None:
            self._waiting.append(PutBack(execution, change))
        return change is not None

    def take(self) -> list[PutBack]:
        taken, self._waiting = self._waiting, []
        return taken

    def restore(self, taken: list[PutBack]) -> None:
        """Keep these for the next exchange, because this one failed."""
        self._waiting = taken + self._waiting

    def all_paused(self, queues: frozenset[str] | None) -> bool:
        """Whether all of these queues are paused."""
        return queues is not None and queues <= self.controls.paused_queues

    async def look_again(self, claimed: Collection[ExecutionRow]) -> None:
        """Read the controls again if executions of paused jobs were claimed, because a job may have been resumed
        meanwhile. An execution that is held after the resume would wait for the last pass of the walk that releases
        them."""
        held = self.controls.held_jobs
        if self.look is not None and held and any(each.job_id in held for each in claimed):
            with suppress(StoreError, TimeoutError):
                async with asyncio.timeout(LOOK_TIMEOUT):
                    await self.look()
