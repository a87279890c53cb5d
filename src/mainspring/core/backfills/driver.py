"""Moving backfills on: count what has ended, hand out the next windows, file away what is over.

Any number of processes may drive one backfill at once, and each may die between any two calls to the store:

- A step inserts the rows of the next windows first and compares-and-sets the record after that. The rows have ids that
  depend on the backfill and the number of the window alone. Whoever repeats a step after a crash, or with an old record
  in hand, inserts nothing new: no window is handed out twice. The record moves on only past windows that have rows:
  none is left out.
- A window leaves `in_flight` only in a step that saw its row final, and a final row stays final. So nobody inserts the
  row of window n before n + 1 - concurrency earlier ones have ended, however old the record in hand: never more than
  `concurrency` are alive.
- Endings are counted in the same write that takes the window out of `in_flight`: each exactly once.
"""

from __future__ import annotations

import asyncio

import msgspec

from ...model.backfill import Backfill
from ...model.errors import StoreError
from ...model.events import BackfillEnded
from ...model.execution import LIVE, ExecutionRow
from ...model.job import Job
from ...model.store.messages import ExecutionQuery
from ...model.time.instants import Micros, seconds_to_micros
from ..cancelling import cancel_all
from ..emitting import tell_enqueued
from ..loops import Emit, Loop, stop_all, trouble
from ..ports import Store
from ..rules import window_ledger
from . import records, rules

__all__ = ["BackfillDriver", "drive"]

POLL = 2.0
"""Seconds between looks at an open backfill. Mostly the follow-up of a child moves it on before."""
IDLE = 10.0
STOPPING_POLL = 0.5
STEPS_AT_ONCE = 20
"""Steps of one backfill in a row: others have their turn after that."""
BATCH = 500
ALIVE = 1_000
PLANNING_PATIENCE = 600.0
"""Seconds after which a backfill that is still being planned has lost the process that planned it."""
PRUNE_EVERY = 60
"""Looks between two at the backfills that are over: ten minutes where none is open."""


class BackfillDriver:
    """The net under the follow-ups: looks at every open backfill now and then. Where none is, that is one read."""

    def __init__(self, store: Store, emit: Emit) -> None:
        self._store, self._emit = store, emit
        self._loop = Loop("backfills", self.step, emit)
        self._looks = 0

    def start(self) -> None:
        self._loop.start()

    async def stop(self, timeout: float) -> None:
        await stop_all([self._loop], timeout)

    async def step(self) -> float:
        """One look at all open backfills; returns the seconds until the next one."""
        delays = [await self._drive(entry.key) for entry in await self._store.list_entries("backfill", records.OPEN)]
        self._looks += 1
        if self._looks % PRUNE_EVERY == 0:
            await records.prune_closed(self._store, await self._store.now())
        return min((delay for delay in delays if delay is not None), default=IDLE)

    async def _drive(self, id: str) -> float | None:
        """One that cannot be read holds up no other."""
        try:
            return await drive(self._store, id, self._emit)
        except StoreError:
            raise
        except Exception as error:
            self._emit(trouble(f"backfill {id}", error))
            return IDLE


async def drive(store: Store, id: str, emit: Emit) -> float | None:
    """Move one backfill on as far as it goes now. Returns the seconds until it should be looked at again; None when
    it is over."""
    for _ in range(STEPS_AT_ONCE):
        found = await records.open_record(store, id)
        if found is None:
            return None
        delay = await _step(store, *found, emit)
        if delay is None or delay > 0:
            return delay
        await asyncio.sleep(0)
    return 0.0


async def _step(store: Store, record: Backfill, version: int, emit: Emit) -> float | None:
    """One compare-and-set at most. 0: look again at once."""
    now = await store.now()
    if record.over:
        await records.file_away(store, record)
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


