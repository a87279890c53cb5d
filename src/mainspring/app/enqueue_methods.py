"""The part of the application object that makes executions: enqueue, trigger, record work that runs inline."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from ..core.commands.enqueue import Enqueuer
from ..core.declaring.context import JobContext
from ..core.views.execution import Execution, executions_of
from ..model.execution import ExecutionRow
from ..model.policies import Unique

if TYPE_CHECKING:
    from logging import Logger

    from ..observe.dispatch import Dispatcher
    from .parts import Parts


class EnqueueMethods:
    if TYPE_CHECKING:
        emit: Dispatcher
        logger: Logger | None
        resources: Any

        def _at_hand(self) -> Parts | None: ...
        async def _ready(self, in_transaction: bool = False) -> Parts: ...

    async def enqueue(
        self,
        handler: Any,
        params: Mapping[str, Any] | None = None,
        *,
        start_at: Any = None,
        priority: int | None = None,
        queue: str | None = None,
        unique: str | Unique | None = None,
        connection: Any = None,
        by: str = "system",
        traceparent: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        tenant: str | None = None,
        share: str | None = None,
    ) -> Execution | None:
        """Add one execution of a handler (function, class or name); None when the unique key is taken.

        With `connection` it is stored in the caller's own transaction, and exists once that is committed. Executions of
        several tenants take turns in their queue; `share` names who takes turns where that is not the tenant.
        """
        parts = self._at_hand() or await self._ready(connection is not None)
        row = await parts.enqueuer.enqueue(
            handler,
            params,
            connection=connection,
            start_at=start_at,
            priority=priority,
            queue=queue,
            unique=unique,
            by=by,
            traceparent=traceparent,
            metadata=metadata,
            tenant=tenant,
            share=share,
        )
        return None if row is None else Execution(row)

    async def enqueue_many(self, items: Iterable[Sequence[Any]], **options: Any) -> list[Execution | None]:
        """Add many: `[(handler, params), (handler, params, {"priority": 5}), ...]`, in that order."""
        return executions_of(await (await self._ready()).enqueuer.enqueue_many(items, **options))

    async def prepare_many(self, items: Iterable[Sequence[Any]], **options: Any) -> tuple[Enqueuer, list[ExecutionRow]]:
        """Checked and rendered, but not stored: for the facade, which stores in its caller's thread."""
        client = (await self._ready(in_transaction=True)).enqueuer
        return client, await client.prepare_many(items, **options)

    async def trigger(
        self,
        name: str,
        params: Mapping[str, Any] | None = None,
        *,
        window: tuple[Any, Any] | None = None,
        by: str = "system",
        traceparent: str | None = None,
        tenant: str | None = None,
        tenants: Iterable[str] | None = None,
    ) -> Execution:
        """Run a job now. Its next scheduled time stays as it is. With `tenants`, a job that has tenants runs for these
        only; with `tenant`, for a single one, without a parent."""
        client = (await self._ready()).enqueuer
        return Execution(
            await client.trigger(
                name, params, window=window, by=by, traceparent=traceparent, tenant=tenant, tenants=tenants
            )
        )

    @asynccontextmanager
    async def track(self, name: str, **options: Any) -> AsyncIterator[JobContext]:
        """Record work that runs inline: `async with app.track("import", triggered_by="ada") as ctx: ...`."""
        parts = await self._ready()
        async with parts.tracker(self.emit, self.resources, self.logger).track(name, **options) as context:
            yield context
