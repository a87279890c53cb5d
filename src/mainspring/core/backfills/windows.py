"""Which windows of a job are done, failed, missing or running: the schedule compared with the window ledger."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator
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
from ...model.values.payload import presentable
from ...model.values.reading import instant
from ...model.windows import window_between
from ..jobs.calendars import Calendars
from ..jobs.job_cache import JobCache
from ..ports import Store
from ..rules import window_ledger
from ..rules.timing_history import Timing, TimingPeriod, about_expected, expected, timing_periods
from ..rules.window_ledger import LedgerEntry, LedgerState, Stretch

MOST = 100_000
"""The most windows that one request may cover."""
PAGE = 1_000
ALIVE = 200
FEW = 25
"""Windows computed before other tasks get a turn; each takes up to 0.1 ms."""
MANY = 500
"""Windows or ledger entries handled before other tasks get a turn; each takes a few microseconds."""
_STATES: dict[LedgerState, WindowState] = {"done": "done", "failed": "failed", "cancelled": "missing"}


class WindowPage(NamedTuple):
    """`counts` covers the whole range, `total` the windows in the requested state."""

    items: Windows
    counts: dict[WindowState, int]
    total: int


class _WindowStates(msgspec.Struct, frozen=True):
    """The windows that the schedule asks for, their ledger entries, and the live executions among them. `tz` is the
    zone of the job."""

    tz: str
    wanted: list[Stretch]
    known: dict[Stretch, LedgerEntry]
    alive: dict[Stretch, str]

    def batches(self) -> Iterator[list[Stretch]]:
        return (self.wanted[start : start + MANY] for start in range(0, len(self.wanted), MANY))

    async def in_states(self, states: Collection[WindowState]) -> tuple[list[Stretch], dict[WindowState, int]]:
        """The windows in these states, and the number in each state."""
        matching: list[Stretch] = []
        counts: dict[WindowState, int] = dict.fromkeys(STATES, 0)
        for some in self.batches():
            for window in some:
                state = self.state(window)
                counts[state] += 1
                if state in states:
                    matching.append(window)
            await asyncio.sleep(0)
        return matching, counts

    def state(self, stretch: Stretch) -> WindowState:
        if stretch in self.alive:
            return "running"
        entry = self.known.get(stretch)
        return "missing" if entry is None else _STATES[entry.state]

    def status(self, stretch: Stretch) -> WindowStatus:
        window = window_between(*stretch, self.tz)
        state, alive, entry = self.state(stretch), self.alive.get(stretch), self.known.get(stretch)
        if entry is None:
            return WindowStatus(window=window, state=state, execution_id=alive)
        return WindowStatus(
            window=window,
            state=state,
            execution_id=alive or entry.execution_id,
            last_state=entry.last_state.value,
            runs=entry.runs,
            finished_at=to_datetime(entry.finished),
        )


class WindowQueries:
    def __init__(self, store: Store, job_cache: JobCache, calendars: Calendars) -> None:
        self._store, self._job_cache, self._calendars = store, job_cache, calendars

    async def windows(self, name: str, begin: Any = None, end: Any = None) -> Windows:
        """The status of every window inside [begin, end) that the schedule has asked for so far."""
        job = await self._job_cache.read(name)
        found = await self._states(job, *await self.range(job, begin, end), False)
        statuses = Windows()
        for some in found.batches():
            statuses += [found.status(window) for window in some]
            await asyncio.sleep(0)
        return statuses

    async def range(self, job: Job, begin: Any, end: Any) -> tuple[Micros, Micros]:
        """The requested range, checked. By default it reaches from the first known instant of the job to now."""
        first = await self._first(job) if begin is None else _instant("begin", begin, job)
        last = await self._store.now() if end is None else _instant("end", end, job)
        if first >= last:
            allowed = f"an instant after begin ({instant_text(to_datetime(first))})"
            given = instant_text(to_datetime(last)) if end is None else presentable(end)
            raise InvalidValue("end", given, allowed)
        return first, last

    async def page(
        self, name: str, begin: Any, end: Any, *, state: WindowState | None, limit: int, offset: int
    ) -> WindowPage:
        """One page of the same, with the number of windows in each state."""
        job = await self._job_cache.read(name)
        found = await self._states(job, *await self.range(job, begin, end), False)
        matching, counts = await found.in_states(STATES if state is None else (state,))
        return WindowPage(Windows(map(found.status, matching[offset : offset + limit])), counts, len(matching))

    async def plan(
        self, job: Job, begin: Micros, end: Micros, states: Collection[WindowState]
    ) -> tuple[list[Stretch], dict[WindowState, int]]:
        """The windows in these states whose ticks the scheduler has handled, and the number in each state."""
        return await (await self._states(job, begin, end, True)).in_states(states)

    async def _states(self, job: Job, begin: Micros, end: Micros, dealt_with: bool) -> _WindowStates:
        """Live executions are read first, then endings that are not in the ledger yet, then the ledger: an execution
        that ends in between is seen in one of them."""
        timings = _with_windows(job, await self._timing_periods(job))
        now = await self._store.now()
        wanted = await self._expected(timings, begin, end, _before_next_tick(job, now) if dealt_with else now)
        alive = await self._alive(job.name)
        fresh = [
            each for each in await self._store.todo(PAGE) if each.job == job.name and window_ledger.is_entered(each)
        ]
        known = await self._ledger(job.name, begin, end)
        for execution in fresh:
            if (window := window_ledger.window_of(execution)) is not None:
                entry = window_ledger.entered(known.get(window), execution)
                known |= {} if entry is None else {window: entry}
        return _WindowStates(job.spec.tz, wanted, known, alive)

    async def _expected(self, found: list[TimingPeriod], begin: Micros, end: Micros, now: Micros) -> list[Stretch]:
        """A hundred thousand windows take seconds, so other tasks get a turn in between, and a range with far more of
        them is refused at once."""
        wanted: list[Stretch] = []
        if about_expected(found, begin, end, now) > 2 * MOST:
            raise _too_many(begin, end)
        for number, window in enumerate(expected(found, begin, end, now)):
            if window is not None:
                wanted.append(window)
            if len(wanted) > MOST:
                raise _too_many(begin, end)
            if number % FEW == 0:
                await asyncio.sleep(0)
        return wanted

    async def _timing_periods(self, job: Job) -> list[TimingPeriod]:
        revisions = [entry async for page in self._pages("revision", job.name) for entry in page]
        found = timing_periods(job, revisions)
        names = {name for period in found for name in period.calendar_names}
        calendars = await self._calendars.read(names) if names else {}
        return [msgspec.structs.replace(period, calendars=calendars) for period in found]

    async def _first(self, job: Job) -> Micros:
        """The earliest of: the job's creation, the first window in the ledger, an older revision of its timing."""
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
            await asyncio.sleep(0)  # the memory store never yields by itself

    async def _alive(self, job: str) -> dict[Stretch, str]:
        alive: dict[Stretch, str] = {}
        before: str | None = None
        while page := await self._store.find(ExecutionQuery(job=job, states=LIVE, limit=ALIVE, before=before)):
            alive |= _by_window(page)
            before = page[-1].id
            if len(page) < ALIVE:
                break
        return alive


