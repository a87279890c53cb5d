"""The application of a Django project: an enqueue belongs to the transaction that is open where it is called.

Inside `transaction.atomic()`, `job.sync.enqueue(...)` and `await job.enqueue(...)` store nothing that a rollback would
leave behind:

- if the store is in the database of that transaction, the execution is stored through Django's own connection: it
  exists once the transaction is committed, and a crash loses both or neither;
- otherwise it is stored by `transaction.on_commit`: a process that dies right after the commit loses it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Unpack, overload

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core import mail
from django.db import connections, transaction

from ...app.handles import BoundCall, EnqueueItem, EnqueueOptions
from ...app.mainspring import Mainspring, R
from ...app.runtime import Runtime
from ...app.sync import SyncMainspring
from ...core.commands.enqueue import Enqueuer
from ...core.declaring.handler_types import AnyHandler
from ...core.ports import Store
from ...core.views.execution import Execution
from ...model.errors import InvalidValue
from ...model.execution import ExecutionRow
from ...model.policies import Unique
from ...model.values.payload import presentable
from ...stores.memory import MemoryStore
from .configuration import Configuration


class DjangoRuntime(Runtime):
    """In a test run, a process never connects to the database of the project: what tests enqueue is kept in memory."""

    def _make_store(self) -> Store:
        if self.given_store is None and in_test_run():
            self.given_store = MemoryStore(self.clock)  # for all tests of this process
        return super()._make_store()


def in_test_run() -> bool:
    """Whether Django's test environment is set up, which adds an outbox to `mail` and a host to those allowed."""
    return hasattr(mail, "outbox") and "testserver" in settings.ALLOWED_HOSTS


class DjangoMainspring(Mainspring):
    """`Mainspring`, whose enqueue belongs to the open transaction of Django."""

    _runtime_class = DjangoRuntime

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(**configuration.arguments)
        self.configuration = configuration
        self.deferred: list[DeferredEnqueue] | None = None
        """What waits for the commit of a transaction, while a test watches."""

    @cached_property
    def sync(self) -> DjangoSync:
        """The same methods, blocking: for views, commands and threads."""
        return DjangoSync(self)

    async def enqueue(
        self,
        handler: AnyHandler,
        params: Mapping[str, Any] | None = None,
        *,
        connection: Any = None,
        **options: Unpack[EnqueueOptions],
    ) -> Execution | None:
        if connection is None and await sync_to_async(self.open_transaction)() is not None:
            return await sync_to_async(self.sync.enqueue)(handler, params, **options)
        return await super().enqueue(handler, params, connection=connection, **options)

    @overload
    async def enqueue_many(
        self, items: Iterable[BoundCall[R]], *, connection: Any = None, **options: Unpack[EnqueueOptions]
    ) -> list[Execution[R] | None]: ...
    @overload
    async def enqueue_many(
        self, items: Iterable[EnqueueItem], *, connection: Any = None, **options: Unpack[EnqueueOptions]
    ) -> list[Execution | None]: ...
    async def enqueue_many(
        self, items: Iterable[EnqueueItem], *, connection: Any = None, **options: Unpack[EnqueueOptions]
    ) -> list[Execution | None]:
        if connection is None and await sync_to_async(self.open_transaction)() is not None:
            enqueue_many: Any = self.sync.enqueue_many  # of several types
            made: list[Execution | None] = await sync_to_async(enqueue_many)(items, **options)
            return made
        return await super().enqueue_many(items, connection=connection, **options)

    def open_transaction(self) -> Any:
        """The connection of this thread that is inside `atomic()`, first of all that of the store's own database; None
        if no transaction is open."""
        inside = [each for each in connections.all(initialized_only=True) if each.in_atomic_block]
        own = [each for each in inside if each.alias == self.configuration.database]
        return next(iter([*own, *inside]), None)

    def joins(self, connection: Any) -> bool:
        """Whether this connection of Django leads to the database of the store."""
        here = self.configuration.store_is_django and connection.alias == self.configuration.database
        return here and self._runtime.given_store is None and not in_test_run()


