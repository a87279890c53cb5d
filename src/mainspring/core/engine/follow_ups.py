"""Follow-ups of an execution that has ended: enter its window in the ledger, settle its parent, plan the next run of a
fixed-delay job, hand over to the jobs that come after it and to webhooks, move its backfill on.

The ending carries a `todo` mark in the same write. The mark is cleared only after the follow-ups are done. Each of them
can be repeated, so a crash at any point loses none and doubles none. A follow-up that fails keeps its mark.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import msgspec

from ...model.errors import StoreError, StoreUnavailable
from ...model.execution import ExecutionRow
from ...model.store.entries import Entry, EntryWrite
from ...model.time.instants import SECOND, Micros
from ..backfills.driver import drive
from ..dependencies.hand_over import hand_over
from ..dependencies.links import Dependents
from ..loops import Emit, trouble
from ..ports import Store
from ..rules import ticks, window_ledger
from ..tenants.endings import after_tenant, close_parent, settle_parent
from ..webhooks.hand_over import EventHandOver

BATCH = 100
ROUNDS = 20
FIRST_PAUSE: Micros = 2 * SECOND
LONGEST_PAUSE: Micros = 300 * SECOND


class Failing(msgspec.Struct, frozen=True):
    """How often a follow-up has failed in a row, and when it is tried again."""

    times: int
    again: Micros


class FollowUps:
    """Walks over all marked executions, page by page, so that a failing one holds up nothing else.

    A failed follow-up waits, twice as long each time, and is then tried alone. If a whole batch fails, the next batches
    are smaller and smaller, until the failing execution is found. The pauses are this process's own: another process,
    or this one after a restart, starts without them.
    """

    def __init__(self, store: Store, emit: Emit, webhooks: EventHandOver | None = None) -> None:
        self._store, self._emit, self._dependents, self._webhooks = store, emit, Dependents(store), webhooks
        self._failing: dict[str, Failing] = {}
        self._met_failing: set[str] = set()
        self._after, self._size = "", BATCH
        self._once_more = False
        self.more = False
        """Whether the walk is not at its end."""

    async def do(self, now: Micros) -> int:
        """Do what is marked; returns for how many executions. A parent that ends meanwhile has a follow-up of its own,
        which need not wait for the next pass: then the walk starts again."""
        total = 0
        self.more = True
        for _ in range(ROUNDS):
            marked = await self._store.todo(self._size, self._after)
            full = len(marked) == self._size
            total += await self._try(marked, now)
            self._after = marked[-1].id if full else ""
            self._size = min(self._size * 2, BATCH)
            if not full and not self._at_the_end():
                self.more = False
                break
            now = max(now, await self._store.now())
        return total

    def _at_the_end(self) -> bool:
        """Whether to walk once more. Failures that the walk did not meet were done by another process: they are
        forgotten."""
        self._failing = {id: each for id, each in self._failing.items() if id in self._met_failing}
        self._met_failing = set()
        once_more, self._once_more = self._once_more, False
        return once_more

    async def _try(self, marked: Sequence[ExecutionRow], now: Micros) -> int:
        """All that have not failed so far together, then each of the others by itself."""
        known = [each for each in marked if each.id in self._failing]
        self._met_failing.update(each.id for each in known)
        fresh = [each for each in marked if each.id not in self._failing]
        done = 0
        if fresh:
            try:
                done += await self._done(fresh, now)
            except StoreUnavailable:
                raise
            except Exception as error:
                if self._size > 1:
                    self._size //= 2
                else:
                    self._failed(fresh[0], error, now)
                raise
        for execution in known:
            if self._failing[execution.id].again <= now:
                try:
                    done += await self._done([execution], now)
                except StoreUnavailable:
                    raise
                except Exception as error:
                    self._failed(execution, error, now)
        return done

    async def _done(self, marked: Sequence[ExecutionRow], now: Micros) -> int:
        """Returns how many of these were done."""
        failed: dict[str, Exception] = {}
        probed: set[str] = set()
        await enter_windows(self._store, marked, self._emit)
        failed |= await hand_over(self._store, self._dependents, marked, now, self._emit)
        for execution in (each for each in marked if each.id not in failed):
            try:
                self._once_more |= await _follow_up(self._store, execution, probed, now, self._emit)
            except StoreError:
                raise
            except Exception as error:
                failed[execution.id] = error
        if self._webhooks is not None:
            await self._webhooks.ended(marked)  # after all else: webhooks hold up no job
        done = [each.id for each in marked if each.id not in failed]
        if done:
            await self._store.todo_done(done)
        for execution in marked:
            if execution.id in failed:
                self._failed(execution, failed[execution.id], now)
            else:
                self._failing.pop(execution.id, None)
        for backfill in sorted(
            {each.parent_id for each in marked if each.from_backfill and each.parent_id is not None}
        ):
            await _move_on(self._store, backfill, self._emit)
        return len(done)

    def _failed(self, execution: ExecutionRow, error: Exception, now: Micros) -> None:
        before = self._failing.get(execution.id)
        times = 1 if before is None else before.times + 1
        pause = min(FIRST_PAUSE << min(times - 1, 20), LONGEST_PAUSE)
        self._failing[execution.id] = Failing(times, now + pause)
        self._met_failing.add(execution.id)
        where = f"follow-up of {execution.id} (job {execution.job}; failed {times}x, next try in {pause // SECOND} s)"
        self._emit(trouble(where, error))


async def do_follow_ups(store: Store, now: Micros, emit: Emit) -> int:
    """One walk, for callers who need no pauses."""
    return await FollowUps(store, emit).do(now)


async def _follow_up(store: Store, execution: ExecutionRow, probed: set[str], now: Micros, emit: Emit) -> bool:
    """Returns whether a parent ended. A parent is checked once per batch: all children in it have ended by then."""
    settled = False
    if execution.fans_out:
        await close_parent(store, execution, now, emit)
    await after_tenant(store, execution, emit)
    parent = None if execution.from_backfill else execution.parent_id
    if parent is not None and parent not in probed:
        settled = await settle_parent(store, parent, now, emit)
        probed.add(parent)
    if execution.rules.follow_up:
        await plan_after_delay(store, execution)
    return settled


async def _move_on(store: Store, backfill: str, emit: Emit) -> None:
    """Start the next windows as soon as one has ended. If this fails, the driver's own loop does it later."""
    try:
        await drive(store, backfill, emit)
    except StoreUnavailable:
        return
    except Exception as error:
        emit(trouble(f"backfill {backfill}", error))


