"""The PostgreSQL store: every primitive of the `Store` port, each one statement to the server."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from typing import Any

from ...core.ports import Topic
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
from ..common.networked import NetworkedStore
from . import copying, locks_audit
from . import entries as shelf
from .connection import caller_transaction
from .connection.opening import Opened, Place, open_place
from .database import Database
from .executions import exchange as exchanging
from .executions import insert, lists, live
from .jobs import lists as job_lists
from .jobs import rows as jobs


class PostgresStore(NetworkedStore[Opened]):
    """A store on a PostgreSQL server, shared by any number of machines.

    `database` is an address, or a pool (psycopg, asyncpg), an engine (SQLAlchemy) or a factory of connections that the
    application owns. `schema` is where tables and functions are; `listen_url` a direct address for LISTEN when the
    rest leads through a pooler, or a pool does not say where it leads. An address may say the same in its query:
    `postgresql://host/name?schema=jobs&pool_size=10&statement_timeout=60`.
    """

    def __init__(self, database: Any, *, schema: str | None = None, listen_url: str | None = None) -> None:
        super().__init__()
        self._place = Place(database, schema, listen_url)
        self.schema = self._place.schema

    # --- life ---------------------------------------------------------------------------------------------------

    async def _connect(self, listeners: Listeners) -> Opened:
        return await open_place(self._place, listeners)

    async def now(self) -> Micros:
        return int(await self._db.value("now", repeat=True))

    @property
    def _db(self) -> Database:
        return self.opened.db

    # --- jobs ---------------------------------------------------------------------------------------------------

    async def write_jobs(self, writes: Sequence[JobWrite]) -> list[JobWritten]:
        written, topics = await jobs.write_jobs(self._db, writes)
        self.wake(topics)
        return written

    async def delete_job(self, name: str, seen_version: int, *, purge: bool, audit: Audit | None) -> bool:
        deleted = await jobs.delete_job(self._db, name, seen_version, purge, audit)
        self.wake({Topic.JOBS} if deleted else set())
        return deleted

    async def jobs(self, names: Sequence[str] | None = None) -> list[Job]:
        return await jobs.jobs(self._db, names)

    async def jobs_after(self, name: str, limit: int) -> list[Job]:
        return await jobs.jobs_after(self._db, name, limit)

    async def count_jobs(self, cap: int) -> int:
        return await jobs.count_jobs(self._db, cap)

    async def find_jobs(self, query: JobQuery, cap: int) -> JobsFound:
        return await job_lists.find_jobs(self._db, query, cap)

    async def due_jobs(self, limit: int) -> DuePage:
        return await jobs.due_jobs(self._db, limit)

    async def stats(self, job_ids: Sequence[str] | None = None) -> dict[str, JobStats]:
        return await jobs.stats(self._db, job_ids)

    async def live_counts(self, job_ids: Sequence[str] | None = None) -> dict[str, LiveCounts]:
        return await jobs.live_counts(self._db, job_ids)

    async def swept(self, limit: int) -> list[Job]:
        return await jobs.swept(self._db, limit)

    # --- executions ---------------------------------------------------------------------------------------------

    async def add(self, executions: Sequence[ExecutionRow], audit: Sequence[Audit] = ()) -> list[Added]:
        if executions and not audit and insert.all_bare(executions):
            added = await self.opened.gatherers.here().add(executions)
            self._listeners.wake([Topic.WORK])
        else:
            added = await insert.add(self._db, executions, audit)
            self.wake({Topic.WORK} if added else set())
        return added

    def add_in(self, connection: Any, executions: Iterable[ExecutionRow]) -> list[Added] | Awaitable[list[Added]]:
        return caller_transaction.add_in(self.schema, connection, list(executions))

    async def exchange(self, changes: Sequence[Change], claim: ClaimRequest | None) -> Exchanged:
        answer, topics = await exchanging.exchange(self._db, changes, claim)
        self.wake(topics)
        return answer

    async def expired(self, limit: int) -> list[ExecutionRow]:
        return await self._db.executions("expired", limit)

    async def request_cancel(self, requests: Sequence[CancelRequest]) -> list[bool]:
        asked = await live.request_cancel(self._db, requests)
        self.wake({Topic.CANCEL})
        return asked

    async def cancels(self, owner: str) -> dict[str, str]:
        return await live.cancels(self._db, owner)

    async def unserved_cancels(self, limit: int) -> list[ExecutionRow]:
        return await self._db.executions("cancel_strays", limit)

    def heartbeat(self, beat: HeartbeatRequest) -> HeartbeatReply:
        return self.opened.beats.heartbeat(beat)

    async def report(self, reports: Sequence[ProgressReport]) -> list[bool]:
        return await live.report(self._db, reports)

    async def todo(self, limit: int, after: str = "") -> list[ExecutionRow]:
        return await self._db.executions("todo", limit, after or live.BEFORE_ALL)

    async def todo_done(self, ids: Sequence[str]) -> None:
        await self._db.value("todo_done", live.ids_literal(ids), repeat=True)

    async def children(self, parent_id: str) -> dict[State, int]:
        return await live.children(self._db, parent_id)

    async def execution(self, id: str) -> ExecutionRow | None:
        return await lists.execution(self._db, id)

    async def find(self, query: ExecutionQuery) -> list[ExecutionRow]:
        return await lists.find(self._db, query)

    async def count(self, query: ExecutionQuery, cap: int) -> int:
        return await lists.count(self._db, query, cap)

    async def logs(self, id: str, after: int = 0) -> list[tuple[int, LogLine]]:
        return await lists.logs(self._db, id, after)

    # --- housekeeping -------------------------------------------------------------------------------------------

    async def fold(self, limit: int) -> int:
        await self.opened.tidying.step()
        if await self._db.value("purge_left", repeat=True) is not None:
            await jobs.purge_all(self._db)
        return int(await self._db.value("fold", limit))

    async def prune(self, rule: PruneRule, limit: int) -> int:
        return await lists.prune(self._db, rule, limit)

    async def prune_workers(self, silent_for: float) -> int:
        return int(await self._db.value("workers_prune", seconds_to_micros(silent_for)))

    async def workers(self) -> list[WorkerInfo]:
        return await live.workers(self._db)

    async def remove_worker(self, id: str) -> None:
        await self._db.value("worker_remove", id, repeat=True)

    async def audits(self, target: str | None = None, limit: int = 100, before: str | None = None) -> list[Audit]:
        return await locks_audit.audits(self._db, target, limit, before)

    async def prune_audits(self, before: str, limit: int) -> int:
        return int(await self._db.value("audits_prune", before, max(limit, 0)))

    # --- shelf --------------------------------------------------------------------------------------------------

    async def write_entries(self, writes: Sequence[EntryWrite]) -> list[bool]:
        return await shelf.write_entries(self._db, writes)

    async def list_entries(
        self, kind: EntryKind, scope: str, *, after: str = "", before: str | None = None, limit: int = 1_000
    ) -> list[Entry]:
        return await shelf.between(self._db, kind, scope, after, before, limit)

    async def entries(self, kind: EntryKind, scope: str, keys: Sequence[str]) -> list[Entry]:
        return await shelf.entries(self._db, kind, scope, keys)

    # --- moving house -------------------------------------------------------------------------------------------

    async def copy_out(self, kind: RecordKind, after: str, limit: int) -> list[Record]:
        return await copying.copy_out(self._db, kind, after, limit)

    async def copy_in(self, kind: RecordKind, records: Sequence[Record]) -> int:
        return await copying.copy_in(self._db, kind, records)

    # --- locks --------------------------------------------------------------------------------------------------

    async def lock_take(self, name: str, owner: str, ttl: float) -> LockRow | None:
        return await locks_audit.lock_take(self._db, name, owner, ttl)

    async def lock_renew(self, name: str, token: int, ttl: float) -> bool:
        return await locks_audit.lock_renew(self._db, name, token, ttl)

    async def lock_release(
        self, name: str, token: int | None, keep_for: float = 0.0, audit: Audit | None = None
    ) -> bool:
        return await locks_audit.lock_release(self._db, name, token, keep_for, audit)

    async def locks(self) -> list[LockRow]:
        return await locks_audit.locks(self._db)
