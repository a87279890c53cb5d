"""The part of the application object that is about templates, and about many jobs or executions at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from ..core.commands.bulk import MOST, BulkInterrupted, BulkItem, BulkResult, Told, execution_filters, job_filter
from ..core.commands.templates import Template
from ..core.declaring.options import JobOptions
from ..core.queries.job_view import JobView
from ..core.queries.queries import id_of
from ..core.views.execution import Execution
from ..model.errors import InvalidValue, StoreError
from ..model.values.reading import whole

if TYPE_CHECKING:
    from .mainspring import Mainspring
    from .parts import Parts

T = TypeVar("T")


class FlowMethods:
    if TYPE_CHECKING:

        async def _ready(self) -> Parts: ...

    # --- templates ----------------------------------------------------------------------------------------
    async def templates(self) -> list[Template]:
        """Every template, by name."""
        return await (await self._ready()).templates.all()

    async def get_template(self, name: str) -> Template:
        return await (await self._ready()).templates.get(name)

    async def create_template(
        self, name: str, handler: str, *, by: str = "system", **options: Unpack[JobOptions]
    ) -> Template:
        """Keep a handler with options of a job under a name, for jobs to be made from it."""
        given: Mapping[str, Any] = options
        return await (await self._ready()).templates.create(name, handler, given, by=by)

    async def update_template(
        self, name: str, *, handler: str | None = None, by: str = "system", **changes: Any
    ) -> Template:
        """Change what is named and leave the rest; None takes an option out. Jobs made from it stay as they are."""
        return await (await self._ready()).templates.update(name, changes, handler=handler, by=by)

    async def remove_template(self, name: str, *, by: str = "system") -> None:
        """Jobs that were made from it stay."""
        await (await self._ready()).templates.remove(name, by=by)

    async def apply_template(
        self, template: str, name: str | None = None, *, by: str = "system", **overrides: Any
    ) -> JobView:
        """Make a job from a template, with other options where given. One that neither ticks nor comes after others
        runs once, at once."""
        return (await (await self._ready()).templates.apply(template, name, overrides, by=by))[0]

    # --- many at once -------------------------------------------------------------------------------------
    async def bulk_jobs(
        self,
        command: str,
        names: Iterable[str] | None = None,
        *,
        by: str = "system",
        note: str | None = None,
        after: str | None = None,
        limit: int | None = None,
        told: Told = lambda item: None,
        **filters: Any,
    ) -> BulkResult:
        """`pause`, `resume`, `cancel` or `retry` these jobs, or all that the filters find (status, handler, queue,
        origin, last_status, paused, orphaned, search). Each is done or refused on its own.

        `limit` ends it after so many; given the result's `next` as `after`, it goes on there. If the store fails in
        the middle, `BulkInterrupted` tells what was done, and where to go on. `told` hears of each as it is handled.
        """
        _refuse_both(names, filters)
        wanted = None if names is not None else job_filter(filters)
        chosen = None if names is None else list(names)
        bulk = (await self._ready()).bulk

        async def some(after: str | None, most: int) -> BulkResult:
            return await bulk.jobs(command, chosen, wanted, by=by, note=note, after=after, limit=most, told=told)

        return await _one_after_another(command, some, after, limit)

    async def bulk_executions(
        self,
        command: str,
        executions: Iterable[Execution | str] | None = None,
        *,
        by: str = "system",
        note: str | None = None,
        after: str | None = None,
        limit: int | None = None,
        told: Told = lambda item: None,
        **filters: Any,
    ) -> BulkResult:
        """`cancel` or `retry` these executions, or all that the filters find (job, status, tenant, trace_id, parent_id,
        trigger, since, until), newest first; `after`, `limit` and `told` as for jobs."""
        _refuse_both(executions, filters)
        wanted = None if executions is not None else execution_filters(filters)
        chosen = None if executions is None else [id_of(each) for each in executions]
        bulk = (await self._ready()).bulk

        async def some(after: str | None, most: int) -> BulkResult:
            return await bulk.executions(command, chosen, wanted, by=by, note=note, after=after, limit=most, told=told)

        return await _one_after_another(command, some, after, limit)


def _refuse_both(chosen: object, filters: Mapping[str, Any]) -> None:
    if chosen is not None and filters:
        raise InvalidValue("filter", sorted(filters), "no filter beside names or ids", "Give one or the other")


async def _one_after_another(
    command: str, some: Callable[[str | None, int], Awaitable[BulkResult]], after: str | None, limit: int | None
) -> BulkResult:
    """One bulk after the other until all are handled, or as many as are wanted. Where the store fails, the error tells
    of all that was done before."""
    left = None if limit is None else whole("limit", limit, 1, 10_000_000)
    items: list[BulkItem] = []
    while True:
        try:
            result = await some(after, MOST if left is None else min(MOST, left))
        except BulkInterrupted as error:
            told = error.result
            so_far = BulkResult(command=told.command, items=[*items, *told.items], next=told.next)
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


class SyncFlowMethods:
    """The same, blocking."""

    if TYPE_CHECKING:
        _app: Mainspring

        def _call(self, coroutine: Coroutine[Any, Any, T]) -> T: ...

    def templates(self) -> list[Template]:
        return self._call(self._app.templates())

    def get_template(self, name: str) -> Template:
        return self._call(self._app.get_template(name))

    def create_template(self, name: str, handler: str, **options: Any) -> Template:
        return self._call(self._app.create_template(name, handler, **options))

    def update_template(self, name: str, **changes: Any) -> Template:
        return self._call(self._app.update_template(name, **changes))

    def remove_template(self, name: str, *, by: str = "system") -> None:
        self._call(self._app.remove_template(name, by=by))

    def apply_template(self, template: str, name: str | None = None, **overrides: Any) -> JobView:
        return self._call(self._app.apply_template(template, name, **overrides))

    def bulk_jobs(self, command: str, names: Iterable[str] | None = None, **options: Any) -> BulkResult:
        return self._call(self._app.bulk_jobs(command, names, **options))

    def bulk_executions(
        self, command: str, executions: Iterable[Execution | str] | None = None, **options: Any
    ) -> BulkResult:
        return self._call(self._app.bulk_executions(command, executions, **options))
