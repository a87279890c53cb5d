"""The part of the application object that is about templates, and about many jobs or executions at once."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from .core.bulk import BulkResult, execution_filters, job_filter
from .core.declare import JobOptions
from .core.queries import id_of
from .core.templates import Template
from .core.views import JobView
from .model.execution import Execution

if TYPE_CHECKING:
    from .app import Mainspring
    from .assembly import Parts

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
        **filters: Any,
    ) -> BulkResult:
        """`pause`, `resume`, `cancel` or `retry` these jobs, or those that the filters find (status, handler, queue,
        origin, last_status, paused, orphaned, search); at most 1,000. Each is done or refused on its own."""
        wanted = None if names is not None else job_filter(filters)
        chosen = None if names is None else list(names)
        return await (await self._ready()).bulk.jobs(command, chosen, wanted, by=by, note=note)

    async def bulk_executions(
        self,
        command: str,
        executions: Iterable[Execution | str] | None = None,
        *,
        by: str = "system",
        note: str | None = None,
        **filters: Any,
    ) -> BulkResult:
        """`cancel` or `retry` these executions, or those that the filters of `executions` find; at most 1,000."""
        wanted = None if executions is not None else execution_filters(filters)
        chosen = None if executions is None else [id_of(each) for each in executions]
        return await (await self._ready()).bulk.executions(command, chosen, wanted, by=by, note=note)


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
