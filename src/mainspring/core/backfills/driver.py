"""Driving backfills: count endings, start the next windows, close what has finished.

Any number of processes may drive one backfill concurrently, and each may die between any two calls to the store:

- A step inserts the rows of the next windows first and compares-and-sets the record afterwards. The id of a row depends
  only on the backfill and the number of the window, so a step that is repeated after a crash, or with a stale record,
  inserts nothing new: no window runs twice. The record advances only past windows that have rows: none is left out.
- A window leaves `in_flight` only in a step that saw its row final, and a final row stays final. So no process inserts
  the row of window n before n + 1 - concurrency earlier ones have ended, however stale its record: never more than
  `concurrency` rows are live.
- An ending is counted in the same write that takes the window out of `in_flight`: exactly once.
"""

from __future__ import annotations

import asyncio

import msgspec

from ...model.backfill import BackfillRow
from ...model.errors import StoreError
from ...model.events import BackfillEnded
from ...model.execution import LIVE, ExecutionRow
from ...model.job import Job
from ...model.store.messages import ExecutionQuery
from ...model.time.instants import Micros, seconds_to_micros
from ..cancelling import cancel_all
from ..emitting import emit_enqueued
from ..loops import Emit, Loop, stop_all, trouble
from ..ports import Store
from ..rules import window_ledger
from . import records, rules

__all__ = ["BackfillDriver", "drive"]

POLL = 2.0
"""Seconds between checks of an open backfill. Usually the follow-up of a child drives it sooner."""
IDLE = 10.0
STOPPING_POLL = 0.5
STEPS_AT_ONCE = 20
"""Steps of one backfill in a row before the others get their turn."""
BATCH = 500
FEW = 100
"""Executions computed before other tasks get a turn."""
ALIVE = 1_000
PLANNING_PATIENCE = 600.0
"""Seconds after which the process that was planning a backfill is considered dead."""
PRUNE_EVERY = 60
"""Checks between two prunings of closed backfills: ten minutes while none is open."""


class BackfillDriver:
    """The safety net under the follow-ups: checks every open backfill now and then. While none is open, that is one
    read."""

    def __init__(self, store: Store, emit: Emit) -> None:
        self._store, self._emit = store, emit
        self._loop = Loop("backfills", self.step, emit)
        self._checks = 0

    def start(self) -> None:
        self._loop.start()

    async def stop(self, timeout: float) -> None:
        await stop_all([self._loop], timeout)

    async def step(self) -> float:
        """Check all open backfills once; returns the seconds until the next check."""
        delays = [await self._drive(entry.key) for entry in await self._store.list_entries("backfill", records.OPEN)]
        self._checks += 1
        if self._checks % PRUNE_EVERY == 0:
            await records.prune_closed(self._store, await self._store.now())
        return min((delay for delay in delays if delay is not None), default=IDLE)

    async def _drive(self, id: str) -> float | None:
        """A backfill that cannot be read does not block the others."""
        try:
            return await drive(self._store, id, self._emit)
        except StoreError:
            raise
        except Exception as error:
            self._emit(trouble(f"backfill {id}", error))
            return IDLE


async def drive(store: Store, id: str, emit: Emit) -> float | None:
    """Advance one backfill as far as possible now. Returns the seconds until the next check; None once it finished."""
    for _ in range(STEPS_AT_ONCE):
        found = await records.open_record(store, id)
        if found is None:
            return None
        delay = await _step(store, *found, emit)
        if delay is None or delay > 0:
            return delay
        await asyncio.sleep(0)
    return 0.0


