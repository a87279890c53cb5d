"""The memory store: every primitive of the `Store` port under one lock, with no await inside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from threading import RLock

from msgspec.structs import replace

from ...core.ports import Clock, Topic, Unsubscribe
from ...model.execution import ExecutionRow, State
from ...model.job import Job, JobStats, LiveCounts
from ...model.store.copy_records import Record, RecordKind
from ...model.store.entries import Entry, EntryKind, EntryWrite
from ...model.store.messages import (
    Added,
    Audit,
    CancelRequest,
    Change,
    ClaimRequest,
    DuePage,
    Exchanged,
    ExecutionQuery,
    HeartbeatReply,
    HeartbeatRequest,
    JobQuery,
    JobsFound,
    JobWrite,
    JobWritten,
    LockRow,
    LogLine,
    ProgressReport,
    PruneRule,
    WorkerInfo,
)
from ...model.time.instants import Micros, seconds_to_micros
from ..common.listeners import Listeners
from .copying import Copying
from .entries import ShelfTable
from .executions import ExecutionTable
from .job_lists import find_jobs
from .jobs import JobTable
from .locks import LockTable
from .statistics import Statistics, live_counts


class MemoryStore:
    """A complete store without a database. Several nodes may share one instance; closing it keeps the data."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = RLock()
        self._jobs = JobTable()
        self._statistics = Statistics()
        self._executions = ExecutionTable(self._statistics)
        self._locks = LockTable()
        self._shelf = ShelfTable()
        self._listeners = Listeners()
        self._workers: dict[str, WorkerInfo] = {}
        self._audits: list[Audit] = []
        self._copying = Copying(self._jobs, self._executions, self._statistics, self._audits, self._shelf)

    # --- life ---------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Nothing to connect to."""

    async def close(self) -> None:
        """Nothing to let go: other nodes may still use this store."""

    async def now(self) -> Micros:
        return self._clock.now()

    def listen(self, callback: Callable[[Topic], None]) -> Unsubscribe:
        return self._listeners.add(callback)

    # --- jobs ---------------------------------------------------------------------------------------------------

    async def write_jobs(self, writes: Sequence[JobWrite]) -> list[JobWritten]:
        with self._lock:
            written = [self._write_job(write) for write in writes]
            self._listeners.wake([Topic.JOBS])
            return written

    def _write_job(self, write: JobWrite) -> JobWritten:
        if not self._jobs.write(write):
            return JobWritten(won=False)
        self._audit(write.audit)
        return JobWritten(won=True, added=tuple(self._add(write.executions)))

    async def delete_job(self, name: str, seen_version: int, *, purge: bool, audit: Audit | None) -> bool:
        with self._lock:
            job = self._jobs.get(name)
            if job is None or job.version != seen_version:
                return False
            self._jobs.remove(name)
            self._audit(audit)
            if purge:
                self._executions.forget(self._executions.history.of_job(job.id))
                self._statistics.purge(job.id)
            self._listeners.wake([Topic.JOBS])
            return True

    async def jobs(self, names: Sequence[str] | None = None) -> list[Job]:
        with self._lock:
            wanted = None if names is None else frozenset(names)
            return [self._numbered(job) for job in self._jobs.by_name() if wanted is None or job.name in wanted]

    async def jobs_after(self, name: str, limit: int) -> list[Job]:
        with self._lock:
            return [self._numbered(job) for job in self._jobs.by_name() if job.name > name][:limit]

    async def count_jobs(self, cap: int) -> int:
        with self._lock:
            return min(cap, len(self._jobs.by_name()))

    async def find_jobs(self, query: JobQuery, cap: int) -> JobsFound:
        with self._lock:
            live = live_counts(self._executions.live, None)
            return find_jobs(query, cap, self._jobs.by_name(), self._statistics.exact(None), live)

    async def due_jobs(self, limit: int) -> DuePage:
        with self._lock:
            now = self._clock.now()
            jobs, next_due = self._jobs.due(now, limit)
            return DuePage(jobs=tuple(self._numbered(job) for job in jobs), next_due=next_due, now=now)

    async def stats(self, job_ids: Sequence[str] | None = None) -> dict[str, JobStats]:
        with self._lock:
            return self._statistics.exact(None if job_ids is None else frozenset(job_ids))

    async def live_counts(self, job_ids: Sequence[str] | None = None) -> dict[str, LiveCounts]:
        with self._lock:
            return live_counts(self._executions.live, None if job_ids is None else frozenset(job_ids))

    async def swept(self, limit: int) -> list[Job]:
        with self._lock:
            return [self._numbered(job) for job in self._jobs.by_name() if job.sweep][:limit]

    def _numbered(self, job: Job) -> Job:
        return job.with_changes(last_number=self._statistics.last_number(job.id))

    # --- executions ---------------------------------------------------------------------------------------------

    async def add(self, executions: Sequence[ExecutionRow], audit: Sequence[Audit] = ()) -> list[Added]:
        with self._lock:
            added = self._add(executions)
            if any(item.outcome in ("added", "skipped") for item in added):
                self._audit(*audit)
            return added

    def _add(self, executions: Sequence[ExecutionRow]) -> list[Added]:
        added = [self._executions.add(execution) for execution in executions]
        self._executions.live.share_out([item.id for item in added if item.outcome == "added"], self._clock.now())
        if added:
            self._listeners.wake([Topic.WORK])
        return added

    async def exchange(self, changes: Sequence[Change], claim: ClaimRequest | None) -> Exchanged:
        with self._lock:
            now = self._clock.now()
            applied = tuple(self._settle(change, now) for change in changes)
            if any(applied):
                self._listeners.wake([Topic.ENDED, Topic.WORK])
            next_due = self._executions.live.promote(now)
            if claim is None:
                return Exchanged(applied=applied, next_due=next_due, now=now)
            taken = self._executions.live.claim(claim, now)
            return Exchanged(
                applied=applied,
                claimed=tuple(taken.rows),
                blocked=tuple(taken.blocked),
                stopped=self._jobs.stopped(taken.rows),
                alone_waiting=taken.alone_waiting,
                more=taken.more,
                next_due=self._executions.live.next_due(),
                now=now,
            )

    def _settle(self, change: Change, now: Micros) -> bool:
        applied = self._executions.settle(change, now)
        if applied:
            self._audit(change.audit)
        return applied

    async def expired(self, limit: int) -> list[ExecutionRow]:
        with self._lock:
            return self._executions.expired(self._clock.now())[:limit]

    async def request_cancel(self, requests: Sequence[CancelRequest]) -> list[bool]:
        with self._lock:
            asked = [self._ask_to_stop(request) for request in requests]
            self._listeners.wake([Topic.CANCEL])
            return asked

    def _ask_to_stop(self, request: CancelRequest) -> bool:
        asked = self._executions.ask_to_stop(request)
        if asked:
            self._audit(request.audit)
        return asked

    async def cancels(self, owner: str) -> dict[str, str]:
        with self._lock:
            return self._executions.cancels(owner)

    async def unserved_cancels(self, limit: int) -> list[ExecutionRow]:
        with self._lock:
            return self._executions.unserved_cancels()[:limit]

    def heartbeat(self, beat: HeartbeatRequest) -> HeartbeatReply:
        with self._lock:
            now = self._clock.now()
            worker = beat.worker.id
            self._workers[worker] = replace(beat.worker, seen=now)
            until = now + seconds_to_micros(beat.lease)
            lost = [id for id, token in beat.leases if not self._executions.renew(id, token, worker, until)]
            return HeartbeatReply(lost=frozenset(lost), cancels=self._executions.cancels(worker), now=now)

    async def report(self, reports: Sequence[ProgressReport]) -> list[bool]:
        with self._lock:
            return [self._executions.report(report) for report in reports]

    async def todo(self, limit: int, after: str = "") -> list[ExecutionRow]:
        with self._lock:
            return self._executions.history.todo(limit, after)

    async def todo_done(self, ids: Sequence[str]) -> None:
        with self._lock:
            self._executions.todo_done(ids)

    async def children(self, parent_id: str) -> dict[State, int]:
        with self._lock:
            return self._executions.children(parent_id)

    async def execution(self, id: str) -> ExecutionRow | None:
        with self._lock:
            return self._executions.get(id)

    async def find(self, query: ExecutionQuery) -> list[ExecutionRow]:
        with self._lock:
            return list(islice(self._executions.matching(query), query.offset, query.offset + query.limit))

    async def count(self, query: ExecutionQuery, cap: int) -> int:
        with self._lock:
            return sum(1 for _ in islice(self._executions.matching(query), cap))

    async def logs(self, id: str, after: int = 0) -> list[tuple[int, LogLine]]:
        with self._lock:
            return self._executions.logs.after(id, after)

    # --- housekeeping -------------------------------------------------------------------------------------------

    async def fold(self, limit: int) -> int:
        with self._lock:
            return self._statistics.fold(limit)

    async def prune(self, rule: PruneRule, limit: int) -> int:
        with self._lock:
            ids = self._executions.history.prunable(rule, limit)
            self._executions.forget(ids)
            return len(ids)

    async def prune_workers(self, silent_for: float) -> int:
        with self._lock:
            now = self._clock.now()
            self._locks.prune(now)
            self._executions.live.limits.forget_full_buckets(now)
            oldest = now - seconds_to_micros(silent_for)
            silent = [worker.id for worker in self._workers.values() if worker.seen < oldest]
            for id in silent:
                del self._workers[id]
            return len(silent)

    async def workers(self) -> list[WorkerInfo]:
        with self._lock:
            return [self._workers[id] for id in sorted(self._workers)]

    async def remove_worker(self, id: str) -> None:
        with self._lock:
            self._workers.pop(id, None)

    async def audits(self, target: str | None = None, limit: int = 100, before: str | None = None) -> list[Audit]:
        with self._lock:
            known = [audit for audit in self._audits if before is None or audit.id < before]
            chosen = [audit for audit in known if target is None or audit.target == target]
            return sorted(chosen, key=lambda audit: audit.id, reverse=True)[:limit]

    async def prune_audits(self, before: str, limit: int) -> int:
        with self._lock:
            gone = set(sorted(audit.id for audit in self._audits if audit.id < before)[: max(limit, 0)])
            self._audits = [audit for audit in self._audits if audit.id not in gone]
            return len(gone)

    def _audit(self, *audits: Audit | None) -> None:
        self._audits.extend(audit for audit in audits if audit is not None)

    # --- shelf --------------------------------------------------------------------------------------------------

    async def write_entries(self, writes: Sequence[EntryWrite]) -> list[bool]:
        with self._lock:
            return [self._shelved(write) for write in writes]

    def _shelved(self, write: EntryWrite) -> bool:
        if not self._shelf.write(write):
            return False
        self._audit(write.audit)
        return True

    async def list_entries(
        self, kind: EntryKind, scope: str, *, after: str = "", before: str | None = None, limit: int = 1_000
    ) -> list[Entry]:
        with self._lock:
            return self._shelf.between(kind, scope, after, before, limit)

    async def entries(self, kind: EntryKind, scope: str, keys: Sequence[str]) -> list[Entry]:
        with self._lock:
            return self._shelf.get(kind, scope, keys)

    # --- moving house -------------------------------------------------------------------------------------------

    async def copy_out(self, kind: RecordKind, after: str, limit: int) -> list[Record]:
        with self._lock:
            return self._copying.out(kind, after, limit)

    async def copy_in(self, kind: RecordKind, records: Sequence[Record]) -> int:
        with self._lock:
            return self._copying.into(kind, records)

    # --- locks --------------------------------------------------------------------------------------------------

    async def lock_take(self, name: str, owner: str, ttl: float) -> LockRow | None:
        with self._lock:
            return self._locks.take(name, owner, ttl, self._clock.now())

    async def lock_renew(self, name: str, token: int, ttl: float) -> bool:
        with self._lock:
            return self._locks.expire(name, token, ttl, self._clock.now())

    async def lock_release(
        self, name: str, token: int | None, keep_for: float = 0.0, audit: Audit | None = None
    ) -> bool:
        with self._lock:
            released = self._locks.expire(name, token, keep_for, self._clock.now())
            if released:
                self._audit(audit)
            return released

    async def locks(self) -> list[LockRow]:
        with self._lock:
            return self._locks.held(self._clock.now())
