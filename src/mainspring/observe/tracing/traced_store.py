"""A store that starts a producer span for every execution before it is stored, however it is created."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from inspect import isawaitable
from typing import Any

import msgspec

from ...core.ports import Store
from ...model.execution import ExecutionRow
from ...model.store.messages import Added, Audit, JobWrite, JobWritten
from .tracing import TracedBatch, Tracing


class TracedStore:
    """Passes every other call straight to the store."""

    def __init__(self, store: Store, tracing: Tracing) -> None:
        self._store, self._tracing = store, tracing

    def __getattr__(self, name: str) -> Any:
        if name == "add_in":  # only stores that write in callers' transactions have it
            self._store.add_in  # type: ignore[attr-defined]  # noqa: B018
            return self._add_in
        return getattr(self._store, name)

    async def add(self, executions: Sequence[ExecutionRow], audit: Sequence[Audit] = ()) -> list[Added]:
        batch = self._tracing.send(executions)
        if batch is None:
            return await self._store.add(executions, audit)
        return await _awaited(batch, self._store.add(batch.executions, audit))

    def _add_in(self, connection: Any, executions: Sequence[ExecutionRow]) -> list[Added] | Awaitable[list[Added]]:
        store: Any = self._store
        batch = self._tracing.send(executions)
        if batch is None:
            return store.add_in(connection, executions)  # type: ignore[no-any-return]
        try:
            added = store.add_in(connection, batch.executions)
        except BaseException as error:
            batch.failed(error)
            raise
        return _awaited(batch, added) if isawaitable(added) else batch.stored(added)

    async def write_jobs(self, writes: Sequence[JobWrite]) -> list[JobWritten]:
        """Jobs due at one instant have nothing else in common, so each has a span of its own. A scheduler that loses
        the race for a tick has created nothing, and its span is never ended."""
        batches = [self._tracing.send(write.executions) for write in writes]
        given = [_with_executions(*pair) for pair in zip(writes, batches, strict=True)]
        written = await self._store.write_jobs(given)
        return [_answer(*pair) for pair in zip(written, batches, strict=True)]


async def _awaited(batch: TracedBatch, adding: Awaitable[list[Added]]) -> list[Added]:
    try:
        added = await adding
    except BaseException as error:
        batch.failed(error)
        raise
    return batch.stored(added)


def _with_executions(write: JobWrite, batch: TracedBatch | None) -> JobWrite:
    return write if batch is None else msgspec.structs.replace(write, executions=tuple(batch.executions))


def _answer(written: JobWritten, batch: TracedBatch | None) -> JobWritten:
    if batch is None or not written.won:
        return written
    return JobWritten(won=True, added=tuple(batch.stored(written.added)))
