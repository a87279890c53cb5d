"""Running a job that exists, now: triggers and manual retries.

Of several callers who retry one execution at the same instant, one succeeds. The unique key of a live retry is gone
once that retry has ended, so an entry in the store counts the retries of each execution. A caller reads the count first
and takes the next number by compare-and-set before the retry is stored. A caller who read the count before another
caller took it is refused, however quickly the other retry came and went. So is a caller whose request was on its way
meanwhile: within `AT_ONCE` of a retry that has ended, nobody can have asked because of its ending.

The entry also names the latest retry, and stays as long as the execution that it repeats: bulk actions read there which
executions were retried before (`latest_retries`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from ...model.errors import AlreadyRunning, CommandRefused, InvalidValue
from ...model.execution import ExecutionRow, State
from ...model.job import Job, JobState
from ...model.store.entries import Entry, EntryWrite
from ...model.store.messages import Audit
from ...model.time.instants import SECOND, Micros, to_micros
from ...model.values.ids import Chance, random_id
from ...model.values.payload import presentable
from ...model.windows import caller_window
from ..auditing import TRACE_CONTEXT, audit_record
from ..cancelling import cancel_all
from ..declaring.handler import method_of
from ..declaring.tenant_options import check_tenant, tenant_names
from ..expiry import EntryExpiry
from ..jobs.job_cache import JobCache
from ..loops import Emit
from ..ports import Clock, Store
from ..queries.queries import EXECUTION_ID
from ..rules import job_commands, new_execution, ticks
from ..rules.edited_params import NO_EDIT, ParamsEdit
from ..tenants import rosters
from ..views.execution import Execution
from .enqueue import Enqueuer

RETRY: Literal["retry"] = "retry"
KEPT_FOR = 3600 * SECOND
"""Longer than any request takes. After that, an entry stays only while its execution exists."""
READ_AT_ONCE = 10
AUDITS_READ = 20
AT_ONCE = 2 * SECOND
RETRY_ACTIONS = ("retry", "retry_failed", "edit")
"""The actions in audit records of executions that were retried."""


class ManualRuns:
    def __init__(
        self,
        store: Store,
        enqueuer: Enqueuer,
        job_cache: JobCache,
        clock: Clock,
        chance: Chance,
        emit: Emit,
    ) -> None:
        self._store, self._enqueuer, self._job_cache = store, enqueuer, job_cache
        self._chance, self._emit = chance, emit
        self.claims = RetryClaims(store, clock)
        self.signature_of, self.encode_edited = enqueuer.signature_of, enqueuer.encode_edited
        self.payload_limit = enqueuer.payload_limit
        self.own_jobs = job_cache.own_jobs

    async def trigger(
        self,
        handler: object,
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
        """Run a job now, by its name or by its handler, with other parameters or another window if given. Its schedule
        stays as it is.

        With an `id` of the caller's own, a job that was triggered under it before is not triggered again. A
        `single_try` is for callers who wait and retry themselves. With `tenants` a job that has tenants runs for these;
        with a single `tenant` any job runs for that one, without a parent.
        """
        name: Any = self._enqueuer.name_of(handler) if callable(handler) or method_of(handler) else handler
        job = await self._job_cache.read(name)
        if job.cancelled is not None:
            job_commands.check("trigger", job, JobState.CANCELLED)
        now = await self._store.now()
        names = _names(job, tenant, tenants)
        self._enqueuer.refuse_unknown_tenants(job, tenant, names)
        policy = new_execution.single_try(job) if single_try else new_execution.policy_of(job, trigger)
        execution = new_execution.new_execution(
            job,
            trigger=trigger,
            triggered_by=by,
            now=now,
            chance=self._chance,
            params=self._enqueuer.encode_params(job, params),
            window=window_of(job, window, now),
            traceparent=TRACE_CONTEXT.get() or traceparent,
            id=id,
            policy=policy if names is None else new_execution.for_chosen(policy),
            tenant=None if tenant is None else check_tenant("tenant", tenant),
        )
        await self._keep_names(execution, names, now)
        audit = audit_record(self._chance, "trigger", f"job:{name}", by, now, after=execution.id)
        return await self._add_or_refuse(execution, audit)

    async def retry(
        self,
        ended: ExecutionRow,
        by: str,
        seen: int,
        id: str | None = None,
        tenants: Sequence[str] | None = None,
        edit: ParamsEdit = NO_EDIT,
    ) -> ExecutionRow:
        """A new execution with the parameters, window and tenant of one that ended; for these tenants, if given, and
        with some parameters changed. `seen` is the number of its retries that the caller read first
        (`RetryClaims.count`)."""
        job, now = await self._job_cache.read(ended.job), await self._store.now()
        execution = self.retry_of(job, ended, by, now, id, edit)
        if tenants is not None and not execution.fans_out:
            raise CommandRefused("retry", "without tenants", ["the job has tenants"], f"job {job.name!r}")
        if tenants is not None and ended.for_some:
            execution = msgspec.structs.replace(execution, policy=new_execution.for_chosen(execution.policy))
        await self.claims.take(execution, seen, now)
        await self._keep_names(execution, tenants, now)
        action = "retry" if tenants is None else "retry_failed"
        return await self._add_or_refuse(execution, self.retry_audit(execution, by, now, action), seen)

    def retry_of(
        self, job: Job, ended: ExecutionRow, by: str, now: Micros, id: str | None = None, edit: ParamsEdit = NO_EDIT
    ) -> ExecutionRow:
        """The execution that a retry would add, checked but not stored."""
        if job.cancelled is not None:
            raise CommandRefused("retry", "cancelled", ["the job is reactivated"], f"job {job.name!r}")
        return new_execution.retry_of(
            job,
            ended,
            triggered_by=by,
            now=now,
            chance=self._chance,
            id=id,
            traceparent=TRACE_CONTEXT.get(),
            params=self.encode_edited(job, ended, edit) if edit else None,
        )

    def retry_audit(self, retry: ExecutionRow, by: str, now: Micros, action: str = "retry") -> Audit:
        """Names the new execution; with what changed, if its parameters were edited."""
        changed = retry.edited
        after = msgspec.json.encode({"execution": retry.id, "edited": changed}).decode() if changed else retry.id
        return audit_record(self._chance, action, f"execution:{retry.retry_of}", by, now, after=after)

    async def _keep_names(self, parent: ExecutionRow, names: Sequence[str] | None, now: Micros) -> None:
        """A list of tenants that the caller chose is stored before the parent. If the parent is never stored, the list
        expires."""
        if names is not None:
            await rosters.create(self._store, parent, names, random_id(now, self._chance), now)

    async def _add_or_refuse(self, execution: ExecutionRow, audit: Audit, seen: int = 0) -> ExecutionRow:
        result, added = await self._enqueuer.add_one(execution, audit)
        if result is None:
            await self.claims.give_back(execution, seen, added.holder)
            state = f"being retried already, as execution {added.holder}"
            raise being_retried(execution.retry_of, state, audit.action)
        if result.state is State.SKIPPED:
            raise AlreadyRunning(execution.job, Execution(result), added.holder)
        await self._refuse_if_stopped(execution, audit.action)
        return result

    async def _refuse_if_stopped(self, execution: ExecutionRow, command: str) -> None:
        """The job may have been cancelled or removed after it was read, and swept before this execution was stored:
        then nobody else would cancel it."""
        found = await self._store.jobs([execution.job])
        if found and found[0].id == execution.job_id and found[0].cancelled is None:
            return
        while (added := await self._store.execution(execution.id)) is not None and not added.state.final:
            if await cancel_all(self._store, [added], "the job was cancelled", self._emit):
                break
        state = "cancelled" if found else "removed"
        raise CommandRefused(command, state, ["the job is there and not cancelled"], f"job {execution.job!r}")


class _LastRetry(msgspec.Struct, frozen=True):
    id: str
    at: Micros


class _MadeExecution(msgspec.Struct, frozen=True):
    execution: str


class RetryClaims:
    """Counts the retries of each execution."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self.expiry = EntryExpiry(store, clock, RETRY, _is_old, needed=self._existing)

    async def _existing(self, ids: list[str]) -> set[str]:
        found: set[str] = set()
        for start in range(0, len(ids), READ_AT_ONCE):
            rows = await asyncio.gather(*(self._store.execution(id) for id in ids[start : start + READ_AT_ONCE]))
            found |= {row.id for row in rows if row is not None}
        return found

    async def count(self, ended: str) -> int:
        """How many times this execution has been retried; 0 for text that is no id. Refused if its last retry has come
        and gone at the very same time."""
        found = await self._find(ended) if EXECUTION_ID.fullmatch(ended) else None
        if found is None:
            return 0
        last = _last_retry(found)
        if last.at > await self._store.now() - AT_ONCE:
            retry = await self._store.execution(last.id)
            if retry is None or retry.state.final:
                state = f"already retried, just now, as execution {last.id}"
                raise being_retried(ended, state if retry is None else f"{state}, which is {retry.state}")
        return found.version

    async def take(self, retry: ExecutionRow, seen: int, now: Micros) -> None:
        """Refuse this retry if there was another one since the caller counted."""
        await self.expiry.now_and_then()
        ended = retry.retry_of or ""
        entry = Entry(kind=RETRY, key=ended, body=msgspec.json.encode(_LastRetry(retry.id, now)).decode())
        if (await self._store.write_entries([EntryWrite(entry=entry, seen_version=seen)]))[0]:
            return
        found = await self._find(ended)
        other = "" if found is None else f", as execution {_last_retry(found).id}"
        raise being_retried(ended, f"being retried already{other}")

    async def take_many(self, retries: Sequence[ExecutionRow], now: Micros) -> dict[str, str]:
        """The same for many retries, with two calls of the store. Returns the ids of those that are refused, each with
        the words why. A retry that has its number already, because a step is repeated, keeps it."""
        await self.expiry.now_and_then()
        entries = await self._store.entries(RETRY, "", [retry.retry_of or "" for retry in retries])
        found = {entry.key: entry for entry in entries}
        refused: dict[str, str] = {}
        writes: dict[str, EntryWrite] = {}
        for retry in retries:
            before = found.get(retry.retry_of or "")
            if before is not None and (last := _last_retry(before)).id == retry.id:
                continue
            if before is not None and (state := await self._taken(last, now)) is not None:
                refused[retry.id] = state
                continue
            body = msgspec.json.encode(_LastRetry(retry.id, now)).decode()
            entry = Entry(kind=RETRY, key=retry.retry_of or "", body=body)
            writes[retry.id] = EntryWrite(entry=entry, seen_version=0 if before is None else before.version)
        won = await self._store.write_entries(list(writes.values())) if writes else []
        lost = [id for id, each in zip(writes, won, strict=True) if not each]
        return refused | dict.fromkeys(lost, "being retried already")

    async def _taken(self, last: _LastRetry, now: Micros) -> str | None:
        """Why another retry stands in the way: it is alive, or has come and gone at this very time."""
        retry = await self._store.execution(last.id)
        if retry is not None and not retry.state.final:
            return f"being retried already, as execution {last.id}"
        return f"already retried, just now, as execution {last.id}" if last.at > now - AT_ONCE else None

    async def give_back(self, retry: ExecutionRow, seen: int, holder: str | None) -> None:
        """This retry was not stored, because another one is alive: the entry names that one again."""
        body = msgspec.json.encode(_LastRetry(holder or retry.id, retry.created)).decode()
        entry = Entry(kind=RETRY, key=retry.retry_of or "", body=body)
        await self._store.write_entries([EntryWrite(entry=entry, seen_version=seen + 1)])

    async def _find(self, ended: str) -> Entry | None:
        return next(iter(await self._store.entries(RETRY, "", [ended])), None)