async def _step(store: Store, record: BackfillRow, version: int, emit: Emit) -> float | None:
    """At most one compare-and-set. Returns 0 for "again at once"."""
    now = await store.now()
    if record.over:
        await records.close_record(store, record)
        return None
    if record.state == "planning":
        return await _planning(store, record, version, now)
    alive = await _alive(store, record)
    after, again = await _counted(store, record, alive, now), False
    if after.state == "running":
        after, again = await _moved_on(store, after, alive, now, emit)
    stopped = after.state == "cancelling" and not again and await _stop(store, after, now, emit)
    if not after.in_flight and (stopped or after.position == after.total):
        after = msgspec.structs.replace(after, state=rules.verdict(after), finished=now)
    if after == record:
        return POLL if after.state != "cancelling" else 0.0 if stopped else STOPPING_POLL
    won = await records.write_record(store, after, version)
    if won and after.over:
        emit(BackfillEnded(after))
    return 0.0 if again or after.over or not won else POLL


async def _planning(store: Store, record: BackfillRow, version: int, now: Micros) -> float:
    """Nothing has started yet. The planning process either continues or has died; then the backfill is cancelled."""
    if now - record.created <= seconds_to_micros(PLANNING_PATIENCE):
        return POLL
    reason = "the process that planned it ended before it began"
    await records.write_record(
        store, msgspec.structs.replace(record, state="cancelled", reason=reason, finished=now), version
    )
    return 0.0


# ---------------------------------------------------------------- what has ended


async def _counted(store: Store, record: BackfillRow, alive: list[ExecutionRow], now: Micros) -> BackfillRow:
    """The record with new endings counted. Only rows that are no longer live are read one by one."""
    living = {each.id for each in alive}
    ended, lost = [], []
    for position in record.in_flight:
        if (id := rules.child_id(record.id, position)) in living:
            continue
        row = await store.execution(id)
        if row is None:
            lost.append(position)
        elif field := rules.field_for(row):
            ended.append((position, field))
    return rules.counted(record, ended + await _lost(store, record, lost, now), now)


async def _alive(store: Store, record: BackfillRow, before: str | None = None) -> list[ExecutionRow]:
    """The live executions of its job, which are few: a hundred thousand children may have ended."""
    return await store.find(ExecutionQuery(job_id=record.job_id, states=LIVE, limit=ALIVE, before=before))


async def _lost(store: Store, record: BackfillRow, positions: list[int], now: Micros) -> list[tuple[int, str]]:
    """Rows that retention has removed in the meantime: the window ledger records how they ended."""
    if not positions:
        return []
    windows = await records.planned(store, record.id, positions)
    entries = await _entries(store, record.job, list(windows.values()))
    ended = []
    for position in positions:
        entry = entries.get(windows[position]) if position in windows else None
        if field := rules.field_for_lost(record, rules.child_id(record.id, position), entry, now):
            ended.append((position, field))
    return ended


async def _entries(
    store: Store, job: str, windows: list[window_ledger.Stretch]
) -> dict[window_ledger.Stretch, window_ledger.LedgerEntry]:
    found = await store.entries("window", job, [window_ledger.key_of(window) for window in windows])
    return {window_ledger.window_from(entry.key): window_ledger.decode_entry(entry.body) for entry in found}


# ---------------------------------------------------------------- what is next


async def _moved_on(
    store: Store, record: BackfillRow, alive: list[ExecutionRow], now: Micros, emit: Emit
) -> tuple[BackfillRow, bool]:
    """The record with the next windows started, and whether more can be done at once."""
    jobs = await store.jobs([record.job])
    job = jobs[0] if jobs else None
    if (reason := rules.gone(record, job)) is not None:
        return rules.cancelling(record, reason), True
    count = min(rules.room(record), BATCH)
    if count <= 0 or job is None:
        return record, False
    windows = await records.planned(store, record.id, range(record.position, record.position + count))
    if len(windows) < count:
        return rules.cancelling(record, "its list of windows is incomplete"), True
    taken = await _taken(store, record, list(windows.values()), alive)
    last_due, passed = await _hand_out(store, record, job, windows, taken, now, emit)
    return rules.handed_out(record, count, last_due, now), passed or count == BATCH


