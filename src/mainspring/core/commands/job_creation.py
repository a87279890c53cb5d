"""Jobs created while the application runs: over HTTP and from templates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ...model.defaults import API_BACKOFF, API_BACKOFF_LIMIT, API_RETRIES
from ...model.errors import CommandRefused, HandlerNotFound
from ...model.execution import ExecutionRow
from ...model.job import Job
from ...model.policies import Retry
from ...model.values.access import Role
from ...model.values.ids import Chance
from ...model.values.reading import own_name
from ..auditing import audit_record
from ..declaring.job_specs import JobDefaults, job_spec, refuse_unknown_secrets, refuse_without_parents
from ..declaring.options import inherited_options, inherited_under, joined_secrets
from ..declaring.registry import Registry
from ..declaring.signature import Signature
from ..jobs.calendars import Calendars
from ..jobs.job_cache import JobCache
from ..ports import Store
from ..queries.queries import Queries
from ..rules import job_commands, job_roles, new_execution
from ..rules.secret_params import mask_fields, union
from ..views.job import JobView
from .enqueue import Enqueuer
from .steering import Check

_INHERITED = inherited_options(by="http")
_RETRIES = {
    "max_attempts": API_RETRIES + 1,
    "retry": Retry(initial=API_BACKOFF, multiplier=2.0, max=API_BACKOFF_LIMIT),
}
"""The defaults of jobs created over HTTP, where neither the request nor the settings say otherwise."""


def generated_name(handler: str, chance: Chance) -> str:
    """A name for a job that was created without one: its handler, and enough chance to be the only one."""
    return f"{handler[:80]}-{chance.randbytes(6).hex()}"


class Creation:
    """Creates jobs while the application runs."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        enqueuer: Enqueuer,
        job_cache: JobCache,
        calendars: Calendars,
        queries: Queries,
        chance: Chance,
        timezone: str,
        defaults: JobDefaults,
    ) -> None:
        self._store, self._registry, self._enqueuer, self._job_cache = store, registry, enqueuer, job_cache
        self._calendars, self._queries, self._chance = calendars, queries, chance
        self._timezone, self._defaults = timezone, defaults

    async def create(
        self,
        name: str | None,
        handler: str,
        options: Mapping[str, Any],
        *,
        by: str,
        execution_id: str | None = None,
        run: bool = True,
        check: Check | None = None,
    ) -> tuple[JobView, ExecutionRow | None]:
        """Create a job. One that neither ticks nor follows others runs once, at once, unless `run` is false; that
        execution is returned too.

        `check` may refuse the new job. It is also called with the handler's own job, so that another job of the same
        code is no way around the role that one demands.
        """
        await self.check_handler(own_name("handler", handler))
        name = generated_name(handler, self._chance) if name is None else own_name("name", name)
        signature = self.signature(handler)
        own = await self.own_job(handler)
        given = self._with_defaults(own, options)
        spec = job_spec(
            handler,
            signature,
            given,
            self._timezone,
            isolation=self._defaults.isolation,
            payload_limit=self.payload_limit,
        )
        refuse_without_parents(options, spec.after)
        refuse_unknown_secrets(options, signature)
        await self._calendars.check([(name, spec)])
        now = await self._store.now()
        if check is not None:  # before anything is written, links to parents too
            new = self._job_cache.new_job(name, spec, "api", now)
            for job in [new] if own is None else [own, new]:
                check(job, job_roles.role_for(job, own))
            if own is None and handler not in self._registry.names:
                check(new, Role.ADMIN)  # nobody knows here what the code demands
        if await self._store.jobs([name]):
            raise CommandRefused("create", "there", ["no job has that name"], f"job {name!r}")
        spec = await self._job_cache.dependents.prepare(name, spec)
        write = job_commands.declare(None, self._job_cache.new_job(name, spec, "api", now), now)
        assert write is not None, "nothing of that name is known here"
        waits = not run or write.job.ticking or spec.after
        first = None if waits else self._first(write.job, by, now, execution_id)
        created = mask_fields(msgspec.json.decode(write.job.declared), spec.secret)
        after = msgspec.json.encode(created).decode()
        audit = audit_record(self._chance, "create", f"job:{name}", by, now, after=after)
        executions = () if first is None else (first,)
        made = msgspec.structs.replace(write, executions=executions, audit=audit)
        if not (await self._store.write_jobs([made]))[0].won:
            raise CommandRefused("create", "there", ["no job has that name"], f"job {name!r}")
        self._job_cache.forget([name, *spec.after])
        return await self._queries.job(name), first

    def _with_defaults(self, own: Job | None, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options, over the defaults of the settings, over those of this interface, over the handler's own job. An
        option given as None is left out, and nothing takes its place but the default of a declaration."""
        inherited = {} if own is None else {name: value for name in _INHERITED if (value := getattr(own.spec, name))}
        removed = {name: None for name, value in options.items() if value is None}
        own_options = {**_RETRIES, **self._defaults.under(options), **removed}
        return {**inherited_under(inherited, options), **own_options, **joined_secrets(inherited, options)}

    def _first(self, job: Job, by: str, now: int, id: str | None) -> ExecutionRow:
        params = self._enqueuer.encode_params(job, None)
        return new_execution.new_execution(
            job, trigger="api", triggered_by=by, now=now, chance=self._chance, id=id, params=params
        )

    @property
    def payload_limit(self) -> int:
        return self._defaults.payload_limit

    async def own_job(self, handler: str) -> Job | None:
        """The job that is declared with the handler, under its name."""
        return (await self._job_cache.own_jobs.named([handler])).get(handler)

    async def secrets_of(self, handler: str) -> tuple[str, ...]:
        """The secret paths in the parameters of a handler: of its own job, and of its code if that is here."""
        own, signature = await self.own_job(handler), self.signature(handler)
        return union(() if own is None else own.spec.secret, () if signature is None else signature.secret)

    def signature(self, handler: str) -> Signature | None:
        """The signature of a handler; None when this process does not have it."""
        return self._registry.get(handler).signature if handler in self._registry.names else None

    async def check_handler(self, handler: str) -> None:
        """Refuse a handler that neither this process nor a running one has: its jobs would never run."""
        if handler in self._registry.names:
            return
        known = await self.known_handlers()
        if handler not in known:
            raise HandlerNotFound(handler, known)

    async def known_handlers(self) -> frozenset[str]:
        """The handlers of this process and of all running ones."""
        running = (name for worker in await self._queries.workers() for name in worker.handlers)
        return self._registry.names | frozenset(running)
