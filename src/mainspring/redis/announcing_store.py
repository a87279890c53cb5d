"""A store that also announces its changes through Redis, and listens there too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.ports import Store, Topic, Unsubscribe
from ..model.execution import ExecutionRow, State
from ..model.store.messages import Added, Audit, CancelRequest, Change, ClaimRequest, Exchanged, JobWrite, JobWritten
from .wakeups import RedisWakeups


class AnnouncingStore:
    """Wraps a store: the methods that change something announce it, all others are the store's own."""

    def __init__(self, store: Store, wakeups: RedisWakeups) -> None:
        self._store, self._wakeups = store, wakeups

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def listen(self, callback: Callable[[Topic], None]) -> Unsubscribe:
        stop_store, stop_redis = self._store.listen(callback), self._wakeups.listen(callback)

        def unsubscribe() -> None:
            stop_store()
            stop_redis()

        return unsubscribe

    async def write_jobs(self, writes: Sequence[JobWrite]) -> list[JobWritten]:
        written = await self._store.write_jobs(writes)
        topics = {Topic.JOBS} if any(one.won for one in written) else set()
        self._wakeups.announce(topics | {Topic.WORK} if any(one.added for one in written) else topics)
        return written

    async def delete_job(self, name: str, seen_version: int, *, purge: bool, audit: Audit | None) -> bool:
        deleted = await self._store.delete_job(name, seen_version, purge=purge, audit=audit)
        self._wakeups.announce({Topic.JOBS} if deleted else ())
        return deleted

    async def add(self, executions: Sequence[ExecutionRow], audit: Sequence[Audit] = ()) -> list[Added]:
        added = await self._store.add(executions, audit)
        self._wakeups.announce({Topic.WORK} if any(one.outcome == "added" for one in added) else ())
        return added

    async def exchange(self, changes: Sequence[Change], claim: ClaimRequest | None) -> Exchanged:
        answer = await self._store.exchange(changes, claim)
        if changes:
            applied = {change.to for change, done in zip(changes, answer.applied, strict=True) if done}
            ended = {Topic.ENDED} if any(state.final for state in applied) else set()
            self._wakeups.announce(ended | {Topic.WORK} if State.PENDING in applied else ended)
        return answer

    async def request_cancel(self, requests: Sequence[CancelRequest]) -> list[bool]:
        marked = await self._store.request_cancel(requests)
        self._wakeups.announce({Topic.CANCEL} if any(marked) else ())
        return marked