async def enter_windows(store: Store, executions: Sequence[ExecutionRow], emit: Emit) -> None:
    """Enter these endings in the ledger: one read and one write for all windows of a job. After a lost race the
    entry is read again, with what the winner has entered."""
    by_job: dict[str, list[ExecutionRow]] = defaultdict(list)
    for execution in executions:
        if window_ledger.is_entered(execution):
            by_job[execution.job].append(execution)
    for job, ended in by_job.items():
        while ended:
            ended = await _enter(store, job, ended, emit)


async def _enter(store: Store, job: str, ended: list[ExecutionRow], emit: Emit) -> list[ExecutionRow]:
    """Returns the endings whose entry another process has just written."""
    windows: dict[str, list[ExecutionRow]] = defaultdict(list)
    for execution in ended:
        window = window_ledger.window_of(execution)
        assert window is not None, "only endings of windows are entered"
        windows[window_ledger.key_of(window)].append(execution)
    stored = {entry.key: entry for entry in await store.entries("window", job, list(windows))}
    writes = []
    for key, runs in windows.items():
        try:
            write = _entry_write(job, key, stored.get(key), runs)
        except Exception as error:  # an unreadable entry stays as it is
            emit(trouble(f"ledger of {job}", error))
        else:
            writes += [] if write is None else [write]
    won = await store.write_entries(writes) if writes else []
    lost = {write.entry.key for write, each in zip(writes, won, strict=True) if not each}
    return [execution for key in lost for execution in windows[key]]


def _entry_write(job: str, key: str, stored: Entry | None, runs: list[ExecutionRow]) -> EntryWrite | None:
    before = known = None if stored is None else window_ledger.decode_entry(stored.body)
    for execution in runs:
        known = window_ledger.entered(known, execution) or known
    if known is None or known == before:
        return None
    entry = Entry(kind="window", scope=job, key=key, body=window_ledger.encode_entry(known))
    return EntryWrite(entry=entry, seen_version=0 if stored is None else stored.version)


async def plan_after_delay(store: Store, execution: ExecutionRow) -> None:
    """After a lost race the job is read again, because another process changed it."""
    while jobs := await store.jobs([execution.job]):
        job = jobs[0]
        if job.id != execution.job_id or not ticks.is_last_tick(job, execution):
            return
        write = ticks.after_delay(job, execution.finished or execution.created)
        if write is None or (await store.write_jobs([write]))[0].won:
            return
