"""What the endings of tenants mean for their parent, and the other way round.

A parent waits without a worker. The follow-up of every tenant asks whether one of its siblings is alive, which is one
look at an index, and only when none is are they counted. A parent that ends by itself, cancelled or because it could
not list its tenants, takes along what it has alive. `look_at_open` is the net: whatever was missed is found there.
"""

from __future__ import annotations

from ...model.events import AttemptEnded
from ...model.execution import LIVE, ExecutionRow, State
from ...model.store.messages import ExecutionQuery
from ...model.time.instants import SECOND, Micros
from ..cancelling import cancel_all
from ..loops import Emit, trouble
from ..ports import Store
from ..rules import transitions
from . import rosters
from .fan_out import Tenants

PAGE = 500
ABANDONED_AFTER: Micros = 3_600 * SECOND
"""After that long, a list without a parent belongs to a client that died before it could add one."""


async def settle_parent(store: Store, parent_id: str, now: Micros, emit: Emit) -> bool:
    """End a waiting parent if its last child has ended; says whether it did."""
    parent = await store.execution(parent_id)
    if parent is None or parent.state is not State.WAITING:
        return False
    if await store.find(ExecutionQuery(parent_id=parent_id, states=LIVE, limit=1)):
        return False
    change = transitions.after_children(parent, await store.children(parent_id), now)
    if change is None or not (await store.exchange([change], None)).applied[0]:
        return False
    emit(
        AttemptEnded(
            execution=parent,
            state=change.to,
            attempt=parent.attempt,
            duration_ms=(now - (parent.started or parent.created)) / 1000,
            error=change.error,
            reason=change.reason or "completed",
        )
    )
    return True


async def after_tenant(store: Store, execution: ExecutionRow, emit: Emit) -> None:
    """The ending of one tenant, for its siblings: if it failed for good, and they are to stop then."""
    if execution.state is State.FAILED and execution.rules.fail_fast and execution.parent_id is not None:
        await cancel_unstarted(store, execution.parent_id, f"tenant {execution.tenant} failed", emit)


async def cancel_unstarted(store: Store, parent_id: str, reason: str, emit: Emit) -> None:
    """Cancel the children that nobody has begun. What runs, or waits for its next try, goes on."""
    waiting = frozenset({State.PENDING})
    before: str | None = None
    while page := await store.find(ExecutionQuery(parent_id=parent_id, states=waiting, limit=PAGE, before=before)):
        await cancel_all(store, [each for each in page if not each.attempted], reason, emit)
        before = page[-1].id


async def close_parent(store: Store, parent: ExecutionRow, now: Micros, emit: Emit) -> None:
    """The follow-up of a parent's own ending. Once it is done, every tenant of its list has a record, and none of them
    runs that was not told to stop."""
    if parent.state in (State.CANCELLED, State.FAILED) and parent.reason != transitions.BY_CHILDREN:
        await _stop_children(store, parent, now, emit)
    await rosters.close(store, parent, now)


async def _stop_children(store: Store, parent: ExecutionRow, now: Micros, emit: Emit) -> None:
    """First those that have no execution yet get one that is over. Then nobody can add another, not even a process
    that lost its lease in the middle of adding; and what is alive can be stopped for good."""
    cause = parent.reason or parent.state.value
    reason = f"its parent was cancelled: {cause}" if parent.state is State.CANCELLED else f"its parent failed: {cause}"
    known = await rosters.forbid(store, parent, now)
    if sum((await store.children(parent.id)).values()) < known.total:
        blank = Tenants(parent, None)
        async for some in rosters.names_of(store, parent.id, known):
            for start in range(0, len(some), PAGE):
                rows = [blank.never_started(name, reason, now) for name in some[start : start + PAGE]]
                for row, added in zip(rows, await store.add(rows), strict=True):
                    if added.outcome == "added":
                        emit(AttemptEnded(row, row.state, row.attempt, 0.0, reason=reason, tried=False))
    missed = 1
    while missed:
        missed = await _cancel_living(store, parent.id, reason, emit)


async def _cancel_living(store: Store, parent_id: str, reason: str, emit: Emit) -> int:
    """Returns how many moved on meanwhile, and have to be looked at again."""
    missed = 0
    before: str | None = None
    while page := await store.find(ExecutionQuery(parent_id=parent_id, states=LIVE, limit=PAGE, before=before)):
        unasked = [each for each in page if each.cancel_requested is None]
        missed += len(unasked) - await cancel_all(store, unasked, reason, emit)
        before = page[-1].id
    return missed


async def look_at_open(store: Store, now: Micros, emit: Emit) -> int:
    """Look at every parent that may have tenants alive; returns how many have ended. It finds parents whose tenants had
    all ended before they began to wait, and whatever a crash has left."""
    ended = 0
    for parent_id, known in await rosters.open_parents(store):
        try:
            ended += await _look_at(store, parent_id, known.at, now, emit)
        except Exception as error:
            emit(trouble(f"tenants of {parent_id}", error))
    return ended


async def _look_at(store: Store, parent_id: str, at: Micros, now: Micros, emit: Emit) -> bool:
    parent = await store.execution(parent_id)
    if parent is None:
        if now - at > ABANDONED_AFTER:
            await rosters.forget(store, parent_id)
        return False
    if parent.state.final:
        if not parent.todo:
            await close_parent(store, parent, now, emit)
        return False
    if parent.state is not State.WAITING:
        return False
    if await settle_parent(store, parent_id, now, emit):
        return True
    fan_out = parent.rules.fan_out
    if fan_out is not None and not fan_out.continue_on_failure:
        failed = await store.find(ExecutionQuery(parent_id=parent_id, states=frozenset({State.FAILED}), limit=1))
        if failed:
            await cancel_unstarted(store, parent_id, f"tenant {failed[0].tenant} failed", emit)
    return False
