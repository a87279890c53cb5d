"""Tables that need no index: audit records, entries, named locks and workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from ...core.ports import Clock
from ...model.store.entries import Entry, EntryKind, EntryWrite
from ...model.store.messages import Audit, LockRow, WorkerInfo
from ...model.time.instants import Micros, seconds_to_micros


class AuditTable:
    def __init__(self) -> None:
        self._rows: dict[str, Audit] = {}

    def __iter__(self) -> Iterator[Audit]:
        return iter(self._rows.values())

    def add(self, *audits: Audit | None) -> None:
        self._rows.update({audit.id: audit for audit in audits if audit is not None})

    def restore(self, audit: Audit) -> bool:
        """Add the record as it is; False when it exists."""
        new = audit.id not in self._rows
        self._rows.setdefault(audit.id, audit)
        return new

    def audits(self, target: str | None = None, limit: int = 100, before: str | None = None) -> list[Audit]:
        ids = sorted((id for id in self._rows if before is None or id < before), reverse=True)
        return [row for row in map(self._rows.__getitem__, ids) if target in (None, row.target)][:limit]

    def prune_audits(self, before: str, limit: int) -> int:
        gone = sorted(id for id in self._rows if id < before)[: max(limit, 0)]
        for id in gone:
            del self._rows[id]
        return len(gone)


class EntryTable:
    """Entries by kind and scope."""

    def __init__(self, audits: AuditTable) -> None:
        self._audits = audits
        self._scopes: dict[tuple[EntryKind, str], dict[str, Entry]] = {}

    def __iter__(self) -> Iterator[Entry]:
        return (entry for scope in self._scopes.values() for entry in scope.values())

    def write_entries(self, writes: Sequence[EntryWrite]) -> list[bool]:
        return [self._write(write) for write in writes]

    def _write(self, write: EntryWrite) -> bool:
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
        self._audits.add(write.audit)
        return True

    def restore(self, entry: Entry) -> bool:
        """Add the entry as it is; False when there is one under that key."""
        scope = self._scopes.setdefault((entry.kind, entry.scope), {})
        new = entry.key not in scope
        scope.setdefault(entry.key, entry)
        return new

    def list_entries(
        self, kind: EntryKind, scope: str, *, after: str = "", before: str | None = None, limit: int = 1_000
    ) -> list[Entry]:
        found = self._scopes.get((kind, scope), {})
        keys = sorted(key for key in found if key > after and (before is None or key < before))
        return [found[key] for key in keys[:limit]]

    def entries(self, kind: EntryKind, scope: str, keys: Sequence[str]) -> list[Entry]:
        found = self._scopes.get((kind, scope), {})
        return [found[key] for key in sorted(set(keys)) if key in found]


class LockTable:
    """Named locks: held until they are released or expire, whichever comes first."""

    def __init__(self, clock: Clock, audits: AuditTable) -> None:
        self._clock, self._audits = clock, audits
        self._rows: dict[str, LockRow] = {}
        self._token = 0

    def lock_take(self, name: str, owner: str, ttl: float) -> LockRow | None:
        now = self._clock.now()
        if self._held(name, None, now) is not None:
            return None
        self._token += 1
        expires = now + seconds_to_micros(ttl)
        row = LockRow(name=name, owner=owner, token=self._token, acquired=now, expires=expires)
        self._rows[name] = row
        return row

    def lock_renew(self, name: str, token: int, ttl: float) -> bool:
        return self._expire_in(name, token, ttl)

    def lock_release(self, name: str, token: int | None, keep_for: float = 0.0, audit: Audit | None = None) -> bool:
        released = self._expire_in(name, token, keep_for)
        if released:
            self._audits.add(audit)
        return released

    def locks(self, first: str = "", limit: int = 1_000) -> list[LockRow]:
        held = self._held_now()
        return [held[name] for name in sorted(held) if name >= first][:limit]

    def prune(self) -> None:
        """Forget expired locks."""
        self._rows = self._held_now()

    def _held_now(self) -> dict[str, LockRow]:
        now = self._clock.now()
        return {name: row for name, row in self._rows.items() if row.expires > now}

    def _expire_in(self, name: str, token: int | None, seconds: float) -> bool:
        """Let a held lock expire so many seconds from now."""
        now = self._clock.now()
        row = self._held(name, token, now)
        if row is not None:
            self._rows[name] = replace(row, expires=now + seconds_to_micros(seconds))
        return row is not None

    def _held(self, name: str, token: int | None, now: Micros) -> LockRow | None:
        row = self._rows.get(name)
        held = row is not None and row.expires > now and token in (None, row.token)
        return row if held else None


class WorkerTable:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rows: dict[str, WorkerInfo] = {}

    def seen(self, worker: WorkerInfo) -> Micros:
        """Keep the row of this worker; when it was seen."""
        now = self._clock.now()
        self._rows[worker.id] = replace(worker, seen=now)
        return now

    def workers(self) -> list[WorkerInfo]:
        return [self._rows[id] for id in sorted(self._rows)]

    def remove_worker(self, id: str) -> None:
        self._rows.pop(id, None)

    def prune(self, silent_for: float) -> int:
        """Forget workers that were silent for so many seconds; how many."""
        oldest = self._clock.now() - seconds_to_micros(silent_for)
        silent = [worker.id for worker in self._rows.values() if worker.seen < oldest]
        for id in silent:
            del self._rows[id]
        return len(silent)
