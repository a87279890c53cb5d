"""Walks over waiting executions: they give executions the changed ceiling of their queue, or release them after the
resume of their job. One node at a time walks, in bounded steps. The control stores how far it has come, so that another
node can continue."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from ...model.controls import Known, Walk, ceiling_limits, control_entry
from ...model.execution import ExecutionRow, State
from ...model.store.entries import EntryWrite
from ...model.store.messages import Change, ExecutionQuery, ExecutionsFound
from ...model.time.instants import SECOND, Micros
from ..ports import Store
from ..rules import transitions
from ..rules.controls import ceiling_change
from .commands import write_control

STEP = 500
BUDGET = 5_000
TURN: Micros = 10 * SECOND
"""How long a node keeps its turn after its last step."""
SLACK: Micros = 5 * SECOND
_PENDING = frozenset({State.PENDING})


class Walker:
    def __init__(self, store: Store, node: str) -> None:
        self._store, self._node = store, node

    async def release(self, known: Known, now: Micros) -> float:
        """Release held executions of a job that is no longer paused. The control is removed when that is done."""
        query = ExecutionQuery(job_id=known.control.job_id, states=_PENDING)

        def change(execution: ExecutionRow) -> Change | None:
            return transitions.release(execution, now) if execution.held else None

        return await self._step(known, now, query, change)

    async def apply_ceiling(self, known: Known, now: Micros) -> float:
        """Give the waiting executions of a queue its present ceiling, or take it from them."""
        ceiling = ceiling_limits(known.name, known.control)
        query = ExecutionQuery(queue=known.name, states=_PENDING)
        return await self._step(known, now, query, lambda execution: ceiling_change(execution, ceiling, now))

    async def _step(
        self, known: Known, now: Micros, query: ExecutionQuery, change: Callable[[ExecutionRow], Change | None]
    ) -> float:
        """One page. Returns the seconds until the next step."""
        walk = known.control.walk or Walk(since=now)
        if walk.walker not in ("", self._node) and now < walk.until:
            return (walk.until - now) / SECOND
        if walk.last and not walk.place and (wait := walk.since + await self._linger() - now) > 0:
            return wait / SECOND
        page = msgspec.structs.replace(query, after=walk.place or None, oldest_first=True, limit=STEP)
        found = await self._page(page)
        await self._apply([each for row in found.rows if (each := change(row)) is not None])
        if found.searched_to is not None or len(found.rows) == STEP:
            place = found.searched_to or found.rows[-1].id
            after = msgspec.structs.replace(walk, place=place, walker=self._node, until=now + TURN)
        elif walk.last:
            return await self._finish(known)
        else:
            after = Walk(since=walk.since, last=True)
        won = await write_control(self._store, known, msgspec.structs.replace(known.control, walk=after))
        return 0.0 if won else 1.0

    async def _page(self, query: ExecutionQuery) -> ExecutionsFound:
        """The executions of a job have an index; those of a queue are found by a search with a budget."""
        if query.queue is None:
            return ExecutionsFound(await self._store.find(query))
        return await self._store.search(query, BUDGET)

    async def _apply(self, changes: Sequence[Change]) -> None:
        """Store these changes. A refused change needs nothing more: its execution was claimed or changed meanwhile."""
        if changes:
            await self._store.exchange(changes, None)

    async def _finish(self, known: Known) -> float:
        if known.subject == "job":
            entry = control_entry(known.subject, known.name, known.control)
            await self._store.write_entries([EntryWrite(entry=entry, seen_version=known.version, remove=True)])
        else:
            await write_control(self._store, known, msgspec.structs.replace(known.control, walk=None))
        return 1.0

    async def _linger(self) -> Micros:
        """How long a node that has not read the changed control may still write under the old one: as long as its lease
        lasts."""
        longest = max((worker.lease for worker in await self._store.workers()), default=0.0)
        return int(longest * SECOND) + SLACK
