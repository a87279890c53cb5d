"""Records the starts of processes, and finds applications that share a database and declare the same jobs."""

from __future__ import annotations

from collections.abc import Mapping

from ...model.defaults import LEASE
from ...model.events import JobConflict
from ...model.store.messages import WorkerInfo
from ...model.time.instants import SECOND, Micros
from ...model.values.ids import first_id
from ..expiry import EntryExpiry
from ..loops import Emit
from ..ports import Clock, Store
from . import records
from .records import ApplicationRecord, Conflict, ProcessRecord, ReleaseSeen

TRIES = 5
MOST_RECORDS = 2_000
"""How many starts, or stops, one list reads at most."""


class Processes:
    """Reads and writes the records of starts."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def started(self, info: WorkerInfo, code: Mapping[str, str]) -> None:
        """Record this start, and its application if that is new, has a new release or other code."""
        code_hash = records.hash_of(code)
        for _ in range(TRIES):
            entry = next(iter(await self._store.entries("process", "application", [info.application])), None)
            known = None if entry is None else entry.read(ApplicationRecord)
            record = records.with_release(known, info, code_hash)
            writes = []
            if known is None or known.code != code_hash:
                writes.append(records.code_write(info.application, code))
            if record is not known:
                writes.append(records.application_write(info.application, record, entry))
            won = await self._store.write_entries([*writes, records.process_write(records.record_of(info))])
            if all(won):
                return

    async def stopped(self, info: WorkerInfo, now: Micros) -> None:
        await self._store.write_entries([records.stop_write(records.record_of(info), now)])

    async def between(self, begin: Micros, end: Micros) -> tuple[list[ProcessRecord], Micros]:
        """The processes that started and those that stopped in this range, each oldest first, and the instant from
        which the list is complete: if there are too many records, the range begins later."""
        while True:
            found = [await self._since(begin, scope) for scope in ("", "stopped")]
            if all(len(part) <= MOST_RECORDS for part in found) or end - begin < SECOND:
                return [record for part in found for record in part], begin
            begin = (begin + end) // 2

    async def _since(self, begin: Micros, scope: str) -> list[ProcessRecord]:
        """The records since this instant: more than `MOST_RECORDS` if there are too many."""
        entries = await self._store.list_entries("process", scope, after=first_id(begin), limit=MOST_RECORDS + 2)
        found = [record for entry in entries if (record := entry.read(ProcessRecord)) is not None]
        return [record for record in found if (record.stopped or record.started) >= begin]

    async def release_of(self, worker: str) -> str:
        """The release of the application that this process runs, or ran; "" if it is not known any more."""
        entry = next(iter(await self._store.entries("process", "", [worker])), None)
        record = None if entry is None else entry.read(ProcessRecord)
        return "" if record is None else record.release

    async def releases(self) -> dict[str, tuple[ReleaseSeen, ...]]:
        """The releases seen of each application, oldest first."""
        entries = await self._store.list_entries("process", "application")
        read = {entry.key: entry.read(ApplicationRecord) for entry in entries}
        return {application: record.releases for application, record in read.items() if record is not None}

    async def conflicts(self, job: str | None = None) -> list[Conflict]:
        """The jobs (or this job alone) that several running applications declare with different code. Most databases
        have one application, for which this costs one small read."""
        if len(await self._store.list_entries("process", "application", limit=2)) < 2:
            return []
        live = records.live_applications(await self._store.workers(), await self._store.now(), LEASE)
        code = await self.code_of(live) if len(live) > 1 else {}
        if job is not None:
            code = {name: {job: jobs[job]} for name, jobs in code.items() if job in jobs}
        return records.conflicts_of(code)

    async def code_of(self, applications: frozenset[str]) -> dict[str, dict[str, str]]:
        entries = await self._store.entries("process", "code", sorted(applications))
        read = {entry.key: entry.read(dict[str, str]) for entry in entries}
        return {application: jobs for application, jobs in read.items() if jobs is not None}


class ConflictWatch:
    """Warns once of each job that another running application declares with different code, even if that application
    starts later."""

    def __init__(self, store: Store, clock: Clock, emit: Emit, application: str, code: Mapping[str, str]) -> None:
        self._store, self._emit, self._application = store, emit, application
        self._processes, self._code = Processes(store), dict(code)
        self._expiries = [EntryExpiry(store, clock, "process", records.expired, scope) for scope in ("", "stopped")]
        self._seen: dict[str, int] = {}
        self._warned: set[tuple[str, str]] = set()
        self._unwarned: dict[str, list[Conflict]] = {}

    async def check(self) -> None:
        """Reads the names of the applications, and the code of those that have changed. Also removes old records."""
        for expiry in self._expiries:
            await expiry.now_and_then()
        entries = await self._store.list_entries("process", "application")
        changed = {
            entry.key: entry.version
            for entry in entries
            if entry.key != self._application and self._seen.get(entry.key) != entry.version
        }
        if changed:
            for other, code in (await self._processes.code_of(frozenset(changed))).items():
                found = records.conflicts_of({self._application: self._code, other: code})
                self._unwarned[other] = [each for each in found if (other, each.job) not in self._warned]
            self._seen |= changed
        if any(self._unwarned.values()):
            await self._warn()

    async def _warn(self) -> None:
        live = records.live_applications(await self._store.workers(), await self._store.now(), LEASE)
        for other in live & self._unwarned.keys():
            for conflict in self._unwarned.pop(other):
                handlers = {each.application: each.handler for each in conflict.declarers}
                self._emit(JobConflict(conflict.job, handlers[self._application], other, handlers[other]))
                self._warned.add((other, conflict.job))
