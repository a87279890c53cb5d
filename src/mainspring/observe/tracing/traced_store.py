"""A store before which every execution that is made gets its producer's span, whichever way it is made."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from inspect import isawaitable
from typing import Any

import msgspec

from ...core.ports import Store
from ...model.execution import ExecutionRow
from ...model.store.messages import Added, Audit, JobWrite, JobWritten
from .tracing import Sending, Tracing


class TracedStore:
    """Everything else is the store's own business."""

    def __init__(self, store: Store, tracing: Tracing) -> None:
        self._store, self._tracing = store, tracing

    def __getattr__(self, name: str) -> Any:
        if name == "add_in":  # only stores with transactions of callers have it
            self._store.add_in  # type: ignore[attr-defined]  # noqa: B018
            return self._add_in
        return getattr(self._store, name)

    async def add(self, executions: Sequence[ExecutionRow], audit: Sequence[Audit] = ()) -> list[Added]:
        sending = self._tracing.send(executions)
        if sending is None:
            return await self._store.add(executions, audit)
        try:
            added = await self._store.add(sending.executions, audit)
        except BaseException as error:
            sending.failed(error)
            raise
        return sending.stored(added)

    def _add_in(self, connection: Any, executions: Sequence[ExecutionRow]) -> list[Added] | Awaitable[list[Added]]:
        store: Any = self._store
        sending = self._tracing.send(executions)
        if sending is None:
            return store.add_in(connection, executions)  # type: ignore[no-any-return]
        try:
            added = store.add_in(connection, sending.executions)
        except BaseException as error:
            sending.failed(error)
            raise
        return _awaited(sending, added) if isawaitable(added) else sending.stored(added)

    async def write_jobs(self, writes: Sequence[JobWrite]) -> list[JobWritten]:
        """Jobs due at one instant have nothing else in common: each has a span of its own. Who loses the race for a
        tick has made nothing, and tells nothing."""
        sendings = [self._tracing.send(write.executions) for write in writes]
        given = [_with_executions(*pair) for pair in zip(writes, sendings, strict=True)]
        written = await self._store.write_jobs(given)
        return [_answer(*pair) for pair in zip(written, sendings, strict=True)]


async def _awaited(sending: Sending, adding: Awaitable[list[Added]]) -> list[Added]:
    try:
        added = await adding
    except BaseException as error:
        sending.failed(error)
        raise
    return sending.stored(added)


def _with_executions(write: JobWrite, sending: Sending | None) -> JobWrite:
    return write if sending is None else msgspec.structs.replace(write, executions=tuple(sending.executions))


def _answer(written: JobWritten, sending: Sending | None) -> JobWritten:
    if sending is None or not written.won:
        return written
    return JobWritten(won=True, added=tuple(sending.stored(written.added)))
