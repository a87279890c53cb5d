"""Requests under a key of the caller's own: the same key and request get the same answer, for a day.

The key is stored as an entry before the work, and the answer after it. A request that finds a key without an answer is
refused while the first one is at work; if that process died, the work is done again. Executions made under a key have
an id that follows from it, so that nothing is done twice.
"""

from __future__ import annotations

import hashlib
from typing import Literal, TypeAlias

import msgspec

from ...model.errors import MainspringError
from ...model.store.entries import Entry, EntryWrite
from ...model.time.instants import SECOND, Micros
from ...model.values.ids import tick_id
from ..expiry import EntryExpiry
from ..ports import Clock, Store

KEPT_FOR = 24 * 3600 * SECOND
ABANDONED_AFTER = 60 * SECOND
Kind: TypeAlias = Literal["idempotency", "delivery"]
"""Keys of callers, and ids of deliveries of incoming hooks."""


class KeyReused(MainspringError):
    """The key was used for another request."""

    def __str__(self) -> str:
        return "this Idempotency-Key was used for another request; use a new key for each request"


class StillAtWork(MainspringError):
    """The first request with this key has no answer yet."""

    def __str__(self) -> str:
        return "the first request with this Idempotency-Key is still being handled; send this one again later"


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """`steered` are the jobs that the caller was allowed to steer, and the own jobs of their handlers: the answer is
    repeated only to callers who still are."""

    status: int
    body: str = ""
    headers: dict[str, str] = {}
    steered: tuple[str, ...] = ()


class _StoredAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """`at` is when the key was first used, `since` when the present attempt began."""

    request: str
    at: Micros
    since: Micros
    answer: Answer | None = None


class Begun(msgspec.Struct, frozen=True):
    """A request that has to be worked on now."""

    kind: Kind
    key: str
    version: int
    kept: _StoredAnswer

    @property
    def execution_id(self) -> str:
        """The id of the execution that this request makes."""
        return tick_id(self.key, self.kept.at, self.kind)


class Idempotency:
    def __init__(self, store: Store, clock: Clock, kind: Kind = "idempotency", kept_for: Micros = KEPT_FOR) -> None:
        self._store, self._kind, self._kept_for = store, kind, kept_for
        self.expiry = EntryExpiry(store, clock, kind, self._is_old)

    async def begin(self, actor: str, key: str, request: str) -> Begun | Answer:
        """The answer given before, or the right to work. `request` tells whether two requests are the same."""
        await self.expiry.now_and_then()
        place = hashlib.sha256(f"{actor}\n{key}".encode("utf-8", "surrogatepass")).hexdigest()
        while True:
            found = next(iter(await self._store.entries(self._kind, "", [place])), None)
            now = await self._store.now()
            kept = self._next(None if found is None else _read(found), request, now)
            if kept.answer is not None:
                return kept.answer
            version = 0 if found is None else found.version
            if await self._write(place, kept, version):
                return Begun(self._kind, place, version + 1, kept)

    async def finish(self, begun: Begun, answer: Answer) -> None:
        """If another took over meanwhile, its answer counts."""
        await self._write(begun.key, msgspec.structs.replace(begun.kept, answer=answer), begun.version)

    async def forget(self, begun: Begun) -> None:
        """The work failed for a reason that may pass: free the key."""
        entry = Entry(kind=self._kind, key=begun.key)
        await self._store.write_entries([EntryWrite(entry=entry, seen_version=begun.version, remove=True)])

    async def _write(self, key: str, kept: _StoredAnswer, seen_version: int) -> bool:
        entry = Entry(kind=self._kind, key=key, body=msgspec.json.encode(kept).decode())
        return (await self._store.write_entries([EntryWrite(entry=entry, seen_version=seen_version)]))[0]

    def _is_old(self, entry: Entry, now: Micros) -> bool:
        return _read(entry).at < now - self._kept_for

    def _next(self, kept: _StoredAnswer | None, request: str, now: Micros) -> _StoredAnswer:
        """The record to store; a record with an answer is already complete."""
        if kept is None or kept.at < now - self._kept_for:
            return _StoredAnswer(request=request, at=now, since=now)
        if kept.request != request:
            raise KeyReused
        if kept.answer is None and kept.since > now - ABANDONED_AFTER:
            raise StillAtWork
        return kept if kept.answer is not None else msgspec.structs.replace(kept, since=now)


def _read(entry: Entry) -> _StoredAnswer:
    return msgspec.json.decode(entry.body, type=_StoredAnswer)
