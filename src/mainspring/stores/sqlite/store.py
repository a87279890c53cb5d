"""The SQLite store: for every primitive of the `Store` port, the thread that runs it and the function it runs."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from ...core.ports import Clock, Topic, Unsubscribe
from ...model.execution import ExecutionRow, State
from ...model.job import Job
from ...model.store.messages import (
    Added,
    Audit,
    Change,
    ClaimRequest,
    Exchanged,
    ExecutionQuery,
    HeartbeatReply,
    HeartbeatRequest,
    PruneRule,
    StorageSize,
)
from ...model.time.instants import Micros
from . import caller_transaction, copying, job_lists, small_tables
from . import jobs as job_rows
from .executions import claim as claiming
from .executions import history, insert, live
from .executions import lists as execution_lists
from .executions.usual_endings import ClaimedRows
from .statements import read_statements
from .threads.calls import ThreadCall, Work
from .threads.connection_thread import ConnectionThread
from .threads.store_threads import StoreThreads
from .transaction import Transaction

P = ParamSpec("P")
T = TypeVar("T")

Step: TypeAlias = Callable[Concatenate[Transaction, P], T]
Primitive: TypeAlias = Callable[Concatenate["SqliteStore", P], Coroutine[Any, Any, T]]


def _writes(step: Step[P, T]) -> Primitive[P, T]:
    """A primitive that runs this step in the writer's transaction."""

    async def primitive(store: SqliteStore, /, *args: P.args, **options: P.kwargs) -> T:
        return await _run(store.threads.writer(), lambda tx: step(tx, *args, **options))

    return primitive


def _reads(step: Step[P, T]) -> Primitive[P, T]:
    """A primitive that reads for the engine: along an index, a bounded number of rows."""

    async def primitive(store: SqliteStore, /, *args: P.args, **options: P.kwargs) -> T:
        return await _run(store.threads.reader(), lambda tx: step(tx, *args, **options))

    return primitive


def _lists(step: Step[P, T]) -> Primitive[P, T]:
    """A primitive that reads for people, or may look at many rows."""

    async def primitive(store: SqliteStore, /, *args: P.args, **options: P.kwargs) -> T:
        return await _run(store.threads.lists(), lambda tx: step(tx, *args, **options))

    return primitive


def _run(thread: ConnectionThread, work: Work[T]) -> Awaitable[T]:
    """The answer of this thread, as a future of the running loop."""
    call = ThreadCall(work, asyncio.get_running_loop())
    thread.mailbox.put(call)
    assert call.future is not None
    return call.future


