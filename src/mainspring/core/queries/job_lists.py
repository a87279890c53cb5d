"""Lists of jobs: filtered, sorted, in pages. The store finds them by facts that are worked out here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from ...model.errors import InvalidValue
from ...model.execution import State
from ...model.job import JobState
from ...model.store.messages import JobFacts, JobOrder, JobQuery, JobsFound
from ...model.values.reading import choice, whole
from ..ports import Store
from ..rules.job_commands import facts_of
from ..views.job import JobView
from .queries import MAX_OFFSET, MAX_PAGE, Queries

COUNTED = 10_000
"""Counts are exact up to here; beyond it is "10000+"."""

Total: TypeAlias = int | str
_ORDERS: dict[str, JobOrder] = {
    "name": "name",
    "handler": "handler",
    "next_run_at": "next_run",
    "last_run_at": "last_started",
    "created_at": "created",
    "updated_at": "updated",
}
SORTS = tuple(sign + name for name in ("name", "status", *list(_ORDERS)[1:]) for sign in ("", "-"))


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Filters of a list of jobs; None filters nothing. `search` is part of a name, handler or description."""

    status: tuple[str, ...] | None = None
    handler: str | None = None
    queue: str | None = None
    origin: str | None = None
    last_status: str | None = None
    paused: bool | None = None
    orphaned: bool | None = None
    search: str | None = None


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
        facts = facts_wanted(wanted)
        if facts is None:
            return None
        query = replace(
            paging,
            any_of=facts,
            handler=wanted.handler,
            queue=wanted.queue,
            origin=wanted.origin,
            search=None if wanted.search is None else wanted.search.lower(),
        )
        return query if wanted.orphaned is None else await self._orphaned(query, wanted.orphaned)

    async def _orphaned(self, query: JobQuery, wanted: bool) -> JobQuery | None:
        """A job of code is orphaned if no running process declares it; without any process, no job is."""
        workers = await self._queries.workers()
        if not workers or query.origin == "api":
            return None if wanted else query
        declared = frozenset(name for worker in workers for name in worker.declares)
        return replace(query, origin="code", without=declared) if wanted else replace(query, code_in=declared)


def facts_wanted(wanted: JobFilter) -> tuple[JobFacts, ...] | None:
    """Alternatives of which a job has to meet one: empty when anything goes, None when no job can meet any."""
    if (wanted.status, wanted.paused, wanted.last_status) == (None, None, None):
        return ()
    last = None if wanted.last_status is None else frozenset({State(wanted.last_status)})
    states = [JobFacts()] if wanted.status is None else _of_states(wanted.status)
    return tuple(narrowed for facts in states for narrowed in _narrowed(facts, wanted.paused, last)) or None


def _of_states(names: Iterable[str]) -> list[JobFacts]:
    return [facts for name in dict.fromkeys(names) for facts in facts_of(JobState(name))]


def _narrowed(facts: JobFacts, paused: bool | None, last: frozenset[State | None] | None) -> list[JobFacts]:
    """The facts narrowed by the other filters; nothing when they contradict each other."""
    if paused is not None and facts.paused not in (None, paused):
        return []
    if last is not None and facts.last is not None and not last & facts.last:
        return []
    both = facts.last if last is None else last if facts.last is None else last & facts.last
    return [replace(facts, paused=facts.paused if paused is None else paused, last=both)]


def total_of(count: int) -> Total:
    return count if count <= COUNTED else f"{COUNTED}+"
