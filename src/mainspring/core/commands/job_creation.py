"""Jobs made and edited through the HTTP interface: its fields as options of a declaration, with its own defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ...model.defaults import API_BACKOFF, API_BACKOFF_LIMIT, API_RETRIES
from ...model.errors import CommandRefused, HandlerNotFound, InvalidValue
from ...model.execution import ExecutionRow
from ...model.job import Job
from ...model.policies import Retry
from ...model.triggers.combined import Trigger, cron, every, once
from ...model.values.ids import Chance
from ...model.values.reading import duration, identifier, instant, whole
from ..declaring.dependency_options import refuse_without_parents
from ..declaring.edits import EDITABLE
from ..declaring.options import job_spec
from ..declaring.registry import Registry
from ..declaring.signature import Signature
from ..jobs.calendars import Calendars
from ..jobs.job_cache import JobCache
from ..ports import Store
from ..queries.job_view import JobView
from ..queries.queries import Queries
from ..rules import job_commands, new_execution
from .enqueue import Enqueuer

FOLLOWED = ("queue", "timeout", "non_retryable", "trigger_role", "limits", "weights")
"""What further jobs of a handler take over from its own job: where it runs, how long it may, who may run it."""

OPTION_OF = {
    "timezone": "tz",
    "schedule": "trigger",
    "interval_minutes": "trigger",
    "interval_type": "trigger",
    "max_retries": "max_attempts",
    "retry_backoff_seconds": "retry",
}
"""Fields of the interface that stand for an option of another name."""

SAME_NAME = tuple(name for name in EDITABLE if name not in ("cron", "trigger", "max_attempts", "tz", "enabled"))


def options_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the interface as options of a declaration. Where interval and schedule are both given, the
    interval wins."""
    options = {name: fields[name] for name in SAME_NAME if name in fields}
    if "timezone" in fields:
        options["tz"] = fields["timezone"]
    if fields.get("interval_minutes") is None and "schedule" in fields:
        options["trigger"] = None if fields["schedule"] is None else trigger_of(fields["schedule"])
        options.pop("interval_minutes", None)
    if "max_retries" in fields:
        options["max_attempts"] = whole("max_retries", fields["max_retries"], 0, 999) + 1
    if "retry_backoff_seconds" in fields:
        if "retry" in fields:
            raise InvalidValue("retry", fields["retry"], "no waits beside retry_backoff_seconds", "Give one of them")
        backoff = duration("retry_backoff_seconds", fields["retry_backoff_seconds"], allow_zero=True)
        options["retry"] = Retry(initial=backoff, multiplier=2.0, max=max(backoff, API_BACKOFF_LIMIT))
    return options


def with_defaults(options: Mapping[str, Any]) -> dict[str, Any]:
    """What a new job gets where it says nothing."""
    patient = Retry(initial=API_BACKOFF, multiplier=2.0, max=API_BACKOFF_LIMIT)
    return {"max_attempts": API_RETRIES + 1, "retry": patient, **options}


def trigger_of(text: str) -> Trigger:
    """A schedule as text, the way it is shown: cron, `@every 30m` or `@once 2026-01-01T00:00:00Z`.

    >>> trigger_of("@every 90s").describe()
    'every 1 minute 30 seconds'
    >>> trigger_of("0 25 * * *")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    mainspring.model.errors.InvalidValue: schedule: '0 25 * * *' is not valid; allowed: as hour, instead of '25': 0-2...
    """
    word, _, rest = text.strip().partition(" ")
    if word == "@every" and rest:
        return every(seconds=duration("schedule", rest))
    if word == "@once" and rest:
        return once(instant("schedule", rest))
    try:
        return cron(text)
    except InvalidValue as error:
        part = error.field.removeprefix("cron").strip()
        where = f"as {part}, instead of {error.value!r}: " if part else ""
        allowed = f"{where}{error.allowed}; or @every 30m, @once 2026-01-01T00:00:00Z"
        raise InvalidValue("schedule", text, allowed, error.remedy) from None


def generated_name(handler: str, chance: Chance) -> str:
    """For a job that nobody named: its handler, and enough chance that no two are alike."""
    return f"{handler[:80]}-{chance.randbytes(6).hex()}"


class Creation:
    """Making jobs while the application runs."""

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
    ) -> None:
        self._store, self._registry, self._enqueuer, self._job_cache = store, registry, enqueuer, job_cache
        self._calendars, self._queries, self._chance, self._timezone = calendars, queries, chance, timezone

    async def create(
        self,
        name: str | None,
        handler: str,
        options: Mapping[str, Any],
        *,
        by: str,
        execution_id: str | None = None,
        check: Callable[[Job], None] = lambda job: None,
    ) -> tuple[JobView, ExecutionRow | None]:
        """A new job. One that neither ticks nor comes after others runs once, and at once: that execution comes with
        it. `check` may refuse what is about to be made; it is asked about the handler's own job too, so that another
        job of the same code is no way around what that one demands."""
        await self.check_handler(identifier("handler", handler))
        name = generated_name(handler, self._chance) if name is None else identifier("name", name)
        signature = self.signature(handler)
        own = await self._own_job(handler)
        spec = job_spec(handler, signature, _followed(own) | with_defaults(options), self._timezone)
        refuse_without_parents(options, spec.after)
        await self._calendars.check([(name, spec)])
        now = await self._store.now()
        for job in (self._job_cache.new_job(name, spec, "api", now), *([] if own is None else [own])):
            check(job)  # before anything is written, links to parents too
        if await self._store.jobs([name]):
            raise CommandRefused("create", "there", ["no job has that name"], f"job {name!r}")
        spec = await self._job_cache.dependents.prepare(name, spec)
        write = job_commands.declare(None, self._job_cache.new_job(name, spec, "api", now), now)
        assert write is not None, "nothing of that name is known here"
        first = None if write.job.ticking or spec.after else self._first(write.job, by, now, execution_id)
        audit = self._enqueuer.audit("create", f"job:{name}", by, now, after=write.job.declared)
        executions = () if first is None else (first,)
        made = msgspec.structs.replace(write, executions=executions, audit=audit)
        if not (await self._store.write_jobs([made]))[0].won:
            raise CommandRefused("create", "there", ["no job has that name"], f"job {name!r}")
        self._job_cache.forget([name, *spec.after])
        return await self._queries.job(name), first

    def _first(self, job: Job, by: str, now: int, id: str | None) -> ExecutionRow:
        params = self._enqueuer.encode_params(job, None)
        return new_execution.new_execution(
            job, trigger="api", triggered_by=by, now=now, chance=self._chance, id=id, params=params
        )

    async def _own_job(self, handler: str) -> Job | None:
        """The job that is declared with the handler, under its name."""
        own = next(iter(await self._store.jobs([handler])), None)
        return None if own is None or own.spec.handler != handler else own

    def signature(self, handler: str) -> Signature | None:
        """What the handler takes; None when this process does not have it."""
        return self._registry.get(handler).signature if handler in self._registry.names else None

    async def check_handler(self, handler: str) -> None:
        """Known here, or to a process that runs now: a job for a handler that nobody has would never run."""
        if handler in self._registry.names:
            return
        known = {name for worker in await self._queries.workers() for name in worker.handlers}
        if handler not in known:
            raise HandlerNotFound(handler, known | self._registry.names)


def _followed(own: Job | None) -> dict[str, Any]:
    return {} if own is None else {name: value for name in FOLLOWED if (value := getattr(own.spec, name))}
