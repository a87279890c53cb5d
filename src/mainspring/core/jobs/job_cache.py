"""The job cache: job rows, declared at start-up, kept for a second and then read again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from ...model.calendars.calendar import Calendar
from ...model.errors import JobNotFound
from ...model.job import Job, JobSpec, Origin, encode_spec
from ...model.store.messages import JobQuery, JobWrite
from ...model.time.instants import Micros
from ...model.values.access import Role
from ...model.values.ids import Chance, random_id
from ...model.values.reading import identifier, is_identifier
from ..auditing import audit_record
from ..dependencies.links import Dependents
from ..ports import Clock, Store
from ..rules import job_commands, job_roles
from ..rules.timing_history import revision
from .calendars import Calendars
from .own_jobs import OwnJobs

FRESH_FOR = 1.0
BATCH = 75
"""Jobs that one statement declares: PostgreSQL takes about 25 ms for jobs that have changed."""
SUGGESTED_FROM = 1_000


class JobCache:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        chance: Chance,
        release: str,
        calendars: Calendars | None = None,
        own_jobs: OwnJobs | None = None,
    ) -> None:
        self._store, self._clock, self._chance, self._release = store, clock, chance, release
        self.calendars = calendars or Calendars(store, clock, chance, {})
        self.own_jobs = own_jobs or OwnJobs(store)
        self.dependents = Dependents(store)
        self._cached: dict[str, tuple[Job, float]] = {}

    async def declare(self, specs: Sequence[tuple[str, JobSpec]], *, update: bool = True) -> None:
        """Create or update the jobs that code declares, after the calendars that they name. Unchanged jobs are not
        written; what operators changed stays."""
        self.own_jobs.declare(specs)
        await self.calendars.declare(update=update)
        if update:
            await self.calendars.check(specs)
        specs = await self.dependents.declared(specs)
        for start in range(0, len(specs), BATCH):
            left = dict(specs[start : start + BATCH])
            while left:
                left = await self._declare_batch(left, update)
        await self.dependents.mark_parents(specs)
        self.forget(parent for _, spec in specs for parent in spec.after)

    async def _declare_batch(self, specs: dict[str, JobSpec], update: bool) -> dict[str, JobSpec]:
        """Returns the jobs that lost a race and have to be declared again."""
        existing = {job.name: job for job in await self._store.jobs(list(specs))}
        changed = [
            (existing.get(name), name, spec)
            for name, spec in specs.items()
            if name not in existing or (update and job_commands.differs(existing[name], encode_spec(spec), "code"))
        ]
        if not changed:
            return {}
        now = await self._store.now()
        calendars = await self.calendars.of(job for job, _, _ in changed if job is not None)
        writes = [
            self._declared(job, self.new_job(name, spec, "code", now), now, calendars) for job, name, spec in changed
        ]
        wanted = [write for write in writes if write is not None]
        revisions = [revision(existing.get(write.job.name), write.job, now) for write in wanted]
        if entries := [each for each in revisions if each is not None]:
            await self._store.write_entries(entries)
        written = await self._store.write_jobs(wanted)
        lost = [write.job.name for write, result in zip(wanted, written, strict=True) if not result.won]
        return {name: specs[name] for name in lost}

    def _declared(
        self, existing: Job | None, new: Job, now: Micros, calendars: Mapping[str, Calendar]
    ) -> JobWrite | None:
        write = job_commands.declare(existing, new, now)
        if existing is None or write is None:
            return write
        by = f"release {self._release}" if self._release else "code"
        before, after = job_commands.declared_difference(existing, new)
        audit = audit_record(self._chance, "declare", f"job:{new.name}", by, now, before=before, after=after)
        closed = job_commands.close_old_schedule(existing, write, now, self._chance, calendars)
        return msgspec.structs.replace(closed, audit=audit)

    def new_job(self, name: str, spec: JobSpec, origin: Origin, now: Micros) -> Job:
        id = random_id(now, self._chance)
        return Job(
            name=name,
            id=id,
            origin=origin,
            declared=encode_spec(spec),
            release=self._release,
            anchor=now,
            created=now,
            updated=now,
        )

    async def ensure(self, name: str, spec: JobSpec) -> None:
        """Create this job if there is none of that name."""
        if await self._store.jobs([identifier("name", name)]):
            return
        spec = await self.dependents.prepare(name, spec)
        now = await self._store.now()
        await self._store.write_jobs([JobWrite(job=self.new_job(name, spec, "api", now), seen_version=None)])

    def at_hand(self, name: str) -> Job | None:
        """This job, as it was at most a second ago; None when it has to be read."""
        cached = self._cached.get(name) if isinstance(name, str) else None
        if cached is not None and self._clock.monotonic() - cached[1] < FRESH_FOR:
            return cached[0]
        return None

    async def get(self, name: str) -> Job:
        """This job, as it was at most a second ago."""
        return self.at_hand(name) or await self.read(name)

    async def read(self, name: str) -> Job:
        """This job as it is now."""
        found = await self._store.jobs([name]) if is_identifier(name) else []
        if not found:
            self.forget([name] if isinstance(name, str) else [])
            raise JobNotFound(name, (await self._store.find_jobs(JobQuery(limit=SUGGESTED_FROM), 1)).names)
        self._drop_old()
        self._cached.pop(name, None)
        self._cached[name] = (found[0], self._clock.monotonic())
        return found[0]

    def _drop_old(self) -> None:
        """The oldest come first."""
        fresh_from = self._clock.monotonic() - FRESH_FOR
        while self._cached and (oldest := next(iter(self._cached.items())))[1][1] <= fresh_from:
            del self._cached[oldest[0]]

    async def role_for(self, job: Job) -> Role:
        """The role that this job asks for now."""
        return job_roles.role_for(job, job_roles.own_job(job, await self.own_jobs.of([job])))

    def forget(self, names: Iterable[str] | None = None) -> None:
        for name in list(self._cached) if names is None else names:
            self._cached.pop(name, None)
