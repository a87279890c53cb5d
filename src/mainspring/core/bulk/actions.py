"""What a bulk does to the items of one page: executions many at a time, jobs one by one.

Every action can be repeated after a crash, and recognises what this bulk has done before: a retry by its derived id, a
cancelled execution by its reason, which names the bulk, and a steered job or a deleted execution by its audit record,
whose request id names the bulk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec

from ...model.bulk import BulkItemRow, BulkRow
from ...model.errors import CommandRefused, ExecutionNotFound, JobNotFound, MainspringError, StoreError
from ...model.execution import ExecutionRow, State
from ...model.job import Job
from ...model.store.messages import CancelRequest, Change
from ...model.time.instants import Micros
from ...model.values.ids import Chance
from ..auditing import REQUEST_ID, audit_record
from ..cancelling import ended_while_waiting
from ..commands.steering import RETRYABLE, Steering
from ..commands.trigger import ManualRuns
from ..errors.commands import ErrorGroups
from ..loops import Emit
from ..ports import Store
from ..queries.queries import EXECUTION_ID
from ..rules import transitions
from ..rules.edited_params import ParamsEdit
from ..rules.new_execution import edited_waiting
from ..tenants.endings import close_parent
from . import deleting, records, rules
from .deleting import Deleting
from .retrying import Retrying

AT_ONCE = 10
"""Jobs or single executions that are read or steered concurrently."""
ROUNDS = 5
"""How often an execution that keeps changing is tried before it is refused."""

Rows = Mapping[str, ExecutionRow]


class Actions:
    def __init__(
        self, store: Store, steering: Steering, runs: ManualRuns, errors: ErrorGroups, chance: Chance, emit: Emit
    ) -> None:
        self._store, self._steering, self._runs, self.errors = store, steering, runs, errors
        self._chance, self._emit, self.payload_limit = chance, emit, runs.payload_limit
        self.retrying = Retrying(store, runs, emit)
        self._deleting = Deleting(store, chance, self.read)

    async def handle(self, bulk: BulkRow, ids: Sequence[str], rows: Rows, repeated: bool) -> list[BulkItemRow]:
        """Handle these items and return what became of each. `rows` are executions that were just read; the others are
        read one by one. `repeated` says that a process which has died since may have handled this page before."""
        token = REQUEST_ID.set(rules.request_id(bulk))
        try:
            if bulk.target == "jobs":
                return await self._each(ids, lambda name: self._steer(bulk, name))
            if bulk.target == "errors":
                return await self._each(ids, lambda id: self._mute(bulk, id))
            return await self._executions(bulk, ids, rows, repeated)
        finally:
            REQUEST_ID.reset(token)

    async def _executions(self, bulk: BulkRow, ids: Sequence[str], rows: Rows, repeated: bool) -> list[BulkItemRow]:
        found = {**rows, **await self.read([id for id in ids if id not in rows])}
        known = [found[id] for id in ids if id in found]
        match bulk.action:
            case "retry":
                done = await self.retrying.retry(bulk, known, repeated)
            case "cancel":
                done = await self._cancel(bulk, known)
            case "edit":
                done = await self._edit(bulk, known, repeated)
            case "delete":
                done = await self._deleting.delete(bulk, ids, found, await self.retrying.jobs_of(known))
            case _:
                raise AssertionError(bulk.action)
        results = {item.id: item for item in done}
        items = [results.get(id) or rules.refusal(id, ExecutionNotFound(id)) for id in ids]
        return await self._recognise(bulk, items) if repeated else items

    async def _recognise(self, bulk: BulkRow, items: Sequence[BulkItemRow]) -> list[BulkItemRow]:
        """When a page is handled again, an item that this bulk has done before may be refused, because its execution
        has ended or is gone. Report such an item as done."""
        refused = [item.id for item in items if item.status == "refused"]
        done: dict[str, BulkItemRow] = {}
        if bulk.action == "cancel":
            for id in refused:
                if await records.done_before(self._store, bulk, f"execution:{id}"):
                    done[id] = BulkItemRow(id=id, status="done")
        elif bulk.action in rules.MAKES_EXECUTIONS:
            made = await self.read([rules.made_id(bulk, id) for id in refused])
            own = [row for row in made.values() if not row.skipped_for_overlap]
            done = {row.retry_of or "": rules.made(row) for row in own}
        return [done.get(item.id, item) for item in items]

    async def foresee(self, bulk: BulkRow, rows: Sequence[ExecutionRow]) -> list[BulkItemRow]:
        """What would become of these executions now: `now` names it, a refusal has its error, and what would be left
        out is `skipped`."""
        known, now = await self.retrying.jobs_of(rows), await self._store.now()
        parents = await self._deleting.waiting_parents(rows) if bulk.action == "delete" else set()
        left_out = await self.retrying.left_out(bulk, rows)
        foreseen = []
        for row in rows:
            if row.id in left_out:
                foreseen.append(left_out[row.id])
                continue
            try:
                job = known.jobs.get(row.job)
                rules.may_steer_execution(bulk, row, known)
                if job is None and bulk.action in rules.MAKES_EXECUTIONS:
                    raise JobNotFound(row.job)
                if bulk.action == "delete":
                    deleting.check(row, parents)
                foreseen.append(BulkItemRow(id=row.id, now=self._foreseen(bulk, row, job, now)))
            except MainspringError as error:
                foreseen.append(rules.refusal(row.id, error))
            await asyncio.sleep(0)  # large parameters take milliseconds to check
        return foreseen

    def _foreseen(self, bulk: BulkRow, row: ExecutionRow, job: Job | None, now: Micros) -> str:
        if bulk.action == "delete":
            return "deleted"
        if bulk.action == "cancel":
            return "cancelled" if isinstance(transitions.cancel(row, now, ""), Change) else "asked to stop"
        edit = ParamsEdit(bulk.params, bulk.remove)
        if job is not None and bulk.action == "edit" and row.state is State.PENDING:
            self._replacement(bulk, job, row, edit, now)
            return "replaced"
        if row.state not in RETRYABLE:
            raise CommandRefused(bulk.action, row.state, sorted(RETRYABLE), f"execution {row.id}")
        if job is not None:
            self._runs.retry_of(job, row, bulk.created_by, now, rules.made_id(bulk, row.id), edit)
        return "retried"

    async def read(self, ids: Sequence[str]) -> dict[str, ExecutionRow]:
        found: dict[str, ExecutionRow] = {}
        valid = [id for id in ids if EXECUTION_ID.fullmatch(id)]
        for start in range(0, len(valid), AT_ONCE):
            some = await asyncio.gather(*(self._store.execution(id) for id in valid[start : start + AT_ONCE]))
            found |= {row.id: row for row in some if row is not None}
        return found

    # --- cancel -------------------------------------------------------------------------------------------
    async def _cancel(self, bulk: BulkRow, rows: Sequence[ExecutionRow]) -> list[BulkItemRow]:
        """What waits ends at once; what runs is asked to stop. Rows that changed meanwhile are read and tried again."""
        reason = rules.cancel_reason(bulk)
        results = await self._end(bulk, rows, lambda row: reason, "cancel")
        return [results[row.id] for row in rows]

    async def _end(
        self, bulk: BulkRow, rows: Sequence[ExecutionRow], reason_of: Callable[[ExecutionRow], str], action: str
    ) -> dict[str, BulkItemRow]:
        results: dict[str, BulkItemRow] = {}
        known = await self.retrying.jobs_of(rows)
        left = list(rows)
        for _ in range(ROUNDS):
            now = await self._store.now()
            decided = self._decide(bulk, left, known, reason_of, action, now, results)
            changes = [(row, each) for row, each in decided if isinstance(each, Change)]
            requests = [(row, each) for row, each in decided if isinstance(each, CancelRequest)]
            ended = (await self._store.exchange([each for _, each in changes], None)).applied if changes else ()
            asked = await self._store.request_cancel([each for _, each in requests]) if requests else []
            for (row, change), applied in zip(changes, ended, strict=True):
                if applied:
                    self._emit(ended_while_waiting(row, change))
                    results[row.id] = BulkItemRow(id=row.id, status="done", now=State.CANCELLED.value)
                    if row.fans_out:  # its follow-up does the same, somewhat later
                        await self._close_parent(row.id, now)
            for (row, _), marked in zip(requests, asked, strict=True):
                if marked:
                    results[row.id] = BulkItemRow(id=row.id, status="done", now=State.RUNNING.value)
            missed = [row.id for row in left if row.id not in results]
            if not missed:
                return results
            found = await self.read(missed)
            results |= {id: rules.refusal(id, ExecutionNotFound(id)) for id in missed if id not in found}
            left = list(found.values())
        for row in left:
            error = CommandRefused(action, "changing too fast", ["you try again"], f"execution {row.id}")
            results[row.id] = rules.refusal(row.id, error)
        return results

    def _decide(
        self,
        bulk: BulkRow,
        rows: Sequence[ExecutionRow],
        known: rules.JobsOfPage,
        reason_of: Callable[[ExecutionRow], str],
        action: str,
        now: Micros,
        results: dict[str, BulkItemRow],
    ) -> list[tuple[ExecutionRow, Change | CancelRequest]]:
        decided = []
        for row in rows:
            reason = reason_of(row)
            if reason in (row.reason, row.cancel_reason):  # a driver that handled this page before did it
                results[row.id] = BulkItemRow(id=row.id, status="done", now=row.state.value)
                continue
            try:
                rules.may_steer_execution(bulk, row, known)
                if action == "edit" and row.state is not State.PENDING:  # it began meanwhile
                    raise CommandRefused("edit", row.state, [State.PENDING], f"execution {row.id}")
                decision = transitions.cancel(row, now, reason)
            except MainspringError as error:
                results[row.id] = rules.refusal(row.id, error)
                continue
            after = msgspec.json.encode({"reason": reason}).decode()
            audit = audit_record(
                self._chance, action, f"execution:{row.id}", bulk.created_by, now, row.state.value, after
            )
            decided.append((row, msgspec.structs.replace(decision, audit=audit)))
        return decided

    async def _close_parent(self, id: str, now: Micros) -> None:
        if (parent := await self._store.execution(id)) is not None:
            await close_parent(self._store, parent, now, self._emit)

    # --- edit ---------------------------------------------------------------------------------------------
    async def _edit(self, bulk: BulkRow, rows: Sequence[ExecutionRow], repeated: bool) -> list[BulkItemRow]:
        """Executions that have ended are retried with the changes. Executions that wait are replaced: each ends as
        cancelled, and its reason names its replacement, which has its time, priority and keys. After a crash in
        between, the page is handled again, finds the reason and adds the replacement."""
        ended = [row for row in rows if row.state in RETRYABLE and not self._is_replaced(bulk, row)]
        waiting = [row for row in rows if row.state is State.PENDING or self._is_replaced(bulk, row)]
        results = {item.id: item for item in await self.retrying.retry(bulk, ended, repeated)} if ended else {}
        if waiting:
            results |= await self._replace(bulk, waiting, repeated)
        for row in rows:
            if row.id not in results:
                allowed = sorted({*RETRYABLE, State.PENDING})
                error = CommandRefused("edit", row.state, allowed, f"execution {row.id}")
                results[row.id] = rules.refusal(row.id, error)
        return [results[row.id] for row in rows]

    async def _replace(self, bulk: BulkRow, waiting: Sequence[ExecutionRow], repeated: bool) -> dict[str, BulkItemRow]:
        """The replacements are made first, so that nothing is cancelled for parameters that do not fit."""
        results: dict[str, BulkItemRow] = {}
        edit, now = ParamsEdit(bulk.params, bulk.remove), await self._store.now()
        known = await self.read([rules.made_id(bulk, row.id) for row in waiting]) if repeated else {}

        def make(job: Job, row: ExecutionRow, now: Micros) -> ExecutionRow:
            return self._replacement(bulk, job, row, edit, now)

        jobs = await self.retrying.jobs_of(waiting)
        made = await self.retrying.make_each(bulk, waiting, jobs, now, results, make)
        wanted = {row.retry_of for row in made}
        left = [row for row in waiting if row.id in wanted and row.state is State.PENDING]
        ended = await self._end(bulk, left, lambda row: rules.replaced_reason(bulk, row.id), "edit")
        results |= {id: item for id, item in ended.items() if item.status == "refused"}
        results |= {row.retry_of or "": rules.made(row) for row in known.values()}
        new = [row for row in made if row.retry_of not in results]
        await self.retrying.add(bulk, await self.retrying.claimed(new, now, results), now, results)
        return results

    def _replacement(self, bulk: BulkRow, job: Job, row: ExecutionRow, edit: ParamsEdit, now: Micros) -> ExecutionRow:
        if row.parent_id is not None:
            raise CommandRefused("edit", "part of another one", ["it has no parent"], f"execution {row.id}")
        params = self._runs.encode_edited(job, row, edit)
        return edited_waiting(job, row, rules.made_id(bulk, row.id), params, bulk.created_by, now)

    def _is_replaced(self, bulk: BulkRow, row: ExecutionRow) -> bool:
        return row.state is State.CANCELLED and row.reason == rules.replaced_reason(bulk, row.id)

    # --- jobs ---------------------------------------------------------------------------------------------
    async def _each(self, names: Sequence[str], one: Callable[[str], Awaitable[BulkItemRow]]) -> list[BulkItemRow]:
        done: list[BulkItemRow] = []
        for start in range(0, len(names), AT_ONCE):
            done += await asyncio.gather(*(self._tried(name, one) for name in names[start : start + AT_ONCE]))
        return done

    async def _tried(self, name: str, one: Callable[[str], Awaitable[BulkItemRow]]) -> BulkItemRow:
        """Refuses a single item if it fails. An error of the store concerns all items, so it is raised."""
        try:
            return await one(name)
        except StoreError:
            raise
        except MainspringError as error:
            return rules.refusal(name, error)

    async def _steer(self, bulk: BulkRow, name: str) -> BulkItemRow:
        """Steering a page of jobs takes time, so another process may have taken over the page and steered this job
        meanwhile."""
        try:
            return await self._steered(bulk, name)
        except (CommandRefused, JobNotFound):
            if not await records.done_before(self._store, bulk, f"job:{name}"):
                raise
            return BulkItemRow(id=name, status="done")

    async def _steered(self, bulk: BulkRow, name: str) -> BulkItemRow:
        steering, by = self._steering.checked(lambda job, role: rules.may_steer(bulk, job, role)), bulk.created_by
        match bulk.action:
            case "retry":
                made = await steering.retry_job(name, by=by, as_id=rules.made_id(bulk, name))
                return BulkItemRow(id=name, status="done", execution_id=made.id, now=made.state.value)
            case "pause":
                view = await steering.pause(name, by=by, note=bulk.note)
            case "resume":
                view = await steering.resume(name, by=by)
            case "cancel":
                view = await steering.cancel_job(name, by=by, reason=bulk.note)
            case "delete":
                await steering.remove_job(name, by=by)
                return BulkItemRow(id=name, status="done", now="removed")
            case _:
                raise AssertionError(bulk.action)
        return BulkItemRow(id=name, status="done", now=view.state.value)

    async def _mute(self, bulk: BulkRow, id: str) -> BulkItemRow:
        """Muting a group again changes only the time of the mute."""
        if bulk.action == "mute":
            await self.errors.mute(id, note=bulk.note or "", by=bulk.created_by)
        else:
            await self.errors.unmute(id, by=bulk.created_by)
        return BulkItemRow(id=id, status="done", now=f"{bulk.action}d")
