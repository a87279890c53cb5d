"""Retrying many executions at a time: one read of their jobs, one of the counts of their retries, one write of those
counts, and one `Store.add` with all audit records.

The rules are those of a single retry (`core.commands.trigger`), with one more: an execution that was retried before is
left out, so that of a chain of retries only the newest link is retried. The id of each new execution follows from the
bulk and the execution that it repeats, so a driver that handles the same page again adds nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from ...model.bulk import BulkItemRow, BulkRow
from ...model.errors import AlreadyRunning, CommandRefused, JobNotFound, MainspringError
from ...model.events import Skipped
from ...model.execution import ExecutionRow, State
from ...model.job import Job
from ...model.store.messages import Added, Audit
from ...model.time.instants import Micros
from ..cancelling import cancel_all, cancel_superseded
from ..commands.steering import RETRYABLE
from ..commands.trigger import ManualRuns, being_retried, latest_retries, parent_of
from ..emitting import emit_enqueued
from ..loops import Emit
from ..ports import Store
from ..rules.edited_params import ParamsEdit
from ..rules.job_roles import handlers_to_read
from ..views.execution import Execution
from . import records, rules

FEW = 40
"""How many executions are created before other tasks get a turn. Each takes about ten microseconds, or more with edited
parameters."""

Make = Callable[[Job, ExecutionRow, Micros], ExecutionRow]


class Retrying:
    def __init__(self, store: Store, runs: ManualRuns, emit: Emit) -> None:
        self._store, self._runs, self._emit = store, runs, emit

    async def retry(self, bulk: BulkRow, ended: Sequence[ExecutionRow], repeated: bool) -> list[BulkItemRow]:
        """Retry these executions and return what became of each. `repeated` says that this page may have been handled
        before."""
        results: dict[str, BulkItemRow] = {}
        made, now = await self._make(bulk, ended, await self.jobs_of(ended), results)
        if repeated:
            made = await self._without_known(bulk, made, results)
        results |= await self.left_out(bulk, [row for row in ended if row.id not in results])
        made = await self.claimed([retry for retry in made if retry.retry_of not in results], now, results)
        await self.add(bulk, made, now, results)
        return [results[row.id] for row in ended]

    async def left_out(self, bulk: BulkRow, rows: Sequence[ExecutionRow]) -> dict[str, BulkItemRow]:
        """Those of these executions that were retried before, or run again with their parent."""
        ended = [row for row in rows if row.state in RETRYABLE]
        if bulk.action not in rules.MAKES_EXECUTIONS or not ended:
            return {}
        ids = {id for row in ended for id in (row.id, parent_of(row)) if id is not None}
        retried = await latest_retries(self._store, sorted(ids))
        items = (rules.left_out(bulk, row, retried) for row in ended)
        return {item.id: item for item in items if item is not None}

    async def jobs_of(self, rows: Sequence[ExecutionRow]) -> rules.JobsOfPage:
        found = await self._store.jobs(sorted({name for row in rows for name in (row.job, row.handler)}))
        own = {job.name: job for job in found if job.spec.handler == job.name}
        missing = {row.handler for row in rows}.union(handlers_to_read(found)) - own.keys()
        return rules.JobsOfPage({job.name: job for job in found}, own | await self._runs.own_jobs.named(missing))

    async def _make(
        self,
        bulk: BulkRow,
        ended: Sequence[ExecutionRow],
        known: rules.JobsOfPage,
        results: dict[str, BulkItemRow],
    ) -> tuple[list[ExecutionRow], Micros]:
        edit, now = ParamsEdit(bulk.params, bulk.remove), await self._store.now()

        def make(job: Job, row: ExecutionRow, now: Micros) -> ExecutionRow:
            if row.state not in RETRYABLE:
                raise CommandRefused(bulk.action, row.state, sorted(RETRYABLE), f"execution {row.id}")
            return self._runs.retry_of(job, row, bulk.created_by, now, rules.made_id(bulk, row.id), edit)

        return await self.make_each(bulk, ended, known, now, results, make), now

    async def make_each(
        self,
        bulk: BulkRow,
        rows: Sequence[ExecutionRow],
        known: rules.JobsOfPage,
        now: Micros,
        results: dict[str, BulkItemRow],
        make: Make,
    ) -> list[ExecutionRow]:
        """The executions that could be made; `results` gets the refusals."""
        made = []
        for number, row in enumerate(rows):
            try:
                if (job := known.jobs.get(row.job)) is None:
                    raise JobNotFound(row.job)
                rules.may_steer_execution(bulk, row, known)
                made.append(make(job, row, now))
            except MainspringError as error:
                results[row.id] = rules.refusal(row.id, error)
            if bulk.params or number % FEW == FEW - 1:  # large parameters take milliseconds to check
                await asyncio.sleep(0)
        return made

    async def _without_known(
        self, bulk: BulkRow, made: Sequence[ExecutionRow], results: dict[str, BulkItemRow]
    ) -> list[ExecutionRow]:
        """The executions that no driver of this page has added before. For those that ran and were deleted since, the
        audit record says so."""
        new = []
        for retry in made:
            known = await self._store.execution(retry.id)
            if known is not None:
                results[retry.retry_of or ""] = _result(known, Added(retry.id, "duplicate"))
            elif await records.done_before(self._store, bulk, f"execution:{retry.retry_of}"):
                results[retry.retry_of or ""] = BulkItemRow(
                    id=retry.retry_of or "", status="done", execution_id=retry.id
                )
            else:
                new.append(retry)
        return new

    async def claimed(
        self, made: Sequence[ExecutionRow], now: Micros, results: dict[str, BulkItemRow]
    ) -> list[ExecutionRow]:
        """The executions that nobody else is retrying at this time."""
        refused = await self._runs.claims.take_many(made, now)
        for retry in made:
            if (state := refused.get(retry.id)) is not None:
                ended = retry.retry_of or ""
                results[ended] = rules.refusal(ended, being_retried(ended, state))
        return [retry for retry in made if retry.id not in refused]

    async def add(
        self, bulk: BulkRow, made: Sequence[ExecutionRow], now: Micros, results: dict[str, BulkItemRow]
    ) -> None:
        """Add these with their audit records; `results` gets what became of each."""
        if not made:
            return
        audits = [self._audit(bulk, retry, now) for retry in made]
        added = await self._store.add(made, audits)
        emit_enqueued(self._emit, made, added)
        for retry, each in zip(made, added, strict=True):
            if each.outcome == "skipped":
                self._emit(Skipped(each.execution or retry, "overlap", each.holder))
            results[retry.retry_of or ""] = _result(retry, each)
        live = [retry for retry, each in zip(made, added, strict=True) if each.outcome == "added"]
        await self._cancel_if_stopped(live, results)
        for retry in live:
            if retry.rules.overlap == "cancel_running":
                await cancel_superseded(self._store, retry, self._emit)

    def _audit(self, bulk: BulkRow, retry: ExecutionRow, now: Micros) -> Audit:
        return self._runs.retry_audit(retry, bulk.created_by, now, bulk.action)

    async def _cancel_if_stopped(self, live: Sequence[ExecutionRow], results: dict[str, BulkItemRow]) -> None:
        """A job may have been cancelled or removed after it was read, and swept before these executions were stored:
        then nobody else would cancel them."""
        jobs = (await self.jobs_of(live)).jobs if live else {}
        stopped = [row for row in live if not _goes_on(row, jobs.get(row.job))]
        if not stopped:
            return
        await cancel_all(self._store, stopped, "the job was cancelled", self._emit)
        for row in stopped:
            error = CommandRefused("retry", "cancelled", ["the job is there and not cancelled"], f"job {row.job!r}")
            results[row.retry_of or ""] = rules.refusal(row.retry_of or "", error)


def _goes_on(row: ExecutionRow, job: Job | None) -> bool:
    return job is not None and job.id == row.job_id and job.cancelled is None


def _result(retry: ExecutionRow, added: Added) -> BulkItemRow:
    """What became of an item whose retry was added. A repeated page finds the retry that it added before: if that was
    skipped for overlap, the item is refused again."""
    ended = retry.retry_of or ""
    known = added.execution or retry
    skipped = added.outcome == "skipped" or known.skipped_for_overlap
    if added.outcome == "unique_taken":
        state = f"being retried already, as execution {added.holder}"
        return rules.refusal(ended, being_retried(ended, state))
    if skipped:
        row = msgspec.structs.replace(known, state=State.SKIPPED, reason="overlap")
        return rules.refusal(ended, AlreadyRunning(row.job, Execution(row), added.holder))
    return rules.made(known)
