"""The part of the application object that is about windows: what became of them, and running them again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..model.backfill import Backfill, Windows

if TYPE_CHECKING:
    from .parts import Parts


class WindowMethods:
    if TYPE_CHECKING:

        async def _ready(self) -> Parts: ...

    async def windows(self, name: str, begin: Any = None, end: Any = None) -> Windows:
        """What became of every window inside [begin, end) that the job's schedule has asked for: done, failed, missing
        or running. By itself from the first that is known of the job to now."""
        return await (await self._ready()).windows.windows(name, begin, end)

    async def backfill(
        self,
        name: str,
        begin: Any = None,
        end: Any = None,
        *,
        params: Mapping[str, Any] | None = None,
        order: str = "oldest",
        concurrency: int = 1,
        pace: Any = None,
        only: str = "holes",
        force: bool = False,
        dry_run: bool = False,
        note: str | None = None,
        by: str = "system",
    ) -> Backfill:
        """Run the windows inside [begin, end) that are missing or have failed, at most `concurrency` at a time, `pace`
        apart; with `force` also those done. `only` may be "missing" or "failed". A dry run lists them and writes
        nothing. Without a range it fills all holes there are."""
        return await (await self._ready()).backfills.start(
            name,
            begin,
            end,
            params=params,
            order=order,
            concurrency=concurrency,
            pace=pace,
            only=only,
            force=force,
            dry_run=dry_run,
            note=note,
            by=by,
        )

    async def backfills(self, job: str | None = None, limit: int = 20) -> list[Backfill]:
        """Those under way, and the newest `limit` that are over, newest first."""
        return await (await self._ready()).backfills.list(job, limit)

    async def get_backfill(self, id: str) -> Backfill:
        return await (await self._ready()).backfills.get(id)

    async def wait_backfill(self, id: str, timeout: float | None = None) -> Backfill:
        """The backfill once it is over; `TimeoutError` when it is not by then."""
        return await (await self._ready()).backfills.wait(id, timeout)

    async def pause_backfill(self, id: str, *, by: str = "system") -> Backfill:
        """No more windows are started; what runs ends as usual."""
        return await (await self._ready()).backfills.pause(id, by=by)

    async def resume_backfill(self, id: str, *, by: str = "system") -> Backfill:
        return await (await self._ready()).backfills.resume(id, by=by)

    async def cancel_backfill(self, id: str, *, by: str = "system", reason: str | None = None) -> Backfill:
        """No more windows are started, and what waits or runs is cancelled."""
        return await (await self._ready()).backfills.cancel(id, by=by, reason=reason)
