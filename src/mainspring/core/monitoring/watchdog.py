"""Notices ticks whose time and grace are over although no scheduler materialised them, and work that is due although no
worker takes it.

A scheduler that comes back records the ticks it missed. While there is none, the watchdog reads the jobs that are due
by the store's clock and judges them by the scheduler's own rules. Each stretch of missed ticks becomes an entry of the
ledger (`missed_runs`), written by compare-and-set, so that each tick is reported once, however many watchers there are.
An entry is confirmed after its event was emitted; if its watcher dies in between, another one reports it again. Work
that waits is entered in the same way, under the time at which its oldest execution was due.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import msgspec

from ...model.calendars.calendar import Calendar
from ...model.events import Missed
from ...model.execution import State
from ...model.job import Job, LiveCounts
from ...model.store.entries import Entry, EntryWrite
from ...model.store.messages import DuePage, ExecutionQuery
from ...model.time.instants import SECOND, Micros, seconds_to_micros, to_datetime, to_micros
from ..expiry import EntryExpiry
from ..jobs.calendars import Calendars
from ..loops import Emit, one_by_one
from ..ports import Clock, Store
from ..queries.queries import Queries
from ..rules.opening_hours import open_ticks
from ..rules.ticks import grace, ticks_due
from .metrics import oldest_waiting
from .missed_runs import KIND, MissedEntry, MissedLedger, decode, encode, entry_key

MOST = 10_000
"""The most jobs that one check reads, longest overdue first."""
KEPT_FOR = 30 * 86_400.0
WAIT_ON_DEMAND = 300.0
"""Seconds that work of a job without a schedule may wait; that of others as long as their ticks may be late."""
_PENDING = frozenset({State.PENDING})
UNCONFIRMED_FOR = 10 * SECOND
"""How long an entry may stay unconfirmed before another watcher reports it again."""


class Late(msgspec.Struct, frozen=True, kw_only=True):
    """A job that should have run, and its missed ticks; or with `waiting`, since when its work has been due."""

    job: str
    id: str
    first: Micros
    last: Micros
    count: int
    exact: bool = True
    waiting: bool = False

    @property
    def key(self) -> str:
        return entry_key(f"{self.id}:waiting" if self.waiting else self.id, self.first)

    def view(self) -> LateJob:
        return LateJob(self.job, to_datetime(self.first), to_datetime(self.last), self.count, self.exact, self.waiting)


class LateJob(msgspec.Struct, frozen=True):
    """A job that should have run."""

    job: str
    """The job."""
    first_at: datetime
    """The time of the first missed run; with `waiting`, since when the oldest execution has been due."""
    last_at: datetime
    """The time of the last missed run."""
    count: int
    """How many runs were missed; with `waiting`, how many executions wait."""
    exact: bool
    """False if there were too many to count."""
    waiting: bool = False
    """No run was missed, but executions wait and none runs."""


class Watchdog:
    def __init__(self, store: Store, queries: Queries, calendars: Calendars, clock: Clock, emit: Emit) -> None:
        self._store, self._queries, self._calendars, self._emit = store, queries, calendars, emit
        self.ledger = MissedLedger(store)
        self._expiry = EntryExpiry(store, clock, KIND, _expired)

    async def look(self) -> list[LateJob]:
        """Every job that is late now. Missed ticks that are not in the ledger yet are entered and reported."""
        page = await self._store.due_jobs(MOST)
        found = await missed_ticks(page, self._calendars, self._emit)
        found += await self._waiting(page.now)
        if found:
            await self._report(found, page.now)
        await self._expiry.now_and_then()
        return [each.view() for _, each in found]

    async def _waiting(self, now: Micros) -> list[tuple[Job, Late]]:
        """The jobs of which something has been due for too long while nothing of them runs."""
        idle = {id: counts for id, counts in (await self._store.live_counts()).items() if not counts.running}
        since = await oldest_waiting(self._store, idle, now) if any(counts.pending for counts in idle.values()) else {}
        due = {id: at for id, at in since.items() if at is not None and id in idle}
        names = [
            row.job for id in due for row in await self._store.find(ExecutionQuery(job_id=id, states=_PENDING, limit=1))
        ]
        return overdue(await self._store.jobs(names) if names else [], due, idle, now)

    async def _report(self, found: Sequence[tuple[Job, Late]], now: Micros) -> None:
        keys = [late.key for _, late in found]
        entries = {entry.key: entry for entry in await self._store.entries(KIND, "", keys)}
        new = [(job, late, entries.get(late.key)) for job, late in found if _is_new(entries.get(late.key), late, now)]
        if not new:
            return
        schedulers = sum("scheduler" in worker.roles for worker in await self._queries.workers())
        writes = [_unconfirmed(late, entry, schedulers, now) for _, late, entry in new]
        confirmed = []
        for (job, late, _), write, won in zip(new, writes, await self._store.write_entries(writes), strict=True):
            if won:
                self._emit(_event(job, late, decode(write.entry), schedulers))
                confirmed.append(_confirmed(write))
        if confirmed:
            await self._store.write_entries(confirmed)


async def missed_ticks(page: DuePage, calendars: Calendars, emit: Emit) -> list[tuple[Job, Late]]:
    """Those of the due jobs of which ticks are missed."""
    known = await calendars.of(page.jobs)
    judged = one_by_one("watch", page.jobs, lambda job: late(job, page.now, known), emit)
    return [(job, each) for job, each in judged if each is not None]


def overdue(
    jobs: Iterable[Job], since: Mapping[str, Micros], live: Mapping[str, LiveCounts], now: Micros
) -> list[tuple[Job, Late]]:
    """Those of these jobs of which something has been due for too long while nothing of them runs. `since` is when the
    oldest waiting execution of each was due, by the id of the job."""
    found = []
    for job in jobs:
        at, counts = since.get(job.id), live.get(job.id, LiveCounts())
        if at is not None and not counts.running and _waits_too_long(job, at, now):
            waits = Late(job=job.name, id=job.id, first=at, last=at, count=counts.pending, waiting=True)
            found.append((job, waits))
    return found


def late(job: Job, now: Micros, calendars: Mapping[str, Calendar]) -> Late | None:
    """The ticks of this job that are missed by now: those that a scheduler would treat as missed, and runs of a fixed
    delay or moved by an operator that are late by more than the grace."""
    trigger = job.plan
    if trigger is None or not job.ticking:
        return None
    stretches = [_moved(job, each.to, now) for each in job.occurrences if each.to is not None and not each.done]
    if job.next_run is not None and job.next_run <= now:
        if not trigger.fixed_delay:
            due = ticks_due(job, now, calendars)
            stretches.append(due.gap)
            stretches += [(tick, tick, 1, True) for tick in due.catch_up]
        elif now - job.next_run > grace(job, trigger, job.next_run) and _happens(job, calendars):
            stretches.append((job.next_run, job.next_run, 1, True))
    found = [each for each in stretches if each is not None]
    if not found:
        return None
    return Late(
        job=job.name,
        id=job.id,
        first=min(first for first, _, _, _ in found),
        last=max(last for _, last, _, _ in found),
        count=sum(count for _, _, count, _ in found),
        exact=all(exact for _, _, _, exact in found),
    )


def _waits_too_long(job: Job, since: Micros, now: Micros) -> bool:
    if job.paused is not None or job.cancelled is not None:
        return False
    trigger = job.plan
    allowed = seconds_to_micros(WAIT_ON_DEMAND) if trigger is None else grace(job, trigger, since)
    return now - since > allowed


def _moved(job: Job, to: Micros, now: Micros) -> tuple[Micros, Micros, int, bool] | None:
    assert job.plan is not None, "only jobs with a trigger have occurrences"
    return (to, to, 1, True) if now - to > grace(job, job.plan, to) else None


def _happens(job: Job, calendars: Mapping[str, Calendar]) -> bool:
    assert job.plan is not None, "asked of jobs with a trigger"
    assert job.next_run is not None, "asked of jobs that are due"
    hours = open_ticks(job, job.plan, calendars)
    return hours is None or (hours.keeps(job.next_run) and hours.run_at(job.next_run) == job.next_run)


def _event(job: Job, late: Late, entry: MissedEntry, schedulers: int) -> Missed[Micros]:
    """What is new since the last confirmed report."""
    last, count = entry.reported()
    if late.waiting:
        return Missed(late.job, late.first, late.last, late.count, late.exact, schedulers, waiting=True)
    if last is None:
        return Missed(late.job, late.first, late.last, late.count, late.exact, schedulers)
    after = None if job.plan is None else job.plan.next_after(to_datetime(last))
    first = late.last if after is None else min(to_micros(after), late.last)
    return Missed(late.job, first, late.last, max(late.count - count, 1), late.exact, schedulers)


def _is_new(entry: Entry | None, late: Late, now: Micros) -> bool:
    known = None if entry is None else decode(entry)
    if known is not None and not known.confirmed:
        return known.at < now - UNCONFIRMED_FOR  # until then its watcher may be reporting it
    return known is None or known.last < late.last


def _unconfirmed(late: Late, entry: Entry | None, schedulers: int, now: Micros) -> EntryWrite:
    last, count = (None, 0) if entry is None else decode(entry).reported()
    missed = MissedEntry(
        job=late.job,
        last=late.last,
        count=late.count,
        at=now,
        exact=late.exact,
        schedulers=schedulers,
        waiting=late.waiting,
        confirmed=False,
        last_before=last,
        count_before=count,
    )
    return EntryWrite(entry=encode(late.key, missed), seen_version=0 if entry is None else entry.version)


def _confirmed(write: EntryWrite) -> EntryWrite:
    missed = msgspec.structs.replace(decode(write.entry), confirmed=True, last_before=None, count_before=0)
    return EntryWrite(entry=encode(write.entry.key, missed), seen_version=(write.seen_version or 0) + 1)


def _expired(entry: Entry, now: Micros) -> bool:
    return decode(entry).at < now - seconds_to_micros(KEPT_FOR)