class DjangoSync(SyncMainspring):
    """The blocking side. An explicit `connection=` is used as it is."""

    _target: DjangoMainspring

    def enqueue(
        self,
        handler: AnyHandler,
        params: Mapping[str, Any] | None = None,
        *,
        connection: Any = None,
        **options: Unpack[EnqueueOptions],
    ) -> Execution | None:
        inside = self._target.open_transaction() if connection is None else None
        if inside is not None:
            return self._enqueue_inside(inside, [(handler, params, options)], {})[0]
        if connection is not None:
            return super().enqueue(handler, params, connection=connection, **options)
        return self._caller.call(Mainspring.enqueue(self._target, handler, params, **options))

    @overload
    def enqueue_many(
        self, items: Iterable[BoundCall[R]], *, connection: Any = None, **options: Unpack[EnqueueOptions]
    ) -> list[Execution[R] | None]: ...
    @overload
    def enqueue_many(
        self, items: Iterable[EnqueueItem], *, connection: Any = None, **options: Unpack[EnqueueOptions]
    ) -> list[Execution | None]: ...
    def enqueue_many(
        self, items: Iterable[EnqueueItem], *, connection: Any = None, **options: Unpack[EnqueueOptions]
    ) -> list[Execution | None]:
        inside = self._target.open_transaction() if connection is None else None
        if inside is not None:
            return self._enqueue_inside(inside, items, options)
        if connection is not None:
            return super().enqueue_many(items, connection=connection, **options)
        return self._caller.call(Mainspring.enqueue_many(self._target, items, **options))

    def _enqueue_inside(
        self, inside: Any, items: Iterable[EnqueueItem], options: EnqueueOptions
    ) -> list[Execution | None]:
        items = list(items)
        _refuse_lasting(items, options)
        if self._target.joins(inside):
            return super().enqueue_many(items, connection=_driver_connection(inside), **options)
        enqueuer, rows = self._caller.call(self._prepared(items, options))
        DeferredEnqueue(self, inside, enqueuer, rows).wait_for_commit()
        return [Execution(row) for row in rows]

    def store(self, enqueuer: Enqueuer, rows: Sequence[ExecutionRow]) -> None:
        """Store prepared executions, outside of any transaction."""
        self._caller.call(enqueuer.add(rows))


class DeferredEnqueue:
    """Prepared executions that are stored once the open transaction is committed."""

    def __init__(self, facade: DjangoSync, connection: Any, enqueuer: Enqueuer, rows: Sequence[ExecutionRow]) -> None:
        self._facade, self._connection = facade, connection
        self.enqueuer, self.rows = enqueuer, rows
        self.stored = False

    def wait_for_commit(self) -> None:
        transaction.on_commit(self, using=self._connection.alias)
        watched = self._facade._target.deferred
        if watched is not None:
            watched.append(self)

    @property
    def waits(self) -> bool:
        """Whether it is neither stored nor rolled back: a rollback removes what waited for the commit."""
        return not self.stored and any(each is self for _, each, *_ in self._connection.run_on_commit)

    def __call__(self) -> None:
        """Called by Django after the commit."""
        if not self.stored:
            self.stored = True
            self._facade.store(self.enqueuer, self.rows)


def _driver_connection(connection: Any) -> Any:
    """What the stores take: Django's connection to PostgreSQL, but that of the driver to SQLite."""
    return connection.connection if connection.vendor == "sqlite" else connection


def _refuse_lasting(items: Sequence[EnqueueItem], options: EnqueueOptions) -> None:
    """A key that is taken for a period is claimed in a step of its own, which no transaction could take back."""
    for each in [options, *(item[2] for item in items if len(item) > 2 and item[2])]:
        unique = each.get("unique")
        if isinstance(unique, Unique) and unique.lasting:
            allowed = "keys without a period inside transaction.atomic()"
            remedy = "Enqueue after the commit: transaction.on_commit(lambda: job.options(...).sync.enqueue(...))"
            raise InvalidValue("unique", presentable(unique), allowed, remedy)
