"""The memory store: every primitive of the `Store` port under one lock, with no await inside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from threading import RLock

from msgspec.structs import replace

from ...core.ports import Clock, Topic, Unsubscribe
from ...model.changes import (
    Added,
    Audit,
    Beat,
    BeatReply,
    CancelRequest,
    Change,
    ClaimRequest,
    DuePage,
    Exchanged,
    ExecutionQuery,
    JobWrite,
    JobWritten,
    LockRow,
    LogLine,
    Note,
    PruneRule,
    WorkerInfo,
)
from ...model.execution import Execution, State
from ...model.instants import Micros, seconds_to_micros
from ...model.job import Job, JobStats, LiveCounts
from ..shared import change_delta, ended_delta, fits, in_slot, lease_over, overlap_choices, settled, skipped_record
from .history import Catalogue, History, LogBook
from .jobs import JobTable
from .live import LiveTable
from .locks import LockTable
from .queries import matches
from .statistics import Statistics, live_counts
from .wakeups import Listeners


class MemoryStore:
    """A complete store without a database. Several nodes may share one instance; closing it keeps the data."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = RLock()
        self._jobs = JobTable()
        self._live = LiveTable()
        self._history = History()
        self._catalogue = Catalogue()
        self._logs = LogBook()
        self._statistics = Statistics()
        self._locks = LockTable()
        self._listeners = Listeners()
        self._workers: dict[str, WorkerInfo] = {}
        self._audits: list[Audit] = []

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
            self._listeners.tell(Topic.JOBS)
            return written

    def _write_job(self, write: JobWrite) -> JobWritten:
        if not self._jobs.write(write):
            return JobWritten(won=False)
        self._audit(write.audit)
        return JobWritten(won=True, added=tuple(self._add_all(write.executions)))

    async def delete_job(self, name: str, seen_version: int, *, purge: bool, audit: Audit | None) -> bool:
        with self._lock:
            job = self._jobs.get(name)
            if job is None or job.version != seen_version:
                return False
            self._jobs.remove(name)
            self._audit(audit)
            if purge:
                self._forget(self._history.of_job(job.id))
                self._statistics.purge(job.id)
            self._listeners.tell(Topic.JOBS)
            return True

    async def jobs(self, names: Sequence[str] | None = None) -> list[Job]:
        with self._lock:
            wanted = None if names is None else frozenset(names)
            return [self._numbered(job) for job in self._jobs.by_name() if wanted is None or job.name in wanted]

    async def jobs_after(self, name: str, limit: int) -> list[Job]:
        with self._lock:
            return [self._numbered(job) for job in self._jobs.by_name() if job.name > name][:limit]

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
            return live_counts(self._live, None if job_ids is None else frozenset(job_ids))

    async def swept(self, limit: int) -> list[Job]:
        with self._lock:
            return [self._numbered(job) for job in self._jobs.by_name() if job.sweep][:limit]

    def _numbered(self, job: Job) -> Job:
        return job.with_changes(last_number=self._statistics.last_number(job.id))

    # --- adding -------------------------------------------------------------------------------------------------

    async def add(self, executions: Sequence[Execution], audit: Sequence[Audit] = ()) -> list[Added]:
        with self._lock:
            added = self._add_all(executions)
            if any(item.outcome in ("added", "skipped") for item in added):
                self._audit(*audit)
            return added

    def _add_all(self, executions: Sequence[Execution]) -> list[Added]:
        added = [self._add(execution) for execution in executions]
        if added:
            self._listeners.tell(Topic.WORK)
        return added

    def _add(self, execution: Execution) -> Added:
        if execution.id in self._live or execution.id in self._history:
            return Added(execution.id, "duplicate")
        if execution.state.final:
            self._record(execution)
            return Added(execution.id, "added")
        holder = self._live.unique_holder(execution.unique_key)
        if holder is not None:
            return Added(execution.id, "unique_taken", holder)
        return self._add_in_free_slot(execution)

    def _add_in_free_slot(self, execution: Execution) -> Added:
        choices = overlap_choices(execution)
        free = next((key for key in choices if self._live.overlap_holder(key) is None), None)
        if choices and free is None:
            self._record(skipped_record(execution))
            return Added(execution.id, "skipped", self._live.overlap_holder(choices[0]))
        row = self._new(execution if free is None else in_slot(execution, free))
        self._live.put(row)
        return Added(execution.id, "added")

    def _record(self, execution: Execution) -> None:
        row = self._new(execution)
        self._history.add(row)
        self._statistics.note(ended_delta(row))

    def _new(self, execution: Execution) -> Execution:
        self._catalogue.add(execution)
        return replace(execution, number=self._statistics.next_number(execution.job_id))

    # --- settling and claiming ----------------------------------------------------------------------------------

    async def exchange(self, changes: Sequence[Change], claim: ClaimRequest | None) -> Exchanged:
        with self._lock:
            now = self._clock.now()
            applied = tuple(self._settle(change, now) for change in changes)
            next_due = self._live.promote(now)
            if claim is None:
                return Exchanged(applied=applied, next_due=next_due, now=now)
            taken = self._live.claim(claim, now)
            return Exchanged(
                applied=applied,
                claimed=tuple(taken.rows),
                blocked=tuple(taken.blocked),
                alone_waiting=taken.alone_waiting,
                more=taken.more,
                next_due=self._live.promote(now),
                now=now,
            )

    def _settle(self, change: Change, now: Micros) -> bool:
        row = self._live.get(change.id)
        if row is None or not fits(row, change, now):
            return False
        after = settled(row, change, now)
        self._statistics.note(change_delta(after, change))
        self._audit(change.audit)
        if not change.to.final:
            self._live.put(after)
            self._listeners.tell(Topic.WORK)
            return True
        self._live.take(row.id)
        self._live.free(row, now)
        self._finish(after, change.keep)
        return True

    def _finish(self, row: Execution, keep: bool) -> None:
        self._history.add(row, keep=keep)
        if not keep and not row.todo:
            self._forget([row.id])
        self._listeners.tell(Topic.ENDED, Topic.WORK)

    def _forget(self, ids: Iterable[str]) -> None:
        for id in ids:
            row = self._history.remove(id)
            self._catalogue.remove(row)
            self._logs.remove(id)

    async def expired(self, limit: int) -> list[Execution]:
        with self._lock:
            now = self._clock.now()
            over = [row for row in self._live.running() if lease_over(row, now)]
            return sorted(over, key=lambda row: (row.lease, row.id))[:limit]

    # --- cancelling ---------------------------------------------------------------------------------------------

    async def request_cancel(self, requests: Sequence[CancelRequest]) -> list[bool]:
        with self._lock:
            asked = [self._ask_to_stop(request) for request in requests]
            self._listeners.tell(Topic.CANCEL)
            return asked

    def _ask_to_stop(self, request: CancelRequest) -> bool:
        row = self._live.get(request.id)
        if row is None or row.state is not State.RUNNING or row.token != request.token:
            return False
        if row.cancel_requested is None:
            self._live.put(replace(row, cancel_requested=request.at, cancel_reason=request.reason))
        self._audit(request.audit)
        return True

    async def cancels(self, owner: str) -> dict[str, str]:
        with self._lock:
            return self._cancels(owner)

    def _cancels(self, owner: str) -> dict[str, str]:
        asked = (row for row in self._live.running() if row.owner == owner and row.cancel_requested is not None)
        return {row.id: row.cancel_reason or "" for row in asked}

    async def cancel_strays(self, limit: int) -> list[Execution]:
        with self._lock:
            strays = [r for r in self._live if r.cancel_requested is not None and r.state is not State.RUNNING]
            return sorted(strays, key=lambda row: row.id)[:limit]

    # --- while running ------------------------------------------------------------------------------------------

    def beat(self, beat: Beat) -> BeatReply:
        with self._lock:
            now = self._clock.now()
            self._workers[beat.worker.id] = replace(beat.worker, seen=now)
            until = now + seconds_to_micros(beat.lease)
            lost = [id for id, token in beat.leases if not self._renew(id, token, beat.worker.id, until)]
            return BeatReply(lost=frozenset(lost), cancels=self._cancels(beat.worker.id), now=now)

    def _renew(self, id: str, token: int, owner: str, until: Micros) -> bool:
        row = self._held(id, token, owner)
        if row is not None:
            self._live.put(replace(row, lease=until))
        return row is not None

    async def note(self, notes: Sequence[Note]) -> list[bool]:
        with self._lock:
            return [self._note(note) for note in notes]

    def _note(self, note: Note) -> bool:
        row = self._held(note.id, note.token, note.owner)
        if row is None:
            return False
        progress = row.progress_json if note.progress_json is None else note.progress_json
        counters = row.counters_json if note.counters_json is None else note.counters_json
        self._live.put(replace(row, progress_json=progress, counters_json=counters))
        self._logs.append(note.id, note.logs)
        return True

    def _held(self, id: str, token: int, owner: str) -> Execution | None:
        """The row, if it runs under this owner and token."""
        row = self._live.get(id)
        held = row is not None and (row.state, row.token, row.owner) == (State.RUNNING, token, owner)
        return row if held else None

    # --- finished, and reading ----------------------------------------------------------------------------------

    async def todo(self, limit: int) -> list[Execution]:
        with self._lock:
            return self._history.todo(limit)

    async def todo_done(self, ids: Sequence[str]) -> None:
        with self._lock:
            self._forget([id for id in ids if self._history.clear_todo(id)])

    async def children(self, parent_id: str) -> dict[State, int]:
        with self._lock:
            return dict(Counter(row.state for row in self._rows(self._catalogue.children(parent_id))))

    async def execution(self, id: str) -> Execution | None:
        with self._lock:
            return self._live.get(id) or self._history.get(id)

    async def find(self, query: ExecutionQuery) -> list[Execution]:
        with self._lock:
            return list(islice(self._matching(query), query.offset, query.offset + query.limit))

    async def count(self, query: ExecutionQuery, cap: int) -> int:
        with self._lock:
            return sum(1 for _ in islice(self._matching(query), cap))

    def _matching(self, query: ExecutionQuery) -> Iterator[Execution]:
        return (row for row in self._rows(self._catalogue.newest_first(query.before)) if matches(query, row))

    def _rows(self, ids: Iterable[str]) -> Iterator[Execution]:
        for id in ids:
            row = self._live.get(id) or self._history.get(id)
            if row is not None:
                yield row

    async def logs(self, id: str, after: int = 0) -> list[tuple[int, LogLine]]:
        with self._lock:
            return self._logs.after(id, after)

    # --- housekeeping -------------------------------------------------------------------------------------------

    async def fold(self, limit: int) -> int:
        with self._lock:
            return self._statistics.fold(limit)

    async def prune(self, rule: PruneRule, limit: int) -> int:
        with self._lock:
            ids = self._history.prunable(rule, limit)
            self._forget(ids)
            return len(ids)

    async def prune_workers(self, silent_for: float) -> int:
        with self._lock:
            oldest = self._clock.now() - seconds_to_micros(silent_for)
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

    async def audits(self, target: str | None = None, limit: int = 100) -> list[Audit]:
        with self._lock:
            chosen = [audit for audit in self._audits if target is None or audit.target == target]
            return sorted(chosen, key=lambda audit: audit.id, reverse=True)[:limit]

    def _audit(self, *audits: Audit | None) -> None:
        self._audits.extend(audit for audit in audits if audit is not None)

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
