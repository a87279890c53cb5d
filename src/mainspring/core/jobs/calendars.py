"""Named calendars: declared by code, edited by operators, read by schedulers.

As with jobs, what code declares is stored when the application starts, and what an operator sets stays on top of it,
whatever is deployed, until it is reverted. One entry in the store holds both.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias

import msgspec

from ...model.calendars.calendar import Calendar, calendar, decode_calendar, encode_calendar
from ...model.calendars.hours import hours_of
from ...model.errors import CommandRefused, InvalidValue, NotFound, nearest
from ...model.job import Job, JobSpec
from ...model.store.entries import Entry, EntryWrite
from ...model.store.messages import Audit
from ...model.time.instants import Micros, to_datetime
from ...model.values.access import Role
from ...model.values.ids import Chance
from ...model.values.reading import identifier, is_identifier, words
from ..auditing import audit_record
from ..ports import Clock, Store
from ..rules.job_roles import own_job, role_for
from ..rules.opening_hours import named_by
from .own_jobs import OwnJobs

FRESH_FOR = 2.0
"""Seconds for which a scheduler keeps what it read. After that an edit is in force everywhere."""
PAGE = 1_000
YEARS = 5
"""How far ahead and back openings are searched."""
SHOWN_IN_AUDIT = 20


JobCheck: TypeAlias = Callable[[Job, Role], None]
"""Raises an error when the caller may not change this job, which asks for this role."""


class CalendarNotFound(NotFound):
    noun = "calendar"


class _CalendarBody(msgspec.Struct, omit_defaults=True):
    """The body of an entry."""

    declared: list[dict[str, Any]] | None = None
    edited: list[dict[str, Any]] | None = None
    by: str = ""
    at: Micros = 0

    @property
    def calendar(self) -> Calendar:
        return decode_calendar((self.declared or []) if self.edited is None else self.edited)


class CalendarView(msgspec.Struct, frozen=True, kw_only=True):
    """A stored calendar."""

    name: str
    """Its name, which jobs use in their `hours`."""
    calendar: Calendar
    """The calendar itself."""
    origin: str
    """Whether code or an operator set what is in force."""
    by: str
    """Who set it."""
    updated_at: datetime
    """When it was set."""
    declared: bool
    """Whether code declares a calendar of this name."""

    @property
    def entries(self) -> list[str]:
        """Its entries as text."""
        return self.calendar.texts()


class Calendars:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        chance: Chance,
        declared: Mapping[str, Calendar],
        own_jobs: OwnJobs | None = None,
    ) -> None:
        self._store, self._clock, self._chance, self._declared = store, clock, chance, declared
        self._own_jobs = own_jobs or OwnJobs(store)
        self._kept: dict[str, tuple[Calendar | None, float]] = {}

    # --- for the scheduler --------------------------------------------------------------------------------
    async def read(self, names: Iterable[str]) -> dict[str, Calendar]:
        """Those of these calendars that exist, as they were at most a moment ago."""
        now = self._clock.monotonic()
        wanted = set(names)
        old = [name for name in wanted if name not in self._kept or self._kept[name][1] <= now]
        if old:
            found = {entry.key: entry for entry in await self._store.entries("calendar", "", sorted(old))}
            for name in old:
                calendar = _calendar_of(found.get(name))
                if calendar is not None:
                    await self._lay_out(calendar)
                self._kept[name] = (calendar, now + FRESH_FOR)
        read = {name: self._kept[name][0] for name in wanted}
        return {name: found for name, found in read.items() if found is not None}

    async def _lay_out(self, calendar: Calendar) -> None:
        """Prepare the years that schedulers look at. A year of a large calendar takes milliseconds, so other tasks get
        a turn in between."""
        year = to_datetime(await self._store.now()).year if calendar.is_large else 0
        for each in range(year - YEARS, year + YEARS + 1) if calendar.is_large else ():
            if calendar.lay_out(each):
                await asyncio.sleep(0)

    async def of(self, jobs: Iterable[Job]) -> dict[str, Calendar]:
        """The calendars that these jobs name. Nearly always there are none, and nothing is read."""
        names = {name for job in jobs for name in named_by(job)}
        return await self.read(names) if names else {}

    def known(self, job: Job) -> dict[str, Calendar]:
        """The calendars that a job names, as last read."""
        read = {name: self._kept[name][0] for name in named_by(job) if name in self._kept}
        return {name: found for name, found in read.items() if found is not None}

    # --- for code -----------------------------------------------------------------------------------------
    async def declare(self, *, update: bool) -> None:
        """Store the calendars that code declares: new ones, and at a start also changed ones."""
        for name, wanted in self._declared.items():
            while not await self._declare(name, encode_calendar(wanted), update):
                pass

    async def _declare(self, name: str, wanted: list[dict[str, Any]], update: bool) -> bool:
        entry = await self._entry(name)
        body = _CalendarBody() if entry is None else _read(entry)
        if body.declared == wanted or (entry is not None and not update):
            return True
        now = await self._store.now()
        changed = msgspec.structs.replace(body, declared=wanted)
        if body.edited is None:
            changed = msgspec.structs.replace(changed, by="code", at=now)
        return await self._write(name, entry, changed)

    async def check(self, specs: Sequence[tuple[str, JobSpec]]) -> None:
        """Refuse jobs that name a calendar which does not exist."""
        named = {job: hours_of(spec.hours).calendars for job, spec in specs if spec.hours is not None}
        if not any(named.values()):
            return
        self._kept.clear()
        known = await self.read(name for names in named.values() for name in names)
        for job, names in named.items():
            for name in names:
                if name not in known:
                    raise await self._unknown(job, name)

    async def check_names(self, job: str, names: Sequence[str]) -> None:
        """Refuse an edit that names a calendar which does not exist."""
        self._kept.clear()
        known = await self.read(names) if names else {}
        for name in names:
            if name not in known:
                raise await self._unknown(job, name)

    async def _unknown(self, job: str, name: str) -> InvalidValue:
        known = [view.name for view in await self.all()]
        guess = nearest(name, known)
        remedy = f"Did you mean {guess!r}?" if guess else f"Declare it: app.calendar({name!r}, [...])"
        return InvalidValue(
            f"hours of job {job!r}", name, f"calendars that exist: {', '.join(known) or 'none'}", remedy
        )

    # --- for operators ------------------------------------------------------------------------------------
    # A calendar decides when the jobs that name it run: a change of it is a change of them. `check` sees each of them.
    async def all(self) -> list[CalendarView]:
        found: list[Entry] = []
        while page := await self._store.list_entries("calendar", "", after=found[-1].key if found else "", limit=PAGE):
            found += page
        return [_view(entry) for entry in found]

    async def get(self, name: str) -> CalendarView:
        entry = await self._entry(name)
        if entry is None:
            raise CalendarNotFound(name, [view.name for view in await self.all()])
        return _view(entry)

    async def set(self, name: str, entries: Any, *, by: str, check: JobCheck | None = None) -> CalendarView:
        """What an operator sets stays until it is reverted, whatever code declares."""
        identifier("calendar", name)
        wanted = encode_calendar(calendar(name, entries))
        await self._check_jobs(name, check)
        while True:
            entry = await self._entry(name)
            now = await self._store.now()
            before = _CalendarBody() if entry is None else _read(entry)
            body = msgspec.structs.replace(before, edited=wanted, by=words("by", by), at=now)
            if await self._write(name, entry, body, self._audit("set", name, by, now, entry, body)):
                return await self.get(name)

    async def revert(self, name: str, *, by: str, check: JobCheck | None = None) -> CalendarView:
        """Back to what code declares."""
        await self._check_jobs(name, check)
        while True:
            view, entry = await self.get(name), await self._entry(name)
            if entry is None:
                continue
            before = _read(entry)
            if before.declared is None:
                raise CommandRefused("revert", "not declared by code", ["code declares it"], f"calendar {name!r}")
            if before.edited is None:
                return view
            now = await self._store.now()
            body = msgspec.structs.replace(before, edited=None, by=words("by", by), at=now)
            if await self._write(name, entry, body, self._audit("revert", name, by, now, entry, body)):
                return await self.get(name)

    async def remove(self, name: str, *, by: str) -> None:
        """Refused while a job names it."""
        while True:
            await self.get(name)
            entry = await self._entry(name)
            if entry is None:
                continue
            if jobs := await self.jobs_naming(name):
                more = f" and {len(jobs) - 5} more" if len(jobs) > 5 else ""
                used = f"named by {', '.join(jobs[:5])}{more}"
                raise CommandRefused("remove", used, ["no job names it"], f"calendar {name!r}")
            now = await self._store.now()
            audit = self._audit("remove", name, by, now, entry, None)
            write = EntryWrite(entry=entry, seen_version=entry.version, remove=True, audit=audit)
            if (await self._store.write_entries([write]))[0]:
                self._kept.pop(name, None)
                return

    async def jobs_naming(self, name: str) -> list[str]:
        """The jobs whose hours name this calendar. It reads all jobs: for operators only."""
        return [job.name async for job in self._naming(name)]

    # --- inside -------------------------------------------------------------------------------------------
    async def _naming(self, name: str) -> AsyncIterator[Job]:
        after = ""
        while page := await self._store.jobs_after(after, PAGE):
            for job in page:
                if name in named_by(job):
                    yield job
            after = page[-1].name

    async def _check_jobs(self, name: str, check: JobCheck | None) -> None:
        if check is not None:
            jobs = [job async for job in self._naming(name)]
            known = await self._own_jobs.of(jobs)
            for job in jobs:
                check(job, role_for(job, own_job(job, known)))

    async def _entry(self, name: str) -> Entry | None:
        found = await self._store.entries("calendar", "", [name]) if is_identifier(name) else []
        return found[0] if found else None

    async def _write(self, name: str, seen: Entry | None, body: _CalendarBody, audit: Audit | None = None) -> bool:
        entry = Entry(kind="calendar", key=name, body=msgspec.json.encode(body).decode())
        version = 0 if seen is None else seen.version
        won = (await self._store.write_entries([EntryWrite(entry=entry, seen_version=version, audit=audit)]))[0]
        self._kept.pop(name, None)
        return won

    def _audit(
        self, action: str, name: str, by: str, now: Micros, before: Entry | None, after: _CalendarBody | None
    ) -> Audit:
        return audit_record(
            self._chance,
            f"{action}_calendar",
            f"calendar:{name}",
            by,
            now,
            before=None if before is None else _summary(_read(before)),
            after=None if after is None else _summary(after),
        )


def _read(entry: Entry) -> _CalendarBody:
    return msgspec.json.decode(entry.body, type=_CalendarBody)


def _calendar_of(entry: Entry | None) -> Calendar | None:
    """None also for a calendar that this release cannot read: its jobs wait for a node that can."""
    try:
        return None if entry is None else _read(entry).calendar
    except (msgspec.MsgspecError, InvalidValue):
        return None


def _view(entry: Entry) -> CalendarView:
    body = _read(entry)
    return CalendarView(
        name=entry.key,
        calendar=body.calendar,
        origin="code" if body.edited is None else "operator",
        by=body.by,
        updated_at=to_datetime(body.at),
        declared=body.declared is not None,
    )


def _summary(body: _CalendarBody) -> str:
    """A calendar may have thousands of entries: the audit keeps how many, and the first of them."""
    texts = body.calendar.texts()
    fields = {
        "entries": len(texts),
        "first": texts[:SHOWN_IN_AUDIT],
        "origin": "code" if body.edited is None else "operator",
    }
    return msgspec.json.encode(fields).decode()
