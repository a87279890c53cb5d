"""Running a job that exists, now: triggers and manual retries, whoever asks for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from ...model.errors import AlreadyRunning, CommandRefused, InvalidValue
from ...model.execution import ExecutionRow, State
from ...model.job import Job
from ...model.store.messages import Added, Audit
from ...model.time.instants import Micros, to_micros
from ...model.values.ids import Chance, random_id
from ...model.values.payload import presentable
from ...model.windows import caller_window
from ..cancelling import cancel_all
from ..declaring.registry import Registry
from ..declaring.tenant_options import check_tenant, refuse_unknown, tenant_names
from ..jobs.job_cache import JobCache
from ..loops import Emit
from ..ports import Store
from ..queries.queries import Queries
from ..request_context import TRACE_CONTEXT
from ..rules import job_commands, new_execution, tick_records
from ..tenants import rosters
from ..views.execution import Execution
from .retry_claims import RetryClaims, being_retried


class Triggering:
    """The part of the client that is about jobs that exist."""

    if TYPE_CHECKING:
        _store: Store
        _queries: Queries
        _job_cache: JobCache
        _registry: Registry
        _chance: Chance
        _emit: Emit
        retries: RetryClaims

        def encode_params(self, job: Job, params: Mapping[str, Any] | None) -> str: ...
        def _results(self, executions: Sequence[ExecutionRow], added: Sequence[Added]) -> list[ExecutionRow | None]: ...
        async def _cancel_superseded(self, execution: ExecutionRow) -> None: ...
        def audit(
            self, action: str, target: str, by: str, now: Micros, before: str | None = None, after: str | None = None
        ) -> Audit: ...

    async def trigger(
        self,
        name: str,
        params: Mapping[str, Any] | None = None,
        *,
        window: tuple[Any, Any] | None = None,
        by: str = "system",
        trigger: str = "manual",
        traceparent: str | None = None,
        id: str | None = None,
        single_try: bool = False,
        tenant: str | None = None,
        tenants: Iterable[str] | None = None,
    ) -> ExecutionRow:
        """Run a job now, with other parameters or another window if given. Its schedule stays as it is.

        With an `id` of the caller's own, what was triggered under it before is not triggered again. A `single_try` is
        for callers who wait and retry themselves. With `tenants` a job that has tenants runs for these; with a single
        `tenant` any job runs for that one, without a parent.
        """
        view = await self._queries.job(name)
        job, now = view.job, await self._store.now()
        job_commands.check("trigger", job, view.state)
        names = _names(job, tenant, tenants)
        self._refuse_unknown(job, tenant, names)
        policy = new_execution.single_try(job) if single_try else new_execution.policy_of(job, trigger)
        execution = new_execution.new_execution(
            job,
            trigger=trigger,
            triggered_by=by,
            now=now,
            chance=self._chance,
            params=self.encode_params(job, params),
            window=self._window(job, window, now),
            traceparent=TRACE_CONTEXT.get() or traceparent,
            id=id,
            policy=policy if names is None else new_execution.for_chosen(policy),
            tenant=None if tenant is None else check_tenant("tenant", tenant),
        )
        await self._keep_names(execution, names, now)
        audit = self.audit("trigger", f"job:{name}", by, now, after=execution.id)
        return await self._add_or_refuse(execution, audit)

    def _refuse_unknown(self, job: Job, tenant: str | None, names: Sequence[str] | None = None) -> None:
        """A misspelt tenant would run, and complete if the handler does not look."""
        if names is not None:
            refuse_unknown(names, self._registry.provider(job.name), "tenants")
        elif tenant is not None:
            refuse_unknown([check_tenant("tenant", tenant)], self._registry.provider(job.name))

    async def add_retry(
        self, ended: ExecutionRow, by: str, seen: int, id: str | None = None, tenants: Sequence[str] | None = None
    ) -> ExecutionRow:
        """A new execution with the parameters, window and tenant of one that ended; for these tenants, if given. `seen`
        are the retries of it that there were when the caller looked, before anything else (`Retries.look`)."""
        job, now = await self._job_cache.read(ended.job), await self._store.now()
        if job.cancelled is not None:
            raise CommandRefused("retry", "cancelled", ["the job is reactivated"], f"job {job.name!r}")
        execution = new_execution.retry_of(
            job, ended, triggered_by=by, now=now, chance=self._chance, id=id, traceparent=TRACE_CONTEXT.get()
        )
        if tenants is not None and not execution.fans_out:
            raise CommandRefused("retry", "without tenants", ["the job has tenants"], f"job {job.name!r}")
        if tenants is not None and ended.for_some:
            execution = msgspec.structs.replace(execution, policy=new_execution.for_chosen(execution.policy))
        await self.retries.take(execution, seen, now)
        await self._keep_names(execution, tenants, now)
        action = "retry" if tenants is None else "retry_failed"
        return await self._add_or_refuse(
            execution, self.audit(action, f"execution:{ended.id}", by, now, after=execution.id)
        )

    async def _keep_names(self, parent: ExecutionRow, names: Sequence[str] | None, now: Micros) -> None:
        """The list of a parent that does not ask its job for it comes before the parent itself. Should it never be
        added, the list is forgotten."""
        if names is not None:
            await rosters.made(self._store, parent, names, random_id(now, self._chance), now)

    async def _add_or_refuse(self, execution: ExecutionRow, audit: Audit) -> ExecutionRow:
        added = (await self._store.add([execution], [audit]))[0]
        result = self._results([execution], [added])[0]
        if result is None:
            state = f"being retried already, as execution {added.holder}"
            raise being_retried(execution.retry_of, state, audit.action)
        if result.state is State.SKIPPED:
            raise AlreadyRunning(execution.job, Execution(result), added.holder)
        await self._cancel_superseded(execution)
        await self._refuse_if_stopped(execution, audit.action)
        return result

    async def _refuse_if_stopped(self, execution: ExecutionRow, command: str) -> None:
        """The job may have been cancelled or removed after it was read, and swept before this was added: then nobody
        else would cancel this one."""
        found = await self._store.jobs([execution.job])
        if found and found[0].id == execution.job_id and found[0].cancelled is None:
            return
        while (added := await self._store.execution(execution.id)) is not None and not added.state.final:
            if await cancel_all(self._store, [added], "the job was cancelled", self._emit):
                break
        state = "cancelled" if found else "removed"
        raise CommandRefused(command, state, ["the job is there and not cancelled"], f"job {execution.job!r}")

    def _window(self, job: Job, window: tuple[Any, Any] | None, now: Micros) -> tuple[Micros, Micros] | None:
        if window is None:
            return tick_records.window_at(job, now)
        if not isinstance(window, Sequence) or isinstance(window, str) or len(window) != 2:
            raise InvalidValue("window", window, "a pair (begin, end)")
        custom = caller_window(job.spec.window, *window, tz=job.spec.tz)
        return to_micros(custom.begin), to_micros(custom.end)


def _names(job: Job, tenant: str | None, tenants: Iterable[str] | None) -> list[str] | None:
    if tenants is None:
        return None
    if tenant is not None:
        raise InvalidValue("tenant", presentable(tenant), "either tenant or tenants")
    names = tenant_names(tenants)
    if not job.spec.tenants:
        remedy = "Declare the job with tenants=, or name a single one: tenant="
        raise InvalidValue("tenants", names[:5], "nothing for a job that has no tenants", remedy)
    if not names:
        raise InvalidValue("tenants", names, "at least one tenant")
    return names
