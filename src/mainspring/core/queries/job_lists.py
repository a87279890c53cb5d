"""Lists of jobs: filtered, sorted, in pages. The store finds them by facts that are worked out here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

import msgspec
from msgspec.structs import replace

from ...model.errors import InvalidValue
from ...model.job import JobState
from ...model.store.messages import JobOrder, JobQuery, JobsFound
from ...model.values.reading import choice, whole
from ..filters.jobs import JobFilter, job_query
from ..ports import Store
from ..views.job import JobView
from .execution_lists import COUNTED, MAX_OFFSET, MAX_PAGE, Total, total_of
from .queries import Queries

_ORDERS: dict[str, JobOrder] = {
    "name": "name",
    "handler": "handler",
    "next_run_at": "next_run",
    "last_run_at": "last_started",
    "created_at": "created",
    "updated_at": "updated",
}
JobSort: TypeAlias = Literal[
    "name", "status", "handler", "next_run_at", "last_run_at", "created_at", "updated_at",
    "-name", "-status", "-handler", "-next_run_at", "-last_run_at", "-created_at", "-updated_at",
]  # fmt: skip
SORTS: tuple[str, ...] = get_args(JobSort)


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
        field, backwards = sort.removeprefix("-"), sort.startswith("-")
        if field == "status":
            found = await self._by_status(wanted, backwards, limit, offset)
        else:  # one more than the page shows whether there is a next page
            paging = JobQuery(order=_ORDERS[field], backwards=backwards, limit=limit + 1, offset=offset)
            found = await self._found(wanted, replace(paging, after=after or ""))
        shown = found.names[:limit]
        more = shown[-1] if sort == "name" and len(found.names) > limit else None
        return JobPage(await self._shown(shown), total_of(found.count), more)

    async def listed(
        self, wanted: JobFilter, *, sort: str = "name", limit: int | None = None, offset: int = 0, after: str | None
    ) -> JobPage:
        """One page; without a limit, all pages in one."""
        if limit is not None:
            return await self.page(wanted, sort=sort, limit=limit, offset=offset, after=after)
        found = await self.page(wanted, sort=sort, limit=MAX_PAGE, offset=offset, after=after)
        jobs, last = found.jobs, found.jobs
        while len(last) == MAX_PAGE:
            place = {"after": last[-1].name} if sort == "name" else {"offset": offset + len(jobs)}
            last = (await self.page(wanted, sort=sort, limit=MAX_PAGE, **place)).jobs
            jobs += last
        return JobPage(jobs, found.total)

    async def names(self, wanted: JobFilter, limit: int, after: str = "") -> list[str]:
        """The names of up to `limit` matching jobs after this name, in order."""
        return (await self._found(wanted, JobQuery(limit=limit, after=after))).names

    async def _found(self, wanted: JobFilter, paging: JobQuery) -> JobsFound:
        query = await self._query(wanted, paging)
        return JobsFound([], 0) if query is None else await self._store.find_jobs(query, COUNTED + 1)

    async def _by_status(self, wanted: JobFilter, backwards: bool, limit: int, offset: int) -> JobsFound:
        """One state after the other, by name: a state is derived, so no index is sorted by it."""
        names: list[str] = []
        count = 0
        for state in sorted(wanted.status or [state.value for state in JobState], reverse=backwards):
            place = JobQuery(limit=limit - len(names), offset=max(0, offset - count))
            found = await self._found(replace(wanted, status=(state,)), place)
            names, count = names + found.names, count + found.count
            if len(names) == limit and count > COUNTED:
                break
        return JobsFound(names, count)

    async def _shown(self, names: Sequence[str]) -> list[JobView]:
        """Views in the order of these names; jobs deleted meanwhile are left out."""
        found = {view.name: view for view in await self._queries.named(names)}
        return [found[name] for name in names if name in found]

    # --- what is asked of the store -----------------------------------------------------------------------
    async def _query(self, wanted: JobFilter, paging: JobQuery) -> JobQuery | None:
        """None when no job can match."""
        now = await self._store.now() if wanted.overdue else 0
        query = job_query(wanted, paging, now)
        if query is None:
            return None
        return query if wanted.orphaned is None else await self._orphaned(query, wanted.orphaned)

    async def _orphaned(self, query: JobQuery, wanted: bool) -> JobQuery | None:
        """A job of code is orphaned if no running process declares it; without any process, no job is."""
        workers = await self._queries.workers()
        if not workers or query.origin == "api":
            return None if wanted else query
        declared = frozenset(name for worker in workers for name in worker.declares)
        return replace(query, origin="code", without=declared) if wanted else replace(query, code_in=declared)
