"""Steering: what operators do to jobs and executions. Every change leaves its audit record in the same write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ...model.calendars.hours import hours_of
from ...model.errors import CommandRefused, InvalidValue, JobNotFound, MainspringError
from ...model.events import Pruned
from ...model.execution import ExecutionRow, State
from ...model.job import Job
from ...model.store.entries import EntryKind, EntryWrite
from ...model.store.messages import CancelRequest, JobWrite
from ...model.time.instants import Micros, seconds_to_micros, to_datetime, to_micros
from ...model.values.ids import Chance
from ...model.values.payload import presentable
from ...model.values.reading import duration, instant, words
from ..cancelling import cancelled, sweep_job
from ..declaring.job_specs import edited_fields, refuse_without_parents
from ..jobs.job_cache import JobCache
from ..loops import Emit
from ..ports import Store
from ..queries.job_view import JobView
from ..queries.queries import EXECUTION_ID, Queries, id_of
from ..rules import job_commands, occurrences, transitions
from ..rules.timing_history import revision
from ..tenants.endings import close_parent
from ..views.execution import Execution
from .enqueue import Enqueuer

RETRYABLE = frozenset({State.FAILED, State.PARTIAL, State.CANCELLED})
MAX_TEXT = 1_000
NOTHING: Mapping[str, str] = {}

Write = Callable[[Job, Micros], JobWrite]
Check = Callable[[Job], None]
"""May refuse a job that somebody wants to steer, by raising."""


class JobChanged(MainspringError):
    """A command for a job as somebody saw it (`JobView.tag`), which has changed since."""

    def __init__(self, name: str, seen: str, tag: str) -> None:
        super().__init__(name, seen, tag)
        self.name, self.seen, self.tag = name, seen, tag

    def __str__(self) -> str:
        return f"job {self.name!r} has changed since it was read: it was {self.seen}, and is {self.tag}; read it again"


class Steering:
    def __init__(
        self,
        store: Store,
        enqueuer: Enqueuer,
        job_cache: JobCache,
        queries: Queries,
        chance: Chance,
        emit: Emit,
        check: Check | None = None,
    ) -> None:
        self._store, self._enqueuer, self._job_cache, self._queries = store, enqueuer, job_cache, queries
        self._chance, self._emit, self._check = chance, emit, check

    def checked(self, check: Check | None) -> Steering:
        """The same for somebody who may not steer every job: each one is asked about before it is steered, as it is
        when that is written, and once more as it would be then. So nobody gives a job a role they do not have."""
        return Steering(self._store, self._enqueuer, self._job_cache, self._queries, self._chance, self._emit, check)

    # --- jobs ---------------------------------------------------------------------------------------------
    # `seen` is the tag of the job that the caller looked at: given one, only that is changed.
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

        def write(job: Job, now: Micros) -> JobWrite:
            until = None if lasts is None else now + lasts
            if resume_at is not None:
                until = to_micros(instant("resume_at", resume_at, tz=job.spec.tz))
            if until is not None and until <= now:
                raise InvalidValue("resume_at", presentable(resume_at), _in_the_future(now))
            paused = job_commands.pause(job, now, by=by, note=note, resume=until)
            return job_commands.close_ticks(job, paused, now, self._chance, self._job_cache.calendars.known(job))

        return await self._command("pause", name, by, write, seen=seen)

    async def resume(self, name: str, *, by: str, seen: str | None = None) -> JobView:
        return await self._command(
            "resume",
            name,
            by,
            lambda job, now: job_commands.resume(job, now, self._chance, self._job_cache.calendars.known(job)),
            seen=seen,
        )

    async def cancel_job(self, name: str, *, by: str, reason: str | None = None, seen: str | None = None) -> JobView:
        """Stop a job for good: no more ticks, and what it has alive is cancelled too."""
        why = f"the job was cancelled by {by}" if reason is None else words("reason", reason, MAX_TEXT)
        view = await self._command("cancel", name, by, job_commands.cancel, seen=seen, told={"reason": why})
        await sweep_job(self._store, view.job, self._emit, why)
        return await self._queries.job(name)

    async def reactivate(self, name: str, *, by: str, seen: str | None = None) -> JobView:
        return await self._command("reactivate", name, by, job_commands.reactivate, seen=seen)

    async def update_job(self, name: str, changes: dict[str, Any], *, by: str, seen: str | None = None) -> JobView:
        """Override what the job's declaration says; the override survives deploys."""
        if changes.get("hours") is not None:
            await self._job_cache.calendars.check_names(name, hours_of(changes["hours"]).calendars)

        def write(job: Job, now: Micros) -> JobWrite:
            fields = edited_fields(job.spec, self._enqueuer.signature_of(job), changes)
            refuse_without_parents(changes, fields.get("after", job.spec.after))
            return self._closing(job, job_commands.override(job, fields, now), now)

        return await self._command(None, name, by, write, action="update", seen=seen)

    async def revert_job(self, name: str, *, by: str, seen: str | None = None) -> JobView:
        """Back to what code declares."""
        return await self._command(
            None, name, by, lambda job, now: self._closing(job, job_commands.revert(job, now), now), "revert", seen
        )

    async def skip_occurrence(self, name: str, at: Any, *, by: str, seen: str | None = None) -> JobView:
        """Leave out one occurrence; a record of it says by whom."""
        return await self._command(
            "skip_occurrence", name, by, lambda job, now: occurrences.skip(job, at, now, by), seen=seen
        )

    async def move_occurrence(self, name: str, at: Any, to: Any, *, by: str, seen: str | None = None) -> JobView:
        """Run one occurrence at another time, earlier or later; all others stay where they are."""
        return await self._command(
            "move_occurrence", name, by, lambda job, now: occurrences.move(job, at, to, now, by), seen=seen
        )

    async def restore_occurrence(self, name: str, at: Any, *, by: str, seen: str | None = None) -> JobView:
        """Take back what was said of one occurrence."""
        return await self._command(
            "restore_occurrence", name, by, lambda job, now: occurrences.restore(job, at, now), seen=seen
        )

    def _closing(self, job: Job, write: JobWrite, now: Micros) -> JobWrite:
        return job_commands.close_plan(job, write, now, self._chance, self._job_cache.calendars.known(job))

    async def _command(
        self,
        command: str | None,
        name: str,
        by: str,
        write: Write,
        action: str = "",
        seen: str | None = None,
        told: Mapping[str, str] = NOTHING,
    ) -> JobView:
        """Check, write, and on a lost race look again: two commands at once never lose an update. The audit says what
        was `told` with the command and is in no field of the job."""
        while True:
            view = await self._seen(name, seen)
            if command is not None:
                job_commands.check(command, view.job, view.state, view.stats.last_state)
            await self._job_cache.calendars.of([view.job])
            now = await self._store.now()
            made = write(view.job, now)
            self._ask(made.job)
            if made.job.spec.after != view.job.spec.after:
                await self._job_cache.dependents.prepare(name, made.job.spec)
            after = _summary(made.job, told)
            audit = self._enqueuer.audit(
                command or action, f"job:{name}", by, now, before=_summary(view.job), after=after
            )
            await self._keep_timing(view.job, made.job, now)
            if (await self._store.write_jobs([msgspec.structs.replace(made, audit=audit)]))[0].won:
                self._job_cache.forget([name, *made.job.spec.after])
                return await self._queries.job(name)

    async def _keep_timing(self, before: Job, after: Job | None, now: Micros) -> None:
        """What a job's timing was until now is kept, if it changes, before the change."""
        if (kept := revision(before, after, now)) is not None:
            await self._store.write_entries([kept])

    async def _seen(self, name: str, seen: str | None) -> JobView:
        view = await self._queries.job(name)
        self._ask(view.job)
        if seen is not None and seen != view.tag:
            raise JobChanged(name, seen, view.tag)
        return view

    def _ask(self, job: Job) -> None:
        if self._check is not None:
            self._check(job)

    async def _ask_about(self, execution: ExecutionRow) -> None:
        """An execution is as well guarded as its job; one whose job is gone, as any other."""
        if self._check is not None:
            for job in await self._store.jobs([execution.job]):
                self._check(job)

    async def remove_job(
        self, name: str, *, by: str, force: bool = False, purge: bool = False, seen: str | None = None
    ) -> None:
        """Delete the job; its history stays unless purged. Refused while it has something alive, or other jobs come
        after it, unless forced."""
        while True:
            view = await self._seen(name, seen)
            if view.live.total and not force:
                live = f"alive with {view.live.total} execution(s)"
                raise CommandRefused("remove", live, ["nothing of it is alive, or force is given"], f"job {name!r}")
            if others := [each for each in view.dependents if each != name and not force]:
                allowed = ["no job comes after it, or force is given"]
                raise CommandRefused("remove", f"followed by {', '.join(others)}", allowed, f"job {name!r}")
            if view.live.total:
                await sweep_job(self._store, view.job, self._emit, f"the job was removed by {by}")
                view = await self._queries.job(name)
            now = await self._store.now()
            audit = self._enqueuer.audit("remove", f"job:{name}", by, now, before=_summary(view.job))
            if not purge:
                await self._keep_timing(view.job, None, now)
            if await self._store.delete_job(name, view.job.version, purge=purge, audit=audit):
                await self._clear_shelf(name, ("join", "window", "revision") if purge else ("join",))
                self._job_cache.forget([name])
                return

    async def _clear_shelf(self, name: str, kinds: tuple[EntryKind, ...]) -> None:
        """What its parents had come to; the ledger and the revisions too of a job whose whole history goes."""
        for kind in kinds:
            while entries := await self._store.list_entries(kind, name):
                await self._store.write_entries([EntryWrite(entry=entry, remove=True) for entry in entries])

    async def retire_orphans(self, declared: frozenset[str]) -> list[str]:
        """Remove jobs of code that neither this process nor any running one declares."""
        elsewhere = frozenset(name for worker in await self._queries.workers() for name in worker.declares)
        of_code = [view.name for view in await self._queries.jobs() if view.job.origin == "code"]
        orphans = [name for name in of_code if name not in declared | elsewhere]
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
        """End what waits at once; what runs is asked to stop, and ends as soon as its worker has heard."""
        why = f"cancelled by {by}" if reason is None else words("reason", reason, MAX_TEXT)
        while True:
            execution = await self._queries.get(id)
            await self._ask_about(execution)
            now = await self._store.now()
            decision = transitions.cancel(execution, now, why)
            after = msgspec.json.encode({"reason": why}).decode()
            audit = self._enqueuer.audit(
                "cancel", f"execution:{id}", by, now, before=execution.state.value, after=after
            )
            if isinstance(decision, CancelRequest):
                done = (await self._store.request_cancel([msgspec.structs.replace(decision, audit=audit)]))[0]
            else:
                change = msgspec.structs.replace(decision, audit=audit)
                done = (await self._store.exchange([change], None)).applied[0]
                if done:
                    self._emit(cancelled(execution, change))
            if done:
                ended = await self._queries.get(id)
                if ended.state.final and ended.fans_out:  # its mark sees to it too, somewhat later
                    await close_parent(self._store, ended, now, self._emit)
                return ended

    async def retry(self, ref: str | Execution, *, by: str) -> ExecutionRow:
        """Run a failed execution again, or the last one of a job, as a new execution."""
        if isinstance(ref, str) and not _is_execution_id(ref):
            return await self.retry_job(ref, by=by)
        return await self.retry_execution(id_of(ref), by=by)

    async def retry_execution(self, id: str, *, by: str, as_id: str | None = None) -> ExecutionRow:
        """As a new execution, under an id of the caller's own if given; what was made under it before is not made
        again."""
        if as_id is not None and (made := await self._store.execution(as_id)) is not None:
            return made
        seen = await self._enqueuer.retries.look(id)
        ended = await self._queries.get(id)
        await self._ask_about(ended)
        if ended.state not in RETRYABLE:
            raise CommandRefused("retry", ended.state, sorted(RETRYABLE), f"execution {ended.id}")
        return await self._enqueuer.add_retry(ended, by, seen, as_id)

    async def retry_job(self, name: str, *, by: str, as_id: str | None = None) -> ExecutionRow:
        """The last one of a job. What was made under the same id before is not made again."""
        if as_id is not None and (made := await self._store.execution(as_id)) is not None:
            return made
        last, seen = "", 0
        while (failed := await self._last_failed(name)) != last:  # it is still the last one after the look
            last, seen = failed, await self._enqueuer.retries.look(failed)
        ended = await self._store.execution(last)
        if ended is None:
            raise JobNotFound(name)
        return await self._enqueuer.add_retry(ended, by, seen, as_id)

    async def _last_failed(self, name: str) -> str:
        view = await self._seen(name, None)
        job_commands.check("retry", view.job, view.state, view.stats.last_state)
        return view.stats.last_id


def _in_the_future(now: Micros) -> str:
    return f"an instant in the future; it is {to_datetime(now):%Y-%m-%dT%H:%M:%SZ}"


def _is_execution_id(text: str) -> bool:
    return EXECUTION_ID.fullmatch(text) is not None


def _summary(job: Job, told: Mapping[str, str] = NOTHING) -> str:
    """The part of a job that commands change, for the audit."""
    fields = {
        "paused": job.paused_at,
        "cancelled": job.cancelled_at,
        "next_run": job.next_run_at,
        "pause_note": job.pause_note,
        "resume": job.resume_at,
        "overrides": job.changed_fields,
        "occurrences": [(each.at, each.moved_to or "skipped") for each in job.occurrences],
    }
    return msgspec.json.encode({name: value for name, value in {**fields, **told}.items() if value}).decode()