def _too_many(begin: Micros, end: Micros) -> InvalidValue:
    span = f"{instant_text(to_datetime(begin))} to {instant_text(to_datetime(end))}"
    return InvalidValue("range", span, f"at most {MOST:,} windows", "Give a begin and an end closer together")


def _before_next_tick(job: Job, now: Micros) -> Micros:
    """Ticks from the planned one on belong to the scheduler, even if it is late."""
    return min(now, job.next_run - 1) if job.ticking and job.next_run is not None else now


def _by_window(executions: list[ExecutionRow]) -> dict[Stretch, str]:
    return {window: each.id for each in executions if (window := window_ledger.window_of(each)) is not None}


def _with_windows(job: Job, found: list[TimingPeriod]) -> list[TimingPeriod]:
    """Refuse a job whose schedule never defined windows."""
    if any(period.rule is not None for period in found):
        return found
    if job.spec.window is None:
        remedy = 'Declare it with window=, such as window="yesterday"'
        raise InvalidValue("job", job.name, "a job with data windows", remedy)
    remedy = 'Give it a trigger other than a fixed delay, or a window of the calendar, such as window="previous_day"'
    raise InvalidValue("job", job.name, "a job whose windows follow from its schedule", remedy)


def _instant(field: str, value: Any, job: Job) -> Micros:
    """A value without an offset is read in the job's zone."""
    return to_micros(instant(field, value, tz=job.spec.tz))
