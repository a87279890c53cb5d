"""What the endings of tenants mean for their parent, and the parent's ending for them.

A parent waits without a worker. The follow-up of every tenant checks along an index whether a sibling is live; only if
none is, they are counted. A parent that ends by itself, because it was cancelled or could not list its tenants, cancels
its live tenants. `check_open_parents` is the safety net for everything that was missed.
"""

from __future__ import annotations

from typing import NamedTuple

from ...model.errors import StoreUnavailable
from ...model.events import AttemptEnded
from ...model.execution import LIVE, ExecutionRow, State
from ...model.store.messages import Change, ExecutionQuery
from ...model.time.instants import SECOND, Micros
from ..cancelling import cancel_all
from ..loops import Emit, trouble
from ..ports import Store
from ..rules import transitions
from . import rosters
from .fan_out import Tenants

PAGE = 500
ABANDONED_AFTER: Micros = 3_600 * SECOND
"""The age at which a list without a parent is taken to be that of a client that died before it added the parent."""


async def settle_parent(store: Store, parent_id: str, now: Micros, emit: Emit) -> bool:
    """End a waiting parent if its last child has ended; returns whether it did."""
    parent = await store.execution(parent_id)
    if parent is None or parent.state is not State.WAITING:
        return False
    if await store.find(ExecutionQuery(parent_id=parent_id, states=LIVE, limit=1)):
        return False
    latest = max(now, await store.last_child_ended(parent_id) or now)  # by whatever clock the last child has ended
    change = transitions.after_children(parent, await store.children(parent_id), latest)
    return await _end_parent(store, parent, change, emit)


async def _end_parent(store: Store, parent: ExecutionRow, change: Change | None, emit: Emit) -> bool:
    if change is None or not (await store.exchange([change], None)).applied[0]:
        return False
    emit(
        AttemptEnded(
            execution=parent,
            state=change.to,
            attempt=parent.attempt,
            duration_ms=(change.at - (parent.started or parent.created)) / 1000,
            error=change.error,
            reason=change.reason or "completed",
        )
    )
    return True


async def after_tenant(store: Store, execution: ExecutionRow, emit: Emit) -> None:
    """With `fail_fast`, cancel the siblings of a tenant that failed for good."""
    if execution.state is State.FAILED and execution.rules.fail_fast and execution.parent_id is not None:
        await cancel_unstarted(store, execution.parent_id, f"tenant {execution.tenant} failed", emit)


async def cancel_unstarted(store: Store, parent_id: str, reason: str, emit: Emit) -> None:
    """Cancel the children that have not started. Those that run, or wait for their next attempt, continue."""
    waiting = frozenset({State.PENDING})
    before: str | None = None
    while page := await store.find(ExecutionQuery(parent_id=parent_id, states=waiting, limit=PAGE, before=before)):
        await cancel_all(store, [each for each in page if not each.attempted], reason, emit)
        before = page[-1].id


async def close_parent(store: Store, parent: ExecutionRow, now: Micros, emit: Emit) -> None:
    """The follow-up of a parent's own ending. Once it is done, every tenant of its list has a record, and those that
    still run have a cancel request."""
    if parent.state in (State.CANCELLED, State.FAILED) and parent.reason != transitions.BY_CHILDREN:
        await _stop_children(store, parent, now, emit)
    await rosters.close(store, parent, now)


async def _stop_children(store: Store, parent: ExecutionRow, now: Micros, emit: Emit) -> None:
    """First add cancelled executions for tenants that have none yet. After that no process can add another one, not
    even one that lost its lease while adding; so the live ones can be cancelled for good."""
    cause = parent.reason or parent.state.value
    reason = f"its parent was cancelled: {cause}" if parent.state is State.CANCELLED else f"its parent failed: {cause}"
    known = await rosters.forbid(store, parent, now)
    if sum((await store.children(parent.id)).values()) < known.total:
        tenants = Tenants(parent, None)
        async for batch in rosters.batches_of(store, parent.id, known, PAGE):
            rows = [tenants.never_started(position, name, reason, now) for position, name in batch]
            for row, added in zip(rows, await store.add(rows), strict=True):
                if added.outcome == "added":
                    emit(AttemptEnded(row, row.state, row.attempt, 0.0, reason=reason, tried=False))
    missed = 1
    while missed:
        missed = await _cancel_live(store, parent.id, reason, emit)


async def _cancel_live(store: Store, parent_id: str, reason: str, emit: Emit) -> int:
    """Returns how many changed meanwhile, and have to be tried again."""
    missed = 0
    before: str | None = None
    while page := await store.find(ExecutionQuery(parent_id=parent_id, states=LIVE, limit=PAGE, before=before)):
        unrequested = [each for each in page if each.cancel_requested is None]
        missed += len(unrequested) - await cancel_all(store, unrequested, reason, emit)
        before = page[-1].id
    return missed


class CheckedParents(NamedTuple):
    """How many have ended, and when the next `run_timeout` of one that waits is up."""

    ended: int
    next_deadline: Micros | None


async def check_open_parents(store: Store, now: Micros, emit: Emit) -> CheckedParents:
    """Check every parent that may have live tenants. This finds parents whose time is up, parents whose tenants had all
    ended before they began to wait, and what a crash has left."""
    ended = 0
    deadlines: list[Micros] = []
    for parent_id, known in await rosters.open_parents(store):
        try:
            waiting = await _waiting_parent(store, parent_id, known.at, now, emit)
            if waiting is None:
                continue
            if await _check(store, waiting, now, emit):
                ended += 1
            elif (deadline := waiting.run_deadline) is not None:
                deadlines.append(deadline)
        except StoreUnavailable:
            raise
        except Exception as error:
            emit(trouble(f"tenants of {parent_id}", error))
    return CheckedParents(ended, min(deadlines, default=None))


async def _waiting_parent(store: Store, parent_id: str, at: Micros, now: Micros, emit: Emit) -> ExecutionRow | None:
    """The parent if it waits for its tenants. One that has ended, or was never added, is cleared away."""
    parent = await store.execution(parent_id)
    if parent is None and now - at > ABANDONED_AFTER:
        await rosters.delete(store, parent_id)
    elif parent is not None and parent.state.final and not parent.todo:
        await close_parent(store, parent, now, emit)
    return parent if parent is not None and parent.state is State.WAITING else None


async def _check(store: Store, parent: ExecutionRow, now: Micros, emit: Emit) -> bool:
    """Whether the parent has ended."""
    parent_id = parent.id
    if await settle_parent(store, parent_id, now, emit):
        return True
    if await _end_parent(store, parent, transitions.after_run_timeout(parent, now), emit):
        return True
    fan_out = parent.rules.fan_out
    if fan_out is not None and not fan_out.continue_on_failure:
        failed = await store.find(ExecutionQuery(parent_id=parent_id, states=frozenset({State.FAILED}), limit=1))
        if failed:
            await cancel_unstarted(store, parent_id, f"tenant {failed[0].tenant} failed", emit)
    return False
