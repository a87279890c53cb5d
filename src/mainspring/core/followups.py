"""What must happen after an execution has ended: settle its parent, plan the next run of a fixed-delay job.

The ending carries a `todo` mark in the same write. The mark is cleared only after the follow-ups are done; each
of them can be repeated, so a crash at any point loses none and doubles none.
"""

from __future__ import annotations

from ..model.errors import StoreError
from ..model.execution import Execution, State
from ..model.instants import Micros
from . import decide, ticks
from .loop import Emit, trouble
from .ports import Store

BATCH = 100


async def do_follow_ups(store: Store, now: Micros, emit: Emit) -> int:
    """Do what is marked; returns how many executions were seen to."""
    done: list[str] = []
    probed: set[str] = set()
    for execution in await store.todo(BATCH):
        try:
            await _follow_up(store, execution, probed, now)
        except StoreError:
            raise
        except Exception as error:
            emit(trouble(f"follow-up of {execution.id}", error))
        else:
            done.append(execution.id)
    if done:
        await store.todo_done(done)
    return len(done)


async def _follow_up(store: Store, execution: Execution, probed: set[str], now: Micros) -> None:
    """A parent is looked at once per batch: all children of the batch have ended by then."""
    if execution.parent_id is not None and execution.parent_id not in probed:
        await settle_parent(store, execution.parent_id, now)
        probed.add(execution.parent_id)
    if execution.rules.follow_up:
        await plan_after_delay(store, execution)


async def settle_parent(store: Store, parent_id: str, now: Micros) -> None:
    parent = await store.execution(parent_id)
    if parent is None or parent.state is not State.WAITING:
        return
    change = decide.after_children(parent, await store.children(parent_id), now)
    if change is not None:
        await store.exchange([change], None)


async def plan_after_delay(store: Store, execution: Execution) -> None:
    """A lost race means that somebody else changed the job meanwhile: look again."""
    while jobs := await store.jobs([execution.job]):
        job = jobs[0]
        if job.id != execution.job_id or not ticks.is_last_tick(job, execution):
            return
        write = ticks.after_delay(job, execution.finished or execution.created)
        if write is None or (await store.write_jobs([write]))[0].won:
            return
