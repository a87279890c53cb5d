"""The watch over controls: every node reads them once a second and obeys them. One node at a time does the work that
they cause, such as walks over waiting executions (`upkeep`).

While there are no controls, this costs one small read each second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ...model.controls import Control, Known
from ...model.time.instants import SECOND, Micros
from ...model.values.ids import Chance
from ..auditing import audit_record
from ..loops import Emit, Loop, NothingAsked, stop_all
from ..ports import Clock, Store
from ..rules.controls import NOTHING_SET, ControlsInForce, controls_in_force, in_force
from .commands import read_controls, summary, write_control
from .holds import may_be_left_over, paused_jobs
from .walks import Walker

INTERVAL = 1.0
REST = 60.0
"""Seconds between two rounds of upkeep if nothing wakes it."""
DEAD_AFTER: Micros = 24 * 3600 * SECOND
"""A worker that was not stopped in an orderly way keeps its drain for this long: it may only have lost its
connection."""


class ControlWatch:
    def __init__(
        self, store: Store, clock: Clock, chance: Chance, emit: Emit, node: str, on_change: Callable[[], None]
    ) -> None:
        """`on_change` is called when the controls in force have changed, and while executions are released."""
        self._store, self._clock, self._chance, self._node = store, clock, chance, node
        self._on_change = on_change
        self._walker = Walker(store, node)
        self._looking = asyncio.Lock()
        self._found: list[Known] = []
        self.known = False
        """Whether the controls have been read. Until then it is unknown which executions may begin."""
        self.in_force: ControlsInForce = NOTHING_SET
        self._watch = Loop("controls", self._look, emit)
        self._upkeep = Loop("control upkeep", self._tidy, emit)

    @property
    def drained(self) -> bool:
        """Whether this node is to take no more work."""
        return self._node in self.in_force.drained

    def start(self) -> None:
        self._watch.start()
        self._upkeep.start()

    def wake(self) -> None:
        self._watch.wake()

    async def stop(self, timeout: float) -> None:
        await stop_all([self._watch, self._upkeep], timeout)

    async def look(self) -> None:
        """Read the controls and obey them. The lock lets one reader in at a time, so that older controls never replace
        newer ones."""
        async with self._looking:
            await self._read()

    async def _read(self) -> None:
        found = await read_controls(self._store)
        if not found and not self._found and self.known:
            return
        held = await paused_jobs(self._store, found)
        now, paused_ids = self._clock.now(), frozenset(job.id for job in held.values())
        before, first, self._found = self.in_force, not self._found, found
        self.in_force = controls_in_force(found, paused_ids, now) if found else NOTHING_SET
        walks = any(each.control.walk is not None for each in found)
        if self.in_force != before or walks or not self.known:
            self.known = True
            self._on_change()
        left_over = [each for each in found if each.subject == "job" and each.name not in held]
        if first or walks or left_over or any(in_force(each.control, now) != each.control for each in found):
            self._upkeep.wake()

    async def _look(self) -> float:
        await self.look()
        return INTERVAL

    # --- upkeep: any node may do it, and compare-and-set lets one of them -----------------------------------
    async def _tidy(self) -> float:
        if not self._found:
            return NothingAsked(3600.0)
        return await self.tidy()

    async def tidy(self) -> float:
        """Do one bounded step for each control that needs it. Returns the seconds until the next step."""
        found = await read_controls(self._store)
        held = await paused_jobs(self._store, found)
        now = await self._store.now()
        return min([REST, *[await self._tidy_one(each, each.name in held, now) for each in found]])

    async def _tidy_one(self, known: Known, held: bool, now: Micros) -> float:
        control = known.control
        match known.subject:
            case "worker":
                if now - (control.paused or 0) > DEAD_AFTER and not await self._has_row(known.name):
                    await write_control(self._store, known, Control())
            case "job":
                if not held:
                    return await self._walker.release(known, now) if may_be_left_over(known, now) else INTERVAL
            case "queue" | "handler":
                if in_force(control, now) != control:
                    await self._end_pause(known, now)
                elif control.walk is not None:
                    return await self._walker.apply_ceiling(known, now)
        return REST

    async def _has_row(self, worker: str) -> bool:
        return any(each.id == worker for each in await self._store.workers())

    async def forget_drain(self) -> None:
        """Remove the drain of this node, which leaves for good."""
        for each in self._found:
            if each.subject == "worker" and each.name == self._node:
                await write_control(self._store, each, Control())

    async def _end_pause(self, known: Known, now: Micros) -> None:
        after = in_force(known.control, now)
        audit = audit_record(
            self._chance,
            f"resume_{known.subject}",
            f"{known.subject}:{known.name}",
            "system",
            now,
            before=summary(known.control),
            after=summary(after),
        )
        await write_control(self._store, known, after, audit=audit)
