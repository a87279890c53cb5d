"""Settle, then claim: the claim sees the keys that the settle freed."""

from __future__ import annotations

from collections.abc import Sequence

from ....core.ports import Topic
from ....model.errors import StoreUnavailable
from ....model.execution import ExecutionRow, State
from ....model.store.messages import Change, ClaimRequest, Exchanged
from ..connection.database import Database, StorePart
from ..limits.waking import NOTHING, freed_by, recheck_disturbed, wake_rows
from .candidates import Claimed
from .claim import claim, ready_candidates
from .settle import settle


class Exchange(StorePart):
    async def exchange(self, changes: Sequence[Change], claim: ClaimRequest | None) -> Exchanged:
        db = self.db
        applied = await settle(db, changes) if changes else []
        done = [change for change, did in zip(changes, applied, strict=True) if did]
        freed = [change for change in done if change.to.final or change.expect is not State.WAITING]
        topics = {Topic.ENDED if change.to.final else Topic.WORK for change in done}
        try:
            found = await _claim(db, claim, freed)
            stopped = await _cancelled_jobs(db, found.rows) if found.cancelled else frozenset()
        except StoreUnavailable:
            if not done:
                raise
            # The changes are safe, and their sender must know. The next claim meets the problem on its own.
            found, stopped = Claimed(more=claim is not None, now=max(change.at for change in changes)), frozenset()
        self.wake(topics | {Topic.WORK} if found.woken else topics)
        return Exchanged(
            applied=tuple(applied),
            claimed=tuple(found.rows),
            blocked=tuple(found.blocked),
            stopped=stopped,
            alone_waiting=found.alone_waiting,
            more=found.more,
            next_due=found.next_due,
            now=found.now,
        )


async def _claim(db: Database, request: ClaimRequest | None, changes: Sequence[Change]) -> Claimed:
    freed = await freed_by(db, changes) if changes else NOTHING
    if freed.disturbed:
        await recheck_disturbed(db, freed.disturbed)
    if request is not None:
        return await claim(db, request, freed)
    answer, found = Claimed(), await ready_candidates(db, None, 1, freed)
    answer.add_candidates(found)
    answer.woken |= await wake_rows(db, list(found.turns)) > 0
    return answer


async def _cancelled_jobs(db: Database, rows: Sequence[ExecutionRow]) -> frozenset[str]:
    """The ids of those jobs of these rows that are cancelled."""
    names = list({row.job for row in rows})
    if not names:
        return frozenset()
    cancelled = {"_id": {"$in": names}, "cancelled": {"$exists": True}}
    found = await db.jobs.find(cancelled, {"id": 1})
    return frozenset(doc["id"] for doc in found) & {row.job_id for row in rows}