class SqliteStore:
    """A store in one file. Any number of processes on one machine may share it; each has a store of its own.

    `synchronous="FULL"` makes every commit survive a power cut; "NORMAL" is faster and survives crashes of the
    process only. `busy_timeout` is how long, in seconds, to wait for the write lock of another process;
    `watch_interval` how often to check what other processes have written, beside the wake-ups they send. With
    `auto_migrate=False` the store only opens where `mainspring db migrate` has prepared the file.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        clock: Clock,
        *,
        synchronous: str = "FULL",
        busy_timeout: float = 30.0,
        watch_interval: float = 0.2,
        auto_migrate: bool = True,
    ) -> None:
        self._clock = clock
        self.threads = StoreThreads(
            path,
            clock,
            synchronous=synchronous,
            busy_timeout=busy_timeout,
            watch_interval=watch_interval,
            auto_migrate=auto_migrate,
        )
        self.path = self.threads.path
        self._claimed = ClaimedRows()
        self._pruned_up_to: dict[tuple[str, frozenset[State], int], str] = {}

    # --- lifecycle ----------------------------------------------------------------------------------------------

    async def open(self) -> None:
        read_statements()
        await self.threads.open()

    async def close(self) -> None:
        await self.threads.close()

    async def now(self) -> Micros:
        return self._clock.now()

    async def storage_size(self) -> StorageSize:
        """The size of the file; SQLite keeps no figures of single tables."""
        size = await _run(self.threads.lists(), small_tables.file_size)
        free, disk = await asyncio.to_thread(small_tables.disk_space, self.path)
        server = f"SQLite {sqlite3.sqlite_version}"
        return StorageSize(kind="sqlite", server=server, bytes=size, free=free, disk=disk)

    def listen(self, callback: Callable[[Topic], None]) -> Unsubscribe:
        unsubscribe = self.threads.listeners.add(callback)
        if self.threads.opened is not None:
            self.threads.opened.writer.mailbox.nudge()
        return unsubscribe

    # --- jobs ---------------------------------------------------------------------------------------------------

    write_jobs = _writes(job_rows.write_jobs)
    job_snapshots = _lists(job_rows.job_snapshots)
    jobs_after = _reads(job_rows.jobs_after)
    job_queues = _reads(job_rows.job_queues)
    count_jobs = _reads(job_rows.count_jobs)
    find_jobs = _lists(job_lists.find_jobs)
    due_jobs = _reads(job_rows.due_jobs)
    stats = _lists(job_rows.stats)
    live_counts = _lists(job_rows.live_counts)
    swept = _reads(job_rows.swept)

    async def jobs(self, names: Sequence[str] | None = None) -> list[Job]:
        thread = self.threads.lists() if names is None else self.threads.reader()
        return await _run(thread, lambda tx: job_rows.jobs(tx, names))

    async def delete_job(self, name: str, seen_version: int, *, purge: bool, audit: Audit | None) -> bool:
        deleted = await _run(
            self.threads.writer(), lambda tx: job_rows.delete_job(tx, name, seen_version, purge=purge, audit=audit)
        )
        if deleted and purge:
            await self._purge()
        return deleted

    async def _purge(self) -> None:
        """In small steps, so that others can write in between; `fold` finishes what a crash left undone."""
        while await _run(self.threads.writer(), job_rows.purge_some):
            pass

    # --- executions ---------------------------------------------------------------------------------------------

    expired = _reads(live.expired)
    request_cancel = _writes(live.request_cancel)
    cancels = _reads(live.cancels)
    unserved_cancels = _reads(live.unserved_cancels)
    report = _writes(live.report)
    todo = _reads(history.todo)
    todo_done = _writes(history.todo_done)
    children = _reads(live.children)
    last_child_ended = _reads(live.last_child_ended)
    held_keys = _lists(live.held_keys)
    execution = _reads(execution_lists.execution)
    search = _lists(execution_lists.search)
    count = _lists(execution_lists.count)
    lane_counts = _lists(execution_lists.lane_counts)
    tenant_counts = _lists(execution_lists.tenant_counts)
    newest_runs = _lists(execution_lists.newest_runs)
    logs = _lists(execution_lists.logs)

    async def add(self, executions: Sequence[ExecutionRow], audit: Sequence[Audit] = ()) -> list[Added]:
        return await _run(self.threads.writer(), insert.InsertCall(executions, audit))

    def add_in(self, connection: Any, executions: Iterable[ExecutionRow]) -> list[Added]:
        return caller_transaction.add_in(self.path, self._clock, connection, list(executions))

    async def exchange(self, changes: Sequence[Change], claim: ClaimRequest | None) -> Exchanged:
        return await _run(self.threads.writer(), lambda tx: claiming.exchange(tx, changes, claim, self._claimed))

    async def find(self, query: ExecutionQuery) -> list[ExecutionRow]:
        thread = self.threads.reader() if execution_lists.is_live_of_one_job(query) else self.threads.lists()
        return await _run(thread, lambda tx: execution_lists.find(tx, query))

    def heartbeat(self, beat: HeartbeatRequest) -> HeartbeatReply:
        call = ThreadCall(lambda tx: live.heartbeat(tx, beat), None)
        self.threads.writer().mailbox.put(call, urgent=True)
        assert call.waiter is not None
        return call.waiter.result()

    # --- housekeeping -------------------------------------------------------------------------------------------

    delete_executions = _writes(history.delete_executions)
    prune_workers = _writes(small_tables.prune_workers)
    workers = _lists(small_tables.workers)
    remove_worker = _writes(small_tables.remove_worker)
    audits = _lists(small_tables.audits)
    prune_audits = _writes(small_tables.prune_audits)

    async def fold(self, limit: int) -> int:
        """Statistics and numbers are exact at every commit; only interrupted purges are left to finish."""
        if await _run(self.threads.reader(), job_rows.has_purges):
            await self._purge()
        return 0

    async def prune(self, rule: PruneRule, limit: int) -> int:
        """A reader finds the rows and the writer deletes them: finished rows never change, except for their mark."""
        place = (rule.job_id, rule.states, rule.newest)
        cursor = self._pruned_up_to.pop(place, "")
        found = await _run(self.threads.lists(), lambda tx: history.prunable(tx, rule, cursor, limit))
        if found.cursor:
            self._pruned_up_to[place] = found.cursor
        if not found.ids:
            return 0
        return len(await _run(self.threads.writer(), lambda tx: history.delete_finished(tx, found.ids)))

    # --- entries, copies, locks ---------------------------------------------------------------------------------

    write_entries = _writes(small_tables.write_entries)
    list_entries = _reads(small_tables.list_entries)
    entries = _reads(small_tables.entries)

    copy_out = _lists(copying.copy_out)
    copy_in = _writes(copying.copy_in)

    lock_take = _writes(small_tables.lock_take)
    lock_renew = _writes(small_tables.lock_renew)
    lock_release = _writes(small_tables.lock_release)
    locks = _lists(small_tables.locks)