async def latest_retries(store: Store, ended: Sequence[str]) -> dict[str, str]:
    """Those of these executions that were retried before, each with the id of its latest retry, whatever became of it.
    Costs one read of entries, and one read for each execution that has one."""
    entries = await store.entries(RETRY, "", ended)
    found: dict[str, str] = {}
    for start in range(0, len(entries), READ_AT_ONCE):
        some = entries[start : start + READ_AT_ONCE]
        retries = await asyncio.gather(*(_latest_retry(store, entry) for entry in some))
        found |= {entry.key: id for entry, id in zip(some, retries, strict=True) if id is not None}
    return found


async def _latest_retry(store: Store, entry: Entry) -> str | None:
    """The retry that the entry names, if it was stored and not skipped for overlap. A retry that retention has deleted
    since, and an earlier one, are known from their audit records."""
    last = _last_retry(entry)
    retry = await store.execution(last.id)
    if retry is not None and not retry.skipped_for_overlap:
        return last.id
    for audit in await store.audits(f"execution:{entry.key}", limit=AUDITS_READ):
        if (made := _made_execution(audit)) is not None:
            retry = await store.execution(made)
            if retry is None or not retry.skipped_for_overlap:
                return made
    return None


def parent_of(row: ExecutionRow) -> str | None:
    """The execution that runs this one again when it is retried."""
    return None if row.from_backfill else row.parent_id


def being_retried(ended: str | None, state: str, command: str = "retry") -> CommandRefused:
    return CommandRefused(command, state, [f"that one ended at least {AT_ONCE // SECOND} s ago"], f"execution {ended}")


def _last_retry(entry: Entry) -> _LastRetry:
    return msgspec.json.decode(entry.body, type=_LastRetry)


def _made_execution(audit: Audit) -> str | None:
    """The execution that a retry with this audit record has made (`ManualRuns.retry_audit`)."""
    if audit.action not in RETRY_ACTIONS or audit.after is None:
        return None
    if EXECUTION_ID.fullmatch(audit.after):
        return audit.after
    try:
        return msgspec.json.decode(audit.after, type=_MadeExecution).execution
    except msgspec.MsgspecError:
        return None


def _is_old(entry: Entry, now: Micros) -> bool:
    return _last_retry(entry).at < now - KEPT_FOR


def window_of(job: Job, window: tuple[Any, Any] | None, now: Micros) -> tuple[Micros, Micros] | None:
    """The window that a caller gives to a run, or the one that the job has now."""
    if window is None:
        return ticks.window_at(job, now)
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
