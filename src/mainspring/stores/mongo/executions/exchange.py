"""Settle, then claim: the claim sees the keys that the settle freed."""

from __future__ import annotations

from collections.abc import Sequence

from pymongo.errors import PyMongoError

from ....core.ports import Topic
from ....model.execution import State
from ....model.store.messages import Change, ClaimRequest, Exchanged
from .. import audit
from ..connection.database import Database, is_unreachable, repeated
from ..jobs.documents import stopped
from ..limits.parking import bring_forward, look_at_parked
from ..limits.waking import may_wait, promote, wake_freed
from .candidates import look
from .claim import Claimed
from .claim import claim as claim_rows
from .settle import settle


async def exchange(db: Database, changes: Sequence[Change], claim: ClaimRequest | None) -> tuple[Exchanged, set[Topic]]:
    """The answer, and what others should be told."""
    applied = await settle(db, changes) if changes else []
    done = [change for change, did in zip(changes, applied, strict=True) if did]
    audited = [change.id for change in done if change.audit is not None]
    if audited:
        await audit.move_out(db, db.executions, audited)
    left = [change for change in done if change.to.final or change.expect is not State.WAITING]
    topics = {Topic.ENDED if change.to.final else Topic.WORK for change in done}
    if claim is None:
        return await _without_claim(db, applied, left, topics)
    try:
        found = await claim_rows(db, claim, left)
        cancelled = await repeated(lambda: stopped(db, found.rows)) if found.rows and found.cancelled else frozenset()
    except PyMongoError as error:
        if not any(applied) or not is_unreachable(error):
            raise
        # The endings are safe, and whoever sent them must hear of it. The next claim meets the trouble on its own.
        found, cancelled = Claimed(more=True, now=max(change.at for change in changes)), frozenset()
    answer = Exchanged(
        applied=tuple(applied),
        claimed=tuple(found.rows),
        blocked=tuple(found.blocked),
        stopped=cancelled,
        alone_waiting=found.alone_waiting,
        more=found.more,
        next_due=found.next_due,
        now=found.now,
    )
    return answer, topics | {Topic.WORK} if found.woken else topics


async def _without_claim(
    db: Database, applied: Sequence[bool], left: Sequence[Change], topics: set[Topic]
) -> tuple[Exchanged, set[Topic]]:
    outlook = await repeated(lambda: look(db, None, 1, waiters=bool(left)))
    woken = (outlook.waiters or may_wait(db, left)) and bool(await wake_freed(db, left))
    if woken:
        outlook = await repeated(lambda: look(db, None, 1, waiters=False))
    if outlook.is_ahead():
        await bring_forward(db)
    if outlook.is_due(outlook.next_look) or outlook.is_ahead():
        woken = bool(await look_at_parked(db)) or woken
    if woken:
        await promote(db, outlook.now)
        outlook = await repeated(lambda: look(db, None, 1, waiters=False))
        topics = {*topics, Topic.WORK}
    known = [due for due in (outlook.next_due, outlook.next_look) if due is not None]
    return Exchanged(applied=tuple(applied), next_due=min(known, default=None), now=outlook.now), topics
