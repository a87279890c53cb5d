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
    """Pass it to `app.bulk.items` as `after` to get the next page; None on the last page."""


OnItem: TypeAlias = Callable[[BulkItem], None]


class AppBulk:
    """Commands for many executions, jobs or error groups at once. Each item succeeds or is refused separately.

    `start` creates a bulk action for any number of items, which you name or which match a filter. It is stored with its
    progress and outcomes, and any node carries it out. `jobs` and `executions` handle up to 1,000 named items in the
    calling process, and return when all are done.
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
        """Start a bulk action on these items, or on all that match the filter now.

        The target "executions" has the actions `retry`, `cancel`, `edit` (with `params` and `remove`, as for
        `app.retry`; waiting executions are replaced) and `delete` (of ended executions; statistics stay). "jobs" has
        `pause`, `resume`, `cancel`, `retry` and `delete`, and "errors" has `mute` and `unmute`. `pace`, such as
        "100/s", limits how many items it handles per second. With `probe=5`, five executions run first, and the rest
        only if all five complete.
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
        """Count the items of a bulk action, and show what would happen to ten of them. Changes nothing."""
        request = BulkRequest(action, target, _ids(ids), filter, params, remove)
        return await (await self._runtime.engine()).bulk_actions.preview(request)

    async def get(self, id: str) -> BulkAction:
        """One bulk action with its progress; `BulkNotFound` if there is none of this id."""
        return bulk_view(await (await self._runtime.engine()).bulk_actions.get(id))

    async def recent(self, limit: int = 20) -> list[BulkAction]:
        """The bulk actions that have not ended, and the last `limit` that have, newest first."""
        return [bulk_view(each) for each in await (await self._runtime.engine()).bulk_actions.list(limit)]

    async def items(
        self, id: str, status: ItemStatus | None = None, limit: int = 100, after: str | None = None
    ) -> BulkItems:
        """The outcome of each item: of those `done`, `refused` or `skipped`, or of all. Pass `next` as `after` for
        more."""
        found, next = await (await self._runtime.engine()).bulk_actions.items(id, status, limit, after)
        return BulkItems(found, next)

    async def wait(self, id: str, timeout: float | None = None) -> BulkAction:
        """Wait until it has ended; `TimeoutError` after `timeout` seconds. The waiting process helps to carry it
        out."""
        return bulk_view(await (await self._runtime.engine()).bulk_actions.wait(id, timeout))

    async def abort(self, id: str, *, by: str = "system", reason: str | None = None) -> BulkAction:
        """Handle no more items. Items that are done stay as they are."""
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
        """`pause`, `resume`, `cancel` or `retry` up to 1,000 named jobs, and return when all are done. Each job
        succeeds or is refused separately.

        `on_item` is called with each outcome. If the store fails partway, `BulkInterrupted` says what was done and
        which jobs are left.
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
        """`cancel` or `retry` up to 1,000 executions; otherwise as `jobs`."""
        bulk = (await self._runtime.engine()).bulk
        return await bulk.executions(command, _ids(executions) or (), by=by, note=note, on_item=on_item or _ignore)


def _ids(ids: Iterable[Execution | str] | None) -> Iterable[str] | None:
    return ids if ids is None or isinstance(ids, str) else [id_of(each) for each in ids]


def _ignore(item: BulkItem) -> None:
    pass
