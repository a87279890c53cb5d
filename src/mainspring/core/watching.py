"""The ledger of expected runs: ticks whose time and grace are over although nobody made them happen.

A scheduler that comes back records what it missed. While there is none, somebody else has to notice: a watcher looks
at the jobs that are due by the store's clock and judges them by the same rules as a scheduler. What it finds goes on
the shelf by compare-and-set, one entry for each stretch of missed ticks, so that each tick is told of once, whatever
the number of watchers. An entry is made sure after it was told; one that nobody made sure is one whose watcher died in
between, and is told again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from ..model.calendars import Calendar
from ..model.events import Missed
from ..model.instants import SECOND, Micros, seconds_to_micros, to_datetime, to_micros
from ..model.job import Job
from ..model.shelf import Entry, EntryWrite
from .calendars import Calendars
from .loop import Emit, one_by_one
from .opening import open_ticks
from .ports import Clock, Store
from .queries import Queries
from .shelf_pruning import ShelfPruning
from .ticks import grace, ticks_due

MOST = 10_000
"""Jobs looked at in one go, those first that have been due for longest."""
REMEMBERED = 30 * 86_400.0
UNSURE_FOR = 10 * SECOND
PAGE = 1_000


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
        return f"{self.id}:{self.first:017d}"


class MissedRuns(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of missed ticks as the ledger has it, and when they were last told of."""

    job: str
    first_at: datetime
    last_at: datetime
    count: int
    told_at: datetime


class _Told(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an entry of the shelf says: how far the missed ticks of this stretch were told of. While that is not `sure`,
    how far they had been told before is kept beside it."""

    job: str
    last: Micros
    count: int
    at: Micros
    sure: bool = True
    last_before: Micros | None = None
    count_before: int = 0

    def for_sure(self) -> tuple[Micros | None, int]:
        """The last one that is known to have been told, and how many were by then."""
        return (self.last, self.count) if self.sure else (self.last_before, self.count_before)

    def leaves_news(self, one: Late, now: Micros) -> bool:
        if not self.sure:
            return self.at < now - UNSURE_FOR  # until then, whoever wrote it may be telling
        return self.last < one.last


class Watch:
    def __init__(self, store: Store, queries: Queries, calendars: Calendars, clock: Clock, emit: Emit) -> None:
        self._store, self._queries, self._calendars, self._emit = store, queries, calendars, emit
        self._pruning = ShelfPruning(store, clock, "expected", _forgotten)

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
        entries = {entry.key: entry for entry in await self._store.entries("expected", "", keys)}
        known = [(job, one, entries.get(one.key)) for job, one in found]
        news = [each for each in known if each[2] is None or _read(each[2]).leaves_news(each[1], now)]
        if not news:
            return
        schedulers = sum("scheduler" in worker.roles for worker in await self._queries.workers())
        unsure = [_unsure(one, entry, now) for _, one, entry in news]
        sure = []
        for (job, one, _), write, won in zip(news, unsure, await self._store.shelve(unsure), strict=True):
            if won:
                self._emit(_event(job, one, _read(write.entry), schedulers))
                sure.append(_sure(write))
        if sure:
            await self._store.shelve(sure)

    async def ledger(self, job: str | None = None) -> list[MissedRuns]:
        """What was told of within the last 30 days, the newest first; of this job alone, if one is named."""
        found: list[MissedRuns] = []
        after = ""
        while page := await self._store.shelf("expected", "", after=after, limit=PAGE):
            found += [_entered(entry) for entry in page if job is None or _read(entry).job == job]
            after = page[-1].key
        return sorted(found, key=lambda each: (each.last_at, each.job), reverse=True)


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


def _event(job: Job, one: Late, telling: _Told, schedulers: int) -> Missed:
    """What is new since it was last told of for sure."""
    last, count = telling.for_sure()
    if last is None:
        return Missed(one.job, one.first, one.last, one.count, one.exact, schedulers)
    after = None if job.plan is None else job.plan.next_after(to_datetime(last))
    first = one.last if after is None else min(to_micros(after), one.last)
    return Missed(one.job, first, one.last, max(one.count - count, 1), one.exact, schedulers)


def _unsure(one: Late, entry: Entry | None, now: Micros) -> EntryWrite:
    last, count = (None, 0) if entry is None else _read(entry).for_sure()
    told = _Told(job=one.job, last=one.last, count=one.count, at=now, sure=False, last_before=last, count_before=count)
    return EntryWrite(entry=_entry(one.key, told), seen_version=0 if entry is None else entry.version)


def _sure(unsure: EntryWrite) -> EntryWrite:
    told = _read(unsure.entry)
    sure = _Told(job=told.job, last=told.last, count=told.count, at=told.at)
    return EntryWrite(entry=_entry(unsure.entry.key, sure), seen_version=(unsure.seen_version or 0) + 1)


def _entry(key: str, told: _Told) -> Entry:
    return Entry(kind="expected", key=key, body=msgspec.json.encode(told).decode())


def _entered(entry: Entry) -> MissedRuns:
    told, first = _read(entry), int(entry.key.rpartition(":")[2])
    last_at, told_at = to_datetime(told.last), to_datetime(told.at)
    return MissedRuns(job=told.job, first_at=to_datetime(first), last_at=last_at, count=told.count, told_at=told_at)


def _read(entry: Entry) -> _Told:
    return msgspec.json.decode(entry.body, type=_Told)


def _forgotten(entry: Entry, now: Micros) -> bool:
    return _read(entry).at < now - seconds_to_micros(REMEMBERED)
