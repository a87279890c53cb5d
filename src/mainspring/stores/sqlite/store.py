"""The SQLite store: every primitive of the `Store` port, handed to the thread that writes or to one that reads.

What the engine asks for, all day long and in small portions, and what people ask for, which may take its time, is read
by different threads: nobody's list delays a tick.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from ...core.ports import Clock, Topic, Unsubscribe
from ...model.errors import StoreError
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
from ...model.time.instants import Micros
from ..common.listeners import Listeners
from . import caller_transaction, copying, job_lists, jobs, locks_audit, migrate
from . import entries as shelf
from .executions import claim as claiming
from .executions import insert, live, pruning
from .executions import lists as finding
from .executions.claimed import ClaimedRows
from .threads import forks
from .threads.calls import Call, Work
from .threads.connect import Hurry, checked_path, checked_synchronous, connect
from .threads.connection_thread import ConnectionThread
from .threads.threads import Reader, Writer

T = TypeVar("T")


class _Opened(NamedTuple):
    writer: Writer
    reader: Reader
    lists: Reader


class SqliteStore:
    """A store in one file. Any number of processes of one machine may share it; each has a store of its own.

    `synchronous="FULL"` makes every commit survive a power cut; "NORMAL" is faster and survives crashes of the
    process only. `busy_timeout` is how long, in seconds, to wait for the write lock of another process;
    `watch_interval` how often to look for what other processes have written.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        clock: Clock,
        *,
        synchronous: str = "FULL",
        busy_timeout: float = 30.0,
        watch_interval: float = 0.2,
    ) -> None:
        self.path = checked_path(path)
        self._clock = clock
        self._synchronous = checked_synchronous(synchronous)
        self._busy_timeout = busy_timeout
        self._watch_interval = watch_interval
        self._home = os.getpid()
        self._gate = threading.Lock()
        self._opened: _Opened | None = None
        self._listeners = Listeners()
        self._ours = ClaimedRows()
        self._pruned_up_to: dict[tuple[str, frozenset[State], int], str] = {}

    # --- life ---------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        opened = self._start()
        try:
            for thread in opened:
                await asyncio.shield(asyncio.wrap_future(thread.ready))
        except Exception:
            await self._stop(opened)
            raise

    def _start(self) -> _Opened:
        self._lay_down_inherited()
        with self._gate:
            if self._opened is None:
                self._opened = self._new_threads()
                forks.watch(*self._opened)
                for thread in self._opened:
                    thread.start()
            return self._opened

    def _new_threads(self) -> _Opened:
        writer = Writer(
            "mainspring-writer",
            self.path,
            self._connect_writer,
            self._clock,
            patience=self._busy_timeout,
            watch_interval=self._watch_interval,
            listeners=self._listeners,
        )

        reader, lists = (
            Reader(name, self.path, self._connect_reader, self._clock, after=writer.ready)
            for name in ("mainspring-reader", "mainspring-lists")
        )
        return _Opened(writer, reader, lists)

    def _connect_writer(self, hurry: Hurry) -> sqlite3.Connection:
        """The writer makes the schema; those who read come after it."""
        connection = connect(self.path, self._synchronous, self._busy_timeout, hurry)
        try:
            migrate.migrate(connection, self.path, self._busy_timeout, hurry)
        except BaseException:
            connection.close()
            raise
        return connection

    def _connect_reader(self, hurry: Hurry) -> sqlite3.Connection:
        connection = connect(self.path, self._synchronous, self._busy_timeout, hurry)
        connection.execute("PRAGMA query_only = ON")
        connection.execute("PRAGMA busy_timeout = 5000")
        return connection

    async def close(self) -> None:
        self._lay_down_inherited()
        if self._opened is not None:
            await self._stop(self._opened)

    async def _stop(self, opened: _Opened) -> None:
        with self._gate:
            if self._opened is opened:
                self._opened = None
        for thread in opened:
            thread.mailbox.close()
            await asyncio.shield(asyncio.wrap_future(thread.ended))
            thread.join()

    def _lay_down_inherited(self) -> None:
        """In a forked child: the threads stayed with the parent, and so does all that belongs to them."""
        if self._home != os.getpid():
            self._home = os.getpid()
            self._opened = None
            self._gate = threading.Lock()
            self._listeners = Listeners()

    async def now(self) -> Micros:
        return self._clock.now()

    def listen(self, callback: Callable[[Topic], None]) -> Unsubscribe:
        unsubscribe = self._listeners.add(callback)
        if self._opened is not None:
            self._opened.writer.mailbox.nudge()
        return unsubscribe

    def _threads(self) -> _Opened:
        opened = self._opened
        if opened is None:
            raise StoreError(f"{self.path}: the store is not open; open it first")
        if self._home != os.getpid():
            raise StoreError(f"{self.path}: the store was opened before this process was forked; open a new one")
        return opened

    def _write(self, work: Work[T]) -> Awaitable[T]:
        return _asked(self._threads().writer, work)

    def _read(self, work: Work[T]) -> Awaitable[T]:
        """For the engine: along an index, a bounded number of rows."""
        return _asked(self._threads().reader, work)

    def _list(self, work: Work[T]) -> Awaitable[T]:
        """For people, and for whatever else may look at many rows."""
        return _asked(self._threads().lists, work)

    # --- jobs ---------------------------------------------------------------------------------------------------

    async def write_jobs(self, writes: Sequence[JobWrite]) -> list[JobWritten]:
        return await self._write(lambda tx: jobs.write_jobs(tx, writes))

    async def delete_job(self, name: str, seen_version: int, *, purge: bool, audit: Audit | None) -> bool:
        deleted = await self._write(lambda tx: jobs.delete_job(tx, name, seen_version, purge, audit))
        if deleted is not None and purge:
            await self._purge()
        return deleted is not None

    async def _purge(self) -> None:
        """In small steps, so that others can write in between; what a crash leaves is done by `fold`."""
        while await self._write(jobs.purge_some):
            pass

    async def jobs(self, names: Sequence[str] | None = None) -> list[Job]:
        read = self._list if names is None else self._read
        return await read(lambda tx: jobs.jobs(tx, names))

    async def jobs_after(self, name: str, limit: int) -> list[Job]:
        return await self._read(lambda tx: jobs.jobs_after(tx, name, limit))

    async def count_jobs(self, cap: int) -> int:
        return await self._read(lambda tx: jobs.count_jobs(tx, cap))

    async def find_jobs(self, query: JobQuery, cap: int) -> JobsFound:
        return await self._list(lambda tx: job_lists.find_jobs(tx, query, cap))

    async def due_jobs(self, limit: int) -> DuePage:
        return await self._read(lambda tx: jobs.due_jobs(tx, limit))

    async def stats(self, job_ids: Sequence[str] | None = None) -> dict[str, JobStats]:
        return await self._list(lambda tx: jobs.stats(tx, job_ids))

    async def live_counts(self, job_ids: Sequence[str] | None = None) -> dict[str, LiveCounts]:
        return await self._list(lambda tx: jobs.live_counts(tx, job_ids))

    async def swept(self, limit: int) -> list[Job]:
        return await self._read(lambda tx: jobs.swept(tx, limit))

    # --- executions ---------------------------------------------------------------------------------------------

    async def add(self, executions: Sequence[ExecutionRow], audit: Sequence[Audit] = ()) -> list[Added]:
        return await self._write(insert.Add(executions, audit))

    def add_in(self, connection: Any, executions: Iterable[ExecutionRow]) -> list[Added]:
        return caller_transaction.add_in(self.path, self._clock, connection, list(executions))

    async def exchange(self, changes: Sequence[Change], claim: ClaimRequest | None) -> Exchanged:
        return await self._write(lambda tx: claiming.exchange(tx, changes, claim, self._ours))

    async def expired(self, limit: int) -> list[ExecutionRow]:
        return await self._read(lambda tx: tx.executions("expired", tx.now, limit))

    async def request_cancel(self, requests: Sequence[CancelRequest]) -> list[bool]:
        return await self._write(lambda tx: live.request_cancel(tx, requests))

    async def cancels(self, owner: str) -> dict[str, str]:
        return await self._read(lambda tx: live.cancels(tx, owner))

    async def unserved_cancels(self, limit: int) -> list[ExecutionRow]:
        return await self._read(lambda tx: tx.executions("unserved_cancels", limit))

    def heartbeat(self, beat: HeartbeatRequest) -> HeartbeatReply:
        call = Call(lambda tx: live.heartbeat(tx, beat), None)
        self._threads().writer.mailbox.put(call, urgent=True)
        assert call.waiter is not None
        return call.waiter.result()

    async def report(self, reports: Sequence[ProgressReport]) -> list[bool]:
        return await self._write(lambda tx: live.report(tx, reports))

    async def todo(self, limit: int, after: str = "") -> list[ExecutionRow]:
        return await self._read(lambda tx: tx.executions("todo", limit, after))

    async def todo_done(self, ids: Sequence[str]) -> None:
        await self._write(lambda tx: live.todo_done(tx, ids))

    async def children(self, parent_id: str) -> dict[State, int]:
        return await self._read(lambda tx: live.children(tx, parent_id))

    async def execution(self, id: str) -> ExecutionRow | None:
        return await self._read(lambda tx: finding.execution(tx, id))

    async def find(self, query: ExecutionQuery) -> list[ExecutionRow]:
        read = self._read if finding.is_live_of_one_job(query) else self._list
        return await read(lambda tx: finding.find(tx, query))

    async def count(self, query: ExecutionQuery, cap: int) -> int:
        return await self._list(lambda tx: finding.count(tx, query, cap))

    async def logs(self, id: str, after: int = 0) -> list[tuple[int, LogLine]]:
        return await self._list(lambda tx: finding.logs(tx, id, after))

    # --- housekeeping -------------------------------------------------------------------------------------------

    async def fold(self, limit: int) -> int:
        """Statistics and numbers are exact at every commit; only interrupted purges are left to finish."""
        if await self._read(lambda tx: tx.value("purge_left")) is not None:
            await self._purge()
        return 0

    async def prune(self, rule: PruneRule, limit: int) -> int:
        """Found by the reader, deleted by the writer: finished rows never change but for their mark."""
        place = (rule.job_id, rule.states, rule.newest)
        cursor = self._pruned_up_to.pop(place, "")
        found = await self._list(lambda tx: pruning.prunable(tx, rule, cursor, limit))
        if found.cursor:
            self._pruned_up_to[place] = found.cursor
        return await self._write(lambda tx: live.delete_finished(tx, found.ids)) if found.ids else 0

    async def prune_workers(self, silent_for: float) -> int:
        return await self._write(lambda tx: pruning.workers_and_locks(tx, silent_for))

    async def workers(self) -> list[WorkerInfo]:
        return await self._list(live.workers)

    async def remove_worker(self, id: str) -> None:
        await self._write(lambda tx: tx.run("worker_remove", id))

    async def audits(self, target: str | None = None, limit: int = 100, before: str | None = None) -> list[Audit]:
        return await self._list(lambda tx: locks_audit.audits(tx, target, limit, before))

    async def prune_audits(self, before: str, limit: int) -> int:
        return await self._write(lambda tx: tx.run("audit_prune", before, max(limit, 0)))

    # --- shelf --------------------------------------------------------------------------------------------------

    async def write_entries(self, writes: Sequence[EntryWrite]) -> list[bool]:
        return await self._write(lambda tx: shelf.write_entries(tx, writes))

    async def list_entries(
        self, kind: EntryKind, scope: str, *, after: str = "", before: str | None = None, limit: int = 1_000
    ) -> list[Entry]:
        return await self._read(lambda tx: shelf.between(tx, kind, scope, after, before, limit))

    async def entries(self, kind: EntryKind, scope: str, keys: Sequence[str]) -> list[Entry]:
        return await self._read(lambda tx: shelf.entries(tx, kind, scope, keys))

    # --- moving house -------------------------------------------------------------------------------------------

    async def copy_out(self, kind: RecordKind, after: str, limit: int) -> list[Record]:
        return await self._list(lambda tx: copying.copy_out(tx, kind, after, limit))

    async def copy_in(self, kind: RecordKind, records: Sequence[Record]) -> int:
        return await self._write(lambda tx: copying.copy_in(tx, kind, records))

    # --- locks --------------------------------------------------------------------------------------------------

    async def lock_take(self, name: str, owner: str, ttl: float) -> LockRow | None:
        return await self._write(lambda tx: locks_audit.lock_take(tx, name, owner, ttl))

    async def lock_renew(self, name: str, token: int, ttl: float) -> bool:
        return await self._write(lambda tx: locks_audit.lock_renew(tx, name, token, ttl))

    async def lock_release(
        self, name: str, token: int | None, keep_for: float = 0.0, audit: Audit | None = None
    ) -> bool:
        return await self._write(lambda tx: locks_audit.lock_release(tx, name, token, keep_for, audit))

    async def locks(self) -> list[LockRow]:
        return await self._list(locks_audit.locks)


def _asked(thread: ConnectionThread, work: Work[T]) -> Awaitable[T]:
    call = Call(work, asyncio.get_running_loop())
    thread.mailbox.put(call)
    assert call.future is not None
    return call.future
