"""The MongoDB store: its parts, and what it holds while it is open."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Iterable
from typing import Any

from ...model.execution import ExecutionRow
from ...model.store.messages import Added, HeartbeatReply, HeartbeatRequest, StorageSize
from ...model.time.instants import Micros
from ..common.event_loops import PerLoop
from ..common.listeners import Listeners
from ..common.networked import NetworkedStore
from . import failure_notes, schema
from .audit import Audits, move_all
from .connection.database import Database, ServerTime, Time
from .connection.source import MongoSource
from .copying import Copying
from .entries import Entries, delete_all_removed
from .executions.caller_transaction import add_in
from .executions.exchange import Exchange
from .executions.incarnations import Registering
from .executions.insert import Insert
from .executions.lists import ExecutionLists
from .executions.live import LiveExecutions
from .executions.pruning import Pruning
from .jobs.drafts import drop_abandoned
from .jobs.lists import JobLists
from .jobs.outbox import finish_left, purge_deleted_jobs
from .jobs.statistics import Statistics, fold
from .jobs.write import JobWrites
from .locks import Locks
from .wakeups import Announcer, WakeupListener
from .workers import Heartbeats, Workers

_LEFTOVERS_AT_ONCE = 100


class MongoStore(
    NetworkedStore["Connection"],
    Copying,
    JobWrites,
    JobLists,
    Statistics,
    Insert,
    Exchange,
    LiveExecutions,
    ExecutionLists,
    Pruning,
    Workers,
    Audits,
    Entries,
    Locks,
):
    """A store on MongoDB, shared by any number of machines.

    `database` is an address, or an AsyncMongoClient that the application owns; `name` is the name of the database
    there, and `prefix` the beginning of the names of our collections. An address may contain both:
    `mongodb://host:27017/name?replicaSet=rs0&prefix=jobs`. With `auto_migrate=False` the store only opens where
    `mainspring db migrate` has prepared the database.
    """

    def __init__(
        self,
        database: Any,
        *,
        prefix: str | None = None,
        name: str | None = None,
        time: Time | None = None,
        auto_migrate: bool = True,
    ) -> None:
        NetworkedStore.__init__(self)
        Registering.__init__(self)
        self._source = MongoSource(database, prefix, name, ServerTime() if time is None else time)
        self.name = self._source.name
        self._auto_migrate = auto_migrate

    async def _connect(self, listeners: Listeners) -> Connection:
        connection = Connection(self._source, listeners)
        try:
            await connection.prepare(auto_migrate=self._auto_migrate)
        except BaseException:
            await connection.close()
            raise
        return connection

    async def now(self) -> Micros:
        return await self.db.now()

    async def storage_size(self) -> StorageSize:
        return await self.db.storage_size()

    @property
    def db(self) -> Database:
        return self.opened.databases.here()

    # --- beside the event loop ----------------------------------------------------------------------------------

    def add_in(self, connection: Any, executions: Iterable[ExecutionRow]) -> list[Added] | Awaitable[list[Added]]:
        rows, transactions = list(executions), self.opened.has_transactions
        return add_in(self._source, connection, rows, self.unregistered(rows), has_transactions=transactions)

    def heartbeat(self, beat: HeartbeatRequest) -> HeartbeatReply:
        return self.opened.heartbeats.heartbeat(beat)

    # --- housekeeping -------------------------------------------------------------------------------------------

    async def fold(self, limit: int) -> int:
        """Also finishes what dead processes have left half done."""
        db = self.db
        await finish_left(db, _LEFTOVERS_AT_ONCE)
        await drop_abandoned(db, _LEFTOVERS_AT_ONCE)
        await move_all(db)
        await failure_notes.move_all(db)
        await failure_notes.forget_removed(db)
        await delete_all_removed(db)
        await purge_deleted_jobs(db)
        return await fold(db, limit)


class Connection:
    """What a store holds while it is open: a client for each event loop, heartbeats, wake-ups."""

    def __init__(self, source: MongoSource, listeners: Listeners) -> None:
        self._source = source
        self.databases = PerLoop(source.connect, source.abandon)
        self.heartbeats = Heartbeats(self.databases.here, source.name, handed_in=source.address is None)
        origin = secrets.token_hex(8)
        self.announcers = PerLoop(lambda: Announcer(self.databases.here, origin))
        self.listener = WakeupListener(self.databases.here, origin, listeners.wake)
        self.has_transactions = False

    async def prepare(self, *, auto_migrate: bool) -> None:
        """Connect, and create the indexes or check them."""
        db = self.databases.here()
        self.has_transactions = await db.has_transactions()
        await schema.prepare(db, migrates=auto_migrate)

    async def close(self) -> None:
        await asyncio.gather(self.listener.close(), self.announcers.close(lambda announcer: announcer.close()))
        await self.databases.close(self._source.close)
        self.heartbeats.close()
