"""The own jobs of handlers: the own job of a handler has its name, and the role that it demands holds for every job of
that handler (`core.rules.job_roles`).

An own job that somebody has removed still counts in processes that have its code, as the code declares it: nobody gets
around its role by making another job of the handler before the next start stores it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...model.job import Job, JobSpec, encode_spec
from ..ports import Store
from ..rules.job_roles import handlers_to_read


class OwnJobs:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._code: dict[str, JobSpec] = {}

    def declare(self, specs: Sequence[tuple[str, JobSpec]]) -> None:
        """All jobs that the code of this process declares."""
        self._code = {name: spec for name, spec in specs if spec.handler == name}

    async def of(self, jobs: Sequence[Job]) -> dict[str, Job]:
        """The own jobs of the handlers of these jobs, as they are now, by name."""
        own = {job.name: job for job in jobs if job.spec.handler == job.name}
        return own | await self.named(handlers_to_read(jobs))

    async def named(self, handlers: Iterable[str]) -> dict[str, Job]:
        """The own jobs of these handlers."""
        names = sorted(set(handlers))
        stored = await self._store.jobs(names) if names else []
        own = {job.name: job for job in stored if job.spec.handler == job.name}
        removed = [name for name in names if name in self._code and name not in own]
        return own | {name: Job(name=name, id="", declared=encode_spec(self._code[name])) for name in removed}
