"""A store that marks endings which an endpoint wants to hear of.

The mark is part of the write that ends the execution, whatever ends it, so a crash after that write loses no event: the
follow-ups of the ending hand it over (`hand_over`). While nobody subscribes to anything, every call goes straight to
the store.
"""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine, Sequence
from typing import Any

import msgspec

from ...model.execution import ExecutionRow, State
from ...model.store.messages import Added, Audit, Change, ClaimRequest, Exchanged, JobWrite, JobWritten
from ..loops import Emit, trouble
from ..ports import Store
from .events import RETRYING, SKIPPED, ended_event
from .hand_over import FAILED_ATTEMPTS, EventHandOver
from .subscriptions import Subscriptions


class MarkingStore:
    """Passes every other call straight to the store."""

    def __init__(self, store: Store, subscriptions: Subscriptions, hand_over: EventHandOver, emit: Emit) -> None:
        self._store, self._subscriptions, self._hand_over, self._emit = store, subscriptions, hand_over, emit

    def __getattr__(self, name: str) -> Any:
        if name == "add_in":  # only stores that write in callers' transactions have it
            self._store.add_in  # type: ignore[attr-defined]  # noqa: B018
            return self._add_in
        return getattr(self._store, name)

    # --- endings ------------------------------------------------------------------------------------------
    def exchange(self, changes: Sequence[Change], claim: ClaimRequest | None) -> Coroutine[Any, Any, Exchanged]:
        if not changes or self._subscriptions.absent:
            return self._store.exchange(changes, claim)
        return self._exchange(changes, claim)

    async def _exchange(self, changes: Sequence[Change], claim: ClaimRequest | None) -> Exchanged:
        await self._subscriptions.read()
        marked = [self._marked(change) for change in changes]
        reply = await self._store.exchange(marked, claim)
        applied = [change for change, done in zip(marked, reply.applied, strict=True) if done]
        if any(change.todo for change in applied):
            self._subscriptions.on_marked()
        await self._hand_over_retries(applied)
        return reply

    def _marked(self, change: Change) -> Change:
        execution = change.execution
        if change.todo or not change.to.final or execution is None:
            return change
        wanting = self._subscriptions.wanting
        wanted = wanting(ended_event(change.to, change.reason), execution)
        if not wanted and execution.failures:
            wanted = wanting(RETRYING, execution)
        return msgspec.structs.replace(change, todo=True) if wanted else change

    async def _hand_over_retries(self, applied: Sequence[Change]) -> None:
        """The settle was accepted, so nothing that fails here may make it look refused. What is left out is handed over
        with the ending of the execution."""
        failed = [
            (change.execution, change.attempt)
            for change in applied
            if change.to is State.PENDING
            and change.execution is not None
            and change.attempt is not None
            and change.attempt.end in FAILED_ATTEMPTS
        ]
        if not failed:
            return
        try:
            await self._hand_over.retrying(failed)
        except Exception as error:
            self._emit(trouble("webhooks", error))

    # --- what is recorded as ended when it is added -------------------------------------------------------
    def add(self, executions: Sequence[ExecutionRow], audit: Sequence[Audit] = ()) -> Coroutine[Any, Any, list[Added]]:
        if self._subscriptions.absent or not any(map(_may_end, executions)):
            return self._store.add(executions, audit)
        return self._add(executions, audit)

    async def _add(self, executions: Sequence[ExecutionRow], audit: Sequence[Audit]) -> list[Added]:
        await self._subscriptions.read()
        rows = [self._marked_row(each) for each in executions]
        added = await self._store.add(rows, audit)
        if any(row.todo for row in rows):
            self._subscriptions.on_marked()
        return added

    def _add_in(self, connection: Any, executions: Sequence[ExecutionRow]) -> list[Added] | Awaitable[list[Added]]:
        """Inside the caller's transaction nothing is read. A process that has not read the endpoints a moment ago marks
        everything, and the follow-up of what is skipped reads them."""
        store: Any = self._store
        if any(map(_may_end, executions)) and not self._subscriptions.absent:
            mark = self._marked_row if self._subscriptions.fresh else _marked_in_any_case
            executions = [mark(each) for each in executions]
        return store.add_in(connection, executions)  # type: ignore[no-any-return]

    def write_jobs(self, writes: Sequence[JobWrite]) -> Coroutine[Any, Any, list[JobWritten]]:
        if self._subscriptions.absent or not any(_may_end(each) for write in writes for each in write.executions):
            return self._store.write_jobs(writes)
        return self._write_jobs(writes)

    async def _write_jobs(self, writes: Sequence[JobWrite]) -> list[JobWritten]:
        await self._subscriptions.read()
        marked = [self._marked_write(each) for each in writes]
        written = await self._store.write_jobs(marked)
        if any(row.todo for write in marked for row in write.executions):
            self._subscriptions.on_marked()
        return written

    def _marked_write(self, write: JobWrite) -> JobWrite:
        rows = tuple(self._marked_row(each) for each in write.executions)
        return msgspec.structs.replace(write, executions=rows) if rows else write

    def _marked_row(self, row: ExecutionRow) -> ExecutionRow:
        """A live row keeps its mark until its ending decides anew; a row that is skipped at once keeps it."""
        if row.todo or not _may_end(row):
            return row
        event = ended_event(row.state, row.reason) if row.state.final else SKIPPED
        return msgspec.structs.replace(row, todo=True) if self._subscriptions.wanting(event, row) else row


def _marked_in_any_case(row: ExecutionRow) -> ExecutionRow:
    return msgspec.structs.replace(row, todo=True) if _may_end(row) else row


def _may_end(row: ExecutionRow) -> bool:
    """Whether adding this row may record an ending: it arrives ended, or it is skipped if its key is taken."""
    return row.overlap_key is not None or row.state.final
