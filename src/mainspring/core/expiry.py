"""Entries that expire are removed by the code that uses their kind: now and then, a batch at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ..model.store.entries import Entry, EntryKind, EntryWrite
from .ports import Clock, Store

EVERY = 60.0
AT_ONCE = 500


class EntryExpiry:
    """`expired` says whether an entry has expired. `needed` names those keys of expired entries that are kept all the
    same."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        kind: EntryKind,
        expired: Callable[[Entry, int], bool],
        scope: str = "",
        needed: Callable[[list[str]], Awaitable[set[str]]] | None = None,
    ) -> None:
        self._store, self._clock, self._kind, self._expired, self._scope = store, clock, kind, expired, scope
        self._needed = needed
        self._up_to, self._at = "", clock.monotonic()

    async def now_and_then(self) -> None:
        if self._clock.monotonic() - self._at >= EVERY:
            self._at = self._clock.monotonic()
            await self.once()

    async def once(self) -> int:
        """Check the next entries, and remove those that have expired; returns how many."""
        found = await self._store.list_entries(self._kind, self._scope, after=self._up_to, limit=AT_ONCE)
        self._up_to = found[-1].key if len(found) == AT_ONCE else ""
        now = await self._store.now()
        expired = [entry for entry in found if self._has_expired(entry, now)]
        kept = await self._needed([entry.key for entry in expired]) if self._needed is not None and expired else set()
        writes = [
            EntryWrite(entry=entry, seen_version=entry.version, remove=True)
            for entry in expired
            if entry.key not in kept
        ]
        return sum(await self._store.write_entries(writes)) if writes else 0

    def _has_expired(self, entry: Entry, now: int) -> bool:
        """An unreadable entry stays, and holds up no other."""
        try:
            return self._expired(entry, now)
        except Exception:
            return False
