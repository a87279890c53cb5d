"""The PostgreSQL store: for every primitive of the `Store` port the function that runs it, one statement each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from ...core.ports import Topic
from ...model.execution import ExecutionRow
from ...model.store.messages import (
    Added,
    Audit,
    HeartbeatReply,
    HeartbeatRequest,
)
from ...model.time.instants import Micros
from ..common.listeners import Listeners
from ..common.networked import NetworkedStore
from . import copying, small_tables
from .connection import caller_transaction
from .connection.opening import Endpoint, Opened, open_endpoint
from .database import Database
from .executions import exchange as exchanging
from .executions import insert, live
from .executions import lists as execution_lists
from .jobs import lists as job_lists
from .jobs import rows as job_rows

P = ParamSpec("P")
T = TypeVar("T")

Step: TypeAlias = Callable[Concatenate[Database, P], Awaitable[T]]
Primitive: TypeAlias = Callable[Concatenate["PostgresStore", P], Coroutine[Any, Any, T]]


def _runs(step: Step[P, T]) -> Primitive[P, T]:
    async def primitive(store: PostgresStore, /, *args: P.args, **options: P.kwargs) -> T:
        return await step(store.database, *args, **options)

    return primitive


def _announces(step: Step[P, tuple[T, set[Topic]]]) -> Primitive[P, T]:
    """A primitive whose step returns, beside the answer, the topics that listeners are woken for."""

    async def primitive(store: PostgresStore, /, *args: P.args, **options: P.kwargs) -> T:
        answer, topics = await step(store.database, *args, **options)
        store.wake(topics)
        return answer

    return primitive


class PostgresStore(NetworkedStore[Opened]):
    """A store on a PostgreSQL server, shared by any number of machines.

    `database` is an address, or a pool (psycopg, asyncpg), an engine (SQLAlchemy) or a factory of connections that the
    application owns. `schema` is where tables and functions are; `listen_url` a direct address for LISTEN when the
    other one leads through a pooler, or when a pool does not give its address. An address may set the same options:
    `postgresql://host/name?schema=jobs&pool_size=10&statement_timeout=60`. With `auto_migrate=False` the
    store only opens where `mainspring db migrate` has prepared the database.
    """

    def __init__(
        self, database: Any, *, schema: str | None = None, listen_url: str | None = None, auto_migrate: bool = True
    ) -> None:
        super().__init__()
        self._endpoint = Endpoint(database, schema, listen_url)
        self.schema = self._endpoint.schema
        self._auto_migrate = auto_migrate

    async def _connect(self, listeners: Listeners) -> Opened:
        return await open_endpoint(self._endpoint, listeners, auto_migrate=self._auto_migrate)

    async def now(self) -> Micros:
        return int(await self.database.value("now", repeat=True))

    storage_size = _runs(small_tables.storage_size)

    @property
    def database(self) -> Database:
        return self.opened.db

    # --- jobs ---------------------------------------------------------------------------------------------------

    write_jobs = _announces(job_rows.write_jobs)
    delete_job = _announces(job_rows.delete_job)
    jobs = _runs(job_rows.jobs)
    job_snapshots = _runs(job_rows.job_snapshots)
    jobs_after = _runs(job_rows.jobs_after)
    job_queues = _runs(job_rows.job_queues)
    count_jobs = _runs(job_rows.count_jobs)
    find_jobs = _runs(job_lists.find_jobs)
    due_jobs = _runs(job_rows.due_jobs)
    stats = _runs(job_rows.stats)
    live_counts = _runs(job_rows.live_counts)
    swept = _runs(job_rows.swept)

    # --- executions ---------------------------------------------------------------------------------------------

    async def add(self, executions: Sequence[ExecutionRow], audit: Sequence[Audit] = ()) -> list[Added]:
        if executions and not audit and insert.all_fresh(executions):
            added = await self.opened.batchers.here().insert(executions)
            self._listeners.wake([Topic.WORK])
        else:
            added = await insert.insert_rows(self.database, executions, audit)
            self.wake({Topic.WORK} if added else set())
        return added

    def add_in(self, connection: Any, executions: Iterable[ExecutionRow]) -> list[Added] | Awaitable[list[Added]]:
        return caller_transaction.add_in(self.schema, connection, list(executions))

    def heartbeat(self, beat: HeartbeatRequest) -> HeartbeatReply:
        return self.opened.heartbeats.heartbeat(beat)

    exchange = _announces(exchanging.exchange)
    expired = _runs(live.expired)
    request_cancel = _announces(live.request_cancel)
    cancels = _runs(live.cancels)
    unserved_cancels = _runs(live.unserved_cancels)
    report = _runs(live.report)
    todo = _runs(live.todo)
    todo_done = _runs(live.todo_done)
    children = _runs(live.children)
    last_child_ended = _runs(live.last_child_ended)
    held_keys = _runs(live.held_keys)
    execution = _runs(execution_lists.execution)
    find = _runs(execution_lists.find)
    search = _runs(execution_lists.search)
    lane_counts = _runs(execution_lists.lane_counts)
    tenant_counts = _runs(execution_lists.tenant_counts)
    newest_runs = _runs(execution_lists.newest_runs)
    count = _runs(execution_lists.count)
    logs = _runs(execution_lists.logs)
    prune = _runs(execution_lists.prune)
    delete_executions = _runs(live.delete_executions)
    workers = _runs(live.workers)
    remove_worker = _runs(live.remove_worker)
    prune_workers = _runs(live.prune_workers)

    async def fold(self, limit: int) -> int:
        await self.opened.maintenance.step()
        return await job_rows.fold(self.database, limit)

    # --- locks, audit, entries, copies --------------------------------------------------------------------------

    lock_take = _runs(small_tables.lock_take)
    lock_renew = _runs(small_tables.lock_renew)
    lock_release = _runs(small_tables.lock_release)
    locks = _runs(small_tables.locks)
    audits = _runs(small_tables.audits)
    prune_audits = _runs(small_tables.prune_audits)
    write_entries = _runs(small_tables.write_entries)
    list_entries = _runs(small_tables.list_entries)
    entries = _runs(small_tables.entries)
    copy_out = _runs(copying.copy_out)
    copy_in = _runs(copying.copy_in)