async def _planning(store: Store, record: Backfill, version: int, now: Micros) -> float:
    """Nothing of it has begun. Whoever makes it goes on, or is dead: then it never begins."""
    if now - record.created <= seconds_to_micros(PLANNING_PATIENCE):
        return POLL
    reason = "the process that planned it ended before it began"
    await records.write_record(
        store, msgspec.structs.replace(record, state="cancelled", reason=reason, finished=now), version
    )
    return 0.0


# ---------------------------------------------------------------- what has ended


async def _counted(store: Store, record: Backfill, alive: list[ExecutionRow], now: Micros) -> Backfill:
    """The record with the endings that came since. Only what is not among the living is looked at one by one."""
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


async def _alive(store: Store, record: Backfill, before: str | None = None) -> list[ExecutionRow]:
    """What its job has alive, which is little: the children that have ended may be a hundred thousand."""
    return await store.find(ExecutionQuery(job_id=record.job_id, states=LIVE, limit=ALIVE, before=before))


async def _lost(store: Store, record: Backfill, positions: list[int], now: Micros) -> list[tuple[int, str]]:
    """Rows that retention has taken in the meantime: the ledger remembers how they ended."""
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
    store: Store, record: Backfill, alive: list[ExecutionRow], now: Micros, emit: Emit
) -> tuple[Backfill, bool]:
    """The record with the next windows handed out, and whether more can be done at once."""
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
    record: Backfill,
    job: Job,
    windows: dict[int, window_ledger.Stretch],
    taken: dict[window_ledger.Stretch, tuple[str, str]],
    now: Micros,
    emit: Emit,
) -> tuple[Micros | None, bool]:
    """Insert a row for each of these windows. Returns when the last of those that run is due, and whether some were
    passed over."""
    rows = []
    starts = iter(rules.due_times(record, now, len(windows)))
    last_due = None
    for position, window in windows.items():
        reason, by = taken.get(window, (None, None))
        if reason is None or by == rules.child_id(record.id, position):  # handed out by a step whose record was lost
            last_due = next(starts)
            rows.append(rules.child(record, job, position, window, now, last_due))
        else:
            rows.append(rules.passed_over(rules.child(record, job, position, window, now, now), reason, now))
    added = await store.add(rows)
    tell_enqueued(emit, rows, added)
    held = [row for row, each in zip(rows, added, strict=True) if each.outcome == "unique_taken"]
    if held:
        await store.add([rules.passed_over(row, rules.RUNNING_ELSEWHERE, now) for row in held])
    return last_due, bool(taken or held)


async def _taken(
    store: Store, record: Backfill, windows: list[window_ledger.Stretch], alive: list[ExecutionRow]
) -> dict[window_ledger.Stretch, tuple[str, str]]:
    """Those of these windows that need no run: why, and the execution that runs or ran them.

    What is alive was looked at before; then comes what has ended and is not entered yet, then the ledger: an execution
    that ends meanwhile is seen in one of them.
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


async def _stop(store: Store, record: Backfill, now: Micros, emit: Emit) -> bool:
    """Cancel what is alive; true once nothing is.

    A process that has not heard of it yet could hand out `concurrency` more windows at most. They get rows that are
    final from the start, so that it cannot.
    """
    last = min(record.total, record.position + record.concurrency)
    positions = range(record.position, last)
    if positions:
        await store.add([_never(record, position, now) for position in positions])
    alive = await _children(store, record)
    if unasked := [each for each in alive if each.cancel_requested is None]:
        await cancel_all(store, unasked, record.reason or "cancelled", emit)
        alive = await _children(store, record)
    return not alive


async def _children(store: Store, record: Backfill) -> list[ExecutionRow]:
    """All that it has alive, however much else its job has."""
    found: list[ExecutionRow] = []
    before: str | None = None
    while page := await _alive(store, record, before):
        found += [each for each in page if each.parent_id == record.id]
        before = page[-1].id
    return found


def _never(record: Backfill, position: int, now: Micros) -> ExecutionRow:
    """A row in the place of a child; the job may not even exist any more."""
    id = rules.child_id(record.id, position)
    blank = ExecutionRow(
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
    return rules.passed_over(blank, rules.NEVER_STARTED, now)
