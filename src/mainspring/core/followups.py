"""What must happen after an execution has ended: enter its window in the ledger, settle its parent, plan the next run
of a fixed-delay job, hand over to the jobs that come after it, move its backfill on.

The ending carries a `todo` mark in the same write. The mark is cleared only after the follow-ups are done; each
of them can be repeated, so a crash at any point loses none and doubles none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ..model.errors import StoreError
from ..model.execution import Execution
from ..model.instants import Micros
from ..model.shelf import Entry, EntryWrite
from . import ledger, ticks
from .backfill_driver import drive, is_child
from .hand_over import hand_over
from .loop import Emit, trouble
from .ports import Store
from .tenant_endings import after_tenant, close_parent, settle_parent

BATCH = 100
ROUNDS = 20


async def do_follow_ups(store: Store, now: Micros, emit: Emit) -> int:
    """Do what is marked; returns how many executions were seen to. Parents that end meanwhile have follow-ups of their
    own, which need not wait for the next look."""
    total = 0
    for _ in range(ROUNDS):
        done, settled = await _round(store, now, emit)
        total += done
        if not settled:
            break
        now = max(now, await store.now())
    return total


async def _round(store: Store, now: Micros, emit: Emit) -> tuple[int, int]:
    """How many were seen to, and how many parents ended by that."""
    done: list[str] = []
    probed: set[str] = set()
    settled = 0
    marked = await store.todo(BATCH)
    await enter_windows(store, marked, emit)
    kept = await hand_over(store, marked, now, emit)
    for execution in (each for each in marked if each.id not in kept):
        try:
            settled += await _follow_up(store, execution, probed, now, emit)
        except StoreError:
            raise
        except Exception as error:
            emit(trouble(f"follow-up of {execution.id}", error))
        else:
            done.append(execution.id)
    if done:
        await store.todo_done(done)
    for backfill in sorted({each.parent_id for each in marked if is_child(each) and each.parent_id is not None}):
        await _move_on(store, backfill, emit)
    return len(done), settled


async def _follow_up(store: Store, execution: Execution, probed: set[str], now: Micros, emit: Emit) -> bool:
    """A parent is looked at once per batch: all children of the batch have ended by then. Says whether it ended."""
    settled = False
    if execution.fans_out:
        await close_parent(store, execution, now)
    await after_tenant(store, execution)
    parent = None if is_child(execution) else execution.parent_id
    if parent is not None and parent not in probed:
        settled = await settle_parent(store, parent, now, emit)
        probed.add(parent)
    if execution.rules.follow_up:
        await plan_after_delay(store, execution)
    return settled


async def _move_on(store: Store, backfill: str, emit: Emit) -> None:
    """The next windows start as soon as one has ended. What goes wrong here the driver's own loop makes good."""
    try:
        await drive(store, backfill, emit)
    except Exception as error:
        emit(trouble(f"backfill {backfill}", error))


async def enter_windows(store: Store, executions: Sequence[Execution], emit: Emit) -> None:
    """Enter these endings in the ledger: one look and one write for all windows of a job. Who loses a race looks
    again, and finds what the winner has entered."""
    by_job: dict[str, list[Execution]] = defaultdict(list)
    for execution in executions:
        if ledger.is_entered(execution):
            by_job[execution.job].append(execution)
    for job, ended in by_job.items():
        while ended:
            ended = await _enter(store, job, ended, emit)


async def _enter(store: Store, job: str, ended: list[Execution], emit: Emit) -> list[Execution]:
    """Returns the endings whose entry somebody else has just written."""
    windows: dict[str, list[Execution]] = defaultdict(list)
    for execution in ended:
        window = ledger.window_of(execution)
        assert window is not None, "only endings of windows are entered"
        windows[ledger.key_of(window)].append(execution)
    stored = {entry.key: entry for entry in await store.entries("window", job, list(windows))}
    writes = []
    for key, runs in windows.items():
        try:
            write = _entry_write(job, key, stored.get(key), runs)
        except Exception as error:  # an entry of a newer release stays as it is
            emit(trouble(f"ledger of {job}", error))
        else:
            writes += [] if write is None else [write]
    won = await store.shelve(writes) if writes else []
    lost = {write.entry.key for write, each in zip(writes, won, strict=True) if not each}
    return [execution for key in lost for execution in windows[key]]


def _entry_write(job: str, key: str, stored: Entry | None, runs: list[Execution]) -> EntryWrite | None:
    before = known = None if stored is None else ledger.decode_entry(stored.body)
    for execution in runs:
        known = ledger.entered(known, execution) or known
    if known is None or known == before:
        return None
    entry = Entry(kind="window", scope=job, key=key, body=ledger.encode_entry(known))
    return EntryWrite(entry=entry, seen_version=0 if stored is None else stored.version)


async def plan_after_delay(store: Store, execution: Execution) -> None:
    """A lost race means that somebody else changed the job meanwhile: look again."""
    while jobs := await store.jobs([execution.job]):
        job = jobs[0]
        if job.id != execution.job_id or not ticks.is_last_tick(job, execution):
            return
        write = ticks.after_delay(job, execution.finished or execution.created)
        if write is None or (await store.write_jobs([write]))[0].won:
            return
