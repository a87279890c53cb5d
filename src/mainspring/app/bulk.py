"""`app.bulk`: one command for many jobs or executions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Literal, TypeAlias, TypedDict, Unpack

from ..core.commands.bulk import MOST, BulkInterrupted, BulkItem, BulkResult, execution_filters, job_filter
from ..core.queries.queries import id_of
from ..core.views.execution import Execution
from ..model.errors import InvalidValue, StoreError
from ..model.values.reading import whole
from .runtime import Runtime

OnItem: TypeAlias = Callable[[BulkItem], None]


class JobFilters(TypedDict, total=False):
    """Which jobs a bulk command is for."""

    status: str | Iterable[str] | None
    handler: str | None
    queue: str | None
    origin: Literal["code", "api"] | None
    last_status: str | None
    paused: bool | None
    orphaned: bool | None
    search: str | None


class ExecutionFilters(TypedDict, total=False):
    """Which executions a bulk command is for."""

    job: str | None
    status: str | Iterable[str] | None
    tenant: str | None
    trace_id: str | None
    parent_id: str | None
    trigger: str | None
    since: Any
    until: Any


class AppBulk:
    """Commands for many jobs or executions at once. Each of them is handled or refused on its own."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def jobs(
        self,
        command: str,
        names: Iterable[str] | None = None,
        *,
        by: str = "system",
        note: str | None = None,
        after: str | None = None,
        limit: int | None = None,
        on_item: OnItem | None = None,
        **filters: Unpack[JobFilters],
    ) -> BulkResult:
        """`pause`, `resume`, `cancel` or `retry` the named jobs, or all that the filters find (status, handler, queue,
        origin, last_status, paused, orphaned, search). Each is handled or refused on its own.

        `limit` stops after so many; pass the `next` of the result as `after` to continue. If the store fails midway,
        `BulkInterrupted` carries what was done and where to continue. `on_item` is called with each result.
        """
        given: Mapping[str, Any] = filters
        _refuse_both(names, given)
        wanted = None if names is not None else job_filter(given)
        chosen = None if names is None else list(names)
        bulk, call = (await self._runtime.engine()).bulk, on_item or _ignore

        async def batch(after: str | None, most: int) -> BulkResult:
            return await bulk.jobs(command, chosen, wanted, by=by, note=note, after=after, limit=most, on_item=call)

        return await _in_batches(command, batch, after, limit)

    async def executions(
        self,
        command: str,
        executions: Iterable[Execution | str] | None = None,
        *,
        by: str = "system",
        note: str | None = None,
        after: str | None = None,
        limit: int | None = None,
        on_item: OnItem | None = None,
        **filters: Unpack[ExecutionFilters],
    ) -> BulkResult:
        """`cancel` or `retry` these executions, or all that the filters find (job, status, tenant, trace_id, parent_id,
        trigger, since, until), newest first; `after`, `limit` and `on_item` as for jobs."""
        given: Mapping[str, Any] = filters
        _refuse_both(executions, given)
        wanted = None if executions is not None else execution_filters(given)
        chosen = None if executions is None else [id_of(each) for each in executions]
        bulk, call = (await self._runtime.engine()).bulk, on_item or _ignore

        async def batch(after: str | None, most: int) -> BulkResult:
            return await bulk.executions(
                command, chosen, wanted, by=by, note=note, after=after, limit=most, on_item=call
            )

        return await _in_batches(command, batch, after, limit)


def _ignore(item: BulkItem) -> None:
    pass


def _refuse_both(chosen: object, filters: Mapping[str, Any]) -> None:
    if chosen is not None and filters:
        raise InvalidValue("filter", sorted(filters), "no filter beside names or ids", "Give one or the other")


async def _in_batches(
    command: str, batch: Callable[[str | None, int], Awaitable[BulkResult]], after: str | None, limit: int | None
) -> BulkResult:
    """Batch after batch, until all are handled or `limit` is reached. If the store fails, the error carries the results
    of every batch before it."""
    left = None if limit is None else whole("limit", limit, 1, 10_000_000)
    items: list[BulkItem] = []
    while True:
        try:
            result = await batch(after, MOST if left is None else min(MOST, left))
        except BulkInterrupted as error:
            last = error.result
            so_far = BulkResult(command=last.command, items=[*items, *last.items], next=last.next)
            raise BulkInterrupted(so_far, error.error, error.rest) from error
        except (StoreError, OSError) as error:
            if not items:
                raise
            so_far = BulkResult(command=command, items=items, next=after)
            raise BulkInterrupted(so_far, error) from error
        items += result.items
        after = result.next
        left = None if left is None else left - len(result.items)
        if after is None or left == 0:
            return BulkResult(command=result.command, items=items, next=after)