async def _hand_out(
    store: Store,
    record: BackfillRow,
    job: Job,
    windows: dict[int, window_ledger.Stretch],
    taken: dict[window_ledger.Stretch, tuple[str, str]],
    now: Micros,
    emit: Emit,
) -> tuple[Micros | None, bool]:
    """Insert a row for each of these windows. Returns when the last one that runs is due, and whether some were
    skipped."""
    rows = []
    starts = iter(rules.due_times(record, now, len(windows)))
    last_due = None
    for number, (position, window) in enumerate(windows.items()):
        if number % FEW == FEW - 1:
            await asyncio.sleep(0)
        reason, by = taken.get(window, (None, None))
        if reason is None or by == rules.child_id(record.id, position):  # started by a step whose record write was lost
            last_due = next(starts)
            rows.append(rules.child(record, job, position, window, now, last_due))
        else:
            rows.append(rules.skipped_window(rules.child(record, job, position, window, now, now), reason, now))
    added = await store.add(rows)
    emit_enqueued(emit, rows, added)
    held = [row for row, each in zip(rows, added, strict=True) if each.outcome == "unique_taken"]
    if held:
        await store.add([rules.skipped_window(row, rules.RUNNING_ELSEWHERE, now) for row in held])
    return last_due, bool(taken or held)


async def _taken(
    store: Store, record: BackfillRow, windows: list[window_ledger.Stretch], alive: list[ExecutionRow]
) -> dict[window_ledger.Stretch, tuple[str, str]]:
    """The windows that need no run: the reason, and the execution that runs or ran each.

    Live executions were read first; then endings that are not in the ledger yet, then the ledger: an execution that
    ends in between is seen in one of them.
    """
    job, wanted = record.job, set(windows)
    taken = {
        window: (rules.RUNNING_ELSEWHERE, each.id)
        for each in alive
        if (window := window_ledger.window_of(each)) in wanted
    }
    if record.force:
        return taken
    for each in await store.todo(ALIVE):
        window = window_ledger.window_of(each)
        if each.job == job and window in wanted and window_ledger.is_entered(each) and each.state == "completed":
            taken.setdefault(window, (rules.DONE_ELSEWHERE, each.id))
    for window, entry in (await _entries(store, job, windows)).items():
        if entry.state == "done":
            taken.setdefault(window, (rules.DONE_ELSEWHERE, entry.execution_id))
    return taken


# ---------------------------------------------------------------- cancelling


async def _stop(store: Store, record: BackfillRow, now: Micros, emit: Emit) -> bool:
    """Cancel the live children; true once there are none.

    A process with a stale record could start at most `concurrency` more windows. Inserting final rows for those windows
    prevents it.
    """
    last = min(record.total, record.position + record.concurrency)
    positions = range(record.position, last)
    if positions:
        for first in range(0, len(positions), FEW):
            await store.add([_never(record, position, now) for position in positions[first : first + FEW]])
    alive = await _children(store, record)
    if unasked := [each for each in alive if each.cancel_requested is None]:
        await cancel_all(store, unasked, record.reason or "cancelled", emit)
        alive = await _children(store, record)
    return not alive


async def _children(store: Store, record: BackfillRow) -> list[ExecutionRow]:
    """All live children, however many other executions the job has."""
    found: list[ExecutionRow] = []
    before: str | None = None
    while page := await _alive(store, record, before):
        found += [each for each in page if each.parent_id == record.id]
        before = page[-1].id
    return found


def _never(record: BackfillRow, position: int, now: Micros) -> ExecutionRow:
    """A final row in place of a child; the job may not even exist any more."""
    id = rules.child_id(record.id, position)
    placeholder = ExecutionRow(
        id=id,
        job=record.job,
        job_id=record.job_id,
        handler=record.job,
        trigger=rules.TRIGGER,
        triggered_by=record.created_by,
        trace_id=id.replace("-", ""),
        parent_id=record.id,
        created=now,
        due=now,
    )
    return rules.skipped_window(placeholder, rules.NEVER_STARTED, now)
