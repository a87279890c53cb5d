"""A memory store that keeps a copy of every execution ever added to it, as it was when it was added."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from ..model.execution import ExecutionRow
from ..model.store.messages import Added, Audit, JobWrite, JobWritten
from ..stores.memory import MemoryStore

T = TypeVar("T")


class RecordingStore(MemoryStore):
    """Tests can look at executions as they were before retries, endings and retention changed or deleted them."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.recorded: list[ExecutionRow] = []

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
        self.recorded += [
            execution
            for execution, each in zip(executions, added, strict=False)
            if each.outcome in ("added", "skipped")
        ]

    def row(self, id: str) -> ExecutionRow | None:
        return immediately(self.execution(id))

    def latest(self, recorded: ExecutionRow) -> ExecutionRow:
        """The execution as it is now."""
        return self.row(recorded.id) or recorded


def immediately(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits, such as those of the memory store, for plain code."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    work.close()
    raise RuntimeError("this coroutine waits: await it")
