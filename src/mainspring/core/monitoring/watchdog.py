"""The ledger of expected runs: ticks whose time and grace are over although nobody made them happen.

A scheduler that comes back records what it missed. While there is none, somebody else has to notice: a watcher looks
at the jobs that are due by the store's clock and judges them by the same rules as a scheduler. What it finds goes on
the shelf by compare-and-set, one entry for each stretch of missed ticks, so that each tick is told of once, whatever
the number of watchers. An entry is made sure after it was told; one that nobody made sure is one whose watcher died in
between, and is told again. How entries are kept and listed is in `missed_runs`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from ...model.calendars.calendar import Calendar
from ...model.events import Missed
from ...model.job import Job
from ...model.store.entries import Entry, EntryWrite
from ...model.time.instants import SECOND, Micros, seconds_to_micros, to_datetime, to_micros
from ..expiry import EntryExpiry
from ..jobs.calendars import Calendars
from ..loops import Emit, one_by_one
from ..ports import Clock, Store
from ..queries.queries import Queries
from ..rules.opening_hours import open_ticks
from ..rules.ticks import grace, ticks_due
from .missed_runs import KIND, MissedLedger, Told, entry_key, read_told, write_told

MOST = 10_000
"""Jobs looked at in one go, those first that have been due for longest."""
REMEMBERED = 30 * 86_400.0
UNSURE_FOR = 10 * SECOND


class Late(msgspec.Struct, frozen=True, kw_only=True):
    """A job that should have run: its missed ticks, first and last of them."""

    job: str
    id: str
    first: Micros
    last: Micros
    count: int
    exact: bool = True

    @property
    def first_at(self) -> datetime:
        return to_datetime(self.first)

    @property
    def last_at(self) -> datetime:
        return to_datetime(self.last)

    @property
    def key(self) -> str:
        return entry_key(self.id, self.first)


class Watch:
    def __init__(self, store: Store, queries: Queries, calendars: Calendars, clock: Clock, emit: Emit) -> None:
        self._store, self._queries, self._calendars, self._emit = store, queries, calendars, emit
        self.ledger = MissedLedger(store)
        self._pruning = EntryExpiry(store, clock, KIND, _forgotten)

    async def look(self) -> list[Late]:
        """Every job that is late now. What nobody has told of yet is entered in the ledger, and told."""
        page = await self._store.due_jobs(MOST)
        calendars = await self._calendars.of(page.jobs)
        judged = one_by_one("watch", page.jobs, lambda job: late(job, page.now, calendars), self._emit)
        found = [(job, each) for job, each in judged if each is not None]
        if found:
            await self._tell(found, page.now)
        await self._pruning.now_and_then()
        return [each for _, each in found]

    async def _tell(self, found: Sequence[tuple[Job, Late]], now: Micros) -> None:
        keys = [one.key for _, one in found]
        entries = {entry.key: entry for entry in await self._store.entries(KIND, "", keys)}
        known = [(job, one, entries.get(one.key)) for job, one in found]
        news = [each for each in known if each[2] is None or _leaves_news(read_told(each[2]), each[1], now)]
        if not news:
            return
        schedulers = sum("scheduler" in worker.roles for worker in await self._queries.workers())
        unsure = [_unsure(one, entry, schedulers, now) for _, one, entry in news]
        sure = []
        for (job, one, _), write, won in zip(news, unsure, await self._store.write_entries(unsure), strict=True):
            if won:
                self._emit(_event(job, one, read_told(write.entry), schedulers))
                sure.append(_sure(write))
        if sure:
            await self._store.write_entries(sure)


def late(job: Job, now: Micros, calendars: Mapping[str, Calendar]) -> Late | None:
    """The ticks of this job that are missed by now: those a scheduler would not run any more as if nothing had been,
    and runs of a fixed delay or moved by hand that are late by more than the grace."""
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


def _moved(job: Job, to: Micros, now: Micros) -> tuple[Micros, Micros, int, bool] | None:
    assert job.plan is not None, "only jobs with a trigger have occurrences"
    return (to, to, 1, True) if now - to > grace(job, job.plan, to) else None


def _happens(job: Job, calendars: Mapping[str, Calendar]) -> bool:
    assert job.plan is not None, "asked of jobs with a trigger"
    assert job.next_run is not None, "asked of jobs that are due"
    hours = open_ticks(job, job.plan, calendars)
    return hours is None or (hours.keeps(job.next_run) and hours.run_at(job.next_run) == job.next_run)


def _event(job: Job, one: Late, telling: Told, schedulers: int) -> Missed:
    """What is new since it was last told of for sure."""
    last, count = telling.for_sure()
    if last is None:
        return Missed(one.job, one.first, one.last, one.count, one.exact, schedulers)
    after = None if job.plan is None else job.plan.next_after(to_datetime(last))
    first = one.last if after is None else min(to_micros(after), one.last)
    return Missed(one.job, first, one.last, max(one.count - count, 1), one.exact, schedulers)


def _leaves_news(told: Told, one: Late, now: Micros) -> bool:
    if not told.sure:
        return told.at < now - UNSURE_FOR  # until then, whoever wrote it may be telling
    return told.last < one.last


def _unsure(one: Late, entry: Entry | None, schedulers: int, now: Micros) -> EntryWrite:
    last, count = (None, 0) if entry is None else read_told(entry).for_sure()
    told = Told(
        job=one.job,
        last=one.last,
        count=one.count,
        at=now,
        exact=one.exact,
        schedulers=schedulers,
        sure=False,
        last_before=last,
        count_before=count,
    )
    return EntryWrite(entry=write_told(one.key, told), seen_version=0 if entry is None else entry.version)


def _sure(unsure: EntryWrite) -> EntryWrite:
    told = msgspec.structs.replace(read_told(unsure.entry), sure=True, last_before=None, count_before=0)
    return EntryWrite(entry=write_told(unsure.entry.key, told), seen_version=(unsure.seen_version or 0) + 1)


def _forgotten(entry: Entry, now: Micros) -> bool:
    return read_told(entry).at < now - seconds_to_micros(REMEMBERED)
