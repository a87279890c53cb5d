"""The memory store: every primitive of the `Store` port under one lock, with no await inside."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from threading import RLock
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from ...core.ports import Clock, Topic, Unsubscribe
from ...model.execution import ExecutionRow
from ...model.store.messages import (
    Added,
    Audit,
    CancelRequest,
    Change,
    ClaimRequest,
    Exchanged,
    HeartbeatReply,
    HeartbeatRequest,
    JobQuery,
    JobsFound,
    JobSnapshot,
    JobWrite,
    JobWritten,
    NewestLive,
    StorageSize,
)
from ...model.time.instants import Micros
from ..common.listeners import Listeners
from ..common.rows import recorded, snapshots
from .copying import Copying
from .executions import ExecutionTable
from .job_lists import find_jobs
from .jobs import JobTable
from .small_tables import AuditTable, EntryTable, LockTable, WorkerTable
from .statistics import Statistics

P = ParamSpec("P")
T = TypeVar("T")

Primitive: TypeAlias = Callable[Concatenate["MemoryStore", P], Coroutine[Any, Any, T]]


def _of(method: Callable[[MemoryStore], Callable[P, T]]) -> Primitive[P, T]:
    """A primitive that is one method of one table."""

    async def primitive(store: MemoryStore, /, *args: P.args, **options: P.kwargs) -> T:
        with store.lock:
            return method(store)(*args, **options)

    return primitive


class MemoryStore:
    """A complete store without a database. Several nodes may share one instance; closing it keeps the data."""

    def __init__(self, clock: Clock) -> None:
        self.lock = RLock()
        self._clock = clock
        self._listeners = Listeners()
        self._audits = AuditTable()
        self._statistics = Statistics()
        self._entries = EntryTable(self._audits)
        self._executions = ExecutionTable(clock, self._statistics, self._audits, self._entries)
        self._jobs = JobTable(clock, self._statistics)
        self._locks = LockTable(clock, self._audits)
        self._workers = WorkerTable(clock)
        self._copying = Copying(self._jobs, self._executions, self._statistics, self._audits, self._entries)

    # --- lifecycle ----------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Nothing to connect to."""

    async def close(self) -> None:
        """Nothing to release: other nodes may still use this store."""

    async def now(self) -> Micros:
        return self._clock.now()

    async def storage_size(self) -> StorageSize:
        return StorageSize(kind="memory")

    def listen(self, callback: Callable[[Topic], None]) -> Unsubscribe:
        return self._listeners.add(callback)

    # --- jobs ---------------------------------------------------------------------------------------------------

    jobs = _of(lambda store: store._jobs.jobs)
    jobs_after = _of(lambda store: store._jobs.jobs_after)
    job_queues = _of(lambda store: store._jobs.job_queues)
    count_jobs = _of(lambda store: store._jobs.count_jobs)
    due_jobs = _of(lambda store: store._jobs.due_jobs)
    swept = _of(lambda store: store._jobs.swept)
    stats = _of(lambda store: store._statistics.stats)
    live_counts = _of(lambda store: store._executions.live_counts)

    async def job_snapshots(self, names: Sequence[str]) -> list[JobSnapshot]:
        with self.lock:
            jobs = self._jobs.jobs(names)
            ids = [job.id for job in jobs]
            return snapshots(jobs, self._statistics.stats(ids), self._executions.live_counts(ids), self._newest(ids))

    def _newest(self, job_ids: Sequence[str]) -> dict[str, NewestLive]:
        rows = sorted((row for row in self._executions.live if row.job_id in job_ids), key=lambda row: row.id)
        return {row.job_id: NewestLive(row.id, row.failures, row.started) for row in rows}

    async def write_jobs(self, writes: Sequence[JobWrite]) -> list[JobWritten]:
        with self.lock:
            written = [self._write_job(write) for write in writes]
            self._listeners.wake([Topic.JOBS])
            return written

    def _write_job(self, write: JobWrite) -> JobWritten:
        if not self._jobs.write(write):
            return JobWritten(won=False)
        self._audits.add(write.audit)
        return JobWritten(won=True, added=tuple(self._add(write.executions)))

    async def delete_job(self, name: str, seen_version: int, *, purge: bool, audit: Audit | None) -> bool:
        with self.lock:
            job = self._jobs.get(name)
            if job is None or job.version != seen_version:
                return False
            self._jobs.remove(name)
            self._audits.add(audit)
            if purge:
                self._executions.forget(self._executions.history.of_job(job.id))
                self._statistics.purge(job.id)
            self._listeners.wake([Topic.JOBS])
            return True

    async def find_jobs(self, query: JobQuery, cap: int) -> JobsFound:
        with self.lock:
            jobs, stats, live = self._jobs.jobs(), self._statistics.stats(), self._executions.live_counts()
            return find_jobs(query, cap, jobs, stats, live)

    # --- executions ---------------------------------------------------------------------------------------------

    expired = _of(lambda store: store._executions.expired)
    cancels = _of(lambda store: store._executions.cancels)
    unserved_cancels = _of(lambda store: store._executions.unserved_cancels)
    report = _of(lambda store: store._executions.report)
    todo = _of(lambda store: store._executions.history.todo)
    todo_done = _of(lambda store: store._executions.todo_done)
    children = _of(lambda store: store._executions.children)
    last_child_ended = _of(lambda store: store._executions.last_child_ended)
    held_keys = _of(lambda store: store._executions.held_keys)
    execution = _of(lambda store: store._executions.execution)
    find = _of(lambda store: store._executions.find)
    search = _of(lambda store: store._executions.search)
    lane_counts = _of(lambda store: store._executions.lane_counts)
    tenant_counts = _of(lambda store: store._executions.tenant_counts)
    newest_runs = _of(lambda store: store._executions.newest_runs)
    count = _of(lambda store: store._executions.count)
    logs = _of(lambda store: store._executions.logs)

    async def add(self, executions: Sequence[ExecutionRow], audit: Sequence[Audit] = ()) -> list[Added]:
        with self.lock:
            added = self._add(executions)
            self._audits.add(*recorded(audit, added))
            return added

    def _add(self, executions: Sequence[ExecutionRow]) -> list[Added]:
        added = self._executions.add(executions)
        if added:
            self._listeners.wake([Topic.WORK])
        return added

    async def exchange(self, changes: Sequence[Change], claim: ClaimRequest | None) -> Exchanged:
        with self.lock:
            now, live = self._clock.now(), self._executions.live
            applied = tuple(self._executions.settle(change, now) for change in changes)
            if any(applied):
                self._listeners.wake([Topic.ENDED, Topic.WORK])
            next_due = live.promote(now)
            if claim is None:
                return Exchanged(applied=applied, next_due=next_due, now=now)
            taken = live.claim(claim, now)
            return Exchanged(
                applied=applied,
                claimed=tuple(taken.rows),
                blocked=tuple(taken.blocked),
                stopped=self._jobs.stopped(taken.rows),
                alone_waiting=taken.alone_waiting,
                more=taken.more,
                next_due=live.next_due(),
                now=now,
            )

    async def request_cancel(self, requests: Sequence[CancelRequest]) -> list[bool]:
        with self.lock:
            asked = self._executions.request_cancel(requests)
            self._listeners.wake([Topic.CANCEL])
            return asked

    def heartbeat(self, beat: HeartbeatRequest) -> HeartbeatReply:
        with self.lock:
            now = self._workers.seen(beat.worker)
            lost = self._executions.renew(beat, now)
            return HeartbeatReply(lost=lost, cancels=self._executions.cancels(beat.worker.id), now=now)

    # --- housekeeping -------------------------------------------------------------------------------------------

    fold = _of(lambda store: store._statistics.fold)
    prune = _of(lambda store: store._executions.prune)
    delete_executions = _of(lambda store: store._executions.delete_executions)
    workers = _of(lambda store: store._workers.workers)
    remove_worker = _of(lambda store: store._workers.remove_worker)
    audits = _of(lambda store: store._audits.audits)
    prune_audits = _of(lambda store: store._audits.prune_audits)

    async def prune_workers(self, silent_for: float) -> int:
        with self.lock:
            self._locks.prune()
            self._executions.live.limits.forget_full_buckets(self._clock.now())
            return self._workers.prune(silent_for)

    # --- entries, copies, locks ---------------------------------------------------------------------------------

    write_entries = _of(lambda store: store._entries.write_entries)
    list_entries = _of(lambda store: store._entries.list_entries)
    entries = _of(lambda store: store._entries.entries)

    copy_out = _of(lambda store: store._copying.copy_out)
    copy_in = _of(lambda store: store._copying.copy_in)

    lock_take = _of(lambda store: store._locks.lock_take)
    lock_renew = _of(lambda store: store._locks.lock_renew)
    lock_release = _of(lambda store: store._locks.lock_release)
    locks = _of(lambda store: store._locks.locks)
