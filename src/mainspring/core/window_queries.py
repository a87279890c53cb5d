"""Which windows of a job are done, failed, missing or running: what its schedule asks for, beside the ledger."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from ..model.backfill import Windows, WindowState, WindowStatus
from ..model.changes import ExecutionQuery
from ..model.errors import InvalidValue
from ..model.execution import LIVE, Execution
from ..model.instants import Micros, to_datetime, to_micros
from ..model.job import Job
from ..model.shelf import Entry, ShelfKind
from ..model.trigger import instant_text
from ..model.values import instant
from ..model.windows import Window
from . import ledger
from .calendars import Calendars
from .catalogue import Catalogue
from .eras import Era, Timing, eras, expected
from .ledger import LedgerEntry, Stretch
from .ports import Store

MOST = 100_000
"""Windows that are looked at in one go."""
PAGE = 1_000
LEDGER_PAGE = 10_000
AT_ONCE = 500
_NOBODY = ""


class WindowQueries:
    def __init__(self, store: Store, catalogue: Catalogue, calendars: Calendars) -> None:
        self._store, self._catalogue, self._calendars = store, catalogue, calendars

    async def windows(self, name: str, begin: Any = None, end: Any = None) -> Windows:
        """What became of every window inside [begin, end) that the schedule has asked for so far."""
        job = await self._catalogue.read(name)
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
        """With `dealt_with`, only windows whose ticks the scheduler has dealt with.

        What is alive is looked at first, then what has ended and is not entered yet, then the ledger: an execution
        that ends meanwhile is seen in one of them.
        """
        found = _telling(job, await self._eras(job))
        now = await self._store.now()
        wanted = await self._expected(found, begin, end, _before_next_tick(job, now) if dealt_with else now)
        alive = await self._alive(job.name)
        fresh = [each for each in await self._store.todo(PAGE) if each.job == job.name and ledger.is_entered(each)]
        known = await self._ledger(job.name, begin, end)
        for execution in fresh:
            if (window := ledger.window_of(execution)) is not None:
                entry = ledger.entered(known.get(window), execution)
                known |= {} if entry is None else {window: entry}
        return Windows(_status(window, known.get(window), alive.get(window, _NOBODY)) for window in wanted)

    async def _expected(self, found: list[Era], begin: Micros, end: Micros, now: Micros) -> list[Stretch]:
        """A hundred thousand take seconds: others have their turn meanwhile."""
        wanted: list[Stretch] = []
        for window in expected(found, begin, end, now):
            wanted.append(window)
            if len(wanted) > MOST:
                span = f"{instant_text(to_datetime(begin))} to {instant_text(to_datetime(end))}"
                raise InvalidValue(
                    "range", span, f"at most {MOST:,} windows", "Give a begin and an end closer together"
                )
            if len(wanted) % AT_ONCE == 0:
                await asyncio.sleep(0)
        return wanted

    async def _eras(self, job: Job) -> list[Era]:
        found = eras(job, await self._all("revision", job.name))
        names = {name for era in found for name in era.calendar_names}
        calendars = await self._calendars.read(names) if names else {}
        return [msgspec.structs.replace(era, calendars=calendars) for era in found]

    async def _first(self, job: Job) -> Micros:
        """The first that is known: when the job was made, the first window in the ledger, or an older revision."""
        entered = await self._store.shelf("window", job.name, limit=1)
        revised = await self._store.shelf("revision", job.name, limit=1)
        known = [job.created]
        known += [ledger.window_from(entry.key)[0] for entry in entered]
        known += [msgspec.json.decode(entry.body, type=Timing).since or job.created for entry in revised]
        return max(0, min(known))

    async def _ledger(self, job: str, begin: Micros, end: Micros) -> dict[Stretch, LedgerEntry]:
        found = await self._all("window", job, after=f"{begin:017d}", before=f"{end:017d}")
        return {ledger.window_from(entry.key): ledger.decode_entry(entry.body) for entry in found}

    async def _all(self, kind: ShelfKind, scope: str, after: str = "", before: str | None = None) -> list[Entry]:
        found = await self._store.shelf(kind, scope, after=after, before=before, limit=LEDGER_PAGE)
        everything = list(found)
        while len(found) == LEDGER_PAGE:
            found = await self._store.shelf(kind, scope, after=found[-1].key, before=before, limit=LEDGER_PAGE)
            everything += found
        return everything

    async def _alive(self, job: str) -> dict[Stretch, str]:
        alive: dict[Stretch, str] = {}
        before: str | None = None
        while page := await self._store.find(ExecutionQuery(job=job, states=LIVE, limit=PAGE, before=before)):
            alive |= _by_window(page)
            before = page[-1].id
            if len(page) < PAGE:
                break
        return alive


def _before_next_tick(job: Job, now: Micros) -> Micros:
    """The ticks from the planned one on are the scheduler's to make, also when it comes late."""
    return min(now, job.next_run - 1) if job.ticking and job.next_run is not None else now


def _by_window(executions: list[Execution]) -> dict[Stretch, str]:
    return {window: each.id for each in executions if (window := ledger.window_of(each)) is not None}


def _status(stretch: Stretch, entry: LedgerEntry | None, alive: str) -> WindowStatus:
    window = Window(to_datetime(stretch[0]), to_datetime(stretch[1]))
    if entry is None:
        return WindowStatus(window=window, state="running" if alive else "missing", execution_id=alive or None)
    states: dict[str, WindowState] = {"done": "done", "failed": "failed", "cancelled": "missing"}
    return WindowStatus(
        window=window,
        state="running" if alive else states[entry.state],
        execution_id=alive or entry.execution_id,
        last_state=entry.last_state.value,
        runs=entry.runs,
        finished=entry.finished,
    )


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
