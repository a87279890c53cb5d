"""Steering: what operators do to jobs and executions. Every change is written together with its audit record.

A command reads the job, decides on the row, and writes it by compare-and-set. The state of most jobs follows from the
row; only where it does not are their executions counted before the write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

import msgspec

from ...model.calendars.calendar import Calendar
from ...model.calendars.hours import hours_of
from ...model.errors import CommandRefused, InvalidValue, JobNotFound, MainspringError
from ...model.events import Pruned
from ...model.execution import ExecutionRow, State
from ...model.job import Job
from ...model.store.entries import EntryKind, EntryWrite
from ...model.store.messages import CancelRequest, JobWrite
from ...model.time.instants import Micros, seconds_to_micros, to_datetime, to_micros
from ...model.values.access import Role
from ...model.values.ids import Chance
from ...model.values.payload import presentable
from ...model.values.reading import duration, instant, words
from ..auditing import audit_record
from ..cancelling import ended_while_waiting, sweep_job
from ..controls.holds import prepare_hold, settle_hold
from ..declaring.job_specs import edited_fields, refuse_without_parents
from ..jobs.job_cache import JobCache
from ..loops import Emit
from ..ports import Store
from ..queries.queries import EXECUTION_ID, Queries, id_of
from ..rules import job_commands, occurrences, transitions
from ..rules.edited_params import NO_EDIT, ParamsEdit
from ..rules.opening_hours import NONE
from ..rules.secret_params import mask_fields, mask_fields_pair, union
from ..rules.timing_history import revision
from ..tenants.endings import close_parent
from ..views.execution import Execution
from ..views.job import JobView, job_of, stats_of
from .trigger import ManualRuns

RETRYABLE = frozenset({State.FAILED, State.PARTIAL, State.CANCELLED})
MAX_TEXT = 1_000
NOTHING: Mapping[str, str] = {}

Decide: TypeAlias = Callable[[Job, Micros, Mapping[str, Calendar]], JobWrite]
"""The write that a command makes of a job, at that time, with the calendars that the job names."""
Check: TypeAlias = Callable[[Job, Role], None]
"""May refuse a job, which asks for this role."""
"""Raises an error when the caller may not steer this job."""


class JobEvents(Protocol):
    """Hears of commands before they are written."""

    async def steering(self, before: Job, write: JobWrite) -> JobWrite:
        """The write, with a mark if somebody outside wants to hear of it."""
        ...


class JobChanged(MainspringError):
    """The job has changed since the caller saw it (`JobView.tag`)."""

    def __init__(self, name: str, seen: str, tag: str) -> None:
        super().__init__(name, seen, tag)
        self.name, self.seen, self.tag = name, seen, tag

    def __str__(self) -> str:
        return f"job {self.name!r} has changed since it was read: it was {self.seen}, and is {self.tag}; read it again"


class Steering:
    def __init__(
        self,
        store: Store,
        runs: ManualRuns,
        job_cache: JobCache,
        queries: Queries,
        chance: Chance,
        emit: Emit,
        check: Check | None = None,
        events: JobEvents | None = None,
    ) -> None:
        self._store, self._runs, self._job_cache, self._queries = store, runs, job_cache, queries
        self._chance, self._emit, self._check, self._events = chance, emit, check, events

    def checked(self, check: Check | None) -> Steering:
        """The same for a caller who may not steer every job. `check` sees each job as it is when the command is
        written, and as the command would make it: so nobody gives a job a role that they do not have."""
        parts = (self._store, self._runs, self._job_cache, self._queries, self._chance, self._emit)
        return Steering(*parts, check, self._events)

    # --- jobs ---------------------------------------------------------------------------------------------
    # `seen` is the tag of the job that the caller saw: a job that has changed since is left alone.
    async def pause(
        self,
        name: str,
        *,
        by: str,
        note: str | None = None,
        resume_at: Any = None,
        resume_after: Any = None,
        seen: str | None = None,
    ) -> JobView:
        """Until resumed, or until that instant (without an offset: in the job's zone), or for so long from now by the
        store's clock."""
        if resume_at is not None and resume_after is not None:
            raise InvalidValue("resume_after", resume_after, "no duration together with resume_at", "Give one of them")
        note = None if note is None else words("note", note, MAX_TEXT)
        lasts = None if resume_after is None else seconds_to_micros(duration("resume_after", resume_after))

        def decide(job: Job, now: Micros, calendars: Mapping[str, Calendar]) -> JobWrite:
            until = None if lasts is None else now + lasts
            if resume_at is not None:
                until = to_micros(instant("resume_at", resume_at, tz=job.spec.tz))
            if until is not None and until <= now:
                raise InvalidValue("resume_at", presentable(resume_at), _in_the_future(now))
            paused = job_commands.pause(job, now, by=by, note=note, resume=until)
            return job_commands.close_ticks(job, paused, now, self._chance, calendars)

        return await self._change("pause", name, by, decide, seen)

    async def resume(self, name: str, *, by: str, seen: str | None = None) -> JobView:
        return await self._change(
            "resume",
            name,
            by,
            lambda job, now, calendars: job_commands.resume(job, now, self._chance, calendars),
            seen,
        )

    async def cancel_job(self, name: str, *, by: str, reason: str | None = None, seen: str | None = None) -> JobView:
        """Stop a job for good: no more ticks, and its live executions are cancelled too."""
        why = f"the job was cancelled by {by}" if reason is None else words("reason", reason, MAX_TEXT)
        await self._write("cancel", name, by, lambda job, now, _: job_commands.cancel(job, now), seen, {"reason": why})
        await sweep_job(self._store, await self._job_cache.read(name), self._emit, why)
        return await self._queries.job(name)

    async def reactivate(self, name: str, *, by: str, seen: str | None = None) -> JobView:
        return await self._change("reactivate", name, by, lambda job, now, _: job_commands.reactivate(job, now), seen)

    async def update_job(
        self,
        name: str,
        changes: Mapping[str, Any],
        *,
        params: Mapping[str, Any] = NOTHING,
        by: str,
        seen: str | None = None,
    ) -> JobView:
        """Override what the job's declaration says; the override survives deploys. `params` changes single parameters
        and leaves the others, where `changes` can only set all of them."""
        if changes.get("hours") is not None:
            await self._job_cache.calendars.check_names(name, hours_of(changes["hours"]).calendars)

        def decide(job: Job, now: Micros, calendars: Mapping[str, Calendar]) -> JobWrite:
            edited = self._edited(job, changes, params, now)
            return job_commands.close_old_schedule(job, edited, now, self._chance, calendars)

        return await self._change("update", name, by, decide, seen)

    async def preview_update(self, name: str, changes: Mapping[str, Any]) -> JobView:
        """The job as `update_job` would leave it; nothing is written."""
        view = await self._queries.job(name)
        await self._may_steer(job_of(view))
        write = self._edited(job_of(view), changes, NOTHING, await self._store.now())
        return msgspec.structs.replace(view, _job=write.job)

    def _edited(self, job: Job, changes: Mapping[str, Any], params: Mapping[str, Any], now: Micros) -> JobWrite:
        named = {**changes, "params": {**job.spec.params, **params}} if params else changes
        fields = edited_fields(job.spec, self._runs.signature_of(job), named, self._runs.payload_limit)
        refuse_without_parents(changes, fields.get("after", job.spec.after))
        return job_commands.override(job, fields, now)

    async def revert_job(self, name: str, *, by: str, seen: str | None = None) -> JobView:
        """Back to what code declares."""

        def decide(job: Job, now: Micros, calendars: Mapping[str, Calendar]) -> JobWrite:
            return job_commands.close_old_schedule(job, job_commands.revert(job, now), now, self._chance, calendars)

        return await self._change("revert", name, by, decide, seen)

    async def restore_job(self, name: str, fields: Mapping[str, Any], *, by: str, seen: str | None = None) -> JobView:
        """Back to these overrides, as they were before an edit."""

        def decide(job: Job, now: Micros, calendars: Mapping[str, Calendar]) -> JobWrite:
            restored = job_commands.restore(job, dict(fields), now)
            return job_commands.close_old_schedule(job, restored, now, self._chance, calendars)

        return await self._change("restore", name, by, decide, seen)

    async def skip_occurrence(self, name: str, at: Any, *, by: str, seen: str | None = None) -> JobView:
        """Leave out one occurrence; a record says who did."""
        return await self._change(
            "skip_occurrence", name, by, lambda job, now, _: occurrences.skip(job, at, now, by), seen
        )

    async def move_occurrence(self, name: str, at: Any, to: Any, *, by: str, seen: str | None = None) -> JobView:
        """Run one occurrence at another time, earlier or later; all others stay where they are."""
        return await self._change(
            "move_occurrence", name, by, lambda job, now, _: occurrences.move(job, at, to, now, by), seen
        )

    async def restore_occurrence(self, name: str, at: Any, *, by: str, seen: str | None = None) -> JobView:
        """Undo the skip or the move of one occurrence."""
        return await self._change(
            "restore_occurrence", name, by, lambda job, now, _: occurrences.restore(job, at, now), seen
        )

    async def _change(self, command: str, name: str, by: str, decide: Decide, seen: str | None) -> JobView:
        await self._write(command, name, by, decide, seen)
        return await self._queries.job(name)

    async def _write(
        self, command: str, name: str, by: str, decide: Decide, seen: str | None, extra: Mapping[str, str] = NOTHING
    ) -> None:
        """Read, check, decide, write. A command that loses a race starts again from the new row, so that two commands
        at once never lose an update. `extra` is what the audit record says beside the fields of the job."""
        while True:
            job = await self._read(name, seen)
            await self._check_state(command, job)
            calendars = NONE if job.spec.hours is None else await self._job_cache.calendars.of([job])
            now = await self._store.now()
            write = decide(job, now, calendars)
            await self._may_steer(write.job)
            if self._events is not None:
                write = await self._events.steering(job, write)
            if write.job.overrides != job.overrides:
                await self._prepare_edit(job, write.job, now)
            await asyncio.sleep(0)  # large parameters take milliseconds in each of these steps
            before, after = _summaries(job, write.job, extra)
            audit = audit_record(self._chance, command, f"job:{name}", by, now, before=before, after=after)
            await asyncio.sleep(0)
            if write.job.holds_executions:
                await prepare_hold(self._store, write.job)
            if (await self._store.write_jobs([msgspec.structs.replace(write, audit=audit)]))[0].won:
                self._job_cache.forget([name, *write.job.spec.after])
                if job.holds_executions or write.job.holds_executions:
                    await settle_hold(self._store, job, write.job)
                return

    async def _read(self, name: str, seen: str | None) -> Job:
        job = await self._job_cache.read(name)
        await self._may_steer(job)
        if seen is not None and seen != job_commands.tag_of(job):
            raise JobChanged(name, seen, job_commands.tag_of(job))
        return job

    async def _may_steer(self, job: Job) -> None:
        if self._check is not None:
            self._check(job, await self._job_cache.role_for(job))

    async def _check_state(self, command: str, job: Job) -> None:
        if command not in job_commands.ALLOWED or job_commands.always_allowed(command, job):
            return
        stats = (await self._store.stats([job.id])).get(job.id)
        live = (await self._store.live_counts([job.id])).get(job.id)
        job_commands.check(command, job, job_commands.job_state(job, live, stats))

    async def _prepare_edit(self, before: Job, after: Job, now: Micros) -> None:
        """Links to new parents, and the timing of the past, are stored before the job itself."""
        if after.spec.after != before.spec.after:
            await self._job_cache.dependents.prepare(after.name, after.spec)
        await self._keep_timing(before, after, now)

    async def _keep_timing(self, before: Job, after: Job | None, now: Micros) -> None:
        if (kept := revision(before, after, now)) is not None:
            await self._store.write_entries([kept])

    async def remove_job(
        self, name: str, *, by: str, force: bool = False, purge: bool = False, seen: str | None = None
    ) -> None:
        """Delete the job; its history stays unless purged. Refused while the job has live executions, or other jobs
        come after it, unless forced."""
        while True:
            job = await self._read(name, seen)
            live = (await self._store.live_counts([job.id])).get(job.id)
            if live is not None and live.total and not force:
                alive = f"alive with {live.total} execution(s)"
                raise CommandRefused("remove", alive, ["nothing of it is alive, or force is given"], f"job {name!r}")
            dependents = await self._job_cache.dependents.names_of(name) if job.spec.feeds and not force else ()
            if others := [each for each in dependents if each != name]:
                allowed = ["no job comes after it, or force is given"]
                raise CommandRefused("remove", f"followed by {', '.join(others)}", allowed, f"job {name!r}")
            if live is not None and live.total:
                await sweep_job(self._store, job, self._emit, f"the job was removed by {by}")
                job = await self._job_cache.read(name)
            now = await self._store.now()
            audit = audit_record(self._chance, "remove", f"job:{name}", by, now, before=_summaries(job, job)[0])
            if not purge:
                await self._keep_timing(job, None, now)
            if await self._store.delete_job(name, job.version, purge=purge, audit=audit):
                await self._remove_entries(name, ("join", "window", "revision") if purge else ("join",))
                self._job_cache.forget([name])
                return

    async def _remove_entries(self, name: str, kinds: tuple[EntryKind, ...]) -> None:
        """What is stored beside the job: joins; the window ledger and the timing history go with its whole history."""
        for kind in kinds:
            while entries := await self._store.list_entries(kind, name):
                await self._store.write_entries([EntryWrite(entry=entry, remove=True) for entry in entries])

    async def retire_orphans(self, declared: frozenset[str]) -> list[str]:
        """Remove jobs of code that neither this process nor any running one declares."""
        wanted = declared.union(*(worker.declares for worker in await self._queries.workers()))
        of_code = [view.name for view in await self._queries.jobs() if job_of(view).origin == "code"]
        orphans = [name for name in of_code if name not in wanted]
        for name in orphans:
            await self.remove_job(name, by="prune", force=True)
        if orphans:
            self._emit(Pruned(tuple(orphans)))
        return orphans

    # --- executions ---------------------------------------------------------------------------------------
    async def cancel(self, ref: str | Execution, *, by: str, reason: str | None = None) -> ExecutionRow | JobView:
        """Cancel a job by name or an execution by id."""
        if isinstance(ref, str) and not _is_execution_id(ref):
            return await self.cancel_job(ref, by=by, reason=reason)
        return await self.cancel_execution(id_of(ref), by=by, reason=reason)

    async def cancel_execution(self, id: str, *, by: str, reason: str | None = None) -> ExecutionRow:
        """An execution that waits ends at once; one that runs is asked to stop, and ends when its worker sees that."""
        why = f"cancelled by {by}" if reason is None else words("reason", reason, MAX_TEXT)
        while True:
            execution = await self._queries.get(id)
            await self._may_steer_job_of(execution)
            now = await self._store.now()
            decision = transitions.cancel(execution, now, why)
            audit = audit_record(
                self._chance,
                "cancel",
                f"execution:{id}",
                by,
                now,
                before=execution.state.value,
                after=msgspec.json.encode({"reason": why}).decode(),
            )
            if isinstance(decision, CancelRequest):
                done = (await self._store.request_cancel([msgspec.structs.replace(decision, audit=audit)]))[0]
            else:
                change = msgspec.structs.replace(decision, audit=audit)
                done = (await self._store.exchange([change], None)).applied[0]
                if done:
                    self._emit(ended_while_waiting(execution, change))
            if done:
                ended = await self._queries.get(id)
                if ended.state.final and ended.fans_out:  # its follow-up does the same, somewhat later
                    await close_parent(self._store, ended, now, self._emit)
                return ended

    async def retry(self, ref: str | Execution, *, by: str, edit: ParamsEdit = NO_EDIT) -> ExecutionRow:
        """Run a failed execution again, or the last one of a job, as a new execution, with some parameters changed if
        wanted."""
        if isinstance(ref, str) and not _is_execution_id(ref):
            return await self.retry_job(ref, by=by, edit=edit)
        return await self.retry_execution(id_of(ref), by=by, edit=edit)

    async def retry_execution(
        self, id: str, *, by: str, as_id: str | None = None, edit: ParamsEdit = NO_EDIT
    ) -> ExecutionRow:
        """As a new execution, under an id of the caller's own if given. What was made under that id before is returned
        instead."""
        if as_id is not None and (made := await self._store.execution(as_id)) is not None:
            return made
        seen = await self._runs.claims.count(id)
        ended = await self._queries.get(id)
        await self._may_steer_job_of(ended)
        if ended.state not in RETRYABLE:
            raise CommandRefused("retry", ended.state, sorted(RETRYABLE), f"execution {ended.id}")
        return await self._runs.retry(ended, by, seen, as_id, edit=edit)

    async def retry_job(
        self, name: str, *, by: str, as_id: str | None = None, edit: ParamsEdit = NO_EDIT
    ) -> ExecutionRow:
        """The last execution of a job. What was made under the same id before is returned instead."""
        if as_id is not None and (made := await self._store.execution(as_id)) is not None:
            return made
        last, seen = "", 0
        while (failed := await self._last_failed(name)) != last:  # until it is still the last one after counting
            last, seen = failed, await self._runs.claims.count(failed)
        ended = await self._store.execution(last)
        if ended is None:
            raise JobNotFound(name)
        return await self._runs.retry(ended, by, seen, as_id, edit=edit)

    async def _last_failed(self, name: str) -> str:
        view = await self._queries.job(name)
        await self._may_steer(job_of(view))
        job_commands.check("retry", job_of(view), view.state, stats_of(view).last_state)
        return stats_of(view).last_id

    async def _may_steer_job_of(self, execution: ExecutionRow) -> None:
        """An execution is guarded like its job; one whose job is gone, like the own job of its handler."""
        if self._check is not None:
            found = await self._store.jobs([execution.job])
            for job in found or (await self._job_cache.own_jobs.named([execution.handler])).values():
                await self._may_steer(job)


def _in_the_future(now: Micros) -> str:
    return f"an instant in the future; it is {to_datetime(now):%Y-%m-%dT%H:%M:%SZ}"


def _is_execution_id(text: str) -> bool:
    return EXECUTION_ID.fullmatch(text) is not None


def _summaries(before: Job, after: Job, extra: Mapping[str, str] = NOTHING) -> tuple[str, str]:
    """The part of a job that commands change, for the audit: before and after, without secrets."""
    old, new = _summary(before), {**_summary(after), **extra}
    if before.spec.secret or after.spec.secret:
        secret = union(before.spec.secret, after.spec.secret)
        in_force = {"overrides": {"params": before.spec.params, **before.changed_fields}}
        old, new = mask_fields(old, secret), mask_fields_pair(in_force, new, secret)[1]
    return msgspec.json.encode(old).decode(), msgspec.json.encode(new).decode()


def _summary(job: Job) -> dict[str, Any]:
    fields = {
        "paused": job.paused_at,
        "cancelled": job.cancelled_at,
        "next_run": job.next_run_at,
        "pause_note": job.pause_note,
        "resume": job.resume_at,
        "overrides": job.changed_fields,
        "occurrences": [(each.at, each.moved_to or "skipped") for each in job.occurrences],
    }
    return {name: value for name, value in fields.items() if value}
