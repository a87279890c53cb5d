"""`app.errors`: error groups."""

from __future__ import annotations

from ..core.errors.commands import ErrorGroupView, ErrorOrder, failed_with
from ..core.views.records import BulkAction
from ..model.values.given import Rate, When
from ..model.values.reading import whole
from .bulk import AppBulk
from .runtime import Runtime

MOST = 1_000


class AppErrors:
    """Error groups: failed attempts with the same type of exception, the same place in your code, and the same message
    apart from numbers, ids and quoted text."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def all(
        self,
        *,
        job: str | None = None,
        tenant: str | None = None,
        since: When | None = None,
        muted: bool | None = None,
        sort: ErrorOrder = "last_seen",
        limit: int = 100,
        offset: int = 0,
    ) -> list[ErrorGroupView]:
        """The error groups that match every given argument. They are sorted by when they were last seen; `sort` can
        also be "count" or "first_seen". New failures are counted within seconds, while a node is running."""
        whole("limit", limit, 1, MOST)
        whole("offset", offset, 0, 1_000_000)
        groups = (await self._runtime.engine()).errors
        page = await groups.find(
            job=job, tenant=tenant, since=since, muted=muted, sort=sort, limit=limit, offset=offset
        )
        return page.items

    async def get(self, id: str) -> ErrorGroupView:
        """One group with a sample traceback; `ErrorGroupNotFound` if there is none of this id."""
        return await (await self._runtime.engine()).errors.get(id)

    async def mute(self, id: str, *, note: str = "", until: When | None = None, by: str = "system") -> ErrorGroupView:
        """Fire no alerts for this group until the given time, or until the error changes: until it occurs in a job or a
        release in which it had not occurred before."""
        return await (await self._runtime.engine()).errors.mute(id, note=note, until=until, by=by)

    async def unmute(self, id: str, *, by: str = "system") -> ErrorGroupView:
        """Let this group fire alerts again."""
        return await (await self._runtime.engine()).errors.unmute(id, by=by)

    async def retry(
        self,
        id: str,
        *,
        pace: Rate | None = None,
        probe: int = 0,
        note: str | None = None,
        by: str = "system",
    ) -> BulkAction:
        """Retry the executions that failed with this error, newest first, as a bulk action: see `app.bulk.start`. With
        `probe=5`, five run first, and the rest only if all five complete."""
        await self.get(id)
        filter = failed_with(id)
        return await AppBulk(self._runtime).start("retry", filter=filter, pace=pace, probe=probe, note=note, by=by)
