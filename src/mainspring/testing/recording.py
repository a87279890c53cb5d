"""A memory store that keeps a copy of every execution ever added to it, as it was when it was added."""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine, Iterable, Sequence
from typing import Any, TypeVar

from ..model.execution import ExecutionRow
from ..model.store.messages import Added, Audit, Change, ClaimRequest, Exchanged, JobWrite, JobWritten
from ..stores.memory import MemoryStore
from .caller_transactions import CallerTransactions, must_be_awaited

T = TypeVar("T")


class RecordingStore(MemoryStore):
    """Tests can look at executions as they were before retries, endings and retention changed or deleted them."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._recorded: list[ExecutionRow] = []
        self._callers = CallerTransactions()

    @property
    def recorded(self) -> list[ExecutionRow]:
        """What was added, with everything that callers have committed by now."""
        self._callers.look()
        return self._recorded

    def add_in(self, connection: Any, executions: Iterable[ExecutionRow]) -> list[Added] | Awaitable[list[Added]]:
        """Nothing is written to the caller's database but a mark, if its driver cannot say what has become of a
        transaction: the executions are added here when it has been committed."""
        rows = list(executions)
        answers = [self._answer(row) for row in rows]
        new = [row for row, answer in zip(rows, answers, strict=True) if answer.outcome == "added"]
        if new:
            self._callers.wait_for(connection, new, lambda: immediately(self.add(new)))
        return _awaited(answers) if must_be_awaited(connection) else answers

    def _answer(self, row: ExecutionRow) -> Added:
        """Keys of open transactions are held, too. Whether overlap skips it is decided at the commit."""
        key = row.unique_key
        holder = self._executions.live.unique_holder(key) or (key and self._callers.holder(key))
        return Added(row.id, "unique_taken", holder) if holder else Added(row.id, "added")

    async def exchange(self, changes: Sequence[Change], claim: ClaimRequest | None) -> Exchanged:
        self._callers.look()
        return await super().exchange(changes, claim)

    async def add(self, executions: Sequence[ExecutionRow], audit: Sequence[Audit] = ()) -> list[Added]:
        added = await super().add(executions, audit)
        self._record(executions, added)
        return added

    async def write_jobs(self, writes: Sequence[JobWrite]) -> list[JobWritten]:
        written = await super().write_jobs(writes)
        for write, result in zip(writes, written, strict=True):
            self._record(write.executions, result.added)
        return written

    def _record(self, executions: Sequence[ExecutionRow], added: Sequence[Added]) -> None:
        """A write that lost against another one has added nothing."""
        self._recorded += [
            execution
            for execution, each in zip(executions, added, strict=False)
            if each.outcome in ("added", "skipped")
        ]

    def row(self, id: str) -> ExecutionRow | None:
        return immediately(self.execution(id))

    def latest(self, recorded: ExecutionRow) -> ExecutionRow:
        """The execution as it is now."""
        return self.row(recorded.id) or recorded


async def _awaited(answers: list[Added]) -> list[Added]:
    return answers


def immediately(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits, such as those of the memory store, for plain code."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    work.close()
    raise RuntimeError("this coroutine waits: await it")
