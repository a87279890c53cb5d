"""Which windows of a job are done, failed, missing or running: what its schedule asks for, beside the ledger."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any, NamedTuple

import msgspec

from ...model.backfill import STATES, Windows, WindowState, WindowStatus
from ...model.errors import InvalidValue
from ...model.execution import LIVE, ExecutionRow
from ...model.job import Job
from ...model.store.entries import Entry, EntryKind
from ...model.store.messages import ExecutionQuery
from ...model.time.instants import Micros, to_datetime, to_micros
from ...model.triggers.base import instant_text
from ...model.values.reading import instant
from ...model.windows import Window
from ..jobs.calendars import Calendars
from ..jobs.job_cache import JobCache
from ..ports import Store
from ..rules import window_ledger
from ..rules.timing_history import Era, Timing, eras, expected
from ..rules.window_ledger import LedgerEntry, LedgerState, Stretch

MOST = 100_000
"""Windows that are looked at in one go."""
PAGE = 1_000
ALIVE = 200
FEW = 25
"""Windows that are found in one go, up to 0.1 ms each: then others have their turn."""
MANY = 500
"""Windows, or entries of the ledger, that are read or compared in one go: a few microseconds each."""
_STATES: dict[LedgerState, WindowState] = {"done": "done", "failed": "failed", "cancelled": "missing"}


class WindowPage(NamedTuple):
    """`counts` are those of the whole range, `total` is how many are in the state that was asked for."""

    items: Windows
    counts: dict[WindowState, int]
    total: int


class _Standing(msgspec.Struct, frozen=True):
    """The windows a schedule asks for, what the ledger knows of them, and the executions of those alive."""

    wanted: list[Stretch]
    known: dict[Stretch, LedgerEntry]
    alive: dict[Stretch, str]

    def batches(self) -> Iterator[list[Stretch]]:
        return (self.wanted[start : start + MANY] for start in range(0, len(self.wanted), MANY))

    def state(self, stretch: Stretch) -> WindowState:
        if stretch in self.alive:
            return "running"
        entry = self.known.get(stretch)
        return "missing" if entry is None else _STATES[entry.state]

    def status(self, stretch: Stretch) -> WindowStatus:
        window = Window(to_datetime(stretch[0]), to_datetime(stretch[1]))
        state, alive, entry = self.state(stretch), self.alive.get(stretch), self.known.get(stretch)
        if entry is None:
            return WindowStatus(window=window, state=state, execution_id=alive)
        return WindowStatus(
            window=window,
            state=state,
            execution_id=alive or entry.execution_id,
            last_state=entry.last_state.value,
            runs=entry.runs,
            finished=entry.finished,
        )


class WindowQueries:
    def __init__(self, store: Store, job_cache: JobCache, calendars: Calendars) -> None:
        self._store, self._job_cache, self._calendars = store, job_cache, calendars

    async def windows(self, name: str, begin: Any = None, end: Any = None) -> Windows:
        """What became of every window inside [begin, end) that the schedule has asked for so far."""
        job = await self._job_cache.read(name)
        return await self.of_job(job, *await self.range(job, begin, end))

    async def range(self, job: Job, begin: Any, end: Any) -> tuple[Micros, Micros]:
        """The range somebody asked for, checked. By itself it is from the first that is known of the job to now."""
        first = await self._first(job) if begin is None else _instant("begin", begin, job)
        last = await self._store.now() if end is None else _instant("end", end, job)
        if first >= last:
            allowed = f"an instant after begin ({instant_text(to_datetime(first))})"
            raise InvalidValue("end", instant_text(to_datetime(last)), allowed)
        return first, last

    async def of_job(self, job: Job, begin: Micros, end: Micros, *, dealt_with: bool = False) -> Windows:
        """With `dealt_with`, only windows whose ticks the scheduler has dealt with."""
        standing = await self._standing(job, begin, end, dealt_with)
        statuses = Windows()
        for some in standing.batches():
            statuses += [standing.status(window) for window in some]
            await asyncio.sleep(0)
        return statuses

    async def page(
        self, name: str, begin: Any, end: Any, *, state: WindowState | None, limit: int, offset: int
    ) -> WindowPage:
        """One page of the same, with how many there are in each state."""
        job = await self._job_cache.read(name)
        standing = await self._standing(job, *await self.range(job, begin, end), False)
        counts: dict[WindowState, int] = dict.fromkeys(STATES, 0)
        shown: list[Stretch] = []
        matching = 0
        for some in standing.batches():
            for window in some:
                found = standing.state(window)
                counts[found] += 1
                if state in (None, found):
                    matching += 1
                    if offset < matching <= offset + limit:
                        shown.append(window)
            await asyncio.sleep(0)
        return WindowPage(Windows(map(standing.status, shown)), counts, matching)

    async def _standing(self, job: Job, begin: Micros, end: Micros, dealt_with: bool) -> _Standing:
        """What is alive is looked at first, then what has ended and is not entered yet, then the ledger: an execution
        that ends meanwhile is seen in one of them."""
        found = _telling(job, await self._eras(job))
        now = await self._store.now()
        wanted = await self._expected(found, begin, end, _before_next_tick(job, now) if dealt_with else now)
        alive = await self._alive(job.name)
        fresh = [
            each for each in await self._store.todo(PAGE) if each.job == job.name and window_ledger.is_entered(each)
        ]
        known = await self._ledger(job.name, begin, end)
        for execution in fresh:
            if (window := window_ledger.window_of(execution)) is not None:
                entry = window_ledger.entered(known.get(window), execution)
                known |= {} if entry is None else {window: entry}
        return _Standing(wanted, known, alive)

    async def _expected(self, found: list[Era], begin: Micros, end: Micros, now: Micros) -> list[Stretch]:
        """A hundred thousand take seconds: others have their turn meanwhile."""
        wanted: list[Stretch] = []
        for number, window in enumerate(expected(found, begin, end, now)):
            if window is not None:
                wanted.append(window)
            if len(wanted) > MOST:
                span = f"{instant_text(to_datetime(begin))} to {instant_text(to_datetime(end))}"
                raise InvalidValue(
                    "range", span, f"at most {MOST:,} windows", "Give a begin and an end closer together"
                )
            if number % FEW == 0:
                await asyncio.sleep(0)
        return wanted

    async def _eras(self, job: Job) -> list[Era]:
        revisions = [entry async for page in self._pages("revision", job.name) for entry in page]
        found = eras(job, revisions)
        names = {name for era in found for name in era.calendar_names}
        calendars = await self._calendars.read(names) if names else {}
        return [msgspec.structs.replace(era, calendars=calendars) for era in found]

    async def _first(self, job: Job) -> Micros:
        """The first that is known: when the job was made, the first window in the ledger, or an older revision."""
        entered = await self._store.list_entries("window", job.name, limit=1)
        revised = await self._store.list_entries("revision", job.name, limit=1)
        known = [job.created]
        known += [window_ledger.window_from(entry.key)[0] for entry in entered]
        known += [msgspec.json.decode(entry.body, type=Timing).since or job.created for entry in revised]
        return max(0, min(known))

    async def _ledger(self, job: str, begin: Micros, end: Micros) -> dict[Stretch, LedgerEntry]:
        known: dict[Stretch, LedgerEntry] = {}
        async for entries in self._pages("window", job, f"{begin:017d}", f"{end:017d}"):
            known |= {window_ledger.window_from(entry.key): window_ledger.decode_entry(entry.body) for entry in entries}
        return known

    async def _pages(
        self, kind: EntryKind, scope: str, after: str = "", before: str | None = None
    ) -> AsyncIterator[list[Entry]]:
        while entries := await self._store.list_entries(kind, scope, after=after, before=before, limit=MANY):
            yield entries
            if len(entries) < MANY:
                return
            after = entries[-1].key
            await asyncio.sleep(0)  # a store in memory answers at once

    async def _alive(self, job: str) -> dict[Stretch, str]:
        alive: dict[Stretch, str] = {}
        before: str | None = None
        while page := await self._store.find(ExecutionQuery(job=job, states=LIVE, limit=ALIVE, before=before)):
            alive |= _by_window(page)
            before = page[-1].id
            if len(page) < ALIVE:
                break
        return alive


def _before_next_tick(job: Job, now: Micros) -> Micros:
    """The ticks from the planned one on are the scheduler's to make, also when it comes late."""
    return min(now, job.next_run - 1) if job.ticking and job.next_run is not None else now


def _by_window(executions: list[ExecutionRow]) -> dict[Stretch, str]:
    return {window: each.id for each in executions if (window := window_ledger.window_of(each)) is not None}


def _telling(job: Job, found: list[Era]) -> list[Era]:
    """Refuse a job whose schedule says nothing about windows, and never did."""
    if any(era.rule is not None for era in found):
        return found
    if job.spec.window is None:
        remedy = 'Declare it with window=, such as window="yesterday"'
        raise InvalidValue("job", job.name, "a job with data windows", remedy)
    remedy = 'Give it a trigger other than a fixed delay, or a window of the calendar, such as window="previous_day"'
    raise InvalidValue("job", job.name, "a job whose windows follow from its schedule", remedy)


def _instant(field: str, value: Any, job: Job) -> Micros:
    """Without an offset it is read in the job's zone."""
    at = to_micros(instant(field, value, tz=job.spec.tz))
    if at < 0:
        raise InvalidValue(field, value, "an instant from 1970 on")
    return at
