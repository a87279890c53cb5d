"""Lists of jobs: filtered, sorted, in pages."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from typing import Any, TypeAlias

import msgspec

from ..model.errors import InvalidValue
from ..model.values import choice, whole
from .ports import Store
from .queries import MAX_OFFSET, MAX_PAGE, Queries
from .views import JobView

COUNTED = 10_000
"""Counts are exact up to here; beyond it is "10000+"."""

Total: TypeAlias = int | str
_SORTS: dict[str, Callable[[JobView], Any]] = {
    "name": lambda view: view.name,
    "status": lambda view: view.state.value,
    "handler": lambda view: view.handler,
    "next_run_at": lambda view: view.next_run_at,
    "last_run_at": lambda view: view.last_run_at,
    "created_at": lambda view: view.created_at,
    "updated_at": lambda view: view.updated_at,
}
SORTS = tuple(sign + name for name in _SORTS for sign in ("", "-"))


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs are wanted; what is None does not matter. `search` is part of a name, handler or description."""

    status: tuple[str, ...] | None = None
    handler: str | None = None
    queue: str | None = None
    origin: str | None = None
    last_status: str | None = None
    paused: bool | None = None
    orphaned: bool | None = None
    search: str | None = None

    @property
    def everything(self) -> bool:
        return self == _EVERYTHING

    def admits(self, view: JobView) -> bool:
        return (
            (self.status is None or view.state.value in self.status)
            and self.handler in (None, view.handler)
            and self.queue in (None, view.queue)
            and self.origin in (None, view.job.origin)
            and self.last_status in (None, view.last_status)
            and self.paused in (None, view.is_paused)
            and self.orphaned in (None, view.orphaned)
            and (self.search is None or _found(self.search, view))
        )


_EVERYTHING = JobFilter()


class JobPage(msgspec.Struct, frozen=True):
    """`after` is where the next page begins, when jobs are listed by name and there are more."""

    jobs: list[JobView]
    total: Total
    after: str | None = None


class JobLists:
    def __init__(self, store: Store, queries: Queries) -> None:
        self._store, self._queries = store, queries

    async def page(
        self,
        wanted: JobFilter = _EVERYTHING,
        *,
        sort: str = "name",
        limit: int = 50,
        offset: int = 0,
        after: str | None = None,
    ) -> JobPage:
        """One page. `after` takes the place of an offset when jobs are listed by name."""
        choice("sort", sort, SORTS)
        whole("limit", limit, 1, MAX_PAGE)
        whole("offset", offset, 0, MAX_OFFSET)
        if after is not None and sort != "name":
            raise InvalidValue("cursor", after, "a cursor together with sort=name", "Use offset")
        if wanted.everything and sort == "name":
            return await self._next_by_name(limit, offset, after or "")
        enough = None if sort != "name" or after is not None else max(COUNTED, offset + limit) + 1
        found = await self._matching(wanted, enough)
        total = total_of(len(found))
        found = sorted_views(found, sort) if after is None else [view for view in found if view.name > after]
        more = sort == "name" and len(found) > offset + limit
        chosen = await self._queries.with_newest(found[offset : offset + limit])
        return JobPage(chosen, total, chosen[-1].name if more and chosen else None)

    async def names(self, wanted: JobFilter, limit: int) -> list[str]:
        """The first so many jobs that are wanted, by name."""
        return [view.name for view in await self._matching(wanted, limit)][:limit]

    async def _matching(self, wanted: JobFilter, enough: int | None) -> list[JobView]:
        """By name, read page by page: others on this event loop do not wait for the end of a long list."""
        found: list[JobView] = []
        async with aclosing(self._queries.walk()) as pages:
            async for page in pages:
                found += [view for view in page if wanted.admits(view)]
                if enough is not None and len(found) >= enough:
                    break
        return found

    async def _next_by_name(self, limit: int, offset: int, after: str) -> JobPage:
        """The usual list reads no more jobs than it shows: there may be a million."""
        rows = await self._store.jobs_after(after, offset + limit + 1)
        shown = rows[offset : offset + limit]
        more = shown[-1].name if len(rows) > offset + limit and shown else None
        total = total_of(await self._store.count_jobs(COUNTED + 1))
        return JobPage(await self._queries.views(shown), total, more)


def sorted_views(views: list[JobView], sort: str) -> list[JobView]:
    """By this field; equal ones by name, and those without a value last either way."""
    key, backwards = _SORTS[sort.removeprefix("-")], sort.startswith("-")
    valued = sorted((view for view in views if key(view) is not None), key=lambda view: view.name)
    valued.sort(key=key, reverse=backwards)
    return valued + [view for view in views if key(view) is None]


def total_of(count: int) -> Total:
    return count if count <= COUNTED else f"{COUNTED}+"


def _found(text: str, view: JobView) -> bool:
    text = text.lower()
    return any(text in place.lower() for place in (view.name, view.handler, view.job.spec.description))
