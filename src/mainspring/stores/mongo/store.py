"""The MongoDB store: every primitive of the `Store` port."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from pymongo.errors import PyMongoError

from ...core.ports import Topic, Unsubscribe
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
from . import audit as auditing
from . import copying, pruning
from . import entries as shelf
from . import locks as locking
from .connection import caller_transaction
from .connection.clock import ServerTime, Time
from .connection.database import Database, explained
from .connection.opening import Opened, Source, open_source
from .executions import exchange as exchanging
from .executions import insert, lists, live, pending_ticks
from .jobs import documents, statistics
from .jobs import lists as job_lists
from .jobs import write as writing

P = ParamSpec("P")
R = TypeVar("R")

_LEFTOVERS_AT_ONCE = 100


def told(
    method: Callable[Concatenate[MongoStore, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[MongoStore, P], Coroutine[Any, Any, R]]:
    """What the driver raises is told in our own words."""

    @wraps(method)
    async def call(self: MongoStore, /, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return await method(self, *args, **kwargs)
        except PyMongoError as error:
            raise explained(error, self._source.name) from error

    return call


class MongoStore:
    """A store on MongoDB, shared by any number of machines.

    `database` is an address, or an AsyncMongoClient that the application owns; `name` is the name of the database
    there, and `prefix` how the names of our collections begin. An address may say both:
    `mongodb://host:27017/name?replicaSet=rs0&prefix=jobs`.
    """

    def __init__(
        self, database: Any, *, prefix: str | None = None, name: str | None = None, time: Time | None = None
    ) -> None:
        self._time = ServerTime() if time is None else time
        self._source = Source(database, prefix, name, self._time)
        self._listeners = Listeners()
        self._opened: Opened | None = None

    # --- life ---------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        if self._opened is not None:
            return
        opened = await open_source(self._source, self._time, self._listeners)
        if self._opened is None:
            self._opened = opened
        else:  # somebody was faster
            await opened.close()

    async def close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.close()

    @told
    async def now(self) -> Micros:
        return await self._db.now()

    def listen(self, callback: Callable[[Topic], None]) -> Unsubscribe:
        self._open_parts.ear.start()
        return self._listeners.add(callback)

    @property
    def hears(self) -> bool:
        """Whether wake-ups of other processes are known to come in."""
        return self._opened is not None and self._opened.ear.hears

    @property
    def _open_parts(self) -> Opened:
        if self._opened is None:
            raise StoreError("the store is not open; call `await store.open()` first")
        return self._opened

    @property
    def _db(self) -> Database:
        return self._open_parts.db

    def _tell(self, topics: set[Topic]) -> None:
        """Here at once, elsewhere very soon."""
        if topics:
            self._listeners.wake(topics)
            self._open_parts.announcers.here().announce(topics)

    # --- jobs ---------------------------------------------------------------------------------------------------

    @told
    async def write_jobs(self, writes: Sequence[JobWrite]) -> list[JobWritten]:
        parts = self._open_parts
        await parts.incarnations.know_jobs(parts.db, {write.job.id: write.job.name for write in writes})
        await parts.incarnations.know(parts.db, [e for write in writes for e in write.executions])
        written = await writing.write_jobs(parts.db, writes)
        topics = {Topic.JOBS} if any(one.won for one in written) else set()
        self._tell(topics | {Topic.WORK} if any(one.added for one in written) else topics)
        return written

    @told
    async def delete_job(self, name: str, seen_version: int, *, purge: bool, audit: Audit | None) -> bool:
        deleted = await documents.delete_job(self._db, name, seen_version, purge, audit)
        if deleted and purge:
            await pruning.purge_all(self._db)
        self._tell({Topic.JOBS} if deleted else set())
        return deleted

    @told
    async def jobs(self, names: Sequence[str] | None = None) -> list[Job]:
        return await documents.jobs(self._db, names)

    @told
    async def jobs_after(self, name: str, limit: int) -> list[Job]:
        return await documents.jobs_after(self._db, name, limit)

    @told
    async def count_jobs(self, cap: int) -> int:
        return await documents.count_jobs(self._db, cap)

    async def find_jobs(self, query: JobQuery, cap: int) -> JobsFound:
        return await job_lists.find_jobs(self._db, query, cap)

    async def due_jobs(self, limit: int) -> DuePage:
        return await documents.due_jobs(self._db, limit)

    @told
    async def stats(self, job_ids: Sequence[str] | None = None) -> dict[str, JobStats]:
        return await statistics.stats(self._db, job_ids)

    @told
    async def live_counts(self, job_ids: Sequence[str] | None = None) -> dict[str, LiveCounts]:
        return await statistics.live_counts(self._db, job_ids)

    @told
    async def swept(self, limit: int) -> list[Job]:
        return await documents.swept(self._db, limit)

    # --- executions ---------------------------------------------------------------------------------------------

    @told
    async def add(self, executions: Sequence[ExecutionRow], audit: Sequence[Audit] = ()) -> list[Added]:
        parts = self._open_parts
        await parts.incarnations.know(parts.db, executions)
        added = await insert.add(parts.db, executions, audit)
        self._tell({Topic.WORK} if added else set())
        return added

    def add_in(self, connection: Any, executions: Iterable[ExecutionRow]) -> list[Added] | Awaitable[list[Added]]:
        parts, rows = self._open_parts, list(executions)
        return caller_transaction.add_in(parts.place, connection, rows, parts.incarnations.unknown(rows))

    @told
    async def exchange(self, changes: Sequence[Change], claim: ClaimRequest | None) -> Exchanged:
        answer, topics = await exchanging.exchange(self._db, changes, claim)
        self._tell(topics)
        return answer

    @told
    async def expired(self, limit: int) -> list[ExecutionRow]:
        return await live.expired(self._db, limit)

    @told
    async def request_cancel(self, requests: Sequence[CancelRequest]) -> list[bool]:
        asked = await live.request_cancel(self._db, requests)
        self._tell({Topic.CANCEL})
        return asked

    @told
    async def cancels(self, owner: str) -> dict[str, str]:
        return await live.cancels(self._db, owner)

    @told
    async def unserved_cancels(self, limit: int) -> list[ExecutionRow]:
        return await live.unserved_cancels(self._db, limit)

    def heartbeat(self, beat: HeartbeatRequest) -> HeartbeatReply:
        return self._open_parts.beats.heartbeat(beat)

    @told
    async def report(self, reports: Sequence[ProgressReport]) -> list[bool]:
        return await live.report(self._db, reports)

    @told
    async def todo(self, limit: int, after: str = "") -> list[ExecutionRow]:
        return await live.todo(self._db, limit, after)

    @told
    async def todo_done(self, ids: Sequence[str]) -> None:
        await pruning.todo_done(self._db, ids)

    @told
    async def children(self, parent_id: str) -> dict[State, int]:
        return await live.children(self._db, parent_id)

    @told
    async def execution(self, id: str) -> ExecutionRow | None:
        return await lists.execution(self._db, id)

    @told
    async def find(self, query: ExecutionQuery) -> list[ExecutionRow]:
        return await lists.find(self._db, query)

    @told
    async def count(self, query: ExecutionQuery, cap: int) -> int:
        return await lists.count(self._db, query, cap)

    @told
    async def logs(self, id: str, after: int = 0) -> list[tuple[int, LogLine]]:
        return await lists.logs(self._db, id, after)

    # --- housekeeping -------------------------------------------------------------------------------------------

    @told
    async def fold(self, limit: int) -> int:
        """Also what processes that died have left half done."""
        parts = self._open_parts
        await parts.leftovers.finish(parts.db, _LEFTOVERS_AT_ONCE)
        await pending_ticks.forget_old_embryos(parts.db, _LEFTOVERS_AT_ONCE)
        await auditing.move_all(parts.db)
        await shelf.forget_all_removed(parts.db)
        await pruning.purge_all(parts.db)
        return await statistics.fold(parts.db, limit)

    @told
    async def prune(self, rule: PruneRule, limit: int) -> int:
        return await pruning.prune(self._db, rule, limit)

    @told
    async def prune_workers(self, silent_for: float) -> int:
        return await live.prune_workers(self._db, silent_for)

    @told
    async def workers(self) -> list[WorkerInfo]:
        return await live.workers(self._db)

    @told
    async def remove_worker(self, id: str) -> None:
        await live.remove_worker(self._db, id)

    @told
    async def audits(self, target: str | None = None, limit: int = 100, before: str | None = None) -> list[Audit]:
        return await auditing.audits(self._db, target, limit, before)

    @told
    async def prune_audits(self, before: str, limit: int) -> int:
        return await auditing.prune(self._db, before, limit)

    # --- shelf --------------------------------------------------------------------------------------------------

    @told
    async def write_entries(self, writes: Sequence[EntryWrite]) -> list[bool]:
        return await shelf.write_entries(self._db, writes)

    @told
    async def list_entries(
        self, kind: EntryKind, scope: str, *, after: str = "", before: str | None = None, limit: int = 1_000
    ) -> list[Entry]:
        return await shelf.between(self._db, kind, scope, after, before, limit)

    @told
    async def entries(self, kind: EntryKind, scope: str, keys: Sequence[str]) -> list[Entry]:
        return await shelf.entries(self._db, kind, scope, keys)

    # --- moving house -------------------------------------------------------------------------------------------

    @told
    async def copy_out(self, kind: RecordKind, after: str, limit: int) -> list[Record]:
        return await copying.copy_out(self._db, kind, after, limit)

    @told
    async def copy_in(self, kind: RecordKind, records: Sequence[Record]) -> int:
        return await copying.copy_in(self._db, kind, records)

    # --- locks --------------------------------------------------------------------------------------------------

    @told
    async def lock_take(self, name: str, owner: str, ttl: float) -> LockRow | None:
        return await locking.lock_take(self._db, name, owner, ttl)

    @told
    async def lock_renew(self, name: str, token: int, ttl: float) -> bool:
        return await locking.lock_renew(self._db, name, token, ttl)

    @told
    async def lock_release(
        self, name: str, token: int | None, keep_for: float = 0.0, audit: Audit | None = None
    ) -> bool:
        return await locking.lock_release(self._db, name, token, keep_for, audit)

    @told
    async def locks(self) -> list[LockRow]:
        return await locking.locks(self._db)
