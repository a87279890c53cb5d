"""The shelf in memory: entries by kind and scope."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from ...model.store.entries import Entry, EntryKind, EntryWrite


class ShelfTable:
    def __init__(self) -> None:
        self._scopes: dict[tuple[EntryKind, str], dict[str, Entry]] = {}

    def write(self, write: EntryWrite) -> bool:
        entry = write.entry
        scope = self._scopes.setdefault((entry.kind, entry.scope), {})
        stored = scope.get(entry.key)
        version = 0 if stored is None else stored.version
        if write.seen_version not in (None, version) or (write.remove and write.seen_version == 0):
            return False
        if write.remove:
            scope.pop(entry.key, None)
        else:
            scope[entry.key] = replace(entry, version=version + 1)
        return True

    def restore(self, entry: Entry) -> bool:
        """As it was, unless there is one."""
        scope = self._scopes.setdefault((entry.kind, entry.scope), {})
        if entry.key in scope:
            return False
        scope[entry.key] = entry
        return True

    def all(self) -> Iterable[Entry]:
        return (entry for scope in self._scopes.values() for entry in scope.values())

    def between(self, kind: EntryKind, scope: str, after: str, before: str | None, limit: int) -> list[Entry]:
        found = self._scopes.get((kind, scope), {})
        keys = sorted(key for key in found if key > after and (before is None or key < before))
        return [found[key] for key in keys[:limit]]

    def get(self, kind: EntryKind, scope: str, keys: Iterable[str]) -> list[Entry]:
        found = self._scopes.get((kind, scope), {})
        return [found[key] for key in sorted(set(keys)) if key in found]
