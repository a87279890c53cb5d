"""`app.bulk`: one command for many jobs or executions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from ..core.bulk.commands import BulkRequest
from ..core.commands.bulk import BulkItem, BulkResult, ExecutionCommand, JobCommand
from ..core.queries.queries import id_of
from ..core.views.execution import Execution
from ..core.views.records import BulkAction, bulk_view
from ..model.bulk import BulkItemRow, BulkPreview, BulkTarget, BulkVerb, ItemStatus
from ..model.values.given import Rate, Several
from .runtime import Runtime


class BulkItems(NamedTuple):
    """A page of the items of a bulk action."""

    items: list[BulkItemRow]
    """The items of this page."""
    next: str | None
    """Give it to `app.bulk.items` to read on; None at the end."""


OnItem: TypeAlias = Callable[[BulkItem], None]


class AppBulk:
    """Commands for many jobs or executions at once. Each of them is handled or refused on its own.

    `start` makes a bulk action: an object with progress and results that any node carries out, for any number of
    items, named or found by a filter. `jobs` and `executions` do the work for a few named ones in this process and
    return when it is done.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def start(
        self,
        action: BulkVerb,
        target: BulkTarget = "executions",
        ids: Iterable[Execution | str] | None = None,
        *,
        filter: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        remove: Iterable[str] = (),
        pace: Rate | None = None,
        probe: int = 0,
        note: str | None = None,
        by: str = "system",
    ) -> BulkAction:
        """Begin a bulk action on these items, or on all that the filter finds now.

        On executions: `retry`, `cancel`, `edit` (with `params` and `remove`, as in `app.retry`; executions that wait
        are replaced) and `delete` (of what has ended; statistics stay). On jobs: `pause`, `resume`, `cancel`, `retry`
        and `delete`. On error groups: `mute` and `unmute`. `pace` is the most items per second, such as
        100 or "100/s". With `probe=5`, five executions run first, and the rest only if all five complete.
        """
        request = BulkRequest(action, target, _ids(ids), filter, params, remove)
        bulk = (await self._runtime.engine()).bulk_actions
        return bulk_view(await bulk.start(request, pace=pace, probe=probe, note=note, by=by))

    async def preview(
        self,
        action: BulkVerb,
        target: BulkTarget = "executions",
        ids: Iterable[Execution | str] | None = None,
        *,
        filter: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        remove: Iterable[str] = (),
    ) -> BulkPreview:
        """What `start` would do, without doing it: how many items there are, and what would become of ten of them."""
        request = BulkRequest(action, target, _ids(ids), filter, params, remove)
        return await (await self._runtime.engine()).bulk_actions.preview(request)

    async def get(self, id: str) -> BulkAction:
        """One bulk action with its progress; `BulkNotFound` if there is none of this id."""
        return bulk_view(await (await self._runtime.engine()).bulk_actions.get(id))

    async def recent(self, limit: int = 20) -> list[BulkAction]:
        """Bulk actions that are not over, and the last ones that are, newest first."""
        return [bulk_view(each) for each in await (await self._runtime.engine()).bulk_actions.list(limit)]

    async def items(
        self, id: str, status: ItemStatus | None = None, limit: int = 100, after: str | None = None
    ) -> BulkItems:
        """What became of its items: those `done`, `refused` or `skipped`, or all. Pass `next` as `after` for more."""
        found, next = await (await self._runtime.engine()).bulk_actions.items(id, status, limit, after)
        return BulkItems(found, next)

    async def wait(self, id: str, timeout: float | None = None) -> BulkAction:
        """Wait until it is over; `TimeoutError` if it is not by then. Whoever waits helps to carry it out."""
        return bulk_view(await (await self._runtime.engine()).bulk_actions.wait(id, timeout))

    async def abort(self, id: str, *, by: str = "system", reason: str | None = None) -> BulkAction:
        """Handle no more items; what was done stays."""
        return bulk_view(await (await self._runtime.engine()).bulk_actions.abort(id, by=by, reason=reason))

    async def jobs(
        self,
        command: JobCommand,
        names: Several[str] | Iterator[str],
        *,
        by: str = "system",
        note: str | None = None,
        on_item: OnItem | None = None,
    ) -> BulkResult:
        """`pause`, `resume`, `cancel` or `retry` the named jobs, 1,000 at most, and return when that is done. Each is
        handled or refused on its own.

        If the store fails midway, `BulkInterrupted` carries what was done and which are left. `on_item` is called with
        each result.
        """
        bulk = (await self._runtime.engine()).bulk
        return await bulk.jobs(command, names, by=by, note=note, on_item=on_item or _ignore)

    async def executions(
        self,
        command: ExecutionCommand,
        executions: Iterable[Execution | str],
        *,
        by: str = "system",
        note: str | None = None,
        on_item: OnItem | None = None,
    ) -> BulkResult:
        """`cancel` or `retry` these executions, as for jobs."""
        bulk = (await self._runtime.engine()).bulk
        return await bulk.executions(command, _ids(executions) or (), by=by, note=note, on_item=on_item or _ignore)


def _ids(ids: Iterable[Execution | str] | None) -> Iterable[str] | None:
    return ids if ids is None or isinstance(ids, str) else [id_of(each) for each in ids]


def _ignore(item: BulkItem) -> None:
    pass
